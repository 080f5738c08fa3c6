// Package diff writes the difference of two texts for people: as a unified diff.
package diff

import (
	"fmt"
	"strings"
)

// context is how many equal lines stand around a change.
const context = 3

// tooMuch bounds the table of the comparison; beyond it everything between the
// first and the last difference counts as changed.
const tooMuch = 1 << 24

// edit is one line of the comparison: ' ', '-' or '+'.
type edit struct {
	sign byte
	text string
}

// Unified returns the diff from one text to another under the names that head it,
// and the line of the first difference in the old text. It is empty where the
// texts are equal.
func Unified(oldName, newName, old, new string) (diff string, line int) {
	if old == new {
		return "", 0
	}
	edits := compare(lines(old), lines(new))
	var out strings.Builder
	fmt.Fprintf(&out, "--- %s\n+++ %s\n", oldName, newName)
	oldLine, newLine := 1, 1 // of edits[i]
	for i := 0; i < len(edits); {
		if edits[i].sign == ' ' {
			i, oldLine, newLine = i+1, oldLine+1, newLine+1
			continue
		}
		if line == 0 {
			line = oldLine
		}
		start := max(i-context, 0)
		end := hunkEnd(edits, i)
		oldCount, newCount := count(edits[start:end])
		before := i - start
		fmt.Fprintf(&out, "@@ -%s +%s @@\n", span(oldLine-before, oldCount), span(newLine-before, newCount))
		for _, e := range edits[start:end] {
			out.WriteByte(e.sign)
			out.WriteString(e.text)
			if !strings.HasSuffix(e.text, "\n") {
				out.WriteString("\n\\ No newline at end of file\n")
			}
		}
		oldLine, newLine = oldLine-before+oldCount, newLine-before+newCount
		i = end
	}
	return out.String(), line
}

// hunkEnd returns where the hunk ends that has a change at i: changes with few
// equal lines between them share one.
func hunkEnd(edits []edit, i int) int {
	end, equal := i, 0
	for ; i < len(edits) && equal <= 2*context; i++ {
		if equal++; edits[i].sign != ' ' {
			end, equal = i+1, 0
		}
	}
	return min(end+context, len(edits))
}

func count(edits []edit) (old, new int) {
	for _, e := range edits {
		if e.sign != '+' {
			old++
		}
		if e.sign != '-' {
			new++
		}
	}
	return old, new
}

// span writes a range of lines: an empty one is named by the line before it.
func span(start, count int) string {
	switch count {
	case 0:
		return fmt.Sprintf("%d,0", start-1)
	case 1:
		return fmt.Sprint(start)
	}
	return fmt.Sprintf("%d,%d", start, count)
}

func lines(text string) []string {
	all := strings.SplitAfter(text, "\n")
	if all[len(all)-1] == "" {
		all = all[:len(all)-1]
	}
	return all
}

// compare finds the longest common subsequence.
func compare(old, new []string) []edit {
	var edits, tail []edit
	for len(old) > 0 && len(new) > 0 && old[0] == new[0] {
		edits = append(edits, edit{' ', old[0]})
		old, new = old[1:], new[1:]
	}
	for len(old) > 0 && len(new) > 0 && old[len(old)-1] == new[len(new)-1] {
		tail = append(tail, edit{' ', old[len(old)-1]})
		old, new = old[:len(old)-1], new[:len(new)-1]
	}
	var common [][]int32 // of old[i:] and new[j:]
	if (len(old)+1)*(len(new)+1) <= tooMuch {
		common = make([][]int32, len(old)+1)
		for i := len(old); i >= 0; i-- {
			common[i] = make([]int32, len(new)+1)
			for j := len(new) - 1; j >= 0 && i < len(old); j-- {
				common[i][j] = max(common[i+1][j], common[i][j+1])
				if old[i] == new[j] {
					common[i][j] = common[i+1][j+1] + 1
				}
			}
		}
	}
	i, j := 0, 0
	for i < len(old) || j < len(new) {
		switch {
		case common != nil && i < len(old) && j < len(new) && old[i] == new[j]:
			edits = append(edits, edit{' ', old[i]})
			i, j = i+1, j+1
		case i < len(old) && (j == len(new) || common == nil || common[i+1][j] >= common[i][j+1]):
			edits = append(edits, edit{'-', old[i]})
			i++
		default:
			edits = append(edits, edit{'+', new[j]})
			j++
		}
	}
	for i := len(tail) - 1; i >= 0; i-- {
		edits = append(edits, tail[i])
	}
	return edits
}
