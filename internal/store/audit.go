package store

import (
	"context"
	"fmt"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// Audit is what the books say: where the jobs are that still have their
// history, and what cannot be.
type Audit struct {
	Ready, Leased, Blocked, Completed, Dead, Cancelled int

	Lost        int // in no place at all
	Doubled     int // in more than one place
	Homeless    int // waiting or leased, without a row of their own
	Quarantined int
}

// Audit counts. It reads every row, so it is for tests and for tools, not for
// a metric.
func (s *Store) Audit(ctx context.Context) (Audit, error) {
	var a Audit
	err := s.callRow(ctx, `
		WITH place AS (
			SELECT u.id, u.place FROM `+s.schema+`.unfinished u
			UNION ALL
			SELECT o.job_id, CASE o.outcome WHEN 1 THEN 'completed' WHEN 3 THEN 'dead' ELSE 'cancelled' END FROM `+s.schema+`.outcomes o
		), placed AS (
			SELECT p.id, count(*) AS n, min(p.place) AS place FROM place p GROUP BY p.id
		)
		SELECT count(*) FILTER (WHERE place = 'ready'), count(*) FILTER (WHERE place = 'leased'), count(*) FILTER (WHERE place = 'blocked'),
			count(*) FILTER (WHERE place = 'completed'), count(*) FILTER (WHERE place = 'dead'), count(*) FILTER (WHERE place = 'cancelled'),
			count(*) FILTER (WHERE p.id IS NULL), count(*) FILTER (WHERE n > 1),
			count(*) FILTER (WHERE j.id IS NULL AND place IN ('ready', 'leased', 'blocked')),
			(SELECT count(*) FROM `+s.schema+`.quarantine)
		FROM `+s.schema+`.jobs j FULL JOIN placed p ON p.id = j.id
		WHERE NOT EXISTS (SELECT FROM `+s.schema+`.quarantine q WHERE q.job_id = COALESCE(j.id, p.id))`,
		nil, &a.Ready, &a.Leased, &a.Blocked, &a.Completed, &a.Dead, &a.Cancelled, &a.Lost, &a.Doubled, &a.Homeless, &a.Quarantined)
	return a, err
}

// Violation is jobs, or events, of which something is true that cannot be.
type Violation struct {
	Jobs int         // or events
	IDs  []uuid.UUID // the first few
}

// Invariants is the answer of [Store.Invariants]. What has been set aside in
// quarantine is counted there alone.
type Invariants struct {
	Ready, Leased, Blocked, Quarantined int

	Lost      Violation // in no place, neither finished nor unfinished
	Doubled   Violation // in two places, or with two rows
	Homeless  Violation // unfinished, without a row
	Headless  Violation // first of their order key, and neither waiting nor leased
	OutOfTurn Violation // waiting or leased, although the head of their order key is another
	Stuck     Violation // of order keys that nobody would give a turn
}

// Invariants holds the unfinished jobs, and the jobs and outcomes of the last
// days, today's being one, against one another; days below one takes all of
// them. It reads in one snapshot, locks nothing that live traffic wants, and
// names at most so many ids of each violation.
func (s *Store) Invariants(ctx context.Context, days, most int) (v Invariants, err error) {
	err = s.books(ctx, "job_books", days, most, map[string]any{
		"ready": &v.Ready, "leased": &v.Leased, "blocked": &v.Blocked, "quarantined": &v.Quarantined,
		"lost": &v.Lost, "doubled": &v.Doubled, "homeless": &v.Homeless, "headless": &v.Headless, "out of turn": &v.OutOfTurn, "stuck": &v.Stuck,
	})
	return v, err
}

// books reads what a function of the schema found into the ints and violations of
// their names. What it does not name stays zero.
func (s *Store) books(ctx context.Context, function string, days, most int, into map[string]any) error {
	// READ COMMITTED, since the function locks first and has its snapshot after that.
	options := pgx.TxOptions{IsoLevel: pgx.ReadCommitted, AccessMode: pgx.ReadOnly}
	return pgx.BeginTxFunc(ctx, s.pool, options, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, `SELECT b.what, b.found, b.ids FROM `+s.schema+`.`+function+`($1::integer, $2::integer) b`, days, most)
		if err != nil {
			return err
		}
		var (
			what  string
			found Violation
		)
		_, err = pgx.ForEachRow(rows, []any{&what, &found.Jobs, &found.IDs}, func() error {
			switch x := into[what].(type) {
			case *int:
				*x = found.Jobs
			case *Violation:
				*x = Violation{Jobs: found.Jobs, IDs: slices.Clone(found.IDs)}
			default:
				return fmt.Errorf("%s answers %q, which nobody has asked for", function, what)
			}
			return nil
		})
		return err
	})
}
