package taskimpl_test

import (
	"database/sql"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"

	"github.com/pawlgo/pawl/internal/testdb"
	"github.com/pawlgo/pawl/migrations"
	"github.com/pawlgo/pawl/task"
	"github.com/pawlgo/pawl/task/taskimpl"
)

var levels = []pgx.TxIsoLevel{pgx.ReadCommitted, pgx.RepeatableRead, pgx.Serializable}

func TestRollbackLeavesNothing(t *testing.T) {
	t.Parallel()
	pool := migrated(t)
	for _, level := range levels {
		tx := begin(t, pool, level)
		enqueue(t, tx, kind[args](), args{})
		enqueue(t, tx, keyed(), args{}, task.NoWake())
		require.Equal(t, 2, count(t, tx, "ready"))
		require.NoError(t, tx.Rollback(t.Context()))
		for _, table := range []string{"jobs", "ready", "idempotency_keys"} {
			require.Zero(t, count(t, pool, table))
		}
	}
}

func TestSavepointRollbackTakesOnlyItsOwnJobs(t *testing.T) {
	t.Parallel()
	pool := testdb.Migrated(t)
	for _, level := range levels {
		tx := begin(t, pool, level)
		before := enqueue(t, tx, keyed(), args{N: 1})
		inner, err := tx.Begin(t.Context())
		require.NoError(t, err)
		enqueue(t, inner, keyed(), args{N: 2})
		enqueue(t, inner, kind[args](), args{N: 3})
		require.True(t, enqueue(t, inner, keyed(), args{N: 1}).Duplicate)
		require.NoError(t, inner.Rollback(t.Context()))
		again := enqueue(t, tx, keyed(), args{N: 2})
		require.False(t, again.Duplicate, "the key went with the savepoint")
		commit(t, tx)

		rows, err := pool.Query(t.Context(), `SELECT j.id FROM pawl.jobs j JOIN pawl.ready r ON r.id = j.id ORDER BY j.id`)
		require.NoError(t, err)
		ids, err := pgx.CollectRows(rows, pgx.RowTo[[16]byte])
		require.NoError(t, err)
		require.Equal(t, [][16]byte{before.ID, again.ID}, ids)
		_, err = pool.Exec(t.Context(), `TRUNCATE pawl.jobs, pawl.ready, pawl.idempotency_keys`)
		require.NoError(t, err)
	}
}

func TestReceiptsAreInOrder(t *testing.T) {
	t.Parallel()
	pool := migrated(t)
	tx := begin(t, pool, pgx.ReadCommitted)
	held := enqueue(t, tx, keyed(), args{N: 2})
	receipts, err := taskimpl.EnqueueMany(t.Context(), tx, keyed(), []args{{N: 3}, {N: 2}, {N: 1}, {N: 3}}, nil)
	require.NoError(t, err)
	commit(t, tx)
	require.Len(t, receipts, 4)
	require.Equal(t, task.Receipt{ID: held.ID, Duplicate: true, SameArgs: true, State: task.StatePending}, receipts[1])
	require.Equal(t, task.Receipt{ID: receipts[0].ID, Duplicate: true, SameArgs: true, State: task.StatePending}, receipts[3])
	for i, n := range map[int]int{0: 3, 2: 1} {
		require.False(t, receipts[i].Duplicate)
		var got int
		require.NoError(t, pool.QueryRow(t.Context(), `SELECT (args->>'n')::int FROM pawl.jobs WHERE id = $1`, receipts[i].ID).Scan(&got))
		require.Equal(t, n, got)
	}
	require.Equal(t, 3, count(t, pool, "jobs"))
	require.Equal(t, 3, count(t, pool, "ready"))

	none, err := taskimpl.EnqueueMany(t.Context(), tx, keyed(), nil, nil)
	require.NoError(t, err, "no jobs need no transaction")
	require.Empty(t, none)
}

