package runtime_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
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
)

// fine is a handler of jobs that only have to be done.
func fine(context.Context, *task.Job[args]) error { return nil }

// records is a log that a test can look into.
type records struct {
	mu  sync.Mutex
	all []string // guarded by mu; level, message and attributes
}

func (r *records) Enabled(context.Context, slog.Level) bool { return true }
func (r *records) WithAttrs([]slog.Attr) slog.Handler       { return r }
func (r *records) WithGroup(string) slog.Handler            { return r }
func (r *records) Handle(_ context.Context, record slog.Record) error {
	var line strings.Builder
	line.WriteString(record.Level.String() + " " + record.Message)
	record.Attrs(func(a slog.Attr) bool {
		line.WriteString(" " + a.String())
		return true
	})
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, line.String())
	return nil
}

// with are the records that contain a text.
func (r *records) with(text string) (some []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, line := range r.all {
		if strings.Contains(line, text) {
			some = append(some, line)
		}
	}
	return some
}

// changed is a pool of another configuration on the same database.
func changed(t *testing.T, pool *pgxpool.Pool, change func(*pgxpool.Config)) *pgxpool.Pool {
	t.Helper()
	config := pool.Config()
	change(config)
	other, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(other.Close)
	return other
}

// Every packet vanishes for a while that is shorter than the lease. The worker
// keeps its leases, although connections die meanwhile, each of which takes the
// driver longer than that to let go of.
func TestSilenceWithinALease(t *testing.T) {
	t.Parallel()
	pool := testdb.Migrated(t)
	p := newProxy(t, pool.Config().ConnConfig)
	g := newGate()
	k := kind("k", "q")
	w := start(t, changed(t, pool, func(c *pgxpool.Config) { p.through(c.ConnConfig) }), pawlrt.Config{
		Lease: 4 * time.Second, Heartbeat: 400 * time.Millisecond, Poll: 50 * time.Millisecond, Logger: slog.New(slog.DiscardHandler),
		Tables: []task.Table{table(k, g.obey)},
	})
	listening(t, w)
	put(t, pool, k, numbered(3, "")...)
	g.started(t, 3)
	p.silence()
	testdb.Eventually(t, slow, "connections to die", func() bool { return p.lost.Load() >= 7 })
	p.heal()
	renewed(t, pool, 6*time.Second)
	g.open()
	require.Equal(t, store.Audit{Completed: 3}, settled(t, pool, 3))
	require.Equal(t, 1, g.most())
	require.Zero(t, w.Stats().LeasesLost)
}

// A silence that takes every connection that the worker may have is over when it
// is over, not minutes later.
func TestLongSilence(t *testing.T) {
	t.Parallel()
	pool := testdb.Migrated(t)
	p := newProxy(t, pool.Config().ConnConfig)
	k := kind("k", "q")
	w := start(t, changed(t, pool, func(c *pgxpool.Config) { p.through(c.ConnConfig) }), pawlrt.Config{
		Lease: time.Second, Heartbeat: 100 * time.Millisecond, Logger: slog.New(slog.DiscardHandler), Tables: []task.Table{table(k, fine)},
	})
	listening(t, w)
	p.silence()
	testdb.Eventually(t, 3*slow, "connections to die", func() bool { return p.lost.Load() >= 24 })
	p.heal()
	put(t, pool, k, numbered(20, "")...)
	require.Equal(t, store.Audit{Completed: 20}, settled(t, pool, 20))
	testdb.Eventually(t, 2*slow, "all to be well", func() bool { return w.Stats().Listening && ask(w.Readyz()).Code == http.StatusOK })
}

// A shutdown while every packet vanishes is bounded too.
func TestShutdownInSilence(t *testing.T) {
	t.Parallel()
	pool := testdb.Migrated(t)
	p := newProxy(t, pool.Config().ConnConfig)
	g := newGate()
	k := kind("k", "q")
	w := start(t, changed(t, pool, func(c *pgxpool.Config) { p.through(c.ConnConfig) }), pawlrt.Config{
		Lease: 5 * time.Second, Heartbeat: 100 * time.Millisecond, SoftLimit: 100 * time.Millisecond, HardLimit: time.Second, Logger: slog.New(slog.DiscardHandler),
		Tables: []task.Table{table(k, g.obey)},
	})
	put(t, pool, k, numbered(3, "")...)
	g.started(t, 3)
	p.silence()
	testdb.Eventually(t, slow, "connections to die", func() bool { return p.lost.Load() >= 3 })
	g.open()
	begun := time.Now()
	require.ErrorIs(t, w.shutdown(t), pawlrt.ErrUnsaved)
	require.Less(t, time.Since(begun), slow)
}

