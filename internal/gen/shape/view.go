package shape

import "reflect"

// view is a type as the builder looks at it, so that the shapes of go/types and
// of reflect come from the same code.
type view interface {
	// id is comparable, and equal for identical types.
	id() any
	kind() reflect.Kind
	// name is the package path and the name, with any type arguments; both are
	// empty for a type without a name, and the path for a predeclared one.
	name() (path, name string)
	elem() view
	key() view
	length() int
	members() []member
	// has reports whether the type itself, or a pointer to it where addressed is
	// set, has the method.
	has(m method, addressed bool) bool
}

// member is a field of a struct as it is declared.
type member struct {
	name     string
	exported bool
	embedded bool
	tag      reflect.StructTag
	typ      view
}

// method is one that encoding/json looks for.
type method int

const (
	marshalJSON method = iota
	marshalText
	unmarshalJSON
	unmarshalText
)

// encodesItself reports whether the wire form of v is not that of its structure,
// in either direction: a type that only decodes itself may refuse what its
// structure would take.
func encodesItself(v view) bool {
	for m := marshalJSON; m <= unmarshalText; m++ {
		if v.has(m, true) {
			return true
		}
	}
	return false
}

// keyEncodesItself is [encodesItself] for the keys of a map, of which
// encoding/json asks the text methods only, and encodes those that are strings
// as they are.
func keyEncodesItself(v view) bool {
	return v.has(unmarshalText, true) || v.kind() != reflect.String && v.has(marshalText, false)
}

// isBytes reports whether v, a slice, is encoded as base64 text.
func isBytes(v view) bool {
	e := v.elem()
	return e.kind() == reflect.Uint8 && !e.has(marshalJSON, true) && !e.has(marshalText, true)
}

// deref follows one pointer, as encoding/json does where it looks at a field: a
// pointer type with a name of its own stays.
func deref(v view) view {
	if _, name := v.name(); name == "" && v.kind() == reflect.Pointer {
		return v.elem()
	}
	return v
}
