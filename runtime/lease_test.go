package runtime_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

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

// renewed waits until a process has renewed its lease for that long.
func renewed(t *testing.T, db task.Querier, d time.Duration) {
	t.Helper()
	testdb.Eventually(t, d+slow, "the lease to be renewed", func() bool {
		return query[bool](t, db, `SELECT bool_and(expires_at - started_at > lease + $1::bigint * interval '1 microsecond') FROM pawl.processes`, d.Microseconds())
	})
}

// A job that is several leases long runs once, with a live peer beside it.
func TestLongJobOverAShortLease(t *testing.T) {
	t.Parallel()
	pool := testdb.Migrated(t)
	g := newGate()
	k := kind("k", "q")
	config := pawlrt.Config{Lease: 2 * time.Second, Poll: 50 * time.Millisecond, Tables: []task.Table{table(k, g.obey)}}
	first, second := start(t, pool, config), start(t, pool, config)
	put(t, pool, k, numbered(4, "")...)
	g.started(t, 4)
	renewed(t, pool, 5*time.Second)
	g.open()
	require.Equal(t, store.Audit{Completed: 4}, settled(t, pool, 4))
	require.Equal(t, 1, g.most())
	require.Zero(t, first.Stats().LeasesLost+second.Stats().LeasesLost)
	require.Zero(t, first.Stats().Expirations+second.Stats().Expirations)
}

// Handlers that use up the user's pool do not cost the worker its leases.
func TestExhaustedPool(t *testing.T) {
	t.Parallel()
	own := testdb.Migrated(t)
	config := own.Config()
	config.MaxConns = 2
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	defer pool.Close()
	g := newGate()
	k := kind("k", "q")
	w := start(t, pool, pawlrt.Config{Lease: 1500 * time.Millisecond, Tables: []task.Table{table(k, func(ctx context.Context, job *task.Job[args]) error {
		conn, err := pool.Acquire(ctx)
		if err != nil {
			return err
		}
		defer conn.Release()
		return g.ignore(ctx, job)
	})}})
	put(t, own, k, numbered(6, "")...)
	g.started(t, 2)
	renewed(t, own, 4*time.Second)
	require.Equal(t, store.Audit{Leased: 6}, audit(t, own))
	g.open()
	require.Equal(t, store.Audit{Completed: 6}, settled(t, own, 6))
	require.NoError(t, w.shutdown(t))
	require.Zero(t, w.Stats().LeasesLost+w.Stats().Refused)
	require.Equal(t, 1, g.most())
}

// A process whose row is gone tells its handlers why, and goes on under a new
// identity, without waiting for the poll.
func TestLostSession(t *testing.T) {
	t.Parallel()
	pool := testdb.Migrated(t)
	g := newGate()
	causes := make(chan error, 10)
	k := kind("k", "q")
	w := start(t, pool, pawlrt.Config{Lease: time.Second, Poll: never, Tables: []task.Table{table(k, func(ctx context.Context, job *task.Job[args]) error {
		if job.Args.Mode == "late" && job.Attempt == 1 {
			g.arrive(job)
			<-ctx.Done()
			causes <- context.Cause(ctx)
		}
		return nil
	})}})
	listening(t, w)
	put(t, pool, k, numbered(3, "late")...)
	g.started(t, 3)
	exec(t, pool, `DELETE FROM pawl.processes`)
	put(t, pool, k, numbered(5, "")...) // a claim by nobody
	for range 3 {
		require.ErrorIs(t, receive(t, causes, "the cause"), task.ErrLeaseLost)
	}
	// The lease still stands, since nobody has taken it: what they did counts.
	require.Equal(t, store.Audit{Completed: 8}, settled(t, pool, 8))
	require.Equal(t, 1, query[int](t, pool, `SELECT max(attempts) FROM pawl.outcomes`))
	require.EqualValues(t, 1, w.Stats().LeasesLost)
	require.Zero(t, w.Stats().Refused)
}

