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

// Somebody has a row locked of a job whose lease was lost: the queue waits for
// it without spinning, and goes on with the rest.
func TestLockedSuspect(t *testing.T) {
	t.Parallel()
	pool := testdb.Migrated(t)
	k := kind("k", "q")
	ids := put(t, pool, k, args{N: 1})
	exec(t, pool, `UPDATE pawl.ready SET suspect = true`)
	lock, err := pool.Begin(t.Context())
	require.NoError(t, err)
	defer lock.Rollback(context.WithoutCancel(t.Context()))
	_, err = lock.Exec(t.Context(), `SELECT FROM pawl.ready WHERE id = $1 FOR UPDATE`, ids[0])
	require.NoError(t, err)
	w := start(t, pool, pawlrt.Config{Tables: []task.Table{table(k, func(context.Context, *task.Job[args]) error { return nil })}})
	put(t, pool, k, numbered(5, "")...)
	testdb.Eventually(t, slow, "the rest", func() bool { return w.Stats().Completed == 5 })
	before, begun := w.Stats().Claims, time.Now()
	testdb.Eventually(t, slow, "a second to pass", func() bool { return time.Since(begun) > time.Second })
	require.Less(t, w.Stats().Claims-before, int64(60))
	require.NoError(t, lock.Rollback(t.Context()))
	require.Equal(t, store.Audit{Completed: 6}, settled(t, pool, 6))
}

// The database refuses how one attempt ended, for as long as it has a constraint
// too many: the others are saved, and this one is when that is gone.
func TestRefusedSettlement(t *testing.T) {
	t.Parallel()
	pool := testdb.Migrated(t)
	good, bad := kind("good", "good"), kind("bad", "bad")
	handle := func(context.Context, *task.Job[args]) error { return nil }
	exec(t, pool, `ALTER TABLE pawl.outcomes ADD CONSTRAINT odd CHECK (queue <> 'bad')`)
	w := start(t, pool, pawlrt.Config{Tables: []task.Table{table(good, handle), table(bad, handle)}})
	put(t, pool, bad, args{N: 1})
	put(t, pool, good, numbered(20, "")...)
	testdb.Eventually(t, slow, "the others to be saved", func() bool { return w.Stats().Completed == 20 && w.Stats().SettleErrors > 0 })
	exec(t, pool, `ALTER TABLE pawl.outcomes DROP CONSTRAINT odd`)
	require.Equal(t, store.Audit{Completed: 21}, settled(t, pool, 21))
	require.NoError(t, w.shutdown(t))
}

// A claim that commits when its worker has long given up on the answer is found:
// the worker does not know of the lease that the database says it has.
func TestUnknownLease(t *testing.T) {
	t.Parallel()
	pool := testdb.Migrated(t)
	k := kind("k", "q")
	w := start(t, pool, pawlrt.Config{Lease: 500 * time.Millisecond, Tables: []task.Table{table(k, func(context.Context, *task.Job[args]) error { return nil })}})
	testdb.Eventually(t, slow, "the worker to be registered", func() bool { return query[int](t, pool, `SELECT count(*) FROM pawl.processes`) == 1 })
	err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		if _, err := taskimpl.EnqueueMany(t.Context(), tx, k, numbered(3, ""), nil); err != nil {
			return err
		}
		_, err := tx.Exec(t.Context(), `SELECT pawl.claim(p.id, '{q}', '{10}', ARRAY[gen_random_uuid()], p.capabilities, ARRAY[cardinality(p.capabilities)], array_fill('-infinity'::timestamptz, '{4}')) FROM pawl.processes p`)
		return err
	})
	require.NoError(t, err)
	require.Equal(t, store.Audit{Completed: 3}, settled(t, pool, 3))
	require.Equal(t, 1, query[int](t, pool, `SELECT max(attempts) FROM pawl.outcomes`), "given back with their attempt")
	require.Zero(t, w.Stats().Refused)
}
