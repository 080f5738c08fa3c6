package shape

import (
	"encoding/json"
	"go/types"
	"maps"
	"reflect"
	"slices"
)

// Member returns the name under which encoding/json stores a field of the struct
// t in the object that t becomes. The field is given by its place in t, as by
// [types.LookupFieldOrMethod]. Member reports false where t becomes no object, and
// where the field is not stored, or in an object of its own.
func Member(t types.Type, field []int) (string, bool) {
	v := typeOf(t)
	if v.kind() != reflect.Struct || encodesItself(v) {
		return "", false
	}
	for _, c := range fieldsOf(v) {
		if slices.Equal(c.index, field) {
			return c.JSON, true
		}
	}
	return "", false
}

// Member returns the canonical text of an object that has one member of s and
// nothing else: all that decides what is stored in it, omitempty included, which
// decides whether something is. Integers are alike, since equal numbers are the
// same text. It is nil where s has no such member.
func (s *Shape) Member(name string) json.RawMessage {
	for _, f := range s.Structs[s.Root.Ref].Fields {
		if f.JSON != name {
			continue
		}
		if isInteger(f.Type.Kind) {
			f.Type.Kind = Int64
		}
		const alone = "" // no struct has this name
		structs := maps.Clone(s.Structs)
		structs[alone] = Object{Fields: []Field{f}}
		return (&Shape{Root: Node{Kind: Struct, Ref: alone}, Structs: structs}).Canonical()
	}
	return nil
}

func isInteger(k Kind) bool {
	switch k {
	case Int, Int8, Int16, Int32, Int64, Uint, Uint8, Uint16, Uint32, Uint64, Uintptr:
		return true
	}
	return false
}
