package runtime_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/pawlgo/pawl/internal/store"
	"github.com/pawlgo/pawl/internal/testdb"
	pawlrt "github.com/pawlgo/pawl/runtime"
	"github.com/pawlgo/pawl/task"
)

func pause(t *testing.T, pool *pgxpool.Pool, queue string) {
	t.Helper()
	changed, err := task.Pause(t.Context(), task.Autocommit(pool), queue)
	require.NoError(t, err)
	require.True(t, changed)
}

func resume(t *testing.T, pool *pgxpool.Pool, queue string) {
	t.Helper()
	changed, err := task.Resume(t.Context(), task.Autocommit(pool), queue)
	require.NoError(t, err)
	require.True(t, changed)
}

// A pause holds in every process from its commit on, what runs goes on, and
// nothing is lost of what becomes due meanwhile. To resume wakes them all.
func TestPause(t *testing.T) {
	t.Parallel()
	pool := testdb.Migrated(t)
	g := newGate()
	paused, other := kind("k", "q"), kind("o", "other")
	handle := func(ctx context.Context, job *task.Job[args]) error {
		if job.Args.Mode == "hold" {
			if err := g.obey(ctx, job); err != nil {
				return err
			}
		}
		if job.Args.Mode == "fail" && job.Attempt == 1 {
			g.arrive(job)
			<-g.opened
			return task.Transient(errors.New("x")) // due while the queue is paused
		}
		return nil
	}
	config := pawlrt.Config{Poll: never, Tables: []task.Table{table(paused, handle), table(other, handle)}}
	workers := []*running{start(t, pool, config), start(t, pool, config)}
	for _, w := range workers {
		listening(t, w)
	}
	put(t, pool, paused, append(numbered(5, "hold"), numbered(5, "fail")...)...)
	g.started(t, 10)

	pause(t, pool, "q")
	g.open()
	testdb.Eventually(t, slow, "what ran to end", func() bool { a := audit(t, pool); return a.Completed == 5 && a.Ready == 5 })
	put(t, pool, paused, numbered(20, "")...)
	put(t, pool, other, numbered(20, "")...)
	testdb.Eventually(t, slow, "the other queue's jobs to end, and both to know", func() bool {
		known := true
		for _, w := range workers {
			known = known && w.Stats().Queues["q"].Paused && !w.Stats().Queues["other"].Paused
		}
		return known && audit(t, pool).Completed == 25
	})
	for _, w := range workers {
		idle(t, w)
	}
	before := workers[0].Stats().Claims + workers[1].Stats().Claims
	for range 50 {
		put(t, pool, paused, args{})
	}
	for _, w := range workers {
		idle(t, w)
	}
	require.LessOrEqual(t, workers[0].Stats().Claims+workers[1].Stats().Claims, before+2, "claims for what is paused")
	require.Equal(t, store.Audit{Completed: 25, Ready: 75}, audit(t, pool))

	// A new worker obeys too.
	third := start(t, pool, config)
	listening(t, third)
	testdb.Eventually(t, slow, "the new worker to know", func() bool { return third.Stats().Queues["q"].Paused })
	resume(t, pool, "q")
	require.Equal(t, store.Audit{Completed: 100}, settled(t, pool, 100))
	require.False(t, workers[0].Stats().Queues["q"].Paused)
}

// To resume starts jobs at once, and a pause that is rolled back never was.
func TestResumeWakes(t *testing.T) {
	t.Parallel()
	pool := testdb.Migrated(t)
	k := kind("k", "q")
	started := make(chan struct{}, 10)
	w := start(t, pool, pawlrt.Config{Poll: never, Tables: []task.Table{table(k, func(context.Context, *task.Job[args]) error {
		started <- struct{}{}
		return nil
	})}})
	listening(t, w)
	best := never
	for range 4 {
		pause(t, pool, "q")
		put(t, pool, k, args{})
		testdb.Eventually(t, slow, "the worker to know", func() bool { return w.Stats().Queues["q"].Paused })
		require.Empty(t, started)
		begun := time.Now()
		resume(t, pool, "q")
		receive(t, started, "the job")
		best = min(best, time.Since(begun))
	}
	require.Less(t, best, 500*time.Millisecond)

	undone := errors.New("rolled back")
	err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		if _, err := task.Pause(t.Context(), tx, "q"); err != nil {
			return err
		}
		put(t, pool, k, args{}) // by somebody else
		receive(t, started, "the job beside an open pause")
		return undone
	})
	require.ErrorIs(t, err, undone)
	pause(t, pool, "nobody_knows_it")
	put(t, pool, k, args{})
	receive(t, started, "the job of a queue that is not paused")
}

// Without the listener a paused queue costs its polls, and goes on with one.
func TestPausePollOnly(t *testing.T) {
	t.Parallel()
	pool := testdb.Migrated(t)
	k := kind("k", "q")
	const poll = 100 * time.Millisecond
	pause(t, pool, "q")
	w := start(t, pool, pawlrt.Config{Poll: poll, PollOnly: true, Tables: []task.Table{table(k, func(context.Context, *task.Job[args]) error { return nil })}})
	put(t, pool, k, numbered(50, "")...)
	testdb.Eventually(t, slow, "a claim", func() bool { return w.Stats().Claims > 0 })
	begun, before := time.Now(), w.Stats().Claims
	testdb.Eventually(t, slow, "some polls", func() bool { return w.Stats().Claims >= before+5 })
	require.LessOrEqual(t, w.Stats().Claims-before, int64(time.Since(begun)/poll)+2)
	require.Equal(t, store.Audit{Ready: 50}, audit(t, pool))
	resume(t, pool, "q")
	require.Equal(t, store.Audit{Completed: 50}, settled(t, pool, 50))
}