// Every way in which a driver can speak to the server, a transaction pooler
// between them included.
func TestExecModes(t *testing.T) {
	t.Parallel()
	for _, mode := range []pgx.QueryExecMode{
		pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec, pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol,
	} {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			pool := migrated(t, testdb.Configure(func(c *pgxpool.Config) { c.ConnConfig.DefaultQueryExecMode = mode }))
			tx := begin(t, pool, pgx.ReadCommitted)
			receipts, err := taskimpl.EnqueueMany(t.Context(), tx, keyed(), []args{{N: 1}, {N: 2}, {N: 1}}, nil)
			require.NoError(t, err)
			require.True(t, receipts[2].Duplicate)
			enqueue(t, tx, kind[args](), args{N: 3, Organization: `\it's "quoted", {x}`})
			commit(t, tx)
			require.Equal(t, 3, count(t, pool, "jobs"))
		})
	}
}

func TestDatabaseSQL(t *testing.T) {
	t.Parallel()
	pool := migrated(t)
	db := stdlib.OpenDBFromPool(pool)
	defer db.Close()
	start := func(options *sql.TxOptions) *sql.Tx {
		tx, err := db.BeginTx(t.Context(), options)
		require.NoError(t, err)
		return tx
	}

	tx := start(nil)
	enqueue(t, task.SQL(tx), keyed(), args{N: 1})
	require.NoError(t, tx.Rollback())
	require.Zero(t, count(t, pool, "jobs"))

	tx = start(&sql.TxOptions{Isolation: sql.LevelSerializable})
	receipts, err := taskimpl.EnqueueMany(t.Context(), task.SQL(tx), keyed(), []args{{N: 1, Organization: "o"}, {N: 2}, {N: 2}}, nil)
	require.NoError(t, err)
	require.True(t, receipts[2].Duplicate)
	require.Equal(t, receipts[1].ID, receipts[2].ID)
	require.ErrorIs(t, task.SQL(tx).Commit(t.Context()), task.ErrTxOwned)
	require.NoError(t, tx.Commit())

	tx = start(nil)
	r := enqueue(t, task.SQL(tx), keyed(), args{N: 1, Organization: "o"})
	require.Equal(t, task.Receipt{ID: receipts[0].ID, Duplicate: true, SameArgs: true, State: task.StatePending}, r)
	_, err = taskimpl.Enqueue(t.Context(), task.SQL(tx), kind[holder](), holder{V: "\x00"}, nil)
	require.ErrorIs(t, err, task.ErrInvalidArgs)
	enqueue(t, task.SQL(tx), kind[args](), args{N: 5})
	require.NoError(t, tx.Commit())
	require.Equal(t, 3, count(t, pool, "jobs"))

	empty := stdlib.OpenDBFromPool(testdb.New(t))
	defer empty.Close()
	tx, err = empty.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	_, err = taskimpl.Enqueue(t.Context(), task.SQL(tx), keyed(), args{}, nil)
	require.ErrorIs(t, err, task.ErrNotMigrated)
	require.NoError(t, tx.Rollback())
}

func TestAutocommit(t *testing.T) {
	t.Parallel()
	pool := migrated(t)
	tx := task.Autocommit(pool)
	first := enqueue(t, tx, keyed(), args{N: 1})
	require.Equal(t, 1, count(t, pool, "ready"))
	require.Equal(t, first.ID, enqueue(t, tx, keyed(), args{N: 1}).ID)
	require.ErrorIs(t, tx.Commit(t.Context()), task.ErrTxOwned)
	require.Equal(t, 1, count(t, pool, "ready"))
}

