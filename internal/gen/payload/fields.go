package payload

import (
	"go/types"
	"reflect"
	"slices"
	"strings"
	"unicode"
)

// jsonField is a field of a struct as encoding/json sees it: its own, or one of
// a struct that it embeds.
type jsonField struct {
	name string
	path []*types.Var // from the struct, through embedded ones
	typ  types.Type
	at   place
	// redact says that its tag wants it hidden.
	redact bool
}

// tag is what a json struct tag says.
type tag struct {
	name    string
	ignored bool // json:"-"
	quoted  bool // the option string
}

// structure checks a struct: every field must be stored, under a name of its own.
func (c *Checker) structure(t types.Type, s *types.Struct, p place) {
	fields := c.fields(t, s, p)
	var kept []jsonField
	for _, f := range fields {
		switch i := slices.IndexFunc(kept, func(k jsonField) bool { return k.name == f.name }); {
		case i < 0:
			kept = append(kept, f)
		case f.redact && len(kept[i].path) < len(f.path):
			c.errorf(f.at, "task:\"redact\" has no effect: %s has its JSON name %q and is stored in its place; tag that field", join(kept[i].path), f.name)
		case len(kept[i].path) == len(f.path):
			c.errorf(f.at, "it has the JSON name %q, and so has %s: encoding/json stores neither or only one", f.name, join(kept[i].path))
		}
		// A field nearer to the struct hides one of the same name further down,
		// as in Go.
	}
	for i, f := range kept {
		if j := slices.IndexFunc(kept[:i], func(k jsonField) bool { return k.name != f.name && strings.EqualFold(k.name, f.name) }); j >= 0 {
			c.errorf(f.at, "its JSON name %q differs only by letter case from %q of %s: encoding/json may decode one into the other",
				f.name, kept[j].name, join(kept[j].path))
		}
	}
	for _, f := range kept {
		c.walk(f.typ, f.at)
	}
}

// level is a struct whose fields are looked through, with the way to it.
type level struct {
	s    *types.Struct
	path []*types.Var
	at   place
}

// fields lists what encoding/json stores of s, nearest first, and refuses what
// it would leave out.
func (c *Checker) fields(t types.Type, s *types.Struct, p place) []jsonField {
	var fields []jsonField
	visited := map[types.Type]bool{t: true}
	for next := []level{{s: s, at: p}}; len(next) > 0; {
		current := next
		next = nil
		var entered []types.Type
		for _, l := range current {
			for i := range l.s.NumFields() {
				field := l.s.Field(i)
				at := l.at.at(c, field)
				path := append(slices.Clone(l.path), field)
				tag, ok := c.tag(l.s.Tag(i), at)
				redact := c.redact(l.s.Tag(i), at)
				if !ok || tag.ignored {
					if redact && tag.ignored {
						c.errorf(at, "task:\"redact\" has no effect: json:\"-\" leaves the field out of the payload")
					}
					continue
				}
				embedded, isStruct := embeddedStruct(field)
				if !c.stored(field, isStruct, tag, at) {
					continue
				}
				if field.Embedded() && isStruct && tag.name == "" {
					if _, ok := types.Unalias(field.Type()).(*types.Pointer); ok {
						at.addressable = true
					}
					if visited[embedded] {
						continue // encoding/json enters a type once, too
					}
					entered = append(entered, embedded)
					if named, ok := embedded.(*types.Named); ok {
						c.reach(named)
					}
					next = append(next, level{embedded.Underlying().(*types.Struct), path, at})
					continue
				}
				name := tag.name
				if name == "" {
					name = field.Name()
				}
				fields = append(fields, jsonField{name, path, field.Type(), at, redact})
				switch {
				case !tag.quoted:
				case !quotable(field.Type()):
					c.errorf(at, "the option string of its json tag is for numbers and booleans")
				case c.marshals(field.Type()):
					c.errorf(at, "the option string of its json tag is for plain numbers and booleans: %s encodes itself without it, and is not decoded with it", c.TypeName(field.Type()))
				}
			}
		}
		for _, t := range entered {
			visited[t] = true
		}
	}
	return fields
}

// stored reports whether encoding/json stores a field at all, and says so where
// it does not.
func (c *Checker) stored(field *types.Var, isStruct bool, tag tag, at place) bool {
	if t := field.Type(); field.Embedded() && isStruct && (tag.name == "" || !field.Exported()) && c.marshals(t) {
		c.errorf(at, "%s is embedded, and encoding/json takes it apart instead of calling its methods: give it a field name", c.TypeName(t))
		return false
	}
	if field.Exported() {
		return true
	}
	_, pointer := types.Unalias(field.Type()).(*types.Pointer)
	switch {
	case field.Name() == "_":
		return false // holds nothing
	case field.Embedded() && isStruct && pointer:
		c.errorf(at, "an embedded pointer to an unexported struct cannot be decoded: embed it by value, or export it")
		return false
	case field.Embedded() && isStruct:
		return true
	}
	c.errorf(at, "an unexported field is never stored: export it, or tag it json:\"-\" to say so")
	return false
}

func (c *Checker) marshals(t types.Type) bool {
	if _, ok := types.Unalias(t).(*types.Pointer); !ok {
		t = types.NewPointer(t)
	}
	return implements(t, marshalJSON) || implements(t, marshalText)
}

// embeddedStruct returns the struct type that field, if embedded, is of or
// points to.
func embeddedStruct(field *types.Var) (types.Type, bool) {
	t := types.Unalias(field.Type())
	if ptr, ok := t.(*types.Pointer); ok {
		t = types.Unalias(ptr.Elem())
	}
	_, ok := t.Underlying().(*types.Struct)
	return t, ok
}

// tag reads the json tag of a field.
func (c *Checker) tag(text string, at place) (tag, bool) {
	value, ok := reflect.StructTag(text).Lookup("json")
	if !ok {
		if strings.Contains(text, "json:") {
			c.errorf(at, "its tag `%s` is malformed, and encoding/json takes no notice of it: write `json:\"name\"`", text)
		}
		return tag{}, true
	}
	if value == "-" {
		return tag{ignored: true}, true
	}
	name, rest, _ := strings.Cut(value, ",")
	if name == "-" {
		c.errorf(at, "json:\"-,\" names it \"-\": write json:\"-\" to leave it out, or another name")
		return tag{}, false
	}
	if !validName(name) {
		c.errorf(at, "%q is no name for encoding/json, which takes the field's own instead: use letters, digits and underscores", name)
		return tag{}, false
	}
	return tag{name: name, quoted: slices.Contains(strings.Split(rest, ","), "string")}, true
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
