package runtime

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/pawlgo/pawl/internal/store"
	"github.com/pawlgo/pawl/task"
)

// session is one stretch of contact with the database: the identity that
// leases are held under, and the context that ends when they are lost.
type session struct {
	process uuid.UUID
	ctx     context.Context // of the handlers whose jobs were claimed in it
	end     context.CancelCauseFunc
}

// keeper holds the worker's lease: it registers the process, renews it, and
// ends the session when its leases are lost, or could be.
type keeper struct {
	w        *Worker
	handlers context.Context // what sessions derive from

	mu      sync.Mutex
	session *session // guarded by mu; nil while there is no contact
	changed chan struct{}
}

func newKeeper(w *Worker, handlers context.Context) *keeper {
	return &keeper{w: w, handlers: handlers, changed: make(chan struct{})}
}

// current returns the session, nil while there is none, and a channel that is
// closed when that changes.
func (k *keeper) current() (*session, <-chan struct{}) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.session, k.changed
}

func (k *keeper) set(s *session) {
	k.mu.Lock()
	old := k.session
	k.session = s
	close(k.changed)
	k.changed = make(chan struct{})
	k.mu.Unlock()
	k.w.health.contact.Store(s != nil)
	if old != nil {
		old.end(task.ErrLeaseLost)
	}
}

// begin starts a session under an identity that is registered.
func (k *keeper) begin(process uuid.UUID) *session {
	ctx, end := context.WithCancelCause(k.handlers)
	s := &session{process: process, ctx: ctx, end: end}
	k.set(s)
	k.w.wakeAll() // a claim may have failed for want of a session
	return s
}

// register makes a row for a new identity.
func (k *keeper) register(ctx context.Context) (uuid.UUID, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return uuid.Nil, fmt.Errorf("make a process id: %w", err)
	}
	w := k.w
	p := &store.Process{ID: id, Name: w.config.Name, Lease: w.config.Lease, Queues: []string{}, Capabilities: []int64{}}
	if w.relay != nil {
		p.Capabilities = append(p.Capabilities, w.relay.capabilities...)
	}
	for _, q := range w.queues {
		p.Queues = append(p.Queues, q.name)
		p.Capabilities = append(p.Capabilities, q.capabilities...)
	}
	return id, w.store.Register(ctx, p)
}

// run renews until ctx ends. Safe is when the last successful contact began:
// from there the lease runs on this process's monotonic clock, which started
// before the database's, so that it ends first here. It returns the identity
// that the process had last.
func (k *keeper) run(ctx context.Context, process uuid.UUID, safe time.Time) uuid.UUID {
	w := k.w
	// Handlers are stopped a little early, so that they have stopped when
	// others may begin.
	limit := w.config.Lease - w.config.Lease/10
	s := k.begin(process)
	failing := false
	timer := time.NewTimer(w.config.Heartbeat)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return process
		case <-timer.C:
		}
		w.health.keeper.tick()
		sent := time.Now()
		budget := w.config.Heartbeat
		if s != nil {
			budget = max(min(budget, limit-sent.Sub(safe)), 10*time.Millisecond)
		}
		alive, err := k.renew(ctx, process, budget)
		switch {
		case ctx.Err() != nil:
			return process
		case err != nil:
			failing = true
			w.warn("keeper", "heartbeat failed", err, "since_contact", time.Since(safe))
		case alive:
			safe = sent
			if failing {
				failing = false
				signal(w.contact)
			}
			if s == nil { // back in time: the leases were never taken
				s = k.begin(process)
			}
		default:
			w.error("keeper", "all leases are lost: the process's row is gone", nil)
			if s != nil {
				w.counters.leasesLost.Add(1)
			}
			k.set(nil)
			s = nil
			registering, cancel := context.WithTimeout(ctx, w.config.Heartbeat)
			process, err = k.register(registering) // also after an error there may be a row
			cancel()
			if err != nil {
				w.warn("keeper", "cannot register again", err)
			} else {
				safe = sent
				s = k.begin(process)
			}
		}
		if s != nil && time.Since(safe) >= limit {
			w.log.Error("no contact with the database for almost a lease: stopping handlers", "since_contact", time.Since(safe))
			w.counters.leasesLost.Add(1)
			k.set(nil)
			s = nil
		}
		next := w.config.Heartbeat
		if err != nil { // try again soon, and not later than the limit
			next = min(next, max(w.config.Lease/20, 10*time.Millisecond))
		}
		timer.Reset(max(next-time.Since(sent), 0))
	}
}

func (k *keeper) renew(ctx context.Context, process uuid.UUID, budget time.Duration) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, budget)
	defer cancel()
	began := time.Now()
	alive, err := k.w.store.Heartbeat(ctx, process)
	k.w.metrics.database(opHeartbeat, time.Since(began), 0, err)
	return alive, err
}

// process is the identity of the present session, or false while there is none.
func (k *keeper) process() (uuid.UUID, bool) {
	if s, _ := k.current(); s != nil {
		return s.process, true
	}
	return uuid.Nil, false
}