// Somebody ends every connection of the workers, again and again: no job starts
// a second time, and none stays behind in a lease that nobody knows of.
func TestConnectionsAreCut(t *testing.T) {
	t.Parallel()
	pool := testdb.Migrated(t)
	config := pool.Config()
	config.ConnConfig.RuntimeParams["application_name"] = "victim"
	config.MaxConns = 2
	victims, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	defer victims.Close()
	g := newGate()
	k := kind("k", "q")
	var workers []*running
	for range 2 {
		workers = append(workers, start(t, victims, pawlrt.Config{
			Lease: 20 * time.Second, Poll: 20 * time.Millisecond, Logger: slog.New(slog.DiscardHandler),
			Queues: map[string]pawlrt.Queue{"q": {Concurrency: 20}},
			Tables: []task.Table{table(k, func(ctx context.Context, job *task.Job[args]) error {
				if job.Args.Mode == "hold" {
					return g.obey(ctx, job)
				}
				g.arrive(job)
				return nil
			})}}))
	}
	held := make([]args, 10)
	for i := range held {
		held[i] = args{N: 1_000_000 + i, Mode: "hold"}
	}
	put(t, pool, k, held...)
	g.started(t, 10)
	const jobs = 2000
	for from := range jobs / 100 {
		batch := numbered(100, "")
		for i := range batch {
			batch[i].N += from * 100
		}
		put(t, pool, k, batch...)
		exec(t, pool, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'victim' AND datname = current_database()`)
	}
	g.open()
	require.Equal(t, store.Audit{Completed: jobs + 10}, settled(t, pool, jobs+10))
	require.Equal(t, 1, g.most())
	for _, w := range workers {
		require.Zero(t, w.Stats().LeasesLost)
		require.Zero(t, w.Stats().Refused)
	}
}

// The server is down for longer than a lease, with handlers running in two live
// workers: none of them is started a second time, and all is as before.
func TestOutageLongerThanTheLease(t *testing.T) {
	t.Parallel()
	server := testdb.Private(t, nil)
	pool := testdb.On(t, server)
	require.NoError(t, migrations.Up(t.Context(), pool, migrations.Options{}))
	g := newGate()
	k := kind("k", "q")
	config := pawlrt.Config{
		Lease: time.Second, Poll: 50 * time.Millisecond, Logger: slog.New(slog.DiscardHandler),
		Queues: map[string]pawlrt.Queue{"q": {Concurrency: 5}},
		Tables: []task.Table{table(k, func(ctx context.Context, job *task.Job[args]) error {
			if job.Args.Mode == "hold" {
				return g.ignore(ctx, job)
			}
			return nil
		})},
	}
	workers := []*running{start(t, pool, config), start(t, pool, config)}
	put(t, pool, k, numbered(8, "hold")...)
	g.started(t, 8)
	put(t, pool, k, numbered(50, "")...)
	for _, w := range workers { // else there is nothing to connect again
		listening(t, w)
	}
	require.NoError(t, server.Stop(t.Context()))
	testdb.Eventually(t, 2*slow, "both to lose touch", func() bool {
		return workers[0].Stats().LeasesLost == 1 && workers[1].Stats().LeasesLost == 1
	})
	require.NoError(t, server.Restart(t.Context()))
	testdb.Eventually(t, 2*slow, "the database", func() bool {
		var n int
		return pool.QueryRow(t.Context(), `SELECT 1`).Scan(&n) == nil
	})
	// Both are back for longer than a lease: whoever would take the other's
	// jobs has done so.
	testdb.Eventually(t, 2*slow, "both to be steady", func() bool {
		return query[bool](t, pool, `SELECT count(*) = 2 AND bool_and(steady_since < clock_timestamp() - 2 * lease AND expires_at > clock_timestamp()) FROM pawl.processes`)
	})
	require.Equal(t, 1, g.most())
	g.open()
	require.Equal(t, store.Audit{Completed: 58}, settled(t, pool, 58))
	require.Equal(t, 1, g.most())
	for _, w := range workers {
		require.Zero(t, w.Stats().Expirations)
		require.Zero(t, w.Stats().Refused)
		testdb.Eventually(t, 2*slow, "the listener", func() bool { return w.Stats().Listening && w.Stats().Reconnects > 0 })
	}
}

// The server crashes under load: afterwards the queue has its concurrency
// again, and wake-ups work.
func TestRestartUnderLoad(t *testing.T) {
	t.Parallel()
	server := testdb.Private(t, nil)
	pool := testdb.On(t, server)
	require.NoError(t, migrations.Up(t.Context(), pool, migrations.Options{}))
	k := kind("k", "q")
	var (
		mu        sync.Mutex
		now, most int
	)
	w := start(t, pool, pawlrt.Config{
		Logger: slog.New(slog.DiscardHandler), Poll: time.Second, Queues: map[string]pawlrt.Queue{"q": {Concurrency: 5}},
		Tables: []task.Table{table(k, func(ctx context.Context, job *task.Job[args]) error {
			mu.Lock()
			now++
			most = max(most, now)
			mu.Unlock()
			timer := time.NewTimer(20 * time.Millisecond)
			defer timer.Stop()
			<-timer.C // the work
			mu.Lock()
			now--
			mu.Unlock()
			return nil
		})},
	})
	put(t, pool, k, numbered(100, "")...)
	testdb.Eventually(t, slow, "some to be done", func() bool { return w.Stats().Completed > 20 })
	require.NoError(t, server.Crash(t.Context()))
	require.NoError(t, server.Restart(t.Context()))
	testdb.Eventually(t, 2*slow, "the database", func() bool {
		var n int
		return pool.QueryRow(t.Context(), `SELECT 1`).Scan(&n) == nil
	})
	put(t, pool, k, numbered(50, "")...)
	a := settled(t, pool, 150)
	require.Equal(t, store.Audit{Completed: 150}, a)
	mu.Lock()
	require.Equal(t, 5, most)
	mu.Unlock()
	testdb.Eventually(t, 2*slow, "the listener", func() bool { return w.Stats().Listening })
	wakesUp(t, pool, w, k)
	testdb.Eventually(t, slow, "its jobs to end", func() bool { return w.Stats().Completed >= 100 })
}

// A payload that no longer decodes is a dead letter at once, as it is stored.
func TestUndecodable(t *testing.T) {
	t.Parallel()
	pool := testdb.Migrated(t)
	k := kind("k", "q")
	ids := put(t, pool, k, numbered(3, "")...)
	exec(t, pool, `UPDATE pawl.jobs SET args = '{"n": "one", "keep": [1.10, null]}' WHERE id = $1`, ids[1])
	exec(t, pool, `UPDATE pawl.jobs SET version = 9 WHERE id = $1`, ids[2])
	start(t, pool, pawlrt.Config{Tables: []task.Table{table(kind("k", "q", func(k *taskimpl.Kind[args]) {
		k.Decode = func(version int, raw []byte) (args, error) {
			if version != 1 {
				return args{}, taskimpl.UnknownVersion("k", version)
			}
			return taskimpl.As[args](raw)
		}
	}), func(context.Context, *task.Job[args]) error { return nil })}})
	require.Equal(t, store.Audit{Completed: 1, Dead: 2}, settled(t, pool, 3))
	require.Equal(t, 2, query[int](t, pool, `SELECT count(*) FROM pawl.dead_letters WHERE code = 'undecodable' AND attempts = 1`))
	require.Equal(t, `{"n": "one", "keep": [1.10, null]}`, query[string](t, pool, `SELECT args::text FROM pawl.dead_letters WHERE job_id = $1`, ids[1]))
}

// One odd row does not hold up the others: attempts that are spent already, a
// job without its row.
func TestOddRows(t *testing.T) {
	t.Parallel()
	pool := testdb.Migrated(t)
	k := kind("k", "q")
	ids := put(t, pool, k, numbered(52, "")...)
	exec(t, pool, `UPDATE pawl.ready SET attempts = 3 WHERE id = $1`, ids[10])
	exec(t, pool, `DELETE FROM pawl.jobs WHERE id = $1`, ids[20])
	w := start(t, pool, pawlrt.Config{Tables: []task.Table{table(k, func(_ context.Context, job *task.Job[args]) error {
		if job.Args.N == 10 {
			return fmt.Errorf("ran beyond its attempts")
		}
		return nil
	})}})
	require.Equal(t, store.Audit{Completed: 50, Dead: 1, Quarantined: 1}, settled(t, pool, 52))
	require.Equal(t, "attempts_exhausted", query[string](t, pool, `SELECT code FROM pawl.dead_letters WHERE job_id = $1`, ids[10]))
	require.Equal(t, 1, query[int](t, pool, `SELECT count(*) FROM pawl.quarantine WHERE job_id = $1`, ids[20]))
	require.NoError(t, w.shutdown(t))
	require.EqualValues(t, 1, w.Stats().Quarantined)
	require.Less(t, w.Stats().Claims, int64(50), "no loop")
}

// What a worker does not know, it leaves alone, its attempts too.
func TestForeignKind(t *testing.T) {
	t.Parallel()
	pool := testdb.Migrated(t)
	mine, foreign := kind("a", "q"), kind("b", "q")
	newer := kind("a", "q", func(k *taskimpl.Kind[args]) {
		k.Version = 2
		k.Capabilities = append(k.Capabilities, taskimpl.Capability{Version: 2, ID: 999})
	})
	fine := func(context.Context, *task.Job[args]) error { return nil }
	w := start(t, pool, pawlrt.Config{Lease: 300 * time.Millisecond, Poll: 20 * time.Millisecond, Tables: []task.Table{table(mine, fine)}})
	put(t, pool, foreign, numbered(5, "")...)
	put(t, pool, newer, numbered(5, "")...)
	// One of them was another's, which died.
	exec(t, pool, `WITH gone AS (DELETE FROM pawl.ready WHERE id = (SELECT id FROM pawl.ready ORDER BY id LIMIT 1) RETURNING id, day)
		INSERT INTO pawl.leases SELECT gen_random_uuid(), gen_random_uuid(), 'q', now(), ARRAY[id], ARRAY[day], '{1}', (~ 0::bit(128)) << 127 FROM gone`)
	put(t, pool, mine, numbered(20, "")...)
	settled(t, pool, 20)
	testdb.Eventually(t, slow, "the orphan", func() bool { return w.Stats().Recovered == 1 })
	idleFor := w.Stats().Claims
	testdb.Eventually(t, slow, "some more claims", func() bool { return w.Stats().Claims > idleFor+5 })
	require.Equal(t, store.Audit{Completed: 20, Ready: 10}, audit(t, pool))
	require.Equal(t, 1, query[int](t, pool, `SELECT sum(attempts) FROM pawl.ready`), "only the attempt that ended with its process")
	start(t, pool, pawlrt.Config{Tables: []task.Table{table(newer, fine), table(foreign, fine)}})
	require.Equal(t, store.Audit{Completed: 30}, settled(t, pool, 30))
}

// The jobs of a dead process come back one after the other, in every queue, and
// without waiting for the poll.
func TestSuspectsOfManyQueues(t *testing.T) {
	t.Parallel()
	pool := testdb.Migrated(t)
	s, err := store.Open(t.Context(), pool, store.DefaultSchema, 1)
	require.NoError(t, err)
	defer s.Close()
	var (
		mu        sync.Mutex
		now, most int
		tables    []task.Table
	)
	for q := range 4 {
		k := kind(fmt.Sprintf("k%d", q), fmt.Sprintf("q%d", q))
		put(t, pool, k, numbered(15, "")...)
		tables = append(tables, table(k, func(context.Context, *task.Job[args]) error {
			mu.Lock()
			now++
			most = max(most, now)
			mu.Unlock()
			defer func() {
				mu.Lock()
				now--
				mu.Unlock()
			}()
			return nil
		}))
	}
	exec(t, pool, `UPDATE pawl.ready SET suspect = true, attempts = 1`)
	w := start(t, pool, pawlrt.Config{Poll: never, Tables: tables})
	require.Equal(t, store.Audit{Completed: 60}, settled(t, pool, 60))
	require.Equal(t, 1, most)
	require.NoError(t, w.shutdown(t))
	require.Less(t, w.Stats().Claims, int64(600))
}

// A lease is no ownership: a claim whose answer never came is given back.
func TestLostAnswerOfAClaim(t *testing.T) {
	t.Parallel()
	pool := testdb.Migrated(t)
	cut := &cutter{left: 5}
	config := pool.Config()
	config.ConnConfig.Tracer = cut
	dial := config.ConnConfig.DialFunc
	config.ConnConfig.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		return &cutConn{Conn: conn}, err
	}
	cutting, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	defer cutting.Close()
	g := newGate()
	k := kind("k", "q")
	put(t, pool, k, numbered(30, "")...)
	w := start(t, cutting, pawlrt.Config{Poll: 20 * time.Millisecond, Logger: slog.New(slog.DiscardHandler), Queues: map[string]pawlrt.Queue{"q": {Concurrency: 5}},
		Tables: []task.Table{table(k, func(_ context.Context, job *task.Job[args]) error {
			g.arrive(job)
			if job.Attempt != 1 {
				return task.Permanent(fmt.Errorf("attempt %d", job.Attempt))
			}
			return nil
		})}})
	require.Equal(t, store.Audit{Completed: 30}, settled(t, pool, 30))
	require.Equal(t, 1, g.most())
	require.NoError(t, w.shutdown(t))
	require.EqualValues(t, 5, w.Stats().ClaimErrors)
}

// cutter has the answer of some claims lost: the server has committed them, and
// the connection ends before the answer is read.
type cutter struct {
	mu   sync.Mutex
	left int // guarded by mu
}

func (c *cutter) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	return ctx
}
func (c *cutter) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func (c *cutter) TraceBatchStart(ctx context.Context, conn *pgx.Conn, data pgx.TraceBatchStartData) context.Context {
	if !isClaim(data.Batch.QueuedQueries[1].SQL) {
		return ctx
	}
	claiming := conn.PgConn().Conn().(*cutConn)
	if !claiming.known { // the first one prepares the statement, and may be tried again
		claiming.known = true
		return ctx
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.left > 0 {
		c.left--
		claiming.cut.Store(true)
	}
	return ctx
}

func (c *cutter) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}
func (c *cutter) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData)     {}

type cutConn struct {
	net.Conn
	known bool // it has claimed before; used by one goroutine at a time
	cut   atomic.Bool
}

func (c *cutConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 && c.cut.Load() {
		_ = c.Conn.Close()
		return 0, io.ErrUnexpectedEOF
	}
	return n, err
}
