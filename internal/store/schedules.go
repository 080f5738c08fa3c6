package store

import (
	"context"
	"errors"
	"hash/fnv"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
)

// Schedule is what a declaration says of one.
type Schedule struct {
	Kind   string
	Spec   string // a cron expression
	Zone   string
	Missed string // skip, one or all
}

// ScheduleState is a schedule as it is registered.
type ScheduleState struct {
	Schedule
	Cursor   time.Time // every tick up to here has been dealt with
	Removed  bool      // it is shown and not run
	Paused   bool
	Requests int // jobs that somebody wants besides
}

const scheduleColumns = `s.kind, s.spec, s.zone, s.missed, s.cursor, s.removed_at IS NOT NULL`

// scheduleExtras are what is kept apart from the row.
func (s *Store) scheduleExtras() string {
	return `, EXISTS (SELECT FROM ` + s.schema + `.paused_schedules p WHERE p.kind = s.kind),
		(SELECT count(*) FROM ` + s.schema + `.schedule_requests r WHERE r.kind = s.kind)`
}

func (x *ScheduleState) dest() []any {
	return []any{&x.Kind, &x.Spec, &x.Zone, &x.Missed, &x.Cursor, &x.Removed, &x.Paused, &x.Requests}
}

// Schedules returns what is registered of some kinds, and the database's time.
func (s *Store) Schedules(ctx context.Context, kinds []string) (all []ScheduleState, now time.Time, err error) {
	err = s.call(ctx, `SELECT clock_timestamp(), x.* FROM (SELECT) one LEFT JOIN (
			SELECT `+scheduleColumns+s.scheduleExtras()+` FROM `+s.schema+`.schedules s WHERE s.kind = ANY ($1::text[])
		) x ON true`, []any{kinds}, func(rows pgx.Rows) error {
		for rows.Next() {
			var (
				kind, spec, zone, missed pgtype.Text
				cursor                   pgtype.Timestamptz
				removed, paused          pgtype.Bool
				requests                 pgtype.Int8
			)
			if err := rows.Scan(&now, &kind, &spec, &zone, &missed, &cursor, &removed, &paused, &requests); err != nil {
				return err
			}
			if kind.Valid {
				all = append(all, ScheduleState{
					Schedule: Schedule{Kind: kind.String, Spec: spec.String, Zone: zone.String, Missed: missed.String},
					Cursor:   cursor.Time, Removed: removed.Bool, Paused: paused.Bool, Requests: int(requests.Int64),
				})
			}
		}
		return rows.Err()
	})
	return all, now, err
}

// RemoveSchedules marks the schedules of kinds that have none any more, and
// returns those that it has marked.
func (s *Store) RemoveSchedules(ctx context.Context, kinds []string) (removed []string, err error) {
	err = s.call(ctx, `WITH gone AS MATERIALIZED (
			SELECT s.kind FROM `+s.schema+`.schedules s WHERE s.kind = ANY ($1::text[]) AND s.removed_at IS NULL ORDER BY s.kind FOR UPDATE
		), requests AS (
			DELETE FROM `+s.schema+`.schedule_requests r USING gone g WHERE r.kind = g.kind
		)
		UPDATE `+s.schema+`.schedules s SET removed_at = clock_timestamp() FROM gone g WHERE s.kind = g.kind RETURNING s.kind`,
		[]any{kinds}, func(rows pgx.Rows) error {
			removed, err = pgx.CollectRows(rows, pgx.RowTo[string])
			return err
		})
	return removed, err
}

// ErrScheduleBusy says that another process is just dealing with the schedule.
var ErrScheduleBusy = errors.New("another process is dealing with the schedule")

// ErrScheduleMoved says that somebody else has dealt with the ticks.
var ErrScheduleMoved = errors.New("the schedule has been moved on")

// scheduleIdle bounds how long a process that is stopped in the middle holds up a
// schedule.
const scheduleIdle = 10 * time.Second

// Scheduling is a transaction in which one schedule is dealt with.
type Scheduling struct {
	Tx    pgx.Tx
	Now   time.Time      // the database's
	State *ScheduleState // nil where it is not registered
	s     *Store
	kind  string
}

// Schedule runs do in a transaction that no other process is in for the same
// kind, and commits it where do returns nil. It returns [ErrScheduleBusy] where
// there is one.
func (s *Store) Schedule(ctx context.Context, kind string, do func(*Scheduling) error) error {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release() // closes one that is left inside a transaction
	err = s.scheduling(ctx, conn.Conn(), kind, do)
	if unfit(err) {
		s.leave(ctx, conn.Conn())
		return err
	}
	return explain(err)
}

func (s *Store) scheduling(ctx context.Context, conn *pgx.Conn, kind string, do func(*Scheduling) error) error {
	tx, err := conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted})
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
		defer cancel()
		_ = tx.Rollback(ctx) // after Commit it does nothing
	}()
	var locked bool
	var setting string
	if err := tx.QueryRow(ctx, `SELECT set_config('idle_in_transaction_session_timeout', $2::text, true), pg_try_advisory_xact_lock($1::bigint)`,
		s.scheduleLock(kind), milliseconds(scheduleIdle)).Scan(&setting, &locked); err != nil {
		return err
	}
	if !locked {
		return ErrScheduleBusy
	}
	// In a statement of its own, which sees what the last holder has committed.
	t := &Scheduling{Tx: tx, s: s, kind: kind}
	if t.State, t.Now, err = s.scheduleState(ctx, tx, kind); err != nil {
		return err
	}
	if err := do(t); err != nil {
		return err
	}
	return tx.Commit(ctx)
}

