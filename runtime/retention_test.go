package runtime_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/pawlgo/pawl/admin"
	"github.com/pawlgo/pawl/internal/store"
	"github.com/pawlgo/pawl/internal/testdb"
	"github.com/pawlgo/pawl/migrations"
	pawlrt "github.com/pawlgo/pawl/runtime"
	"github.com/pawlgo/pawl/task"
	"github.com/pawlgo/pawl/task/taskimpl"
)

const week = 7 * 24 * time.Hour

// age makes everything look as if so many days had passed since. No worker may
// run meanwhile.
func age(t *testing.T, pool *pgxpool.Pool, days int) {
	t.Helper()
	exec(t, pool, fmt.Sprintf(`DO $$ BEGIN
		PERFORM pawl.ensure_day(d.day - %[1]d, ARRAY[d.parent]) FROM (
			SELECT DISTINCT 'jobs' AS parent, j.day FROM pawl.jobs j UNION SELECT DISTINCT 'outcomes', o.day FROM pawl.outcomes o
			UNION SELECT DISTINCT 'job_errors', e.day FROM pawl.job_errors e UNION SELECT DISTINCT 'archive', a.day FROM pawl.archive a) d;
		UPDATE pawl.jobs SET day = day - %[1]d, run_at = run_at - interval '%[1]d days', enqueued_at = enqueued_at - interval '%[1]d days';
		UPDATE pawl.outcomes SET day = day - %[1]d, job_day = job_day - %[1]d;
		UPDATE pawl.job_errors SET day = day - %[1]d, at = at - interval '%[1]d days';
		UPDATE pawl.archive SET day = day - %[1]d;
		UPDATE pawl.ready SET day = day - %[1]d, run_at = run_at - interval '%[1]d days';
		UPDATE pawl.ordered SET day = day - %[1]d;
		UPDATE pawl.leases SET days = ARRAY(SELECT d.day - %[1]d FROM unnest(days) WITH ORDINALITY d(day, n) ORDER BY d.n);
		UPDATE pawl.idempotency_keys SET job_day = job_day - %[1]d, expires_at = expires_at - interval '%[1]d days';
		UPDATE pawl.dead_letters SET died_at = died_at - interval '%[1]d days';
		UPDATE pawl.redrives SET started_at = started_at - interval '%[1]d days', ended_at = ended_at - interval '%[1]d days', last_at = last_at - interval '%[1]d days';
		UPDATE pawl.redriven SET redriven_at = redriven_at - interval '%[1]d days', died_at = died_at - interval '%[1]d days';
		UPDATE pawl.audit SET began_at = began_at - interval '%[1]d days', last_at = last_at - interval '%[1]d days';
	END $$`, days))
}

// bury makes n jobs that were enqueued and completed so many days ago.
func bury(t *testing.T, pool *pgxpool.Pool, schema string, n, days int) {
	t.Helper()
	exec(t, pool, fmt.Sprintf(`DO $$ DECLARE v_day integer := %[1]s.day_of(now()) - %[3]d; BEGIN
		PERFORM %[1]s.ensure_day(v_day);
		WITH job AS (
			INSERT INTO %[1]s.jobs (day, id, kind, queue, version, capability, priority, max_attempts, organization_id, run_at, enqueued_at, args)
			SELECT v_day, gen_random_uuid(), 'old', 'old', 1, 1, 2, 3, '', now(), now(), jsonb_build_object('n', n) FROM generate_series(1, %[2]d) n
			RETURNING id)
		INSERT INTO %[1]s.outcomes SELECT v_day, id, v_day, 1, 1, 'old', now(), now() FROM job;
	END $$`, schema, n, days))
}

// used counts the days of a table that take up space, and all its partitions.
func used(t *testing.T, pool *pgxpool.Pool, schema, parent string) (days, all int) {
	t.Helper()
	require.NoError(t, pool.QueryRow(t.Context(), fmt.Sprintf(`SELECT count(*) FILTER (WHERE used), count(*) FROM %s.leaves() WHERE parent = $1`, schema), parent).Scan(&days, &all))
	return days, all
}

// sound fails where the books do not add up, of all days.
func sound(t *testing.T, pool *pgxpool.Pool) *pawlrt.Invariants {
	t.Helper()
	found, err := pawlrt.CheckInvariants(t.Context(), pool, pawlrt.InvariantOptions{Days: -1})
	require.NoError(t, err)
	require.NoError(t, found.Err())
	return found
}

