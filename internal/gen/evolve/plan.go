// Package evolve decides which payload versions a task has: which one is
// current, which older ones are still to be decoded, and where an upgrader
// stands between two of them.
//
// It is a pure function of the lock at the reference and of the source, so that
// the same input gives the same answer wherever and whenever it runs.
package evolve

import "github.com/pawlgo/pawl/internal/gen/shape"

// Plan is what generated code needs to know of the versions of one task.
type Plan struct {
	// Current is the version that an enqueue writes.
	Current Version
	// Older are the live versions before it, ascending. Each has a frozen type.
	Older []Version
	// Aliases are the old kinds that are still accepted, sorted. They count their
	// versions together with the kind: one number has one type.
	Aliases []Alias
}

// Alias is a kind that a task had once.
type Alias struct {
	Kind string
	// Versions are those that may be stored under it, ascending. Each is a number
	// of the plan's as well.
	Versions []AliasVersion
}

// AliasVersion is one live version under an old kind.
type AliasVersion struct {
	Number int
	Base   [32]byte // made with the old kind
}

// Version is one live payload version.
type Version struct {
	Number int
	// Base identifies the version: the SHA-256 of the kind, the number and the
	// wire shape of its first revision. Its first 8 bytes are the capability. No
	// job has that of a version that was only ever stored under an old kind.
	Base  [32]byte
	Shape *shape.Shape
	// Upgrader says that the step to the next live version is a breaking one, so
	// that a function of the user's has to take it. Without one an old payload
	// decodes as a later type as it is. It is false of the current version.
	Upgrader bool
}
