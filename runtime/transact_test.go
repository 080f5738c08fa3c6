package runtime_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/pawlgo/pawl/internal/store"
	"github.com/pawlgo/pawl/internal/testdb"
	pawlrt "github.com/pawlgo/pawl/runtime"
	"github.com/pawlgo/pawl/task"
	"github.com/pawlgo/pawl/task/taskimpl"
)

type txHandler = func(context.Context, pgx.Tx, *task.Job[args]) error

func txTable(k *taskimpl.Kind[args], h txHandler) task.Table {
	return taskimpl.Table(taskimpl.TxRow(k, h))
}

func isolated(level pgx.TxIsoLevel) func(*taskimpl.Kind[args]) {
	return func(k *taskimpl.Kind[args]) { k.Isolation = level }
}

// levels are the isolation levels that a declaration can name; the first is the
// default.
var levels = []pgx.TxIsoLevel{"", pgx.RepeatableRead, pgx.Serializable}

// effects makes the table that transactional handlers of these tests write to.
func effects(t *testing.T) *pgxpool.Pool {
	t.Helper()
	pool := testdb.Migrated(t, testdb.MaxConns(20))
	exec(t, pool, `CREATE TABLE effects (n int NOT NULL, attempt int NOT NULL, at timestamptz NOT NULL DEFAULT clock_timestamp())`)
	return pool
}

func effect(ctx context.Context, tx pgx.Tx, job *task.Job[args]) error {
	_, err := tx.Exec(ctx, `INSERT INTO effects (n, attempt) VALUES ($1, $2)`, job.Args.N, job.Attempt)
	return err
}

// The handler's writes, what it enqueues and the end of its job are one
// transaction, at the declared isolation.
func TestTransaction(t *testing.T) {
	t.Parallel()
	for _, level := range levels {
		t.Run(string(level), func(t *testing.T) {
			t.Parallel()
			pool := effects(t)
			k, next := kind("k", "q", isolated(level)), kind("next", "later")
			w := start(t, pool, pawlrt.Config{Tables: []task.Table{txTable(k, func(ctx context.Context, tx pgx.Tx, job *task.Job[args]) error {
				want := level
				if want == "" {
					want = pgx.ReadCommitted
				}
				var is string
				if err := tx.QueryRow(ctx, `SHOW transaction_isolation`).Scan(&is); err != nil || is != string(want) {
					return task.Permanent(fmt.Errorf("isolation is %s, %v", is, err))
				}
				savepoint, err := tx.Begin(ctx)
				if err != nil {
					return err
				}
				if _, err := taskimpl.Enqueue(ctx, savepoint, next, args{N: -1}, nil); err != nil {
					return err
				}
				if err := savepoint.Rollback(ctx); err != nil {
					return err
				}
				if savepoint, err = tx.Begin(ctx); err != nil {
					return err
				}
				if _, err := taskimpl.Enqueue(ctx, savepoint, next, job.Args, nil); err != nil {
					return err
				}
				if err := savepoint.Commit(ctx); err != nil {
					return err
				}
				return effect(ctx, tx, job)
			})}})
			put(t, pool, k, numbered(30, "")...)
			testdb.Eventually(t, slow, "the jobs to end", func() bool { return w.Stats().Completed == 30 })
			require.Equal(t, store.Audit{Completed: 30, Ready: 30}, audit(t, pool))
			require.Equal(t, 30, query[int](t, pool, `SELECT count(DISTINCT n) FROM effects`))
			// One transaction each: what is visible of one is visible of all.
			require.Equal(t, 30, query[int](t, pool, `SELECT count(*) FROM effects e
				JOIN pawl.jobs j ON j.kind = 'k' AND (j.args->>'n')::int = e.n
				JOIN pawl.outcomes o ON o.job_id = j.id AND o.xmin = e.xmin`))
			require.Equal(t, 30, query[int](t, pool, `SELECT count(*) FROM pawl.jobs WHERE kind = 'next' AND (args->>'n')::int >= 0`))
			require.Zero(t, w.Stats().Refused)
		})
	}
}

