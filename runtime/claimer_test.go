package runtime_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/pawlgo/pawl/internal/store"
	"github.com/pawlgo/pawl/internal/testdb"
	pawlrt "github.com/pawlgo/pawl/runtime"
	"github.com/pawlgo/pawl/task"
	"github.com/pawlgo/pawl/task/taskimpl"
)

// hold is a tracer that keeps statements of claims from being sent while it is
// closed, and knows of how many queues each was.
type hold struct {
	mu     sync.Mutex
	opened chan struct{} // guarded by mu; closed while they may pass
	sizes  []int         // guarded by mu; queues of each
	held   atomic.Int64  // those that wait
}

func (h *hold) shut() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.opened = make(chan struct{})
}

func (h *hold) open() {
	h.mu.Lock()
	defer h.mu.Unlock()
	close(h.opened)
}

func (h *hold) largest() (most int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, n := range h.sizes {
		most = max(most, n)
	}
	return most
}

func (h *hold) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	return ctx
}
func (h *hold) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData)     {}
func (h *hold) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}
func (h *hold) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData)     {}

func (h *hold) TraceBatchStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceBatchStartData) context.Context {
	q := data.Batch.QueuedQueries[1]
	if !isClaim(q.SQL) {
		return ctx
	}
	h.mu.Lock()
	h.sizes = append(h.sizes, len(q.Arguments[1].([]string)))
	opened := h.opened
	h.mu.Unlock()
	if opened != nil {
		h.held.Add(1)
		<-opened
		h.held.Add(-1)
	}
	return ctx
}

// crowd is a worker of many queues whose claims a hold can keep, and the most that
// ran at once in one of them.
func crowd(t *testing.T, queues int, h *hold, handler func(*task.Job[args]) error) (pool *pgxpool.Pool, kinds []*taskimpl.Kind[args], config pawlrt.Config, most *atomic.Int64) {
	t.Helper()
	pool = testdb.Migrated(t, testdb.MaxConns(4), testdb.Configure(func(c *pgxpool.Config) { c.ConnConfig.Tracer = h }))
	most = new(atomic.Int64)
	config = pawlrt.Config{Queues: make(map[string]pawlrt.Queue)}
	for i := range queues {
		k := kind(fmt.Sprint("k", i), fmt.Sprint("q", i))
		kinds = append(kinds, k)
		config.Queues[k.Queue] = pawlrt.Queue{Concurrency: 2}
		running := new(atomic.Int64)
		config.Tables = append(config.Tables, table(k, func(_ context.Context, job *task.Job[args]) error {
			defer running.Add(-1)
			for n := running.Add(1); ; {
				if last := most.Load(); n <= last || most.CompareAndSwap(last, n) {
					break
				}
			}
			return handler(job)
		}))
	}
	return pool, kinds, config, most
}

// Many queues with a few slots each share statements, and none gets more than it has
// slots, or what is another's.
func TestManyQueues(t *testing.T) {
	t.Parallel()
	const queues, each = 40, 30
	h := &hold{}
	pool, kinds, config, most := crowd(t, queues, h, func(job *task.Job[args]) error {
		if job.Queue != "q"+fmt.Sprint(job.Args.N) {
			return task.Permanent(fmt.Errorf("a job of queue %d runs in %s", job.Args.N, job.Queue))
		}
		return nil
	})
	for i, k := range kinds {
		all := make([]args, each)
		for n := range all {
			all[n] = args{N: i}
		}
		put(t, pool, k, all...)
	}
	w := start(t, pool, config)
	require.Equal(t, store.Audit{Completed: queues * each}, settled(t, pool, queues*each))
	require.NoError(t, w.shutdown(t))
	require.LessOrEqual(t, most.Load(), int64(2))
	require.Greater(t, h.largest(), 1)
}

// What claims take that are under way when a shutdown begins is not lost.
func TestShutdownDuringClaims(t *testing.T) {
	t.Parallel()
	const queues = 30
	h := &hold{}
	pool, kinds, config, _ := crowd(t, queues, h, func(*task.Job[args]) error { return nil })
	h.shut()
	for _, k := range kinds {
		put(t, pool, k, args{})
	}
	w := start(t, pool, config)
	testdb.Eventually(t, slow, "claims to be under way", func() bool { return h.held.Load() == 4 })
	w.stop()
	h.open()
	require.NoError(t, w.shutdown(t))
	require.Zero(t, query[int](t, pool, `SELECT count(*) FROM pawl.leases`))
	again := start(t, pool, config)
	require.Equal(t, store.Audit{Completed: queues}, settled(t, pool, queues))
	require.NoError(t, again.shutdown(t))
}
