package shape

import (
	"go/types"
	"reflect"
	"slices"
)

// The tag of a field that is not to be shown to people. It is no part of the wire
// form, and so of no shape.
const (
	RedactKey   = "task"
	RedactValue = "redact"
)

// Redacted returns the paths of the members of a payload that are tagged so, sorted.
// A step is the name of a member, which is never empty, or an empty text for every
// element of an array or value of an object. Where a type contains itself, what is
// in there again is hidden as a whole.
//
// Like [FromType], it expects a type that has passed the checks of package payload.
func Redacted(t types.Type) [][]string {
	r := redactor{}
	r.walk(typeOf(t), nil, nil)
	slices.SortFunc(r.paths, slices.Compare)
	var paths [][]string
	for _, p := range r.paths {
		// What another path hides already needs none of its own.
		if n := len(paths); n == 0 || len(p) < len(paths[n-1]) || !slices.Equal(p[:len(paths[n-1])], paths[n-1]) {
			paths = append(paths, p)
		}
	}
	return paths
}

type redactor struct{ paths [][]string }

// walk adds the paths in v, which is at path, inside of the structs within.
func (r *redactor) walk(v view, path []string, within []any) {
	inside := func(step string) []string { return append(slices.Clone(path), step) }
	kind := v.kind()
	switch {
	case kind == reflect.Pointer:
		r.walk(v.elem(), path, within)
	case kind == reflect.Interface || encodesItself(v):
	case kind == reflect.Slice && isBytes(v):
	case kind == reflect.Slice, kind == reflect.Array, kind == reflect.Map:
		if _, name := v.name(); name != "" {
			if slices.Contains(within, v.id()) {
				return // no shape either
			}
			within = append(slices.Clone(within), v.id())
		}
		r.walk(v.elem(), inside(""), within)
	case kind == reflect.Struct:
		if slices.Contains(within, v.id()) {
			if redacts(v, map[any]bool{}) {
				r.paths = append(r.paths, path)
			}
			return
		}
		within = append(slices.Clone(within), v.id())
		for _, c := range fieldsOf(v) {
			if c.redact {
				r.paths = append(r.paths, inside(c.JSON))
			} else {
				r.walk(c.typ, inside(c.JSON), within)
			}
		}
	}
}

// redacts reports whether something in v is not to be shown.
func redacts(v view, seen map[any]bool) bool {
	switch kind := v.kind(); {
	case kind == reflect.Pointer:
		return redacts(v.elem(), seen)
	case kind == reflect.Interface || encodesItself(v):
		return false
	case kind == reflect.Slice, kind == reflect.Array, kind == reflect.Map:
		if _, name := v.name(); name != "" {
			if seen[v.id()] {
				return false
			}
			seen[v.id()] = true
		}
		return redacts(v.elem(), seen)
	case kind == reflect.Struct:
		if seen[v.id()] {
			return false
		}
		seen[v.id()] = true
		return slices.ContainsFunc(fieldsOf(v), func(c candidate) bool { return c.redact || redacts(c.typ, seen) })
	}
	return false
}
