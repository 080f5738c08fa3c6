// Package shape describes what encoding/json makes of a Go type: the wire shape
// of a payload.
//
// A shape is what the lock records of a payload version. It holds enough to
// compare two versions by the rules of evolution, and to write the Go types of
// a version again after its source has changed. It is a value without pointers
// into the source: shapes of go/types, of reflect and of a lock file compare
// alike.
//
//	s, err := shape.FromType(args, pkg, modules) // from source
//	...
//	var stored shape.Shape                       // from a lock
//	if err := json.Unmarshal(raw, &stored); err != nil { ... }
//	if err := stored.Validate(); err != nil { ... }
//	if shape.Equal(s, &stored) { ... }           // the wire form is the same
//
// Two shapes that differ in names of Go, in the order of fields or in how structs
// share their parts have one wire form, and so one [Shape.Canonical] text, which
// a version's identity is made from.
//
// The shape of a type that encodes itself is its name: what its methods write
// cannot be known. A type that only decodes itself is taken for one too, since it
// may refuse what its structure would take, and so is json.Number, which is a
// string in Go and a number on the wire.
package shape

// Kind says what a node is on the wire and in Go.
type Kind string

// The kinds of nodes. A named type without a marshaler has the kind of its
// underlying type.
const (
	Bool    Kind = "bool"
	Int     Kind = "int"
	Int8    Kind = "int8"
	Int16   Kind = "int16"
	Int32   Kind = "int32"
	Int64   Kind = "int64"
	Uint    Kind = "uint"
	Uint8   Kind = "uint8"
	Uint16  Kind = "uint16"
	Uint32  Kind = "uint32"
	Uint64  Kind = "uint64"
	Uintptr Kind = "uintptr"
	Float32 Kind = "float32"
	Float64 Kind = "float64"
	String  Kind = "string"
	Bytes   Kind = "bytes" // a slice of uint8: base64 text

	Slice   Kind = "slice"   // Elem
	Array   Kind = "array"   // Elem, Len
	Map     Kind = "map"     // Key, Elem
	Pointer Kind = "pointer" // Elem

	Struct Kind = "struct" // Ref names it in Shape.Structs
	Opaque Kind = "opaque" // encodes itself: Ref is its import path, a dot and its name with type arguments
	Raw    Kind = "raw"    // json.RawMessage
)

// Shape is the wire shape of one payload.
type Shape struct {
	// Root is the payload itself.
	Root Node `json:"root"`
	// Structs are the structs that Root reaches, by name, so that recursion has
	// an end. A type of the payload's package has its own name, with any type
	// arguments, such as "Retry" and "Batch[Item]"; one of another package has that
	// package's path before it, as in "example.com/geo.Point"; and a struct without
	// a name has that of the struct it stands in, a slash and the Go name of the
	// field, as in "Retry/Limits".
	Structs map[string]Object `json:"structs,omitempty"`
}

// Node is one value on the wire.
type Node struct {
	Kind Kind   `json:"kind"`
	Elem *Node  `json:"elem,omitempty"`
	Key  *Node  `json:"key,omitempty"`
	Len  int    `json:"len,omitempty"`
	Ref  string `json:"ref,omitempty"`
	// Module is of an opaque type from another module: that module's path and
	// version, since its wire form can change with it.
	Module string `json:"module,omitempty"`
}

// Object is a struct: its fields as encoding/json sees them, embedded structs
// dissolved into their fields, in the order of the source. JSON names and Go
// names are each unique in an object.
type Object struct {
	Fields []Field `json:"fields"`
}

// Field is one member of an object.
type Field struct {
	JSON      string `json:"json"` // the name on the wire
	Go        string `json:"go"`   // the name in Go, always an exported one
	Type      Node   `json:"type"`
	OmitEmpty bool   `json:"omitempty,omitempty"`
	OmitZero  bool   `json:"omitzero,omitempty"`
	Quoted    bool   `json:"quoted,omitempty"` // the option ",string"
}
