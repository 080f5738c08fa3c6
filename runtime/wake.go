package runtime

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/pawlgo/pawl/internal/store"
)

const (
	// listenCheck is how long a listener may be quiet before it makes sure that
	// it still listens. It also bounds that, and connecting.
	listenCheck = 5 * time.Second
	// The pause before a listener connects again, doubling.
	reconnectFirst = 100 * time.Millisecond
	reconnectMost  = 10 * time.Second
)

// listen wakes queues when the database says that there is work. Nothing
// depends on it but latency: whenever it is away, polling goes on.
func (w *Worker) listen(ctx context.Context) {
	pause := reconnectFirst
	for heard := false; ; {
		began := time.Now()
		err := w.listenOnce(ctx, &heard)
		w.counters.listening.Store(false)
		if ctx.Err() != nil {
			return
		}
		w.counters.wakeupFailures.Add(1)
		if time.Since(began) > reconnectMost {
			pause = reconnectFirst
		}
		wait := pause/2 + rand.N(pause)
		w.warn("listener", "the listener has no connection; polling goes on", err, "again_in", wait)
		pause = min(2*pause, reconnectMost)
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-w.contact: // the database is back
			timer.Stop()
			pause = reconnectFirst
		case <-timer.C:
		}
	}
}

// listenOnce connects and listens until that fails. Heard is whether a
// connection listened before this one.
func (w *Worker) listenOnce(ctx context.Context, heard *bool) error {
	connecting, cancel := context.WithTimeout(ctx, listenCheck)
	listener, err := w.store.Listen(connecting, w.config.Listen)
	cancel()
	if err != nil {
		return err
	}
	defer listener.Close()
	w.counters.listening.Store(true)
	if *heard {
		w.counters.reconnects.Add(1)
		w.repeating(slog.LevelInfo, "listener", "the listener is connected again", nil)
	}
	*heard = true
	// What was sent while nobody listened is lost.
	w.wakeAll()
	for {
		payload, ok, err := listener.Wait(ctx, listenCheck)
		if err != nil {
			return err
		}
		if ok {
			w.notified(payload)
		}
	}
}

// notified deals with the payload of one notification: the name of a queue,
// empty for all of them, or what a name of a queue never begins with.
func (w *Worker) notified(payload string) {
	w.counters.wakeups.Add(1)
	if name, ok := strings.CutPrefix(payload, "!"); ok {
		w.control(name)
		return
	}
	for _, q := range w.queues {
		if (payload == "" || q.name == payload) && !q.paused.Load() { // to resume has a message of its own
			q.wake()
		}
	}
}

// control deals with a message to workers that is not about one queue. One that
// this worker does not know is of a newer one, and a look at everything is never
// wrong.
func (w *Worker) control(name string) {
	switch name {
	case "cancel":
		signal(w.cancels)
	case strings.TrimPrefix(store.OutboxQueue, "!"):
		if w.relay != nil {
			w.relay.wake()
		}
	default:
		w.wakeAll()
	}
}