// However a handler fails, nothing of it is stored.
func TestTransactionRolledBack(t *testing.T) {
	t.Parallel()
	pool := effects(t)
	exec(t, pool, `ALTER TABLE effects ADD CONSTRAINT late UNIQUE (n) DEFERRABLE INITIALLY DEFERRED`)
	exec(t, pool, `INSERT INTO effects VALUES (7, 0)`)
	fails := []func(context.Context, pgx.Tx) error{
		func(context.Context, pgx.Tx) error { return errors.New("no") },
		func(context.Context, pgx.Tx) error { panic("no") },
		func(context.Context, pgx.Tx) error { runtime.Goexit(); return nil },
		func(ctx context.Context, tx pgx.Tx) error { // swallows an error of SQL
			_, _ = tx.Exec(ctx, `SELECT 1/0`)
			return nil
		},
		func(context.Context, pgx.Tx) error { return task.Snooze(time.Millisecond) },
		func(ctx context.Context, tx pgx.Tx) error { // ends what is not its own
			_, err := tx.Exec(ctx, `ROLLBACK`)
			return err
		},
		func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, `ROLLBACK; BEGIN; INSERT INTO effects (n, attempt) VALUES (-1, -1)`)
			return err
		},
		func(context.Context, pgx.Tx) error { return nil }, // fails as it commits
		func(_ context.Context, tx pgx.Tx) error { // takes the connection away
			return tx.Conn().PgConn().Conn().Close()
		},
		func(ctx context.Context, tx pgx.Tx) error { // leaves a result unread
			_, err := tx.Query(ctx, `SELECT generate_series(1, 100000)`)
			return err
		},
	}
	k := kind("k", "q", isolated(pgx.Serializable), func(k *taskimpl.Kind[args]) { k.Policy.Attempts, k.Policy.Unknown = 2, 2 })
	var owned atomic.Int64
	start(t, pool, pawlrt.Config{Tables: []task.Table{txTable(k, func(ctx context.Context, tx pgx.Tx, job *task.Job[args]) error {
		if err := effect(ctx, tx, job); err != nil {
			return err
		}
		if errors.Is(tx.Commit(ctx), task.ErrTxOwned) && errors.Is(tx.Rollback(ctx), task.ErrTxOwned) {
			owned.Add(1)
		}
		return fails[job.Args.N](ctx, tx)
	})}})
	put(t, pool, k, numbered(len(fails), "")...)
	testdb.Eventually(t, 2*slow, "the jobs to end", func() bool {
		a := audit(t, pool)
		return a.Dead+a.Completed == len(fails)-1 // all but the one that snoozes
	})
	require.Equal(t, 1, query[int](t, pool, `SELECT count(*) FROM effects`), "the row that was there before")
	require.Zero(t, audit(t, pool).Completed)
	require.Positive(t, owned.Load())
	require.Equal(t, 2, query[int](t, pool, `SELECT count(*) FROM pawl.dead_letters WHERE summary LIKE '%not yours to end%' AND attempts = 1`),
		"what may have committed is not tried again")
	require.Equal(t, 1, query[int](t, pool, `SELECT count(*) FROM pawl.dead_letters WHERE summary LIKE '%a statement of it has failed%'`))
	require.Equal(t, 1, query[int](t, pool, `SELECT count(*) FROM pawl.dead_letters WHERE summary LIKE '%are still open%'`))
}

// What outlives a handler finds its transaction closed, and never another's.
func TestTransactionUsedLate(t *testing.T) {
	t.Parallel()
	pool := effects(t)
	k := kind("k", "q")
	var (
		kept     pgx.Tx
		keptSave pgx.Tx
	)
	w := start(t, pool, pawlrt.Config{Tables: []task.Table{txTable(k, func(ctx context.Context, tx pgx.Tx, job *task.Job[args]) (err error) {
		kept = tx
		if keptSave, err = tx.Begin(ctx); err != nil {
			return err
		}
		if job.Args.Mode == "fails" && job.Attempt == 1 {
			return task.Transient(errors.New("no"))
		}
		return effect(ctx, tx, job)
	})}, Queues: map[string]pawlrt.Queue{"q": {Concurrency: 1}}})
	for i, mode := range []string{"", "fails"} {
		put(t, pool, k, args{N: i, Mode: mode})
		require.Equal(t, store.Audit{Completed: i + 1}, settled(t, pool, i+1))
		testdb.Eventually(t, slow, "the handler to be done", func() bool { return w.Stats().Running == 0 })
		for _, tx := range []pgx.Tx{kept, keptSave} {
			_, err := tx.Exec(t.Context(), `INSERT INTO effects (n, attempt) VALUES (99, 99)`)
			require.ErrorIs(t, err, pgx.ErrTxClosed)
			_, err = tx.Begin(t.Context())
			require.ErrorIs(t, err, pgx.ErrTxClosed)
		}
	}
	require.Zero(t, query[int](t, pool, `SELECT count(*) FROM effects WHERE n = 99`))
}

