// Package work has the handlers of the platform's tasks and the projections of
// its facts.
//
// A handler may run again after it has done its work: its process can die
// before the success is recorded. So each of them can be repeated: trips, crossings
// and silences have ids that follow from them, files are written beside their name
// and then renamed, and what follows from a change is published or enqueued in the
// transaction of the change.
//
// A projection has no such worry. What it writes and enqueues commits together
// with the mark that it is done, so it may well count.
package work

import (
	"context"
	"errors"
	"net/http"
	"os"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlgo/pawl/example/fleet"
	"github.com/pawlgo/pawl/example/fleetdb"
	"github.com/pawlgo/pawl/example/tasks"
	"github.com/pawlgo/pawl/task"
)

// Pace is how long handlers wait where a real platform would: for map tiles, a
// mail server, a disk. The zero Pace waits nowhere.
type Pace struct {
	Report   time.Duration
	Notify   time.Duration
	Derive   time.Duration // trips and geofences
	Export   time.Duration
	PerPurge time.Duration // between two batches of a purge
	Link     time.Duration // how long a public link lives
}

// Handlers handle every task of the platform, and project every fact.
type Handlers struct {
	db     *pgxpool.Pool
	out    *os.Root
	worker string
	pace   Pace
	client *http.Client
}

var (
	_ tasks.Handlers    = (*Handlers)(nil)
	_ tasks.Projections = (*Handlers)(nil)
)

// New returns handlers that work on db, write files to out, and sign their
// executions with the name of the worker.
func New(db *pgxpool.Pool, out *os.Root, worker string, pace Pace) *Handlers {
	return &Handlers{
		db: db, out: out, worker: worker, pace: pace,
		client: &http.Client{
			Timeout: 5 * time.Second,
			// A delivery goes to the URL that was registered and nowhere else.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
}

// change runs one transaction. What a database says no to is likely to pass: a
// lost connection, a deadlock.
func (h *Handlers) change(ctx context.Context, f func(tx pgx.Tx) error) error {
	return task.Transient(pgx.BeginFunc(ctx, h.db, f))
}

// lockSettled locks a vehicle and returns what a reader has to deal with.
func lockSettled(ctx context.Context, tx pgx.Tx, vehicle string, reader fleetdb.Reader) (v fleetdb.Vehicle, watermark time.Time, positions []fleet.Position, err error) {
	if v, err = fleetdb.LockVehicle(ctx, tx, vehicle); err != nil {
		return v, watermark, nil, err
	}
	watermark = fleet.Watermark(v.Newest, v.Ended)
	positions, err = fleetdb.Settled(ctx, tx, vehicle, reader, watermark)
	return v, watermark, positions, err
}

// wait is where a handler would wait for something outside.
func wait(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// record surrounds a handler with a row of its execution. The rows are what the
// example judges a run by, so they commit apart from the handler's own work and
// name the database's time.
func record[A any](ctx context.Context, h *Handlers, job *task.Job[A], handle func(ctx context.Context) error) error {
	// Neither row depends on the job's context: what has a start gets an end.
	start, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	execution, err := fleetdb.Started(start, h.db, fleetdb.Start{
		JobID: job.ID, Attempt: job.Attempt, Kind: job.Kind, Queue: job.Queue, Worker: h.worker, DueAt: job.RunAt,
	})
	cancel()
	if err != nil {
		return task.Transient(err)
	}
	handled := handle(ctx)

	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	outcome, detail := outcomeOf(ctx, handled)
	if err := fleetdb.Finished(end, h.db, execution, outcome, detail); err != nil {
		return errors.Join(handled, task.Transient(err))
	}
	return handled
}

// Completed is the outcome of an execution that succeeded. The others are the
// classes of package task, and Interrupted.
const (
	Completed   = "completed"
	Interrupted = "interrupted" // by the end of the context
)

func outcomeOf(ctx context.Context, err error) (outcome, detail string) {
	switch {
	case err == nil:
		return Completed, ""
	case ctx.Err() != nil:
		return Interrupted, context.Cause(ctx).Error()
	}
	return string(task.Classify(err).Class), err.Error()
}
