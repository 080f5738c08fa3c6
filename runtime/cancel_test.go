package runtime_test

import (
	"context"
	"errors"
	"fmt"
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

func cancelJob(t *testing.T, tx task.Tx, id uuid.UUID) task.State {
	t.Helper()
	state, err := task.Cancel(t.Context(), tx, id)
	require.NoError(t, err)
	return state
}

// forgotten waits until no request to cancel is left.
func forgotten(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	testdb.Eventually(t, slow, "no request to cancel", func() bool {
		return query[int](t, pool, `SELECT count(*) FROM pawl.cancel_requests`) == 0
	})
}

// A running handler is told soon, with the listener and without it.
func TestCancelReachesAHandler(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		config pawlrt.Config
		within time.Duration
	}{
		"listening": {pawlrt.Config{Poll: never}, 500 * time.Millisecond},
		"poll only": {pawlrt.Config{Poll: 20 * time.Millisecond, PollOnly: true}, 1500 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := testdb.Migrated(t)
			k := kind("k", "q")
			started := make(chan struct{}, 1)
			causes := make(chan error, 1)
			tt.config.Tables = []task.Table{table(k, func(ctx context.Context, job *task.Job[args]) error {
				started <- struct{}{}
				<-ctx.Done()
				causes <- context.Cause(ctx)
				return fmt.Errorf("half done: %w", ctx.Err())
			})}
			w := start(t, pool, tt.config)
			if !tt.config.PollOnly {
				listening(t, w)
			}
			best := never
			for n := range 4 {
				ids := put(t, pool, k, args{N: n})
				receive(t, started, "the handler")
				begun := time.Now()
				require.Equal(t, task.StateLeased, cancelJob(t, task.Autocommit(pool), ids[0]))
				require.ErrorIs(t, receive(t, causes, "the end of its context"), task.ErrCancelled)
				best = min(best, time.Since(begun))
				require.Equal(t, store.Audit{Cancelled: n + 1}, settled(t, pool, n+1))
				require.Equal(t, task.StateCancelled, cancelJob(t, task.Autocommit(pool), ids[0]))
				require.Equal(t, "cancelled", query[string](t, pool, `SELECT last_error_code FROM pawl.job_status WHERE id = $1`, ids[0]))
			}
			require.Less(t, best, tt.within)
			forgotten(t, pool)
			require.EqualValues(t, 4, w.Stats().Cancelled)
			require.Zero(t, w.Stats().Refused)
		})
	}
}

// What a handler makes of the end of its context: success counts, and anything
// else ends the job, whatever its class and however many attempts are left.
func TestCancelledHandlers(t *testing.T) {
	t.Parallel()
	pool := testdb.Migrated(t)
	k := kind("k", "q", func(k *taskimpl.Kind[args]) { k.Policy.Timeout = 5 * time.Second })
	ends := []func(context.Context) error{
		func(context.Context) error { return nil },
		func(ctx context.Context) error { return ctx.Err() },
		func(ctx context.Context) error { return context.Cause(ctx) },
		func(context.Context) error { return task.Transient(errors.New("x")) },
		func(context.Context) error { return task.Permanent(errors.New("x")) },
		func(context.Context) error { return task.Snooze(time.Millisecond) },
		func(context.Context) error { return errors.New("x") },
		func(context.Context) error { panic("x") },
	}
	started := make(chan struct{}, len(ends)+1)
	deaf := make(chan struct{})
	var runs atomic.Int64
	w := start(t, pool, pawlrt.Config{Queues: map[string]pawlrt.Queue{"q": {Concurrency: 20}}, Tables: []task.Table{table(k, func(ctx context.Context, job *task.Job[args]) error {
		runs.Add(1)
		started <- struct{}{}
		if job.Args.N == len(ends) { // does not hear, and runs into its timeout
			<-deaf
			return nil
		}
		<-ctx.Done()
		return ends[job.Args.N](ctx)
	})}})
	t.Cleanup(func() { close(deaf) })
	ids := put(t, pool, k, numbered(len(ends)+1, "")...)
	for range ids {
		receive(t, started, "a handler")
	}
	for _, id := range ids {
		require.Equal(t, task.StateLeased, cancelJob(t, task.Autocommit(pool), id))
	}
	require.Equal(t, store.Audit{Completed: 1, Cancelled: len(ends)}, settled(t, pool, len(ids)))
	require.Equal(t, task.StateCompleted, cancelJob(t, task.Autocommit(pool), ids[0]))
	forgotten(t, pool)
	require.EqualValues(t, len(ids), runs.Load())
	require.Zero(t, w.Stats().Dead+w.Stats().Retried)
}

