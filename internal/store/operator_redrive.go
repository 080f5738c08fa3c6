package store

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
)

// RedriveRow is a redrive of many dead letters.
type RedriveRow struct {
	ID        uuid.UUID       `json:"id"`
	Filter    json.RawMessage `json:"filter"`
	By        string          `json:"made_by"`
	Reason    string          `json:"reason"`
	Canary    int             `json:"canary"`
	Rate      float64         `json:"rate"`
	StopShare float64         `json:"stop_share"`
	Attempts  *int            `json:"attempts"`
	State     string          `json:"state"`
	Pass      int             `json:"pass"`
	StartedAt time.Time       `json:"started_at"`
	EndedAt   *time.Time      `json:"ended_at"`
	Looked    int64           `json:"looked"`
	Redriven  int64           `json:"redriven"`
	Refused   int64           `json:"refused"` // of this pass, as Skipped
	Skipped   int64           `json:"skipped"`
	Completed int64           `json:"completed"`
	Failed    int64           `json:"failed"`
	Cancelled int64           `json:"cancelled"`

	ForgivenFailed int64 `json:"forgiven_failed"`
	ForgivenEnded  int64 `json:"forgiven_ended"`
}

// States of a redrive.
const (
	RedriveCanary  = "canary"
	RedriveRunning = "running"
	RedriveStopped = "stopped"
	RedriveDone    = "done"
)

// redriveColumns leaves out the place, whose first time JSON cannot have.
const redriveColumns = `to_jsonb(x) - 'after_died' - 'after_job'`

// StartRedrive writes down what is about to be redriven: letters that are dead by
// now.
func (o *Operator) StartRedrive(ctx context.Context, tx pgx.Tx, r *RedriveRow) error {
	return tx.QueryRow(ctx, `INSERT INTO `+o.schema+`.redrives (id, filter, made_by, reason, canary, rate, stop_share, attempts, state, started_at, last_at)
		SELECT $1::text::uuid, $2::text::jsonb, $3::text, $4::text, $5::integer, $6::float8, $7::float8, $8::smallint, $9::text, n.now, n.now
		FROM (SELECT clock_timestamp() AS now OFFSET 0) n
		RETURNING started_at`,
		r.ID.String(), string(r.Filter), r.By, r.Reason, r.Canary, r.Rate, r.StopShare, r.Attempts, r.State).Scan(&r.StartedAt)
}

// LockRedrive returns a redrive as it is, and keeps others from going on with it
// until the transaction ends. The error is pgx.ErrNoRows where there is none.
func (o *Operator) LockRedrive(ctx context.Context, tx pgx.Tx, id uuid.UUID) (*RedriveRow, error) {
	if _, err := tx.Exec(ctx, `SELECT FROM `+o.schema+`.redrives x WHERE x.id = $1::text::uuid FOR UPDATE`, id.String()); err != nil {
		return nil, err
	}
	r, err := document[RedriveRow](ctx, tx, `SELECT (`+redriveColumns+`)::text FROM `+o.schema+`.redrives x WHERE x.id = $1::text::uuid`, id.String())
	return &r, err
}

// SetRedriveState sets where a redrive is. One that is stopped or done has ended.
func (o *Operator) SetRedriveState(ctx context.Context, tx pgx.Tx, id uuid.UUID, state string) error {
	_, err := tx.Exec(ctx, `UPDATE `+o.schema+`.redrives x SET last_at = clock_timestamp(), state = $2::text,
		ended_at = CASE WHEN $2::text IN ('stopped', 'done') THEN clock_timestamp() END WHERE x.id = $1::text::uuid`, id.String(), state)
	return err
}

// ResumeRedrive sets a redrive that was stopped running again. What has ended
// until now does not count for its share of failures any more.
func (o *Operator) ResumeRedrive(ctx context.Context, tx pgx.Tx, id uuid.UUID) error {
	_, err := tx.Exec(ctx, `UPDATE `+o.schema+`.redrives x SET last_at = clock_timestamp(), state = 'running', ended_at = NULL, forgiven_failed = x.failed,
		forgiven_ended = x.completed + x.failed + x.cancelled WHERE x.id = $1::text::uuid`, id.String())
	return err
}

