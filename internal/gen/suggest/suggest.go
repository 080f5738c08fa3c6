// Package suggest finds what somebody meant by a misspelled name.
package suggest

import "strings"

// Near returns the candidate that is closest to name, or "" where none is close
// enough to be worth a question. Letter case does not count as a difference.
func Near(name string, candidates []string) string {
	best, bestDistance := "", 0
	for _, c := range candidates {
		d := Distance(strings.ToLower(name), strings.ToLower(c))
		if d > max(1, (len(c)+1)/3) || d >= len(c) {
			continue
		}
		if best == "" || d < bestDistance {
			best, bestDistance = c, d
		}
	}
	return best
}

// DidYouMean returns the question that goes into a message, with a leading
// blank, or "".
func DidYouMean(name string, candidates []string) string {
	if near := Near(name, candidates); near != "" {
		return " (did you mean " + near + "?)"
	}
	return ""
}

// Distance counts the letters to insert, delete, replace or swap with their
// neighbour to get from a to b.
func Distance(a, b string) int {
	s, t := []rune(a), []rune(b)
	var before, last []int // the two rows above the current one
	row := make([]int, len(t)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(s); i++ {
		before, last, row = last, row, make([]int, len(t)+1)
		row[0] = i
		for j := 1; j <= len(t); j++ {
			cost := 1
			if s[i-1] == t[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && s[i-1] == t[j-2] && s[i-2] == t[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
	}
	return row[len(t)]
}
