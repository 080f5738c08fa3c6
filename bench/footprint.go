package main

import (
	"context"
	"fmt"

	"github.com/pawlgo/pawl/bench/internal/subject"
)

const (
	walInsert, walWork, walBoth = "WAL, insert", "WAL, work", "WAL, both"
	commitsInsert, commitsWork  = "commits, insert", "commits, work"
	deadMade, deadLeft          = "row versions that died", "of them left"
	perJob                      = "a job"
	walBytes                    = "B a job"
)

var footprints = []scenario{{
	name: "footprint", quick: true,
	what: "what a job costs the server: WAL, commits and dead row versions, tuned, inserted in bulk",
	run:  runFootprint,
	bars: []bar{
		{what: "pawl to river, WAL of insert and work", of: value{"pawl", walBoth}, per: value{"river", walBoth}, atMost: 0.25},
	},
}}

func runFootprint(ctx context.Context, b *bench) error {
	jobs := pick(b, 100_000, 20_000, 200)
	return b.compare(ctx, []variant{pawlTuned, riverTuned, floor}, "", nil, func(ctx context.Context, t *trial) error {
		start, err := t.books(ctx)
		if err != nil {
			return err
		}
		if err := t.fill(ctx, subject.Batch{Kind: subject.Work, Count: jobs, Silent: true}); err != nil {
			return err
		}
		filled, err := t.books(ctx)
		if err != nil {
			return err
		}
		if _, err := t.drain(ctx, jobs, 0); err != nil {
			return err
		}
		end, err := t.books(ctx)
		if err != nil {
			return err
		}
		n := float64(jobs)
		t.record(walInsert, (filled.wal-start.wal)/n, walBytes)
		t.record(walWork, (end.wal-filled.wal)/n, walBytes)
		t.record(walBoth, (end.wal-start.wal)/n, walBytes)
		t.record(commitsInsert, (filled.commits-start.commits)/n, perJob)
		t.record(commitsWork, (end.commits-filled.commits)/n, perJob)
		t.record(deadMade, (end.died-start.died)/n, perJob)
		t.record(deadLeft, end.dead/n, perJob)
		return nil
	})
}

// books are counters of the server, which only grow, and the dead row versions
// that there are.
type books struct{ wal, commits, died, dead float64 }

// books reads them. The statistics of a connection are complete when it has
// ended, so it ends all of the trial's, and opens the client again.
func (t *trial) books(ctx context.Context) (k books, err error) {
	t.client.Close()
	if err := t.db.quiet(ctx); err != nil {
		return k, err
	}
	if k.wal, err = ask[float64](ctx, t.b, `SELECT (pg_current_wal_lsn() - '0/0'::pg_lsn)::float8`); err != nil {
		return k, err
	}
	if k.commits, err = ask[float64](ctx, t.b, `SELECT xact_commit::float8 FROM pg_stat_database WHERE datname = $1`, t.db.name); err != nil {
		return k, err
	}
	if err := t.db.connect(ctx); err != nil {
		return k, err
	}
	err = t.db.pool.QueryRow(ctx, `SELECT COALESCE(sum(n_tup_upd + n_tup_del), 0)::float8, COALESCE(sum(n_dead_tup), 0)::float8 FROM pg_stat_user_tables`).
		Scan(&k.died, &k.dead)
	if err != nil {
		return k, fmt.Errorf("read the statistics of the tables: %w", err)
	}
	t.client, err = t.subject.Open(ctx, t.db.pool)
	return k, err
}