// passes waits until a worker has begun and ended n passes more.
func passes(t *testing.T, w *running, n int64) {
	t.Helper()
	begun := w.Stats().Retention.Passes
	testdb.Eventually(t, 6*slow, "passes of retention", func() bool { return w.Stats().Retention.Passes > begun+n })
}

// often makes a worker's passes follow one another.
func often(r pawlrt.Retention) pawlrt.Retention {
	r.Every = time.Millisecond
	return r
}

func TestRetentionConfig(t *testing.T) {
	t.Parallel()
	pool, err := pgxpool.New(t.Context(), "postgres://nobody@127.0.0.1:1/none")
	require.NoError(t, err)
	defer pool.Close()
	tables := []task.Table{table(kind("k", "q"), func(context.Context, *task.Job[args]) error { return nil })}
	for message, r := range map[string]pawlrt.Retention{
		"Retention.History is 23h0m0s: use 24h or more":                {History: 23 * time.Hour},
		"Retention.Outcomes is 24h0m0s, shorter than History 168h0m0s": {Outcomes: 24 * time.Hour},
		"Retention.Outcomes is 24h0m0s, and History is for ever":       {History: -1, Outcomes: 24 * time.Hour},
		"Retention.ArchiveFinished is set, and History is for ever":    {History: -1, ArchiveFinished: true},
		"Retention.Every is -1s: use a millisecond or more":            {Every: -time.Second},
		"Retention.Audit is 719h0m0s: use 720h0m0s or more":            {Audit: 719 * time.Hour},
	} {
		_, err := pawlrt.New(pool, pawlrt.Config{Tables: tables, Retention: r})
		require.ErrorIs(t, err, pawlrt.ErrConfig, message)
		require.ErrorContains(t, err, message)
	}
	for _, r := range []pawlrt.Retention{{}, {History: -1}, {History: 24 * time.Hour}, {Outcomes: -1}, {DeadLetters: -1, Archive: -1, ArchiveFinished: true},
		{Audit: 30 * 24 * time.Hour}, {Audit: -1, Redrives: time.Hour}} {
		_, err := pawlrt.New(pool, pawlrt.Config{Tables: tables, Retention: r})
		require.NoError(t, err)
	}
}

// Under steady load every table has its plateau. What is scheduled a month
// ahead moves on from day to day, and runs.
func TestPlateau(t *testing.T) {
	t.Parallel()
	pool := testdb.Migrated(t)
	const perDay, dead, keyed = 20, 3, 10
	month := 33 * 24 * time.Hour
	var ran atomic.Int64
	handle := func(_ context.Context, job *task.Job[args]) error {
		ran.Add(1)
		if job.Args.Mode == "dead" {
			return task.Permanent(errors.New("broken"))
		}
		return nil
	}
	plain, inOrder := kind("k", "q"), kind("o", "q", func(k *taskimpl.Kind[args]) { k.Order = []string{"n"} })
	config := pawlrt.Config{Tables: []task.Table{table(plain, handle), table(inOrder, handle)},
		Retention: often(pawlrt.Retention{ArchiveFinished: true, Archive: 10 * 24 * time.Hour})}
	for _, k := range []*taskimpl.Kind[args]{plain, inOrder} {
		_, err := taskimpl.EnqueueMany(t.Context(), task.Autocommit(pool), k, make([]args, 4), []task.EnqueueOption{task.In(month)})
		require.NoError(t, err)
	}
	total := 8
	for d := range 34 {
		put(t, pool, plain, numbered(perDay-dead-keyed, "")...)
		put(t, pool, plain, numbered(dead, "dead")...)
		for n := range keyed {
			_, err := taskimpl.Enqueue(t.Context(), task.Autocommit(pool), plain, args{N: n}, []task.EnqueueOption{task.Key(fmt.Sprint(d, "/", n), 72*time.Hour)})
			require.NoError(t, err)
		}
		total += perDay
		w := start(t, pool, config)
		want := int64(perDay)
		if d == 33 {
			want += 8
		}
		testdb.Eventually(t, 3*slow, "the jobs of the day", func() bool {
			s := w.Stats()
			return s.Completed+s.Dead == want
		})
		passes(t, w, 3)
		require.NoError(t, w.shutdown(t))
		require.Zero(t, w.Stats().Retention.Errors)
		sound(t, pool)

		jobs, leaves := used(t, pool, "pawl", "jobs")
		require.LessOrEqual(t, jobs, 9)
		require.LessOrEqual(t, leaves, 9+daysAhead+2)
		outcomes, leaves := used(t, pool, "pawl", "outcomes")
		require.LessOrEqual(t, outcomes, 9)
		require.LessOrEqual(t, leaves, 9+daysAhead+2)
		archived, leaves := used(t, pool, "pawl", "archive")
		require.LessOrEqual(t, archived, 12)
		require.LessOrEqual(t, leaves, 14)
		require.LessOrEqual(t, query[int](t, pool, `SELECT count(*) FROM pawl.jobs`), 8*perDay+8)
		require.LessOrEqual(t, query[int](t, pool, `SELECT count(*) FROM pawl.idempotency_keys`), 3*keyed)
		require.LessOrEqual(t, query[int](t, pool, `SELECT count(*) FROM pawl.dead_letters`), 31*dead)
		if d < 33 {
			require.Equal(t, 8, sound(t, pool).Ready+sound(t, pool).Blocked)
			age(t, pool, 1)
		}
	}
	require.EqualValues(t, total, ran.Load())
}

