package store

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// operatorIdle bounds how long an operator's process that is stopped in the
// middle of a change holds its locks.
const operatorIdle = 10 * time.Second

// Operator runs what people ask for, on a pool of theirs. It is safe for
// concurrent use.
type Operator struct {
	pool   *pgxpool.Pool
	name   string
	schema string // quoted
	known  string // a JSON array of redactions
}

// NewOperator makes an operator of a schema, who knows of redactions besides those
// that workers have registered. It does not connect.
func NewOperator(pool *pgxpool.Pool, schema string, known []Redaction) *Operator {
	text, err := json.Marshal(known)
	if err != nil {
		panic(err) // paths that generated code has
	}
	return &Operator{pool: pool, name: schema, schema: quote(schema), known: string(text)}
}

// Reading is a transaction of questions, in one snapshot, that changes nothing.
type Reading struct {
	tx     pgx.Tx
	schema string // quoted
	known  string // redactions, as an operator has them
}

// Read runs do in a snapshot. What it asks is answered from indexes: the tables
// are large, and whoever asks reads a page of them.
func (o *Operator) Read(ctx context.Context, do func(*Reading) error) error {
	options := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	return explain(pgx.BeginTxFunc(ctx, o.pool, options, func(tx pgx.Tx) error {
		r, err := o.reading(ctx, tx)
		if err != nil {
			return err
		}
		return do(r)
	}))
}

// reading is for questions in a transaction. From here on the planner has nothing
// but walks along indexes, whatever it takes the tables for.
func (o *Operator) reading(ctx context.Context, tx pgx.Tx) (*Reading, error) {
	return &Reading{tx: tx, schema: o.schema, known: o.known}, settings(ctx, tx, "jit", "off", "max_parallel_workers_per_gather", "0",
		"enable_seqscan", "off", "enable_hashjoin", "off", "enable_mergejoin", "off", "enable_bitmapscan", "off")
}

// Note is what the audit cannot know by itself of a change.
type Note struct {
	ID     uuid.UUID       `json:"id"` // of the row; more than one transaction may add to it
	By     string          `json:"by"`
	Reason string          `json:"reason"`
	Filter json.RawMessage `json:"filter,omitempty"` // of a purge
}

// Change runs do in a transaction of its own, at READ COMMITTED. The functions that
// change something leave a row in the audit there, which says what the note does.
func (o *Operator) Change(ctx context.Context, note Note, do func(pgx.Tx) error) error {
	text, err := json.Marshal(note)
	if err != nil {
		return fmt.Errorf("write a note for the audit: %w", err)
	}
	options := pgx.TxOptions{IsoLevel: pgx.ReadCommitted, AccessMode: pgx.ReadWrite}
	return explain(pgx.BeginTxFunc(ctx, o.pool, options, func(tx pgx.Tx) error {
		if err := settings(ctx, tx, "idle_in_transaction_session_timeout", milliseconds(operatorIdle), "pawl.audit", string(text)); err != nil {
			return err
		}
		return do(tx)
	}))
}

// settings sets names to values until the end of the transaction.
func settings(ctx context.Context, tx pgx.Tx, pairs ...string) error {
	_, err := tx.Exec(ctx, `SELECT set_config(p ->> 0, p ->> 1, true) FROM jsonb_array_elements($1::text::jsonb) p`, pairsOf(pairs))
	return err
}

func pairsOf(flat []string) string {
	var pairs [][2]string
	for i := 0; i+1 < len(flat); i += 2 {
		pairs = append(pairs, [2]string{flat[i], flat[i+1]})
	}
	text, err := json.Marshal(pairs)
	if err != nil {
		panic(err) // strings
	}
	return string(text)
}

// AuditRow is one change that somebody asked for.
type AuditRow struct {
	ID      uuid.UUID       `json:"id"`
	BeganAt time.Time       `json:"began_at"`
	LastAt  time.Time       `json:"last_at"`
	By      string          `json:"made_by"`
	Role    string          `json:"role"` // of the database
	Verb    string          `json:"verb"`
	Target  json.RawMessage `json:"target"`
	Things  int64           `json:"things"`
	Reason  string          `json:"reason"`
}

// Audits returns the newest rows before one, which is the zero time for all.
func (r *Reading) Audits(ctx context.Context, before time.Time, id uuid.UUID, limit int) ([]AuditRow, error) {
	return documents[AuditRow](ctx, r.tx, `SELECT to_jsonb(a)::text FROM `+r.schema+`.audit a
		WHERE $1::timestamptz IS NULL OR (a.began_at, a.id) < ($1::timestamptz, $2::text::uuid)
		ORDER BY a.began_at DESC, a.id DESC LIMIT $3::integer`, moment(before), id.String(), limit)
}

// moment is a time, and NULL for none.
func moment(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// documents returns rows that the database writes as JSON objects.
func documents[T any](ctx context.Context, tx pgx.Tx, sql string, args ...any) ([]T, error) {
	rows, err := tx.Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (x T, err error) {
		var text []byte
		if err := row.Scan(&text); err != nil {
			return x, err
		}
		if err := json.Unmarshal(text, &x); err != nil {
			return x, fmt.Errorf("read the answer: %w", err)
		}
		return x, nil
	})
}

// document is [documents] for exactly one row.
func document[T any](ctx context.Context, tx pgx.Tx, sql string, args ...any) (x T, err error) {
	all, err := documents[T](ctx, tx, sql, args...)
	if err != nil {
		return x, err
	}
	if len(all) != 1 {
		return x, fmt.Errorf("the database answered %d rows instead of one: %w", len(all), pgx.ErrNoRows)
	}
	return all[0], nil
}

// estimate is how many rows the planner expects of a query.
func (r *Reading) estimate(ctx context.Context, query string, args ...any) (int64, error) {
	var text []byte
	if err := r.tx.QueryRow(ctx, `EXPLAIN (FORMAT JSON) `+query, args...).Scan(&text); err != nil {
		return 0, err
	}
	var plans []struct {
		Plan struct {
			Rows float64 `json:"Plan Rows"`
		} `json:"Plan"`
	}
	if err := json.Unmarshal(text, &plans); err != nil || len(plans) == 0 {
		return 0, fmt.Errorf("read a plan: %w", err)
	}
	return int64(plans[0].Plan.Rows), nil
}

// Count is a number of rows. Beyond the bound of its count it is what the
// planner's statistics say, and at least the bound.
type Count struct {
	N        int64
	Estimate bool
}

// count counts the rows of a query up to a bound.
func (r *Reading) count(ctx context.Context, bound int, query string, args ...any) (c Count, err error) {
	if err := r.tx.QueryRow(ctx, fmt.Sprintf(`SELECT count(*) FROM (%s LIMIT %d) x`, query, bound+1), args...).Scan(&c.N); err != nil {
		return c, err
	}
	if c.N > int64(bound) {
		n, err := r.estimate(ctx, query, args...)
		if err != nil {
			return c, err
		}
		c = Count{N: max(n, int64(bound)), Estimate: true}
	}
	return c, nil
}

// CountBound is up to where things are counted one by one.
const CountBound = 10_000

// Now is the database's time.
func (r *Reading) Now(ctx context.Context) (now time.Time, err error) {
	err = r.tx.QueryRow(ctx, `SELECT clock_timestamp()`).Scan(&now)
	return now, err
}
