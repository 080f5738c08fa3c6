package runtime

import (
	"context"
	"fmt"
	"log/slog"
	goruntime "runtime"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/pawlgo/pawl/internal/cron"
	"github.com/pawlgo/pawl/internal/store"
	"github.com/pawlgo/pawl/internal/testdb"
	"github.com/pawlgo/pawl/task"
	"github.com/pawlgo/pawl/task/taskimpl"
)

// tickArgs is the payload of the scheduled kinds of the tests.
type tickArgs struct {
	At           time.Time `json:"at"`
	Organization string    `json:"organization"`
}

// scheduledKind is a kind as generated code would declare it.
func scheduledKind(name, spec, zone, missed string) *taskimpl.Kind[tickArgs] {
	k := &taskimpl.Kind[tickArgs]{
		Name: name, Queue: "ticks", Priority: task.High, Version: 1,
		Policy:       taskimpl.Policy{Attempts: 7, Base: time.Second, Max: time.Second, Unknown: 5, Timeout: time.Minute},
		Capabilities: []taskimpl.Capability{{Version: 1, ID: 77}},
		Decode:       func(_ int, raw []byte) (tickArgs, error) { return taskimpl.As[tickArgs](raw) },
		Key:          func(*tickArgs) []any { return []any{"always the same"} },
		Keep:         time.Hour,
		Organization: func(a *tickArgs) (string, error) { return a.Organization, nil },
	}
	if spec != "" {
		k.Schedule = &taskimpl.Schedule[tickArgs]{Spec: spec, Zone: zone, Missed: missed,
			Args: func(at time.Time) tickArgs { return tickArgs{At: at, Organization: "acme"} }}
	}
	return k
}

// fakeClock is the database's time as a test sees it.
type fakeClock struct {
	mu  sync.Mutex
	now time.Time // guarded by mu
}

func (c *fakeClock) set(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = now
}

func (c *fakeClock) read(time.Time) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// process is the scheduler of a worker that has just started, by a clock of the
// test's.
func process(t *testing.T, pool *pgxpool.Pool, clock *fakeClock, kinds ...*taskimpl.Kind[tickArgs]) *scheduler {
	t.Helper()
	s := unregistered(t, pool, clock, kinds...)
	require.NoError(t, s.register(t.Context()))
	return s
}

func unregistered(t *testing.T, pool *pgxpool.Pool, clock *fakeClock, kinds ...*taskimpl.Kind[tickArgs]) *scheduler {
	t.Helper()
	var tables []task.Table
	for _, k := range kinds {
		tables = append(tables, taskimpl.Table(taskimpl.Row(k, func(context.Context, *task.Job[tickArgs]) error { return nil })))
	}
	w, err := New(pool, Config{Tables: tables, Logger: slog.New(slog.NewTextHandler(t.Output(), nil))})
	require.NoError(t, err)
	w.store, err = store.Open(t.Context(), pool, store.DefaultSchema, 2)
	require.NoError(t, err)
	t.Cleanup(w.store.Close)
	if clock != nil {
		w.ticks.clock = clock.read
	}
	return w.ticks
}

// jobsAt are the ticks of the jobs of a kind, in the order in which they were
// enqueued.
func jobsAt(t *testing.T, pool *pgxpool.Pool, kind string) (all []string) {
	t.Helper()
	require.NoError(t, pool.QueryRow(t.Context(),
		`SELECT COALESCE(array_agg(args->>'at' ORDER BY id), '{}') FROM pawl.jobs WHERE kind = $1`, kind).Scan(&all))
	return all
}

// column returns one column of a schedule's status.
func column[V any](t *testing.T, pool *pgxpool.Pool, kind, name string) (v V) {
	t.Helper()
	require.NoError(t, pool.QueryRow(t.Context(), `SELECT `+name+` FROM pawl.schedule_status WHERE kind = $1`, kind).Scan(&v))
	return v
}

func instant(text string) time.Time {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		panic(err)
	}
	return t
}