// What operators have done has its plateau as well: redrives and former lives that
// of the dead letters, and the audit its own.
func TestPlateauOfOperations(t *testing.T) {
	t.Parallel()
	pool := testdb.Migrated(t)
	const letters = 20
	k := kind("k", "q")
	config := pawlrt.Config{Tables: []task.Table{table(k, func(context.Context, *task.Job[args]) error { return nil })},
		Retention: often(pawlrt.Retention{DeadLetters: 10 * 24 * time.Hour, Audit: 40 * 24 * time.Hour})}
	c := admin.New(pool, admin.Options{By: "the nightly redrive"})
	var runs []uuid.UUID
	for d := range 60 {
		exec(t, pool, `INSERT INTO pawl.dead_letters (job_id, kind, queue, version, capability, priority, organization_id, attempts, max_attempts, code, summary, enqueued_at, died_at, args)
			SELECT gen_random_uuid(), 'k', 'q', 1, $1, 2, '', 1, 3, 'x', 'y', clock_timestamp(), clock_timestamp(), '{}' FROM generate_series(1, $2)`, int64(k.Capabilities[0].ID), letters)
		run, err := c.Redrive(t.Context(), admin.RedriveOptions{Filter: admin.DeadFilter{All: true}})
		require.NoError(t, err)
		require.EqualValues(t, letters, run.Redriven)
		runs = append(runs, run.ID)
		if d%3 == 0 { // its process was killed, and nobody went on
			exec(t, pool, `UPDATE pawl.redrives SET state = 'running', ended_at = NULL WHERE id = $1`, run.ID)
		}
		if d%5 != 4 {
			age(t, pool, 1)
			continue
		}
		w := start(t, pool, config)
		testdb.Eventually(t, slow, "the jobs", func() bool { return query[int](t, pool, `SELECT count(*) FROM pawl.ready`) == 0 })
		passes(t, w, 2)
		require.NoError(t, w.shutdown(t))
		require.Zero(t, w.Stats().Retention.Errors)
		require.Equal(t, min(d+1, 10), query[int](t, pool, `SELECT count(*) FROM pawl.redrives`))
		require.Equal(t, min(d+1, 10)*letters, query[int](t, pool, `SELECT count(*) FROM pawl.redriven`))
		require.Equal(t, min(d+1, 40), query[int](t, pool, `SELECT count(*) FROM pawl.audit`))
		if d > 40 {
			require.EqualValues(t, 5*letters+5, w.Stats().Retention.Redrives)
			require.EqualValues(t, 5, w.Stats().Retention.Audit)
		}
		age(t, pool, 1)
	}
	left, err := c.Redrives(t.Context(), 100)
	require.NoError(t, err)
	require.Len(t, left, 10)
	require.Equal(t, runs[59], left[0].ID)

	// A redrive in which something still happens stays, and so do those of its lives
	// that are still to be counted.
	exec(t, pool, `UPDATE pawl.redriven SET outcome = NULL WHERE redrive = $1`, runs[59])
	age(t, pool, 100)
	exec(t, pool, `UPDATE pawl.redrives SET last_at = now() WHERE id = $1`, runs[59])
	w := start(t, pool, config)
	testdb.Eventually(t, slow, "the others to go", func() bool { return query[int](t, pool, `SELECT count(*) FROM pawl.redriven`) == letters })
	passes(t, w, 2)
	require.Equal(t, letters, query[int](t, pool, `SELECT count(*) FROM pawl.redriven WHERE redrive = $1`, runs[59]))
	require.Equal(t, 1, query[int](t, pool, `SELECT count(*) FROM pawl.redrives`))
	require.Zero(t, query[int](t, pool, `SELECT count(*) FROM pawl.audit`))
}

