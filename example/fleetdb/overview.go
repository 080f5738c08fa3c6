package fleetdb

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// Projected records that a fact was projected, in the transaction that does so.
func Projected(ctx context.Context, tx pgx.Tx, fact, subject uuid.UUID, worker string) error {
	_, err := tx.Exec(ctx, `INSERT INTO fleet.projections (fact_id, subject, worker) VALUES ($1, $2, $3)`, fact, subject, worker)
	return err
}

// Drove adds a trip to what is known of a vehicle.
func Drove(ctx context.Context, tx pgx.Tx, vehicle string, meters float64) error {
	_, err := tx.Exec(ctx, `INSERT INTO fleet.overview AS o (vehicle, trips, distance_m) VALUES ($1, 1, $2)
		ON CONFLICT (vehicle) DO UPDATE SET trips = o.trips + 1, distance_m = o.distance_m + excluded.distance_m`, vehicle, meters)
	return err
}

// Entered adds a geofence to those that a vehicle is in.
func Entered(ctx context.Context, tx pgx.Tx, vehicle, fence string) error {
	_, err := tx.Exec(ctx, `INSERT INTO fleet.overview AS o (vehicle, entered, inside) VALUES ($1, 1, ARRAY[$2])
		ON CONFLICT (vehicle) DO UPDATE SET entered = o.entered + 1, inside = o.inside || excluded.inside`, vehicle, fence)
	return err
}

// Left takes a geofence from those that a vehicle is in.
func Left(ctx context.Context, tx pgx.Tx, vehicle, fence string) error {
	_, err := tx.Exec(ctx, `INSERT INTO fleet.overview AS o (vehicle) VALUES ($1)
		ON CONFLICT (vehicle) DO UPDATE SET inside = array_remove(o.inside, $2)`, vehicle, fence)
	return err
}

// WasSilent adds a silence to what is known of a vehicle. One without an end
// lasts.
func WasSilent(ctx context.Context, tx pgx.Tx, vehicle string, since time.Time, until *time.Time) error {
	offline := &since
	if until != nil {
		offline = nil
	}
	_, err := tx.Exec(ctx, `INSERT INTO fleet.overview AS o (vehicle, silences, offline_since) VALUES ($1, 1, $2)
		ON CONFLICT (vehicle) DO UPDATE SET silences = o.silences + 1, offline_since = excluded.offline_since`, vehicle, offline)
	return err
}

// ShareTrip makes the public link to a trip, for a while.
func ShareTrip(ctx context.Context, tx pgx.Tx, trip uuid.UUID, d time.Duration) error {
	_, err := tx.Exec(ctx, `INSERT INTO fleet.links (trip_id, expires_at) VALUES ($1, clock_timestamp() + $2::interval)`, trip, d)
	return err
}

// RevokeLinks revokes the links that have expired.
func RevokeLinks(ctx context.Context, db Querier) error {
	_, err := db.Exec(ctx, `UPDATE fleet.links SET revoked_at = clock_timestamp() WHERE revoked_at IS NULL AND expires_at <= clock_timestamp()`)
	return err
}

// Summarize writes down what the fleet has driven so far. The same tick again
// changes nothing.
func Summarize(ctx context.Context, db Querier, tick time.Time) error {
	_, err := db.Exec(ctx, `INSERT INTO fleet.summaries (tick, trips, distance_m)
		SELECT $1, COALESCE(sum(trips), 0), COALESCE(sum(distance_m), 0) FROM fleet.overview ON CONFLICT DO NOTHING`, tick)
	return err
}

// Ticked records which tick of its schedule a job is of.
func Ticked(ctx context.Context, db Querier, job uuid.UUID, kind string, tick time.Time) error {
	_, err := db.Exec(ctx, `INSERT INTO fleet.ticks (job_id, kind, tick) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING`, job, kind, tick)
	return err
}

// Outlived says whether every transaction has ended that began before a time.
func Outlived(ctx context.Context, db Querier, t time.Time) (all bool, err error) {
	err = db.QueryRow(ctx, `SELECT NOT EXISTS (SELECT FROM pg_stat_activity a
		WHERE a.datname = current_database() AND a.backend_type = 'client backend' AND a.pid <> pg_backend_pid() AND a.xact_start <= $1)`, t).Scan(&all)
	return all, err
}

// Now is the database's time.
func Now(ctx context.Context, db Querier) (now time.Time, err error) {
	err = db.QueryRow(ctx, `SELECT clock_timestamp()`).Scan(&now)
	return now, err
}
