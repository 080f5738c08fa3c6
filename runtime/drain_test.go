package runtime_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	goruntime "runtime"
	"testing"
	"time"

	"github.com/google/uuid"
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

// drainer makes a worker that is not run yet.
func drainer(t *testing.T, pool *pgxpool.Pool, config pawlrt.Config) *pawlrt.Worker {
	t.Helper()
	config.Logger = slog.New(slog.NewTextHandler(t.Output(), nil))
	w, err := pawlrt.New(pool, config)
	require.NoError(t, err)
	return w
}

func drain(t *testing.T, pool *pgxpool.Pool, tables ...task.Table) []pawlrt.Drained {
	t.Helper()
	drained, err := drainer(t, pool, pawlrt.Config{Tables: tables}).Drain(t.Context())
	require.NoError(t, err)
	return drained
}

// outcomesOf are the attempts in short: kind, attempt and outcome.
func outcomesOf(drained []pawlrt.Drained) []string {
	all := make([]string, len(drained))
	for i, d := range drained {
		all[i] = fmt.Sprintf("%s %d %s", d.Kind, d.Attempt, d.Outcome)
	}
	return all
}

func TestDrainWithNothingToDo(t *testing.T) {
	t.Parallel()
	pool := testdb.Migrated(t)
	w := drainer(t, pool, pawlrt.Config{Tables: []task.Table{table(kind("work", "q"), nil)}})
	drained, err := w.Drain(t.Context())
	require.NoError(t, err)
	require.Empty(t, drained)
	require.Zero(t, query[int](t, pool, `SELECT count(*) FROM pawl.processes`))
	require.True(t, query[bool](t, pool, `SELECT began_at = '-infinity' FROM pawl.retention`), "the turn is left to others")
	_, err = w.Drain(t.Context())
	require.ErrorIs(t, err, pawlrt.ErrAlreadyRun)
	require.ErrorIs(t, w.Run(t.Context()), pawlrt.ErrAlreadyRun)
}

func TestDrainReportsEveryWayToEnd(t *testing.T) {
	t.Parallel()
	pool := testdb.Migrated(t)
	cause := errors.New("the reason")
	k := kind("work", "q", func(k *taskimpl.Kind[args]) {
		k.Policy.Base, k.Policy.Max, k.Policy.Jitter, k.Policy.Timeout = time.Hour, time.Hour, 0, 50*time.Millisecond
		k.Decode = func(_ int, raw []byte) (args, error) {
			a, err := taskimpl.As[args](raw)
			if a.Mode == "undecodable" {
				err = cause
			}
			return a, err
		}
	})
	handle := func(ctx context.Context, job *task.Job[args]) error {
		switch job.Args.Mode {
		case "transient":
			return fmt.Errorf("wrapped: %w", task.Transient(cause))
		case "permanent":
			return task.Permanent(cause)
		case "revoked":
			return task.Revoked(cause)
		case "snooze":
			return task.Snooze(time.Minute)
		case "panic":
			panic(cause)
		case "goexit":
			goruntime.Goexit()
		case "timeout":
			<-ctx.Done()
			return ctx.Err()
		}
		return nil
	}
	modes := []string{"", "transient", "permanent", "revoked", "snooze", "panic", "goexit", "timeout", "undecodable"}
	var jobs []args
	for i, mode := range modes {
		jobs = append(jobs, args{N: i, Mode: mode})
	}
	ids := put(t, pool, k, jobs...)
	drained := drain(t, pool, table(k, handle))
	require.Len(t, drained, len(modes))
	want := map[string]pawlrt.Drained{
		"":            {Outcome: pawlrt.OutcomeCompleted},
		"transient":   {Outcome: pawlrt.OutcomeRetried, After: time.Hour, Code: "transient", Summary: "wrapped: the reason"},
		"permanent":   {Outcome: pawlrt.OutcomeDead, Code: "permanent", Summary: "the reason"},
		"revoked":     {Outcome: pawlrt.OutcomeCancelled, Code: "revoked", Summary: "the reason"},
		"snooze":      {Outcome: pawlrt.OutcomeGivenBack, After: time.Minute},
		"panic":       {Outcome: pawlrt.OutcomeRetried, After: time.Hour, Code: "panic", Summary: "panic: the reason"},
		"goexit":      {Outcome: pawlrt.OutcomeRetried, After: time.Hour, Code: "goexit"},
		"timeout":     {Outcome: pawlrt.OutcomeRetried, After: time.Hour, Code: "timeout", Summary: "context deadline exceeded"},
		"undecodable": {Outcome: pawlrt.OutcomeDead, Code: "undecodable"},
	}
	for i, got := range drained {
		mode := modes[i]
		require.Equal(t, ids[i], got.ID, "in the order of the claim")
		w := want[mode]
		require.Equal(t, w.Outcome, got.Outcome, mode)
		require.Equal(t, w.After, got.After, mode)
		require.Equal(t, w.Code, got.Code, mode)
		if w.Summary != "" {
			require.Equal(t, w.Summary, got.Summary, mode)
		}
		require.Equal(t, 1, got.Attempt)
		require.Equal(t, 3, got.MaxAttempts)
		require.Equal(t, "q", got.Queue)
		require.Equal(t, "work", got.Kind)
		require.Equal(t, 1, got.Version)
		require.False(t, got.EnqueuedAt.IsZero())
		switch mode {
		case "":
			require.NoError(t, got.Err)
		case "transient", "permanent", "revoked", "panic", "undecodable":
			require.ErrorIs(t, got.Err, cause, mode)
		default:
			require.Error(t, got.Err, mode)
		}
	}
	require.Equal(t, store.Audit{Ready: 5, Completed: 1, Dead: 2, Cancelled: 1}, audit(t, pool))
}

