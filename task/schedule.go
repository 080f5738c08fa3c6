package task

import (
	"context"
	"errors"

	"github.com/pawlgo/pawl/internal/store"
)

// ErrNoSchedule says that a kind has no schedule, or that no worker which has it
// has ever run on this database.
var ErrNoSchedule = errors.New("there is no such schedule")

// RunNow asks for one job of a scheduled kind besides those of its ticks, in tx:
// when that has committed, a worker makes it, within two seconds. Its payload is
// the one of a tick at the time of the call, by the database's clock. Each call
// is a job, also while the schedule is paused.
//
// The error is [ErrNoSchedule], or [ErrNotMigrated].
func RunNow(ctx context.Context, tx Tx, kind string) error {
	return control(ctx, tx, "run the schedule of "+kind, func(schema string) error {
		known, err := store.RunSchedule(ctx, tx, schema, kind)
		return found(known, err)
	})
}

// PauseSchedule stops the ticks of a kind in every process, from the moment that
// tx commits until [ResumeSchedule]. Its jobs can be enqueued and run as always;
// to stop those there is [Pause]. It reports whether the schedule was not paused
// already.
//
// The ticks that pass while workers run are left out, and are not missed ones.
// The error is [ErrNoSchedule], or [ErrNotMigrated].
func PauseSchedule(ctx context.Context, tx Tx, kind string) (changed bool, err error) {
	err = control(ctx, tx, "pause the schedule of "+kind, func(schema string) error {
		var known bool
		changed, known, err = store.PauseSchedule(ctx, tx, schema, kind)
		return found(known, err)
	})
	return changed, err
}

// ResumeSchedule lets a paused schedule tick again, from its next tick on. It
// reports whether the schedule was paused. The error is as for [PauseSchedule].
func ResumeSchedule(ctx context.Context, tx Tx, kind string) (changed bool, err error) {
	err = control(ctx, tx, "resume the schedule of "+kind, func(schema string) error {
		var known bool
		changed, known, err = store.ResumeSchedule(ctx, tx, schema, kind)
		return found(known, err)
	})
	return changed, err
}

func found(known bool, err error) error {
	if err == nil && !known {
		err = ErrNoSchedule
	}
	return err
}