// The listener has a connection of its own beside the pool's. Its packets
// vanish, and those of the connections that it makes next: jobs start within
// the poll interval, and when the network is back it listens again.
func TestDirectListener(t *testing.T) {
	t.Parallel()
	pool := testdb.Migrated(t)
	direct := pool.Config().ConnConfig
	p := newProxy(t, direct)
	p.through(direct)
	log := &records{}
	k := kind("k", "q")
	w := start(t, pool, pawlrt.Config{Listen: direct, Poll: 200 * time.Millisecond, Logger: slog.New(log), Tables: []task.Table{table(k, fine)}})
	listening(t, w)
	asleep(t, pool)
	put(t, pool, k, args{})
	testdb.Eventually(t, slow, "a wake-up", func() bool { return w.Stats().Wakeups > 0 })
	p.silence()
	wakeups := w.Stats().Wakeups
	for i := range 5 {
		put(t, pool, k, args{N: i})
		require.Equal(t, store.Audit{Completed: i + 2}, settled(t, pool, i+2))
	}
	require.Equal(t, wakeups, w.Stats().Wakeups)
	testdb.Eventually(t, 3*slow, "the listener to notice", func() bool { return !w.Stats().Listening })
	testdb.Eventually(t, 3*slow, "it to be told", func() bool { return len(log.with("the listener has no connection")) > 0 })
	testdb.Eventually(t, 3*slow, "a connection that gets no answer", func() bool { return p.lost.Load() > 1 })
	p.heal()
	testdb.Eventually(t, 3*slow, "the listener", func() bool { return w.Stats().Listening })
	require.Positive(t, w.Stats().Reconnects)
	require.Len(t, log.with("the listener is connected again"), 1)
	wakesUp(t, pool, w, k)
}

// A listener that cannot hear what the pool sends is found out, and polling goes
// on.
func TestListenerOfAnotherDatabase(t *testing.T) {
	t.Parallel()
	pool, other := testdb.Migrated(t), testdb.New(t)
	log := &records{}
	k := kind("k", "q")
	w := start(t, pool, pawlrt.Config{Listen: other.Config().ConnConfig, Poll: 50 * time.Millisecond, Logger: slog.New(log), Tables: []task.Table{table(k, fine)}})
	testdb.Eventually(t, slow, "it to be told", func() bool { return len(log.with("set Config.Listen")) > 0 })
	put(t, pool, k, args{})
	require.Equal(t, store.Audit{Completed: 1}, settled(t, pool, 1))
	require.NoError(t, w.shutdown(t))
	require.False(t, w.Stats().Listening)
	require.Zero(t, w.Stats().Reconnects)
}

// The connections lead to a server that turns out to be read-only, and stays
// so. They are given up, so that the worker finds the writable one when there is
// one; until then the log does not fill up.
func TestReadOnlyServer(t *testing.T) {
	t.Parallel()
	pool := testdb.Migrated(t)
	var readOnly atomic.Bool // what new connections lead to
	p := newProxy(t, pool.Config().ConnConfig)
	there := changed(t, pool, func(c *pgxpool.Config) {
		p.through(c.ConnConfig)
		c.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
			if !readOnly.Load() {
				return nil
			}
			_, err := conn.Exec(ctx, "SET default_transaction_read_only = on")
			return err
		}
	})
	log := &records{}
	g := newGate()
	k := kind("k", "q")
	w := start(t, there, pawlrt.Config{
		Lease: time.Second, Poll: 10 * time.Millisecond, Logger: slog.New(log),
		Tables: []task.Table{table(k, func(ctx context.Context, job *task.Job[args]) error {
			if job.Args.Mode == "hold" && job.Attempt == 1 {
				return g.ignore(ctx, job)
			}
			return nil
		})},
	})
	listening(t, w)
	put(t, pool, k, numbered(3, "hold")...)
	g.started(t, 3)
	readOnly.Store(true)
	p.cut()
	put(t, pool, k, numbered(20, "")...)
	testdb.Eventually(t, 2*slow, "the session to end", func() bool { return w.Stats().LeasesLost == 1 })
	testdb.Eventually(t, slow, "the health check to say so", func() bool { return ask(w.Readyz()).Code == http.StatusServiceUnavailable })
	g.open() // three ends of attempts that cannot be saved
	testdb.Eventually(t, 2*slow, "many failures", func() bool { return w.Stats().SettleErrors > 5 })
	readOnly.Store(false)
	require.Equal(t, store.Audit{Completed: 23}, settled(t, pool, 23))
	testdb.Eventually(t, 2*slow, "all to be well", func() bool { return w.Stats().Listening && ask(w.Readyz()).Code == http.StatusOK })
	require.NotEmpty(t, log.with("SQLSTATE 25006"))
	require.Less(t, len(log.with("WARN")), 20, "%q", log.with("WARN"))
}

