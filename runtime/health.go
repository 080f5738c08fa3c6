package runtime

import (
	"cmp"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"time"
)

// beatsMissed is how many of its periods a loop may miss before a restart is
// asked for. A database that is slow or away is no reason: the loops go on
// meanwhile.
const beatsMissed = 6

// The phases of a worker's life.
const (
	phaseNew int32 = iota
	phaseServing
	phaseStopping
	phaseReturned
)

// health is what the health checks answer from. It is written by the loops and
// never waits, whatever state they are in.
type health struct {
	phase   atomic.Int32
	contact atomic.Bool // there is a session
	keeper  beat
	sweeper beat

	relay  beat        // of a worker with events
	relays atomic.Bool // it is to turn
}

// beat is the pulse of a loop that has to turn.
type beat struct {
	loop   string
	period time.Duration // the longest that a turn takes, with its waits

	made time.Time    // the zero of last
	last atomic.Int64 // when a turn last began, in nanoseconds
}

func (b *beat) tick() { b.last.Store(int64(time.Since(b.made))) }

// missed says that the loop stands still, or is empty.
func (b *beat) missed() string {
	still := time.Since(b.made) - time.Duration(b.last.Load())
	if still <= beatsMissed*b.period {
		return ""
	}
	return fmt.Sprintf("the %s has not moved for %v", b.loop, still.Round(time.Second))
}

func (h *health) init(c *Config) {
	now := time.Now()
	h.keeper.loop, h.keeper.period, h.keeper.made = "keeper of the lease", c.Heartbeat, now
	h.relay.loop, h.relay.made = "relay", now // its period is set before it turns
	h.sweeper.loop, h.sweeper.period, h.sweeper.made = "sweeper", max(c.Lease/15, sweepTimeout), now
}

// serve says that the process is registered and its loops begin.
func (h *health) serve() {
	h.keeper.tick()
	h.sweeper.tick()
	h.phase.Store(phaseServing)
}

// dead says why a restart would help, or is empty.
func (h *health) dead() string {
	switch h.phase.Load() {
	case phaseNew:
		return ""
	case phaseReturned:
		return "Run has returned"
	}
	if reason := cmp.Or(h.keeper.missed(), h.sweeper.missed()); reason != "" {
		return reason
	}
	if h.relays.Load() {
		return h.relay.missed()
	}
	return ""
}

// unready says why the worker takes no jobs, or is empty.
func (h *health) unready() string {
	switch h.phase.Load() {
	case phaseNew:
		return "not registered with the database yet"
	case phaseStopping:
		return "shutting down"
	case phaseReturned:
		return "Run has returned"
	}
	if !h.contact.Load() {
		return "no contact with the database"
	}
	return h.dead()
}

// Livez answers whether the worker's process should be left to live: 200 while
// the loops that keep its lease, do its housekeeping and project its events turn, also before
// [Worker.Run] and while it drains; 503 with the reason when one has stood still
// for several of its periods, or Run has returned. A database that is away is no
// reason, since a restart would not bring it back.
//
// The answer is one line of plain text, without names or addresses. It takes no
// lock and no query, so it may be asked as often as one likes. A request is GET
// or HEAD.
func (w *Worker) Livez() http.Handler { return probe(w.health.dead) }

// Readyz answers whether the worker takes jobs: 200 from its registration in the
// database until its shutdown begins, while there is contact with the database;
// 503 with the reason otherwise. It answers as [Worker.Livez] does.
func (w *Worker) Readyz() http.Handler { return probe(w.health.unready) }

// probe answers 200, or 503 with what is wrong.
func probe(wrong func() string) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		status, text := http.StatusOK, "ok"
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			rw.Header().Set("Allow", "GET, HEAD")
			status, text = http.StatusMethodNotAllowed, "use GET or HEAD"
		} else if reason := wrong(); reason != "" {
			status, text = http.StatusServiceUnavailable, reason
		}
		rw.Header().Set("Cache-Control", "no-store")
		rw.Header().Set("Content-Type", "text/plain; charset=utf-8")
		rw.Header().Set("X-Content-Type-Options", "nosniff")
		rw.WriteHeader(status)
		_, _ = io.WriteString(rw, text+"\n")
	})
}
