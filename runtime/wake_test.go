package runtime_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/pawlgo/pawl/internal/store"
	"github.com/pawlgo/pawl/internal/testdb"
	"github.com/pawlgo/pawl/migrations"
	pawlrt "github.com/pawlgo/pawl/runtime"
	"github.com/pawlgo/pawl/task"
	"github.com/pawlgo/pawl/task/taskimpl"
)

// never is a poll interval that no test lives to see.
const never = 10 * time.Minute

// listening waits until the worker has its listener and has looked for work.
func listening(t *testing.T, w *running) {
	t.Helper()
	testdb.Eventually(t, slow, "the listener", func() bool { return (w.Stats().Listening || poller()) && w.Stats().Claims > 0 })
}

// idle waits until the worker has nothing more to do for now: it claims no
// more.
func idle(t *testing.T, w *running) {
	t.Helper()
	last, quiet := int64(-1), 0
	testdb.Eventually(t, slow, "the worker to be idle", func() bool {
		claims := w.Stats().Claims
		if claims != last || w.Stats().Running > 0 {
			last, quiet = claims, 0
		}
		quiet++
		return quiet > 20
	})
}

// A notification starts a job at once, whatever the payload's size.
func TestWakeUp(t *testing.T) {
	t.Parallel()
	pool := testdb.Migrated(t)
	k := kind("k", "q")
	started := make(chan time.Time, 10)
	w := start(t, pool, pawlrt.Config{Poll: never, Tables: []task.Table{table(k, func(context.Context, *task.Job[args]) error {
		started <- time.Now()
		return nil
	})}})
	listening(t, w)
	best := never
	for i, mode := range []string{"", string(make([]byte, 0)), padding(8001), padding(1 << 20), ""} {
		idle(t, w)
		asleep(t, pool)
		begun := time.Now()
		put(t, pool, k, args{N: i, Mode: mode})
		best = min(best, receive(t, started, "the job").Sub(begun))
	}
	require.Less(t, best, 500*time.Millisecond)
	require.GreaterOrEqual(t, w.Stats().Wakeups, int64(5))
}

func padding(n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = 'x'
	}
	return string(b)
}

// Without LISTEN nothing changes but the latency.
func TestPollOnly(t *testing.T) {
	t.Parallel()
	pool := testdb.Migrated(t)
	k := kind("k", "q")
	w := start(t, pool, pawlrt.Config{Poll: 50 * time.Millisecond, PollOnly: true, Tables: []task.Table{table(k, func(_ context.Context, job *task.Job[args]) error {
		if job.Attempt == 1 {
			return task.Transient(errors.New("x"))
		}
		return nil
	})}})
	for i := range 5 {
		put(t, pool, k, args{N: i})
		require.Equal(t, store.Audit{Completed: i + 1}, settled(t, pool, i+1))
	}
	require.Zero(t, query[int](t, pool, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND query ILIKE 'LISTEN%'`))
	require.NoError(t, w.shutdown(t))
	require.Zero(t, w.Stats().Wakeups)
	require.False(t, w.Stats().Listening)
}

// A retry starts when it is due, not at the next poll: also the later one of
// two, and one that is due while the queue is full.
func TestRetryIsOnTime(t *testing.T) {
	t.Parallel()
	pool := testdb.Migrated(t)
	k := kind("k", "q", func(k *taskimpl.Kind[args]) {
		k.Policy = taskimpl.Policy{Attempts: 20, Base: 200 * time.Millisecond, Max: time.Hour, Unknown: 20, Timeout: time.Minute}
	})
	type run struct {
		n  int
		at time.Time
	}
	runs := make(chan run, 100)
	w := start(t, pool, pawlrt.Config{Poll: never, Tables: []task.Table{table(k, func(_ context.Context, job *task.Job[args]) error {
		runs <- run{job.Args.N, time.Now()}
		switch {
		case job.Attempt == 1 && job.Args.N == 1:
			return task.RateLimited(errors.New("x"), 200*time.Millisecond)
		case job.Attempt == 1:
			return task.RateLimited(errors.New("x"), 600*time.Millisecond)
		case job.Attempt < 4:
			return task.Transient(errors.New("x"))
		}
		return nil
	})}})
	listening(t, w)
	idle(t, w)
	put(t, pool, k, args{N: 1}, args{N: 2})
	last := make(map[int]time.Time)
	delays := map[int][]time.Duration{1: {200, 400, 800}, 2: {600, 400, 800}}
	best := never
	for range 8 {
		r := receive(t, runs, "an attempt")
		if before, ok := last[r.n]; ok {
			late := r.at.Sub(before) - delays[r.n][0]*time.Millisecond
			delays[r.n] = delays[r.n][1:]
			require.GreaterOrEqual(t, late, -5*time.Millisecond)
			best = min(best, late)
		}
		last[r.n] = r.at
	}
	require.Less(t, best, 250*time.Millisecond)
	require.Equal(t, store.Audit{Completed: 2}, settled(t, pool, 2))
}

// A listener that is cut off connects again, and what was enqueued meanwhile is
// found at once.
func TestListenerReconnects(t *testing.T) {
	t.Parallel()
	pool := testdb.Migrated(t)
	k := kind("k", "q")
	w := start(t, pool, pawlrt.Config{Poll: never, Tables: []task.Table{table(k, func(context.Context, *task.Job[args]) error { return nil })}})
	for i := range 3 {
		listening(t, w)
		idle(t, w)
		// The job commits when nobody listens any more.
		tx, err := pool.Begin(t.Context())
		require.NoError(t, err)
		_, err = taskimpl.Enqueue(t.Context(), tx, k, args{N: i}, nil)
		require.NoError(t, err)
		require.Equal(t, 1, query[int](t, pool, `SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = current_database() AND query ILIKE 'LISTEN%'`))
		testdb.Eventually(t, slow, "the listener to go", func() bool {
			return query[int](t, pool, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND query ILIKE 'LISTEN%'`) == 0
		})
		require.NoError(t, tx.Commit(t.Context()))
		require.Equal(t, store.Audit{Completed: i + 1}, settled(t, pool, i+1))
		testdb.Eventually(t, slow, "the reconnect to be counted", func() bool { return w.Stats().Reconnects == int64(i+1) })
	}
}

