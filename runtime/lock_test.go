package runtime_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/pawlgo/pawl/internal/store"
	"github.com/pawlgo/pawl/internal/testdb"
	pawlrt "github.com/pawlgo/pawl/runtime"
	"github.com/pawlgo/pawl/task"
	"github.com/pawlgo/pawl/task/taskimpl"
)

// lockLeases locks the table that every claim writes, as a migration might, and
// returns when a claim waits for it.
func lockLeases(t *testing.T, pool *pgxpool.Pool) pgx.Tx {
	t.Helper()
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) })
	_, err = tx.Exec(t.Context(), `LOCK TABLE pawl.leases`)
	require.NoError(t, err)
	return tx
}

func waiting(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	testdb.Eventually(t, slow, "a claim to wait for the lock", func() bool {
		return query[int](t, pool, `SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'pawl.leases'::regclass`) > 0
	})
}

// A claim that waited for a lock says nothing of what a scan costs: what commits
// late after it is found as soon as before.
func TestLateCommitAfterALock(t *testing.T) {
	t.Parallel()
	pool := testdb.Migrated(t)
	k := kind("k", "q")
	w := start(t, pool, pawlrt.Config{Poll: 50 * time.Millisecond, Tables: []task.Table{table(k, func(context.Context, *task.Job[args]) error { return nil })}})
	late, err := pool.Begin(t.Context())
	require.NoError(t, err)
	_, err = taskimpl.Enqueue(t.Context(), late, k, args{N: 1}, nil)
	require.NoError(t, err)

	lock := lockLeases(t, pool)
	put(t, pool, k, args{N: 2})
	waiting(t, pool)
	held := time.Now()
	testdb.Eventually(t, slow, "the lock to be held for a second", func() bool { return time.Since(held) > time.Second })
	require.NoError(t, lock.Commit(t.Context()))
	testdb.Eventually(t, slow, "the claim to have gone on", func() bool { return w.Stats().Completed == 1 })

	require.NoError(t, late.Commit(t.Context()))
	committed := time.Now()
	require.Equal(t, store.Audit{Completed: 2}, settled(t, pool, 2))
	require.Less(t, time.Since(committed), 5*time.Second)
}

// A claim that waits for a lock does not keep a shutdown from its limit, and
// takes nothing when the lock is free at last.
func TestShutdownWhileLocked(t *testing.T) {
	t.Parallel()
	pool := testdb.Migrated(t)
	k := kind("k", "q")
	w := start(t, pool, pawlrt.Config{SoftLimit: 100 * time.Millisecond, HardLimit: time.Second, Tables: []task.Table{table(k, func(context.Context, *task.Job[args]) error { return nil })}})
	lock := lockLeases(t, pool)
	put(t, pool, k, args{N: 1})
	waiting(t, pool)
	begun := time.Now()
	require.NoError(t, w.shutdown(t))
	require.Less(t, time.Since(begun), 4*time.Second)
	require.NoError(t, lock.Commit(t.Context()))
	require.Equal(t, store.Audit{Ready: 1}, audit(t, pool))
}