// A tick's job is as the declaration says, but for its key.
func TestTickJob(t *testing.T) {
	t.Parallel()
	pool := testdb.Migrated(t)
	clock := &fakeClock{now: instant("2025-06-01T10:00:00Z")}
	s := process(t, pool, clock, scheduledKind("nightly", "30 2 * * *", "America/Los_Angeles", "one"))
	require.LessOrEqual(t, s.look(t.Context()), scheduleInterval)
	require.Empty(t, jobsAt(t, pool, "nightly"), "nothing before the first tick")
	clock.set(instant("2025-06-02T09:29:59Z"))
	require.LessOrEqual(t, s.look(t.Context()), time.Second)
	clock.set(instant("2025-06-02T09:30:00Z"))
	s.look(t.Context())
	s.look(t.Context())
	require.Equal(t, []string{"2025-06-02T02:30:00-07:00"}, jobsAt(t, pool, "nightly"), "in the zone of the schedule")
	require.Equal(t, "acme/3/7/ticks", query[string](t, pool,
		`SELECT concat_ws('/', organization_id, priority, max_attempts, queue) FROM pawl.jobs`))
	require.True(t, query[bool](t, pool, `SELECT j.id = s.last_job AND s.last_tick = '2025-06-02 09:30Z' AND s.ticks = 1
		AND s.next_tick = '2025-06-03 09:30Z' AND s.status = 'unserved' FROM pawl.jobs j, pawl.schedule_status s`))
	require.Equal(t, ScheduleStats{Ticks: 1}, s.w.Stats().Schedules)

	// Set back by hand, the cursor meets the key.
	exec(t, pool, `UPDATE pawl.schedules SET cursor = cursor - interval '1 hour'`)
	s.look(t.Context())
	require.Len(t, jobsAt(t, pool, "nightly"), 1)
	require.Equal(t, ScheduleStats{Ticks: 1}, s.w.Stats().Schedules)
	require.True(t, query[bool](t, pool, `SELECT cursor = '2025-06-02 09:30Z' FROM pawl.schedules`))
}

func query[V any](t *testing.T, pool *pgxpool.Pool, sql string, args ...any) (v V) {
	t.Helper()
	require.NoError(t, pool.QueryRow(t.Context(), sql, args...).Scan(&v))
	return v
}

func exec(t *testing.T, pool *pgxpool.Pool, sql string, args ...any) {
	t.Helper()
	_, err := pool.Exec(t.Context(), sql, args...)
	require.NoError(t, err)
}

// Each process lives for a minute of a schedule of ten.
func TestUptimeShorterThanInterval(t *testing.T) {
	t.Parallel()
	pool := testdb.Migrated(t)
	begin := instant("2025-06-01T10:00:30Z")
	clock := &fakeClock{}
	var want []string
	for minute := range 65 {
		clock.set(begin.Add(time.Duration(minute) * time.Minute))
		s := process(t, pool, clock, scheduledKind("often", "@every 10m", "UTC", "skip"))
		s.look(t.Context())
		clock.set(begin.Add(time.Duration(minute)*time.Minute + 30*time.Second)) // on the minute
		s.look(t.Context())
		s.w.store.Close()
		if at := begin.Add(time.Duration(minute)*time.Minute + 30*time.Second); at.Minute()%10 == 0 {
			want = append(want, at.Format(time.RFC3339))
		}
	}
	require.Len(t, want, 6)
	require.Equal(t, want, jobsAt(t, pool, "often"))
	require.Zero(t, column[int](t, pool, "often", "missed_ticks"))
}

// One process ends a second before the tick, the next starts a second after it,
// by turns together with others.
func TestHandOver(t *testing.T) {
	t.Parallel()
	pool := testdb.Migrated(t)
	tick := instant("2025-06-01T10:00:00Z")
	clock := &fakeClock{now: tick.Add(-time.Hour)}
	k := scheduledKind("handed", "0 * * * *", "UTC", "skip")
	process(t, pool, clock, k).w.store.Close()
	var want []string
	for range 100 {
		clock.set(tick.Add(-time.Second))
		before := process(t, pool, clock, k)
		before.look(t.Context())
		before.w.store.Close()
		clock.set(tick.Add(time.Second))
		var all sync.WaitGroup
		for range 3 {
			s := process(t, pool, clock, k)
			all.Go(func() {
				s.look(t.Context())
				s.w.store.Close()
			})
		}
		all.Wait()
		want = append(want, tick.Format(time.RFC3339))
		tick = tick.Add(time.Hour)
	}
	require.Equal(t, want, jobsAt(t, pool, "handed"))
}