// A transaction that enqueues and stays open while later jobs are done: its job
// starts soon after it commits, with and without a wake-up.
func TestLateCommit(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		config pawlrt.Config
		opts   []task.EnqueueOption
	}{
		"listening":  {config: pawlrt.Config{Poll: never}},
		"poll only":  {config: pawlrt.Config{Poll: 100 * time.Millisecond, PollOnly: true}},
		"no wake-up": {config: pawlrt.Config{Poll: 100 * time.Millisecond}, opts: []task.EnqueueOption{task.NoWake()}},
		"urgent":     {config: pawlrt.Config{Poll: never}, opts: []task.EnqueueOption{task.Priority(task.Urgent)}},
		"the lowest": {config: pawlrt.Config{Poll: never}, opts: []task.EnqueueOption{task.Priority(task.Low)}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := testdb.Migrated(t)
			k := kind("k", "q")
			late := make(chan struct{}, 100)
			c.config.Tables = []task.Table{table(k, func(_ context.Context, job *task.Job[args]) error {
				if job.Args.Mode == "late" {
					late <- struct{}{}
				}
				return nil
			})}
			w := start(t, pool, c.config)
			if !c.config.PollOnly {
				listening(t, w)
			}
			done := 0
			for round := range 5 {
				tx, err := pool.Begin(t.Context())
				require.NoError(t, err)
				_, err = taskimpl.Enqueue(t.Context(), tx, k, args{N: round, Mode: "late"}, c.opts)
				require.NoError(t, err)
				put(t, pool, k, numbered(100, "")...)
				done += 100
				testdb.Eventually(t, slow, "the later jobs", func() bool { return w.Stats().Completed >= int64(done) })
				// Not idle: the worker has just looked, and found nothing more.
				require.NoError(t, tx.Commit(t.Context()))
				receive(t, late, "the job of the late commit")
				done++
			}
			require.Equal(t, store.Audit{Completed: done}, settled(t, pool, done))
		})
	}
}

// Many writers commit at about the same time, in another order than they
// enqueued: none of their jobs waits for the poll.
func TestConcurrentCommits(t *testing.T) {
	t.Parallel()
	pool := testdb.Migrated(t)
	k := kind("k", "q")
	w := start(t, pool, pawlrt.Config{Poll: never, Tables: []task.Table{table(k, func(context.Context, *task.Job[args]) error { return nil })}})
	listening(t, w)
	for round := range 10 {
		var writers sync.WaitGroup
		for range 8 {
			writers.Go(func() {
				for i := range 5 {
					if _, err := taskimpl.Enqueue(t.Context(), task.Autocommit(pool), k, args{N: i}, nil); err != nil {
						t.Error(err)
					}
				}
			})
		}
		writers.Wait()
		require.Equal(t, store.Audit{Completed: 40 * (round + 1)}, settled(t, pool, 40*(round+1)))
	}
}

