package store

import (
	"context"
	"fmt"

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

// look is a query for the ids of one kind of violation.
type look struct {
	into *Violation
	ids  string
}

// looks are the queries for violations. Since is the first day whose jobs and
// outcomes are read through.
func (s *Store) looks(v *Invariants, since int) []look {
	return []look{
		{&v.Lost, fmt.Sprintf(`SELECT j.id FROM %[1]s.jobs j WHERE j.day >= %[2]d
			AND NOT EXISTS (SELECT FROM %[1]s.outcomes o WHERE o.job_id = j.id AND o.day >= %[2]d)
			AND NOT EXISTS (SELECT FROM %[1]s.unfinished u WHERE u.id = j.id)
			AND NOT EXISTS (SELECT FROM %[1]s.quarantine q WHERE q.job_id = j.id)`, s.schema, since)},
		{&v.Doubled, fmt.Sprintf(`SELECT x.id FROM (
				SELECT u.id FROM %[1]s.unfinished u
				UNION ALL
				SELECT o.job_id FROM %[1]s.outcomes o WHERE o.day >= %[2]d
			) x GROUP BY x.id HAVING count(*) > 1
			UNION
			SELECT u.id FROM %[1]s.unfinished u JOIN %[1]s.jobs j ON j.id = u.id AND j.day <> u.day AND j.day >= %[2]d`, s.schema, since)},
		{&v.Homeless, fmt.Sprintf(`SELECT u.id FROM %[1]s.unfinished u
			WHERE NOT EXISTS (SELECT FROM %[1]s.jobs j WHERE j.id = u.id AND j.day = u.day)
			AND NOT EXISTS (SELECT FROM %[1]s.quarantine q WHERE q.job_id = u.id)`, s.schema)},
		{&v.Headless, fmt.Sprintf(`SELECT o.job_id FROM %[1]s.ordered o WHERE o.head
			AND NOT EXISTS (SELECT FROM %[1]s.unfinished u WHERE u.id = o.job_id AND u.place <> 'blocked')`, s.schema)},
		{&v.OutOfTurn, fmt.Sprintf(`SELECT u.id FROM %[1]s.unfinished u JOIN %[1]s.jobs j ON j.day = u.day AND j.id = u.id
			WHERE u.place <> 'blocked' AND j.order_key IS NOT NULL
			AND NOT EXISTS (SELECT FROM %[1]s.ordered o WHERE o.job_id = u.id AND o.head)`, s.schema)},
		{&v.Stuck, fmt.Sprintf(`SELECT o.job_id FROM %[1]s.ordered o
			WHERE NOT EXISTS (SELECT FROM %[1]s.ordered h WHERE h.order_key = o.order_key AND h.head)
			AND NOT EXISTS (SELECT FROM %[1]s.order_turns t WHERE t.order_key = o.order_key)`, s.schema)},
	}
}

// Invariants holds the unfinished jobs, and the jobs and outcomes of the last
// days, today's being one, against one another; days below one takes all of
// them. It reads in one snapshot, locks nothing that live traffic wants, and
// names at most so many ids of each violation.
func (s *Store) Invariants(ctx context.Context, days, most int) (v Invariants, err error) {
	err = s.inSnapshot(ctx, s.schema+`.jobs, `+s.schema+`.outcomes`, func(tx pgx.Tx) error {
		first := 0
		if err := tx.QueryRow(ctx, `SELECT `+s.schema+`.day_of(clock_timestamp()) - $1::integer + 1,
			count(*) FILTER (WHERE u.place = 'ready'), count(*) FILTER (WHERE u.place = 'leased'), count(*) FILTER (WHERE u.place = 'blocked'),
			(SELECT count(*) FROM `+s.schema+`.quarantine)
			FROM `+s.schema+`.unfinished u`, days).Scan(&first, &v.Ready, &v.Leased, &v.Blocked, &v.Quarantined); err != nil {
			return err
		}
		if days < 1 {
			first = 0
		}
		for _, l := range s.looks(&v, first) {
			if err := l.find(ctx, tx, most); err != nil {
				return err
			}
		}
		return nil
	})
	return v, err
}

// find counts what a look finds, and names at most so many.
func (l look) find(ctx context.Context, tx pgx.Tx, most int) error {
	return tx.QueryRow(ctx, `WITH found (id) AS MATERIALIZED (`+l.ids+`)
		SELECT (SELECT count(*) FROM found), ARRAY(SELECT f.id FROM found f LIMIT $1)`, most).Scan(&l.into.Jobs, &l.into.IDs)
}

// inSnapshot runs do in a transaction that only reads, with one view of everything.
// Days of the tables are not emptied meanwhile.
func (s *Store) inSnapshot(ctx context.Context, tables string, do func(pgx.Tx) error) error {
	return pgx.BeginTxFunc(ctx, s.pool, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		// Before the snapshot is taken.
		if _, err := tx.Exec(ctx, `LOCK TABLE `+tables+` IN ACCESS SHARE MODE`); err != nil {
			return err
		}
		// One core is enough, and hashes of a million ids should fit.
		if _, err := tx.Exec(ctx, `SELECT set_config('jit', 'off', true), set_config('max_parallel_workers_per_gather', '0', true),
			set_config('work_mem', '64MB', true)`); err != nil {
			return err
		}
		return do(tx)
	})
}