func TestMissedTicks(t *testing.T) {
	t.Parallel()
	pool := testdb.Migrated(t)
	for policy, want := range map[string]struct {
		jobs  int
		first string
		stats ScheduleStats
	}{
		"skip": {0, "", ScheduleStats{Missed: 36, Skipped: 36}},
		"one":  {1, "2025-06-01T13:00:00Z", ScheduleStats{Ticks: 1, Missed: 36, Skipped: 35}},
		"all":  {36, "2025-06-01T10:05:00Z", ScheduleStats{Ticks: 36, Missed: 36}},
	} {
		clock := &fakeClock{now: instant("2025-06-01T10:00:00Z")}
		k := scheduledKind("missed_"+policy, "*/5 * * * *", "UTC", policy)
		process(t, pool, clock, k).w.store.Close()
		clock.set(instant("2025-06-01T13:00:01Z"))
		s := process(t, pool, clock, k)
		s.look(t.Context())
		s.look(t.Context())
		jobs := jobsAt(t, pool, k.Name)
		require.Len(t, jobs, want.jobs, policy)
		if want.jobs > 0 {
			require.Equal(t, want.first, jobs[0])
			require.Equal(t, "2025-06-01T13:00:00Z", jobs[want.jobs-1])
		}
		require.Equal(t, want.stats, s.w.Stats().Schedules, policy)
		require.Equal(t, want.stats, ScheduleStats{
			Ticks: column[int64](t, pool, k.Name, "ticks"), Missed: column[int64](t, pool, k.Name, "missed_ticks"), Skipped: column[int64](t, pool, k.Name, "skipped_ticks"),
		}, policy)
		clock.set(instant("2025-06-01T13:05:02Z"))
		s.look(t.Context())
		require.Len(t, jobsAt(t, pool, k.Name), want.jobs+1, "in time")
	}
}

// There is an end to what is made up for.
func TestManyMissedTicks(t *testing.T) {
	t.Parallel()
	pool := testdb.Migrated(t)
	begin := instant("2025-06-01T10:00:00Z")
	clock := &fakeClock{now: begin}
	k := scheduledKind("every_second", "@every 1s", "UTC", "all")
	s := process(t, pool, clock, k)
	clock.set(begin.Add(4321 * time.Second))
	for range maxMissed/tickBatch + 1 {
		s.look(t.Context())
	}
	jobs := jobsAt(t, pool, k.Name)
	require.Len(t, jobs, maxMissed)
	require.Equal(t, begin.Add(3322*time.Second).Format(time.RFC3339), jobs[0])
	require.Equal(t, begin.Add(4321*time.Second).Format(time.RFC3339), jobs[maxMissed-1])
	require.Equal(t, ScheduleStats{Ticks: maxMissed, Missed: 4321, Skipped: 3321}, s.w.Stats().Schedules)
}