// A transactional handler that is cancelled commits nothing, unless it has
// succeeded all the same.
func TestCancelledTransaction(t *testing.T) {
	t.Parallel()
	pool := effects(t)
	k := kind("k", "q")
	started := make(chan struct{}, 2)
	start(t, pool, pawlrt.Config{Tables: []task.Table{txTable(k, func(ctx context.Context, tx pgx.Tx, job *task.Job[args]) error {
		if err := effect(context.WithoutCancel(ctx), tx, job); err != nil {
			return err
		}
		started <- struct{}{}
		<-ctx.Done()
		if job.Args.N == 0 {
			return nil
		}
		return ctx.Err()
	})}})
	ids := put(t, pool, k, numbered(2, "")...)
	for range ids {
		receive(t, started, "a handler")
	}
	for _, id := range ids {
		require.Equal(t, task.StateLeased, cancelJob(t, task.Autocommit(pool), id))
	}
	require.Equal(t, store.Audit{Completed: 1, Cancelled: 1}, settled(t, pool, 2))
	require.Equal(t, 0, query[int](t, pool, `SELECT sum(n) FROM effects`))
	forgotten(t, pool)
}

// A job comes back again and again while the transaction that cancels it is
// open. After the commit its handler is not called any more.
func TestCancelOfARetryingJob(t *testing.T) {
	t.Parallel()
	for _, level := range []pgx.TxIsoLevel{pgx.ReadCommitted, pgx.RepeatableRead, pgx.Serializable} {
		t.Run(string(level), func(t *testing.T) {
			t.Parallel()
			pool := testdb.Migrated(t)
			k := kind("k", "q", func(k *taskimpl.Kind[args]) {
				k.Policy.Attempts, k.Policy.Base, k.Policy.Max = 30_000, time.Millisecond, time.Millisecond
			})
			var runs atomic.Int64
			let := make(chan struct{}, 1000)
			start(t, pool, pawlrt.Config{Poll: 20 * time.Millisecond, Tables: []task.Table{table(k, func(context.Context, *task.Job[args]) error {
				runs.Add(1)
				<-let
				return task.Transient(errors.New("again"))
			})}})
			ids := put(t, pool, k, args{})
			testdb.Eventually(t, slow, "the first attempt", func() bool { return runs.Load() == 1 })
			tx, err := pool.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: level})
			require.NoError(t, err)
			defer tx.Rollback(t.Context())
			require.Equal(t, task.StateLeased, cancelJob(t, tx, ids[0]))
			for n := range 5 {
				let <- struct{}{}
				testdb.Eventually(t, slow, "another attempt", func() bool { return runs.Load() == int64(n+2) })
			}
			require.NoError(t, tx.Commit(t.Context()))
			for range 10 {
				let <- struct{}{}
			}
			require.Equal(t, store.Audit{Cancelled: 1}, settled(t, pool, 1))
			require.EqualValues(t, 6, runs.Load())
			forgotten(t, pool)
		})
	}
}

