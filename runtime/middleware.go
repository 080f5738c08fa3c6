package runtime

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/pawlgo/pawl/internal/dispatch"
)

// JobInfo is what a [Middleware] sees of an attempt: everything but the
// arguments, which belong to the handler.
//
// Of an event, Kind is its type, Queue is empty, and both times are when it was
// published. Only an event has an aggregate.
type JobInfo struct {
	ID                            uuid.UUID
	Kind, Queue, OrganizationID   string
	Version, Attempt, MaxAttempts int
	EnqueuedAt, RunAt             time.Time
	AggregateType, AggregateID    string
}

// Middleware runs around every handler and every projection of a worker. It calls next once, with
// ctx or one derived from it, and returns its error or another, which decides
// what becomes of the job just as the handler's would. Not to call next is to
// handle the job itself.
//
// It runs in the handler's goroutine, so what is said of handlers holds for it
// too: a panic fails the attempt and nothing else. Around a transactional
// handler it runs inside the transaction: an error of the middleware's rolls it
// back. The same holds around a projection, where not to call next means that the
// event is done.
type Middleware func(ctx context.Context, job JobInfo, next func(context.Context) error) error

// through runs the handler of a delivery inside the middleware, the first one
// outermost.
func (w *Worker) through(ctx context.Context, d *dispatch.Delivery, handle func(context.Context) error) error {
	return w.around(ctx, JobInfo{
		ID: d.ID, Kind: d.Kind, Queue: d.Queue, OrganizationID: d.OrganizationID,
		Version: d.Version, Attempt: d.Attempt, MaxAttempts: d.MaxAttempts, EnqueuedAt: d.EnqueuedAt, RunAt: d.RunAt,
	}, handle)
}

// throughEvent does the same for the projection of an event.
func (w *Worker) throughEvent(ctx context.Context, o *dispatch.Occurrence, project func(context.Context) error) error {
	return w.around(ctx, JobInfo{
		ID: o.ID, Kind: o.Event, OrganizationID: o.OrganizationID, AggregateType: o.AggregateType, AggregateID: o.AggregateID,
		Version: o.Version, Attempt: o.Attempt, MaxAttempts: o.MaxAttempts, EnqueuedAt: o.PublishedAt, RunAt: o.PublishedAt,
	}, project)
}

func (w *Worker) around(ctx context.Context, job JobInfo, handle func(context.Context) error) error {
	for _, m := range slices.Backward(w.config.Middleware) {
		next := handle
		handle = func(ctx context.Context) error { return m(ctx, job, next) }
	}
	return handle(ctx)
}
