// Package render writes the generated file of a package.
//
// The file is thin: it states each policy as a value and calls generics of
// task/taskimpl. It has three parts: what a task is and how it is enqueued; the
// payload versions, each with a type, and the way from there to the current one;
// and tripwires, functions that are never called and compile only as long as the
// payloads are what the file was generated from.
//
// What the file declares, and under which names, is decided in names.go; how it
// refers to other packages in imports.go, and to types in spell.go.
package render

import (
	"go/token"
	"go/types"

	"github.com/pawlgo/pawl/internal/gen/directive"
	"github.com/pawlgo/pawl/internal/gen/evolve"
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
	// OrganizationField is the member of the stored payload whose text is the same
	// string; empty where there is none.
	OrganizationField string
	// Order are the members of the stored payload that the order key is made from.
	Order []string
	// Redact are the paths in the stored payload of what is not to be shown.
	Redact [][]string
	// Scheduled says that a method of the declaration makes payloads of ticks.
	Scheduled bool
	// Plan has the payload versions; nil until they are decided.
	Plan *evolve.Plan
	// Aliases are the old kinds whose jobs the task still runs, in the order of
	// the generated rows.
	Aliases []Alias
}

// Alias is an old kind of a task.
type Alias struct {
	Kind     string
	Versions []AliasVersion // the live ones, ascending
}

// AliasVersion is a live payload version of an old kind.
type AliasVersion struct {
	// Number and Base are those under which jobs of the old kind are stored.
	Number int
	Base   [32]byte
	// As is the live version of the task that such a payload is decoded as. It is
	// equal to Number where a kind was renamed and goes on counting.
	As int
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
