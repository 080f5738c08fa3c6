package shape

import (
	"cmp"
	"reflect"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// candidate is a field that encoding/json may store: one of the struct's own, or
// one of a struct that it embeds.
type candidate struct {
	Field
	typ    view
	path   []string // the Go names from the struct through embedded ones
	index  []int    // the same as positions
	tagged bool
	redact bool // it, or a struct that it is embedded by, is not to be shown
}

// fieldsOf lists what encoding/json stores of a struct: the fields of embedded
// structs in place of these, and of several with one name the nearest, the
// tagged one before the others, and none where that does not decide.
func fieldsOf(s view) []candidate {
	var all []candidate
	type level struct {
		s      view
		path   []string
		index  []int
		redact bool
	}
	visited := map[any]bool{}
	next := []level{{s: s}}
	count := map[any]int{}
	for len(next) > 0 {
		current, times := next, count
		next, count = nil, map[any]int{}
		for _, l := range current {
			if visited[l.s.id()] {
				continue
			}
			visited[l.s.id()] = true
			for i, m := range l.s.members() {
				if !considered(m) {
					continue
				}
				value := m.tag.Get("json")
				if value == "-" {
					continue
				}
				name, rest, _ := strings.Cut(value, ",")
				if !validName(name) {
					name = ""
				}
				path := append(slices.Clone(l.path), m.name)
				index := append(slices.Clone(l.index), i)
				target := deref(m.typ)
				redact := l.redact || m.tag.Get(RedactKey) == RedactValue
				if name == "" && m.embedded && target.kind() == reflect.Struct {
					if count[target.id()]++; count[target.id()] == 1 {
						next = append(next, level{target, path, index, redact})
					}
					continue
				}
				options := strings.Split(rest, ",")
				c := candidate{
					Field: Field{
						JSON:      cmp.Or(name, m.name),
						OmitEmpty: slices.Contains(options, "omitempty"),
						OmitZero:  slices.Contains(options, "omitzero"),
						Quoted:    slices.Contains(options, "string") && quotable(target.kind()),
					},
					typ: m.typ, path: path, index: index, tagged: name != "", redact: redact,
				}
				all = append(all, c)
				if times[l.s.id()] > 1 {
					// The struct is embedded more than once on this level, and so
					// hides its own fields.
					all = append(all, c)
				}
			}
		}
	}
	kept := dominant(all)
	nameInGo(kept)
	return kept
}

// considered reports whether encoding/json looks at a field at all: an unexported
// one holds something only where it is an embedded struct.
func considered(m member) bool {
	if m.exported {
		return true
	}
	t := m.typ
	if m.embedded && t.kind() == reflect.Pointer {
		t = t.elem()
	}
	return m.embedded && t.kind() == reflect.Struct
}

// dominant keeps of each JSON name the field that encoding/json stores, if any,
// in the order of the source.
func dominant(all []candidate) []candidate {
	groups := map[string][]candidate{}
	for _, c := range all {
		groups[c.JSON] = append(groups[c.JSON], c)
	}
	rank := func(a, b candidate) int {
		if c := cmp.Compare(len(a.index), len(b.index)); c != 0 || a.tagged == b.tagged {
			return c
		}
		if a.tagged {
			return -1
		}
		return 1
	}
	var kept []candidate
	for _, group := range groups {
		slices.SortStableFunc(group, rank)
		if len(group) == 1 || rank(group[0], group[1]) != 0 {
			kept = append(kept, group[0])
		}
	}
	slices.SortFunc(kept, func(a, b candidate) int { return slices.Compare(a.index, b.index) })
	return kept
}

// nameInGo gives each field a Go name that is exported and its own, as in a
// struct that has them all as fields of itself. A field keeps its name where no
// other has it, or where the others are further down.
func nameInGo(fields []candidate) {
	taken := map[string]bool{}
	claim := func(i int, name string) bool {
		if taken[name] {
			return false
		}
		taken[name] = true
		fields[i].Go = name
		return true
	}
	var order []int // does not depend on the order of the source
	for i := range fields {
		order = append(order, i)
	}
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(len(fields[a].path), len(fields[b].path)), cmp.Compare(fields[a].JSON, fields[b].JSON))
	})
	last := func(i int) string { return exported(fields[i].path[len(fields[i].path)-1]) }
	for _, i := range order {
		alike := slices.ContainsFunc(order, func(j int) bool {
			return j != i && len(fields[j].path) == len(fields[i].path) && last(j) == last(i)
		})
		if !alike && claim(i, last(i)) {
			continue
		}
		var whole strings.Builder
		for _, step := range fields[i].path {
			whole.WriteString(exported(step))
		}
		name := whole.String()
		for !claim(i, name) {
			name += "X"
		}
	}
}

// exported makes an exported name of a Go identifier.
func exported(name string) string {
	first, size := utf8.DecodeRuneInString(name)
	if upper := unicode.ToUpper(first); unicode.IsUpper(upper) {
		return string(upper) + name[size:]
	}
	return "X" + name
}

func quotable(k reflect.Kind) bool {
	return k == reflect.String || k >= reflect.Bool && k <= reflect.Float64
}

// validName reports whether encoding/json takes a name from a tag. The empty one
// stands for the field's own.
func validName(name string) bool {
	for _, r := range name {
		if !strings.ContainsRune("!#$%&()*+-./:;<=>?@[]^_{|}~ ", r) && !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			return false
		}
	}
	return true
}
