package work

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/pawlgo/pawl/example/fleet"
	"github.com/pawlgo/pawl/example/fleetdb"
	"github.com/pawlgo/pawl/example/tasks"
	"github.com/pawlgo/pawl/task"
)

// HandleEvaluateDevices commits the silences of all vehicles that were not seen
// before, and publishes each, a vehicle and a commit at a time.
func (h *Handlers) HandleEvaluateDevices(ctx context.Context, job *task.Job[tasks.EvaluateDevicesArgs]) error {
	return record(ctx, h, job, func(ctx context.Context) error {
		if err := fleetdb.Ticked(ctx, h.db, job.ID, job.Kind, job.Args.Tick); err != nil {
			return task.Transient(err)
		}
		vehicles, err := fleetdb.Unheard(ctx, h.db)
		if err != nil {
			return task.Transient(err)
		}
		for _, vehicle := range vehicles {
			if err := h.change(ctx, func(tx pgx.Tx) error { return evaluateDevice(ctx, tx, vehicle) }); err != nil {
				return err
			}
		}
		return nil
	})
}

func evaluateDevice(ctx context.Context, tx pgx.Tx, vehicle string) error {
	v, _, positions, err := lockSettled(ctx, tx, vehicle, fleetdb.ForSilences)
	if err != nil || len(positions) == 0 {
		return err
	}
	found := fleet.Silences(positions)
	if v.Ended {
		newest, err := fleetdb.NewestOfFleet(ctx, tx)
		if err != nil {
			return err
		}
		if s, ok := fleet.LastSilence(vehicle, v.Newest, newest); ok {
			found = append(found, s)
		}
	}
	for _, s := range found {
		if err := commitSilence(ctx, tx, s); err != nil {
			return fmt.Errorf("commit the silence %s: %w", s.ID, err)
		}
	}
	return fleetdb.SilencesSettled(ctx, tx, vehicle, positions[len(positions)-1].At)
}

func commitSilence(ctx context.Context, tx pgx.Tx, s fleet.Silence) error {
	isNew, err := fleetdb.InsertSilence(ctx, tx, s)
	if err != nil || !isNew {
		return err
	}
	payload := tasks.DeviceOfflinePayload{SilenceID: s.ID, Since: s.Since.UTC()}
	if !s.Until.IsZero() {
		until := s.Until.UTC()
		payload.Until = &until
	}
	_, err = tasks.PublishDeviceOffline(ctx, tx, s.Vehicle, payload, task.OccurredAt(s.Since.Add(fleet.OfflineLimit)))
	return err
}

// HandleRevokeLinks revokes the public links that have expired.
func (h *Handlers) HandleRevokeLinks(ctx context.Context, job *task.Job[tasks.RevokeLinksArgs]) error {
	return record(ctx, h, job, func(ctx context.Context) error {
		return h.change(ctx, func(tx pgx.Tx) error {
			if err := fleetdb.Ticked(ctx, tx, job.ID, job.Kind, job.Args.Tick); err != nil {
				return err
			}
			return fleetdb.RevokeLinks(ctx, tx)
		})
	})
}

// HandleSummarizeFleet writes down what the fleet has driven so far.
func (h *Handlers) HandleSummarizeFleet(ctx context.Context, job *task.Job[tasks.SummarizeFleetArgs]) error {
	return record(ctx, h, job, func(ctx context.Context) error {
		return h.change(ctx, func(tx pgx.Tx) error {
			if err := fleetdb.Ticked(ctx, tx, job.ID, job.Kind, job.Args.Tick); err != nil {
				return err
			}
			return fleetdb.Summarize(ctx, tx, job.Args.Tick)
		})
	})
}