// SetRedriveCanary makes the canary as large as it could become: there are no more
// letters.
func (o *Operator) SetRedriveCanary(ctx context.Context, tx pgx.Tx, id uuid.UUID) error {
	_, err := tx.Exec(ctx, `UPDATE `+o.schema+`.redrives x SET canary = x.redriven WHERE x.id = $1::text::uuid`, id.String())
	return err
}

// RepeatRedrive begins the second pass of a redrive, over the letters that the first
// one has left, which count anew.
func (o *Operator) RepeatRedrive(ctx context.Context, tx pgx.Tx, id uuid.UUID) error {
	_, err := tx.Exec(ctx, `UPDATE `+o.schema+`.redrives x SET last_at = clock_timestamp(), pass = 2, after_died = DEFAULT, after_job = DEFAULT, refused = 0, skipped = 0
		WHERE x.id = $1::text::uuid`, id.String())
	return err
}

// RedriveStep is what one step of a redrive did.
type RedriveStep struct {
	Redriven []uuid.UUID
	Refused  []uuid.UUID // another job has their key
	Skipped  int         // somebody had them locked, or has removed them
	Looked   int
	More     bool // there may be more letters of its filter
}

// Redrive redrives the next letters of a filter, the oldest first: at most limit,
// of the next rows. The caller has locked the redrive.
func (o *Operator) Redrive(ctx context.Context, tx pgx.Tx, run *RedriveRow, f LetterFilter, rows, limit int) (*RedriveStep, error) {
	if f.Until.IsZero() || f.Until.After(run.StartedAt) {
		f.Until = run.StartedAt
	}
	var (
		first bool
		job   string
		died  pgtype.Timestamptz
	)
	if err := tx.QueryRow(ctx, `SELECT x.after_died = '-infinity', NULLIF(x.after_died, '-infinity'), x.after_job::text FROM `+o.schema+`.redrives x WHERE x.id = $1::text::uuid`,
		run.ID.String()).Scan(&first, &died, &job); err != nil {
		return nil, err
	}
	scan := Scan{Rows: rows, Limit: limit}
	if !first {
		id, err := uuid.Parse(job)
		if err != nil {
			return nil, err
		}
		scan.After = &Place{Source: "letters", At: died.Time, ID: id}
	}
	reading, err := o.reading(ctx, tx)
	if err != nil {
		return nil, err
	}
	found, err := reading.ScanLetters(ctx, &f, false, scan)
	if err != nil {
		return nil, err
	}
	step := &RedriveStep{Looked: found.Looked, More: found.Next != nil}
	if len(found.IDs) > 0 {
		if step.Redriven, step.Refused, err = o.RedriveLetters(ctx, tx, found.IDs, run.ID, run.Attempts); err != nil {
			return nil, err
		}
		step.Skipped = len(found.IDs) - len(step.Redriven) - len(step.Refused)
	}
	var diedAt, jobID any
	if found.Last != nil {
		diedAt, jobID = found.Last.At, found.Last.ID.String()
	}
	_, err = tx.Exec(ctx, `UPDATE `+o.schema+`.redrives x SET last_at = clock_timestamp(), after_died = COALESCE($2::timestamptz, x.after_died),
		after_job = COALESCE($3::text::uuid, x.after_job), looked = x.looked + $4::bigint, redriven = x.redriven + $5::bigint, refused = x.refused + $6::bigint,
		skipped = x.skipped + $7::bigint WHERE x.id = $1::text::uuid`,
		run.ID.String(), diedAt, jobID, found.Looked, len(step.Redriven), len(step.Refused), step.Skipped)
	return step, err
}

