package runtime_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pawlgo/pawl/internal/testdb"
	pawlrt "github.com/pawlgo/pawl/runtime"
	"github.com/pawlgo/pawl/task"
	"github.com/pawlgo/pawl/task/taskimpl"
)

const sends = "messaging.client.operation.duration"

// An application that asks for it has its calls measured, those that fail
// included, and nothing else is.
func TestSends(t *testing.T) {
	t.Parallel()
	pool, m := testdb.Migrated(t), newMeters()
	metrics, err := task.NewMetrics(m)
	require.NoError(t, err)
	ctx, k, e := metrics.Context(t.Context()), kind("k", "q"), event()
	require.NoError(t, pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		_, err := taskimpl.EnqueueMany(ctx, tx, k, numbered(5, ""), nil)
		require.NoError(t, err)
		_, err = taskimpl.EnqueueMany(ctx, tx, k, nil, nil) // no call
		require.NoError(t, err)
		_, err = taskimpl.Publish(ctx, tx, e, "1", args{}, nil)
		return err
	}))
	_, err = taskimpl.Publish(ctx, task.Autocommit(pool), e, "", args{}, nil)
	require.ErrorIs(t, err, task.ErrInvalidArgs)
	_, err = taskimpl.Enqueue(ctx, task.InSchema(task.Autocommit(pool), "nowhere"), k, args{}, nil)
	require.ErrorIs(t, err, task.ErrNotMigrated)
	ended, end := context.WithCancel(ctx)
	end()
	_, err = taskimpl.Enqueue(ended, task.Autocommit(pool), k, args{}, nil)
	require.ErrorIs(t, err, context.Canceled)

	points := m.collect(t)
	require.Len(t, points, 4)
	for _, want := range []struct {
		labels map[string]string
		n      float64
	}{
		{labels("type", "send", "queue", "q", "kind", "k"), 3},
		{labels("type", "send", "queue", "q", "kind", "k", "error", "unknown"), 2},
		{labels("type", "send", "kind", "trip.completed"), 2},
		{labels("type", "send", "kind", "trip.completed", "error", "invalid"), 1},
	} {
		require.Equal(t, want.n, sum(points, sends, want.labels), want.labels)
	}

	put(t, pool, k, args{})
	require.ElementsMatch(t, points, m.collect(t), "a context without it")
	_, err = task.NewMetrics(nil)
	require.ErrorContains(t, err, "leave out")
	require.Equal(t, t.Context(), (*task.Metrics)(nil).Context(t.Context()))
}

// What handlers of a worker without a provider enqueue is measured where the
// context of its Run says so.
func TestSendsByTheContextOfRun(t *testing.T) {
	t.Parallel()
	pool, m := testdb.Migrated(t), newMeters()
	metrics, err := task.NewMetrics(m)
	require.NoError(t, err)
	s := &stage{pool: pool}
	k := kind("k", "q")
	put(t, pool, k, args{})
	ctx, stop := context.WithCancel(metrics.Context(t.Context()))
	defer stop()
	done := make(chan error, 1)
	w, err := pawlrt.New(pool, pawlrt.Config{Tables: []task.Table{table(k, enqueues(s))}})
	require.NoError(t, err)
	go func() { done <- w.Run(ctx) }()
	settled(t, pool, 1)
	stop()
	require.NoError(t, receive(t, done, "the worker"))
	require.Equal(t, 2.0, sum(m.collect(t), sends, labels("type", "send", "queue", "other")))
}
