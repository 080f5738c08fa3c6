package runtime_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawlgo/pawl/internal/store"
	"github.com/pawlgo/pawl/internal/testdb"
	"github.com/pawlgo/pawl/migrations"
	pawlrt "github.com/pawlgo/pawl/runtime"
	"github.com/pawlgo/pawl/task"
)

// What handlers do after the shutdown has begun is saved before Run returns.
func TestShutdownSavesWhatEnds(t *testing.T) {
	t.Parallel()
	pool := testdb.Migrated(t)
	g := newGate()
	k := kind("k", "q")
	w := start(t, pool, pawlrt.Config{Tables: []task.Table{table(k, g.obey)}, Queues: map[string]pawlrt.Queue{"q": {Concurrency: 50}}})
	put(t, pool, k, numbered(60, "")...)
	g.started(t, 50)
	w.stop()
	time.AfterFunc(100*time.Millisecond, g.open)
	require.NoError(t, w.shutdown(t))
	require.Equal(t, store.Audit{Completed: 50, Ready: 10}, audit(t, pool))
	require.EqualValues(t, 50, w.Stats().Completed)
	require.Zero(t, query[int](t, pool, `SELECT count(*) FROM pawl.processes`))
	require.Zero(t, query[int](t, pool, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND query ILIKE 'LISTEN%'`))
}

// At the soft limit the handlers' contexts end, and who returns for that reason
// gives its attempt back.
func TestSoftLimit(t *testing.T) {
	t.Parallel()
	pool := testdb.Migrated(t)
	g := newGate()
	causes := make(chan error, 10)
	k := kind("k", "q")
	w := start(t, pool, pawlrt.Config{SoftLimit: 100 * time.Millisecond, HardLimit: time.Minute, Tables: []task.Table{table(k, func(ctx context.Context, job *task.Job[args]) error {
		err := g.obey(ctx, job)
		causes <- context.Cause(ctx)
		if job.Args.Mode == "failed" {
			return task.Permanent(err)
		}
		return err
	})}})
	put(t, pool, k, args{N: 1}, args{N: 2}, args{N: 3, Mode: "failed"})
	g.started(t, 3)
	require.NoError(t, w.shutdown(t))
	for range 3 {
		require.ErrorIs(t, <-causes, task.ErrShutdown)
	}
	require.Equal(t, store.Audit{Ready: 2, Dead: 1}, audit(t, pool))
	require.Zero(t, query[int](t, pool, `SELECT sum(attempts) FROM pawl.ready`))
	require.EqualValues(t, 2, w.Stats().GivenBack)

	g.open()
	start(t, pool, pawlrt.Config{Tables: []task.Table{table(k, g.obey)}})
	require.Equal(t, store.Audit{Completed: 2, Dead: 1}, settled(t, pool, 3))
	require.Equal(t, 1, query[int](t, pool, `SELECT max(attempts) FROM pawl.outcomes`))
}

// At the hard limit Run returns in any case and names what still runs; another
// worker has that within a lease, and what the first still reports is void.
func TestHardLimit(t *testing.T) {
	t.Parallel()
	pool := testdb.Migrated(t)
	g := newGate()
	k := kind("stubborn", "q")
	config := pawlrt.Config{Lease: time.Second, SoftLimit: 50 * time.Millisecond, HardLimit: 300 * time.Millisecond, Tables: []task.Table{table(k, g.ignore)}}
	w := start(t, pool, config)
	ids := put(t, pool, k, args{N: 7})
	g.started(t, 1)
	begun := time.Now()
	err := w.shutdown(t)
	took := time.Since(begun)
	still, ok := errors.AsType[*pawlrt.StillRunning](err)
	require.True(t, ok, "%v", err)
	require.Len(t, still.Jobs, 1)
	require.Equal(t, ids[0], still.Jobs[0].ID)
	require.Equal(t, []any{"stubborn", "q", 1}, []any{still.Jobs[0].Kind, still.Jobs[0].Queue, still.Jobs[0].Attempt})
	require.ErrorContains(t, err, ids[0].String())
	require.GreaterOrEqual(t, took, 300*time.Millisecond)
	require.Less(t, took, slow)
	require.Equal(t, store.Audit{Leased: 1}, audit(t, pool))

	second := start(t, pool, config)
	g.started(t, 1)
	g.open()
	require.Equal(t, store.Audit{Completed: 1}, settled(t, pool, 1))
	require.Equal(t, 2, query[int](t, pool, `SELECT attempts FROM pawl.outcomes`))
	require.EqualValues(t, 1, second.Stats().Expirations)
}

func TestRunErrors(t *testing.T) {
	t.Parallel()
	pool := testdb.New(t)
	k := kind("k", "q")
	newWorker := func() *pawlrt.Worker {
		w, err := pawlrt.New(pool, pawlrt.Config{Tables: []task.Table{table(k, func(context.Context, *task.Job[args]) error { return nil })}})
		require.NoError(t, err)
		return w
	}
	w := newWorker()
	require.ErrorIs(t, w.Run(t.Context()), migrations.ErrBehind)
	require.ErrorIs(t, w.Run(t.Context()), pawlrt.ErrAlreadyRun)
	require.NoError(t, migrations.Up(t.Context(), pool, migrations.Options{}))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, newWorker().Run(ctx), context.Canceled)
	exec(t, pool, `INSERT INTO pawl.migrations VALUES ($1, 'next')`, migrations.Version()+1)
	require.ErrorIs(t, newWorker().Run(t.Context()), migrations.ErrNewer)
}

// A shutdown while the database is away is bounded by its limits, and says that
// something was not saved.
func TestShutdownWithoutDatabase(t *testing.T) {
	t.Parallel()
	server := testdb.Private(t, nil)
	pool := testdb.On(t, server)
	require.NoError(t, migrations.Up(t.Context(), pool, migrations.Options{}))
	g := newGate()
	k := kind("k", "q")
	w := start(t, pool, pawlrt.Config{Lease: 2 * time.Second, SoftLimit: 100 * time.Millisecond, HardLimit: time.Second, Tables: []task.Table{table(k, g.obey)}})
	put(t, pool, k, numbered(3, "")...)
	g.started(t, 3)
	require.NoError(t, server.Stop(t.Context()))
	g.open()
	begun := time.Now()
	err := w.shutdown(t)
	require.ErrorIs(t, err, pawlrt.ErrUnsaved)
	require.ErrorContains(t, err, "3 attempts")
	require.Less(t, time.Since(begun), slow)
}
