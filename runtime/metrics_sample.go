package runtime

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/pawlgo/pawl/internal/store"
)

// sampleInterval is how often the database is looked at for the gauges, by one of
// all the workers, and how often each reads what was seen.
const sampleInterval = 5 * time.Second

// DatabaseStats is what was last seen of the database as a whole. One worker
// looks for all of them, so they all say the same; a worker without
// [Config].MeterProvider takes no part in it, and says nothing.
type DatabaseStats struct {
	Sampled bool          // there is something
	Taken   int64         // how often this worker has looked
	Age     time.Duration // since somebody last did

	Queues   map[string]DepthStats // that have jobs or dead letters, or a live worker
	Stranded []StrandedStats
	Events   map[string]EventLag // by type: what is published and not projected
	// BlockedAggregates is how many a dead event holds up.
	BlockedAggregates int64

	// Horizon is since when the oldest transaction runs that keeps vacuum from
	// removing dead rows, of those that the worker's role may see, and
	// HorizonTransactions how many have begun since what holds it back most. Where
	// only sessions do that whose beginning the role may not see, HorizonHidden is
	// set, Horizon is zero, and the metric has no value: GRANT pg_monitor.
	Horizon             time.Duration
	HorizonTransactions int64
	HorizonHidden       bool
	DeadRows            map[string]int64 // by hot table, as the server's statistics have them
	Notifications       float64          // the part of the server's queue of them that is full, up to 1
}

// DepthStats is the unfinished jobs and the dead letters of one queue, each
// counted once.
type DepthStats struct {
	Pending     int64         // due, whether for the first time or another
	Scheduled   int64         // due later, for the first time
	Retrying    int64         // due later, having been tried
	Leased      int64         // some process has them
	Blocked     int64         // wait for another of their order key
	DeadLetters int64         // that are kept
	Oldest      time.Duration // since the first pending one became due
	// Estimated says that some of the counts are estimates: of more than 5,000
	// jobs, or from large tables.
	Estimated bool
}

func (d DepthStats) and(x DepthStats) DepthStats {
	return DepthStats{
		Pending: d.Pending + x.Pending, Scheduled: d.Scheduled + x.Scheduled, Retrying: d.Retrying + x.Retrying, Leased: d.Leased + x.Leased,
		Blocked: d.Blocked + x.Blocked, DeadLetters: d.DeadLetters + x.DeadLetters, Oldest: max(d.Oldest, x.Oldest), Estimated: d.Estimated || x.Estimated,
	}
}

// StrandedStats is waiting jobs that no live worker can decode.
type StrandedStats struct {
	Queue string
	Kind  string // empty of one that no worker has ever registered
	Jobs  int64
}

// samples is the live side of [DatabaseStats].
type samples struct {
	mu   sync.Mutex
	last DatabaseStats // guarded by mu; what it refers to is never changed once it is here
	read time.Time     // guarded by mu; when that was read, with the age that it has
}

func (s *samples) snapshot() DatabaseStats {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := s.last
	if d.Sampled {
		d.Age += time.Since(s.read)
	}
	return d
}

// sample keeps up with what is seen of the database.
func (w *Worker) sample(ctx context.Context) {
	every := min(sampleInterval, w.config.Lease/3)
	timer := time.NewTimer(rand.N(every / 4)) // processes that start together do not all look at once
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		w.readSample(ctx, every)
		timer.Reset(every)
	}
}

func (w *Worker) readSample(ctx context.Context, every time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, store.SampleTimeout)
	defer cancel()
	began := time.Now()
	x, err := w.store.Sample(ctx, every)
	w.metrics.database(opSample, time.Since(began), 0, err)
	if err != nil {
		if ctx.Err() == nil {
			w.warn("sampler", "cannot look at the database for its gauges", err)
		}
		return
	}
	if x == nil { // somebody is at the first one
		return
	}
	d := statsOf(x)
	s := &w.counters.database
	s.mu.Lock()
	defer s.mu.Unlock()
	if d.Taken = s.last.Taken; x.Taken {
		d.Taken++
	}
	s.last, s.read = d, time.Now()
}

func statsOf(x *store.Sample) DatabaseStats {
	d := DatabaseStats{
		Sampled: true, Age: x.Age, BlockedAggregates: x.Outbox.Blocked,
		Queues: make(map[string]DepthStats, len(x.Queues)), Events: make(map[string]EventLag, len(x.Outbox.Events)),
		HorizonTransactions: x.Server.HorizonTransactions, HorizonHidden: x.Server.Horizon == nil,
		DeadRows: x.Server.DeadRows, Notifications: x.Server.Notifications,
	}
	if x.Server.Horizon != nil {
		d.Horizon = x.Server.Horizon.Duration()
	}
	for _, q := range x.Queues {
		d.Queues[q.Queue] = DepthStats{
			Pending: q.Pending, Scheduled: q.Scheduled, Retrying: q.Retrying, Leased: q.Leased, Blocked: q.Blocked,
			DeadLetters: q.Dead, Oldest: q.Oldest.Duration(), Estimated: q.Estimated,
		}
	}
	for _, s := range x.Stranded {
		d.Stranded = append(d.Stranded, StrandedStats{Queue: s.Queue, Kind: s.Kind, Jobs: s.Jobs})
	}
	for _, e := range x.Outbox.Events {
		l := d.Events[e.Type]
		l.Pending += e.Events
		l.Oldest = max(l.Oldest, e.Oldest.Duration())
		if !e.Known {
			l.Stranded += e.Events
		}
		d.Events[e.Type] = l
	}
	return d
}
