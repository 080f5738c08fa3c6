package runtime

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/pawlgo/pawl/internal/dispatch"
	"github.com/pawlgo/pawl/internal/store"
	"github.com/pawlgo/pawl/internal/tracing"
	"github.com/pawlgo/pawl/task"
)

const (
	// batchTime is after how long a transaction begins no other projection: what
	// projections lock stays locked until it commits.
	batchTime = 250 * time.Millisecond
	// batchTimeout bounds what a transaction waits for apart from projections: a
	// connection, the events, the mark of one, the commit.
	batchTimeout = 10 * time.Second
	// aloneTimeout bounds the beginning of an attempt that is written down first:
	// others take it for one that has ended its process after five seconds.
	aloneTimeout = 3 * time.Second
)

// batch is one transaction of the relay.
type batch struct {
	r          *relay
	ctx        context.Context // ends when no other projection is to begin
	aggregates []uuid.UUID
	limit      int
	alone      bool // for the first event of the one aggregate, which may end the process: the attempt is written down first

	// What came of it; to be read when it has ended or is stuck.
	socket   net.Conn                // of its connection
	runs     []*projection           // that have returned
	more     []uuid.UUID             // aggregates that have other due events
	suspects []uuid.UUID             // aggregates whose next event is to be projected alone
	progress bool                    // something is recorded, or is to be tried again at once
	stuck    chan struct{}           // closed when a projection ignores the end of its context; then there is no other run
	given    atomic.Pointer[failure] // by the watchdog, before that: the failure of that projection
}

// projection is one run of a projection.
type projection struct {
	event   *store.PendingEvent
	row     dispatch.EventRow
	started time.Time
	traced  traced
	ended   atomic.Bool // its end has been decided; the first one counts

	// What came of it, unless it is gone: the watchdog has given it up.
	gone     bool
	verdict  verdict
	yield    bool // others wait for what the transaction has locked
	returned time.Time
}

// failure is an attempt that did not project its event.
type failure struct {
	event *store.PendingEvent
	at    time.Time // when it was taken
	store.EventFailure
	ended bool // the transaction had ended before: what was in it may be committed
}

// project projects events of aggregates that this process has, in one
// transaction where all goes well. It reports whether anything came of it.
func (r *relay) project(ctx context.Context, aggregates []uuid.UUID) (progress bool) {
	r.alone.RLock()
	b := r.batch(ctx, aggregates, r.w.config.Relay.Batch, false)
	r.alone.RUnlock()
	progress = b.progress
	done := slices.DeleteFunc(slices.Clone(aggregates), func(a uuid.UUID) bool { return slices.Contains(b.suspects, a) })
	r.release(done, b.more, !progress)
	if len(b.suspects) > 0 {
		progress = r.examine(ctx, b.suspects) || progress
	}
	return progress
}

// examine projects one event of each of some aggregates that this process has, one
// after another, and each alone: it was in a transaction that came to nothing, and
// may be the one that has ended its process. Nothing else is projected meanwhile, so
// that a process which ends names the event that was to blame. Where another
// transaction is at that, the aggregates wait for it.
func (r *relay) examine(ctx context.Context, aggregates []uuid.UUID) (progress bool) {
	r.mu.Lock()
	r.suspects = append(r.suspects, aggregates...)
	for !r.examining && len(r.suspects) > 0 {
		a := r.suspects[0]
		r.suspects = r.suspects[1:]
		r.examining = true
		r.mu.Unlock()
		r.alone.Lock()
		b := r.batch(ctx, []uuid.UUID{a}, 1, true)
		r.alone.Unlock()
		progress = progress || b.progress
		r.release([]uuid.UUID{a}, b.more, !b.progress)
		r.mu.Lock()
		r.examining = false
		if ctx.Err() != nil {
			r.suspects = nil
		}
	}
	r.mu.Unlock()
	return progress
}

