package store

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgtype"
)

// What follows is for tests of applications: it reads and moves rows through
// whatever the test has at hand, a transaction or a pool.

// Inspected is a job as a test looks at it.
type Inspected struct {
	ID             uuid.UUID       `json:"id"`
	Kind           string          `json:"kind"`
	Queue          string          `json:"queue"`
	Version        int             `json:"version"`
	Priority       int16           `json:"priority"`
	MaxAttempts    int             `json:"max_attempts"`
	OrganizationID string          `json:"organization_id"`
	RunAt          time.Time       `json:"run_at"` // when it first became due
	EnqueuedAt     time.Time       `json:"enqueued_at"`
	Key            hexBytes        `json:"idempotency_key"`
	KeepMicros     int64           `json:"keep"` // of its key, where it still holds that
	OrderKey       hexBytes        `json:"order_key"`
	State          string          `json:"state"`
	Args           json.RawMessage `json:"args"`
	// SameArgs says that they are the JSON value that was asked for.
	SameArgs bool `json:"same_args"`
}

// Keep is how long the key is held at least, counted from the enqueue.
func (i *Inspected) Keep() time.Duration { return time.Duration(i.KeepMicros) * time.Microsecond }

// hexBytes are bytes that travel as hexadecimal digits.
type hexBytes []byte

func (b *hexBytes) UnmarshalText(text []byte) (err error) {
	*b, err = hex.DecodeString(string(text))
	return err
}

// InTransaction says whether statements through q are part of one transaction
// that somebody has begun, rather than a transaction each.
func InTransaction(ctx context.Context, q Querier) (bool, error) {
	mark := rand.Text()
	var text pgtype.Text
	if err := q.QueryRow(ctx, `SELECT set_config('pawl.inspect', $1::text, true)`, mark).Scan(&text); err != nil {
		return false, err
	}
	// Such a setting ends with its transaction.
	err := q.QueryRow(ctx, `SELECT current_setting('pawl.inspect', true)`).Scan(&text)
	return text.String == mark, err
}

// Inspect returns jobs in the order of their enqueue: where own is set, those
// that the transaction of q has enqueued itself, else all that q can see and
// that still have their history. Args is a JSON value to compare theirs with, or
// empty; it comes back as the database writes it.
func Inspect(ctx context.Context, q Querier, schema string, own bool, args string) (jobs []Inspected, normal string, err error) {
	var (
		wanted *string
		answer string
		text   pgtype.Text
	)
	if args != "" {
		wanted = &args
	}
	// A row that is visible although its transaction is in progress can only be
	// of this one, or of a savepoint in it. Those have no lower number than the
	// transaction itself; others are not asked for, since pg_xact_status refuses
	// numbers that it has no memory of. Rows keep the low half of a number, so it
	// is counted from the transaction's. The function age could do that, but it
	// counts from what was the next number when the transaction first called it.
	err = q.QueryRow(ctx, `
		SELECT COALESCE(json_agg(x ORDER BY x.enqueued_at, x.id), '[]')::text, ($2::text::jsonb)::text
		FROM (
			SELECT pg_current_xact_id_if_assigned()::text::bigint AS id
		) own, LATERAL (
			SELECT j.id, j.kind, j.queue, j.version, j.priority, j.max_attempts, j.organization_id, j.run_at, j.enqueued_at,
				encode(j.idempotency_key, 'hex') AS idempotency_key, encode(j.order_key, 'hex') AS order_key,
				COALESCE((extract(epoch FROM k.expires_at - j.enqueued_at) * 1000000)::bigint, 0) AS keep,
				`+quote(schema)+`.job_state(j.day, j.id) AS state, j.args, COALESCE(j.args = $2::text::jsonb, false) AS same_args
			FROM `+quote(schema)+`.jobs j
			LEFT JOIN `+quote(schema)+`.idempotency_keys k
				ON k.organization_id = j.organization_id AND k.kind = j.kind AND k.key = j.idempotency_key AND k.job_id = j.id
			CROSS JOIN LATERAL (
				SELECT (j.xmin::text::bigint - own.id % 4294967296 + 6442450944) % 4294967296 - 2147483648 AS later
			) than_own
			WHERE NOT $1::boolean OR CASE WHEN later >= 0 THEN pg_xact_status((own.id + later)::text::xid8) = 'in progress' ELSE false END
		) x`, own, wanted).Scan(&answer, &text)
	if err != nil {
		return nil, "", err
	}
	if err := json.Unmarshal([]byte(answer), &jobs); err != nil {
		return nil, "", fmt.Errorf("read the jobs: %w", err)
	}
	return jobs, text.String, nil
}

