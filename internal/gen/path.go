package gen

import (
	"go/types"
	"net/url"
	"reflect"
	"strings"
)

// step is one step of a path of package rules.
type step struct {
	field string // a JSON name; "" for what follows
	sign  string // "[]", "{}" or "{key}"
}

// cutStep takes the first step off a path.
func cutStep(path string) (first step, rest string) {
	for _, sign := range []string{"[]", "{}", "{key}"} {
		if rest, ok := strings.CutPrefix(path, sign); ok {
			return step{sign: sign}, strings.TrimPrefix(rest, ".")
		}
	}
	end := strings.IndexAny(path, ".[{")
	if end <= 0 {
		end = len(path)
	}
	name, err := url.PathUnescape(path[:end])
	if err != nil {
		name = path[:end]
	}
	return step{field: name}, strings.TrimPrefix(path[end:], ".")
}

// in takes the step in t. It returns the field where the step is to one, and a
// nil type where t has nothing there.
func (s step) in(t types.Type) (*types.Var, types.Type) {
	t = behind(t)
	switch u := t.Underlying().(type) {
	case *types.Slice:
		if s.sign == "[]" {
			return nil, u.Elem()
		}
	case *types.Array:
		if s.sign == "[]" {
			return nil, u.Elem()
		}
	case *types.Map:
		switch s.sign {
		case "{}":
			return nil, u.Elem()
		case "{key}":
			return nil, u.Key()
		}
	case *types.Struct:
		if field := jsonField(u, s.field, map[types.Type]bool{}); field != nil {
			return field, field.Type()
		}
	}
	return nil, nil
}

// place is a field and what of a path is left behind it: the elements of a list,
// the keys of a map.
type place struct {
	field *types.Var
	rest  string
}

// fieldAt returns the place that a path leads to in t, or nil where there is no
// such thing, or no field on the way.
func fieldAt(t types.Type, path string) any {
	var at place
	for rest := path; rest != ""; {
		var s step
		s, rest = cutStep(rest)
		field, next := s.in(t)
		if next == nil {
			return nil
		}
		if t = next; field != nil {
			at = place{field.Origin(), rest} // one for all instances of a generic type
		}
	}
	if at.field == nil {
		return nil
	}
	return at
}

// behind looks through pointers.
func behind(t types.Type) types.Type {
	for range 8 { // a pointer type can point to itself
		p, ok := t.Underlying().(*types.Pointer)
		if !ok {
			break
		}
		t = p.Elem()
	}
	return t
}

// jsonField finds the field that is stored under name: one of the struct's own,
// or else one of a struct that it embeds.
func jsonField(s *types.Struct, name string, seen map[types.Type]bool) *types.Var {
	if name == "" || seen[s] {
		return nil
	}
	seen[s] = true
	var embedded []*types.Struct
	for i := range s.NumFields() {
		f := s.Field(i)
		tag, _, _ := strings.Cut(reflect.StructTag(s.Tag(i)).Get("json"), ",")
		inner, isStruct := behind(f.Type()).Underlying().(*types.Struct)
		switch {
		case tag == "-":
		case tag == "" && f.Embedded() && isStruct:
			embedded = append(embedded, inner)
		case tag == name, tag == "" && f.Name() == name:
			return f
		}
	}
	for _, inner := range embedded {
		if f := jsonField(inner, name, seen); f != nil {
			return f
		}
	}
	return nil
}
