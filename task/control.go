package task

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/pawlgo/pawl/internal/enqueue"
	"github.com/pawlgo/pawl/internal/store"
)

// ErrNoJob says that there is no job of that id, and no trace of one: its
// history may have been removed. In a transaction at REPEATABLE READ or above it
// may also have been enqueued after the transaction's snapshot.
var ErrNoJob = errors.New("there is no such job")

// Cancel cancels a job in tx: if that commits, the job has no other attempt. It
// returns where the job stands:
//
//   - [StateCancelled]: it was waiting, and is cancelled; or it had been before;
//   - [StateLeased]: a worker has it. Its handler's context ends, with
//     [ErrCancelled] as its cause, within about a second. The job ends as
//     cancelled, unless the handler succeeds all the same, or was just failing
//     for the last time as tx committed;
//   - [StateCompleted] or [StateDead]: it had ended before, and nothing changes.
//
// A job of the caller's own transaction can be cancelled too. A cancelled job
// releases those that wait for it by their order key, and its idempotency key
// is held for as long as it was declared to be.
//
// The error is [ErrNoJob], [ErrNotMigrated], or at REPEATABLE READ and above
// [ErrSerialization], when a worker took the job meanwhile: run the transaction
// again.
func Cancel(ctx context.Context, tx Tx, id uuid.UUID) (State, error) {
	var state string
	err := control(ctx, tx, fmt.Sprintf("cancel job %s", id), func(schema string) (err error) {
		if state, err = store.Cancel(ctx, tx, schema, id); err == nil && state == "" {
			err = ErrNoJob
		}
		return err
	})
	return State(state), err
}

// CancelOrganization cancels every job of an organization in tx: those that
// wait, and those that workers have as [Cancel] does. It returns how many waited
// and how many were running. It reads every waiting job, which takes seconds
// where there are millions, and the workers go on meanwhile.
func CancelOrganization(ctx context.Context, tx Tx, organizationID string) (waiting, running int, err error) {
	err = control(ctx, tx, fmt.Sprintf("cancel the jobs of organization %q", organizationID), func(schema string) (err error) {
		if organizationID == "" {
			return fmt.Errorf("%w: no organization is named; cancel jobs without one by their ids", ErrInvalidOption)
		}
		waiting, running, err = store.CancelOrganization(ctx, tx, schema, organizationID)
		return err
	})
	return waiting, running, err
}

// Pause stops claims from a queue in every process, from the moment that tx
// commits until [Resume]. What is running goes on; jobs can be enqueued as
// always. It reports whether the queue was not paused already.
func Pause(ctx context.Context, tx Tx, queue string) (changed bool, err error) {
	err = control(ctx, tx, "pause queue "+queue, func(schema string) (err error) {
		changed, err = store.Pause(ctx, tx, schema, queue)
		return err
	})
	return changed, err
}

// Resume lets workers claim from a paused queue again. It reports whether the
// queue was paused.
func Resume(ctx context.Context, tx Tx, queue string) (changed bool, err error) {
	err = control(ctx, tx, "resume queue "+queue, func(schema string) (err error) {
		changed, err = store.Resume(ctx, tx, schema, queue)
		return err
	})
	return changed, err
}

// control runs do with the schema that tx is bound to, and says in an error
// what failed and which sentinel it belongs to.
func control(ctx context.Context, tx Tx, what string, do func(schema string) error) error {
	schema, err := enqueue.SchemaOf(tx)
	if err != nil {
		return fmt.Errorf("%s: %w: %w", what, ErrInvalidOption, err)
	}
	if err := do(schema); err != nil {
		if reason := ReasonOf(err); reason != nil {
			return fmt.Errorf("%s: %w: %w", what, reason, err)
		}
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// ReasonOf returns the sentinel for an error of the database's: [ErrSerialization],
// [ErrDeadlock], [ErrNotMigrated], or nil for any other.
func ReasonOf(err error) error {
	pgErr, ok := errors.AsType[*pgconn.PgError](err)
	if !ok {
		return nil
	}
	switch pgErr.Code {
	case "40001":
		return ErrSerialization
	case "40P01":
		return ErrDeadlock
	case "3F000", "42883", "42P01": // no such schema, function, table
		return ErrNotMigrated
	}
	return nil
}