// KeyHolder returns the job that holds an idempotency key and where it stands;
// uuid.Nil where none does.
func KeyHolder(ctx context.Context, q Querier, schema, kind, organization string, key []byte) (id uuid.UUID, state string, err error) {
	var text, where pgtype.Text
	err = q.QueryRow(ctx, `
		SELECT k.job_id::text, `+quote(schema)+`.job_state(k.job_day, k.job_id)
		FROM (SELECT) one LEFT JOIN `+quote(schema)+`.idempotency_keys k
			ON k.kind = $1::text AND k.organization_id = $2::text AND k.key = decode($3::text, 'hex')`,
		kind, organization, hex.EncodeToString(key)).Scan(&text, &where)
	if err != nil || !text.Valid {
		return uuid.Nil, "", err
	}
	id, err = uuid.Parse(text.String)
	return id, where.String, err
}

// Advance moves every time that the schema keeps of jobs, keys, failures and
// outcomes into the past, as if that much time had passed, and wakes workers. It
// leaves alone the days that rows are filed under, processes and leases.
func Advance(ctx context.Context, q Querier, schema string, by time.Duration) error {
	s := quote(schema)
	var done bool
	return q.QueryRow(ctx, `
		WITH by AS (
			SELECT $1::bigint * interval '1 microsecond' AS d
		), jobs AS (
			UPDATE `+s+`.jobs SET run_at = run_at - by.d, enqueued_at = enqueued_at - by.d FROM by
		), ready AS (
			UPDATE `+s+`.ready SET run_at = run_at - by.d FROM by
		), keys AS (
			UPDATE `+s+`.idempotency_keys SET expires_at = expires_at - by.d FROM by
		), errors AS (
			UPDATE `+s+`.job_errors SET at = at - by.d, retry_at = retry_at - by.d FROM by
		), outcomes AS (
			UPDATE `+s+`.outcomes SET claimed_at = claimed_at - by.d, finished_at = finished_at - by.d FROM by
		), letters AS (
			UPDATE `+s+`.dead_letters SET enqueued_at = enqueued_at - by.d, died_at = died_at - by.d FROM by
		), requests AS (
			UPDATE `+s+`.cancel_requests SET requested_at = requested_at - by.d FROM by
		), pauses AS (
			UPDATE `+s+`.paused_queues SET paused_at = paused_at - by.d FROM by
		), quarantine AS (
			UPDATE `+s+`.quarantine SET found_at = found_at - by.d FROM by
		), pending_events AS (
			UPDATE `+s+`.pending_events SET available_at = available_at - by.d, published_at = published_at - by.d, claimed_at = claimed_at - by.d FROM by
		), events AS (
			UPDATE `+s+`.events SET occurred_at = occurred_at - by.d, published_at = published_at - by.d FROM by
		), event_errors AS (
			UPDATE `+s+`.event_errors SET at = at - by.d, retry_at = retry_at - by.d FROM by
		), event_outcomes AS (
			UPDATE `+s+`.event_outcomes SET claimed_at = claimed_at - by.d, processed_at = processed_at - by.d FROM by
		), dead_events AS (
			UPDATE `+s+`.dead_events SET occurred_at = occurred_at - by.d, published_at = published_at - by.d, died_at = died_at - by.d FROM by
		), blocked_aggregates AS (
			UPDATE `+s+`.blocked_aggregates SET blocked_at = blocked_at - by.d FROM by
		), schedules AS (
			UPDATE `+s+`.schedules SET cursor = cursor - by.d, next_tick = next_tick - by.d, last_tick = last_tick - by.d,
				registered_at = registered_at - by.d, removed_at = removed_at - by.d FROM by
		), paused_schedules AS (
			UPDATE `+s+`.paused_schedules SET paused_at = paused_at - by.d FROM by
		), schedule_requests AS (
			UPDATE `+s+`.schedule_requests SET requested_at = requested_at - by.d FROM by
		)
		SELECT pg_notify($2::text, '') IS NOT NULL`, by.Microseconds(), Channel(schema)).Scan(&done)
}