// batch makes one transaction, and returns when it has ended, or when a
// projection in it does not end.
func (r *relay) batch(ctx context.Context, aggregates []uuid.UUID, limit int, alone bool) *batch {
	b := &batch{r: r, ctx: ctx, aggregates: aggregates, limit: limit, alone: alone, stuck: make(chan struct{})}
	done := make(chan struct{})
	go func() {
		defer close(done)
		b.run()
	}()
	select {
	case <-done:
	case <-b.stuck:
	}
	given := b.given.Load()
	if given == nil {
		return b
	}
	// The connection is that projection's for as long as it runs, but useless from
	// now on: without the other end the server gives up the transaction, and with
	// it the locks.
	_ = b.socket.Close()
	r.charge(*given)
	b.undone(outcomeRolledBack, summaryRolledBack, nil)
	return &batch{progress: true}
}

// run makes the transaction.
func (b *batch) run() {
	r, w := b.r, b.r.w
	ctx := context.WithoutCancel(r.handlers)
	w.health.relay.tick()
	acquiring, cancel := context.WithTimeout(b.ctx, batchTimeout)
	conn, err := w.user.Acquire(acquiring)
	cancel()
	if err != nil {
		if b.ctx.Err() == nil {
			w.warn("relay", "no connection for projections", err)
		}
		return
	}
	defer conn.Release() // closes one that is left inside a transaction
	b.socket = conn.Conn().PgConn().Conn()
	// A process that is stopped in the middle would hold its locks for as long as
	// it stays stopped.
	began := time.Now()
	idle := r.longest + stuckGrace + w.config.Lease
	var p *store.Projecting
	if b.alone {
		claim := uuid.New()
		beginning, cancel := context.WithTimeout(ctx, aloneTimeout)
		p, err = w.store.ClaimProjecting(beginning, conn.Conn(), b.aggregates[0], claim, r.capabilities, idle, w.config.Name)
		cancel()
		if err != nil || p.Locked == 0 {
			defer r.unclaim(b.aggregates[0], claim) // when the transaction has ended
		}
	} else {
		beginning, cancel := context.WithTimeout(ctx, batchTimeout)
		p, err = w.store.BeginProjecting(beginning, conn.Conn(), b.aggregates, b.limit, idle, w.config.Name)
		cancel()
	}
	w.metrics.database(opTake, time.Since(began), 0, err)
	if err != nil {
		w.warn("relay", "cannot begin to project", err)
		return
	}
	committed := false
	defer func() {
		if committed {
			return
		}
		ctx, cancel := context.WithTimeout(ctx, rollbackTimeout)
		defer cancel()
		_ = p.Tx.Rollback(ctx)
	}()

	t := newTally(w)
	broken, last := b.each(ctx, p, t)
	if broken != nil {
		if b.given.Load() == nil { // that has been counted
			w.counters.events.broken.Add(1)
		}
		b.progress = true
		closing, cancel := context.WithTimeout(ctx, rollbackTimeout)
		defer cancel()
		_ = conn.Conn().Close(closing) // it may be in the middle of anything
		if broken.Outcome != store.Completed {
			r.charge(*broken)
		}
		switch {
		case b.given.Load() != nil: // told by who waits for it
		case broken.ended:
			b.undone("", "one of the projections ended the transaction of all", broken)
		default:
			b.undone(outcomeRolledBack, summaryRolledBack, broken)
		}
		return
	}
	if len(p.Events) == 0 {
		return
	}
	// Also where nothing was done: a rollback would make suspects of them.
	committing, cancel := context.WithTimeout(ctx, batchTimeout)
	defer cancel()
	began = time.Now()
	err = p.Commit(committing)
	w.metrics.database(opCommit, time.Since(began), 0, err)
	if err == nil {
		committed, b.progress = true, last != nil
		b.more = t.more(p.Events, p.Share())
		t.count(w)
		for _, run := range b.runs {
			run.traced.end(&run.verdict, run.returned)
		}
		return
	}
	w.counters.events.broken.Add(1)
	if _, answered := errors.AsType[*pgconn.PgError](err); !answered && !errors.Is(err, store.ErrTransactionEnded) {
		w.warn("relay", "the answer to a commit did not come", err)
		b.undone("", "the answer to the commit did not come", nil)
		return
	}
	b.progress = true
	if t.projected != 1 {
		// A deferred constraint, such as a foreign key, fails the commit of all.
		w.warn("relay", "projections could not be committed together; they are tried one at a time", err)
		b.undone(outcomeRolledBack, summaryRolledBack, nil)
		return
	}
	run := b.runs[slices.IndexFunc(b.runs, func(run *projection) bool { return run.verdict.outcome == store.Completed })]
	v := decideApart(run.row.Policy, run.event.Attempts+1, run.row.Policy.Attempts, fmt.Errorf("commit what the projection has done: %w", err), nil)
	r.log(run.event, run.traced).Warn("the projection could not be committed", "code", v.code, "error", v.said())
	f := failure{event: run.event, at: p.At, EventFailure: failed(v, run.row)}
	r.charge(f)
	b.undone(outcomeRolledBack, summaryRolledBack, &f)
}

