package admin_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/pawlgo/pawl/admin"
	"github.com/pawlgo/pawl/internal/testdb"
	pawlrt "github.com/pawlgo/pawl/runtime"
	"github.com/pawlgo/pawl/task"
	"github.com/pawlgo/pawl/task/taskimpl"
)

// soon bounds what is expected to happen at once, on a machine that may have much
// else to do.
const soon = 20 * time.Second

// args is the payload of the tests' kinds.
type args struct {
	N    int    `json:"n"`
	Org  string `json:"org,omitempty"`
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
		Organization: func(a *args) (string, error) { return a.Org, nil },
		Decode:       func(_ int, raw []byte) (args, error) { return taskimpl.As[args](raw) },
	}
	for _, c := range change {
		c(k)
	}
	return k
}

type handler = func(context.Context, *task.Job[args]) error

// mailed is the usual kind.
func mailed(change ...func(*taskimpl.Kind[args])) *taskimpl.Kind[args] {
	return kind("send_mail", "mail", change...)
}

// obey does what the mode of the job says.
func obey(ctx context.Context, job *task.Job[args]) error {
	switch job.Args.Mode {
	case "gone":
		return task.Permanent(fmt.Errorf("POST https://example.com/%d: the server answered 410 Gone", job.Args.N))
	case "broken":
		return task.Permanent(fmt.Errorf("row %q of batch %s is broken", fmt.Sprint(job.Args.N), uuid.New()))
	case "retry":
		return task.Transient(errors.New("the server is away"))
	case "hang":
		<-ctx.Done()
		return ctx.Err()
	}
	return nil
}

// open returns a migrated database and an operator's client for it, so that what is
// tested works with the rights of those whom it is for.
func open(t *testing.T, opts ...testdb.Option) (*pgxpool.Pool, *admin.Client) {
	t.Helper()
	pool := testdb.Migrated(t, opts...)
	return pool, admin.New(testdb.As(t, pool, testdb.Operator), admin.Options{By: "alice"})
}

// openOwned is open for a client that may read payloads, and knows some kinds.
func openOwned(t *testing.T, kinds ...*taskimpl.Kind[args]) (*pgxpool.Pool, *admin.Client) {
	t.Helper()
	pool := testdb.Migrated(t)
	options := admin.Options{By: "alice"}
	for _, k := range kinds {
		options.Tables = append(options.Tables, taskimpl.Table(taskimpl.Row(k, obey)))
	}
	return pool, admin.New(pool, options)
}

// work runs a worker until the test ends, or until the returned function stops it.
func work(t *testing.T, pool *pgxpool.Pool, k *taskimpl.Kind[args], h handler, change ...func(*pawlrt.Config)) (stop func()) {
	t.Helper()
	config := pawlrt.Config{
		Tables: []task.Table{taskimpl.Table(taskimpl.Row(k, h))}, Logger: slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn})),
		Name: "bob", Poll: 50 * time.Millisecond, SoftLimit: 100 * time.Millisecond,
	}
	for _, c := range change {
		c(&config)
	}
	w, err := pawlrt.New(pool, config)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		select {
		case <-done:
		case <-time.After(time.Minute):
			t.Error("the worker does not stop")
		}
	}
	t.Cleanup(stop)
	return stop
}

// put enqueues a job and returns its id.
func put(t *testing.T, pool *pgxpool.Pool, k *taskimpl.Kind[args], a args, opts ...task.EnqueueOption) uuid.UUID {
	t.Helper()
	r, err := taskimpl.Enqueue(t.Context(), task.Autocommit(pool), k, a, opts)
	require.NoError(t, err)
	return r.ID
}

// reach waits until a job is in a state.
func reach(t *testing.T, c *admin.Client, id uuid.UUID, state task.State) *admin.JobDetail {
	t.Helper()
	var job *admin.JobDetail
	testdb.Eventually(t, soon, fmt.Sprintf("job %s to be %s", id, state), func() bool {
		var err error
		job, err = c.Job(t.Context(), id)
		require.NoError(t, err)
		return job.State == state
	})
	return job
}

// bury makes n dead letters of a mode, and returns their ids.
func bury(t *testing.T, pool *pgxpool.Pool, c *admin.Client, k *taskimpl.Kind[args], mode string, n int) (ids []uuid.UUID) {
	t.Helper()
	for i := range n {
		ids = append(ids, put(t, pool, k, args{N: i, Mode: mode}))
	}
	stop := work(t, pool, k, obey)
	for _, id := range ids {
		reach(t, c, id, task.StateDead)
	}
	stop()
	return ids
}

func exec(t *testing.T, pool *pgxpool.Pool, sql string, args ...any) {
	t.Helper()
	_, err := pool.Exec(t.Context(), sql, args...)
	require.NoError(t, err)
}

func query[V any](t *testing.T, pool *pgxpool.Pool, sql string, args ...any) (v V) {
	t.Helper()
	require.NoError(t, pool.QueryRow(t.Context(), sql, args...).Scan(&v))
	return v
}

// booksAddUp checks that every job is in its one place.
func booksAddUp(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	found, err := pawlrt.CheckInvariants(t.Context(), pool, pawlrt.InvariantOptions{Days: -1})
	require.NoError(t, err)
	require.NoError(t, found.Err())
}
