package runtime_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/pawlgo/pawl/internal/store"
	"github.com/pawlgo/pawl/internal/testdb"
	pawlrt "github.com/pawlgo/pawl/runtime"
	"github.com/pawlgo/pawl/task"
	"github.com/pawlgo/pawl/task/taskimpl"
)

// Enqueues wake nobody who is awake: neither a queue that is full nor one that
// looks for work all the time.
func TestWakeOnlySleepers(t *testing.T) {
	t.Parallel()
	pool := testdb.Migrated(t, testdb.MaxConns(10))
	g := newGate()
	full, free := kind("full", "full"), kind("free", "free")
	w := start(t, pool, pawlrt.Config{
		Poll: never, Queues: map[string]pawlrt.Queue{"full": {Concurrency: 1}},
		Tables: []task.Table{table(full, g.obey), table(free, fine)},
	})
	listening(t, w)
	asleep(t, pool)
	put(t, pool, full, args{})
	g.started(t, 1)
	testdb.Eventually(t, slow, "only the other queue to sleep", func() bool {
		return query[string](t, pool, `SELECT COALESCE(string_agg(queue, ' '), '') FROM pawl.sleepers`) == "free"
	})
	before := w.Stats().Wakeups
	for range 20 {
		put(t, pool, full, args{})
	}
	put(t, pool, free, args{}) // notifications come in order
	testdb.Eventually(t, slow, "a wake-up of the other queue", func() bool { return w.Stats().Wakeups > before })
	require.Equal(t, before+1, w.Stats().Wakeups)

	// Many callers at once, and a worker that keeps up with them.
	writers, _ := errgroup.WithContext(t.Context())
	const each = 100
	for range 8 {
		writers.Go(func() error {
			for range each {
				if _, err := taskimpl.Enqueue(t.Context(), task.Autocommit(pool), free, args{}, nil); err != nil {
					return err
				}
			}
			return nil
		})
	}
	require.NoError(t, writers.Wait())
	testdb.Eventually(t, 2*slow, "their jobs to end", func() bool { return w.Stats().Completed == 8*each+1 })
	require.Less(t, w.Stats().Wakeups-before, int64(8*each/4))
	g.open()
	require.Equal(t, store.Audit{Completed: 8*each + 22}, settled(t, pool, 8*each+22))
}

// A job whose transaction was under way as the queue fell asleep is found by the
// poll.
func TestEnqueuedBeforeSleep(t *testing.T) {
	t.Parallel()
	pool := testdb.Migrated(t)
	k := kind("k", "q")
	w := start(t, pool, pawlrt.Config{Poll: 300 * time.Millisecond, Tables: []task.Table{table(k, fine)}})
	listening(t, w)
	put(t, pool, k, args{})
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	defer tx.Rollback(t.Context())
	exec(t, pool, `DELETE FROM pawl.sleepers`) // as if nobody had slept yet
	_, err = taskimpl.Enqueue(t.Context(), tx, k, args{}, nil)
	require.NoError(t, err)
	require.NoError(t, tx.Commit(t.Context()))
	require.Equal(t, store.Audit{Completed: 2}, settled(t, pool, 2))
}

// What a process that died asked for is forgotten, as is what one that stopped
// did.
func TestSleepersGo(t *testing.T) {
	t.Parallel()
	pool := testdb.Migrated(t)
	k := kind("k", "q")
	exec(t, pool, `INSERT INTO pawl.sleepers VALUES ('q', gen_random_uuid())`)
	config := pawlrt.Config{Lease: 200 * time.Millisecond, Tables: []task.Table{table(k, fine)}}
	w := start(t, pool, config)
	testdb.Eventually(t, slow, "the dead one's to go", func() bool {
		return query[int](t, pool, `SELECT count(*) FROM pawl.sleepers s WHERE NOT EXISTS (SELECT FROM pawl.processes p WHERE p.id = s.process)`) == 0
	})
	asleep(t, pool)
	require.NoError(t, w.shutdown(t))
	require.Zero(t, query[int](t, pool, `SELECT count(*) FROM pawl.sleepers`))
}