func TestDrainOrder(t *testing.T) {
	t.Parallel()
	pool := testdb.Migrated(t)
	a, b := kind("a", "one"), kind("b", "two")
	follow := func(ctx context.Context, job *task.Job[args]) error {
		if job.Args.Mode == "" {
			return nil
		}
		next := args{N: job.Args.N, Mode: job.Args.Mode[1:]}
		_, err := taskimpl.Enqueue(ctx, task.Autocommit(pool), b, next, nil)
		return err
	}
	put(t, pool, a, args{N: 1, Mode: "xxx"}, args{N: 2})
	_, err := taskimpl.Enqueue(t.Context(), task.Autocommit(pool), a, args{N: 3}, []task.EnqueueOption{task.Priority(task.High)})
	require.NoError(t, err)
	_, err = taskimpl.Enqueue(t.Context(), task.Autocommit(pool), a, args{N: 4}, []task.EnqueueOption{task.In(time.Hour)})
	require.NoError(t, err)

	var order []int // handlers run one after another
	note := func(h handler) handler {
		return func(ctx context.Context, job *task.Job[args]) error {
			order = append(order, job.Args.N)
			return h(ctx, job)
		}
	}
	drained := drain(t, pool, table(a, note(follow)), table(b, note(follow)))
	require.Equal(t, []int{3, 1, 1, 2, 1, 1}, order)
	require.Equal(t, []string{"a 1 completed", "a 1 completed", "b 1 completed", "a 1 completed", "b 1 completed", "b 1 completed"}, outcomesOf(drained))
	require.Equal(t, store.Audit{Ready: 1, Completed: 6}, audit(t, pool))
}

func TestDrainN(t *testing.T) {
	t.Parallel()
	pool := testdb.Migrated(t)
	k := kind("work", "q")
	put(t, pool, k, numbered(5, "")...)
	tables := []task.Table{table(k, func(context.Context, *task.Job[args]) error { return nil })}
	for left, n := range []int{0, -1, 2} {
		drained, err := drainer(t, pool, pawlrt.Config{Tables: tables}).DrainN(t.Context(), n)
		require.NoError(t, err)
		require.Len(t, drained, max(n, 0), left)
	}
	require.Equal(t, store.Audit{Ready: 3, Completed: 2}, audit(t, pool))
	require.Len(t, drain(t, pool, tables...), 3)
}

// Jobs that commit late are due before those that were claimed already.
func TestDrainFindsWhatCommitsLate(t *testing.T) {
	t.Parallel()
	pool := testdb.Migrated(t)
	k := kind("work", "q")
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	put(t, tx, k, args{N: 1})
	put(t, pool, k, args{N: 2, Mode: "commit"})
	drained := drain(t, pool, table(k, func(ctx context.Context, job *task.Job[args]) error {
		if job.Args.Mode == "commit" {
			return tx.Commit(ctx)
		}
		return nil
	}))
	require.Len(t, drained, 2)
}

