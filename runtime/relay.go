package runtime

import (
	"cmp"
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/pawlgo/pawl/internal/dispatch"
	"github.com/pawlgo/pawl/internal/store"
)

// The defaults of [Relay].
const (
	DefaultRelayConcurrency = 2
	DefaultRelayBatch       = 100
)

const (
	// maxRelayBatch bounds a batch, and with it the locks that it holds.
	maxRelayBatch = 1000
	// pickVisits is how many aggregates one look is at: some milliseconds.
	pickVisits = 2000
	// pickTimeout bounds one look.
	pickTimeout = 10 * time.Second
	// relayRest is how long aggregates are left alone that somebody else has.
	relayRest = 50 * time.Millisecond
	// lookBack is how long a transaction may take from its publishing to its commit
	// without its event having to wait for a look at all aggregates.
	lookBack = time.Second
)

// Relay is how a worker projects events.
type Relay struct {
	// Concurrency is how many transactions project at once, each on a connection
	// of the user's pool; 2 where zero.
	Concurrency int
	// Batch is how many events one transaction projects at most; 100 where zero,
	// at most 1000. A transaction also ends with the event that it is at after a
	// quarter of a second. What projections lock stays locked until then.
	Batch int
}

func (r Relay) withDefaults() (Relay, error) {
	r.Concurrency = cmp.Or(r.Concurrency, DefaultRelayConcurrency)
	r.Batch = cmp.Or(r.Batch, DefaultRelayBatch)
	switch {
	case r.Concurrency < 0:
		return r, wrong("Relay.Concurrency is %d: use 1 or more, or 0 for the default of %d", r.Concurrency, DefaultRelayConcurrency)
	case r.Batch < 0 || r.Batch > maxRelayBatch:
		return r, wrong("Relay.Batch is %d: use 1 to %d, or 0 for the default of %d", r.Batch, maxRelayBatch, DefaultRelayBatch)
	}
	return r, nil
}

// events sorts the rows of the event tables by type.
func (c Config) events() (map[string]dispatch.EventRow, error) {
	rows := make(map[string]dispatch.EventRow)
	for _, table := range c.Events {
		for _, row := range dispatch.EventRows(table) {
			if _, ok := rows[row.Event]; ok {
				return nil, wrong("event %s stands in two tables: an event has one projection", row.Event)
			}
			rows[row.Event] = row
		}
	}
	return rows, nil
}

// relay projects the events of a worker: one loop that looks for aggregates with
// due events, and transactions that project them.
type relay struct {
	w            *Worker
	rows         map[string]dispatch.EventRow
	capabilities []int64
	longest      time.Duration // timeout of the rows

	handlers context.Context // what projections derive from; set before the loop starts

	slots    chan struct{} // a token for each transaction that may begin
	woken    chan struct{} // something may be due
	finished chan struct{} // closed when the loop and its transactions have ended

	// An event that may end the process is projected while nothing else is, so that
	// no other one is there to be blamed: held for writing by a transaction for such
	// an event, and for reading by the others.
	alone sync.RWMutex

	// Held to write down something beside the transactions: the store has one
	// connection for that.
	recording sync.Mutex

	mu      sync.Mutex
	away    map[uuid.UUID]time.Time  // guarded by mu; aggregates to leave alone until then, zero while this process has them
	running map[*projection]struct{} // guarded by mu

	hot []uuid.UUID // guarded by mu; aggregates with more due events than one transaction took

	suspects  []uuid.UUID // guarded by mu; aggregates of this process that are to be examined
	examining bool        // guarded by mu; one of them is just being

	// A look finds what has become due since the last one. What was missed then, as
	// it committed late or another process had it, is found by going round all
	// aggregates, for which there is a part of the time.
	floor     time.Time     // the loop's alone: since when to look
	after     uuid.UUID     // the loop's alone: how far the present round has come
	roundFrom time.Time     // the loop's alone: when the next round may begin
	roundTook time.Duration // the loop's alone: what the present one has taken

	calm    int       // the loop's alone: how many waits of linger have passed
	sleeper uuid.UUID // the loop's alone: the process that asked to be woken; Nil for none
}

