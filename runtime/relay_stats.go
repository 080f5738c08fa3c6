package runtime

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// lagInterval is how often a worker counts the events that are not projected,
// and less often where that takes long.
const lagInterval = 5 * time.Second

// EventStats is a snapshot of a worker's relay. The counters are of this
// worker; the gauges are of the database, as this worker saw it last: some
// seconds ago, or longer where looking takes long. They are zero of a worker
// without events.
type EventStats struct {
	Picks      int64 // looks for aggregates with due events
	PickErrors int64
	Batches    int64 // transactions that committed
	Broken     int64 // transactions that came to nothing, so that what they had projected is projected again

	Projected int64
	Retried   int64
	Dead      int64
	Discarded int64 // their projections said that they are revoked
	GivenBack int64 // snoozed, or interrupted by a shutdown
	Running   int64 // projections, now
	Stuck     int64 // projections that ignore the end of their context, now

	Pending  int64         // events that are not projected
	Oldest   time.Duration // since the first of them was published
	Stranded int64         // those of them that no live worker can decode
	Blocked  int64         // aggregates that a dead event holds up

	// Types are the pending events by the name under which they are stored.
	Types map[string]EventLag
}

// EventLag is the pending events of one type.
type EventLag struct {
	Pending  int64
	Oldest   time.Duration // since the first of them was published
	Stranded int64         // those of a version that no live worker can decode
}

// eventCounters are the live side of [EventStats].
type eventCounters struct {
	picks, pickErrors, batches, broken                             atomic.Int64
	projected, retried, dead, discarded, givenBack, running, stuck atomic.Int64

	mu  sync.Mutex
	lag EventStats // guarded by mu: its gauges; Types is never changed once it is here
}

func (c *eventCounters) snapshot() EventStats {
	c.mu.Lock()
	s := c.lag
	c.mu.Unlock()
	s.Picks, s.PickErrors, s.Batches, s.Broken = c.picks.Load(), c.pickErrors.Load(), c.batches.Load(), c.broken.Load()
	s.Projected, s.Retried, s.Dead, s.Discarded = c.projected.Load(), c.retried.Load(), c.dead.Load(), c.discarded.Load()
	s.GivenBack, s.Running, s.Stuck = c.givenBack.Load(), c.running.Load(), c.stuck.Load()
	return s
}

// countLag looks at what is not projected.
func (r *relay) countLag(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, sweepTimeout)
	defer cancel()
	lags, blocked, err := r.w.store.Lag(ctx)
	if err != nil {
		if ctx.Err() == nil {
			r.w.warn("relay", "cannot count the pending events", err)
		}
		return
	}
	s := EventStats{Blocked: blocked, Types: make(map[string]EventLag)}
	for _, l := range lags {
		s.Pending += l.Pending
		s.Oldest = max(s.Oldest, l.Oldest)
		t := s.Types[l.Type]
		t.Pending += l.Pending
		t.Oldest = max(t.Oldest, l.Oldest)
		if !l.Known {
			s.Stranded += l.Pending
			t.Stranded += l.Pending
			r.w.warn("relay", "events are stranded: no live worker knows their payload version; deploy one that does", nil,
				"event", l.Type, "version", l.Version, "events", l.Pending)
		}
		s.Types[l.Type] = t
	}
	c := &r.w.counters.events
	c.mu.Lock()
	c.lag = s
	c.mu.Unlock()
}
