package taskimpl

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/pawlgo/pawl/internal/dispatch"
	"github.com/pawlgo/pawl/internal/enqueue"
	"github.com/pawlgo/pawl/internal/measure"
	"github.com/pawlgo/pawl/internal/store"
	"github.com/pawlgo/pawl/internal/tracing"
	"github.com/pawlgo/pawl/task"
)

// maxAggregateID is the limit of the id of an aggregate in bytes.
const maxAggregateID = 1000

// Event is everything that generated code knows of one declaration.
type Event[P any] struct {
	Name      string
	Aggregate string // the type of the aggregates that it happens to
	Policy    Policy
	// Skip says that a dead event does not hold up its aggregate.
	Skip bool
	// Version is the current payload version, the one that publishing writes.
	Version int
	// Capabilities are those of every version that Decode takes.
	Capabilities []Capability
	// Organization returns the tenant; nil where the event declares none. Its
	// error is that of a marshaler of the application's.
	Organization func(*P) (string, error)
	// OrganizationField is the name of that field in the payload's JSON, for
	// callers that are not Go; empty where the event declares none.
	OrganizationField string
	// Shape is the wire shape of the current version, as the lock spells it:
	// what the database holds the payloads of plain SQL against.
	Shape string
	// Redact is what is not to be shown of a payload, as in [Kind].
	Redact string
	// Decode turns a stored payload of any known version into the current type.
	Decode func(version int, raw []byte) (P, error)
}

// Publish stores one event in tx.
func Publish[P any](ctx context.Context, tx task.Tx, e *Event[P], aggregateID string, args P, opts []task.PublishOption) (task.Receipt, error) {
	p := payload{args: &args}
	if e.Organization != nil {
		p.organization = func() (string, error) { return e.Organization(&args) }
	}
	return publish(ctx, tx, store.NewEvent{
		Type: e.Name, AggregateType: e.Aggregate, AggregateID: aggregateID, Version: e.Version,
		Capability: capabilityOf(e.Name, e.Version, e.Capabilities),
	}, p, opts)
}

// publish stores an event. It is not generic, for the reason that plan is not.
func publish(ctx context.Context, tx task.Tx, e store.NewEvent, p payload, opts []task.PublishOption) (receipt task.Receipt, err error) {
	if m := measure.Measuring(ctx); m != nil {
		began := time.Now()
		defer func() { m.Published(ctx, e.Type, errorClass(err), time.Since(began)) }()
	}
	fail := func(reason, err error) (task.Receipt, error) {
		return task.Receipt{}, &task.PublishError{Event: e.Type, Reason: reason, Err: err}
	}
	o := enqueue.PublishOptions{}
	for _, opt := range opts {
		if opt != nil {
			opt.ApplyPublish(&o)
		}
	}
	switch {
	case o.HasOccurredAt && !storableTime(o.OccurredAt):
		return fail(task.ErrInvalidOption, fmt.Errorf("OccurredAt(%v) is not a time that can be stored: give one of the years 1 to 9999, and not the zero time", o.OccurredAt))
	case e.AggregateID == "":
		return fail(task.ErrInvalidArgs, fmt.Errorf("the id of the %s is empty: name what the event happened to", e.AggregateType))
	case !storable(e.AggregateID):
		return fail(task.ErrInvalidArgs, fmt.Errorf("the id of the %s is not valid UTF-8 without U+0000", e.AggregateType))
	case len(e.AggregateID) > maxAggregateID:
		return fail(task.ErrInvalidArgs, fmt.Errorf("the id of the %s has %d bytes, of at most %d", e.AggregateType, len(e.AggregateID), maxAggregateID))
	}
	job := store.NewJob{}
	if reason, err := fill(&job, p, &enqueue.Options{}); err != nil {
		return fail(reason, err)
	}
	e.ID, e.Payload, e.OrganizationID, e.Trace, e.Wake = job.ID, job.Args, job.OrganizationID, tracing.Inject(ctx), !o.NoWake
	if o.HasOccurredAt {
		e.OccurredAt = &o.OccurredAt
	}
	schema, err := enqueue.SchemaOf(tx)
	if err != nil {
		return fail(task.ErrInvalidOption, err)
	}
	if err := store.Publish(ctx, tx, schema, &e); err != nil {
		return fail(task.ReasonOf(err), err)
	}
	return task.Receipt{ID: e.ID, SameArgs: true, State: task.StatePending}, nil
}

// Projection is what generated code hands over for an event.
type Projection[P any] = func(context.Context, pgx.Tx, *task.Fact[P]) error

// EventRow connects an event to its projection.
func EventRow[P any](e *Event[P], project Projection[P]) dispatch.EventRow {
	return eventRow(dispatch.EventRow{
		Event: e.Name, Versions: versionsOf(e.Capabilities), Current: e.Version, Policy: e.Policy, Skip: e.Skip,
		Registration: &dispatch.EventRegistration{Aggregate: e.Aggregate, OrganizationField: e.OrganizationField, Shape: e.Shape},
		Redactions:   []dispatch.Redaction{redaction(e.Version, e.Redact)},
	}, quiet(e.Decode, e.Redact), project)
}

// EventAliasRow connects an old name of an event to the projection of the newer
// one. The projection sees such an event under the name and the version that are
// stored.
func EventAliasRow[P any](a Alias, e *Event[P], project Projection[P]) dispatch.EventRow {
	versions, decode := aliasOf[P](a, e.Decode)
	return eventRow(dispatch.EventRow{Event: a.Kind, Versions: versions, Policy: e.Policy, Skip: e.Skip, Redactions: a.redactions(e.Version, e.Redact)},
		quiet(decode, e.Redact), project)
}

func eventRow[P any](row dispatch.EventRow, decode decoder[P], project Projection[P]) dispatch.EventRow {
	row.Decode = func(version int, raw []byte) error {
		_, err := decode.safely(version, raw)
		return err
	}
	row.Project = func(ctx context.Context, tx pgx.Tx, o *dispatch.Occurrence) error {
		payload, err := decode.safely(o.Version, o.Payload)
		if err != nil {
			return undecodable(o.Event, o.Version, err)
		}
		return project(ctx, tx, &task.Fact[P]{
			ID: o.ID, Type: o.Event, AggregateType: o.AggregateType, AggregateID: o.AggregateID, OrganizationID: o.OrganizationID,
			Sequence: o.Sequence, Version: o.Version, Attempt: o.Attempt, MaxAttempts: o.MaxAttempts,
			OccurredAt: o.OccurredAt, PublishedAt: o.PublishedAt, Payload: payload,
		})
	}
	return row
}

// EventTable makes a table of rows.
func EventTable(rows ...dispatch.EventRow) task.EventTable { return dispatch.NewEventTable(rows...) }
