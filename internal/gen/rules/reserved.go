package rules

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/pawlgo/pawl/internal/gen/shape"
)

// Reserved is what a removed field was when it went.
type Reserved struct {
	Field   shape.Field             `json:"field"`
	Structs map[string]shape.Object `json:"structs,omitempty"` // those that its type reaches
}

// Removed returns the fields whose JSON names are in use no more, by path as in
// [Finding]. Those names are to stay reserved, so that nobody gives an old value
// a new meaning.
func Removed(old, new *shape.Shape) map[string]Reserved {
	removed := map[string]Reserved{}
	for _, g := range compare(old, new).gone {
		removed[g.path] = Reserved{Field: g.field, Structs: old.Sub(g.field.Type).Structs}
	}
	return removed
}

// CompareReserved looks for reserved names, by path, that the new shape uses
// again, and judges each: with the wire form that it had it is harmless, with any
// other, or in another letter case, it is not. Sorted by path.
func CompareReserved(reserved map[string]Reserved, new *shape.Shape) []Finding {
	c := &comparison{new: new}
	for _, path := range slices.Sorted(maps.Keys(reserved)) {
		r := reserved[path]
		f, ok := fieldAt(new, path, r.Field.JSON)
		if !ok {
			continue
		}
		c.old = &shape.Shape{Structs: r.Structs}
		if f.JSON == r.Field.JSON && c.alike(r.Field, f) {
			c.add("reserved-name-restored", path, "it has the type %s as before it was removed", spell(f.Type))
		} else {
			c.add("reserved-name-reused", path, "%q had the type %s before it was removed, and %q has %s", r.Field.JSON, spell(r.Field.Type), f.JSON, spell(f.Type))
		}
	}
	return c.findings
}

// fieldAt finds the field that path leads to and that has the name, in any letter
// case.
func fieldAt(s *shape.Shape, path, name string) (shape.Field, bool) {
	at := s.Root
	parent := strings.TrimSuffix(strings.TrimSuffix(path, escape.Replace(name)), ".")
	for rest := parent; rest != ""; {
		at = deref(at)
		if into, ok := strings.CutPrefix(rest, "[]"); ok {
			if !isList(at.Kind) {
				return shape.Field{}, false
			}
			at, rest = element(at), strings.TrimPrefix(into, ".")
			continue
		}
		if into, ok := strings.CutPrefix(rest, "{}"); ok {
			if at.Kind != shape.Map {
				return shape.Field{}, false
			}
			at, rest = *at.Elem, strings.TrimPrefix(into, ".")
			continue
		}
		end := cmp.Or(strings.IndexAny(rest, ".[{")+1, len(rest)+1) - 1
		f, ok := lookIn(s, at, func(f shape.Field) bool { return escape.Replace(f.JSON) == rest[:end] })
		if !ok {
			return f, false
		}
		at, rest = f.Type, strings.TrimPrefix(rest[end:], ".")
	}
	return lookIn(s, at, func(f shape.Field) bool { return strings.EqualFold(f.JSON, name) })
}

// lookIn finds a field of the object that n is, behind any pointers.
func lookIn(s *shape.Shape, n shape.Node, is func(shape.Field) bool) (shape.Field, bool) {
	n = deref(n)
	if n.Kind != shape.Struct {
		return shape.Field{}, false
	}
	fields := s.Structs[n.Ref].Fields
	i := slices.IndexFunc(fields, is)
	if i < 0 {
		return shape.Field{}, false
	}
	return fields[i], true
}
