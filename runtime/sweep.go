package runtime

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/pawlgo/pawl/task"
)

const (
	sweepTimeout   = 10 * time.Second
	orphanInterval = time.Minute
	daysInterval   = time.Hour
	daysAhead      = 3

	strandedInterval = time.Minute
	strandedShare    = 100 // one part in, of the time
	// cancelInterval is how often a worker looks for requests to cancel that
	// nobody has told it of.
	cancelInterval = time.Second
)

// sweep does the housekeeping of the database that any worker may do: it takes
// the jobs of dead processes, gives back claims whose answer was lost, and
// makes the partitions of the days to come.
func (w *Worker) sweep(ctx context.Context) {
	ticker := time.NewTicker(max(w.config.Lease/15, 10*time.Millisecond))
	defer ticker.Stop()
	// The first look for orphans would be in vain before one lease of contact.
	orphanEvery := min(orphanInterval, 4*w.config.Lease)
	orphans := time.Now().Add(w.config.Lease - orphanEvery)
	var reconciled, days time.Time
	// It walks all that waits, which a start has better things to do than.
	stranded := time.Now().Add(w.config.Lease)
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		w.health.sweeper.tick()
		if process, ok := w.keeper.process(); ok {
			alsoOrphans := time.Since(orphans) >= orphanEvery
			if alsoOrphans {
				orphans = time.Now()
			}
			if w.recover(ctx, process, alsoOrphans) {
				orphans = time.Time{} // leases that were locked just now are left: look again
			}
			if w.holdings.lostLately() || time.Since(reconciled) >= min(reconcileInterval, 4*w.config.Lease) {
				reconciled = time.Now()
				w.reconcile(ctx, process)
			}
		}
		if time.Since(days) >= daysInterval {
			if err := w.ensureDays(ctx); err == nil {
				days = time.Now()
			}
		}
		if time.Now().After(stranded) {
			began := time.Now()
			w.countStranded(ctx)
			stranded = time.Now().Add(max(min(strandedInterval, 4*w.config.Lease), (strandedShare-1)*time.Since(began)))
		}
	}
}

// recover reports whether it found dead processes.
func (w *Worker) recover(ctx context.Context, process uuid.UUID, orphans bool) bool {
	ctx, cancel := context.WithTimeout(ctx, sweepTimeout)
	defer cancel()
	began := time.Now()
	r, err := w.store.Recover(ctx, process, orphans)
	w.metrics.database(opRecover, time.Since(began), 0, err)
	if err != nil {
		if ctx.Err() == nil {
			w.warn("sweeper", "cannot look for dead processes", err)
		}
		return false
	}
	if r.Dead > 0 || r.Requeued > 0 || r.Buried > 0 {
		w.log.Warn("took the jobs of dead processes", "processes", r.Dead, "requeued", r.Requeued, "dead_letters", r.Buried)
	}
	if r.Refused > 0 {
		w.error("sweeper", "the database refuses to give back jobs of dead processes; they are tried again", nil, "leases", r.Refused, "error", r.Reason)
	}
	w.counters.expirations.Add(int64(r.Dead))
	w.counters.recovered.Add(int64(r.Requeued))
	w.counters.buried.Add(int64(r.Buried))
	if r.Requeued > 0 {
		w.wakeAll()
	}
	return r.Dead > 0
}

// watchCancels does what requests to cancel leave to workers, when it is told of
// one and now and then.
func (w *Worker) watchCancels(ctx context.Context) {
	ticker := time.NewTicker(cancelInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.cancels:
		case <-ticker.C:
		}
		if process, ok := w.keeper.process(); ok {
			w.cancel(ctx, process)
		}
	}
}

// cancel ends the handlers of jobs that somebody asked to cancel.
func (w *Worker) cancel(ctx context.Context, process uuid.UUID) {
	ctx, cancel := context.WithTimeout(ctx, sweepTimeout)
	defer cancel()
	jobs, err := w.store.Cancellations(ctx, process)
	if err != nil {
		if ctx.Err() == nil {
			w.warn("cancels", "cannot look for jobs to cancel", err)
		}
		return
	}
	if len(jobs) == 0 {
		return
	}
	for _, a := range w.attempts.all() {
		if slices.Contains(jobs, a.job.ID) {
			a.end(task.ErrCancelled)
		}
	}
}

// countStranded looks for waiting jobs that no live process can decode. Nobody
// discards them; they run when a worker comes that knows their version.
func (w *Worker) countStranded(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, sweepTimeout)
	defer cancel()
	all, err := w.store.Stranded(ctx)
	if err != nil {
		if ctx.Err() == nil {
			w.warn("sweeper", "cannot look for stranded jobs", err)
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
		w.warn("sweeper", "cannot make the partitions of the days to come; enqueues make them as they need them", err)
	}
	return err
}
