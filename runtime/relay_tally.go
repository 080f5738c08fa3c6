package runtime

import (
	"github.com/google/uuid"
	"github.com/pawlgo/pawl/internal/store"
)

// tally counts what a transaction has recorded, until it commits.
type tally struct {
	projected, retried, dead, discarded, givenBack, quarantined int64

	seen map[uuid.UUID]int // events of each aggregate of which something was recorded; below zero where its turn is over

	metrics *metrics
	ends    []eventEnd // for metrics, where there are any
}

// eventEnd is the end of an attempt at an event.
type eventEnd struct {
	of      *eventMetrics
	outcome store.Outcome
	class   int
}

func newTally(w *Worker) *tally { return &tally{seen: make(map[uuid.UUID]int), metrics: w.metrics} }

// more returns the aggregates that may have other due events: some that were read
// are left, or as many have been read as may be. Those that there was no time for
// come first.
func (t *tally) more(events []store.PendingEvent, share int) []uuid.UUID {
	var begun, untouched []uuid.UUID
	for n, i := 0, 0; i < len(events); i++ {
		n++
		e := &events[i]
		if i+1 < len(events) && events[i+1].Aggregate == e.Aggregate {
			continue
		}
		switch seen := t.seen[e.Aggregate]; {
		case seen == 0:
			untouched = append(untouched, e.Aggregate)
		case seen > 0 && (seen < n || n >= share):
			begun = append(begun, e.Aggregate)
		}
		n = 0
	}
	return append(untouched, begun...)
}

func (t *tally) add(e *store.PendingEvent, outcome store.Outcome, code string) {
	if t.metrics != nil {
		t.ends = append(t.ends, eventEnd{t.metrics.event(e.Type), outcome, endClass(outcome, code)})
	}
	switch outcome {
	case store.Completed:
		t.projected++
	case store.Retry:
		t.retried++
	case store.Dead:
		t.dead++
	case store.Cancelled:
		t.discarded++
	case store.GiveBack:
		t.givenBack++
	case store.Quarantine:
		t.quarantined++
	}
}

// count adds what a transaction has recorded that committed.
func (t *tally) count(w *Worker) {
	w.counters.events.batches.Add(1)
	t.record(w)
}

func (t *tally) record(w *Worker) {
	c := &w.counters.events
	c.projected.Add(t.projected)
	c.retried.Add(t.retried)
	c.dead.Add(t.dead)
	c.discarded.Add(t.discarded)
	c.givenBack.Add(t.givenBack)
	w.counters.quarantined.Add(t.quarantined)
	for _, e := range t.ends {
		e.of.ends[e.outcome][e.class].Add(1)
	}
}