// daysAhead are the partitions that there are before their day has come.
const daysAhead = 3

// A key is held for as long as it says, though its job is long gone; and for as
// long as its job is unfinished, though its time is over.
func TestKeysAfterRetention(t *testing.T) {
	t.Parallel()
	pool := testdb.Migrated(t)
	k := kind("k", "q")
	config := pawlrt.Config{Retention: often(pawlrt.Retention{}), Tables: []task.Table{table(k, func(context.Context, *task.Job[args]) error { return nil })}}
	enqueue := func(key string, keep time.Duration, opts ...task.EnqueueOption) task.Receipt {
		r, err := taskimpl.Enqueue(t.Context(), task.Autocommit(pool), k, args{}, append(opts, task.Key(key, keep)))
		require.NoError(t, err)
		return r
	}
	long, short := enqueue("long", 30*24*time.Hour), enqueue("short", time.Hour)
	future := enqueue("future", time.Hour, task.In(100*24*time.Hour))
	w := start(t, pool, config)
	testdb.Eventually(t, slow, "the jobs", func() bool { return w.Stats().Completed == 2 })
	require.NoError(t, w.shutdown(t))
	for range 3 { // so that the unfinished one moves more than once
		age(t, pool, 8)
		w = start(t, pool, config)
		passes(t, w, 3)
		require.NoError(t, w.shutdown(t))
	}
	require.Equal(t, 1, query[int](t, pool, `SELECT count(*) FROM pawl.jobs`))
	require.Equal(t, 0, query[int](t, pool, `SELECT count(*) FROM pawl.outcomes`))
	require.Equal(t, 2, query[int](t, pool, `SELECT count(*) FROM pawl.idempotency_keys`))

	again := enqueue("long", time.Hour)
	require.True(t, again.Duplicate)
	require.Equal(t, long.ID, again.ID)
	again = enqueue("future", time.Hour)
	require.True(t, again.Duplicate)
	require.Equal(t, future.ID, again.ID)
	require.EqualValues(t, "scheduled", again.State)
	again = enqueue("short", time.Hour)
	require.False(t, again.Duplicate)
	require.NotEqual(t, short.ID, again.ID)
	sound(t, pool)
}

// What others hold open puts off the emptying of a day, and of that day only;
// nobody else waits because of it.
func TestRetentionBehindLocks(t *testing.T) {
	t.Parallel()
	pool := testdb.Migrated(t)
	k := kind("k", "q")
	bury(t, pool, "pawl", 10, 9)
	bury(t, pool, "pawl", 10, 10)
	ids := put(t, pool, k, numbered(3, "")...)
	held, err := pool.Begin(t.Context())
	require.NoError(t, err)
	defer held.Rollback(context.WithoutCancel(t.Context()))
	_, err = held.Exec(t.Context(), fmt.Sprintf(`LOCK TABLE pawl.jobs_d%d IN ACCESS SHARE MODE`, query[int](t, pool, `SELECT pawl.day_of(now()) - 9`)))
	require.NoError(t, err)
	_, err = held.Exec(t.Context(), `SELECT FROM pawl.ready WHERE id = $1 FOR UPDATE`, ids[0])
	require.NoError(t, err)

	w := start(t, pool, pawlrt.Config{Retention: often(pawlrt.Retention{}), Tables: []task.Table{table(k, func(context.Context, *task.Job[args]) error { return nil })}})
	testdb.Eventually(t, 3*slow, "the other day to be emptied, and this one not", func() bool {
		s := w.Stats().Retention
		return s.Emptied >= 1 && s.PutOff >= 1
	})
	require.Equal(t, 10, query[int](t, pool, `SELECT count(*) FROM pawl.jobs WHERE kind = 'old'`))
	begun := time.Now()
	put(t, pool, k, numbered(20, "")...)
	testdb.Eventually(t, slow, "the jobs", func() bool { return w.Stats().Completed == 22 })
	require.Less(t, time.Since(begun), 5*time.Second)

	require.NoError(t, held.Rollback(t.Context()))
	testdb.Eventually(t, 3*slow, "the day to be emptied", func() bool { return w.Stats().Retention.Emptied == 4 })
	require.Equal(t, store.Audit{Completed: 23}, settled(t, pool, 23))
	testdb.Eventually(t, 3*slow, "the empty days to go", func() bool { _, leaves := used(t, pool, "pawl", "jobs"); return leaves <= 1+daysAhead })
}