// A queue whose slots are all taken does not stop another one.
func TestQueuesAreIsolated(t *testing.T) {
	t.Parallel()
	pool := testdb.Migrated(t)
	g := newGate()
	full, free := kind("full", "a"), kind("free", "b")
	w := start(t, pool, pawlrt.Config{
		Tables: []task.Table{table(full, g.obey), table(free, func(context.Context, *task.Job[args]) error { return nil })},
		Queues: map[string]pawlrt.Queue{"a": {Concurrency: 2}},
	})
	put(t, pool, full, numbered(10, "")...)
	g.started(t, 2)
	put(t, pool, free, numbered(100, "")...)
	settled(t, pool, 100)
	require.Equal(t, store.Audit{Completed: 100, Ready: 8, Leased: 2}, audit(t, pool))
	require.Equal(t, pawlrt.QueueStats{Concurrency: 2, Running: 2, Claimed: 2}, w.Stats().Queues["a"])
	g.open()
	require.Equal(t, store.Audit{Completed: 110}, settled(t, pool, 110))
}

// A schema of an odd name, a role without a search path or with other defaults,
// any way in which the driver speaks: the worker works.
func TestSessions(t *testing.T) {
	t.Parallel()
	for name, tweak := range map[string]func(*pgxpool.Config){
		"no search path": func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams["search_path"] = "" },
		"repeatable read": func(c *pgxpool.Config) {
			c.ConnConfig.RuntimeParams["default_transaction_isolation"] = "repeatable read"
		},
		"serializable":    func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams["default_transaction_isolation"] = "serializable" },
		"cache describe":  func(c *pgxpool.Config) { c.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe },
		"describe exec":   func(c *pgxpool.Config) { c.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeDescribeExec },
		"exec":            func(c *pgxpool.Config) { c.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec },
		"simple protocol": func(c *pgxpool.Config) { c.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const schema = `App "Jobs"`
			pool := testdb.New(t, testdb.Configure(tweak))
			require.NoError(t, migrations.Up(t.Context(), pool, migrations.Options{Schema: schema}))
			k := kind("k", "q")
			w := start(t, pool, pawlrt.Config{Schema: schema, Tables: []task.Table{table(k, func(_ context.Context, job *task.Job[args]) error {
				if job.Attempt == 1 {
					return task.Transient(errors.New("'x' \\"))
				}
				return nil
			})}})
			for i := range 20 {
				_, err := taskimpl.Enqueue(t.Context(), task.InSchema(task.Autocommit(pool), schema), k, args{N: i}, nil)
				require.NoError(t, err)
			}
			testdb.Eventually(t, 2*slow, "all jobs", func() bool { return w.Stats().Completed == 20 })
			require.NoError(t, w.shutdown(t))
			stats := w.Stats()
			require.EqualValues(t, 20, stats.Retried)
			require.Zero(t, stats.ClaimErrors+stats.SettleErrors+stats.LeasesLost)
			require.Zero(t, query[int](t, pool, `SELECT count(*) FROM pg_catalog.pg_class WHERE relnamespace = 'public'::pg_catalog.regnamespace`))
		})
	}
}

// A job that becomes due soon is not left to the poll: an idle worker is told
// of it at once, and so knows when to look.
func TestScheduledSoon(t *testing.T) {
	t.Parallel()
	pool := testdb.Migrated(t)
	k := kind("k", "q")
	ran := make(chan time.Time, 1)
	w := start(t, pool, pawlrt.Config{Poll: never, Tables: []task.Table{table(k, func(context.Context, *task.Job[args]) error {
		ran <- time.Now()
		return nil
	})}})
	listening(t, w)
	idle(t, w)
	begun := time.Now()
	receipt, err := taskimpl.Enqueue(t.Context(), task.Autocommit(pool), k, args{}, []task.EnqueueOption{task.In(300 * time.Millisecond)})
	require.NoError(t, err)
	require.Equal(t, task.StateScheduled, receipt.State)
	require.GreaterOrEqual(t, receive(t, ran, "the job").Sub(begun), 290*time.Millisecond)
}
