package runtime_test

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/pawlgo/pawl/internal/store"
	"github.com/pawlgo/pawl/internal/testdb"
	pawlrt "github.com/pawlgo/pawl/runtime"
	"github.com/pawlgo/pawl/task"
	"github.com/pawlgo/pawl/task/taskimpl"
)

// args is the payload of the tests' kinds.
type args struct {
	N    int    `json:"n"`
	Mode string `json:"mode,omitempty"`
}

// kind is a kind as generated code would declare it.
func kind(name, queue string, change ...func(*taskimpl.Kind[args])) *taskimpl.Kind[args] {
	var id uint64
	for _, c := range queue + "/" + name {
		id = id*31 + uint64(c)
	}
	k := &taskimpl.Kind[args]{
		Name: name, Queue: queue, Priority: task.Normal, Version: 1,
		Policy: taskimpl.Policy{Attempts: 3, Base: 10 * time.Millisecond, Max: 50 * time.Millisecond, Jitter: 0.2, Unknown: 3, Timeout: time.Minute},

		Capabilities: []taskimpl.Capability{{Version: 1, ID: id}},
		Decode:       func(_ int, raw []byte) (args, error) { return taskimpl.As[args](raw) },
	}
	for _, c := range change {
		c(k)
	}
	return k
}

type handler = func(context.Context, *task.Job[args]) error

// table is a table of one kind.
func table(k *taskimpl.Kind[args], h handler) task.Table { return taskimpl.Table(taskimpl.Row(k, h)) }

// running is a worker that a test started.
type running struct {
	*pawlrt.Worker
	stop context.CancelFunc
	done <-chan error
}

// start runs a worker until the test ends, or stops it.
func start(t *testing.T, pool *pgxpool.Pool, config pawlrt.Config) *running {
	t.Helper()
	if config.Logger == nil {
		config.Logger = slog.New(slog.NewTextHandler(t.Output(), nil))
	}
	w, err := pawlrt.New(workerPool(t, pool, &config), config)
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	r := &running{Worker: w, stop: stop, done: done}
	t.Cleanup(func() {
		stop()
		select {
		case <-r.done:
		case <-time.After(time.Minute):
			t.Error("the worker does not stop")
		}
	})
	return r
}

// shutdown stops the worker and returns what Run returned.
func (r *running) shutdown(t *testing.T) error {
	t.Helper()
	r.stop()
	select {
	case err := <-r.done:
		r.done = closedWith(err)
		return err
	case <-time.After(time.Minute):
		t.Fatal("the worker does not stop")
		return nil
	}
}

func closedWith(err error) <-chan error {
	c := make(chan error, 1)
	c <- err
	return c
}

func audit(t *testing.T, pool *pgxpool.Pool) store.Audit {
	t.Helper()
	s, err := store.Open(t.Context(), pool, store.DefaultSchema, 1)
	require.NoError(t, err)
	defer s.Close()
	a, err := s.Audit(t.Context())
	require.NoError(t, err)
	return a
}

// settled waits until every job has ended.
func settled(t *testing.T, pool *pgxpool.Pool, jobs int) store.Audit {
	t.Helper()
	testdb.Eventually(t, 30*time.Second, "all jobs to end", func() bool {
		a := audit(t, pool)
		return a.Completed+a.Dead+a.Cancelled+a.Quarantined == jobs
	})
	return audit(t, pool)
}

// slow bounds what is expected to happen at once, on a machine that may have
// much else to do.
const slow = 10 * time.Second

// put enqueues jobs of one kind and returns their ids: as a producer, where that is
// left to it.
func put(t *testing.T, db task.Querier, k *taskimpl.Kind[args], jobs ...args) []uuid.UUID {
	t.Helper()
	if pool, ok := db.(*pgxpool.Pool); ok && testdb.Owns(pool) {
		db = testdb.Enqueuing(t, pool)
	}
	receipts, err := taskimpl.EnqueueMany(t.Context(), task.Autocommit(db), k, jobs, nil)
	require.NoError(t, err)
	ids := make([]uuid.UUID, len(receipts))
	for i, r := range receipts {
		ids[i] = r.ID
	}
	return ids
}

// numbered are n jobs of a mode.
func numbered(n int, mode string) []args {
	jobs := make([]args, n)
	for i := range jobs {
		jobs[i] = args{N: i, Mode: mode}
	}
	return jobs
}

// asleep waits until somebody wants to be woken for a queue.
func asleep(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	testdb.Eventually(t, slow, "a queue to fall asleep", func() bool {
		return query[bool](t, pool, `SELECT EXISTS (SELECT FROM pawl.sleepers s JOIN pawl.processes p ON p.id = s.process)`)
	})
}

// wakesUp enqueues until that wakes the worker. A process that was just asleep may
// be looking for work again, and then nobody needs to wake it.
func wakesUp(t *testing.T, pool *pgxpool.Pool, w *running, k *taskimpl.Kind[args]) {
	t.Helper()
	before := w.Stats().Wakeups
	testdb.Eventually(t, slow, "a wake-up", func() bool {
		asleep(t, pool)
		put(t, pool, k, args{})
		return w.Stats().Wakeups > before
	})
}

// query returns one value.
func query[V any](t *testing.T, db task.Querier, sql string, args ...any) (v V) {
	t.Helper()
	require.NoError(t, db.QueryRow(t.Context(), sql, args...).Scan(&v))
	return v
}

func exec(t *testing.T, pool *pgxpool.Pool, sql string, args ...any) {
	t.Helper()
	_, err := pool.Exec(t.Context(), sql, args...)
	require.NoError(t, err)
}

// gate lets a test see that handlers have started, and decide when they return.
type gate struct {
	mu      sync.Mutex
	starts  map[int]int // guarded by mu; by job
	opened  chan struct{}
	arrived chan int // the number of each job that starts
}

func newGate() *gate {
	return &gate{starts: make(map[int]int), opened: make(chan struct{}), arrived: make(chan int, 10_000)}
}

func (g *gate) arrive(job *task.Job[args]) {
	g.mu.Lock()
	g.starts[job.Args.N]++
	g.mu.Unlock()
	g.arrived <- job.Args.N
}

// ignore waits for the gate and ignores its context.
func (g *gate) ignore(_ context.Context, job *task.Job[args]) error {
	g.arrive(job)
	<-g.opened
	return nil
}

// obey waits for the gate or the end of its context.
func (g *gate) obey(ctx context.Context, job *task.Job[args]) error {
	g.arrive(job)
	select {
	case <-g.opened:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (g *gate) open() { close(g.opened) }

// started waits until n handlers more have started.
func (g *gate) started(t *testing.T, n int) {
	t.Helper()
	late := time.NewTimer(2 * slow)
	defer late.Stop()
	for i := range n {
		select {
		case <-g.arrived:
		case <-late.C:
			t.Fatalf("%d of %d handlers have started", i, n)
		}
	}
}

// most is how often the job that started most often did.
func (g *gate) most() (n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, starts := range g.starts {
		n = max(n, starts)
	}
	return n
}

// receive waits for a value.
func receive[V any](t *testing.T, c <-chan V, what string) (v V) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(2 * slow):
		t.Fatalf("still waiting for %s", what)
	}
	return v
}

// isClaim tells the statement of a claim from the others.
func isClaim(sql string) bool { return strings.Contains(sql, ".claim(") }
