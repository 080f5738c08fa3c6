package directive

import (
	"go/ast"
	"go/token"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/pawlgo/pawl/internal/gen/suggest"
)

// word is one argument and where it stands.
type word struct {
	text string
	pos  token.Pos
}

// args is what follows the name of a directive.
type args struct {
	pos   token.Pos // of the directive
	value word      // the positional value
	keys  map[string]word
}

// words splits the arguments of d at blanks.
func words(d ast.Directive) []word { return split(d.Args, d.ArgsPos) }

func split(text string, pos token.Pos) []word {
	var all []word
	start := -1
	for i, r := range text + " " {
		switch {
		case !unicode.IsSpace(r) && start < 0:
			start = i
		case unicode.IsSpace(r) && start >= 0:
			all = append(all, word{text[start:i], pos + token.Pos(start)})
			start = -1
		}
	}
	return all
}

// quoted takes the quoted value off the arguments of d and returns the words
// behind it.
func (r *reader) quoted(s Spec, d ast.Directive) (value word, rest []word, ok bool) {
	prefix, err := strconv.QuotedPrefix(d.Args)
	text, unquoteErr := strconv.Unquote(prefix)
	behind := strings.TrimPrefix(d.Args, prefix)
	switch {
	case err != nil, unquoteErr != nil, d.Args[0] != '"', behind != "" && !strings.HasPrefix(behind, " "):
		r.Errorf(d.ArgsPos, "//task:%s begins with text in double quotes: write %s", s.Name, s.Usage())
	case strings.TrimSpace(text) == "":
		r.Errorf(d.ArgsPos, "the text in quotes is empty: write %s", s.Usage())
	default:
		return word{text, d.ArgsPos}, split(behind, d.ArgsPos+token.Pos(len(prefix))), true
	}
	return word{}, nil, false
}

// arguments sorts out the words of a directive. It reports whether they are
// worth a look at their values.
func (r *reader) arguments(s Spec, d ast.Directive) (args, bool) {
	a := args{pos: d.Slash, keys: map[string]word{}}
	if d.Args == "" && s.Bare {
		return a, true
	}
	if d.Args == "" {
		r.Errorf(d.Slash, "//task:%s is empty: write %s", s.Name, s.Usage())
		return a, false
	}
	list, ok := words(d), true
	if s.Quoted {
		if a.value, list, ok = r.quoted(s, d); !ok {
			return a, false
		}
	}
	fail := func(pos token.Pos, format string, v ...any) {
		ok = false
		r.Errorf(pos, format, v...)
	}
	for i, w := range list {
		if at := strings.Index(w.text, "//"); at >= 0 {
			fail(w.pos+token.Pos(at), "a directive has no trailing comment: move it to a line of its own")
			return a, false
		}
		if at := strings.IndexAny(w.text, "\"'`"); at >= 0 {
			if s.Quoted {
				fail(w.pos+token.Pos(at), "//task:%s has quotes around its first value only", s.Name)
			} else {
				fail(w.pos+token.Pos(at), "//task:%s takes its values without quotes", s.Name)
			}
			return a, false
		}
		key, text, isKey := strings.Cut(w.text, "=")
		keyed := word{text, w.pos + token.Pos(len(key)+1)}
		next := ""
		if i+1 < len(list) {
			next = list[i+1].text
		}
		switch {
		case w.text == "=", isKey && key == "", !isKey && next == "=", isKey && text == "" && next != "" && !strings.Contains(next, "="):
			fail(w.pos, "write key=value, without blanks around the equals sign")
			return a, false
		case s.Value == "" && !isKey && i > 0 && (strings.HasSuffix(list[i-1].text, ",") || strings.HasPrefix(w.text, ",")):
			fail(w.pos, "write a list without blanks: A,B")
		case s.Value == "" && !isKey:
			fail(w.pos, "//task:%s takes key=value only: %s", s.Name, s.Usage())
		case s.Quoted && !isKey:
			fail(w.pos, "//task:%s takes key=value behind its first value: %s", s.Name, s.Usage())
		case s.Keyed && !isKey && i == 0:
			a.value = w
		case s.Keyed && !isKey:
			fail(w.pos, "//task:%s takes one value, before its keys: %q is too much", s.Name, w.text)
		case len(s.Keys) == 0 && isKey:
			fail(w.pos, "//task:%s takes one value and no keys: %s", s.Name, s.Usage())
		case len(s.Keys) == 0 && a.value.text != "":
			fail(w.pos, "//task:%s takes one value: %q is too much", s.Name, w.text)
		case len(s.Keys) == 0:
			a.value = w
		case !slices.Contains(s.Keys, key):
			fail(w.pos, "//task:%s has no key %q%s; it takes %s", s.Name, key, suggest.DidYouMean(key, s.Keys), strings.Join(s.Keys, ", "))
		case text == "":
			fail(keyed.pos, "%s= has no value", key)
		case a.keys[key].text != "":
			fail(w.pos, "%s= is given twice, first at %s", key, r.At(a.keys[key].pos-token.Pos(len(key)+1)))
		default:
			a.keys[key] = keyed
		}
	}
	if ok && s.Keyed && a.value.text == "" {
		fail(d.ArgsPos, "//task:%s begins with its %s: write %s", s.Name, s.Value, s.Usage())
	}
	return a, ok
}