// Somebody sets the database read-only: nothing is written to it, and all goes
// on when that ends.
func TestReadOnlySetting(t *testing.T) {
	t.Parallel()
	server := testdb.Private(t, nil)
	pool := testdb.On(t, server)
	require.NoError(t, migrations.Up(t.Context(), pool, migrations.Options{}))
	k := kind("k", "q")
	w := start(t, pool, pawlrt.Config{Poll: 20 * time.Millisecond, Logger: slog.New(slog.DiscardHandler), Tables: []task.Table{table(k, fine)}})
	listening(t, w)
	set := func(value string) {
		exec(t, pool, "ALTER SYSTEM SET default_transaction_read_only = "+value)
		exec(t, pool, "SELECT pg_reload_conf()")
		testdb.Eventually(t, slow, "the setting", func() bool { return query[string](t, pool, "SHOW default_transaction_read_only") == value })
	}
	set("on")
	errors := w.Stats().ClaimErrors
	testdb.Eventually(t, slow, "claims to fail", func() bool { return w.Stats().ClaimErrors > errors+10 })
	tx, err := pool.BeginTx(t.Context(), pgx.TxOptions{AccessMode: pgx.ReadWrite})
	require.NoError(t, err)
	put(t, tx, k, numbered(10, "")...)
	require.NoError(t, tx.Commit(t.Context()))
	errors = w.Stats().ClaimErrors
	testdb.Eventually(t, slow, "more claims to fail", func() bool { return w.Stats().ClaimErrors > errors+10 })
	require.Equal(t, store.Audit{Ready: 10}, audit(t, pool))
	set("off")
	require.Equal(t, store.Audit{Completed: 10}, settled(t, pool, 10))
}

// Of two servers the worker takes the one that the user's connection string asks
// for, also when the other one comes first.
func TestTargetSessionAttributes(t *testing.T) {
	t.Parallel()
	pool := testdb.Migrated(t)
	here := pool.Config().ConnConfig
	replica := testdb.Private(t, map[string]string{"default_transaction_read_only": "on"})
	conn, err := pgx.Connect(t.Context(), replica.URL())
	require.NoError(t, err)
	defer conn.Close(context.WithoutCancel(t.Context()))
	for _, sql := range []string{
		"SET default_transaction_read_only = off",
		"CREATE DATABASE " + here.Database,
		"ALTER ROLE postgres PASSWORD '" + here.Password + "'",
	} {
		_, err = conn.Exec(t.Context(), sql)
		require.NoError(t, err)
	}
	there := changed(t, pool, func(c *pgxpool.Config) {
		first := conn.Config()
		two, err := pgx.ParseConfig(fmt.Sprintf("host=%s,%s port=%d,%d user=%s password=%s dbname=%s sslmode=disable target_session_attrs=read-write",
			first.Host, here.Host, first.Port, here.Port, here.User, here.Password, here.Database))
		require.NoError(t, err)
		two.RuntimeParams["application_name"] = pooledName // the other server knows one user
		c.ConnConfig = two
	})
	k := kind("k", "q")
	w := start(t, there, pawlrt.Config{Poll: never, Tables: []task.Table{table(k, fine)}})
	listening(t, w)
	put(t, pool, k, numbered(5, "")...)
	require.Equal(t, store.Audit{Completed: 5}, settled(t, pool, 5))
	require.Zero(t, w.Stats().ClaimErrors)
}

// The server is restarted under load.
func TestRestart(t *testing.T) {
	t.Parallel()
	restart(t, 50*time.Millisecond)
}

