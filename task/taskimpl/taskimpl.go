// Package taskimpl is what generated code calls, and only generated code.
//
// It is public because generated code lives in the user's packages. Its shape
// is covered by the version handshake and by nothing else: generated code
// names [GeneratorVersion1], and a package that no longer serves that
// generation no longer declares it, so that stale code stops compiling instead
// of misbehaving.
package taskimpl

import (
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/pawlgo/pawl/internal/dispatch"
	"github.com/pawlgo/pawl/task"
)

// GeneratorVersion1 is the handshake of the first generation of generated code.
const GeneratorVersion1 = true

// Policy is the retry and timeout policy of a kind.
type Policy = dispatch.Policy

// Capability names one payload version, and the 8 bytes that its stored rows
// carry and a worker claims by.
type Capability struct {
	Version int
	ID      uint64
}

// Kind is everything that generated code knows of one declaration.
type Kind[A any] struct {
	Name     string
	Queue    string
	Priority task.PriorityLevel
	Policy   Policy
	// Version is the current payload version, the one that an enqueue writes.
	Version int
	// Capabilities are those of every version that Decode takes.
	Capabilities []Capability
	// Key returns the values of the idempotency fields in declared order; nil
	// where the kind declares none.
	Key func(*A) []any
	// Keep is how long a key is held at least.
	Keep time.Duration
	// Organization returns the tenant; nil where the kind declares none. Its
	// error is that of a marshaler of the application's.
	Organization func(*A) (string, error)
	// OrganizationField is the name of that field in the payload's JSON, for
	// callers that are not Go; empty where the kind declares none.
	OrganizationField string
	// Order names the fields of the payload's JSON whose equal values make jobs
	// run one at a time, in the order of their enqueue; nil where the kind
	// declares none.
	Order []string
	// Isolation is that of the transaction which a handler of [TxRow] gets; empty
	// for READ COMMITTED.
	Isolation pgx.TxIsoLevel
	// Schedule says when jobs are enqueued without a caller; nil where the kind
	// declares none.
	Schedule *Schedule[A]
	// Shape is the wire shape of the current version, as the lock spells it:
	// what the database holds the arguments of plain SQL against.
	Shape string
	// Redact is what is not to be shown of a payload of the current version: as
	// JSON, an array of paths. Each is an array of steps, which are the names of
	// members, or empty for every element of an array or value of an object. It is
	// empty where there is nothing to hide.
	Redact string
	// Decode turns a stored payload of any known version into the current type.
	Decode func(version int, raw []byte) (A, error)
}

func (k *Kind[A]) capability() int64 { return capabilityOf(k.Name, k.Version, k.Capabilities) }

// capabilityOf is the capability of a declaration's current version.
func capabilityOf(name string, version int, all []Capability) int64 {
	for _, c := range all {
		if c.Version == version {
			return int64(c.ID)
		}
	}
	panic(fmt.Sprintf("pawl: the generated code of %s has no capability for its own version %d: run go generate", name, version))
}
