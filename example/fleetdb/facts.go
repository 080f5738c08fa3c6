package fleetdb

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/pawlgo/pawl/example/check"
	"github.com/pawlgo/pawl/example/fleet"
)

// Facts reads everything that the database knows of a run. Of each webhook it
// leaves the answers open: those are known to the receiver.
func Facts(ctx context.Context, tx pgx.Tx) (*check.Facts, error) {
	f := &check.Facts{Kills: map[string]time.Time{}}
	type kill struct {
		Worker string
		At     time.Time
	}
	type silence struct {
		ID      uuid.UUID
		Vehicle string
		Since   time.Time
		Until   *time.Time
	}
	type webhook struct {
		Subscriber     string
		EventID, JobID uuid.UUID
	}
	var kills []kill
	var silences []silence
	var webhooks []webhook
	for _, err := range []error{
		load(ctx, tx, &f.Trips, `SELECT `+tripColumns+` FROM fleet.trips ORDER BY vehicle, started_at`),
		load(ctx, tx, &f.Crossings, `SELECT id, vehicle, fence, entered, at FROM fleet.crossings ORDER BY vehicle, at, fence`),
		load(ctx, tx, &silences, `SELECT id, vehicle, since, until FROM fleet.silences ORDER BY vehicle, since`),
		load(ctx, tx, &f.Published, `
			SELECT id, event_type, COALESCE(payload ->> 'trip_id', payload ->> 'crossing_id', payload ->> 'silence_id')::uuid, status FROM pawl.outbox_events ORDER BY seq`),
		load(ctx, tx, &f.Projections, `SELECT fact_id, subject, worker FROM fleet.projections`),
		load(ctx, tx, &f.Overview, `SELECT vehicle, trips, distance_m, entered, inside, silences, offline_since FROM fleet.overview ORDER BY vehicle`),
		load(ctx, tx, &f.Links, `SELECT trip_id, expires_at, revoked_at FROM fleet.links ORDER BY expires_at`),
		load(ctx, tx, &f.Schedules, `SELECT kind, spec, ticks::int, skipped_ticks::int FROM pawl.schedule_status ORDER BY kind`),
		load(ctx, tx, &f.Ticks, `SELECT job_id, kind, tick FROM fleet.ticks ORDER BY kind, tick`),
		load(ctx, tx, &f.Reports, `SELECT trip_id, file, sha256 FROM fleet.reports ORDER BY rendered_at`),
		load(ctx, tx, &f.Exports, `SELECT vehicle, file, trips FROM fleet.exports ORDER BY vehicle`),
		load(ctx, tx, &f.Executions, `
			SELECT job_id, attempt, kind, queue, worker, due_at, started_at, finished_at, COALESCE(outcome, ''), COALESCE(detail, '')
			FROM fleet.executions ORDER BY id`),
		load(ctx, tx, &kills, `SELECT worker, killed_at FROM fleet.kills`),
		load(ctx, tx, &webhooks, `
			SELECT e.name, w.event_id, w.job_id FROM fleet.webhooks w JOIN fleet.endpoints e ON e.id = w.endpoint_id ORDER BY e.name, w.event_id`),
		load(ctx, tx, &f.Unfinished, `SELECT queue, status, count(*)::int FROM pawl.job_status WHERE `+unfinished+` GROUP BY queue, status ORDER BY queue, status`),
	} {
		if err != nil {
			return nil, fmt.Errorf("read what became of the run: %w", err)
		}
	}
	for _, k := range kills {
		f.Kills[k.Worker] = k.At
	}
	for _, w := range webhooks {
		f.Webhooks = append(f.Webhooks, check.Webhook{Subscriber: w.Subscriber, EventID: w.EventID, JobID: w.JobID})
	}
	for _, s := range silences {
		found := fleet.Silence{ID: s.ID, Vehicle: s.Vehicle, Since: s.Since}
		if s.Until != nil {
			found.Until = *s.Until
		}
		f.Silences = append(f.Silences, found)
	}
	rows, err := tx.Query(ctx, `SELECT tick FROM fleet.summaries ORDER BY tick`)
	if err == nil {
		f.Summaries, err = pgx.CollectRows(rows, pgx.RowTo[time.Time])
	}
	if err != nil {
		return nil, fmt.Errorf("read the summaries: %w", err)
	}
	rows, err = tx.Query(ctx, `SELECT event_id FROM fleet.notifications`)
	if err == nil {
		f.Notifications, err = pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	}
	if err != nil {
		return nil, fmt.Errorf("read the notifications: %w", err)
	}
	err = tx.QueryRow(ctx, `
		SELECT count(*) FROM fleet.positions p JOIN fleet.vehicles v ON v.vehicle = p.vehicle
		WHERE p.at < v.newest_at - $1::interval`, fleet.RawHorizon).Scan(&f.Overdue)
	if err != nil {
		return nil, fmt.Errorf("count overdue positions: %w", err)
	}
	return f, nil
}

func load[T any](ctx context.Context, tx pgx.Tx, into *[]T, sql string) error {
	rows, err := collect[T](ctx, tx, sql)
	*into = rows
	return err
}

const unfinished = `status NOT IN ('completed', 'dead', 'cancelled')`

// Progress is how far a run has come.
type Progress struct {
	Trips, Crossings, Silences, Reports, Delivered, Notified int

	Jobs      int // unfinished ones, but for those of ticks
	Ticking   int // unfinished jobs of ticks
	Facts     int // that are not projected yet
	Unheard   int // vehicles of which silences are to be looked for
	Projected int
}

// Left is what is left to do, apart from what ticks bring.
func (p Progress) Left() int { return p.Jobs + p.Facts + p.Unheard }

// ProgressOf counts.
func ProgressOf(ctx context.Context, db Querier) (Progress, error) {
	return one[Progress](ctx, db, `
		WITH jobs AS (
			SELECT s.kind IS NOT NULL AS ticking, count(*)::int AS n FROM pawl.job_status j LEFT JOIN pawl.schedule_status s USING (kind)
			WHERE j.`+unfinished+` GROUP BY 1
		)
		SELECT (SELECT count(*) FROM fleet.trips)::int, (SELECT count(*) FROM fleet.crossings)::int, (SELECT count(*) FROM fleet.silences)::int,
			(SELECT count(*) FROM fleet.reports)::int,
			(SELECT count(*) FROM fleet.executions WHERE queue = 'webhooks' AND outcome = 'completed')::int,
			(SELECT count(*) FROM fleet.notifications)::int,
			(SELECT COALESCE(sum(n), 0) FROM jobs WHERE NOT ticking)::int, (SELECT COALESCE(sum(n), 0) FROM jobs WHERE ticking)::int,
			(SELECT count(*) FROM pawl.outbox_events WHERE status NOT IN ('projected', 'dead', 'discarded'))::int,
			(SELECT count(*) FROM fleet.vehicles v WHERE `+unheard+`)::int,
			(SELECT count(*) FROM fleet.projections)::int`, fleet.Lateness)
}

// DeadLetters counts the dead letters by the queue, the code and the reason that
// an operator sees.
type DeadLetters struct {
	Queue, Code, Reason string
	Jobs                int
}

// Dead returns the dead letters.
func Dead(ctx context.Context, db Querier) ([]DeadLetters, error) {
	return collect[DeadLetters](ctx, db, `
		SELECT queue, code, summary, count(*)::int FROM pawl.dead_letters GROUP BY 1, 2, 3 ORDER BY 4 DESC, 1, 2, 3`)
}
