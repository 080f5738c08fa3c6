// Package rules says what happens to stored payloads when a payload type
// changes.
//
// Between the enqueue of a job and its run, the code may have changed, and in a
// rolling deploy both codes run at once. So a change is looked at in two
// directions: a payload that the old code stored and the new one reads, and the
// reverse. A value that is lost in silence is judged at least as strictly as one
// that cannot be decoded.
//
// The rules are rows of one table, [All]: an id, what changed, the verdict, the
// reason and the remedy. Messages, the reference page docs/payload-rules.md and
// the tests are all made from it, and the tests hold every row against
// encoding/json itself.
//
//	for _, version := range live {
//		findings := rules.Compare(version, current)
//		if rules.Worst(findings) == rules.Breaking {
//			// a new version, and an upgrader from this one
//		}
//	}
//
// [Compare] knows two shapes. That a verdict is taken against every live version,
// and what a version number then becomes, is its caller's.
package rules

import (
	"fmt"
	"slices"
	"strings"
)

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

// String returns the verdict as messages and the reference page name it.
func (v Verdict) String() string {
	switch v {
	case Compatible:
		return "compatible"
	case BackwardOnly:
		return "backward only"
	case Breaking:
		return "breaking"
	}
	return fmt.Sprintf("Verdict(%d)", int(v))
}

// Effect says what becomes of a payload that meets the other code.
type Effect string

// The effects. A rule names the worst that a value of the type can meet with.
const (
	Kept  Effect = "kept"  // every value both codes know arrives
	Lost  Effect = "lost"  // no error, but a value is wrong or gone
	Fails Effect = "error" // decoding fails
)

// Rule is one row of the table.
type Rule struct {
	ID      string // kebab-case, stable: what //task:accept names
	Change  string // what changed
	Verdict Verdict
	Back    Effect // an old payload meets new code
	Forward Effect // a new payload meets old code
	Reason  string // what would happen to a stored payload
	Remedy  string // what to do about it
	// Declaration is set where the rule is about the declaration of a task and not
	// about its payload's shape: Compare never finds it.
	Declaration bool
}

// All returns the table, in the order of the reference page.
func All() []Rule { return slices.Clone(table) }

// Lookup returns the rule with that id.
func Lookup(id string) (*Rule, bool) {
	i := slices.IndexFunc(table, func(r Rule) bool { return r.ID == id })
	if i < 0 {
		return nil, false
	}
	return &table[i], true
}

// Finding is one change between two shapes, judged.
type Finding struct {
	Rule *Rule // a row of the table, to be read only
	// Path says where, by JSON names from the root, such as "retry.max",
	// "items[].n", "by_key{}" for the values of a map and "by_key{key}" for its
	// keys. The root itself is ".". In names, the signs of this notation, blanks,
	// commas and equals signs stand as "%" and two hexadecimal digits.
	Path string
	// Renamed is the path that the field has now, where the change is its name.
	Renamed string
	Detail  string // what it was and what it is
	// Warning is set where the verdict stands, but somebody ought to look: what is
	// written in Detail may mean a loss that no rule can see.
	Warning bool
}

// String returns the finding as a message: path, what it was and is, the rule
// with its verdict, what would happen, what to do.
func (f Finding) String() string {
	return fmt.Sprintf("%s: %s (%s, %s): %s; %s", f.Path, f.Detail, f.Rule.ID, f.Rule.Verdict, f.Rule.Reason, f.Rule.Remedy)
}

// Worst returns the strictest verdict of findings, and Compatible without any.
func Worst(findings []Finding) Verdict {
	worst := Compatible
	for _, f := range findings {
		worst = max(worst, f.Rule.Verdict)
	}
	return worst
}

// escape keeps the signs of the path notation and of directives out of names.
var escape = strings.NewReplacer("%", "%25", ".", "%2E", "[", "%5B", "]", "%5D", "{", "%7B", "}", "%7D", " ", "%20", ",", "%2C", "=", "%3D")

// member returns the path of a field of the object at path.
func member(path, name string) string {
	if path == "" {
		return escape.Replace(name)
	}
	return path + "." + escape.Replace(name)
}