func TestDueTicks(t *testing.T) {
	t.Parallel()
	now := instant("2025-06-01T12:00:10Z")
	for _, c := range []struct {
		spec, policy         string
		ago                  time.Duration
		run, missed, skipped int
	}{
		{"0 * * * *", "skip", 5 * time.Second, 0, 0, 0},
		{"0 * * * *", "skip", 11 * time.Second, 1, 0, 0},
		{"@every 10s", "skip", 30 * time.Second, 3, 0, 0},
		{"@every 10s", "skip", 41 * time.Second, 0, 5, 5},
		{"@every 10s", "one", 41 * time.Second, 1, 5, 4},
		{"@every 10s", "all", 41 * time.Second, 5, 5, 0},
		{"@every 1s", "all", 150 * time.Second, 100, 100, 0},
		{"@every 1s", "all", 1500 * time.Second, 100, 600, 500},
	} {
		spec, err := cron.Parse(c.spec)
		require.NoError(t, err)
		got, ok := dueTicks(spec, time.UTC, c.policy, now.Add(-c.ago), now)
		name := fmt.Sprint(c)
		require.Equal(t, c.run+c.missed > 0, ok, name)
		require.Len(t, got.run, c.run, name)
		require.Equal(t, c.missed, got.missed, name)
		require.Equal(t, c.skipped, got.skipped, name)
		switch {
		case c.run == tickBatch:
			require.Equal(t, got.run[tickBatch-1], got.cursor, name)
		case ok:
			require.False(t, spec.Next(got.cursor, time.UTC).Before(now), name)
		}
	}
}

// Both instants at which a clock shows the same time have their jobs.
func TestTicksOfARepeatedHour(t *testing.T) {
	t.Parallel()
	pool := testdb.Migrated(t)
	clock := &fakeClock{now: instant("2025-11-02T07:00:00Z")} // midnight
	hourly := scheduledKind("hourly", "0 * * * *", "America/Los_Angeles", "one")
	daily := scheduledKind("daily", "30 1 * * *", "America/Los_Angeles", "one")
	s := process(t, pool, clock, hourly, daily)
	for now := clock.now; now.Before(instant("2025-11-03T08:00:00Z")); now = now.Add(15 * time.Minute) {
		clock.set(now)
		s.look(t.Context())
	}
	jobs := jobsAt(t, pool, "hourly")
	require.Len(t, jobs, 24, "and the one at midnight, before the first look")
	require.Equal(t, []string{"2025-11-02T01:00:00-07:00", "2025-11-02T01:00:00-08:00"}, jobs[:2])
	require.Equal(t, []string{"2025-11-02T01:30:00-07:00"}, jobsAt(t, pool, "daily"))
}

func TestScheduleChanges(t *testing.T) {
	t.Parallel()
	pool := testdb.Migrated(t)
	clock := &fakeClock{now: instant("2025-06-01T10:30:00Z")}
	old := process(t, pool, clock, scheduledKind("changed", "0 * * * *", "UTC", "one"))
	old.w.config.Name = "old"

	// What is due by the old declaration gets its job; one instant, one tick.
	clock.set(instant("2025-06-01T12:00:00Z"))
	young := unregistered(t, pool, clock, scheduledKind("changed", "*/30 * * * *", "UTC", "all"))
	young.w.config.Name = "young"
	require.NoError(t, young.register(t.Context()))
	require.Equal(t, []string{"2025-06-01T12:00:00Z"}, jobsAt(t, pool, "changed"))
	young.look(t.Context())
	old.look(t.Context())
	require.Len(t, jobsAt(t, pool, "changed"), 1)
	require.Equal(t, "young", column[string](t, pool, "changed", "registered_by"))

	// The process that is still old goes by what the younger one declared.
	clock.set(instant("2025-06-01T12:30:00Z"))
	old.look(t.Context())
	require.Equal(t, []string{"2025-06-01T12:00:00Z", "2025-06-01T12:30:00Z"}, jobsAt(t, pool, "changed"))

	// Removed: shown, and run by nobody.
	clock.set(instant("2025-06-01T12:59:00Z"))
	process(t, pool, clock, scheduledKind("changed", "", "", ""))
	require.Equal(t, "removed", column[string](t, pool, "changed", "status"))
	clock.set(instant("2025-06-01T14:00:00Z"))
	young.look(t.Context())
	_, err := young.tick(t.Context(), "changed")
	require.ErrorIs(t, err, store.ErrScheduleMoved)
	require.Len(t, jobsAt(t, pool, "changed"), 2)
	require.ErrorIs(t, task.RunNow(t.Context(), task.Autocommit(pool), "changed"), task.ErrNoSchedule)

	// Back again, nothing was missed.
	back := process(t, pool, clock, scheduledKind("changed", "*/30 * * * *", "UTC", "all"))
	back.look(t.Context())
	require.Len(t, jobsAt(t, pool, "changed"), 2)
	clock.set(instant("2025-06-01T14:30:00Z"))
	back.look(t.Context())
	require.Len(t, jobsAt(t, pool, "changed"), 3)
}