// What a handler sets for its own statements is not in the way of its end.
func TestTransactionWithSettings(t *testing.T) {
	t.Parallel()
	pool := effects(t)
	role := "pawl_test_" + uuid.NewString()[:8]
	exec(t, pool, `CREATE ROLE `+role)
	exec(t, pool, `GRANT INSERT ON effects TO `+role)
	exec(t, pool, `GRANT `+role+` TO `+testdb.Worker)
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		_, err := pool.Exec(ctx, `DROP OWNED BY `+role+`; DROP ROLE `+role)
		require.NoError(t, err)
	})
	k := kind("k", "q")
	settings := []string{`RESET ALL`, `SET LOCAL ROLE ` + role, `SET LOCAL search_path = pg_catalog, public`, `SET LOCAL statement_timeout = '10s'`, `SET LOCAL enable_indexscan = off`}
	start(t, pool, pawlrt.Config{Tables: []task.Table{txTable(k, func(ctx context.Context, tx pgx.Tx, job *task.Job[args]) error {
		if _, err := tx.Exec(ctx, settings[job.Args.N]); err != nil {
			return err
		}
		return effect(ctx, tx, job)
	})}})
	put(t, pool, k, numbered(len(settings), "")...)
	require.Equal(t, store.Audit{Completed: len(settings)}, settled(t, pool, len(settings)))
	require.Empty(t, query[string](t, pool, `SELECT COALESCE(string_agg(summary, chr(10)), '') FROM pawl.job_errors`))
	require.Equal(t, len(settings), query[int](t, pool, `SELECT count(*) FROM effects WHERE attempt = 1`))
}

// The wait for a connection is not the handler's time, and costs no attempt.
func TestTransactionsBehindASmallPool(t *testing.T) {
	t.Parallel()
	pool := testdb.Migrated(t, testdb.MaxConns(1))
	exec(t, pool, `CREATE TABLE effects (n int NOT NULL, attempt int NOT NULL)`)
	k := kind("k", "q", func(k *taskimpl.Kind[args]) { k.Policy.Timeout, k.Policy.Attempts = 500*time.Millisecond, 1 })
	start(t, pool, pawlrt.Config{Tables: []task.Table{txTable(k, func(ctx context.Context, tx pgx.Tx, job *task.Job[args]) error {
		if err := effect(ctx, tx, job); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `SELECT pg_sleep(0.15)`)
		return err
	})}})
	put(t, pool, k, numbered(12, "")...)
	require.Equal(t, store.Audit{Completed: 12}, settled(t, pool, 12))
}

// A lease that is lost while the handler runs: nothing that it did is stored,
// it is told, and it is counted.
func TestTransactionFenced(t *testing.T) {
	t.Parallel()
	for _, level := range levels {
		t.Run(string(level), func(t *testing.T) {
			t.Parallel()
			pool := effects(t)
			g := newGate()
			k := kind("k", "q", isolated(level))
			w := start(t, pool, pawlrt.Config{Tables: []task.Table{txTable(k, func(ctx context.Context, tx pgx.Tx, job *task.Job[args]) error {
				if err := effect(ctx, tx, job); err != nil {
					return err
				}
				if job.Attempt == 1 {
					return g.ignore(ctx, job)
				}
				return nil
			})}})
			put(t, pool, k, args{N: 1})
			g.started(t, 1)
			// Somebody takes the job, as a sweeper would of a process that seems dead.
			exec(t, pool, `SELECT pawl.settle(l.owner, ARRAY[l.token], '{1}', l.job_ids, '{7}', '{}', '{lease_lost}', '{test}') FROM pawl.leases l`)
			exec(t, pool, `SELECT pg_notify('`+store.Channel(store.DefaultSchema)+`', 'q')`)
			testdb.Eventually(t, slow, "the second attempt", func() bool { return w.Stats().Completed == 1 })
			g.open()
			testdb.Eventually(t, slow, "the first attempt to be refused", func() bool { return w.Stats().Refused == 1 })
			require.Equal(t, store.Audit{Completed: 1}, audit(t, pool))
			require.Equal(t, 2, query[int](t, pool, `SELECT min(attempt) FROM effects`))
			require.EqualValues(t, 1, w.Stats().Completed)
		})
	}
}