func newRelay(w *Worker, rows map[string]dispatch.EventRow) *relay {
	r := &relay{
		w: w, rows: rows,
		slots: make(chan struct{}, w.config.Relay.Concurrency), woken: make(chan struct{}, 1), finished: make(chan struct{}),
		away: make(map[uuid.UUID]time.Time), running: make(map[*projection]struct{}),
		after: uuid.New(), // so that processes which start together do not look at the same
	}
	for _, row := range rows {
		for _, v := range row.Versions {
			r.capabilities = append(r.capabilities, v.Capability)
		}
		r.longest = max(r.longest, row.Policy.Timeout)
	}
	slices.Sort(r.capabilities)
	for range w.config.Relay.Concurrency {
		r.slots <- struct{}{}
	}
	return r
}

// wake makes an idle loop look at once.
func (r *relay) wake() { signal(r.woken) }

// run projects until ctx ends, and returns when the transactions that it began
// have ended.
func (r *relay) run(ctx context.Context) {
	defer close(r.finished)
	var batches sync.WaitGroup
	defer batches.Wait()
	health := &r.w.health
	health.relay.period = r.turn()
	health.relay.tick()
	health.relays.Store(true)
	defer health.relays.Store(false) // what it has begun has the limits of a shutdown
	for ctx.Err() == nil {
		health.relay.tick()
		select {
		case <-r.slots:
		case <-ctx.Done():
			return
		}
		found, next, err := r.look(ctx)
		if len(found) == 0 {
			r.slots <- struct{}{}
			if err != nil || next > 0 {
				r.idle(ctx, err, next)
			}
			continue
		}
		r.calm = 0
		// As many transactions at once as may be: one slow projection holds up
		// those behind it.
		free := 1
		for more := true; more && free < len(found); {
			select {
			case <-r.slots:
				free++
			default:
				more = false
			}
		}
		for _, share := range shares(found, free) {
			batches.Go(func() {
				defer func() { r.slots <- struct{}{} }()
				r.project(ctx, share)
			})
		}
	}
}

// turn is the longest that the loop may wait: for one of its transactions, or for
// something to do.
func (r *relay) turn() time.Duration {
	return r.longest + stuckGrace + 3*batchTimeout + pickTimeout + r.w.config.Poll
}

// shares deals out aggregates.
func shares(all []uuid.UUID, n int) [][]uuid.UUID {
	dealt := make([][]uuid.UUID, n)
	for i, a := range all {
		dealt[i%n] = append(dealt[i%n], a)
	}
	return dealt
}

// look finds aggregates that have due events, and takes them for this process.
// Where it finds none, there may be some after the time next.
func (r *relay) look(ctx context.Context) (found []uuid.UUID, next time.Duration, err error) {
	w := r.w
	process, _ := w.keeper.process()
	p := &store.Pick{Floor: r.floor, After: r.after, Limit: w.config.Relay.Batch, Capabilities: r.capabilities, Process: process}
	begun := time.Now()
	round := !begun.Before(r.roundFrom)
	if round {
		p.Visits = pickVisits
	}
	// A process that could not be woken does not ask for it.
	if sleep := r.calm >= len(linger)-1 && w.counters.listening.Load(); process != uuid.Nil && (sleep || r.sleeper == process) {
		p.Sleep = &sleep
	}
	callCtx, cancel := context.WithTimeout(ctx, pickTimeout)
	defer cancel()
	picked, err := w.store.Pick(callCtx, p)
	if err != nil && ctx.Err() != nil { // the shutdown's doing
		return nil, 0, err
	}
	w.metrics.database(opPick, time.Since(begun), 0, err)
	if err != nil {
		w.counters.events.pickErrors.Add(1)
		w.warn("relay", "cannot look for events", err)
		return nil, 0, err
	}
	w.counters.events.picks.Add(1)
	r.sleeper = uuid.Nil
	if p.Sleep != nil && *p.Sleep && len(picked.Aggregates) == 0 {
		r.sleeper = process
	}
	fresh := r.take(picked.Aggregates)

	next = w.config.Poll
	if picked.Next > 0 {
		next = min(next, picked.Next)
	}
	switch {
	case !picked.More:
		r.floor = picked.Seen.Add(-lookBack)
	case picked.Seen.After(r.floor):
		r.floor, next = picked.Seen, 0
	default: // a thousand of one instant
		r.floor, next = picked.Seen.Add(time.Microsecond), 0
	}
	// Beside each other, so that neither keeps the other waiting.
	r.mu.Lock()
	found, r.hot = append(r.hot, fresh...), nil
	r.mu.Unlock()
	if !round {
		return found, min(next, max(time.Until(r.roundFrom), 0)), nil
	}
	r.after = picked.Reached
	if len(fresh) == 0 {
		r.roundTook += time.Since(begun)
	}
	if r.after != uuid.Nil {
		return found, 0, nil // it goes on
	}
	r.roundFrom = time.Now().Add(min((fullShare-1)*r.roundTook, fullAtLeast))
	r.roundTook = 0
	return found, next, nil
}