// A schedule that somebody deletes is one of the tables all the same.
func TestDeletedSchedule(t *testing.T) {
	t.Parallel()
	pool := testdb.Migrated(t)
	clock := &fakeClock{now: instant("2025-06-01T10:30:00Z")}
	s := process(t, pool, clock, scheduledKind("a", "0 * * * *", "UTC", "one"), scheduledKind("b", "0 * * * *", "UTC", "one"))
	exec(t, pool, `DELETE FROM pawl.schedules WHERE kind = 'a'`)
	s.look(t.Context())
	clock.set(instant("2025-06-01T11:00:00Z"))
	s.look(t.Context())
	require.Len(t, jobsAt(t, pool, "a"), 1)
	require.Len(t, jobsAt(t, pool, "b"), 1)
}

// A declaration that this binary cannot read is a later one's.
func TestScheduleOfALaterBinary(t *testing.T) {
	t.Parallel()
	pool := testdb.Migrated(t)
	clock := &fakeClock{now: instant("2025-06-01T10:30:00Z")}
	kinds := []*taskimpl.Kind[tickArgs]{scheduledKind("a", "0 * * * *", "UTC", "one"), scheduledKind("b", "0 * * * *", "UTC", "one")}
	s := process(t, pool, clock, kinds...)
	exec(t, pool, `UPDATE pawl.schedules SET spec = '@lunar' WHERE kind = 'a'`)
	clock.set(instant("2025-06-01T11:00:00Z"))
	s.look(t.Context())
	require.Empty(t, jobsAt(t, pool, "a"))
	require.Len(t, jobsAt(t, pool, "b"), 1, "the others go on")
	require.EqualValues(t, 1, s.w.Stats().Schedules.Errors)
	process(t, pool, clock, kinds...)
	require.Equal(t, "0 * * * *", column[string](t, pool, "a", "spec"), "declared again")
}

func TestPausedSchedule(t *testing.T) {
	t.Parallel()
	pool := testdb.Migrated(t)
	db := task.Autocommit(pool)
	clock := &fakeClock{now: instant("2025-06-01T10:30:00Z")}
	s := process(t, pool, clock, scheduledKind("k", "0 * * * *", "UTC", "all"))
	for _, want := range []bool{true, false} {
		changed, err := task.PauseSchedule(t.Context(), db, "k")
		require.NoError(t, err)
		require.Equal(t, want, changed)
	}
	for hour := range 5 {
		clock.set(instant("2025-06-01T11:00:00Z").Add(time.Duration(hour) * time.Hour))
		s.look(t.Context())
	}
	require.Empty(t, jobsAt(t, pool, "k"))
	require.Zero(t, s.w.Stats().Schedules)
	require.NoError(t, task.RunNow(t.Context(), db, "k"))
	s.look(t.Context())
	require.Len(t, jobsAt(t, pool, "k"), 1, "asked for")
	for _, want := range []bool{true, false} {
		changed, err := task.ResumeSchedule(t.Context(), db, "k")
		require.NoError(t, err)
		require.Equal(t, want, changed)
	}
	s.look(t.Context())
	require.Len(t, jobsAt(t, pool, "k"), 1, "what passed is not made up for")
	clock.set(instant("2025-06-01T16:00:00Z"))
	s.look(t.Context())
	require.Equal(t, "2025-06-01T16:00:00Z", jobsAt(t, pool, "k")[1])

	for _, f := range []func(context.Context, task.Tx, string) (bool, error){task.PauseSchedule, task.ResumeSchedule} {
		_, err := f(t.Context(), db, "other")
		require.ErrorIs(t, err, task.ErrNoSchedule)
	}
}