// RedriveLetters makes dead letters jobs again, for a redrive or, where that is
// Nil, for themselves. It returns those that are jobs now, and those that stay
// dead since another job has their key. The others somebody has just locked, or
// they are not dead.
func (o *Operator) RedriveLetters(ctx context.Context, tx pgx.Tx, ids []uuid.UUID, run uuid.UUID, attempts *int) (redriven, refused []uuid.UUID, err error) {
	texts := make([]string, len(ids))
	for i, id := range ids {
		texts[i] = id.String()
	}
	var of *string
	if run != uuid.Nil {
		text := run.String()
		of = &text
	}
	rows, err := tx.Query(ctx, `SELECT x.id::text, x.refused_for IS NOT NULL FROM `+o.schema+`.redrive($1::text[]::uuid[], $2::text::uuid, $3::smallint) x`, texts, of, attempts)
	if err != nil {
		return nil, nil, err
	}
	var (
		text string
		no   bool
	)
	_, err = pgx.ForEachRow(rows, []any{&text, &no}, func() error {
		id, err := uuid.Parse(text)
		if no {
			refused = append(refused, id)
		} else {
			redriven = append(redriven, id)
		}
		return err
	})
	return redriven, refused, err
}

// RedriveEnds counts those jobs of a redrive that have ended since the last call.
func (o *Operator) RedriveEnds(ctx context.Context, id uuid.UUID) error {
	const page = 500
	after := uuid.Nil
	for {
		var reached *string
		err := o.Change(ctx, Note{}, func(tx pgx.Tx) error {
			return tx.QueryRow(ctx, `SELECT reached::text FROM `+o.schema+`.redrive_ends($1::text::uuid, $2::text::uuid, $3::integer)`,
				id.String(), after.String(), page).Scan(&reached)
		})
		if err != nil || reached == nil {
			return err
		}
		if after, err = uuid.Parse(*reached); err != nil {
			return err
		}
	}
}

// Redrive returns a redrive; the error is pgx.ErrNoRows where there is none.
func (r *Reading) Redrive(ctx context.Context, id uuid.UUID) (*RedriveRow, error) {
	x, err := document[RedriveRow](ctx, r.tx, `SELECT (`+redriveColumns+`)::text FROM `+r.schema+`.redrives x WHERE x.id = $1::text::uuid`, id.String())
	return &x, err
}

// Redrives returns the newest redrives.
func (r *Reading) Redrives(ctx context.Context, limit int) ([]RedriveRow, error) {
	return documents[RedriveRow](ctx, r.tx, `SELECT (`+redriveColumns+`)::text FROM `+r.schema+`.redrives x ORDER BY x.started_at DESC LIMIT $1::integer`, limit)
}

// Purge removes the next dead letters of a filter that died before a time, the
// oldest first: at most limit, of the next rows after a place.
func (o *Operator) Purge(ctx context.Context, tx pgx.Tx, f *LetterFilter, scan Scan) (removed int, found *Scanned, err error) {
	reading, err := o.reading(ctx, tx)
	if err != nil {
		return 0, nil, err
	}
	if found, err = reading.ScanLetters(ctx, f, false, scan); err != nil || len(found.IDs) == 0 {
		return 0, found, err
	}
	texts := make([]string, len(found.IDs))
	for i, id := range found.IDs {
		texts[i] = id.String()
	}
	err = tx.QueryRow(ctx, `SELECT `+o.schema+`.purge_letters($1::text[]::uuid[])`, texts).Scan(&removed)
	return removed, found, err
}

// RunJobNow makes a job that waits for its time due, in the caller's transaction,
// and returns where it stands, empty where there is no trace of it.
func (o *Operator) RunJobNow(ctx context.Context, tx pgx.Tx, id uuid.UUID) (state string, err error) {
	var answer pgtype.Text
	err = tx.QueryRow(ctx, `SELECT x.state FROM `+o.schema+`.run_now($1::text::uuid) x`, id.String()).Scan(&answer)
	return answer.String, err
}

// IsNoRow says that what was asked for is not there.
func IsNoRow(err error) bool { return errors.Is(err, pgx.ErrNoRows) }
