package runtime

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlgo/pawl/internal/dispatch"
	"github.com/pawlgo/pawl/internal/store"
	"github.com/pawlgo/pawl/task"
)

// stuckGrace is how long a handler may take to return after its context ended
// by the timeout, before its slot is given to another job.
const stuckGrace = time.Second

// connectAgain is how long a job rests for whose handler there was no
// connection.
const connectAgain = time.Second

// attempt is one run of a handler.
type attempt struct {
	w       *Worker
	q       *queue
	owner   uuid.UUID // the session's process, part of the fence
	job     store.ClaimedJob
	row     dispatch.Row
	claim   *claimTime // nil without metrics
	suspect bool
	waited  time.Duration // from the enqueue to the claim, by the database's clock

	traced traced // from when the handler is about to start

	ctx     context.Context         // of the handler
	end     context.CancelCauseFunc // ends ctx before its time
	conn    *pgxpool.Conn           // of a transactional handler
	started time.Time
	ended   atomic.Bool // its verdict has been handed over; the first one counts
}

// start runs the attempt in a goroutine of the worker's crew; a shutdown waits
// for it in the worker's attempts.
func (a *attempt) start(s *session) {
	w := a.w
	ctx, end := context.WithCancelCause(s.ctx)
	a.end = end
	w.attempts.add(a)
	a.q.running.Add(1)
	w.counters.running.Add(1)
	w.crew.do(func() { a.run(ctx) })
}

func (a *attempt) run(ctx context.Context) {
	defer a.w.attempts.remove(a)
	defer a.w.counters.running.Add(-1)
	defer a.end(nil)

	switch {
	case a.job.Cancelled:
		a.conclude(verdict{outcome: store.Cancelled, code: codeCancelled, summary: "cancelled while it waited"}, nil, &commit{})
		return
	case a.job.Missing:
		a.conclude(verdict{outcome: store.Quarantine, summary: "claimed, but the job has no row"}, nil, &commit{})
		return
	case a.job.Attempt > a.job.MaxAttempts:
		a.conclude(verdict{outcome: store.Dead, code: codeExhausted,
			summary: fmt.Sprintf("it was waiting for attempt %d of %d", a.job.Attempt, a.job.MaxAttempts)}, nil, &commit{})
		return
	}

	if a.row.RunTx != nil {
		conn, err := a.connect(ctx)
		if err != nil {
			a.w.warn("connection", "no connection of the pool for a transactional handler; its job goes back", err, "queue", a.q.name, "kind", a.job.Kind)
			a.conclude(verdict{outcome: store.GiveBack, delay: connectAgain}, nil, &commit{})
			return
		}
		defer conn.Release() // closes one that is left inside a transaction
		a.conn = conn
	}
	ctx, cancel := context.WithTimeoutCause(ctx, a.row.Policy.Timeout, task.ErrTimeout)
	defer cancel()
	ctx = a.trace(ctx)
	a.ctx = ctx
	watchdog := time.AfterFunc(a.row.Policy.Timeout+stuckGrace, a.giveUp)
	c := &commit{}
	began := a.w.metrics.started(a)
	err := errGoexit // unless the handler returns or panics
	defer func() {   // which Goexit runs too
		took := a.w.metrics.took(began)
		v := a.judge(err, c)
		watchdog.Stop()
		if a.conclude(v, err, c) {
			a.w.metrics.processed(a, &v, took)
			a.traced.end(&v, time.Now())
		} else {
			// The watchdog gave up on this attempt, and counted it as stuck.
			a.w.counters.stuck.Add(-1)
			a.log().Warn("a stuck handler has returned", "after", time.Since(a.started))
		}
	}()
	err = a.call(ctx, c)
}

// call runs the handler, and turns a panic into an error. It does not return
// where the handler ends the goroutine.
func (a *attempt) call(ctx context.Context, c *commit) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = &panicError{value: r, stack: debug.Stack()}
		}
	}()
	return a.handle(ctx, c)
}

// apart runs the application's code and turns every way in which it can end into
// an error.
func apart(f func() error) (err error) {
	returned := false
	done := make(chan struct{})
	// Goexit ends a goroutine, and nothing can bring it back. Were it the
	// caller's, the attempt would have no end; so the handler gets one of its own.
	go func() {
		defer close(done)
		defer func() {
			if returned {
				return
			}
			if r := recover(); r != nil {
				err = &panicError{value: r, stack: debug.Stack()}
			} else {
				err = errGoexit
			}
		}()
		err = f()
		returned = true
	}()
	<-done
	return err
}

