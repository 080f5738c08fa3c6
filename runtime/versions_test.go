package runtime_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawlgo/pawl/internal/store"
	"github.com/pawlgo/pawl/internal/testdb"
	pawlrt "github.com/pawlgo/pawl/runtime"
	"github.com/pawlgo/pawl/task"
	"github.com/pawlgo/pawl/task/taskimpl"
)

// A worker never takes what it cannot decode: the row waits, without an attempt
// spent, is counted as stranded, and runs as soon as somebody knows it.
func TestUnknownVersionWaits(t *testing.T) {
	t.Parallel()
	pool := testdb.Migrated(t)
	old, current := versions("work", 1), versions("work", 1, 2)
	handle := func(context.Context, *task.Job[args]) error { return nil }
	_, err := taskimpl.EnqueueMany(t.Context(), task.Autocommit(pool), current, make([]args, 50), nil)
	require.NoError(t, err)
	_, err = taskimpl.EnqueueMany(t.Context(), task.Autocommit(pool), old, make([]args, 30), nil)
	require.NoError(t, err)

	config := pawlrt.Config{Lease: 500 * time.Millisecond, Poll: 20 * time.Millisecond}
	config.Tables = []task.Table{table(old, handle)}
	before := start(t, pool, config)
	testdb.Eventually(t, 20*time.Second, "the old worker to see what it cannot take", func() bool {
		s := before.Stats()
		return s.Completed == 30 && s.Stranded == 50
	})
	require.Equal(t, store.Audit{Completed: 30, Ready: 50}, audit(t, pool))

	config.Tables = []task.Table{table(current, handle)}
	after := start(t, pool, config)
	require.Equal(t, store.Audit{Completed: 80}, settled(t, pool, 80))
	require.EqualValues(t, 50, after.Stats().Completed)
	var attempts int
	require.NoError(t, pool.QueryRow(t.Context(), `SELECT max(attempts) FROM pawl.outcomes`).Scan(&attempts))
	require.Equal(t, 1, attempts)
	testdb.Eventually(t, 20*time.Second, "nothing to be stranded", func() bool { return before.Stats().Stranded == 0 })
}
