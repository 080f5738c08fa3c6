package runtime

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/pawlgo/pawl/internal/dispatch"
	"github.com/pawlgo/pawl/internal/store"
)

const (
	// maxClaim bounds one claim: the more jobs it takes, the less its commit
	// costs each, and the longer others wait for those that it has not started.
	maxClaim = 4 * store.MaxBatch
	// orderedBack is how far back from its last claim a queue with order keys
	// looks: a turn that is passed on is due as it is written, and seen a little
	// later.
	orderedBack = 100 * time.Millisecond
	// gatherLeast and gatherMost are how long a busy queue waits for more free
	// slots before it claims for the first one: as long as its last claim took,
	// within these.
	gatherLeast = 2 * time.Millisecond
	gatherMost  = 10 * time.Millisecond
	// gatherQuiet is how long none may have become free for it to claim for half
	// of all.
	gatherQuiet = 200 * time.Microsecond
	// claimTimeout bounds one claim; it is longer than the claim waits for locks.
	claimTimeout = 10 * time.Second
	// claimHurry is what is left of it when a shutdown begins.
	claimHurry = time.Second
	// claimRetry is the longest pause after a claim that failed.
	claimRetry = time.Second
	// suspectRetry is how long a queue leaves suspects that somebody has locked.
	suspectRetry = 50 * time.Millisecond
	// turnsAgain is the pause before a claim looks after more order keys than one
	// claim does.
	turnsAgain = 10 * time.Millisecond
	// fullShare is the part of the time that scans from the beginning may take.
	fullShare = 20 // one in
	// fullAtLeast is how often there is one, however long they take: what
	// commits late is found by nothing else.
	fullAtLeast = 5 * time.Second
	// fullSecond is when the second one follows at the latest.
	fullSecond = time.Second
)

// linger are the waits between the claims of a queue that has become idle,
// before it sleeps until it is woken. While it lingers nobody needs to wake it,
// so that a queue with much traffic costs its callers no notification. It asks
// to be woken before the last wait: an enqueue whose transaction was under way
// by then did not see that, and most are found by the claim after it.
var linger = [...]time.Duration{
	2 * time.Millisecond, 5 * time.Millisecond, 10 * time.Millisecond, 20 * time.Millisecond, 40 * time.Millisecond,
}

// queue is the claim loop of one queue and its slots.
type queue struct {
	served
	w            *Worker
	capabilities []int64
	alone        []int64 // those of transactional tasks, whose jobs get a lease each
	ordered      bool    // it has kinds with order keys

	slots chan struct{} // a token for each free slot
	woken chan struct{} // something may be due
	timed chan struct{} // something is due sooner than was known

	mu      sync.Mutex
	nextDue time.Time // guarded by mu; of this process's own retries; zero for none

	floors   [store.Priorities]time.Time // the loop's alone: how far it has claimed
	fullFrom time.Time                   // the loop's alone: when the next scan from the beginning may be
	fullTook time.Duration               // the loop's alone: what the last one took
	took     time.Duration               // the loop's alone: what the last claim took
	turns    bool                        // the loop's alone: the last claim has left order keys to look after

	calm    int       // the loop's alone: how many waits of linger have passed
	sleeper uuid.UUID // the loop's alone: the process that asked to be woken; Nil for none

	metrics *queueMetrics // nil without a provider of them

	suspects atomic.Bool // as far as is known, some wait for the worker's gate
	paused   atomic.Bool // at the last claim

	running atomic.Int64
	claimed atomic.Int64
}

func newQueue(w *Worker, s served) *queue {
	q := &queue{
		served: s, w: w,
		slots: make(chan struct{}, s.concurrency),
		woken: make(chan struct{}, 1), timed: make(chan struct{}, 1),
	}
	for _, row := range s.rows {
		for _, v := range row.Versions {
			q.capabilities = append(q.capabilities, v.Capability)
			if row.RunTx != nil {
				q.alone = append(q.alone, v.Capability)
			}
		}
		q.ordered = q.ordered || row.Ordered
	}
	slices.Sort(q.capabilities)
	for range s.concurrency {
		q.slots <- struct{}{}
	}
	return q
}

// release returns a slot.
func (q *queue) release() { q.slots <- struct{}{} }

// wake makes an idle loop look at once.
func (q *queue) wake() { signal(q.woken) }

// dueIn tells the loop that a job of the queue becomes due after d.
func (q *queue) dueIn(d time.Duration) {
	if d >= q.w.config.Poll { // the poll finds it, and knows when
		return
	}
	at := time.Now().Add(d)
	q.mu.Lock()
	sooner := q.nextDue.IsZero() || at.Before(q.nextDue)
	if sooner {
		q.nextDue = at
	}
	q.mu.Unlock()
	if sooner {
		signal(q.timed)
	}
}

