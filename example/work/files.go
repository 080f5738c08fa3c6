package work

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/csv"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/pawlgo/pawl/example/fleet"
	"github.com/pawlgo/pawl/example/fleetdb"
	"github.com/pawlgo/pawl/example/tasks"
	"github.com/pawlgo/pawl/task"
)

// HandleRenderTripReport writes the report of a trip.
func (h *Handlers) HandleRenderTripReport(ctx context.Context, job *task.Job[tasks.RenderTripReportArgs]) error {
	return record(ctx, h, job, func(ctx context.Context) error {
		trip, err := fleetdb.TripByID(ctx, h.db, job.Args.TripID)
		if err != nil {
			return task.Transient(fmt.Errorf("read the trip: %w", err))
		}
		if err := wait(ctx, h.pace.Report); err != nil {
			return err
		}
		text, name := fleet.Report(trip), fleet.ReportFile(trip)
		if err := h.write(name, text); err != nil {
			return fmt.Errorf("write the report: %w", err)
		}
		sum := sha256.Sum256(text)
		return task.Transient(fleetdb.Reported(ctx, h.db, trip.ID, name, sum[:]))
	})
}

// ExportFile is the name of a vehicle's export.
func ExportFile(vehicle string) string { return "trips-" + vehicle + ".csv" }

// HandleExportTrips writes all trips of a vehicle as one CSV file.
func (h *Handlers) HandleExportTrips(ctx context.Context, job *task.Job[tasks.ExportTripsArgs]) error {
	return record(ctx, h, job, func(ctx context.Context) error {
		vehicle := job.Args.Vehicle
		trips, err := fleetdb.TripsOf(ctx, h.db, vehicle)
		if err != nil {
			return task.Transient(fmt.Errorf("read the trips: %w", err))
		}
		if err := wait(ctx, h.pace.Export); err != nil {
			return err
		}
		text, err := exportCSV(trips)
		if err != nil {
			return err
		}
		if err := h.write(ExportFile(vehicle), text); err != nil {
			return fmt.Errorf("write the export: %w", err)
		}
		return task.Transient(fleetdb.Exported(ctx, h.db, vehicle, ExportFile(vehicle), len(trips)))
	})
}

func exportCSV(trips []fleet.Trip) ([]byte, error) {
	var b bytes.Buffer
	out := csv.NewWriter(&b)
	rows := [][]string{{"trip", "vehicle", "started_at", "ended_at", "positions", "distance_m", "max_speed_kmh"}}
	for _, t := range trips {
		rows = append(rows, []string{
			t.ID.String(), t.Vehicle, t.StartedAt.UTC().Format(time.RFC3339Nano), t.EndedAt.UTC().Format(time.RFC3339Nano),
			strconv.Itoa(t.Positions), strconv.FormatFloat(t.DistanceM, 'f', 0, 64), strconv.FormatFloat(t.MaxSpeedKMH, 'f', 1, 64),
		})
	}
	err := out.WriteAll(rows)
	return b.Bytes(), err
}

// write puts a whole file in place or leaves what was there. The name of the
// unfinished file follows from that of the file: if the process dies meanwhile,
// the job that comes again replaces what it left.
func (h *Handlers) write(name string, content []byte) error {
	unfinished := unfinishedPrefix + name
	err := h.out.WriteFile(unfinished, content, 0o644)
	if err == nil {
		err = h.out.Rename(unfinished, name)
	}
	if err == nil {
		return nil
	}
	if removeErr := h.out.Remove(unfinished); !errors.Is(removeErr, os.ErrNotExist) {
		err = errors.Join(err, removeErr)
	}
	return err
}

const unfinishedPrefix = ".unfinished-"
