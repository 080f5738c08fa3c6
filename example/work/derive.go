package work

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawlgo/pawl/example/fleet"
	"github.com/pawlgo/pawl/example/fleetdb"
	"github.com/pawlgo/pawl/example/tasks"
	"github.com/pawlgo/pawl/task"
)

// HandleEvaluateGeofences commits the crossings of a vehicle that were not seen
// before, and publishes each.
func (h *Handlers) HandleEvaluateGeofences(ctx context.Context, job *task.Job[tasks.EvaluateGeofencesArgs]) error {
	return record(ctx, h, job, func(ctx context.Context) error {
		if err := wait(ctx, h.pace.Derive); err != nil {
			return err
		}
		return h.change(ctx, func(tx pgx.Tx) error {
			_, _, positions, err := lockSettled(ctx, tx, job.Args.Vehicle, fleetdb.ForGeofences)
			if err != nil || len(positions) == 0 {
				return err
			}
			for _, c := range fleet.Crossings(fleet.Geofences(), positions) {
				if err := commitCrossing(ctx, tx, c); err != nil {
					return fmt.Errorf("commit the crossing %s: %w", c.ID, err)
				}
			}
			return fleetdb.FencesSettled(ctx, tx, job.Args.Vehicle, positions[len(positions)-1].At)
		})
	})
}

func commitCrossing(ctx context.Context, tx pgx.Tx, c fleet.Crossing) error {
	isNew, err := fleetdb.InsertCrossing(ctx, tx, c)
	if err != nil || !isNew {
		return err
	}
	if c.Entered {
		_, err = tasks.PublishGeofenceEntered(ctx, tx, c.Vehicle,
			tasks.GeofenceEnteredPayload{CrossingID: c.ID, Geofence: c.Fence, At: c.At.UTC()}, task.OccurredAt(c.At))
		return err
	}
	_, err = tasks.PublishGeofenceLeft(ctx, tx, c.Vehicle,
		tasks.GeofenceLeftPayload{CrossingID: c.ID, Geofence: c.Fence, At: c.At.UTC()}, task.OccurredAt(c.At))
	return err
}

// HandleReconcileTrips commits the trips of a vehicle that ended for certain, and
// publishes each. Once the vehicle's trace has ended, the export and the purge
// follow.
func (h *Handlers) HandleReconcileTrips(ctx context.Context, job *task.Job[tasks.ReconcileTripsArgs]) error {
	return record(ctx, h, job, func(ctx context.Context) error {
		if err := wait(ctx, h.pace.Derive); err != nil {
			return err
		}
		return h.change(ctx, func(tx pgx.Tx) error {
			vehicle := job.Args.Vehicle
			v, watermark, positions, err := lockSettled(ctx, tx, vehicle, fleetdb.ForTrips)
			if err != nil {
				return err
			}
			trips, after := fleet.Segment(positions, watermark)
			for _, t := range trips {
				if err := commitTrip(ctx, tx, t); err != nil {
					return fmt.Errorf("commit the trip %s: %w", t.ID, err)
				}
			}
			if !after.IsZero() {
				if err := fleetdb.TripsSettled(ctx, tx, vehicle, after); err != nil {
					return err
				}
			}
			if !v.Ended {
				return nil
			}
			if _, err := tasks.EnqueueExportTrips(ctx, tx, tasks.ExportTripsArgs{Vehicle: vehicle}); err != nil {
				return err
			}
			_, err = tasks.EnqueuePurgePositions(ctx, tx, tasks.PurgePositionsArgs{Vehicle: vehicle})
			return err
		})
	})
}

func commitTrip(ctx context.Context, tx pgx.Tx, t fleet.Trip) error {
	isNew, err := fleetdb.InsertTrip(ctx, tx, t)
	if err != nil || !isNew {
		return err
	}
	_, err = tasks.PublishTripCompleted(ctx, tx, t.Vehicle, tasks.TripCompletedPayload{
		TripID: t.ID, StartedAt: t.StartedAt.UTC(), EndedAt: t.EndedAt.UTC(), DistanceM: t.DistanceM,
	}, task.OccurredAt(t.EndedAt))
	return err
}

// purgeBatch is small, so that no purge holds many locks or a transaction for
// long.
const purgeBatch = 100

// HandlePurgePositions removes a vehicle's raw positions beyond the horizon, a
// batch and a commit at a time. It comes again later while they are still
// needed.
func (h *Handlers) HandlePurgePositions(ctx context.Context, job *task.Job[tasks.PurgePositionsArgs]) error {
	return record(ctx, h, job, func(ctx context.Context) error {
		for {
			purged, settled, err := fleetdb.Purge(ctx, h.db, job.Args.Vehicle, purgeBatch)
			switch {
			case err != nil:
				return task.Transient(err)
			case !settled:
				return task.Snooze(300 * time.Millisecond)
			case purged < purgeBatch:
				return nil
			}
			if err := wait(ctx, h.pace.PerPurge); err != nil {
				return err
			}
		}
	})
}
