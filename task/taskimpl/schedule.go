package taskimpl

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/pawlgo/pawl/internal/dispatch"
	"github.com/pawlgo/pawl/internal/measure"
	"github.com/pawlgo/pawl/task"
)

// Schedule is when the runtime enqueues jobs of a kind by itself.
type Schedule[A any] struct {
	Spec   string // a cron expression
	Zone   string // an IANA name
	Missed string // skip, one or all
	// Args makes the payload of a tick; nil for the zero value.
	Args func(at time.Time) A
}

// tickKeep is how long the key of a tick is held at least. The cursor in the
// database is what makes a tick happen once; the key says so too, for as long as
// somebody might set that back by hand.
const tickKeep = 24 * time.Hour

// scheduleKey names a job by its tick, or by nothing that another has. An
// application's keys do not begin like that.
func scheduleKey(at time.Time, tick bool) string {
	if tick {
		return "pawl.tick " + at.UTC().Format(time.RFC3339Nano)
	}
	return "pawl.run " + uuid.NewString()
}

func (k *Kind[A]) schedule() *dispatch.Schedule {
	if k.Schedule == nil {
		return nil
	}
	return &dispatch.Schedule{
		Spec: k.Schedule.Spec, Zone: k.Schedule.Zone, Missed: k.Schedule.Missed,
		Prepare: func(at time.Time, tick bool) (dispatch.Store, error) {
			args, err := k.Schedule.safely(at)
			if err != nil {
				return nil, err
			}
			return prepare(k.declared(), k.payload(&args), at, scheduleKey(at, tick))
		},
	}
}

// safely makes the payload of a tick by code of the application's.
func (s *Schedule[A]) safely(at time.Time) (args A, err error) {
	defer recovered(&err)
	if s.Args != nil {
		args = s.Args(at)
	}
	return args, nil
}

// prepare makes a job as an enqueue would, but that its key takes the place of
// the declared one.
func prepare(d declared, p payload, at time.Time, key string) (dispatch.Store, error) {
	batch, err := plan(d, 1, func(int) payload { return p },
		[]task.EnqueueOption{task.Key(key, tickKeep), task.At(at)})
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, tx pgx.Tx, schema string) (_ uuid.UUID, _ bool, err error) {
		if m := measure.Measuring(ctx); m != nil {
			began := time.Now()
			defer func() { m.Enqueued(ctx, d.queue, d.kind, errorClass(err), time.Since(began)) }()
		}
		receipts, err := storeBatch(ctx, task.InSchema(tx, schema), &batch)
		if err != nil {
			return uuid.Nil, false, err
		}
		return receipts[0].ID, receipts[0].Duplicate, nil
	}, nil
}