// summaryRolledBack is the status of a projection that was undone for no fault of
// its own.
const summaryRolledBack = "its transaction came to nothing, and the event is projected again"

// undone ends the spans of the projections of a transaction that did not commit:
// with that failure, of the one whose event is charged with it.
func (b *batch) undone(outcome, why string, charged *failure) {
	for _, run := range b.runs {
		if charged != nil && charged.event == run.event && charged.Outcome != store.Completed {
			v := run.verdict
			if v.code != charged.Code || v.summary != charged.Summary {
				v = verdict{outcome: charged.Outcome, code: charged.Code, summary: charged.Summary}
			}
			run.traced.end(&v, run.returned)
		} else {
			run.traced.undone(outcome, why, run.returned)
		}
	}
}

// each runs the projections. Broken is the end of the transaction before its
// time: the event that is to blame, and Completed where none is. Last is the
// last event of which something was done.
func (b *batch) each(ctx context.Context, p *store.Projecting, t *tally) (broken *failure, last *store.PendingEvent) {
	r := b.r
	began := time.Now()
	done := 0
	for i := range p.Events {
		e := &p.Events[i]
		if t.seen[e.Aggregate] < 0 {
			continue
		}
		if b.ctx.Err() != nil && !e.Mine || done == b.limit || done > 0 && time.Since(began) >= batchTime {
			break
		}
		known := slices.Contains(r.capabilities, e.Capability)
		row := r.rows[e.Type]
		var (
			v     verdict
			of    traced
			yield bool
		)
		switch {
		case e.Missing:
			v = verdict{outcome: store.Quarantine, summary: "pending, but the event has no row"}
			r.log(e, of).Error("an event without a row is set aside")
		case !known, !e.Due:
			t.seen[e.Aggregate] = -1
			continue
		case e.Suspect && !b.alone:
			t.seen[e.Aggregate] = -1
			b.suspects = append(b.suspects, e.Aggregate)
			continue
		case e.Claimed:
			v = lost(row.Policy, e.Attempts+1)
			of.id = tracing.Extract(e.TraceContext).TraceID()
			r.log(e, of).Error("the process that projected the event ended in the middle of it", "outcome", outcomeNames[v.outcome], "delay", v.delay)
		case b.alone && !e.Mine: // somebody else was there in between
			t.seen[e.Aggregate] = -1
			continue
		default:
			if row.Project == nil {
				// Events are known by capability, so this means that two types share one.
				row = dispatch.EventRow{Policy: dispatch.Policy{Attempts: 1, Unknown: 1, Timeout: time.Minute}, Project: r.unknown}
			}
			run := b.one(p, e, row)
			if run.gone {
				return &failure{EventFailure: store.EventFailure{Outcome: store.Completed}}, last
			}
			v, of, yield = run.verdict, run.traced, run.yield
		}
		marking, cancel := context.WithTimeout(ctx, batchTimeout)
		var err error
		if v.outcome == store.Completed {
			err = p.Projected(marking, e)
		} else {
			err = p.Failed(marking, e, failed(v, row))
		}
		cancel()
		if err == nil {
			last = e
			done++
			t.add(e, v.outcome, v.code)
			t.seen[e.Aggregate]++
			if v.outcome == store.Retry || v.outcome == store.GiveBack || v.outcome == store.Dead && !row.Skip {
				t.seen[e.Aggregate] = -1 // later ones wait
			}
			if yield {
				return nil, last
			}
			continue
		}
		f := &failure{event: e, at: p.At, EventFailure: failed(v, row), ended: errors.Is(err, store.ErrTransactionEnded)}
		switch {
		case errors.Is(err, store.ErrFenced):
			f.Outcome = store.Completed // somebody else has seen to it
		case v.outcome == store.Completed:
			if f.ended {
				err = errTransactionEnded
			}
			w := decideApart(row.Policy, e.Attempts+1, row.Policy.Attempts, fmt.Errorf("mark the event as projected: %w", err), nil)
			r.log(e, of).Warn("the projection has left its transaction unusable", "code", w.code, "error", w.said())
			f.EventFailure = failed(w, row)
		}
		return f, last
	}
	return nil, last
}

