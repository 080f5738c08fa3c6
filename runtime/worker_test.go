package runtime_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"

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
	w, err := pawlrt.New(pool, config)
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

// Four workers, 400 jobs, every tenth fails once, and one other always.
func TestFourHundredJobs(t *testing.T) {
	t.Parallel()
	pool := testdb.Migrated(t)
	k := kind("work", "q")
	var mu sync.Mutex
	attempts := make(map[int]int) // by job
	handle := func(_ context.Context, job *task.Job[args]) error {
		mu.Lock()
		defer mu.Unlock()
		attempts[job.Args.N]++
		switch {
		case job.Args.Mode == "flaky" && job.Attempt == 1:
			return task.Transient(errors.New("upstream timeout"))
		case job.Args.Mode == "broken":
			return task.Transient(errors.New("bad payload"))
		}
		return nil
	}
	for range 4 {
		start(t, pool, pawlrt.Config{Tables: []task.Table{table(k, handle)}, Queues: map[string]pawlrt.Queue{"q": {Concurrency: 5}}})
	}
	all := make([]args, 400)
	for i := range all {
		all[i].N = i
		switch {
		case i%10 == 0:
			all[i].Mode = "flaky"
		case i == 7:
			all[i].Mode = "broken"
		}
	}
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	receipts, err := taskimpl.EnqueueMany(t.Context(), tx, k, all, nil)
	require.NoError(t, err)
	require.Len(t, receipts, 400)
	require.NoError(t, tx.Commit(t.Context()))

	require.Equal(t, store.Audit{Completed: 399, Dead: 1}, settled(t, pool, 400))
	mu.Lock()
	defer mu.Unlock()
	total := 0
	for _, n := range attempts {
		total += n
	}
	require.Equal(t, 442, total)

	var code, summary string
	var stored json.RawMessage
	require.NoError(t, pool.QueryRow(t.Context(), `SELECT code, summary, args FROM pawl.dead_letters WHERE job_id = $1`, receipts[7].ID).Scan(&code, &summary, &stored))
	require.Equal(t, "transient", code)
	require.Equal(t, "bad payload", summary)
	require.JSONEq(t, `{"n": 7, "mode": "broken"}`, string(stored))
}
