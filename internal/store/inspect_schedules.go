package store

import (
	"context"
	"time"

	"github.com/google/uuid"
)

// MigrationRow is a migration that the database has.
type MigrationRow struct {
	Number    int       `json:"version"`
	Name      string    `json:"name"`
	AppliedAt time.Time `json:"applied_at"`
}

// Migrations returns the migrations that the database has, none where it has no
// such schema.
func (r *Reading) Migrations(ctx context.Context) ([]MigrationRow, error) {
	var there bool
	if err := r.tx.QueryRow(ctx, `SELECT to_regclass($1::text) IS NOT NULL`, r.schema+`.migrations`).Scan(&there); err != nil || !there {
		return nil, err
	}
	return documents[MigrationRow](ctx, r.tx, `SELECT to_jsonb(m)::text FROM `+r.schema+`.migrations m ORDER BY m.version`)
}

// ScheduleRow is a schedule that there is or was.
type ScheduleRow struct {
	Kind         string     `json:"kind"`
	Spec         string     `json:"spec"`
	Zone         string     `json:"zone"`
	Missed       string     `json:"missed"`
	Status       string     `json:"status"`
	PausedAt     *time.Time `json:"paused_at"`
	NextTick     *time.Time `json:"next_tick"`
	LastTick     *time.Time `json:"last_tick"`
	LastJob      *uuid.UUID `json:"last_job"`
	Ticks        int64      `json:"ticks"`
	MissedTicks  int64      `json:"missed_ticks"`
	SkippedTicks int64      `json:"skipped_ticks"`
	Requests     int64      `json:"requests"`
	RegisteredAt time.Time  `json:"registered_at"`
	RegisteredBy string     `json:"registered_by"`
	RemovedAt    *time.Time `json:"removed_at"`
}

// Schedules returns all schedules by kind, and the database's time.
func (r *Reading) Schedules(ctx context.Context) (all []ScheduleRow, now time.Time, err error) {
	if now, err = r.Now(ctx); err != nil {
		return nil, now, err
	}
	all, err = documents[ScheduleRow](ctx, r.tx, `SELECT (to_jsonb(s) || jsonb_build_object('paused_at', p.paused_at,
			'requests', (SELECT count(*) FROM `+r.schema+`.schedule_requests q WHERE q.kind = s.kind)))::text
		FROM `+r.schema+`.schedule_status s LEFT JOIN `+r.schema+`.paused_schedules p ON p.kind = s.kind ORDER BY s.kind`)
	return all, now, err
}
