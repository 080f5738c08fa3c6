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

// A marker, a word, a separator, and the word that would be the directive's name.
var lookalikePattern = regexp.MustCompile(`^([/*!@+#\s-]*)(\w+)(\s*[:.=/-]\s*|\s+)(\w+)`)

// lookalikes finds them in one comment of a declaration.
func lookalikes(c *ast.Comment, lineStart func(token.Pos, int) token.Pos) []lookalike {
	if text, ok := strings.CutPrefix(c.Text, "//"); ok {
		if name := resembles(text); name != "" {
			return []lookalike{{name, c.Slash}}
		}
		return nil
	}
	var found []lookalike
	text := strings.TrimSuffix(strings.TrimPrefix(c.Text, "/*"), "*/")
	for i, line := range strings.Split(text, "\n") {
		name := resembles(line)
		switch {
		case name == "":
		case i == 0:
			found = append(found, lookalike{name, c.Slash})
		default:
			found = append(found, lookalike{name, lineStart(c.Slash, i) + token.Pos(indent(line))})
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
	if m == nil && strings.HasPrefix(text, Tool+":") {
		return "NAME" // nothing, or a sign, where the name would be
	}
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
