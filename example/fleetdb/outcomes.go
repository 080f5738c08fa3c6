package fleetdb

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
)

// Start is the beginning of one execution of a job.
type Start struct {
	JobID   uuid.UUID
	Attempt int
	Kind    string
	Queue   string
	Worker  string
	DueAt   time.Time
}

// Started records that a handler was called. The row commits by itself, before
// the handler does anything.
func Started(ctx context.Context, db Querier, s Start) (execution int64, err error) {
	err = db.QueryRow(ctx, `
		INSERT INTO fleet.executions (job_id, attempt, kind, queue, worker, due_at)
		VALUES ($1, $2, $3, $4, $5, $6) RETURNING id`,
		s.JobID, s.Attempt, s.Kind, s.Queue, s.Worker, s.DueAt).Scan(&execution)
	if err != nil {
		return 0, fmt.Errorf("record the start: %w", err)
	}
	return execution, nil
}

// Finished records how a handler ended.
func Finished(ctx context.Context, db Querier, execution int64, outcome, detail string) error {
	_, err := db.Exec(ctx, `
		UPDATE fleet.executions SET finished_at = clock_timestamp(), outcome = $2, detail = NULLIF($3, '') WHERE id = $1`,
		execution, outcome, detail)
	if err != nil {
		return fmt.Errorf("record the end: %w", err)
	}
	return nil
}

// Killed records that a worker process is dead, after it is. What it had not
// finished by then, it never will.
func Killed(ctx context.Context, db Querier, worker string) error {
	_, err := db.Exec(ctx, `INSERT INTO fleet.kills (worker) VALUES ($1)`, worker)
	return err
}

// Holdings are the executions that a worker has started and not finished.
type Holdings struct{ Jobs, Queues int }

// Held counts what a worker holds.
func Held(ctx context.Context, db Querier, worker string) (Holdings, error) {
	return one[Holdings](ctx, db, `
		SELECT count(*)::int, count(DISTINCT queue)::int FROM fleet.executions WHERE worker = $1 AND finished_at IS NULL`, worker)
}

// Notified records a notification. The same one again changes nothing.
func Notified(ctx context.Context, db Querier, event uuid.UUID, text string) error {
	_, err := db.Exec(ctx, `INSERT INTO fleet.notifications (event_id, text) VALUES ($1, $2) ON CONFLICT (event_id) DO NOTHING`, event, text)
	return err
}

// Reported records a report file. The same one again changes nothing.
func Reported(ctx context.Context, db Querier, trip uuid.UUID, file string, sha256 []byte) error {
	_, err := db.Exec(ctx, `
		INSERT INTO fleet.reports (trip_id, file, sha256) VALUES ($1, $2, $3)
		ON CONFLICT (trip_id) DO UPDATE SET file = EXCLUDED.file, sha256 = EXCLUDED.sha256`, trip, file, sha256)
	return err
}

// Exported records an export file. The same one again changes nothing.
func Exported(ctx context.Context, db Querier, vehicle, file string, trips int) error {
	_, err := db.Exec(ctx, `
		INSERT INTO fleet.exports (vehicle, file, trips) VALUES ($1, $2, $3)
		ON CONFLICT (vehicle) DO UPDATE SET file = EXCLUDED.file, trips = EXCLUDED.trips`, vehicle, file, trips)
	return err
}
