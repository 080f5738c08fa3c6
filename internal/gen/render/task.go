// Package render writes the generated file of a package.
//
// The file is thin: it states each policy as a value and calls generics of
// task/taskimpl. What it declares, and under which names, is decided in
// names.go; how it refers to other packages in imports.go.
package render

import (
	"go/token"
	"go/types"

	"github.com/pawlgo/pawl/internal/gen/directive"
)

// Task is one declaration, checked.
type Task struct {
	Name    string
	NamePos token.Pos
	Policy  directive.Policy
	// Args is the payload type as the declaration spells it.
	Args types.Type
	// Organization says how the organization's field becomes a string; of no
	// meaning where the policy names no field.
	Organization Conversion
}

// Conversion is a way to make a string of a field.
type Conversion int

// The conversions.
const (
	Plain  Conversion = iota // a string
	String                   // a named string type
	Int                      // a signed integer
	Uint                     // an unsigned integer
	Text                     // an encoding.TextMarshaler
	Format                   // a fmt.Stringer
)