// restart restarts the server while five jobs run that take some time: then
// there are five at a time again, a job starts within a second of its enqueue,
// and the reconnect is counted.
func restart(t *testing.T, work time.Duration) {
	server := testdb.Private(t, nil)
	pool := testdb.On(t, server)
	require.NoError(t, migrations.Up(t.Context(), pool, migrations.Options{}))
	var (
		mu        sync.Mutex
		now, most int // guarded by mu
	)
	k := kind("k", "q")
	begun := make(chan time.Time, 200)
	w := start(t, pool, pawlrt.Config{
		Poll: never, Logger: slog.New(slog.DiscardHandler), Queues: map[string]pawlrt.Queue{"q": {Concurrency: 5}},
		Tables: []task.Table{table(k, func(_ context.Context, job *task.Job[args]) error {
			begun <- time.Now()
			mu.Lock()
			now++
			most = max(most, now)
			mu.Unlock()
			timer := time.NewTimer(work)
			defer timer.Stop()
			<-timer.C // the work
			mu.Lock()
			now--
			mu.Unlock()
			return nil
		})},
	})
	listening(t, w)
	put(t, pool, k, numbered(20, "")...)
	testdb.Eventually(t, slow, "five to run", func() bool { return w.Stats().Running == 5 })
	require.NoError(t, server.Restart(t.Context()))
	mu.Lock()
	most = 0
	mu.Unlock()
	testdb.Eventually(t, 2*slow, "the database", func() bool {
		var n int
		return pool.QueryRow(t.Context(), `SELECT 1`).Scan(&n) == nil
	})
	put(t, pool, k, numbered(50, "")...)
	testdb.Eventually(t, 20*work+2*slow, "all jobs", func() bool { return audit(t, pool).Completed == 70 })
	mu.Lock()
	require.Equal(t, 5, most)
	mu.Unlock()
	testdb.Eventually(t, 2*slow, "the listener", func() bool { return w.Stats().Listening })
	require.Positive(t, w.Stats().Reconnects)
	best := never
	for range 5 { // the machine may be busy
		idle(t, w)
		for len(begun) > 0 {
			<-begun
		}
		put(t, pool, k, args{})
		committed := time.Now()
		best = min(best, receive(t, begun, "the job").Sub(committed))
	}
	require.Less(t, best, time.Second)
	require.Zero(t, w.Stats().LeasesLost)
}

// A wake-up does not carry the payload, so a large one is as quick.
func TestWakeUpOfLargePayloads(t *testing.T) {
	t.Parallel()
	pool := testdb.Migrated(t)
	k := kind("k", "q")
	begun := make(chan time.Time, 10)
	w := start(t, pool, pawlrt.Config{Poll: never, Tables: []task.Table{table(k, func(context.Context, *task.Job[args]) error {
		begun <- time.Now()
		return nil
	})}})
	listening(t, w)
	for _, size := range []int{8001, 1 << 20} {
		best := never
		for range 5 { // the machine may be busy
			idle(t, w)
			put(t, pool, k, args{Mode: padding(size)})
			committed := time.Now()
			best = min(best, receive(t, begun, "the job").Sub(committed))
		}
		require.Less(t, best, time.Second)
	}
}

// grumpy is a log handler that panics at whatever is asked of it, so that no
// record of it is ever seen.
type grumpy struct{ method string }

func (h grumpy) Enabled(context.Context, slog.Level) bool {
	if h.method == "Enabled" {
		panic("x")
	}
	return true
}

func (h grumpy) Handle(context.Context, slog.Record) error { panic("x") }
func (h grumpy) WithAttrs([]slog.Attr) slog.Handler        { panic("x") }
func (h grumpy) WithGroup(string) slog.Handler             { panic("x") }

// A log handler that panics takes neither the process nor an attempt down.
func TestAPanickingLog(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"Enabled", "the others"} {
		pool := testdb.Migrated(t)
		k := kind("k", "q")
		w := start(t, pool, pawlrt.Config{Logger: slog.New(grumpy{method}), Tables: []task.Table{table(k, func(_ context.Context, job *task.Job[args]) error {
			if job.Attempt == 1 {
				panic("y")
			}
			return nil
		})}})
		put(t, pool, k, numbered(5, "")...)
		require.Equal(t, store.Audit{Completed: 5}, settled(t, pool, 5))
		require.NoError(t, w.shutdown(t))
		require.EqualValues(t, 5, w.Stats().Panics)
		require.Positive(t, w.Stats().LogPanics)
	}
}
