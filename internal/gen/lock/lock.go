// Package lock reads and writes task.lock.json: what a package has promised about
// the payloads that are stored.
//
// The lock is committed beside the generated code. It holds, for each kind, the
// versions whose payloads may be in a database, each with its wire shape and its
// base; what happened to other versions; and what must stay as it is, such as the
// names of removed fields. Nothing in it depends on when or where it was written:
// it has no time, no version of the tool, no counter.
//
// The file is JSON with one entry a line, in sorted order, so that a review shows
// what changed and git merges line by line:
//
//	"versions": {
//	  "1": {
//	    "base": "5d41…",
//	    "root": {"kind":"struct","ref":"GreetArgs"},
//	    "structs": {
//	      "GreetArgs": [
//	        {"json":"age","go":"Age","type":{"kind":"int"}},
//	        {"json":"name","go":"Name","type":{"kind":"string"}}
//	      ]
//	    }
//	  }
//	}
//
// Nobody has to edit it. What it says about versions is derived from the lock at
// a reference, such as the main branch, and from the source; only the tombstones
// that the command retire sets are its own. So a lock with conflict markers is
// mended by writing it anew.
package lock

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"strings"

	"github.com/pawlgo/pawl/internal/gen/rules"
	"github.com/pawlgo/pawl/internal/gen/shape"
)

// Name is the file's name, in the directory of the package.
const Name = "task.lock.json"

// Format is the newest format that this package reads, and the one it writes.
const Format = 1

// Codec is how payloads are encoded. There is one; a lock that names another was
// not written by taskgen.
const Codec = "encoding/json"

// Lock is what one package has promised. The zero Lock has promised nothing.
type Lock struct {
	Kinds map[string]*Kind
}

// Adopt takes over the history of a kind from another lock, and that of the kind
// that it is an alias of. Tombstones of its own stay, but for versions that are
// live in the other: those went there with the kind, and are back.
func (l *Lock) Adopt(other *Lock, name string) {
	if l.Kinds == nil {
		l.Kinds = map[string]*Kind{}
	}
	adopted := *other.Kinds[name]
	adopted.Retired = maps.Clone(adopted.Retired)
	if own := l.Kinds[name]; own != nil {
		for n, how := range own.Retired {
			if adopted.Versions[n] == nil {
				if adopted.Retired == nil {
					adopted.Retired = map[int]Retirement{}
				}
				adopted.Retired[n] = how
			}
		}
	}
	l.Kinds[name] = &adopted
	if of := adopted.AliasOf; of != "" && (l.Kinds[of] == nil || len(l.Kinds[of].Versions) == 0) {
		l.Adopt(other, of)
	}
}

// Kind is the history of one wire name.
type Kind struct {
	// Task is the Go name of the declaration. It is empty of a kind that is no
	// longer declared: that one has tombstones alone.
	Task string
	// Aggregate is the type of what an event happens to; empty of a task's kind.
	Aggregate string
	// AliasOf is the kind that still accepts jobs of this one, which is an old
	// name of it. The shapes of its versions are there.
	AliasOf string
	// Versions are the live ones. Every number that an alias has is there as well.
	Versions map[int]*Version
	// Retired are the tombstones: numbers that are never used again.
	Retired map[int]Retirement
	// Reserved are fields that were removed, by path.
	Reserved map[string]rules.Reserved
	// Identity is what the idempotency key is made from; nil without one.
	Identity *Identity
	// Order is what the order key is made from; nil without one. It has no
	// organization.
	Order *Identity
	// Accepted are the verdicts that an author has overridden.
	Accepted []Acceptance
}

// Version is one live payload version.
type Version struct {
	// Base identifies the version. It is zero of one that was only ever stored
	// under an alias.
	Base Base
	// Upgrader is set where the step to the next live version takes a function of
	// the user's.
	Upgrader bool
	Shape    *shape.Shape // nil in an alias
}

// Retirement says what took a version out of use.
type Retirement string

// The retirements.
const (
	ByCommand Retirement = "by command"    // taskgen retire
	Removed   Retirement = "with its task" // the declaration went
)

// Acceptance is one verdict of the rules that an author has overridden.
type Acceptance struct {
	Rule   string `json:"rule"`
	Path   string `json:"path"`
	Reason string `json:"reason"`
}

// Identity is what makes two jobs the same, or, as an order key, two jobs that
// exclude each other.
type Identity struct {
	Fields []IdentityField
	// Organization is the field that scopes the key, or nil.
	Organization *IdentityField
}

// String lists the fields: "order_id, line within tenant_id".
func (i *Identity) String() string {
	var names []string
	for _, f := range i.Fields {
		names = append(names, f.Field)
	}
	list := strings.Join(names, ", ")
	if i.Organization != nil {
		list += " within " + i.Organization.Field
	}
	return list
}

// IdentityField is a field and its wire form, as [shape.Shape.Canonical] has it.
type IdentityField struct {
	Field string          `json:"field"`
	Wire  json.RawMessage `json:"wire"`
}

// Base identifies a payload version for good.
type Base [sha256.Size]byte

// NewBase makes the base of a version from the shape of its first revision: the
// SHA-256 of a JSON array of the kind, the version and the canonical shape.
func NewBase(kind string, version int, s *shape.Shape) Base {
	text, err := json.Marshal([]any{kind, version})
	if err != nil {
		panic(err) // a string and a number
	}
	text = append(text[:len(text)-1], ',')
	text = append(text, s.Canonical()...)
	return sha256.Sum256(append(text, ']'))
}

// IsZero reports whether there is no base.
func (b Base) IsZero() bool { return b == Base{} }

// Capability is what stored jobs carry of the base: its first 8 bytes.
func (b Base) Capability() uint64 { return binary.BigEndian.Uint64(b[:8]) }

// MarshalText writes the base in hexadecimal digits.
func (b Base) MarshalText() ([]byte, error) { return []byte(hex.EncodeToString(b[:])), nil }

// UnmarshalText reads what MarshalText writes.
func (b *Base) UnmarshalText(text []byte) error {
	raw, err := hex.DecodeString(string(text))
	if err != nil || len(raw) != len(b) {
		return fmt.Errorf("%q is no base: it has %d hexadecimal digits", text, 2*len(b))
	}
	copy(b[:], raw)
	return nil
}
