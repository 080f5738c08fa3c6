package directive

import (
	"cmp"
	"go/ast"
	"go/token"
	"regexp"
	"slices"
	"strings"

	"github.com/pawlgo/pawl/internal/gen/suggest"
)

// lookalike is a line of a comment that somebody may have meant as a directive.
type lookalike struct {
	name string // of the directive that it resembles
	pos  token.Pos
}

var (
	// A marker, a word, a separator, and the word that would be the directive's
	// name.
	lookalikePattern = regexp.MustCompile(`^([/*!@+#\s-]*)(\w+)(\s*[:.=/-]\s*|\s+)(\w+)`)
	lineStart        = regexp.MustCompile(`(?m)^`)
)

// lookalikes finds them in one comment of a declaration.
func lookalikes(c *ast.Comment) []lookalike {
	var found []lookalike
	if strings.HasPrefix(c.Text, "//") {
		if name := resembles(c.Text[2:]); name != "" {
			found = append(found, lookalike{name, c.Slash})
		}
		return found
	}
	for _, at := range lineStart.FindAllStringIndex(c.Text, -1) {
		line, _, _ := strings.Cut(c.Text[at[0]:], "\n")
		if at[0] == 0 {
			line = line[2:]
		}
		if name := resembles(strings.TrimSuffix(line, "*/")); name != "" {
			found = append(found, lookalike{name, c.Slash + token.Pos(at[0]+indent(c.Text[at[0]:]))})
		}
	}
	return found
}

func indent(s string) int { return len(s) - len(strings.TrimLeft(s, " \t")) }

// resembles returns the directive that the text of a comment line resembles, or
// "". Prose that begins with "task" has to stay possible, so the further a line
// is from a directive in one respect, the closer it has to be in the others.
func resembles(text string) string {
	m := lookalikePattern.FindStringSubmatch(text)
	if m == nil || strings.Contains(m[1], "//") && strings.ContainsAny(m[1][:1], " \t") {
		return "" // the second is a directive that was commented out, or an example
	}
	marker, tool, separator, name := m[1], strings.ToLower(m[2]), m[3], strings.ToLower(m[4])
	all := names()
	exact := slices.Contains(all, name)
	near := suggest.Near(name, all)
	blankBefore := strings.ContainsAny(marker, " \t")
	misspelled := tool != Tool && (tool == "pawl" || suggest.Distance(tool, Tool) <= 2)
	sign := strings.TrimSpace(separator)
	tight := sign == separator // no blanks around the colon
	switch {
	case tool == Tool && sign == "": // "task queue": only where no blank makes it prose
		if exact && !blankBefore {
			return name
		}
	case tool == Tool && exact:
		return name
	case tool == Tool && sign == ":" && tight:
		return cmp.Or(near, "NAME")
	case misspelled && sign == ":" && (tight && exact || !blankBefore && near != ""):
		return near
	}
	return ""
}