// take returns those of the aggregates that are not to be left alone.
func (r *relay) take(all []uuid.UUID) (mine []uuid.UUID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	for _, a := range all {
		if until, ok := r.away[a]; ok && (until.IsZero() || now.Before(until)) {
			continue
		}
		r.away[a] = time.Time{}
		mine = append(mine, a)
	}
	return mine
}

// release lets the loop have aggregates again, after a rest where there was
// nothing to do: somebody else has them. Those in more have other due events, and
// stay with this process.
func (r *relay) release(aggregates, more []uuid.UUID, rest bool) {
	now := time.Now()
	r.mu.Lock()
	for _, a := range aggregates {
		delete(r.away, a)
		if rest {
			r.away[a] = now.Add(relayRest)
		}
	}
	for _, a := range more {
		r.away[a] = time.Time{}
	}
	r.hot = append(r.hot, more...)
	for a, until := range r.away {
		if !until.IsZero() && !now.Before(until) {
			delete(r.away, a)
		}
	}
	r.mu.Unlock()
	if !rest {
		r.wake()
	}
}

// idle waits until there may be something to project: a wake-up, the time that
// an event becomes due or a round may begin, or the poll interval.
func (r *relay) idle(ctx context.Context, err error, next time.Duration) {
	wait := min(r.w.config.Poll, claimRetry)
	if err == nil {
		wait = next
		if r.calm < len(linger) && r.w.counters.listening.Load() {
			wait = min(wait, linger[r.calm])
			r.calm++
		}
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-r.woken:
		r.calm = 0
	case <-timer.C:
	case <-ctx.Done():
	}
}

// drain projects what is due, and returns when nothing is any more. It reports
// whether there was something.
func (r *relay) drain(ctx context.Context) (progress bool, err error) {
	for ctx.Err() == nil {
		r.roundFrom = time.Time{}
		found, _, err := r.look(ctx)
		switch {
		case err != nil:
			return progress, err
		case len(found) > 0:
			progress = r.project(ctx, found) || progress
		case r.after == uuid.Nil:
			return progress, nil
		}
	}
	return progress, context.Cause(ctx)
}

// list names the projections that are running.
func (r *relay) list() (all []RunningJob) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for p := range r.running {
		all = append(all, RunningJob{ID: p.event.ID, Kind: p.event.Type, Attempt: p.event.Attempts + 1, Since: p.started})
	}
	return all
}

// watch counts what is not projected, and makes the outbox's days ahead.
func (r *relay) watch(ctx context.Context) {
	timer := time.NewTimer(rand.N(lagInterval / 4))
	defer timer.Stop()
	var days time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		if time.Since(days) >= daysInterval && r.ensureDays(ctx) == nil {
			days = time.Now()
		}
		began := time.Now()
		r.countLag(ctx)
		timer.Reset(max(lagInterval, (fullShare-1)*time.Since(began)))
	}
}

func (r *relay) ensureDays(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, sweepTimeout)
	defer cancel()
	err := r.w.store.EnsureEventDays(ctx, daysAhead)
	if err != nil && ctx.Err() == nil {
		r.w.warn("relay", "cannot make the outbox's partitions of the days to come; publishers make them as they need them", err)
	}
	return err
}