// Each schema has its own books; and the driver's simple protocol will do.
func TestRetentionOfTwoSchemas(t *testing.T) {
	t.Parallel()
	pool := changed(t, testdb.Migrated(t), func(c *pgxpool.Config) { c.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol })
	require.NoError(t, migrations.Up(t.Context(), pool, migrations.Options{Schema: "Other one"}))
	const other = `"Other one"`
	for _, schema := range []string{"pawl", other} {
		bury(t, pool, schema, 50, 8)
		bury(t, pool, schema, 50, 6)
	}
	tables := []task.Table{table(kind("k", "q"), func(context.Context, *task.Job[args]) error { return nil })}
	keep := pawlrt.Retention{ArchiveFinished: true}
	w := start(t, pool, pawlrt.Config{Schema: "Other one", Retention: often(keep), Tables: tables})
	testdb.Eventually(t, 3*slow, "its old day to go", func() bool { return w.Stats().Retention.Dropped >= 2 })
	require.Equal(t, 50, query[int](t, pool, `SELECT count(*) FROM `+other+`.jobs`))
	require.Equal(t, 50, query[int](t, pool, `SELECT count(*) FROM `+other+`.archive`))
	require.Equal(t, 100, query[int](t, pool, `SELECT count(*) FROM pawl.jobs`))
	require.Zero(t, w.Stats().Retention.Errors)

	w = start(t, pool, pawlrt.Config{Retention: often(keep), Tables: tables})
	testdb.Eventually(t, 3*slow, "the old day to go", func() bool { return w.Stats().Retention.Dropped >= 2 })
	require.Equal(t, 50, query[int](t, pool, `SELECT count(*) FROM pawl.archive`))
	found, err := pawlrt.CheckInvariants(t.Context(), pool, pawlrt.InvariantOptions{Schema: "Other one", Days: -1})
	require.NoError(t, err)
	require.NoError(t, found.Err())
}

