package store

import (
	"context"
	"time"

	"github.com/google/uuid"
)

// ErrorRow is one failed attempt.
type ErrorRow struct {
	Attempt int        `json:"attempt"`
	At      time.Time  `json:"at"`
	Code    string     `json:"code"`
	Summary string     `json:"summary"`
	RetryAt *time.Time `json:"retry_at"`
}

// LifeRow is a former life of a job: how it was dead once, before somebody had it
// run again.
type LifeRow struct {
	DiedAt     time.Time  `json:"died_at"`
	RedrivenAt time.Time  `json:"redriven_at"`
	Redrive    *uuid.UUID `json:"redrive"`
	Attempts   int        `json:"attempts"`
	Code       string     `json:"code"`
	Summary    string     `json:"summary"`
	Errors     []ErrorRow `json:"errors"`
}

// HistoryRow is what is known of how attempts at a job ended.
type HistoryRow struct {
	Errors []ErrorRow `json:"errors"` // the latest, oldest first
	Lives  []LifeRow  `json:"lives"`
}

// historyMost bounds the failures that are told of a job.
const historyMost = 50

// History returns what is known of how attempts at a job ended.
func (r *Reading) History(ctx context.Context, id uuid.UUID) (HistoryRow, error) {
	return document[HistoryRow](ctx, r.tx, `SELECT jsonb_build_object(
		'errors', (SELECT COALESCE(jsonb_agg(to_jsonb(e) ORDER BY e.at, e.attempt), '[]') FROM (
			SELECT e.attempt, e.at, e.code, e.summary, e.retry_at FROM `+r.schema+`.job_errors e
			WHERE e.job_id = $1::text::uuid ORDER BY e.at DESC, e.attempt DESC LIMIT $2::integer) e),
		'lives', (SELECT COALESCE(jsonb_agg(to_jsonb(x) ORDER BY x.redriven_at), '[]') FROM `+r.schema+`.redriven x WHERE x.job_id = $1::text::uuid))::text`,
		id.String(), historyMost)
}

// CircumstancesRow is what around a job keeps it from running, or does not.
type CircumstancesRow struct {
	Now       time.Time  `json:"now"`
	PausedAt  *time.Time `json:"paused_at"`  // its queue
	RequestAt *time.Time `json:"request_at"` // to cancel it
	Suspect   bool       `json:"suspect"`    // it runs alone
	HeadOf    bool       `json:"head_of"`    // it is the first of its order key
	Ahead     int        `json:"ahead"`      // jobs before it in its order key, up to the bound
	First     *uuid.UUID `json:"first"`      // the first of those
	Ordered   bool       `json:"ordered"`

	Workers      int  `json:"workers"`       // that live
	QueueWorkers int  `json:"queue_workers"` // of those, that serve its queue
	KindVersion  int  `json:"kind_version"`  // the newest payload version that was registered of its kind
	KnowsVersion bool `json:"knows_version"` // a live worker of its queue knows its payload
	OwnerLives   bool `json:"owner_lives"`   // of its lease
	DueAhead     int  `json:"due_ahead"`     // due jobs that are claimed before it, up to the bound
	QueueLeased  int  `json:"queue_leased"`  // jobs of its queue that workers have

	QuarantineReason string     `json:"quarantine_reason"`
	QuarantinedAt    *time.Time `json:"quarantined_at"`
}

// AheadBound is up to where jobs that come before another are counted, as it is in the
// view order_places.
const AheadBound = 1000

// Circumstances returns what around a job keeps it from running.
func (r *Reading) Circumstances(ctx context.Context, j *JobRow) (CircumstancesRow, error) {
	s := r.schema
	return document[CircumstancesRow](ctx, r.tx, `
		WITH job AS MATERIALIZED (
			SELECT $1::text::uuid AS id, $2::text AS queue, $3::bigint AS capability, $4::smallint AS priority
		), live AS MATERIALIZED (
			SELECT p.* FROM `+s+`.processes p WHERE p.expires_at > clock_timestamp()
		), place AS MATERIALIZED (
			SELECT o.head, o.ahead, CASE WHEN o.ahead > 0 THEN o.first END AS first FROM job JOIN `+s+`.order_places o ON o.job_id = job.id
		)
		SELECT jsonb_build_object(
			'now', clock_timestamp(),
			'paused_at', (SELECT q.paused_at FROM `+s+`.paused_queues q WHERE q.queue = job.queue),
			'request_at', (SELECT c.requested_at FROM `+s+`.cancel_requests c WHERE c.job_id = job.id),
			'suspect', EXISTS (SELECT FROM `+s+`.ready r WHERE r.queue = job.queue AND r.priority = job.priority AND r.suspect AND r.id = job.id),
			'ordered', EXISTS (SELECT FROM place), 'head_of', EXISTS (SELECT FROM place p WHERE p.head),
			'ahead', COALESCE((SELECT p.ahead FROM place p), 0), 'first', (SELECT p.first FROM place p),
			'workers', (SELECT count(*) FROM live), 'queue_workers', (SELECT count(*) FROM live l WHERE job.queue = ANY (l.queues)),
			'knows_version', EXISTS (SELECT FROM live l WHERE job.queue = ANY (l.queues) AND job.capability = ANY (l.capabilities)),
			'kind_version', COALESCE((SELECT k.version FROM `+s+`.kinds k WHERE k.kind = $7::text), 0),
			'owner_lives', EXISTS (SELECT FROM `+s+`.leases l JOIN live p ON p.id = l.owner WHERE job.id = ANY (l.job_ids)),
			'due_ahead', CASE WHEN $5::timestamptz <= clock_timestamp() THEN (SELECT count(*) FROM (
				SELECT FROM generate_series(4, job.priority + 1, -1) p(priority) CROSS JOIN LATERAL (
					SELECT 1 FROM `+s+`.ready r WHERE r.queue = job.queue AND NOT r.suspect AND r.priority = p.priority::smallint AND r.run_at <= clock_timestamp()
					LIMIT $6::integer) a
				UNION ALL
				SELECT FROM (
					SELECT 1 FROM `+s+`.ready r WHERE r.queue = job.queue AND NOT r.suspect AND r.priority = job.priority
						AND (r.run_at, r.id) < ($5::timestamptz, job.id) LIMIT $6::integer) b
				LIMIT $6::integer) n) ELSE 0 END,
			'queue_leased', (SELECT COALESCE(sum(bit_count(l.open)), 0) FROM `+s+`.leases l WHERE l.queue = job.queue),
			'quarantine_reason', COALESCE((SELECT q.reason FROM `+s+`.quarantine q WHERE q.job_id = job.id LIMIT 1), ''),
			'quarantined_at', (SELECT q.found_at FROM `+s+`.quarantine q WHERE q.job_id = job.id LIMIT 1))::text
		FROM job`,
		j.ID.String(), j.Queue, j.Capability, j.Priority, j.RunAt, AheadBound, j.Kind)
}