func TestDrainKeysInOrder(t *testing.T) {
	t.Parallel()
	pool := testdb.Migrated(t)
	k := kind("work", "q", func(k *taskimpl.Kind[args]) {
		k.Order = []string{"mode"}
		k.Policy.Base, k.Policy.Max = time.Hour, time.Hour
	})
	put(t, pool, k, args{N: 1, Mode: "a"}, args{N: 2, Mode: "a"}, args{N: 3, Mode: "b"}, args{N: 4, Mode: "b"})
	// More keys than one claim looks after.
	for i := range 600 {
		put(t, pool, k, args{N: 10 + i, Mode: fmt.Sprint(i)})
	}
	drained := drain(t, pool, table(k, func(_ context.Context, job *task.Job[args]) error {
		if job.Args.N == 3 {
			return task.Transient(errors.New("later"))
		}
		return nil
	}))
	require.Len(t, drained, 603)
	require.Equal(t, store.Audit{Ready: 1, Blocked: 1, Completed: 602}, audit(t, pool))
}

func TestDrainSuspects(t *testing.T) {
	t.Parallel()
	pool := testdb.Migrated(t)
	k := kind("work", "q")
	put(t, pool, k, numbered(3, "")...)
	exec(t, pool, `UPDATE pawl.ready SET suspect = true`)
	tables := table(k, func(context.Context, *task.Job[args]) error { return nil })

	// Somebody else has one of them in hand: it is not waited for.
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), `SELECT FROM pawl.ready ORDER BY run_at LIMIT 1 FOR UPDATE`)
	require.NoError(t, err)
	require.Len(t, drain(t, pool, tables), 2)
	require.NoError(t, tx.Rollback(t.Context()))
	require.Len(t, drain(t, pool, tables), 1)
}

func TestDrainOfAPausedQueueAndOfCancelledJobs(t *testing.T) {
	t.Parallel()
	pool := testdb.Migrated(t)
	a, b := kind("a", "one"), kind("b", "two")
	put(t, pool, a, args{N: 1})
	ids := put(t, pool, b, args{N: 2}, args{N: 3})
	_, err := task.Pause(t.Context(), task.Autocommit(pool), "one")
	require.NoError(t, err)
	_, err = task.Cancel(t.Context(), task.Autocommit(pool), ids[0])
	require.NoError(t, err)
	exec(t, pool, `INSERT INTO pawl.cancel_requests VALUES ($1, now())`, ids[1])
	never := func(context.Context, *task.Job[args]) error { panic("it must not run") }
	drained := drain(t, pool, table(a, never), table(b, never))
	require.Equal(t, []string{"b 1 cancelled"}, outcomesOf(drained))
	require.NoError(t, drained[0].Err)
	require.Equal(t, store.Audit{Ready: 1, Cancelled: 2}, audit(t, pool))
}

// What is recorded is what counts: somebody cancelled the job while it failed.
func TestDrainTellsWhatWasRecorded(t *testing.T) {
	t.Parallel()
	pool := testdb.Migrated(t)
	k := kind("work", "q")
	put(t, pool, k, args{N: 1}, args{N: 2})
	drained := drain(t, pool, table(k, func(ctx context.Context, job *task.Job[args]) error {
		if job.Args.N == 2 { // its lease is taken
			_, err := pool.Exec(ctx, `DELETE FROM pawl.leases`)
			return err
		}
		_, err := task.Cancel(ctx, task.Autocommit(pool), job.ID)
		return task.Transient(errors.Join(errors.New("busy"), err))
	}))
	require.Equal(t, []string{"work 1 cancelled", "work 1 refused"}, outcomesOf(drained))
	require.Zero(t, drained[0].After)
}

func TestDrainOfATransactionalTask(t *testing.T) {
	t.Parallel()
	pool := testdb.Migrated(t)
	exec(t, pool, `CREATE TABLE done (n int)`)
	k := kind("work", "q")
	put(t, pool, k, args{N: 1}, args{N: 2, Mode: "fail"})
	failure := errors.New("no")
	drained := drain(t, pool, taskimpl.Table(taskimpl.TxRow(k, func(ctx context.Context, tx pgx.Tx, job *task.Job[args]) error {
		_, err := tx.Exec(ctx, `INSERT INTO done VALUES ($1)`, job.Args.N)
		if job.Args.Mode == "fail" {
			err = task.Permanent(failure)
		}
		return err
	})))
	require.Equal(t, []string{"work 1 completed", "work 1 dead"}, outcomesOf(drained))
	require.ErrorIs(t, drained[1].Err, failure)
	require.Equal(t, 1, query[int](t, pool, `SELECT sum(n)::int FROM done`))
}