// lost is what becomes of an attempt that ended its process, or was in the middle
// as that ended: nobody can say.
func lost(p dispatch.Policy, attempt int) verdict {
	v := verdict{
		outcome: store.Retry, delay: backoff(p, attempt, rand.Float64()), code: codeProcessLost,
		summary: "the process that projected the event ended in the middle of it; does the projection exit, or exhaust the memory?",
	}
	if attempt >= p.Attempts {
		v.outcome, v.delay = store.Dead, 0
	}
	return v
}

var errTransactionEnded = fmt.Errorf("%w: the projection ended its transaction by an SQL statement; return nil to have it committed, or an error to have it rolled back", task.ErrTxOwned)

// one runs one projection, and returns when it has, or when the watchdog has given
// it up.
func (b *batch) one(p *store.Projecting, e *store.PendingEvent, row dispatch.EventRow) *projection {
	r, w := b.r, b.r.w
	run := &projection{event: e, row: row, started: time.Now()}
	r.mu.Lock()
	r.running[run] = struct{}{}
	r.mu.Unlock()
	w.counters.events.running.Add(1)
	end := func() {
		r.mu.Lock()
		delete(r.running, run)
		r.mu.Unlock()
		w.counters.events.running.Add(-1)
	}
	projecting, cancel := context.WithTimeoutCause(r.handlers, row.Policy.Timeout, task.ErrTimeout)
	defer cancel()
	projecting = run.trace(projecting, w, p.At)
	watchdog := time.AfterFunc(row.Policy.Timeout+stuckGrace, func() {
		stuck := fmt.Errorf("%w of %v and the projection ignores its context", task.ErrTimeout, row.Policy.Timeout)
		v := decideApart(row.Policy, e.Attempts+1, row.Policy.Attempts, stuck, task.ErrTimeout)
		if !run.ended.CompareAndSwap(false, true) {
			return
		}
		end()
		w.counters.timeouts.Add(1)
		w.counters.events.stuck.Add(1)
		w.counters.events.broken.Add(1)
		r.log(e, run.traced).Error("the projection ignores the end of its context and holds a goroutine and a connection", "timeout", row.Policy.Timeout)
		w.metrics.projected(e.Type, &v, row.Policy.Timeout+stuckGrace)
		run.traced.end(&v, time.Now())
		b.given.Store(&failure{event: e, at: p.At, EventFailure: failed(v, row)})
		close(b.stuck)
	})
	defer watchdog.Stop()
	o := &dispatch.Occurrence{
		ID: e.ID, Event: e.Type, AggregateType: e.AggregateType, AggregateID: e.AggregateID, OrganizationID: e.OrganizationID,
		Sequence: e.Seq, Version: e.Version, Attempt: e.Attempts + 1, MaxAttempts: row.Policy.Attempts,
		OccurredAt: e.OccurredAt, PublishedAt: e.PublishedAt, Payload: e.Payload,
	}
	began := time.Now()
	err := apart(func() error {
		return w.throughEvent(projecting, o, func(ctx context.Context) error {
			return row.Project(ctx, &lentTx{boundTx{Tx: p.Tx, schema: w.schema}}, o)
		})
	})
	if !run.ended.CompareAndSwap(false, true) {
		w.counters.events.stuck.Add(-1)
		r.log(e, run.traced).Warn("a stuck projection has returned", "after", time.Since(run.started))
		<-b.stuck // what the watchdog has to say is said
		run.gone = true
		return run
	}
	run.returned = time.Now()
	end()
	if err == nil {
		err = p.Intact()
		if errors.Is(err, store.ErrTransactionEnded) {
			err = errTransactionEnded
		}
	}
	cause := context.Cause(projecting)
	run.verdict = decideApart(row.Policy, e.Attempts+1, row.Policy.Attempts, err, cause)
	if errors.Is(cause, task.ErrTimeout) && err != nil {
		w.counters.timeouts.Add(1)
	}
	if pgErr, ok := errors.AsType[*pgconn.PgError](err); ok {
		run.yield = pgErr.Code == "40P01" || pgErr.Code == "55P03" // deadlock_detected, lock_not_available
	}
	w.metrics.projected(e.Type, &run.verdict, run.returned.Sub(began))
	r.tell(run, err)
	b.runs = append(b.runs, run)
	return run
}