// Whatever a process is at when it is killed, nothing is lost and nothing is
// there twice.
func TestKilledInRetention(t *testing.T) {
	t.Parallel()
	pool := testdb.Migrated(t)
	const (
		days, perDay = 6, 1500
		waiting      = 1500
	)
	plain, inOrder := kind("k", "q"), kind("o", "q", func(k *taskimpl.Kind[args]) { k.Order = []string{"n"} })
	put(t, pool, plain, numbered(waiting, "")...)
	for n := range 3 {
		put(t, pool, inOrder, slices.Repeat([]args{{N: n}}, waiting/3)...)
	}
	age(t, pool, 8)
	for d := range days {
		bury(t, pool, "pawl", perDay, 8+d)
	}
	books := func() {
		t.Helper()
		found := sound(t, pool)
		require.Equal(t, 2*waiting, found.Ready+found.Blocked)
		require.Equal(t, days*perDay+2*waiting, query[int](t, pool, `SELECT (SELECT count(*) FROM pawl.jobs) + (SELECT count(*) FROM pawl.archive)`))
		require.Equal(t, days*perDay+2*waiting, query[int](t, pool, `SELECT count(*) FROM (SELECT id FROM pawl.jobs UNION SELECT id FROM pawl.archive) x`))
	}
	r := rand.New(rand.NewPCG(1, 2))
	kills := 0
	for done := false; !done; kills++ {
		p := spawn(t, pool, childConfig{Lease: time.Hour, Concurrency: 5, Retention: often(pawlrt.Retention{ArchiveFinished: true, Outcomes: 1000 * week})})
		testdb.Eventually(t, 3*slow, "the process to begin", func() bool { return query[int](t, pool, `SELECT count(*) FROM pawl.processes`) > kills })
		patience := time.NewTimer(time.Duration(r.Int64N(int64(250 * time.Millisecond))))
		receive(t, patience.C, "the time to kill it")
		p.signal(t, syscall.SIGKILL)
		<-p.exited
		testdb.Eventually(t, slow, "its transactions to end", func() bool {
			return query[int](t, pool, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() AND (state <> 'idle') AND backend_type = 'client backend'`) == 0
		})
		books()
		jobs, leaves := used(t, pool, "pawl", "jobs")
		done = jobs == 1 && leaves <= 1+daysAhead
		require.Less(t, kills, 300)
	}
	t.Logf("killed %d times", kills)
	require.Positive(t, kills)
	require.Equal(t, days*perDay, query[int](t, pool, `SELECT count(*) FROM pawl.archive WHERE status = 'completed' AND kind = 'old'`))
	// And all of them run.
	var mu sync.Mutex
	seen := make(map[uuid.UUID]int)
	handle := func(_ context.Context, job *task.Job[args]) error {
		mu.Lock()
		defer mu.Unlock()
		seen[job.ID]++
		return nil
	}
	w := start(t, pool, pawlrt.Config{Queues: map[string]pawlrt.Queue{"q": {Concurrency: 50}}, Tables: []task.Table{table(plain, handle), table(inOrder, handle)}})
	testdb.Eventually(t, 6*slow, "all jobs", func() bool { return w.Stats().Completed == 2*waiting })
	require.NoError(t, w.shutdown(t))
	require.Len(t, seen, 2*waiting)
	require.Equal(t, 1, slices.Max(slices.Collect(maps.Values(seen))))
	sound(t, pool)
}

// Days are emptied and taken away under live traffic, with callers that keep
// transactions open at every moment, and nobody waits for it.
func TestRetentionUnderTraffic(t *testing.T) {
	t.Parallel()
	pool := testdb.Migrated(t, testdb.MaxConns(20))
	const days = 25
	for d := range days {
		bury(t, pool, "pawl", 300, 8+d)
	}
	k := kind("k", "q")
	var mu sync.Mutex
	var enqueues, starts []time.Duration // guarded by mu
	record := func(list *[]time.Duration, took time.Duration) {
		mu.Lock()
		defer mu.Unlock()
		*list = append(*list, took)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var callers sync.WaitGroup
	fail := make(chan error, 1)
	const brief = "0.005"
	caller := func(hold string, opts ...task.EnqueueOption) {
		callers.Go(func() {
			for ctx.Err() == nil {
				err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
					begun := time.Now()
					if _, err := taskimpl.Enqueue(t.Context(), tx, k, args{Mode: hold}, opts); err != nil {
						return err
					}
					record(&enqueues, time.Since(begun))
					_, err := tx.Exec(t.Context(), `SELECT pg_sleep($1::text::double precision)`, hold)
					return err
				})
				if err != nil {
					select {
					case fail <- err:
					default:
					}
					return
				}
			}
		})
	}
	same := task.Key("the same", time.Hour)
	_, err := taskimpl.Enqueue(t.Context(), task.Autocommit(pool), k, args{}, []task.EnqueueOption{same})
	require.NoError(t, err)
	for range 3 {
		caller("0.2")
		caller("0.2", same) // a duplicate
	}
	caller(brief)
	w := start(t, pool, pawlrt.Config{Retention: often(pawlrt.Retention{}), Tables: []task.Table{table(k, func(_ context.Context, job *task.Job[args]) error {
		if job.Args.Mode == brief { // the others have waited for their callers
			record(&starts, time.Since(job.EnqueuedAt))
		}
		return nil
	})}})
	begun := time.Now()
	testdb.Eventually(t, 12*slow, "the old days to be emptied", func() bool { return w.Stats().Retention.Emptied == 2*days })
	t.Logf("emptied after %v, put off %d times", time.Since(begun), w.Stats().Retention.PutOff)
	testdb.Eventually(t, 12*slow, "the old days to go", func() bool { _, leaves := used(t, pool, "pawl", "jobs"); return leaves <= 1+daysAhead })
	t.Logf("gone after %v", time.Since(begun))
	stop()
	callers.Wait()
	select {
	case err := <-fail:
		require.NoError(t, err)
	default:
	}
	mu.Lock()
	defer mu.Unlock()
	slices.Sort(enqueues)
	slices.Sort(starts)
	t.Logf("%d enqueues: median %v, 99%% %v, longest %v", len(enqueues), enqueues[len(enqueues)/2], enqueues[len(enqueues)*99/100], enqueues[len(enqueues)-1])
	t.Logf("%d starts: median %v, 99%% %v, longest %v", len(starts), starts[len(starts)/2], starts[len(starts)*99/100], starts[len(starts)-1])
	require.Less(t, enqueues[len(enqueues)-1], time.Second)
	require.Less(t, starts[len(starts)-1], 5*time.Second)
}
