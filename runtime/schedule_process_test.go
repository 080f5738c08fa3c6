package runtime_test

import (
	"context"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/pawlgo/pawl/internal/testdb"
	"github.com/pawlgo/pawl/migrations"
	pawlrt "github.com/pawlgo/pawl/runtime"
	"github.com/pawlgo/pawl/task"
	"github.com/pawlgo/pawl/task/taskimpl"
)

// everySecond is a kind that ticks every second, with the second as its payload.
func everySecond() *taskimpl.Kind[args] {
	return kind("every_second", "seconds", func(k *taskimpl.Kind[args]) {
		k.Schedule = &taskimpl.Schedule[args]{Spec: "@every 1s", Zone: "UTC", Missed: "all",
			Args: func(at time.Time) args { return args{N: int(at.Unix())} }}
	})
}

// seconds are the ticks that have jobs.
func seconds(t *testing.T, pool *pgxpool.Pool) (all []int) {
	t.Helper()
	require.NoError(t, pool.QueryRow(t.Context(),
		`SELECT COALESCE(array_agg((args->>'n')::integer ORDER BY id), '{}') FROM pawl.jobs WHERE kind = 'every_second'`).Scan(&all))
	return all
}

// requireEachOnce fails where a tick has no job or two.
func requireEachOnce(t *testing.T, ticks []int) {
	t.Helper()
	slices.Sort(ticks)
	for i, n := range ticks {
		require.Equal(t, ticks[0]+i, n, "%v", ticks)
	}
}

func TestManyReplicas(t *testing.T) {
	t.Parallel()
	pool := testdb.Migrated(t, testdb.MaxConns(20))
	for range 10 {
		start(t, pool, pawlrt.Config{Tables: []task.Table{table(everySecond(), fine)}, Poll: 500 * time.Millisecond})
	}
	testdb.Eventually(t, time.Minute, "ticks", func() bool { return len(seconds(t, pool)) >= 8 })
	requireEachOnce(t, seconds(t, pool))
	require.Equal(t, "active", query[string](t, pool, `SELECT status FROM pawl.schedule_status`))
}

func TestKilledReplicas(t *testing.T) {
	t.Parallel()
	pool := testdb.Migrated(t)
	spawnOne := func() *child { return spawn(t, pool, childConfig{Lease: lease, Concurrency: 1, Ticks: true}) }
	children := []*child{spawnOne(), spawnOne(), spawnOne()}
	for n := range 6 {
		before := len(seconds(t, pool))
		testdb.Eventually(t, time.Minute, "a tick", func() bool { return len(seconds(t, pool)) > before })
		children[n%3].signal(t, syscall.SIGKILL)
		children[n%3] = spawnOne()
	}
	before := len(seconds(t, pool))
	testdb.Eventually(t, time.Minute, "ticks", func() bool { return len(seconds(t, pool)) > before+2 })
	requireEachOnce(t, seconds(t, pool))
}

// Ticks need no listener, and neither does a job that somebody wants now.
func TestRunNowInAWorker(t *testing.T) {
	t.Parallel()
	pool := testdb.Migrated(t)
	ran := make(chan time.Time, 1)
	k := kind("yearly", "yearly", func(k *taskimpl.Kind[args]) {
		k.Schedule = &taskimpl.Schedule[args]{Spec: "@yearly", Zone: "America/Los_Angeles", Missed: "skip"}
	})
	w := start(t, pool, pawlrt.Config{PollOnly: true, Tables: []task.Table{table(k, func(_ context.Context, job *task.Job[args]) error {
		ran <- job.RunAt
		return nil
	})}})
	testdb.Eventually(t, slow, "the schedule to be registered", func() bool {
		return query[bool](t, pool, `SELECT EXISTS (SELECT FROM pawl.schedules)`)
	})
	require.NoError(t, task.RunNow(t.Context(), task.Autocommit(pool), "yearly"))
	receive(t, ran, "the job")
	testdb.Eventually(t, slow, "the statistics", func() bool { return w.Stats().Schedules == pawlrt.ScheduleStats{Runs: 1} })
}

func TestSchedulesInAnotherSchema(t *testing.T) {
	t.Parallel()
	const schema = `a "schema"`
	pool := testdb.New(t)
	require.NoError(t, migrations.Up(t.Context(), pool, migrations.Options{Schema: schema}))
	ran := make(chan int, 1000)
	start(t, pool, pawlrt.Config{Schema: schema, Tables: []task.Table{table(everySecond(), func(_ context.Context, job *task.Job[args]) error {
		ran <- job.Args.N
		return nil
	})}})
	require.NotEqual(t, receive(t, ran, "a tick"), receive(t, ran, "another"))
	tx := task.InSchema(task.Autocommit(pool), schema)
	changed, err := task.PauseSchedule(t.Context(), tx, "every_second")
	require.NoError(t, err)
	require.True(t, changed)
	require.ErrorIs(t, task.RunNow(t.Context(), task.Autocommit(pool), "every_second"), task.ErrNotMigrated)
}
