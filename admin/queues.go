package admin

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/pawlgo/pawl/internal/store"
	"github.com/pawlgo/pawl/task"
)

// Queue is a queue that has jobs, workers or a kind.
type Queue struct {
	Queue    string    `json:"queue"`
	PausedAt time.Time `json:"paused_at,omitzero"` // zero where it is not
	Workers  int       `json:"workers"`            // live processes that serve it
	Due      Count     `json:"due"`
	Later    Count     `json:"later"` // scheduled, and in the backoff after a failure
	Leased   int64     `json:"leased"`
	Blocked  Count     `json:"blocked"` // behind others of their order key
	// OldestDue is since when the first of its due jobs waits; zero for none.
	OldestDue time.Time `json:"oldest_due,omitzero"`
}

// Queues returns all queues, by name.
func (c *Client) Queues(ctx context.Context) ([]Queue, error) {
	queues := []Queue{}
	err := c.read(ctx, "list queues", func(r *store.Reading) error {
		rows, err := r.Queues(ctx, store.CountBound)
		for _, q := range rows {
			queues = append(queues, Queue{
				Queue: q.Queue, PausedAt: at(q.PausedAt), Workers: q.Workers, Due: Count(q.Due), Later: Count(q.Scheduled),
				Leased: q.Leased, Blocked: Count(q.Blocked), OldestDue: at(q.OldestDue),
			})
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return queues, nil
}

// PauseQueue stops claims from a queue as [task.Pause] does. It reports whether
// the queue was not paused already.
func (c *Client) PauseQueue(ctx context.Context, queue, reason string) (changed bool, err error) {
	if queue == "" {
		return false, fmt.Errorf("%w: no queue is named", ErrInvalid)
	}
	err = c.change(ctx, "pause queue", reason, func(tx pgx.Tx) error {
		changed, err = task.Pause(ctx, c.tx(tx), queue)
		return err
	})
	return changed, err
}

// ResumeQueue lets workers claim from a paused queue again. It reports whether
// the queue was paused.
func (c *Client) ResumeQueue(ctx context.Context, queue, reason string) (changed bool, err error) {
	err = c.change(ctx, "resume queue", reason, func(tx pgx.Tx) error {
		changed, err = task.Resume(ctx, c.tx(tx), queue)
		return err
	})
	return changed, err
}

// Worker is a worker process.
type Worker struct {
	ID     uuid.UUID `json:"id"`
	Name   string    `json:"name"`
	Queues []string  `json:"queues"`
	// Kinds are those whose newest payload version it knows, and Versions is how
	// many payload versions and events it knows in all.
	Kinds     []string      `json:"kinds"`
	Versions  int           `json:"versions"`
	Lease     time.Duration `json:"lease"` // nanoseconds in JSON
	StartedAt time.Time     `json:"started_at"`
	// ExpiresAt is until when its leases are its own, unless it renews them, and
	// Alive says that this is not over.
	ExpiresAt time.Time `json:"expires_at"`
	Alive     bool      `json:"alive"`
	Leased    int64     `json:"leased"`   // jobs that it has
	Sleeping  []string  `json:"sleeping"` // queues in which it waits to be woken
}

// Workers returns all worker processes, the oldest first; those that died too, as
// long as nobody has taken their jobs.
func (c *Client) Workers(ctx context.Context) ([]Worker, error) {
	workers := []Worker{}
	err := c.read(ctx, "list workers", func(r *store.Reading) error {
		rows, err := r.Workers(ctx)
		for _, w := range rows {
			workers = append(workers, Worker{
				ID: w.ID, Name: w.Name, Queues: w.Queues, Kinds: w.Kinds, Versions: w.Versions, Lease: time.Duration(w.Lease * float64(time.Second)),
				StartedAt: w.StartedAt.UTC(), ExpiresAt: w.ExpiresAt.UTC(), Alive: w.Alive, Leased: w.Leased, Sleeping: w.Sleeping,
			})
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return workers, nil
}

// Status is a database at a glance.
type Status struct {
	Database  string    `json:"database"`
	Schema    string    `json:"schema"`
	Server    string    `json:"server"` // the version
	Now       time.Time `json:"now"`    // by the server's clock
	Migration int       `json:"migration"`
	Binary    int       `json:"binary"` // the newest migration that this binary knows

	Workers        int `json:"workers"`         // that live
	ExpiredWorkers int `json:"expired_workers"` // whose time is over
	PausedQueues   int `json:"paused_queues"`

	Due    Count `json:"due"`
	Later  Count `json:"later"`
	Leased int64 `json:"leased"`
	// OldestDue is since when the first due job waits; zero for none.
	OldestDue time.Time `json:"oldest_due,omitzero"`

	Dead        Count `json:"dead"`
	Quarantined int   `json:"quarantined"`

	Schedules         int `json:"schedules"`
	UnservedSchedules int `json:"unserved_schedules"` // whose kind no live worker has

	PendingEvents     Count         `json:"pending_events"`
	OldestEvent       time.Duration `json:"oldest_event"` // since it was published; nanoseconds in JSON
	DeadEvents        Count         `json:"dead_events"`
	BlockedAggregates int           `json:"blocked_aggregates"`

	Queues []Queue `json:"queues"`
}

// Status returns a database at a glance.
func (c *Client) Status(ctx context.Context) (*Status, error) {
	migrations, err := c.Migrations(ctx)
	if err != nil {
		return nil, err
	}
	s := &Status{Schema: c.schema, Migration: migrations.Applied, Binary: migrations.Known}
	if s.Queues, err = c.Queues(ctx); err != nil {
		return nil, err
	}
	for _, q := range s.Queues {
		s.Due, s.Later = sum(s.Due, q.Due), sum(s.Later, q.Later)
		s.Leased += q.Leased
		if !q.OldestDue.IsZero() && (s.OldestDue.IsZero() || q.OldestDue.Before(s.OldestDue)) {
			s.OldestDue = q.OldestDue
		}
	}
	err = c.read(ctx, "read the status", func(r *store.Reading) error {
		x, err := r.Status(ctx, store.CountBound)
		if err != nil {
			return err
		}
		s.Database, s.Server, s.Now = x.Database, x.Server, x.Now.UTC()
		s.Workers, s.ExpiredWorkers, s.PausedQueues, s.Quarantined = x.Workers, x.Expired, x.Paused, x.Quarantined
		s.Schedules, s.UnservedSchedules, s.BlockedAggregates = x.Schedules, x.Unserved, x.Blocked
		s.Dead, s.DeadEvents, s.PendingEvents = Count(x.Dead), Count(x.DeadEvents), Count(x.PendingEvents)
		if x.Oldest != nil {
			s.OldestEvent = time.Duration(*x.Oldest * float64(time.Second))
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return s, nil
}

func sum(a, b Count) Count { return Count{N: a.N + b.N, Estimate: a.Estimate || b.Estimate} }