// A transaction that is open for many heartbeats neither holds up the renewal of
// its lease nor is held up by it, beside other jobs that come and go.
func TestLongTransaction(t *testing.T) {
	t.Parallel()
	pool := effects(t)
	tables := []task.Table{}
	ends := make(chan struct{})
	long := make([]*taskimpl.Kind[args], len(levels))
	var inside atomic.Int64
	for i, level := range levels {
		long[i] = kind(fmt.Sprintf("long%d", i), fmt.Sprintf("q%d", i), isolated(level))
		tables = append(tables, txTable(long[i], func(ctx context.Context, tx pgx.Tx, job *task.Job[args]) error {
			if err := effect(ctx, tx, job); err != nil || job.Args.Mode == "short" {
				return err
			}
			inside.Add(1)
			<-ends
			return ctx.Err()
		}))
	}
	config := pawlrt.Config{Tables: tables, Lease: 4 * time.Second, Heartbeat: 400 * time.Millisecond, Poll: 50 * time.Millisecond}
	a, b := start(t, pool, config), start(t, pool, config)
	for _, k := range long {
		put(t, pool, k, numbered(5, "long")...)
	}
	testdb.Eventually(t, slow, "all to run", func() bool { return inside.Load() == 15 })
	beats := query[time.Time](t, pool, `SELECT max(expires_at) FROM pawl.processes`)
	for range 10 {
		for _, k := range long {
			put(t, pool, k, args{N: 100, Mode: "short"})
		}
	}
	testdb.Eventually(t, 2*slow, "many heartbeats", func() bool {
		return query[bool](t, pool, `SELECT min(expires_at) > $1::timestamptz + interval '2 seconds' FROM pawl.processes`, beats)
	})
	close(ends)
	require.Equal(t, store.Audit{Completed: 45}, settled(t, pool, 45))
	require.Equal(t, 45, query[int](t, pool, `SELECT count(*) FROM effects WHERE attempt = 1`))
	for _, w := range []*pawlrt.Worker{a.Worker, b.Worker} {
		require.Zero(t, w.Stats().Refused)
		require.Zero(t, w.Stats().LeasesLost)
		require.Zero(t, w.Stats().Retried)
	}
}

// The worker stalls between the fence and the end of COMMIT: another has the job
// within two leases, and what was stalled commits nothing.
func TestStalledCommit(t *testing.T) {
	t.Parallel()
	for _, level := range levels {
		t.Run(string(level), func(t *testing.T) {
			t.Parallel()
			pool := effects(t)
			// The first attempt's COMMIT waits for a lock that this test holds.
			exec(t, pool, `CREATE FUNCTION stall() RETURNS trigger LANGUAGE plpgsql AS $$
				BEGIN IF NEW.attempt = 1 THEN PERFORM pg_advisory_xact_lock(1); END IF; RETURN NULL; END $$;
				CREATE CONSTRAINT TRIGGER stall AFTER INSERT ON effects DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION stall()`)
			holder, err := pool.Begin(t.Context())
			require.NoError(t, err)
			defer holder.Rollback(t.Context())
			_, err = holder.Exec(t.Context(), `SELECT pg_advisory_xact_lock(1)`)
			require.NoError(t, err)

			const lease = 700 * time.Millisecond
			k := kind("k", "q", isolated(level))
			config := pawlrt.Config{Tables: []task.Table{txTable(k, effect)}, Lease: lease, Heartbeat: lease / 4, Poll: 20 * time.Millisecond}
			start(t, pool, config)
			put(t, pool, k, args{N: 1})
			require.Equal(t, store.Audit{Completed: 1}, settled(t, pool, 1))
			require.NoError(t, holder.Rollback(t.Context()))
			require.Equal(t, 2, query[int](t, pool, `SELECT min(attempt) FROM effects`))
			require.Equal(t, 1, query[int](t, pool, `SELECT count(*) FROM effects`))
		})
	}
}