func (q *queue) takeNextDue() time.Time {
	q.mu.Lock()
	defer q.mu.Unlock()
	at := q.nextDue
	q.nextDue = time.Time{}
	return at
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// run claims until ctx ends. The attempts that it started go on.
func (q *queue) run(ctx context.Context) {
	for ctx.Err() == nil {
		s, changed := q.w.keeper.current()
		if s == nil {
			select {
			case <-changed:
			case <-ctx.Done():
			}
			continue
		}
		free := q.gather(ctx)
		if free == 0 {
			return
		}
		own := q.takeNextDue()
		started, next, err := q.claim(ctx, s, free)
		for range free - started {
			q.release()
		}
		if started > 0 {
			q.calm = 0
		}
		if err == nil && started == free {
			continue // there may be more
		}
		q.idle(ctx, err, next, own)
	}
}

// gather takes free slots, waiting for the first one and then a moment for
// more, and returns how many; zero when ctx has ended.
func (q *queue) gather(ctx context.Context) int {
	select {
	case <-q.slots:
	case <-ctx.Done():
		return 0
	}
	want := min(q.concurrency, maxClaim)
	free := 1 + q.drain(want-1)
	if free == want {
		return free
	}
	// The more slots a claim fills, the less it costs each; handlers that take
	// long are not waited for.
	enough := time.NewTimer(min(max(gatherLeast, q.took), gatherMost))
	defer enough.Stop()
	quiet := time.NewTimer(gatherQuiet)
	defer quiet.Stop()
	for free < want {
		var pause <-chan time.Time
		if free >= (want+1)/2 {
			pause = quiet.C
		}
		select {
		case <-q.slots:
			free += 1 + q.drain(want-free-1)
			quiet.Reset(gatherQuiet)
			continue
		case <-pause:
		case <-enough.C:
		case <-ctx.Done():
		}
		break
	}
	return free + q.drain(want-free)
}

func (q *queue) drain(limit int) (n int) {
	for n < limit {
		select {
		case <-q.slots:
			n++
			continue
		default:
		}
		break
	}
	return n
}

// idle waits until there may be something to claim: a wake-up, the time that a
// job becomes due, or the poll interval.
func (q *queue) idle(ctx context.Context, err error, next time.Duration, own time.Time) {
	wait := min(q.w.config.Poll, claimRetry)
	if err == nil {
		wait = min(q.w.config.Poll, next)
		if !own.IsZero() {
			wait = min(wait, max(time.Until(own), 0))
		}
		if q.calm < len(linger) && q.w.counters.listening.Load() {
			wait = min(wait, linger[q.calm])
			q.calm++
		}
	}
	deadline := time.Now().Add(wait)
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for {
		select {
		case <-q.woken:
			q.calm = 0
			return
		case <-q.timed:
			q.mu.Lock()
			at := q.nextDue
			q.mu.Unlock()
			if !at.IsZero() && at.Before(deadline) {
				deadline = at
				timer.Reset(max(time.Until(at), 0))
			}
		case <-timer.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// claim asks for as many jobs as there are free slots and starts what it gets.
// It returns how many, and after how long the next job becomes due.
func (q *queue) claim(ctx context.Context, s *session, free int) (started int, next time.Duration, err error) {
	w := q.w
	c := &store.Claim{Owner: s.process, Token: uuid.New(), Queue: q.name, Limit: free, Capabilities: q.capabilities, Floors: q.floors, Ordered: q.ordered, Alone: q.alone}
	if q.alone != nil {
		c.AloneTokens = make([]uuid.UUID, free)
		for i := range c.AloneTokens {
			c.AloneTokens[i] = uuid.New()
		}
	}
	if q.suspects.Load() && w.takeSuspect() {
		c.SuspectToken = uuid.New()
	}
	// A process that could not be woken does not ask for it.
	if sleep := q.calm >= len(linger)-1 && w.counters.listening.Load(); sleep || q.sleeper == s.process {
		c.Sleep = &sleep
	}
	for n := store.MaxBatch; n < free; n += store.MaxBatch {
		c.MoreTokens = append(c.MoreTokens, uuid.New())
	}
	tokens := slices.Concat(c.AloneTokens, c.MoreTokens, []uuid.UUID{c.Token, c.SuspectToken})
	w.holdings.add(tokens...)
	defer w.holdings.done(tokens...)
	begun := time.Now()
	full := !begun.Before(q.fullFrom)
	if full {
		c.Floors = [store.Priorities]time.Time{}
	}

	claimed, took, err := w.claimer.send(ctx, c, full && q.fullTook > scanAlone)
	if errors.Is(err, errNotSent) {
		if c.SuspectToken != uuid.Nil {
			w.releaseSuspect(q)
		}
		return 0, 0, err
	}
	q.took = took
	measured := w.metrics.claimed(q, time.Since(begun), q.took, claimed, err)
	if err != nil {
		if c.SuspectToken != uuid.Nil {
			w.releaseSuspect(q)
		}
		q.claimFailed(err)
		return 0, 0, err
	}
	q.sleeper = uuid.Nil
	if c.Sleep != nil && *c.Sleep && len(claimed.Jobs) < c.Limit {
		q.sleeper = s.process
	}
	w.counters.claims.Add(1)
	if q.paused.Swap(claimed.Paused) != claimed.Paused {
		w.log.Info("the queue is paused or resumed", "queue", q.name, "paused", claimed.Paused)
	}
	if claimed.Paused {
		if c.SuspectToken != uuid.Nil {
			w.releaseSuspect(q)
		}
		q.fullFrom = time.Time{} // what has become due meanwhile is below the floors
		return 0, w.config.Poll, nil
	}
	if full {
		// The shorter of two, since one alone may have waited for a lock.
		took, last, most := time.Since(begun), q.fullTook, fullAtLeast
		if last == 0 { // none to compare with
			last, most = took, fullSecond
		}
		q.fullFrom = time.Now().Add(min((fullShare-1)*min(took, last), most))
		q.fullTook = took
	}
	q.advance(c, claimed)
	w.counters.claimed.Add(int64(len(claimed.Jobs)))
	q.claimed.Add(int64(len(claimed.Jobs)))

	suspect := false
	for _, job := range claimed.Jobs {
		a := &attempt{w: w, q: q, owner: s.process, job: job, row: q.rowOf(job), claim: measured, suspect: job.Token == c.SuspectToken, waited: claimed.At.Sub(job.EnqueuedAt)}
		suspect = suspect || a.suspect
		w.holdings.add(job.Token)
		a.start(s)
	}
	q.suspects.Store(claimed.Suspects)
	if c.SuspectToken != uuid.Nil && !suspect {
		w.releaseSuspect(q)
	}
	next = w.config.Poll
	if !claimed.Next.IsZero() {
		next = max(claimed.Next.Sub(claimed.At), 0)
	}
	if !full {
		// The wake-up may have been for what committed late, below the floors.
		next = min(next, max(time.Until(q.fullFrom), 0))
	}
	if q.turns = claimed.Turns; q.turns {
		next = min(next, turnsAgain)
	}
	if claimed.Suspects && len(w.suspect) > 0 {
		// The gate is open; when it is not, its release wakes the queue. One that
		// was passed with nothing to show means that somebody else has them.
		next = 0
		if c.SuspectToken != uuid.Nil {
			next = suspectRetry
		}
	}
	return len(claimed.Jobs), next, nil
}

// rowOf returns the handler of a job. Jobs are claimed by capability, so one
// without a handler means that two kinds share one; it is never run by another
// kind's handler.
func (q *queue) rowOf(job store.ClaimedJob) dispatch.Row {
	row, ok := q.rows[job.Kind]
	if !ok {
		row.Run = func(context.Context, *dispatch.Delivery) error {
			return &dispatch.DecodeError{Kind: job.Kind, Version: job.Version, Err: errors.New("this binary has no handler of that kind, although it knows its capability")}
		}
		row.Policy = dispatch.Policy{Attempts: 1, Unknown: 1, Timeout: time.Minute}
	}
	return row
}

// advance moves the floors to where the claim came. What commits late below
// them is found by the next scan from the beginning.
func (q *queue) advance(c *store.Claim, claimed *store.Claimed) {
	defer func() {
		for i := range q.floors {
			if back := claimed.At.Add(-orderedBack); q.ordered && q.floors[i].After(back) {
				q.floors[i] = back
			}
		}
	}()
	if len(claimed.Jobs) < c.Limit {
		for i := range q.floors {
			q.floors[i] = claimed.At
		}
		return
	}
	last := claimed.Jobs[len(claimed.Jobs)-1] // of the lowest level that was reached
	if last.Token == c.SuspectToken {
		return
	}
	for i := range q.floors {
		switch level := int16(store.Priorities - i); {
		case level > last.Priority:
			q.floors[i] = claimed.At
		case level == last.Priority:
			q.floors[i] = last.RunAt
		}
	}
}

// claimFailed deals with a claim whose answer did not come: it may have taken
// jobs that nobody here knows of, so they are looked for.
func (q *queue) claimFailed(err error) {
	q.w.counters.claimErrors.Add(1)
	pgErr, answered := errors.AsType[*pgconn.PgError](err)
	if answered && pgErr.Code == store.NotRegistered { // the keeper will notice, and says so
		return
	}
	q.w.warn("queue "+q.name, "claim failed", err, "queue", q.name)
	// An error of the statement means that nothing was taken. A fatal one is the
	// end of the connection, and can come after the commit.
	if pgconn.SafeToRetry(err) || answered && pgErr.SeverityUnlocalized == "ERROR" {
		return
	}
	q.w.holdings.lose()
}