func (s *Store) scheduleState(ctx context.Context, tx pgx.Tx, kind string) (*ScheduleState, time.Time, error) {
	var now time.Time
	if err := tx.QueryRow(ctx, `SELECT clock_timestamp()`).Scan(&now); err != nil {
		return nil, now, err
	}
	var state ScheduleState
	err := tx.QueryRow(ctx, `SELECT `+scheduleColumns+s.scheduleExtras()+` FROM `+s.schema+`.schedules s WHERE s.kind = $1::text`, kind).Scan(state.dest()...)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, now, nil
	}
	return &state, now, err
}

// scheduleLock is the advisory lock of a kind's schedule in this schema.
func (s *Store) scheduleLock(kind string) int64 {
	h := fnv.New64a()
	h.Write([]byte("pawl/schedule/" + s.schema + "/" + kind))
	return int64(h.Sum64())
}

// Register writes a schedule down as it is declared now, with every tick up to
// the cursor dealt with. A schedule that was removed is there again.
func (t *Scheduling) Register(ctx context.Context, x Schedule, by string, cursor, next time.Time) error {
	_, err := t.Tx.Exec(ctx, `INSERT INTO `+t.s.schema+`.schedules AS s (kind, spec, zone, missed, cursor, next_tick, registered_at, registered_by)
		VALUES ($1::text, $2::text, $3::text, $4::text, $5::timestamptz, $6::timestamptz, clock_timestamp(), $7::text)
		ON CONFLICT (kind) DO UPDATE SET (spec, zone, missed, cursor, next_tick, registered_at, registered_by, removed_at)
			= (excluded.spec, excluded.zone, excluded.missed, excluded.cursor, excluded.next_tick, excluded.registered_at, excluded.registered_by, NULL)`,
		t.kind, x.Spec, x.Zone, x.Missed, cursor, next, by)
	return err
}

// Step is how far a schedule goes on.
type Step struct {
	Cursor, Next time.Time
	Missed       int // ticks that were found too late
	Skipped      int // of those, without a job
}

// Advance moves the cursor of the schedule on. It returns [ErrScheduleMoved]
// where it is not where it was read, and then nothing must be stored.
func (t *Scheduling) Advance(ctx context.Context, step Step) error {
	tag, err := t.Tx.Exec(ctx, `UPDATE `+t.s.schema+`.schedules SET cursor = $3::timestamptz, next_tick = $4::timestamptz,
			missed_ticks = missed_ticks + $5::bigint, skipped_ticks = skipped_ticks + $6::bigint
		WHERE kind = $1::text AND cursor = $2::timestamptz AND (spec, zone, missed) = ($7::text, $8::text, $9::text) AND removed_at IS NULL`,
		t.kind, t.State.Cursor, step.Cursor, step.Next, step.Missed, step.Skipped, t.State.Spec, t.State.Zone, t.State.Missed)
	if err == nil && tag.RowsAffected() == 0 {
		err = ErrScheduleMoved
	}
	return err
}

// Ticked writes down the last of the jobs that were made.
func (t *Scheduling) Ticked(ctx context.Context, last time.Time, job uuid.UUID, jobs int) error {
	_, err := t.Tx.Exec(ctx, `UPDATE `+t.s.schema+`.schedules SET last_tick = $2::timestamptz, last_job = $3::text::uuid, ticks = ticks + $4::bigint
		WHERE kind = $1::text`, t.kind, last, job.String(), jobs)
	return err
}

// TakeRequests takes the oldest requests for a job besides the ticks, at most
// the given number, and returns when they were made.
func (t *Scheduling) TakeRequests(ctx context.Context, most int) ([]time.Time, error) {
	rows, err := t.Tx.Query(ctx, `DELETE FROM `+t.s.schema+`.schedule_requests r USING (
			SELECT x.ctid AS at FROM `+t.s.schema+`.schedule_requests x WHERE x.kind = $1::text ORDER BY x.requested_at LIMIT $2::integer FOR UPDATE SKIP LOCKED
		) o WHERE r.ctid = o.at RETURNING r.requested_at`, t.kind, most)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[time.Time])
}

// RunSchedule asks for one job of a scheduled kind through the caller's
// transaction. Known is false where the kind has no schedule.
func RunSchedule(ctx context.Context, q Querier, schema, kind string) (known bool, err error) {
	_, known, err = scheduleControl(ctx, q, schema, "run_schedule", kind)
	return known, err
}

// PauseSchedule stops the ticks of a kind, in the caller's transaction.
func PauseSchedule(ctx context.Context, q Querier, schema, kind string) (changed, known bool, err error) {
	return scheduleControl(ctx, q, schema, "pause_schedule", kind)
}

// ResumeSchedule undoes [PauseSchedule].
func ResumeSchedule(ctx context.Context, q Querier, schema, kind string) (changed, known bool, err error) {
	return scheduleControl(ctx, q, schema, "resume_schedule", kind)
}

func scheduleControl(ctx context.Context, q Querier, schema, function, kind string) (changed, known bool, err error) {
	var answer pgtype.Bool
	err = q.QueryRow(ctx, `SELECT `+quote(schema)+`.`+function+`($1::text)`, kind).Scan(&answer)
	return answer.Bool, answer.Valid, err
}