// The same with a client that stops after the fence: the server ends its
// session, the sweeper takes the job, and the client's COMMIT finds nothing.
func TestStalledAfterFence(t *testing.T) {
	t.Parallel()
	for _, level := range levels {
		t.Run(string(level), func(t *testing.T) {
			t.Parallel()
			pool := effects(t)
			k := kind("k", "q", isolated(level))
			put(t, pool, k, args{N: 1})
			s, err := store.Open(t.Context(), pool, store.DefaultSchema, 1)
			require.NoError(t, err)
			defer s.Close()
			owner, token := uuid.New(), uuid.New()
			capability := int64(k.Capabilities[0].ID)
			require.NoError(t, s.Register(t.Context(), &store.Process{ID: owner, Name: "stalled", Queues: []string{"q"}, Capabilities: []int64{capability}, Lease: 500 * time.Millisecond}))
			claimed, err := s.Claim(t.Context(), &store.Claim{Owner: owner, Token: uuid.New(), Queue: "q", Limit: 1, Capabilities: []int64{capability},
				Alone: []int64{capability}, AloneTokens: []uuid.UUID{token}})
			require.NoError(t, err)
			require.Len(t, claimed.Jobs, 1)
			require.Equal(t, token, claimed.Jobs[0].Token)

			conn, err := pgx.ConnectConfig(t.Context(), pool.Config().ConnConfig)
			require.NoError(t, err)
			defer conn.Close(context.WithoutCancel(t.Context()))
			trying, err := s.BeginAttempt(t.Context(), conn, store.Ending{Owner: owner, Token: token, ID: claimed.Jobs[0].ID}, k.Isolation, time.Minute)
			require.NoError(t, err)
			for _, sql := range []string{
				`INSERT INTO effects (n, attempt) VALUES (1, 1)`,
				`SET LOCAL idle_in_transaction_session_timeout = 500`,
				fmt.Sprintf(`SELECT pawl.complete('%s', '%s', '%s', pg_current_xact_id()::text)`, owner, token, claimed.Jobs[0].ID),
			} {
				_, err = trying.Tx.Exec(t.Context(), sql)
				require.NoError(t, err)
			}
			start(t, pool, pawlrt.Config{Tables: []task.Table{txTable(k, effect)}, Lease: 500 * time.Millisecond, Heartbeat: 100 * time.Millisecond})
			require.Equal(t, store.Audit{Completed: 1}, settled(t, pool, 1))
			require.Error(t, trying.Tx.Commit(t.Context()))
			require.Equal(t, 2, query[int](t, pool, `SELECT sum(attempt) FROM effects`))
		})
	}
}

// The answer to COMMIT is lost: the job is not run again, and that is no
// refusal.
func TestUnansweredCommit(t *testing.T) {
	t.Parallel()
	pool := effects(t)
	config := pool.Config()
	dial := config.ConnConfig.DialFunc
	var cuts atomic.Int64
	config.ConnConfig.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		return &commitConn{Conn: conn, cuts: &cuts}, err
	}
	cutting, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	defer cutting.Close()
	k := kind("k", "q")
	w := start(t, cutting, pawlrt.Config{Tables: []task.Table{txTable(k, effect)}})
	put(t, pool, k, numbered(20, "")...)
	require.Equal(t, store.Audit{Completed: 20}, settled(t, pool, 20))
	require.Equal(t, 20, query[int](t, pool, `SELECT count(*) FROM effects WHERE attempt = 1`))
	require.NoError(t, w.shutdown(t))
	require.Positive(t, cuts.Load())
	require.Zero(t, w.Stats().Refused)
}

// commitConn is a connection of transactional attempts that goes away between a
// COMMIT and its answer.
type commitConn struct {
	net.Conn
	cuts    *atomic.Int64
	attempt atomic.Bool
}

func (c *commitConn) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte("pg_current_xact_id")) {
		c.attempt.Store(true)
	}
	return c.Conn.Write(p)
}

func (c *commitConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 && c.attempt.Load() && bytes.Contains(p[:n], []byte("COMMIT\x00")) {
		c.cuts.Add(1)
		_ = c.Conn.Close()
		return 0, net.ErrClosed
	}
	return n, err
}

