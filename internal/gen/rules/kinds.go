package rules

import (
	"fmt"

	"github.com/pawlgo/pawl/internal/gen/shape"
)

// number says which values a kind of numbers holds.
type number struct {
	signed, float bool
	// least and most are the bits of the value, which differ where the platform
	// decides; of a float, the bits of integers that it holds without a gap.
	least, most int
}

var numbers = map[shape.Kind]number{
	shape.Int:     {signed: true, least: 32, most: 64},
	shape.Int8:    {signed: true, least: 8, most: 8},
	shape.Int16:   {signed: true, least: 16, most: 16},
	shape.Int32:   {signed: true, least: 32, most: 32},
	shape.Int64:   {signed: true, least: 64, most: 64},
	shape.Uint:    {least: 32, most: 64},
	shape.Uint8:   {least: 8, most: 8},
	shape.Uint16:  {least: 16, most: 16},
	shape.Uint32:  {least: 32, most: 32},
	shape.Uint64:  {least: 64, most: 64},
	shape.Uintptr: {least: 32, most: 64},
	shape.Float32: {float: true, least: 24, most: 24},
	shape.Float64: {float: true, least: 53, most: 53},
}

// different returns the id of the rule for two kinds of which at least one has no
// parts, and the empty string where they are the same on the wire.
func different(o, n shape.Kind) string {
	was, wasNumber := numbers[o]
	is, isNumber := numbers[n]
	switch {
	case o == n, wasNumber && isNumber && was == is:
		return ""
	case wasNumber && isNumber:
		return differentNumbers(was, is)
	case !isScalar(o) || !isScalar(n):
		switch {
		case o == shape.Map && n == shape.Struct:
			return "map-to-struct"
		case o == shape.Struct && n == shape.Map:
			return "struct-to-map"
		case o == shape.Bytes && n == shape.String:
			return "bytes-to-string"
		case o == shape.String && n == shape.Bytes:
			return "string-to-bytes"
		}
		return "structure-changed"
	case o == shape.Bool || n == shape.Bool:
		return "bool-changed"
	case n == shape.String:
		return "number-to-string"
	}
	return "string-to-number"
}

func differentNumbers(was, is number) string {
	switch {
	case was.float && is.float && was.most <= is.least:
		return "float-widened"
	case was.float && is.float:
		return "float-narrowed"
	case was.float:
		return "float-to-integer"
	case is.float:
		bits := was.most
		if was.signed {
			bits-- // the smallest is a power of two, which every float holds
		}
		if bits <= is.least {
			return "integer-to-wider-float"
		}
		return "integer-to-float"
	case was.signed == is.signed && was.most <= is.least:
		return "integer-widened"
	case was.signed == is.signed:
		return "integer-narrowed"
	case is.signed && was.most < is.least:
		return "unsigned-to-signed"
	}
	return "sign-changed"
}

// isPlain reports whether k is a number or a bool.
func isPlain(k shape.Kind) bool {
	_, ok := numbers[k]
	return ok || k == shape.Bool
}

func isScalar(k shape.Kind) bool { return isPlain(k) || k == shape.String }

func isList(k shape.Kind) bool { return k == shape.Slice || k == shape.Array || k == shape.Bytes }

// nilIsNotEmpty reports whether a value of kind k can be nil or empty or both.
func nilIsNotEmpty(k shape.Kind) bool {
	switch k {
	case shape.Pointer, shape.Slice, shape.Map, shape.Bytes, shape.Raw:
		return true
	}
	return false
}

// spell writes a node in messages, much as in Go.
func spell(n shape.Node) string {
	switch n.Kind {
	case shape.Pointer:
		return "*" + spell(*n.Elem)
	case shape.Slice:
		return "[]" + spell(*n.Elem)
	case shape.Array:
		return fmt.Sprintf("[%d]%s", n.Len, spell(*n.Elem))
	case shape.Map:
		return "map[" + spell(*n.Key) + "]" + spell(*n.Elem)
	case shape.Bytes:
		return "[]byte"
	case shape.Raw:
		return "json.RawMessage"
	case shape.Struct, shape.Opaque:
		return n.Ref
	}
	return string(n.Kind)
}
