package store

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// MaxAttempts is the highest number of attempts that a job can have: attempts
// are smallints, and one more than the last must still fit.
const MaxAttempts = 32766

// Querier is the one method that an enqueue needs of a transaction.
type Querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// Batch is a set of jobs of one kind that are enqueued together.
type Batch struct {
	Kind        string
	Queue       string
	Version     int
	Capability  int64
	Priority    int16
	MaxAttempts int
	RunAt       *time.Time    // due at; nil for Delay after the database's now
	Delay       time.Duration // where RunAt is nil
	Keep        time.Duration // of idempotency keys
	Wake        bool
	Order       []string // members of the payload that make the order key; nil for none
	Trace       string   // the context of the caller's trace; empty for none
	Jobs        []NewJob
}

// NewJob is what differs between the jobs of a batch.
type NewJob struct {
	ID             uuid.UUID
	Args           string // a JSON value
	OrganizationID string // empty for none
	Key            []byte // of idempotency; nil for none. Either all jobs of a batch have one or none
}

// Size is about how many bytes the job takes in the message of its enqueue.
func (j *NewJob) Size() int {
	const overhead = 16 + 4*4 // its id, and the length of each value
	return overhead + len(j.Args) + len(j.OrganizationID) + len(j.Key)
}

// Duplicate tells of a job that was not stored because another holds its key.
type Duplicate struct {
	Position int       `json:"n"` // in the batch, from 1
	ID       uuid.UUID `json:"id"`
	SameArgs bool      `json:"same"`
	State    string    `json:"state"`
}

// Enqueued is the answer to a batch.
type Enqueued struct {
	Scheduled  bool // its jobs are due in the future, by the database's clock
	Duplicates []Duplicate
}

// enqueueOne stores a job that has neither key.
func enqueueOne(ctx context.Context, q Querier, schema string, b *Batch) (answer Enqueued, err error) {
	job := &b.Jobs[0]
	err = q.QueryRow(ctx, `SELECT `+quote(schema)+`.enqueue_job($1::text, $2::text, $3::integer, $4::bigint, $5::smallint, $6::smallint,
		$7::timestamptz, $8::bigint, $9::text::uuid, $10::text::jsonb, $11::text, $12::text, $13::boolean)`,
		b.Kind, b.Queue, b.Version, b.Capability, b.Priority, b.MaxAttempts,
		b.RunAt, b.Delay.Microseconds(), job.ID.String(), job.Args, job.OrganizationID, orNull(b.Trace), b.Wake).Scan(&answer.Scheduled)
	return answer, err
}

// orNull is NULL for an empty text.
func orNull(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

// Enqueue stores a batch through the caller's transaction in one call.
func Enqueue(ctx context.Context, q Querier, schema string, b *Batch) (Enqueued, error) {
	n := len(b.Jobs)
	if n == 1 && b.Jobs[0].Key == nil && b.Order == nil {
		return enqueueOne(ctx, q, schema, b)
	}
	// As text: a driver mode without prepared statements cannot encode uuids.
	ids, args, organizations := make([]string, n), make([]string, n), make([]string, n)
	var keys [][]byte
	for i, job := range b.Jobs {
		ids[i], args[i], organizations[i] = job.ID.String(), job.Args, job.OrganizationID
		if job.Key != nil {
			keys = append(keys, job.Key)
		}
	}
	if keys != nil && len(keys) != n {
		return Enqueued{}, fmt.Errorf("%d of %d jobs have an idempotency key", len(keys), n)
	}
	var (
		answer     Enqueued
		duplicates *string
	)
	err := q.QueryRow(ctx, `SELECT scheduled, duplicates FROM `+quote(schema)+`.enqueue_jobs($1::text, $2::text, $3::integer, $4::bigint, $5::smallint, $6::smallint,
		$7::timestamptz, $8::bigint, $9::text[]::uuid[], $10::text[], $11::text[], $12::bytea[], $13::bigint, $14::boolean, $15::text[], $16::text)`,
		b.Kind, b.Queue, b.Version, b.Capability, b.Priority, b.MaxAttempts,
		b.RunAt, b.Delay.Microseconds(), ids, args, organizations, keys, b.Keep.Microseconds(), b.Wake, b.Order, orNull(b.Trace)).Scan(&answer.Scheduled, &duplicates)
	if err != nil || duplicates == nil {
		return answer, err
	}
	if err := json.Unmarshal([]byte(*duplicates), &answer.Duplicates); err != nil {
		return Enqueued{}, fmt.Errorf("read the answer of enqueue_jobs: %w", err)
	}
	return answer, nil
}