// More handlers than the user's pool has connections: they wait for one another
// and lose no lease.
func TestTransactionsWaitForThePool(t *testing.T) {
	t.Parallel()
	pool := testdb.Migrated(t, testdb.MaxConns(2))
	exec(t, pool, `CREATE TABLE effects (n int NOT NULL, attempt int NOT NULL)`)
	k := kind("k", "q")
	w := start(t, pool, pawlrt.Config{Tables: []task.Table{txTable(k, func(ctx context.Context, tx pgx.Tx, job *task.Job[args]) error {
		if err := effect(ctx, tx, job); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `SELECT pg_sleep(0.02)`)
		return err
	})}, Queues: map[string]pawlrt.Queue{"q": {Concurrency: 20}}, Lease: time.Second})
	put(t, pool, k, numbered(60, "")...)
	require.Equal(t, store.Audit{Completed: 60}, settled(t, pool, 60))
	require.NoError(t, w.shutdown(t))
	require.Zero(t, w.Stats().LeasesLost)
	require.Zero(t, w.Stats().Retried)
}

// A handler that passes its timeout is rolled back, also when it ignores its
// context and returns later.
func TestTransactionTimeout(t *testing.T) {
	t.Parallel()
	pool := effects(t)
	g := newGate()
	k := kind("k", "q", func(k *taskimpl.Kind[args]) { k.Policy.Timeout, k.Policy.Attempts = 300*time.Millisecond, 20 })
	w := start(t, pool, pawlrt.Config{Tables: []task.Table{txTable(k, func(ctx context.Context, tx pgx.Tx, job *task.Job[args]) error {
		if err := effect(ctx, tx, job); err != nil || job.Attempt > 1 {
			return err
		}
		if job.Args.Mode == "stuck" {
			return g.ignore(ctx, job)
		}
		_, err := tx.Exec(ctx, `SELECT pg_sleep(60)`)
		return err
	})}})
	put(t, pool, k, args{N: 1}, args{N: 2, Mode: "stuck"})
	require.Equal(t, store.Audit{Completed: 2}, settled(t, pool, 2))
	g.open()
	testdb.Eventually(t, slow, "the stuck one to return", func() bool { return w.Stats().Stuck == 0 })
	require.NoError(t, w.shutdown(t))
	require.Equal(t, 2, query[int](t, pool, `SELECT count(*) FROM effects WHERE attempt > 1`))
	require.Equal(t, 2, query[int](t, pool, `SELECT count(*) FROM effects`))
}

// The handler is in time and its COMMIT is slow: nobody gives up what is just
// being committed, and it counts as completed.
func TestSlowCommit(t *testing.T) {
	t.Parallel()
	pool := effects(t)
	exec(t, pool, `CREATE FUNCTION slowly() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(2); RETURN NULL; END $$;
		CREATE CONSTRAINT TRIGGER slowly AFTER INSERT ON effects DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION slowly()`)
	k := kind("k", "q", func(k *taskimpl.Kind[args]) { k.Policy.Timeout, k.Policy.Attempts = 500*time.Millisecond, 1 })
	w := start(t, pool, pawlrt.Config{Tables: []task.Table{txTable(k, effect)}})
	put(t, pool, k, args{N: 1})
	require.Equal(t, store.Audit{Completed: 1}, settled(t, pool, 1))
	require.NoError(t, w.shutdown(t))
	s := w.Stats()
	require.Equal(t, []int64{1, 0, 0, 0}, []int64{s.Completed, s.Refused, s.Timeouts, s.Stuck})
	require.Equal(t, 1, query[int](t, pool, `SELECT count(*) FROM effects`))
}

// Ordinary handlers hold no transaction of ours, however long they run.
func TestHandlersHoldNoTransaction(t *testing.T) {
	t.Parallel()
	pool := testdb.Migrated(t)
	g := newGate()
	k := kind("k", "q")
	start(t, pool, pawlrt.Config{Tables: []task.Table{table(k, g.obey)}, Queues: map[string]pawlrt.Queue{"q": {Concurrency: 100}}, Poll: 50 * time.Millisecond})
	put(t, pool, k, numbered(100, "")...)
	g.started(t, 100)
	// Statements of the worker's own come and go; none stays.
	testdb.Eventually(t, slow, "no transaction to stay open", func() bool {
		return query[int](t, pool, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()
			AND xact_start IS NOT NULL`) == 0
	})
	require.Zero(t, query[int](t, pool, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()
		AND xact_start < clock_timestamp() - interval '1 second'`))
	g.open()
	require.Equal(t, store.Audit{Completed: 100}, settled(t, pool, 100))
}
