package runtime

import (
	"context"
	"math/rand/v2"
	"time"
)

const (
	// listenCheck is how long a listener may be quiet before it makes sure that
	// it still listens.
	listenCheck = 5 * time.Second
	// The pause before a listener connects again, doubling.
	reconnectFirst = 100 * time.Millisecond
	reconnectMost  = 10 * time.Second
)

// listen wakes queues when the database says that there is work. Nothing
// depends on it but latency: whenever it is away, polling goes on.
func (w *Worker) listen(ctx context.Context) {
	pause := reconnectFirst
	for connects := 0; ; connects++ {
		began := time.Now()
		err := w.listenOnce(ctx, connects > 0)
		w.counters.listening.Store(false)
		if ctx.Err() != nil {
			return
		}
		if time.Since(began) > reconnectMost {
			pause = reconnectFirst
		}
		wait := pause/2 + rand.N(pause)
		w.log.Warn("the listener lost its connection; polling goes on", "error", err, "again_in", wait)
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
		pause = min(2*pause, reconnectMost)
	}
}

func (w *Worker) listenOnce(ctx context.Context, again bool) error {
	connecting, cancel := context.WithTimeout(ctx, listenCheck)
	listener, err := w.store.Listen(connecting)
	cancel()
	if err != nil {
		return err
	}
	defer listener.Close()
	w.counters.listening.Store(true)
	if again {
		w.counters.reconnects.Add(1)
		w.log.Info("the listener is connected again")
	}
	// What was sent while nobody listened is lost.
	w.wakeAll()
	for {
		name, ok, err := listener.Wait(ctx, listenCheck)
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		w.counters.wakeups.Add(1)
		for _, q := range w.queues {
			if name == "" || q.name == name {
				q.wake()
			}
		}
	}
}
