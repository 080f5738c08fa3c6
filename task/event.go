package task

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/pawlgo/pawl/internal/dispatch"
	"github.com/pawlgo/pawl/internal/enqueue"
	"github.com/pawlgo/pawl/internal/store"
)

// Event declares a fact whose payload is P: something that has happened to an
// aggregate, such as a trip that was completed. It is embedded in an exported
// struct whose doc comment carries the annotations; it holds nothing and is
// never instantiated.
//
//	// TripCompleted is the fact that a trip ended.
//	//
//	//task:event trip.completed aggregate=trip
//	type TripCompleted struct{ task.Event[TripCompletedPayload] }
//
// The generated PublishTripCompleted stores it in the transaction of the change.
// Once that has committed, a worker projects it: it calls ProjectTripCompleted
// in a transaction, and what that writes and enqueues commits together with the
// mark that the event is done. The events of an aggregate are projected one at a
// time, in the order in which they were committed.
type Event[P any] struct{}

// Fact is one event, as its projection sees it.
type Fact[P any] struct {
	// ID is the event's identity, a version 7 UUID.
	ID uuid.UUID
	// Type is the stable wire name of the declaration.
	Type string
	// AggregateType and AggregateID say what the event happened to.
	AggregateType, AggregateID string
	// OrganizationID is the tenant, or empty where the event declares none.
	OrganizationID string
	// Sequence grows from one event of an aggregate to the next, with gaps.
	Sequence int64
	// Version is the payload version that was stored; Payload is always of the
	// current version.
	Version int
	// Attempt counts from 1. A snoozed attempt is not counted.
	Attempt int
	// MaxAttempts is how many attempts there are in all.
	MaxAttempts int
	// OccurredAt is when it happened: what the publisher said with [OccurredAt],
	// and otherwise PublishedAt.
	OccurredAt time.Time
	// PublishedAt is when it was published, by the database's clock.
	PublishedAt time.Time
	// Payload is what was published.
	Payload P
}

// EventTable connects events to projections. Generated code makes it, the
// runtime takes it; to an application it is opaque.
type EventTable = dispatch.EventTable

// PublishOption changes one publishing. The options of this package are all
// there are.
type PublishOption interface {
	ApplyPublish(*enqueue.PublishOptions)
}

type publishOption func(*enqueue.PublishOptions)

func (o publishOption) ApplyPublish(opts *enqueue.PublishOptions) { o(opts) }

// OccurredAt says when the fact happened, where that was not just now: it came
// from a device that was offline, or from an import. It does not change the
// order, which is that of commits. The zero time and years after 9999 are
// refused with [ErrInvalidOption].
func OccurredAt(t time.Time) PublishOption {
	return publishOption(func(o *enqueue.PublishOptions) { o.OccurredAt, o.HasOccurredAt = t, true })
}

// WakeOption is an option of an enqueue and of a publishing.
type WakeOption interface {
	EnqueueOption
	PublishOption
}

type noWake struct{}

func (noWake) ApplyEnqueue(o *enqueue.Options)        { o.NoWake = true }
func (noWake) ApplyPublish(o *enqueue.PublishOptions) { o.NoWake = true }

// PublishError is the error of a publishing: of which event, what went wrong, and
// what to do about it. Its reasons are those of an enqueue.
type PublishError struct {
	Event  string // the wire name of the declaration
	Reason error  // a sentinel, or nil where the cause is the database's own
	Err    error  // the cause
}

func (e *PublishError) Error() string {
	switch {
	case e.Reason == nil:
		return fmt.Sprintf("publish %s: %v", e.Event, e.Err)
	case e.Err == nil:
		return fmt.Sprintf("publish %s: %v", e.Event, e.Reason)
	}
	return fmt.Sprintf("publish %s: %v: %v", e.Event, e.Reason, e.Err)
}

// Unwrap returns the sentinel and the cause.
func (e *PublishError) Unwrap() []error {
	return slices.DeleteFunc([]error{e.Reason, e.Err}, func(err error) bool { return err == nil })
}

// ErrNoEvent says that there is no dead event of that id, or none that holds up
// its aggregate.
var ErrNoEvent = errors.New("there is no such event")

// RetryEvent makes a dead event pending again in tx, with all its attempts: once
// tx commits, it is projected. Where it has held up its aggregate it comes before
// the events that wait for it, and otherwise after those that were projected in
// the meantime.
//
// The error is [ErrNoEvent] or [ErrNotMigrated].
func RetryEvent(ctx context.Context, tx Tx, id uuid.UUID) error {
	return ofEvent(ctx, tx, fmt.Sprintf("retry event %s", id), id, store.RetryEvent)
}

// SkipEvent lets the aggregate that a dead event holds up go on without it, once
// tx commits. The event stays among the dead.
//
// The error is [ErrNoEvent] or [ErrNotMigrated].
func SkipEvent(ctx context.Context, tx Tx, id uuid.UUID) error {
	return ofEvent(ctx, tx, fmt.Sprintf("skip event %s", id), id, store.SkipEvent)
}

func ofEvent(ctx context.Context, tx Tx, what string, id uuid.UUID, do func(context.Context, store.Querier, string, uuid.UUID) (bool, error)) error {
	return control(ctx, tx, what, func(schema string) error {
		found, err := do(ctx, tx, schema, id)
		if err == nil && !found {
			err = ErrNoEvent
		}
		return err
	})
}
