// Package dispatch holds what stands between generated code and the runtime:
// the policy of a kind, one claimed attempt, and the rows that connect a kind
// to its handler.
//
// It is internal so that applications see [Table] only as an opaque value that
// generated code makes and the runtime takes; nothing here touches a database.
package dispatch

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// Policy is what the annotations of a declaration say about its attempts.
// The generator writes every field; there is no default here.
type Policy struct {
	Attempts int           // attempts in all, 1 to 32766
	Base     time.Duration // delay after the first failed attempt
	Max      time.Duration // no delay is longer than this, before jitter
	Jitter   float64       // share by which a delay may vary, 0 to 1
	Unknown  int           // an unclassified failure at this attempt or later is a dead letter
	Timeout  time.Duration // per attempt
}

// Version is one payload version that a row can decode, with the capability
// that the rows of that version carry.
type Version struct {
	Number     int
	Capability int64
}

// Delivery is one claimed attempt as the runtime hands it to a row.
type Delivery struct {
	ID             uuid.UUID
	Kind           string
	Queue          string
	OrganizationID string
	Version        int
	Attempt        int
	MaxAttempts    int
	EnqueuedAt     time.Time
	RunAt          time.Time
	Args           []byte // the stored JSON value
}

// Row connects a kind to its handler.
type Row struct {
	Kind     string
	Queue    string
	Versions []Version
	Current  int // the version that an enqueue writes; 0 for an old kind, which none writes
	Policy   Policy
	// Run decodes the payload and calls the handler. A payload that cannot be
	// decoded comes back as a [*DecodeError].
	Run func(ctx context.Context, d *Delivery) error
	// RunTx is Run for a handler that gets a transaction: it is called in place of
	// Run where it is set. What it did in tx, with the end of the attempt, is
	// committed by the runtime.
	RunTx func(ctx context.Context, tx pgx.Tx, d *Delivery) error
	// Isolation is that of RunTx's transaction.
	Isolation pgx.TxIsoLevel
	// Ordered says that jobs of the kind have an order key.
	Ordered bool
	// Registration is what the database has to know of the kind to enqueue it by
	// plain SQL; nil for an old kind, which none enqueues.
	Registration *Registration
	// Redactions say what is not to be shown of stored payloads.
	Redactions []Redaction
	// Schedule says when the runtime enqueues by itself; nil for a kind without one.
	Schedule *Schedule
	// Decode only decodes a stored payload, upgraders included. A panic of theirs
	// is an error like any other.
	Decode func(version int, raw []byte) error
}

// Registration is what an enqueue by plain SQL takes from a kind's declaration.
type Registration struct {
	Priority          int16
	Keyed             bool          // the kind declares idempotency, so such an enqueue needs a key
	Keep              time.Duration // of keys; zero where the kind declares none
	OrganizationField string        // in the payload's JSON; empty for none
	Order             []string      // fields of the payload's JSON; nil for none
	Shape             string        // the wire shape of the current version, as JSON
}

// Redaction is what is not to be shown of one stored payload version.
type Redaction struct {
	Version int
	Paths   string // as JSON: an array of paths, which are arrays of steps
}

// Schedule is what a declaration says about jobs that nobody enqueues.
type Schedule struct {
	Spec   string // a cron expression
	Zone   string // an IANA name
	Missed string // skip, one or all: what becomes of missed ticks
	// Prepare makes the job of an instant and returns what stores it: that of a
	// tick, which there can be once, or one besides. It calls code of the
	// application's; a panic of that is an error like any other.
	Prepare func(at time.Time, tick bool) (Store, error)
}

// Store stores a prepared job in a transaction. Duplicate says that a job of that
// tick was there before.
type Store func(ctx context.Context, tx pgx.Tx, schema string) (id uuid.UUID, duplicate bool, err error)

// DecodeError says that a stored payload could not be decoded. No retry can
// mend that, so the runtime makes such a job a dead letter at once.
type DecodeError struct {
	Kind    string
	Version int
	Err     error
	// Quiet is Err without what it may have of the payload's values: what is said
	// outside of the database. Nil where Err has none.
	Quiet error
}

func (e *DecodeError) Error() string { return e.with(e.Err) }

// WithoutValues is the error without values of the payload.
func (e *DecodeError) WithoutValues() error {
	if e == nil || e.Quiet == nil {
		return e
	}
	return errors.New(e.with(e.Quiet))
}

func (e *DecodeError) with(err error) string {
	return "the stored payload of " + e.Kind + " cannot be decoded: " + err.Error()
}

func (e *DecodeError) Unwrap() error { return e.Err }

// Table is a set of rows. The zero Table has none.
type Table struct{ rows []Row }

// NewTable returns a table of rows.
func NewTable(rows ...Row) Table { return Table{rows: rows} }

// Rows returns the rows of t. It is a function, not a method, so that an
// application that holds a table cannot take it apart.
func Rows(t Table) []Row { return t.rows }