func TestDrainOutlivesALease(t *testing.T) {
	t.Parallel()
	pool := testdb.Migrated(t)
	k := kind("work", "q")
	put(t, pool, k, args{})
	w := drainer(t, pool, pawlrt.Config{Lease: 2 * time.Second, Tables: []task.Table{table(k, func(ctx context.Context, job *task.Job[args]) error {
		began := query[time.Time](t, pool, `SELECT expires_at FROM pawl.processes`)
		testdb.Eventually(t, slow, "the lease to be renewed twice", func() bool {
			return query[time.Time](t, pool, `SELECT expires_at FROM pawl.processes`).Sub(began) > time.Second
		})
		return ctx.Err()
	})}})
	drained, err := w.Drain(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{"work 1 completed"}, outcomesOf(drained))
}

func TestDrainEndsWithItsContext(t *testing.T) {
	t.Parallel()
	pool := testdb.Migrated(t)
	k := kind("work", "q")
	put(t, pool, k, numbered(3, "")...)
	reason := errors.New("the tick is over")
	ctx, end := context.WithCancelCause(t.Context())
	w := drainer(t, pool, pawlrt.Config{SoftLimit: time.Millisecond, Tables: []task.Table{table(k, func(ctx context.Context, job *task.Job[args]) error {
		if job.Args.N == 0 {
			return nil
		}
		end(reason)
		<-ctx.Done()
		return context.Cause(ctx)
	})}})
	drained, err := w.Drain(ctx)
	require.ErrorIs(t, err, reason)
	require.Equal(t, []string{"work 1 completed", "work 1 given back"}, outcomesOf(drained))
	require.ErrorIs(t, drained[1].Err, task.ErrShutdown)
	require.Equal(t, store.Audit{Ready: 2, Completed: 1}, audit(t, pool))

	drained, err = drainer(t, pool, pawlrt.Config{Tables: []task.Table{table(k, nil)}}).Drain(ctx)
	require.ErrorIs(t, err, context.Canceled)
	require.Empty(t, drained)
}

func TestDrainSaysWhatStandsInItsWay(t *testing.T) {
	t.Parallel()
	empty := testdb.New(t)
	k := kind("work", "q")
	_, err := drainer(t, empty, pawlrt.Config{Tables: []task.Table{table(k, nil)}}).Drain(t.Context())
	require.ErrorIs(t, err, migrations.ErrBehind)

	pool := testdb.Migrated(t)
	put(t, pool, k, args{}, args{})
	drained, err := drainer(t, pool, pawlrt.Config{Tables: []task.Table{table(k, func(ctx context.Context, _ *task.Job[args]) error {
		_, err := pool.Exec(ctx, `ALTER FUNCTION pawl.take_turns RENAME TO take_turns_away; ALTER FUNCTION pawl.claim RENAME TO claim_away`)
		return err
	})}}).Drain(t.Context())
	require.ErrorContains(t, err, "42883")
	require.Equal(t, []string{"work 1 completed"}, outcomesOf(drained), "what was done is told")
}

// Several drains at once share the work.
func TestDrainsSideBySide(t *testing.T) {
	t.Parallel()
	pool := testdb.Migrated(t)
	k := kind("work", "q")
	put(t, pool, k, numbered(100, "")...)
	all := make(chan []pawlrt.Drained)
	for range 3 {
		go func() {
			w, err := pawlrt.New(pool, pawlrt.Config{Logger: slog.New(slog.DiscardHandler),
				Tables: []task.Table{table(k, func(context.Context, *task.Job[args]) error { return nil })}})
			if err != nil {
				panic(err)
			}
			drained, err := w.Drain(context.Background())
			if err != nil {
				panic(err)
			}
			all <- drained
		}()
	}
	seen := make(map[uuid.UUID]bool)
	for range 3 {
		for _, d := range receive(t, all, "a drain") {
			require.False(t, seen[d.ID])
			seen[d.ID] = true
		}
	}
	require.Len(t, seen, 100)
}