func TestInSchema(t *testing.T) {
	t.Parallel()
	pool := testdb.New(t, testdb.Configure(func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams["search_path"] = "" }))
	require.NoError(t, migrations.Up(t.Context(), pool, migrations.Options{Schema: "App Jobs"}))
	enqueue(t, task.InSchema(task.Autocommit(pool), "App Jobs"), keyed(), args{N: 1})
	tx := begin(t, pool, pgx.ReadCommitted)
	require.True(t, enqueue(t, task.InSchema(tx, "App Jobs"), keyed(), args{N: 1}).Duplicate)
	commit(t, tx)
	var jobs, public int
	require.NoError(t, pool.QueryRow(t.Context(), `SELECT (SELECT count(*) FROM "App Jobs".jobs),
		(SELECT count(*) FROM pg_catalog.pg_class WHERE relnamespace = 'public'::regnamespace)`).Scan(&jobs, &public))
	require.Equal(t, 1, jobs)
	require.Zero(t, public)

	_, err := taskimpl.Enqueue(t.Context(), task.Autocommit(pool), keyed(), args{}, nil)
	require.ErrorIs(t, err, task.ErrNotMigrated)
	require.ErrorContains(t, err, "enqueue k: ")
	_, err = taskimpl.Enqueue(t.Context(), task.InSchema(task.Autocommit(pool), `no "such`), keyed(), args{}, nil)
	require.ErrorIs(t, err, task.ErrNotMigrated)
}

// A week without a worker leaves no partition for the day: the enqueue makes
// it, also when several do at once.
func TestEnqueueMakesTheDay(t *testing.T) {
	t.Parallel()
	for _, level := range levels {
		t.Run(string(level), func(t *testing.T) {
			t.Parallel()
			pool := testdb.Migrated(t)
			_, err := pool.Exec(t.Context(), `DO $$ DECLARE leaf regclass; BEGIN
				FOR leaf IN SELECT inhrelid::regclass FROM pg_inherits WHERE inhparent IN ('pawl.jobs'::regclass, 'pawl.outcomes'::regclass) LOOP
					EXECUTE format('DROP TABLE %s', leaf);
				END LOOP; END $$`)
			require.NoError(t, err)

			first, second := begin(t, pool, level), begin(t, pool, level)
			for _, tx := range []pgx.Tx{first, second} { // both have their snapshot
				_, err = tx.Exec(t.Context(), `SELECT 1`)
				require.NoError(t, err)
			}
			enqueue(t, first, keyed(), args{N: 1})
			var wg sync.WaitGroup
			wg.Go(func() {
				_, err := taskimpl.Enqueue(t.Context(), second, keyed(), args{N: 2}, nil)
				if err == nil {
					err = second.Commit(t.Context())
				}
				if err != nil {
					t.Errorf("the second enqueue: %v", err)
				}
			})
			waiting(t, pool, 1)
			commit(t, first)
			wg.Wait()
			require.Equal(t, 2, count(t, pool, "jobs"))
			require.Equal(t, 2, count(t, pool, "ready"))
			var leaves int
			require.NoError(t, pool.QueryRow(t.Context(), `SELECT count(*) FROM pg_inherits WHERE inhparent = 'pawl.jobs'::regclass`).Scan(&leaves))
			require.Equal(t, 1, leaves)
		})
	}
}

// The one that makes the day and then rolls back leaves it to the next.
func TestTheMakerOfTheDayRollsBack(t *testing.T) {
	t.Parallel()
	pool := testdb.Migrated(t)
	_, err := pool.Exec(t.Context(), `DO $$ DECLARE leaf regclass; BEGIN
		FOR leaf IN SELECT inhrelid::regclass FROM pg_inherits WHERE inhparent IN ('pawl.jobs'::regclass, 'pawl.outcomes'::regclass) LOOP
			EXECUTE format('DROP TABLE %s', leaf);
		END LOOP; END $$`)
	require.NoError(t, err)
	first := begin(t, pool, pgx.ReadCommitted)
	enqueue(t, first, kind[args](), args{N: 1})
	done := make(chan error, 1)
	go func() {
		_, err := taskimpl.Enqueue(t.Context(), task.Autocommit(pool), kind[args](), args{N: 2}, nil)
		done <- err
	}()
	waiting(t, pool, 1)
	require.NoError(t, first.Rollback(t.Context()))
	require.NoError(t, <-done)
	require.Equal(t, 1, count(t, pool, "jobs"))
}
