package fleetdb

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/pawlgo/pawl/example/fleet"
)

// Vehicle is the state of a vehicle whose row the caller has locked.
type Vehicle struct {
	Newest time.Time // zero before the first position
	Ended  bool
}

// LockVehicle keeps everybody else from the vehicle until the end of tx.
func LockVehicle(ctx context.Context, tx pgx.Tx, vehicle string) (Vehicle, error) {
	var newest *time.Time
	var v Vehicle
	err := tx.QueryRow(ctx, `SELECT newest_at, ended FROM fleet.vehicles WHERE vehicle = $1 FOR UPDATE`, vehicle).Scan(&newest, &v.Ended)
	if err != nil {
		return v, fmt.Errorf("lock the vehicle %s: %w", vehicle, err)
	}
	if newest != nil {
		v.Newest = *newest
	}
	return v, nil
}

// For whom positions are read.
type cursor string

// The two readers of positions, each with a place up to which it has come.
const (
	ForTrips     cursor = "p.at > v.trips_after"
	ForGeofences cursor = "p.at >= v.fences_after"
)

// Settled returns the positions that the reader has not dealt with, up to the
// watermark, in the order of their time.
func Settled(ctx context.Context, tx pgx.Tx, vehicle string, reader cursor, watermark time.Time) ([]fleet.Position, error) {
	positions, err := collect[fleet.Position](ctx, tx, `
		SELECT p.vehicle, p.at, p.lat, p.lon, p.speed_kmh
		FROM fleet.vehicles v JOIN fleet.positions p ON p.vehicle = v.vehicle
		WHERE v.vehicle = $1 AND p.at < $2 AND `+string(reader)+`
		ORDER BY p.at`, vehicle, watermark)
	if err != nil {
		return nil, fmt.Errorf("read positions of %s: %w", vehicle, err)
	}
	return positions, nil
}

// TripsSettled remembers that the trips up to a time are dealt with.
func TripsSettled(ctx context.Context, tx pgx.Tx, vehicle string, after time.Time) error {
	_, err := tx.Exec(ctx, `UPDATE fleet.vehicles SET trips_after = $2 WHERE vehicle = $1`, vehicle, after)
	return err
}

// FencesSettled remembers the last position that was held against the geofences.
func FencesSettled(ctx context.Context, tx pgx.Tx, vehicle string, last time.Time) error {
	_, err := tx.Exec(ctx, `UPDATE fleet.vehicles SET fences_after = $2 WHERE vehicle = $1`, vehicle, last)
	return err
}

// InsertTrip commits a trip. It reports false for one that is there already.
func InsertTrip(ctx context.Context, tx pgx.Tx, t fleet.Trip) (bool, error) {
	tag, err := tx.Exec(ctx, `
		INSERT INTO fleet.trips (id, vehicle, started_at, ended_at, positions, distance_m, max_speed_kmh)
		VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (id) DO NOTHING`,
		t.ID, t.Vehicle, t.StartedAt, t.EndedAt, t.Positions, t.DistanceM, t.MaxSpeedKMH)
	return tag.RowsAffected() == 1, err
}

// InsertCrossing commits a crossing. It reports false for one that is there
// already.
func InsertCrossing(ctx context.Context, tx pgx.Tx, c fleet.Crossing) (bool, error) {
	tag, err := tx.Exec(ctx, `
		INSERT INTO fleet.crossings (id, vehicle, fence, entered, at)
		VALUES ($1, $2, $3, $4, $5) ON CONFLICT (id) DO NOTHING`, c.ID, c.Vehicle, c.Fence, c.Entered, c.At)
	return tag.RowsAffected() == 1, err
}

// InsertWebhook remembers that a subscriber is to be told of an event, by which
// job.
func InsertWebhook(ctx context.Context, tx pgx.Tx, endpoint, event, job uuid.UUID) error {
	_, err := tx.Exec(ctx, `
		INSERT INTO fleet.webhooks (endpoint_id, event_id, job_id) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING`,
		endpoint, event, job)
	return err
}

const tripColumns = `id, vehicle, started_at, ended_at, positions, distance_m, max_speed_kmh`

// TripByID returns one trip.
func TripByID(ctx context.Context, db Querier, id uuid.UUID) (fleet.Trip, error) {
	return one[fleet.Trip](ctx, db, `SELECT `+tripColumns+` FROM fleet.trips WHERE id = $1`, id)
}

// TripsOf returns the trips of a vehicle by their start.
func TripsOf(ctx context.Context, db Querier, vehicle string) ([]fleet.Trip, error) {
	return collect[fleet.Trip](ctx, db, `SELECT `+tripColumns+` FROM fleet.trips WHERE vehicle = $1 ORDER BY started_at`, vehicle)
}

// Purge removes at most limit raw positions of a vehicle that are beyond the
// horizon. It reports how many there were, and whether both readers have come
// to the end of an ended trace: before that, purging would be too early.
func Purge(ctx context.Context, db Querier, vehicle string, limit int) (purged int, settled bool, err error) {
	err = db.QueryRow(ctx, `
		WITH v AS (
			SELECT vehicle, newest_at - $2::interval AS horizon
			FROM fleet.vehicles
			WHERE vehicle = $1 AND ended AND fences_after = newest_at AND trips_after = newest_at
		), old AS (
			SELECT p.vehicle, p.at FROM v JOIN fleet.positions p ON p.vehicle = v.vehicle AND p.at < v.horizon
			ORDER BY p.at LIMIT $3
		), gone AS (
			DELETE FROM fleet.positions p USING old WHERE p.vehicle = old.vehicle AND p.at = old.at RETURNING 1
		)
		SELECT (SELECT count(*) FROM gone), EXISTS (SELECT FROM v)`, vehicle, fleet.RawHorizon, limit).Scan(&purged, &settled)
	if err != nil {
		return 0, false, fmt.Errorf("purge positions of %s: %w", vehicle, err)
	}
	return purged, settled, nil
}
