package runtime

import (
	"context"
	"sync"
	"time"

	"github.com/google/uuid"
)

const (
	sweepTimeout   = 10 * time.Second
	orphanInterval = time.Minute
	daysInterval   = time.Hour
	daysAhead      = 3

	strandedInterval = time.Minute
)

// sweep does the housekeeping of the database that any worker may do: it takes
// the jobs of dead processes, gives back claims whose answer was lost, and
// makes the partitions of the days to come.
func (w *Worker) sweep(ctx context.Context) {
	ticker := time.NewTicker(max(w.config.Lease/15, 10*time.Millisecond))
	defer ticker.Stop()
	var orphans, days, stranded time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		w.releaseUnsure(ctx)
		if time.Since(days) >= daysInterval {
			if err := w.ensureDays(ctx); err == nil {
				days = time.Now()
			}
		}
		if time.Now().After(stranded) {
			began := time.Now()
			w.countStranded(ctx)
			stranded = time.Now().Add(max(min(strandedInterval, 4*w.config.Lease), (fullShare-1)*time.Since(began)))
		}
		process, ok := w.keeper.process()
		if !ok {
			continue
		}
		alsoOrphans := time.Since(orphans) >= min(orphanInterval, 4*w.config.Lease)
		if alsoOrphans {
			orphans = time.Now()
		}
		if w.recover(ctx, process, alsoOrphans) {
			orphans = time.Time{} // leases that were locked just now are left: look again
		}
	}
}

// recover reports whether it found dead processes.
func (w *Worker) recover(ctx context.Context, process uuid.UUID, orphans bool) bool {
	ctx, cancel := context.WithTimeout(ctx, sweepTimeout)
	defer cancel()
	r, err := w.store.Recover(ctx, process, orphans)
	if err != nil {
		if ctx.Err() == nil {
			w.log.Warn("cannot look for dead processes", "error", err)
		}
		return false
	}
	if r.Dead > 0 || r.Requeued > 0 || r.Buried > 0 {
		w.log.Warn("took the jobs of dead processes", "processes", r.Dead, "requeued", r.Requeued, "dead_letters", r.Buried)
	}
	w.counters.expirations.Add(int64(r.Dead))
	w.counters.recovered.Add(int64(r.Requeued))
	w.counters.buried.Add(int64(r.Buried))
	if r.Requeued > 0 {
		w.wakeAll()
	}
	return r.Dead > 0
}

// countStranded looks for waiting jobs that no live process can decode. Nobody
// discards them; they run when a worker comes that knows their version.
func (w *Worker) countStranded(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, sweepTimeout)
	defer cancel()
	all, err := w.store.Stranded(ctx)
	if err != nil {
		if ctx.Err() == nil {
			w.log.Warn("cannot look for stranded jobs", "error", err)
		}
		return
	}
	var jobs int64
	for _, s := range all {
		jobs += int64(s.Jobs)
		w.log.Warn("jobs are stranded: no live worker knows their payload version; deploy one that does",
			"queue", s.Queue, "kind", s.Kind, "version", s.Version, "jobs", s.Jobs)
	}
	w.counters.stranded.Store(jobs)
}

func (w *Worker) ensureDays(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, sweepTimeout)
	defer cancel()
	err := w.store.EnsureDays(ctx, daysAhead)
	if err != nil && ctx.Err() == nil {
		w.log.Warn("cannot make the partitions of the days to come; enqueues make them as they need them", "error", err)
	}
	return err
}

// unsureFor is how long the token of a lost claim is looked for: the server may
// still be at work on the claim, and commit it.
const unsureFor = time.Minute

// unsure holds the tokens of claims whose answer was lost.
type unsure struct {
	mu     sync.Mutex
	tokens map[uuid.UUID]lost // guarded by mu; by token
}

type lost struct {
	owner uuid.UUID
	until time.Time
}

func (u *unsure) add(owner uuid.UUID, tokens ...uuid.UUID) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.tokens == nil {
		u.tokens = make(map[uuid.UUID]lost)
	}
	for _, token := range tokens {
		u.tokens[token] = lost{owner, time.Now().Add(unsureFor)}
	}
}

// byOwner returns the tokens, and forgets those that have been looked for long
// enough: the caller looks for them once more.
func (u *unsure) byOwner() map[uuid.UUID][]uuid.UUID {
	u.mu.Lock()
	defer u.mu.Unlock()
	all := make(map[uuid.UUID][]uuid.UUID)
	for token, l := range u.tokens {
		all[l.owner] = append(all[l.owner], token)
		if time.Now().After(l.until) {
			delete(u.tokens, token)
		}
	}
	return all
}

// releaseUnsure gives back what lost claims have taken.
func (w *Worker) releaseUnsure(ctx context.Context) {
	for owner, tokens := range w.unsure.byOwner() {
		callCtx, cancel := context.WithTimeout(ctx, sweepTimeout)
		jobs, err := w.store.ReleaseLeases(callCtx, owner, tokens...)
		cancel()
		if err != nil {
			w.unsure.add(owner, tokens...)
		}
		if jobs > 0 {
			w.log.Warn("gave back what a claim had taken whose answer was lost", "jobs", jobs)
			w.wakeAll()
		}
	}
}
