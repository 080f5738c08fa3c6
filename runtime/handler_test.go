package runtime_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	goruntime "runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pawlgo/pawl/internal/store"
	"github.com/pawlgo/pawl/internal/testdb"
	pawlrt "github.com/pawlgo/pawl/runtime"
	"github.com/pawlgo/pawl/task"
	"github.com/pawlgo/pawl/task/taskimpl"
)

// buffer is a log that a test reads.
type buffer struct {
	mu   sync.Mutex
	text bytes.Buffer // guarded by mu
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// Every way to end a goroutine is a recorded failure; the slots stay usable and
// the worker stops as usual.
func TestPanics(t *testing.T) {
	t.Parallel()
	pool := testdb.Migrated(t)
	k := kind("k", "q", func(k *taskimpl.Kind[args]) { k.Policy.Attempts = 1 })
	var log buffer
	w := start(t, pool, pawlrt.Config{
		Tables: []task.Table{table(k, func(_ context.Context, job *task.Job[args]) error {
			switch job.Args.Mode {
			case "panic":
				panic("x marks the spot")
			case "panic nil":
				panic(nil)
			case "panic error":
				panic(task.Permanent(errors.New("in a panic")))
			case "goexit":
				goruntime.Goexit()
			case "nil map":
				var m map[int]int
				m[job.Args.N] = 1
			}
			return nil
		})},
		Queues: map[string]pawlrt.Queue{"q": {Concurrency: 2}},
		Logger: slog.New(slog.NewTextHandler(&log, nil)),
	})
	modes := []string{"panic", "panic nil", "panic error", "goexit", "nil map"}
	for _, mode := range modes {
		put(t, pool, k, numbered(10, mode)...)
	}
	put(t, pool, k, numbered(10, "")...)
	require.Equal(t, store.Audit{Dead: 50, Completed: 10}, settled(t, pool, 60))
	require.Equal(t, 40, query[int](t, pool, `SELECT count(*) FROM pawl.dead_letters WHERE code = 'panic'`))
	require.Equal(t, 10, query[int](t, pool, `SELECT count(*) FROM pawl.dead_letters WHERE code = 'goexit'`))
	require.Equal(t, 10, query[int](t, pool, `SELECT count(*) FROM pawl.dead_letters WHERE summary = 'panic: x marks the spot'`))
	require.NoError(t, w.shutdown(t))
	stats := w.Stats()
	require.EqualValues(t, 40, stats.Panics)
	require.Zero(t, stats.Running)
	require.Zero(t, stats.Queues["q"].Running)
	require.Contains(t, log.String(), "x marks the spot")
	require.Contains(t, log.String(), "handler_test.go") // of the stack
	require.Contains(t, log.String(), "assignment to entry in nil map")
}

type panickyError struct{ value any }

func (e panickyError) Error() string { panic(e.value) }

type typedNil struct{ text string }

func (e *typedNil) Error() string { return e.text }

// ending ends the goroutine that asks for its text.
type ending struct{}

func (ending) Error() string { goruntime.Goexit(); return "" }

// Recording a failure never fails, whatever error a handler returns.
func TestHostileErrorsAreRecorded(t *testing.T) {
	t.Parallel()
	pool := testdb.Migrated(t)
	many := make([]error, 10_000)
	for i := range many {
		many[i] = fmt.Errorf("error %d", i)
	}
	hostile := map[string]error{
		"NUL": errors.New("a\x00b"), "UTF-8": errors.New("\xff\xfe"), "long": errors.New(strings.Repeat("☃", 4<<20)), "long NUL": errors.New(strings.Repeat("\x00", 1<<20)),
		"typed nil": (*typedNil)(nil), "nil failure": (*task.Failure)(nil), "panics": panickyError{"x"}, "panics with nil": panickyError{nil}, "ends": ending{},
		"joined": errors.Join(many...), "class": &task.Failure{Class: "\x00\xff", Err: errors.New("x")}, "empty": errors.New(""), "wrapped": fmt.Errorf("%w", task.Transient(errors.New("\x00"))),
		"negative snooze": task.Transient(task.Snooze(-time.Hour)),
	}
	k := kind("k", "q", func(k *taskimpl.Kind[args]) { k.Policy.Attempts, k.Policy.Unknown = 2, 2 })
	w := start(t, pool, pawlrt.Config{
		Tables: []task.Table{table(k, func(_ context.Context, job *task.Job[args]) error { return hostile[job.Args.Mode] })},
		Logger: slog.New(slog.DiscardHandler), Poll: 50 * time.Millisecond,
	})
	for mode := range hostile {
		put(t, pool, k, args{Mode: mode})
	}
	require.Equal(t, store.Audit{Dead: len(hostile)}, settled(t, pool, len(hostile)))
	rows, err := pool.Query(t.Context(), `SELECT j.args->>'mode', e.code, e.summary, count(*) OVER (PARTITION BY e.job_id)::int FROM pawl.job_errors e JOIN pawl.jobs j ON j.id = e.job_id`)
	require.NoError(t, err)
	var mode, code, summary string
	var times int
	_, err = pgx.ForEachRow(rows, []any{&mode, &code, &summary, &times}, func() error {
		require.Equal(t, 2, times, "%s: one an attempt", mode)
		require.NotEmpty(t, code)
		require.LessOrEqual(t, len(summary), 2000)
		require.True(t, utf8.ValidString(summary))
		return nil
	})
	require.NoError(t, err)
	require.NoError(t, w.shutdown(t))
	require.Zero(t, w.Stats().SettleErrors)
}

// A handler that ignores its context loses its slot and its job, and is shown
// as stuck until it returns.
func TestStuckHandlers(t *testing.T) {
	t.Parallel()
	pool := testdb.Migrated(t)
	g := newGate()
	stuck := kind("stuck", "q", func(k *taskimpl.Kind[args]) { k.Policy.Attempts, k.Policy.Timeout = 1, 200*time.Millisecond })
	fine := kind("fine", "q")
	w := start(t, pool, pawlrt.Config{
		Tables: []task.Table{table(stuck, g.ignore), table(fine, func(context.Context, *task.Job[args]) error { return nil })},
		Queues: map[string]pawlrt.Queue{"q": {Concurrency: 3}},
	})
	put(t, pool, stuck, numbered(3, "")...)
	g.started(t, 3)
	put(t, pool, fine, numbered(20, "")...)
	require.Equal(t, store.Audit{Dead: 3, Completed: 20}, settled(t, pool, 23))
	require.Equal(t, 3, query[int](t, pool, `SELECT count(*) FROM pawl.dead_letters WHERE code = 'timeout'`))
	stats := w.Stats()
	require.EqualValues(t, 3, stats.Stuck)
	require.EqualValues(t, 3, stats.Timeouts)
	require.EqualValues(t, 3, stats.Running)
	require.Zero(t, stats.Queues["q"].Running)
	g.open()
	testdb.Eventually(t, slow, "the stuck handlers to be counted out", func() bool { return w.Stats().Stuck == 0 && w.Stats().Running == 0 })
	require.NoError(t, w.shutdown(t))
	require.EqualValues(t, 3, w.Stats().Timeouts, "an attempt times out once")
	require.Zero(t, w.Stats().Refused)
}

// A handler that obeys its context is told why it ended.
func TestTimeout(t *testing.T) {
	t.Parallel()
	pool := testdb.Migrated(t)
	k := kind("k", "q", func(k *taskimpl.Kind[args]) { k.Policy.Timeout = 50 * time.Millisecond })
	causes := make(chan error, 10)
	w := start(t, pool, pawlrt.Config{Tables: []task.Table{table(k, func(ctx context.Context, job *task.Job[args]) error {
		if job.Attempt == 3 {
			return nil
		}
		<-ctx.Done()
		causes <- context.Cause(ctx)
		return ctx.Err()
	})}})
	put(t, pool, k, args{})
	require.Equal(t, store.Audit{Completed: 1}, settled(t, pool, 1))
	for range 2 {
		require.ErrorIs(t, <-causes, task.ErrTimeout)
	}
	require.Equal(t, 2, query[int](t, pool, `SELECT count(*) FROM pawl.job_errors WHERE code = 'timeout'`))
	require.EqualValues(t, 2, w.Stats().Timeouts)
	require.Zero(t, w.Stats().Stuck)
}

// What attempts=n means is the same for an error, a panic and a timeout.
func TestAttempts(t *testing.T) {
	t.Parallel()
	pool := testdb.Migrated(t)
	var runs sync.Map // by kind: *atomic.Int64
	var tables []task.Table
	for _, n := range []int{1, 2, 5} {
		k := kind(fmt.Sprintf("k%d", n), "q", func(k *taskimpl.Kind[args]) {
			k.Policy.Attempts, k.Policy.Unknown, k.Policy.Timeout = n, n, 20*time.Millisecond
			k.Policy.Base, k.Policy.Max = time.Millisecond, time.Millisecond
		})
		tables = append(tables, table(k, func(ctx context.Context, job *task.Job[args]) error {
			count, _ := runs.LoadOrStore(fmt.Sprint(job.MaxAttempts, job.Args.Mode), new(atomic.Int64))
			if got := count.(*atomic.Int64).Add(1); got != int64(job.Attempt) {
				return task.Permanent(fmt.Errorf("attempt %d is run %d", job.Attempt, got))
			}
			switch job.Args.Mode {
			case "panic":
				panic("x")
			case "timeout":
				<-ctx.Done()
				return ctx.Err()
			}
			return errors.New("x")
		}))
		for _, mode := range []string{"error", "panic", "timeout"} {
			put(t, pool, k, args{Mode: mode})
		}
	}
	start(t, pool, pawlrt.Config{Tables: tables, Logger: slog.New(slog.DiscardHandler)})
	require.Equal(t, store.Audit{Dead: 9}, settled(t, pool, 9))
	for _, n := range []int{1, 2, 5} {
		for _, mode := range []string{"error", "panic", "timeout"} {
			count, ok := runs.Load(fmt.Sprint(n, mode))
			require.True(t, ok)
			require.EqualValues(t, n, count.(*atomic.Int64).Load(), mode)
		}
	}
	require.Equal(t, 9, query[int](t, pool, `SELECT count(*) FROM pawl.dead_letters WHERE attempts = max_attempts`))
}

// A snooze costs no attempt, and waits.
func TestSnooze(t *testing.T) {
	t.Parallel()
	pool := testdb.Migrated(t)
	k := kind("k", "q", func(k *taskimpl.Kind[args]) { k.Policy.Attempts = 1 })
	var runs atomic.Int64
	w := start(t, pool, pawlrt.Config{Poll: 30 * time.Second, Tables: []task.Table{table(k, func(_ context.Context, job *task.Job[args]) error {
		if job.Attempt != 1 {
			return task.Permanent(fmt.Errorf("attempt %d", job.Attempt))
		}
		if runs.Add(1) < 5 {
			return task.Snooze(20 * time.Millisecond)
		}
		return nil
	})}})
	put(t, pool, k, args{})
	require.Equal(t, store.Audit{Completed: 1}, settled(t, pool, 1))
	require.NoError(t, w.shutdown(t))
	require.EqualValues(t, 4, w.Stats().GivenBack)
	require.Equal(t, 1, query[int](t, pool, `SELECT attempts FROM pawl.outcomes`))
}
