// Package rules says what happens to stored payloads when a payload type
// changes.
//
// The rules are rows of one table: an id, what changed, the verdict, the reason
// and the remedy. Messages, the reference page and the tests are all made from
// it.
package rules

import "github.com/pawlgo/pawl/internal/gen/shape"

// Verdict says what a change costs.
type Verdict int

// The verdicts, from the mildest to the strictest.
const (
	// Compatible keeps the version: old and new code read each other's payloads.
	Compatible Verdict = iota
	// BackwardOnly needs a new version but no upgrader: new code reads an old
	// payload as it is, old code must not claim a new one.
	BackwardOnly
	// Breaking needs a new version, and an upgrader from the frozen old type.
	Breaking
)

// Rule is one row of the table.
type Rule struct {
	ID      string // kebab-case, stable: what //task:accept names
	Change  string // what changed
	Verdict Verdict
	Reason  string // what would happen to a stored payload
	Remedy  string // what to do about it
}

// Finding is one change between two shapes, judged.
type Finding struct {
	Rule   *Rule
	Path   string // where, by JSON names from the root, such as "retry.max" or "items[].n"
	Detail string // what it was and what it is
}

// Compare judges every change from the old shape to the new one, sorted by
// path. No finding means that nothing on the wire changed.
func Compare(old, new *shape.Shape) []Finding { panic("written next") }