// tell logs the end of an attempt.
func (r *relay) tell(run *projection, err error) {
	v := &run.verdict
	if p, ok := err.(*panicError); ok {
		r.w.counters.panics.Add(1)
		r.log(run.event, run.traced).Error("the projection panicked", "panic", summarize(p), "stack", string(p.stack))
	}
	switch v.outcome {
	case store.Dead:
		r.log(run.event, run.traced).Error("dead event", "code", v.code, "error", v.said())
	case store.Retry:
		r.log(run.event, run.traced).Warn("the projection failed and will be tried again", "code", v.code, "error", v.said(), "delay", v.delay)
	case store.Cancelled:
		r.log(run.event, run.traced).Info("the event is discarded", "code", v.code, "error", v.said())
	}
}

// unclaim takes back that an attempt has begun, which has not.
func (r *relay) unclaim(aggregate, claim uuid.UUID) {
	r.recording.Lock()
	defer r.recording.Unlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.handlers), batchTimeout)
	defer cancel()
	if err := r.w.store.Unclaim(ctx, aggregate, claim); err != nil {
		r.w.warn("relay", "cannot take back that a projection has begun; it will be taken for one that ended its process", err)
	}
}

// charge records an attempt whose transaction came to nothing.
func (r *relay) charge(f failure) {
	r.recording.Lock()
	defer r.recording.Unlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.handlers), batchTimeout)
	defer cancel()
	recorded, err := r.w.store.EventFailed(ctx, f.event, f.EventFailure, f.at, r.w.config.Name)
	if err != nil {
		r.w.warn("relay", "cannot record that a projection failed; it is tried again without that", err)
		return
	}
	if recorded {
		t := newTally(r.w)
		t.add(f.event, f.Outcome, f.Code)
		t.record(r.w)
	}
}

func (r *relay) log(e *store.PendingEvent, t traced) logger {
	return t.with(r.w.log.With("event", e.ID, "type", e.Type, "aggregate", e.AggregateType+" "+e.AggregateID, "attempt", e.Attempts+1))
}

// failed is what is recorded of a verdict.
func failed(v verdict, row dispatch.EventRow) store.EventFailure {
	return store.EventFailure{Outcome: v.outcome, Delay: v.delay, Code: v.code, Summary: v.summary, Block: !row.Skip}
}

// unknown stands for the projection of a type that this process does not have,
// although it knows its capability.
func (r *relay) unknown(_ context.Context, _ pgx.Tx, o *dispatch.Occurrence) error {
	return &dispatch.DecodeError{Kind: o.Event, Version: o.Version, Err: errors.New("this binary has no projection of that type, although it knows its capability")}
}
