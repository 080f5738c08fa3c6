package runtime

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/pawlgo/pawl/internal/store"
)

// Outcome is what became of a job by one attempt.
type Outcome string

// The outcomes of a [Drained].
const (
	OutcomeCompleted Outcome = "completed"
	// OutcomeRetried is a failure that is followed by another attempt.
	OutcomeRetried Outcome = "retried"
	// OutcomeDead is the end as a dead letter.
	OutcomeDead Outcome = "dead"
	// OutcomeCancelled is the end of a job that is not wanted any more.
	OutcomeCancelled Outcome = "cancelled"
	// OutcomeGivenBack is an attempt that does not count: the handler asked for a
	// snooze, or was interrupted.
	OutcomeGivenBack Outcome = "given back"
	// OutcomeQuarantined is a job without a row of its own, which is set aside.
	OutcomeQuarantined Outcome = "quarantined"
	// OutcomeRefused is an end that came after the lease was lost. The job is
	// somebody else's.
	OutcomeRefused Outcome = "refused"
)

var outcomes = map[store.Outcome]Outcome{
	store.Refused: OutcomeRefused, store.Completed: OutcomeCompleted, store.Retry: OutcomeRetried, store.Dead: OutcomeDead,
	store.GiveBack: OutcomeGivenBack, store.Cancelled: OutcomeCancelled, store.Quarantine: OutcomeQuarantined,
}

// Drained is one attempt of [Worker.Drain], and what became of it.
type Drained struct {
	JobInfo
	Outcome Outcome
	// Err is what the handler returned, with all that it wraps, or how else it
	// ended. It is nil where it succeeded, and where it was not called: the job
	// was cancelled before.
	Err error
	// After is how long after the attempt the job is due again, where it is
	// OutcomeRetried or OutcomeGivenBack.
	After time.Duration
	// Code and Summary are stored with a failure.
	Code, Summary string
}

// Drain runs what is due, and what becomes due by that, one job after another,
// and returns when nothing is due any more. It is for programs that are started
// to work and to end, such as by a cron daemon or by a request, and for tests.
//
// Everything is as it is with [Worker.Run]: claims, leases, heartbeats, timeouts
// and what is recorded. Only that queues take turns, in the order of their names
// and a job each, and within a queue jobs run in the order in which they are
// claimed: by priority, then by due time. A retry is due after its backoff, so
// in most cases it is left for another time; one that becomes due while there is
// still other work is run. Of a paused queue nothing runs.
//
// When ctx ends, Drain stops as Run does, by the limits of the [Config], and its
// error has [context.Cause] of ctx in its chain. Other errors are of the
// database, and those of Run. What handlers return is no error of Drain's. The
// attempts that were made are returned in any case, those apart whose end could
// not be saved.
//
// Events that are due are projected too, in turn with the jobs. They are not
// among the attempts that are returned.
//
// What takes longer than that is left to workers that live on: a process that
// dies leaves its jobs to those that have been there for a lease, and [Retention]
// is theirs alone. Where nothing else works off a database, have one Run there for
// some minutes a day.
//
// A worker runs once, by Drain or by Run: [ErrAlreadyRun].
func (w *Worker) Drain(ctx context.Context) ([]Drained, error) {
	return w.DrainN(ctx, math.MaxInt)
}

// DrainN is [Worker.Drain] for at most n attempts.
func (w *Worker) DrainN(ctx context.Context, n int) ([]Drained, error) {
	d := &drainer{w: w, limit: n, told: make(chan struct{}, 1)}
	err := w.run(ctx, d.observe, d.work)
	d.mu.Lock()
	defer d.mu.Unlock()
	// A handler that outlives the hard limit may still be heard of.
	return slices.Clone(d.drained), errors.Join(d.err, err)
}

// observer hears how an attempt ended, once that is recorded. It is called from
// several goroutines and does not block.
type observer func(a *attempt, v verdict, err error, recorded store.Outcome)

// drainer is the work of one Drain.
type drainer struct {
	w     *Worker
	limit int
	told  chan struct{} // the end of an attempt is recorded
	err   error         // work's alone until it has returned

	mu      sync.Mutex
	drained []Drained // guarded by mu
}

func (d *drainer) observe(a *attempt, v verdict, err error, recorded store.Outcome) {
	j := &a.job
	r := Drained{
		JobInfo: JobInfo{
			ID: j.ID, Kind: j.Kind, Queue: a.q.name, OrganizationID: j.OrganizationID,
			Version: j.Version, Attempt: j.Attempt, MaxAttempts: j.MaxAttempts, EnqueuedAt: j.EnqueuedAt, RunAt: j.RunAt,
		},
		Outcome: outcomes[recorded], Err: err, Code: v.code, Summary: v.summary,
	}
	if recorded == store.Retry || recorded == store.GiveBack {
		r.After = v.delay
	}
	d.mu.Lock()
	d.drained = append(d.drained, r)
	d.mu.Unlock()
	signal(d.told)
}

// work goes round the queues and the events until neither has anything due.
func (d *drainer) work(ctx context.Context) {
	for {
		d.round(ctx)
		if d.err != nil || d.w.relay == nil {
			return
		}
		progress, err := d.w.relay.drain(ctx)
		if d.err = err; err != nil || !progress {
			return
		}
	}
}

// round goes round the queues until a round has found nothing.
func (d *drainer) round(ctx context.Context) {
	for idle := 0; idle < len(d.w.queues); {
		for _, q := range d.w.queues {
			if d.limit <= 0 {
				return
			}
			worked, err := d.next(ctx, q)
			if err != nil {
				d.err = err
				return
			}
			if idle++; worked {
				idle = 0
				d.limit--
			}
		}
	}
}

// next runs the next job of a queue, and reports whether there was one.
func (d *drainer) next(ctx context.Context, q *queue) (worked bool, err error) {
	for sure := false; ; sure = true {
		s, err := d.session(ctx)
		if err != nil {
			return false, err
		}
		select {
		case <-q.slots:
		case <-ctx.Done():
			return false, context.Cause(ctx)
		}
		if sure { // look from the beginning too: what commits late is there
			q.fullFrom = time.Time{}
		}
		started, next, err := q.claim(ctx, s, 1)
		if started > 0 {
			return true, d.wait(ctx)
		}
		q.release()
		switch {
		case err != nil:
			return false, err
		case q.paused.Load():
			return false, nil
		case sure && next > 0 && !q.turns:
			return false, nil
		}
	}
}

// session waits for contact with the database.
func (d *drainer) session(ctx context.Context) (*session, error) {
	for {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		s, changed := d.w.keeper.current()
		if s != nil {
			return s, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
}

// wait waits until the end of the attempt that was started is recorded.
func (d *drainer) wait(ctx context.Context) error {
	select {
	case <-d.told:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
