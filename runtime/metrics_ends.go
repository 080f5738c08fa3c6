package runtime

import (
	"sync/atomic"
	"time"

	"github.com/pawlgo/pawl/internal/store"
)

// ends counts attempts by how they ended.
type ends [len(outcomeNames)][len(errorClasses)]atomic.Int64

// tell tells what has been counted of a kind or a type, and that something has not,
// so that its first time is seen.
func (e *ends) tell(of string, emit func(outcome, class string, n int64)) {
	for outcome := range e {
		for class := range e[outcome] {
			n := e[outcome][class].Load()
			if n > 0 || store.Outcome(outcome) == store.Completed && class == 0 && of != other {
				emit(outcomeNames[outcome], errorClasses[class], n)
			}
		}
	}
}

// refused is how many ends were not recorded.
func (e *ends) refused() (n int64) {
	for class := range e[store.Refused] {
		n += e[store.Refused][class].Load()
	}
	return n
}

// endClass is the class of the error of an attempt whose end is recorded.
func endClass(recorded store.Outcome, code string) int {
	if recorded == store.Completed || recorded == store.GiveBack {
		return 0
	}
	return classOf(code)
}

// eventMetrics is what is told of one type of event.
type eventMetrics struct {
	event      string
	projection *grid
	ends       ends
}

// projected records the end of a projection.
func (m *metrics) projected(event string, v *verdict, took time.Duration) {
	if m == nil {
		return
	}
	m.event(event).projection.at(v.outcome, classOf(v.code)).record(took.Seconds())
}

func (m *metrics) event(name string) *eventMetrics {
	if e, ok := m.projections[name]; ok {
		return e
	}
	return m.unprojected
}
