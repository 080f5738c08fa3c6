package tasktest

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlgo/pawl/internal/store"
	pawlrt "github.com/pawlgo/pawl/runtime"
	"github.com/pawlgo/pawl/task"
)

// endless is how many attempts one Drain may make.
const endless = 10_000

// Worked are the attempts that [Drain] made, in that order.
type Worked []pawlrt.Drained

// Err is nil if every attempt has completed its job, and says of the others what
// became of them. errors.Is and errors.As find what the handlers returned.
func (w Worked) Err() error {
	var all []error
	for _, d := range w {
		if d.Outcome != pawlrt.OutcomeCompleted {
			all = append(all, &attemptError{d})
		}
	}
	return errors.Join(all...)
}

// String has a line an attempt.
func (w Worked) String() string {
	lines := make([]string, len(w))
	for i, d := range w {
		lines[i] = (&attemptError{d}).Error()
	}
	return strings.Join(lines, "\n")
}

// Of returns the attempts at jobs of one declaration.
func Of[A any](w Worked, declaration Declaration[A]) Worked {
	name := declaration.TaskKind().Name
	return slices.DeleteFunc(slices.Clone(w), func(d pawlrt.Drained) bool { return d.Kind != name })
}

// attemptError is an attempt that did not complete its job.
type attemptError struct{ pawlrt.Drained }

func (e *attemptError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s, attempt %d of %d: %s", e.Kind, e.ID, e.Attempt, e.MaxAttempts, e.Outcome)
	if e.Outcome == pawlrt.OutcomeRetried || e.Outcome == pawlrt.OutcomeGivenBack {
		fmt.Fprintf(&b, ", due again in %v", e.After)
	}
	if e.Summary != "" {
		fmt.Fprintf(&b, ": %s", e.Summary)
	}
	return b.String()
}

func (e *attemptError) Unwrap() error { return e.Err }

// Drain runs every job that is due, and what becomes due by that, one after
// another, as [pawlrt.Worker.Drain] does, and returns what became of each attempt.
// Only queues that the tables serve are worked. What handlers return is in the
// result and the test's log, and fails nothing. The test fails where the database
// does, or after 10,000 attempts.
//
// For another schema or middleware, make the worker itself: [Worked] is what
// its Drain returns.
func Drain(t testing.TB, pool *pgxpool.Pool, tables ...task.Table) Worked {
	t.Helper()
	worked := drain(t, pool, endless, tables)
	if len(worked) == endless {
		t.Fatalf("tasktest: %d attempts, and there is no end: does a handler snooze for no time, or do tasks enqueue one another? The last were\n%s",
			endless, worked[endless-3:])
	}
	return worked
}

// WorkOne runs the next job that is due, and returns what became of the attempt.
// The test fails where none is; a handler that fails is no reason.
func WorkOne(t testing.TB, pool *pgxpool.Pool, tables ...task.Table) pawlrt.Drained {
	t.Helper()
	worked := drain(t, pool, 1, tables)
	if len(worked) == 0 {
		v := look(t, pool).read(t, "")
		waiting := slices.DeleteFunc(v.rows, func(row store.Inspected) bool {
			return row.State == string(task.StateCompleted) || row.State == string(task.StateDead) || row.State == string(task.StateCancelled)
		})
		if len(waiting) == 0 {
			t.Fatalf("tasktest: no job is waiting: is the transaction that enqueued it committed?")
		}
		t.Fatalf("tasktest: no job of these tables is due: use Advance for one that is later, and pass the table of its queue\nwaiting: %s", list(waiting))
	}
	return worked[0]
}

func drain(t testing.TB, pool *pgxpool.Pool, n int, tables []task.Table) Worked {
	t.Helper()
	w, err := pawlrt.New(pool, pawlrt.Config{
		Tables: tables,
		Name:   "tasktest",
		Logger: slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
	if err != nil {
		t.Fatalf("tasktest: %v", err)
	}
	drained, err := w.DrainN(t.Context(), n)
	if err != nil {
		t.Fatalf("tasktest: work: %v\nuntil then:\n%s", err, Worked(drained))
	}
	return drained
}

// Advance makes what is stored look as if d had passed: scheduled jobs, retries
// and snoozed jobs are due that much sooner, events too that are to be projected
// again, and idempotency keys expire that much sooner. All times of a job or an
// event move together, so their differences stay. Workers that run meanwhile are
// woken.
//
// For schedules it is as if no worker had been there meanwhile: a worker that runs
// makes the jobs of the ticks that have become due, by the policy for missed ones.
// A tick has one job, however often its time passes.
//
// The clocks do not move, and with them neither the leases of workers that live,
// nor now() in SQL of the application's and the times that it has stored itself,
// nor the days by which a worker removes old jobs. [Drain] and [WorkOne] remove
// nothing.
//
// The test fails where db is a transaction, since workers could not see it, or
// where d is not positive.
func Advance(t testing.TB, db task.Querier, d time.Duration) {
	t.Helper()
	if d < time.Microsecond {
		t.Fatalf("tasktest: Advance by %v: time goes forward, by a microsecond or more", d)
	}
	v := look(t, db)
	if v.own {
		t.Fatalf("tasktest: Advance in a transaction: commit it first, and pass the pool")
	}
	if err := store.Advance(t.Context(), db, v.schema, d); err != nil {
		t.Fatalf("tasktest: advance: %v", explain(err))
	}
}
