package runtime

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/pawlgo/pawl/task"
)

const (
	// reconcileInterval is how often a process compares what it holds with what
	// the database says that it holds.
	reconcileInterval = time.Minute
	// lostFor is how long it does so at every turn after the answer to a claim
	// was lost, since that claim's commit may still be under way.
	lostFor = time.Minute
)

// holdings is what the process knows of its own leases, by token. A lease that
// the database has and the process does not know of is of a claim whose answer
// was lost: nobody would run its jobs, and its owner would renew it for ever.
type holdings struct {
	mu   sync.Mutex
	open map[uuid.UUID]int // guarded by mu; claims under way, and ends not yet recorded
	lost time.Time         // guarded by mu; when the answer to a claim was last lost
}

func (h *holdings) add(tokens ...uuid.UUID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.open == nil {
		h.open = make(map[uuid.UUID]int)
	}
	for _, token := range tokens {
		h.open[token]++
	}
}

func (h *holdings) done(tokens ...uuid.UUID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, token := range tokens {
		if h.open[token]--; h.open[token] <= 0 {
			delete(h.open, token)
		}
	}
}

// unknown returns those of the tokens that the process does not know of.
func (h *holdings) unknown(tokens []uuid.UUID) (all []uuid.UUID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, token := range tokens {
		if h.open[token] == 0 {
			all = append(all, token)
		}
	}
	return all
}

func (h *holdings) lose() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lost = time.Now()
}

func (h *holdings) lostLately() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return !h.lost.IsZero() && time.Since(h.lost) < lostFor
}

// reconcile compares what the process holds with what the database says. It
// gives back the jobs of leases that the process does not know of: a claim is
// known from before it is sent, so one under way is never taken for lost. And it
// ends the handlers whose leases are gone, as somebody's hand may have done.
func (w *Worker) reconcile(ctx context.Context, process uuid.UUID) {
	ctx, cancel := context.WithTimeout(ctx, sweepTimeout)
	defer cancel()
	running := w.attempts.all() // before the database is asked: these have their lease
	tokens, err := w.store.Leases(ctx, process)
	if err == nil {
		for _, a := range running {
			if a.owner == process && !slices.Contains(tokens, a.job.Token) {
				a.end(task.ErrLeaseLost)
			}
		}
	}
	var jobs int
	if unknown := w.holdings.unknown(tokens); err == nil && len(unknown) > 0 {
		jobs, err = w.store.ReleaseLeases(ctx, process, unknown...)
	}
	if err != nil && ctx.Err() == nil {
		w.warn("sweeper", "cannot look for lost claims", err)
	}
	if jobs > 0 {
		w.log.Warn("gave back what claims had taken whose answer was lost", "jobs", jobs)
		w.wakeAll()
	}
}