func TestRunNow(t *testing.T) {
	t.Parallel()
	pool := testdb.Migrated(t)
	s := process(t, pool, nil, scheduledKind("k", "@yearly", "Asia/Kathmandu", "one"))
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	for range 3 {
		require.NoError(t, task.RunNow(t.Context(), tx, "k"))
	}
	s.look(t.Context())
	require.Empty(t, jobsAt(t, pool, "k"), "not committed")
	require.NoError(t, tx.Commit(t.Context()))
	s.look(t.Context())
	s.look(t.Context())
	jobs := jobsAt(t, pool, "k")
	require.Len(t, jobs, 3, "a job for each call")
	require.Contains(t, jobs[0], "+05:45")
	require.Equal(t, ScheduleStats{Runs: 3}, s.w.Stats().Schedules)

	exec(t, pool, `INSERT INTO pawl.schedule_requests SELECT 'k', now() FROM generate_series(1, 150)`)
	s.look(t.Context())
	s.look(t.Context())
	require.Len(t, jobsAt(t, pool, "k"), 153, "at the same time")

	rolledBack, err := pool.Begin(t.Context())
	require.NoError(t, err)
	require.NoError(t, task.RunNow(t.Context(), rolledBack, "k"))
	require.NoError(t, rolledBack.Rollback(t.Context()))
	s.look(t.Context())
	require.Len(t, jobsAt(t, pool, "k"), 153)
}

// Nobody's open transaction holds up ticks.
func TestTicksBesideOpenTransactions(t *testing.T) {
	t.Parallel()
	pool := testdb.Migrated(t)
	clock := &fakeClock{now: instant("2025-06-01T10:30:00Z")}
	s := process(t, pool, clock, scheduledKind("k", "0 * * * *", "UTC", "one"))
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { require.NoError(t, tx.Rollback(context.WithoutCancel(t.Context()))) }()
	require.NoError(t, task.RunNow(t.Context(), tx, "k"))
	_, err = task.PauseSchedule(t.Context(), tx, "k")
	require.NoError(t, err)
	clock.set(instant("2025-06-01T11:00:00Z"))
	began := time.Now()
	s.look(t.Context())
	require.Less(t, time.Since(began), 5*time.Second)
	require.Len(t, jobsAt(t, pool, "k"), 1)
}

// Code of the application's fails one schedule and nothing else, and nothing is
// lost by it.
func TestScheduledArgsThatFail(t *testing.T) {
	t.Parallel()
	pool := testdb.Migrated(t)
	clock := &fakeClock{now: instant("2025-06-01T10:30:00Z")}
	var broken sync.Map
	release := make(chan struct{})
	kinds := []*taskimpl.Kind[tickArgs]{scheduledKind("fine", "0 * * * *", "UTC", "one")}
	for name, fail := range map[string]func(){
		"ends":   goruntime.Goexit,
		"panics": func() { panic("no payload") },
		"hangs":  func() { <-release },
	} {
		k := scheduledKind(name, "0 * * * *", "UTC", "one")
		k.Schedule.Args = func(at time.Time) tickArgs {
			if _, mended := broken.Load(name); !mended {
				fail()
			}
			return tickArgs{At: at}
		}
		kinds = append(kinds, k)
	}
	text := scheduledKind("text", "0 * * * *", "UTC", "one")
	text.Schedule.Args = func(at time.Time) tickArgs {
		if _, mended := broken.Load("text"); !mended {
			return tickArgs{Organization: "\x00"}
		}
		return tickArgs{At: at}
	}
	s := process(t, pool, clock, append(kinds, text)...)
	clock.set(instant("2025-06-01T11:00:00Z"))
	s.look(t.Context())
	s.look(t.Context())
	require.Len(t, jobsAt(t, pool, "fine"), 1)
	require.EqualValues(t, 8, s.w.Stats().Schedules.Errors)
	_, err := s.tick(t.Context(), "panics")
	require.ErrorContains(t, err, "no payload (schedule_test.go:")
	_, err = s.tick(t.Context(), "hangs")
	require.ErrorIs(t, err, errHung)
	_, err = s.tick(t.Context(), "ends")
	require.ErrorIs(t, err, errEnded)
	_, err = s.tick(t.Context(), "text")
	require.ErrorIs(t, err, task.ErrInvalidArgs)

	close(release)
	for _, name := range []string{"ends", "panics", "hangs", "text"} {
		broken.Store(name, true)
		testdb.Eventually(t, 10*time.Second, "the tick of "+name, func() bool {
			_, err := s.tick(t.Context(), name)
			return err == nil
		})
		require.Equal(t, []string{"2025-06-01T11:00:00Z"}, jobsAt(t, pool, name))
	}
}