// Whatever a job waits for, a cancelled one is not run, and one whose cancel was
// rolled back is.
func TestCancelOfWaitingJobs(t *testing.T) {
	t.Parallel()
	pool := testdb.Migrated(t)
	k := kind("k", "q", func(k *taskimpl.Kind[args]) { k.Policy.Base, k.Policy.Max = time.Second, time.Second })
	var again atomic.Int64
	w := start(t, pool, pawlrt.Config{Poll: 50 * time.Millisecond, Tables: []task.Table{table(k, func(_ context.Context, job *task.Job[args]) error {
		switch {
		case job.Attempt > 1:
			again.Add(1)
			return nil
		case job.Args.Mode == "fail":
			return task.Transient(errors.New("x"))
		}
		return task.Snooze(time.Second)
	})}})
	failed, snoozed := put(t, pool, k, numbered(4, "fail")...), put(t, pool, k, numbered(2, "snooze")...)
	scheduled, err := taskimpl.Enqueue(t.Context(), task.Autocommit(pool), k, args{}, []task.EnqueueOption{task.In(time.Second)})
	require.NoError(t, err)
	testdb.Eventually(t, slow, "the first attempts", func() bool { return w.Stats().Retried == 4 && w.Stats().GivenBack >= 2 })
	gone := append(failed[2:], scheduled.ID)
	gone = append(gone, snoozed...)
	for _, id := range gone {
		// Snoozed jobs come back within a second, and may just have.
		require.Contains(t, []task.State{task.StateCancelled, task.StateLeased}, cancelJob(t, task.Autocommit(pool), id))
	}
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	require.Equal(t, task.StateCancelled, cancelJob(t, tx, failed[0]))
	require.NoError(t, tx.Rollback(t.Context()))
	require.Equal(t, store.Audit{Completed: 2, Cancelled: 5}, settled(t, pool, 7))
	require.EqualValues(t, 2, again.Load())
	forgotten(t, pool)
	_, err = task.Cancel(t.Context(), task.Autocommit(pool), uuid.New())
	require.ErrorIs(t, err, task.ErrNoJob)
}

// An organization's jobs end wherever they are; another one's do not notice.
func TestCancelOrganization(t *testing.T) {
	t.Parallel()
	pool := testdb.Migrated(t)
	k := kind("k", "q", func(k *taskimpl.Kind[args]) {
		k.Organization = func(a *args) (string, error) { return a.Mode, nil }
		k.Order = []string{"n"}
	})
	g := newGate()
	causes := make(chan error, 10)
	start(t, pool, pawlrt.Config{Queues: map[string]pawlrt.Queue{"q": {Concurrency: 4}}, Tables: []task.Table{table(k, func(ctx context.Context, job *task.Job[args]) error {
		err := g.obey(ctx, job)
		if err != nil {
			causes <- context.Cause(ctx)
		}
		return err
	})}})
	put(t, pool, k, args{N: 1, Mode: "a"}, args{N: 2, Mode: "a"}, args{N: 1, Mode: "b"}, args{N: 2, Mode: "b"})
	g.started(t, 4)
	put(t, pool, k, args{N: 1, Mode: "a"}, args{N: 3, Mode: "a"}, args{N: 1, Mode: "b"}, args{N: 3, Mode: "b"}) // blocked and waiting
	_, err := taskimpl.Enqueue(t.Context(), task.Autocommit(pool), k, args{N: 4, Mode: "a"}, []task.EnqueueOption{task.In(time.Hour)})
	require.NoError(t, err)
	waiting, busy, err := task.CancelOrganization(t.Context(), task.Autocommit(pool), "a")
	require.NoError(t, err)
	require.Equal(t, 3, waiting)
	require.Equal(t, 2, busy)
	for range 2 {
		require.ErrorIs(t, receive(t, causes, "the end of a context"), task.ErrCancelled)
	}
	testdb.Eventually(t, slow, "the organization's jobs to end", func() bool { return audit(t, pool).Cancelled == 5 })
	g.started(t, 1) // the other's next, in the slots that are free
	g.open()
	require.Equal(t, store.Audit{Completed: 4, Cancelled: 5}, settled(t, pool, 9))
	forgotten(t, pool)
	_, _, err = task.CancelOrganization(t.Context(), task.Autocommit(pool), "")
	require.ErrorIs(t, err, task.ErrInvalidOption)
}
