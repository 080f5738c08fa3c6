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

// Reader is for whom positions are read.
type Reader string

// The readers of positions, each with a place up to which it has come.
const (
	ForTrips     Reader = "p.at > v.trips_after"
	ForGeofences Reader = "p.at >= v.fences_after"
	ForSilences  Reader = "p.at >= v.heard_after"
)

// Settled returns the positions that the reader has not dealt with, up to the
// watermark, in the order of their time.
func Settled(ctx context.Context, tx pgx.Tx, vehicle string, reader Reader, watermark time.Time) ([]fleet.Position, error) {
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

// SilencesSettled remembers the last position after which silences were looked
// for.
func SilencesSettled(ctx context.Context, tx pgx.Tx, vehicle string, last time.Time) error {
	_, err := tx.Exec(ctx, `UPDATE fleet.vehicles SET heard_after = $2 WHERE vehicle = $1`, vehicle, last)
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

// InsertSilence commits a silence. It reports false for one that is there already.
func InsertSilence(ctx context.Context, tx pgx.Tx, s fleet.Silence) (bool, error) {
	tag, err := tx.Exec(ctx, `INSERT INTO fleet.silences (id, vehicle, since, until) VALUES ($1, $2, $3, $4) ON CONFLICT (id) DO NOTHING`,
		s.ID, s.Vehicle, s.Since, known(s.Until))
	return tag.RowsAffected() == 1, err
}

func known(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// unheard says of a row of the vehicles that there are settled positions after
// which silences were not looked for.
const unheard = `(v.ended AND v.heard_after < v.newest_at OR EXISTS (
	SELECT FROM fleet.positions p WHERE p.vehicle = v.vehicle AND p.at > v.heard_after AND p.at < v.newest_at - $1::interval))`

// Unheard returns the vehicles of which silences are to be looked for.
func Unheard(ctx context.Context, db Querier) ([]string, error) {
	rows, err := db.Query(ctx, `SELECT v.vehicle FROM fleet.vehicles v WHERE `+unheard+` ORDER BY v.vehicle`, fleet.Lateness)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

// NewestOfFleet is the time of the newest position of all.
func NewestOfFleet(ctx context.Context, tx pgx.Tx) (newest time.Time, err error) {
	err = tx.QueryRow(ctx, `SELECT max(newest_at) FROM fleet.vehicles`).Scan(&newest)
	return newest, err
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
// horizon. It reports how many there were, and whether all readers have come
// to the end of an ended trace: before that, purging would be too early.
func Purge(ctx context.Context, db Querier, vehicle string, limit int) (purged int, settled bool, err error) {
	err = db.QueryRow(ctx, `
		WITH v AS (
			SELECT vehicle, newest_at - $2::interval AS horizon
			FROM fleet.vehicles
			WHERE vehicle = $1 AND ended AND newest_at = ALL (ARRAY[fences_after, trips_after, heard_after])
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