// A process that stops in the middle of a tick does not stop the schedule.
func TestTickOfAStoppedProcess(t *testing.T) {
	t.Parallel()
	pool := testdb.Migrated(t)
	clock := &fakeClock{now: instant("2025-06-01T10:30:00Z")}
	k := scheduledKind("k", "0 * * * *", "UTC", "one")
	s := process(t, pool, clock, k)
	clock.set(instant("2025-06-01T11:00:00Z"))
	other := process(t, pool, clock, k)
	err := s.w.store.Schedule(t.Context(), "k", func(scheduling *store.Scheduling) error {
		require.NoError(t, s.deal(t.Context(), scheduling, clock.read(time.Time{}), &done{}))
		_, err := other.tick(t.Context(), "k")
		require.ErrorIs(t, err, store.ErrScheduleBusy)
		testdb.Eventually(t, 30*time.Second, "the server to end the transaction", func() bool {
			_, err := other.tick(t.Context(), "k")
			return err == nil
		})
		return nil
	})
	require.Error(t, err, "it commits nothing any more")
	require.Len(t, jobsAt(t, pool, "k"), 1)
}

// Without the lock the cursor decides alone, at any default isolation.
func TestCursorDecides(t *testing.T) {
	t.Parallel()
	for _, isolation := range []string{"read committed", "repeatable read", "serializable"} {
		pool := testdb.Migrated(t, testdb.Configure(func(c *pgxpool.Config) {
			c.ConnConfig.RuntimeParams["default_transaction_isolation"] = isolation
		}))
		clock := &fakeClock{now: instant("2025-06-01T10:30:00Z")}
		k := scheduledKind("k", "0 * * * *", "UTC", "one")
		s := process(t, pool, clock, k)
		for n := range 20 {
			clock.set(instant("2025-06-01T11:00:00Z").Add(time.Duration(n) * time.Hour))
			var all sync.WaitGroup
			for range 4 {
				other := unregistered(t, pool, clock, k)
				all.Go(func() { other.look(t.Context()) })
			}
			all.Wait()
			require.Len(t, jobsAt(t, pool, "k"), n+1, isolation)
		}
		// Somebody else moves it between the reading and the moving.
		clock.set(instant("2025-06-03T11:00:00Z"))
		err := s.w.store.Schedule(t.Context(), "k", func(scheduling *store.Scheduling) error {
			exec(t, pool, `UPDATE pawl.schedules SET cursor = cursor + interval '1 minute'`)
			return s.deal(t.Context(), scheduling, clock.read(time.Time{}), &done{})
		})
		require.ErrorIs(t, err, store.ErrScheduleMoved)
		require.Len(t, jobsAt(t, pool, "k"), 20, isolation)
	}
}

func TestWrongSchedules(t *testing.T) {
	t.Parallel()
	pool := testdb.New(t)
	for _, c := range []struct{ spec, zone, message string }{
		{"@daily", "Mars/Base", `the schedule of k: there is no time zone "Mars/Base"`},
		{"@daily", "Local", `the schedule of k: "Local" is no name of a time zone`},
		{"0 0 31 2 *", "UTC", `the schedule of k: "0 0 31 2 *": it never runs`},
	} {
		_, err := New(pool, Config{Tables: []task.Table{taskimpl.Table(taskimpl.Row(scheduledKind("k", c.spec, c.zone, "one"),
			func(context.Context, *task.Job[tickArgs]) error { return nil }))}})
		require.ErrorIs(t, err, ErrConfig)
		require.ErrorContains(t, err, c.message)
	}
}