// handle runs the handler inside the middleware, and where the task is
// transactional both inside a transaction.
func (a *attempt) handle(ctx context.Context, c *commit) error {
	d := &dispatch.Delivery{
		ID: a.job.ID, Kind: a.job.Kind, Queue: a.q.name, OrganizationID: a.job.OrganizationID,
		Version: a.job.Version, Attempt: a.job.Attempt, MaxAttempts: a.job.MaxAttempts,
		EnqueuedAt: a.job.EnqueuedAt, RunAt: a.job.RunAt, Args: a.job.Args,
	}
	if a.row.RunTx == nil {
		return a.w.through(ctx, d, func(ctx context.Context) error { return a.row.Run(ctx, d) })
	}
	return a.transact(ctx, c, func(tx pgx.Tx) error {
		return a.w.through(ctx, d, func(ctx context.Context) error { return a.row.RunTx(ctx, tx, d) })
	})
}

// judge turns the handler's error into a verdict, and tells the log.
func (a *attempt) judge(err error, c *commit) verdict {
	cause := context.Cause(a.ctx)
	v := a.decide(err, cause)
	if a.ended.Load() && !c.mine {
		return v // the watchdog has told
	}
	if errors.Is(cause, task.ErrTimeout) && !c.mine { // not while its commit was under way
		a.w.counters.timeouts.Add(1)
	}
	if p, ok := err.(*panicError); ok {
		a.w.counters.panics.Add(1)
		a.log().Error("the handler panicked", "panic", summarize(p), "stack", string(p.stack))
	}
	switch v.outcome {
	case store.Dead:
		a.log().Error("dead letter", "code", v.code, "error", v.said())
	case store.Retry:
		a.log().Warn("the attempt failed and will be retried", "code", v.code, "error", v.said(), "delay", v.delay)
	case store.Cancelled:
		a.log().Info("the job is cancelled", "code", v.code, "error", v.said())
	}
	return v
}

func (a *attempt) decide(err, cause error) verdict {
	return decideApart(a.row.Policy, a.job.Attempt, a.job.MaxAttempts, err, cause)
}

// decideApart is [decide] in a goroutine of its own, which an error whose methods
// end it cannot take from the caller.
func decideApart(p dispatch.Policy, attempt, maxAttempts int, err, cause error) verdict {
	if err == nil {
		return verdict{outcome: store.Completed}
	}
	random := rand.Float64()
	v := decide(p, attempt, maxAttempts, errGoexit, cause, random)
	done := make(chan struct{})
	go func() {
		defer close(done)
		v = decide(p, attempt, maxAttempts, err, cause, random)
	}()
	<-done
	return v
}

// giveUp ends an attempt whose handler has not returned although its context
// has ended: the job is settled as timed out and the slot is free again. The
// handler cannot be stopped; it stays counted as stuck until it returns.
func (a *attempt) giveUp() {
	stuck := fmt.Errorf("%w of %v and the handler ignores its context", task.ErrTimeout, a.row.Policy.Timeout)
	v := decide(a.row.Policy, a.job.Attempt, a.job.MaxAttempts, stuck, task.ErrTimeout, rand.Float64())
	a.w.counters.stuck.Add(1)
	if !a.conclude(v, stuck, &commit{}) {
		a.w.counters.stuck.Add(-1)
		return
	}
	a.w.metrics.processed(a, &v, a.row.Policy.Timeout+stuckGrace)
	a.traced.end(&v, time.Now())
	a.w.attempts.remove(a) // a shutdown does not wait for it
	a.w.counters.timeouts.Add(1)
	a.log().Error("the handler ignores the end of its context and holds a goroutine", "timeout", a.row.Policy.Timeout)
}

// conclude hands the verdict over for settlement, unless it was committed with
// the handler's transaction, and frees the slot. The error is the one that the
// verdict was made of, if there was any. It reports whether it was the first to
// do so.
func (a *attempt) conclude(v verdict, err error, c *commit) bool {
	if !c.mine && !a.ended.CompareAndSwap(false, true) {
		return false
	}
	e := ending{
		q: a.q, owner: a.owner, kind: a.job.Kind, suspect: a.suspect, unsure: c.unsure,
		Settlement: store.Settlement{
			Token: a.job.Token, Position: a.job.Position, ID: a.job.ID, Ordered: a.job.Ordered,
			Outcome: v.outcome, Delay: v.delay, Code: v.code, Summary: v.summary,
		},
	}
	if a.claim != nil {
		e.attempt = a
	}
	if observe := a.w.observe; observe != nil {
		e.told = func(recorded store.Outcome) { observe(a, v, err, recorded) }
	}
	if c.done {
		a.w.settler.report([]ending{e}, []store.Outcome{v.outcome}, false)
	} else {
		a.w.settler.add(e)
	}
	a.q.running.Add(-1)
	a.q.release()
	return true
}

func (a *attempt) log() logger {
	return a.traced.with(a.w.log.With("job", a.job.ID, "kind", a.job.Kind, "queue", a.q.name, "attempt", a.job.Attempt))
}
