package fleetdb

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawlgo/pawl/example/fleet"
	"github.com/pawlgo/pawl/example/tasks"
)

// DB begins transactions.
type DB interface {
	BeginTx(ctx context.Context, options pgx.TxOptions) (pgx.Tx, error)
}

// Taken says what became of the positions of a batch.
type Taken struct{ Accepted, Late, Repeated int }

// Ingest stores a batch of positions in the order of their arrival, and
// enqueues the look at the trips and the geofences of every vehicle in it. Both
// happen or neither does.
func Ingest(ctx context.Context, db DB, batch []fleet.Position) (Taken, error) {
	var taken Taken
	err := pgx.BeginTxFunc(ctx, db, pgx.TxOptions{}, func(tx pgx.Tx) error {
		byVehicle := map[string][]fleet.Position{}
		for _, p := range batch {
			byVehicle[p.Vehicle] = append(byVehicle[p.Vehicle], p)
		}
		// In the order of their names, so that two batches cannot wait for each
		// other's vehicles.
		names := slices.Sorted(maps.Keys(byVehicle))
		for _, name := range names {
			t, err := ingestVehicle(ctx, tx, name, byVehicle[name])
			if err != nil {
				return fmt.Errorf("take positions of %s: %w", name, err)
			}
			taken.Accepted += t.Accepted
			taken.Late += t.Late
			taken.Repeated += t.Repeated
		}
		return look(ctx, tx, names)
	})
	if err != nil {
		return Taken{}, err
	}
	return taken, nil
}

func ingestVehicle(ctx context.Context, tx pgx.Tx, name string, positions []fleet.Position) (Taken, error) {
	var taken Taken
	if _, err := tx.Exec(ctx, `INSERT INTO fleet.vehicles (vehicle) VALUES ($1) ON CONFLICT DO NOTHING`, name); err != nil {
		return taken, err
	}
	v, err := LockVehicle(ctx, tx, name)
	if err != nil {
		return taken, err
	}
	if v.Ended {
		return taken, fmt.Errorf("its trace has ended")
	}
	var at []time.Time
	var lat, lon, speed []float64
	for _, p := range positions {
		if !fleet.Accept(v.Newest, p.At) {
			taken.Late++
			continue
		}
		if p.At.After(v.Newest) {
			v.Newest = p.At
		}
		at, lat, lon, speed = append(at, p.At), append(lat, p.Lat), append(lon, p.Lon), append(speed, p.SpeedKMH)
	}
	if len(at) == 0 {
		return taken, nil
	}
	// The first of several positions of one moment stays.
	tag, err := tx.Exec(ctx, `
		INSERT INTO fleet.positions (vehicle, at, lat, lon, speed_kmh)
		SELECT $1, p.at, p.lat, p.lon, p.speed
		FROM unnest($2::timestamptz[], $3::float8[], $4::float8[], $5::float8[]) WITH ORDINALITY AS p (at, lat, lon, speed, nr)
		ORDER BY p.nr
		ON CONFLICT DO NOTHING`, name, at, lat, lon, speed)
	if err != nil {
		return taken, err
	}
	taken.Accepted = int(tag.RowsAffected())
	taken.Repeated = len(at) - taken.Accepted
	_, err = tx.Exec(ctx, `UPDATE fleet.vehicles SET newest_at = $2 WHERE vehicle = $1`, name, v.Newest)
	return taken, err
}

// End marks the traces of all vehicles as ended, so that what is still open is
// settled, and enqueues that. It returns how many vehicles there are.
func End(ctx context.Context, db DB) (vehicles int, err error) {
	err = pgx.BeginTxFunc(ctx, db, pgx.TxOptions{}, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, `UPDATE fleet.vehicles SET ended = true RETURNING vehicle`)
		if err != nil {
			return err
		}
		names, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			return err
		}
		vehicles = len(names)
		return look(ctx, tx, names)
	})
	if err != nil {
		return 0, fmt.Errorf("end the trace: %w", err)
	}
	return vehicles, nil
}

// look enqueues a look at the settled positions of vehicles.
func look(ctx context.Context, tx pgx.Tx, names []string) error {
	fences := make([]tasks.EvaluateGeofencesArgs, len(names))
	trips := make([]tasks.ReconcileTripsArgs, len(names))
	for i, name := range names {
		fences[i].Vehicle, trips[i].Vehicle = name, name
	}
	if _, err := tasks.EnqueueManyEvaluateGeofences(ctx, tx, fences); err != nil {
		return err
	}
	_, err := tasks.EnqueueManyReconcileTrips(ctx, tx, trips)
	return err
}
