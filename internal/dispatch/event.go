package dispatch

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// Occurrence is one attempt at an event as the runtime hands it to a row.
type Occurrence struct {
	ID             uuid.UUID
	Event          string // its type, as it is stored
	AggregateType  string
	AggregateID    string
	OrganizationID string
	Sequence       int64
	Version        int
	Attempt        int
	MaxAttempts    int
	OccurredAt     time.Time
	PublishedAt    time.Time
	Payload        []byte // the stored JSON value
}

// EventRow connects a type of event to its projection.
type EventRow struct {
	Event    string
	Versions []Version
	Current  int // the version that publishing writes; 0 for an old name, which none publishes
	Policy   Policy
	// Skip says that a dead event does not hold up its aggregate.
	Skip bool
	// Registration is what the database has to know of the type to publish it by
	// plain SQL; nil for an old name, which none publishes.
	Registration *EventRegistration
	// Redactions say what is not to be shown of stored payloads.
	Redactions []Redaction
	// Project decodes the payload and calls the projection. A payload that cannot
	// be decoded comes back as a [*DecodeError].
	Project func(ctx context.Context, tx pgx.Tx, o *Occurrence) error
	// Decode only decodes a stored payload, upgraders included. A panic of theirs
	// is an error like any other.
	Decode func(version int, raw []byte) error
}

// EventRegistration is what a publishing by plain SQL takes from an event's
// declaration.
type EventRegistration struct {
	Aggregate         string // the type of the aggregates that it happens to
	OrganizationField string // in the payload's JSON; empty for none
	Shape             string // the wire shape of the current version, as JSON
}

// EventTable is a set of rows. The zero EventTable has none.
type EventTable struct{ rows []EventRow }

// NewEventTable returns a table of rows.
func NewEventTable(rows ...EventRow) EventTable { return EventTable{rows: rows} }

// EventRows returns the rows of t. It is a function for the reason that [Rows]
// is one.
func EventRows(t EventTable) []EventRow { return t.rows }
