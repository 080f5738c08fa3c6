// Package shape describes what encoding/json makes of a Go type: the wire shape
// of a payload.
//
// A shape is what the lock records of a payload version. It holds enough to
// compare two versions by the rules of evolution, and to write the Go types of
// a version again after its source has changed. It is a value without pointers
// into the source: shapes of go/types, of reflect and of a lock file compare
// alike.
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
	Opaque Kind = "opaque" // encodes itself: Ref is its import path, a dot and its name
	Raw    Kind = "raw"    // json.RawMessage
)

// Shape is the wire shape of one payload.
type Shape struct {
	// Root is the payload itself.
	Root Node `json:"root"`
	// Structs are the structs that Root reaches, by name, so that recursion has
	// an end. A name is that of the Go type where it is one of the payload's
	// package, and for every other, and every instantiation or anonymous struct,
	// one derived in a way that does not depend on the order of the source.
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
// dissolved into their fields, in the order of the source.
type Object struct {
	Fields []Field `json:"fields"`
}

// Field is one member of an object.
type Field struct {
	JSON      string `json:"json"` // the name on the wire
	Go        string `json:"go"`   // the name in Go
	Type      Node   `json:"type"`
	OmitEmpty bool   `json:"omitempty,omitempty"`
	OmitZero  bool   `json:"omitzero,omitempty"`
	Quoted    bool   `json:"quoted,omitempty"` // the option ",string"
}
