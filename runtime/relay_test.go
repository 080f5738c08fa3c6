package runtime_test

import (
	"context"
	"errors"
	"fmt"
	goruntime "runtime"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/pawlgo/pawl/internal/testdb"
	"github.com/pawlgo/pawl/migrations"
	pawlrt "github.com/pawlgo/pawl/runtime"
	"github.com/pawlgo/pawl/task"
	"github.com/pawlgo/pawl/task/taskimpl"
)

// event is an event as generated code would declare it.
func event(change ...func(*taskimpl.Event[args])) *taskimpl.Event[args] {
	e := &taskimpl.Event[args]{
		Name: "trip.completed", Aggregate: "trip", Version: 1,
		Policy:       taskimpl.Policy{Attempts: 3, Base: 10 * time.Millisecond, Max: 50 * time.Millisecond, Jitter: 0.2, Unknown: 3, Timeout: time.Minute},
		Capabilities: []taskimpl.Capability{{Version: 1, ID: 0xE1}},
		Decode:       func(_ int, raw []byte) (args, error) { return taskimpl.As[args](raw) },
	}
	for _, c := range change {
		c(e)
	}
	return e
}

func skips(e *taskimpl.Event[args]) { e.Skip = true }

type projector = func(context.Context, pgx.Tx, *task.Fact[args]) error

// projecting is the configuration of a worker with one event.
func projecting(e *taskimpl.Event[args], p projector) pawlrt.Config {
	return pawlrt.Config{Events: []task.EventTable{taskimpl.EventTable(taskimpl.EventRow(e, p))}, Poll: 100 * time.Millisecond}
}

// publish publishes events of one aggregate and returns their ids.
func publish(t *testing.T, tx task.Tx, e *taskimpl.Event[args], aggregate string, payloads ...args) (ids []uuid.UUID) {
	t.Helper()
	for _, p := range payloads {
		r, err := taskimpl.Publish(t.Context(), tx, e, aggregate, p, nil)
		require.NoError(t, err)
		ids = append(ids, r.ID)
	}
	return ids
}

// projections makes a database with the table that record writes to.
func projections(t *testing.T, opts ...testdb.Option) *pgxpool.Pool {
	t.Helper()
	pool := testdb.Migrated(t, opts...)
	exec(t, pool, `CREATE TABLE projected (at bigint GENERATED ALWAYS AS IDENTITY, id uuid PRIMARY KEY, aggregate text NOT NULL, n int NOT NULL, seq bigint NOT NULL, attempt int NOT NULL)`)
	return pool
}

// record writes down that a fact was projected.
func record(ctx context.Context, tx pgx.Tx, f *task.Fact[args]) error {
	_, err := tx.Exec(ctx, `INSERT INTO projected (id, aggregate, n, seq, attempt) VALUES ($1, $2, $3, $4, $5)`, f.ID, f.AggregateID, f.Payload.N, f.Sequence, f.Attempt)
	return err
}

// status counts the events by their status.
func status(t *testing.T, pool *pgxpool.Pool) map[string]int {
	t.Helper()
	rows, err := pool.Query(t.Context(), `SELECT status, count(*) FROM pawl.outbox_events GROUP BY 1`)
	require.NoError(t, err)
	counts := map[string]int{}
	var (
		name string
		n    int
	)
	_, err = pgx.ForEachRow(rows, []any{&name, &n}, func() error {
		counts[name] = n
		return nil
	})
	require.NoError(t, err)
	return counts
}

// become waits until the events have the given statuses.
func become(t *testing.T, pool *pgxpool.Pool, want map[string]int) {
	t.Helper()
	var got map[string]int
	testdb.Eventually(t, 3*slow, fmt.Sprintf("events to be %v", want), func() bool {
		got = status(t, pool)
		return fmt.Sprint(got) == fmt.Sprint(want)
	})
}

// ordered are the numbers of the facts of an aggregate in the order of their
// projection.
func ordered(t *testing.T, pool *pgxpool.Pool, aggregate string) (all []int) {
	t.Helper()
	rows, err := pool.Query(t.Context(), `SELECT n FROM projected WHERE aggregate = $1 ORDER BY at`, aggregate)
	require.NoError(t, err)
	all, err = pgx.CollectRows(rows, pgx.RowTo[int])
	require.NoError(t, err)
	return all
}

func upTo(n int) (all []int) {
	for i := range n {
		all = append(all, i)
	}
	return all
}

// A worker may have events alone. What it projects is in order, once, and names
// what was published.
func TestRelay(t *testing.T) {
	t.Parallel()
	pool := projections(t)
	e := event(func(e *taskimpl.Event[args]) {
		e.Organization = func(a *args) (string, error) { return a.Mode, nil }
	})
	facts := make(chan task.Fact[args], 100)
	config := projecting(e, func(ctx context.Context, tx pgx.Tx, f *task.Fact[args]) error {
		facts <- *f
		return record(ctx, tx, f)
	})
	config.SoftLimit = time.Millisecond // a worker without queues that thinks it is done ends its projections
	w := start(t, pool, config)
	asleep(t, pool)
	occurred := time.Date(2020, 1, 2, 3, 4, 5, 0, time.UTC)
	r, err := taskimpl.Publish(t.Context(), task.Autocommit(pool), e, "a", args{N: 7, Mode: "acme"}, []task.PublishOption{task.OccurredAt(occurred), task.NoWake()})
	require.NoError(t, err)
	require.Equal(t, task.StatePending, r.State)
	f := receive(t, facts, "the fact")
	require.True(t, occurred.Equal(f.OccurredAt))
	require.WithinDuration(t, time.Now(), f.PublishedAt, time.Minute)
	f.OccurredAt, f.PublishedAt, f.Sequence = time.Time{}, time.Time{}, 0
	require.Equal(t, task.Fact[args]{
		ID: r.ID, Type: "trip.completed", AggregateType: "trip", AggregateID: "a", OrganizationID: "acme",
		Version: 1, Attempt: 1, MaxAttempts: 3, Payload: args{N: 7, Mode: "acme"},
	}, f)

	publish(t, task.Autocommit(pool), e, "b", numbered(30, "")...)
	become(t, pool, map[string]int{"projected": 31})
	require.Equal(t, upTo(30), ordered(t, pool, "b"))
	require.NoError(t, w.shutdown(t))
	s := w.Stats().Events
	require.EqualValues(t, 31, s.Projected)
	require.Zero(t, s.Broken)
	require.Equal(t, 31, query[int](t, pool, `SELECT count(*) FROM pawl.outbox_events
		WHERE processed_at IS NOT NULL AND claimed_at <= processed_at AND claimed_by <> '' AND attempts = 1 AND last_error IS NULL`))
}

// Publishing wakes a relay that sleeps.
func TestPublishingWakes(t *testing.T) {
	t.Parallel()
	pool := projections(t)
	e := event()
	config := projecting(e, record)
	config.Poll = time.Hour
	w := start(t, pool, config)
	for i := range 3 {
		asleep(t, pool)
		publish(t, task.Autocommit(pool), e, "a", args{N: i})
		become(t, pool, map[string]int{"projected": i + 1})
	}
	require.NotZero(t, w.Stats().Wakeups)
}

// Nine of ten events are projected, and the one that always fails is a dead
// letter after its attempts.
func TestPoisonedEvent(t *testing.T) {
	t.Parallel()
	pool := projections(t)
	e := event()
	for i := range 10 {
		publish(t, task.Autocommit(pool), e, fmt.Sprint(i), args{N: i})
	}
	w := start(t, pool, projecting(e, func(ctx context.Context, tx pgx.Tx, f *task.Fact[args]) error {
		if err := record(ctx, tx, f); err != nil {
			return err
		}
		if f.Payload.N == 5 {
			return task.Transient(errors.New("poison"))
		}
		return nil
	}))
	become(t, pool, map[string]int{"projected": 9, "dead": 1})
	require.Empty(t, ordered(t, pool, "5"), "what a projection has done that failed")
	require.Equal(t, "5 3 transient poison", query[string](t, pool, `SELECT concat_ws(' ', aggregate_id, attempts, code, summary) FROM pawl.dead_events WHERE payload = '{"n": 5}'`))
	require.Equal(t, 3, query[int](t, pool, `SELECT count(*) FROM pawl.event_errors`))
	require.NoError(t, w.shutdown(t))
	s := w.Stats().Events
	require.EqualValues(t, 9, s.Projected)
	require.EqualValues(t, 2, s.Retried)
	require.EqualValues(t, 1, s.Dead)
}

// Within an aggregate, a dead event holds up the later ones or lets them pass, as
// it is declared.
func TestPoisonedAggregate(t *testing.T) {
	t.Parallel()
	poisoned := func(ctx context.Context, tx pgx.Tx, f *task.Fact[args]) error {
		if f.Payload.N == 3 {
			return task.Permanent(errors.New("poison"))
		}
		return record(ctx, tx, f)
	}
	t.Run("block", func(t *testing.T) {
		t.Parallel()
		pool := projections(t)
		e := event()
		ids := publish(t, task.Autocommit(pool), e, "a", numbered(10, "")...)
		config := projecting(e, poisoned)
		w := start(t, pool, config)
		become(t, pool, map[string]int{"projected": 3, "dead": 1, "blocked": 6})
		publish(t, task.Autocommit(pool), e, "other", args{N: 0})
		become(t, pool, map[string]int{"projected": 4, "dead": 1, "blocked": 6})
		testdb.Eventually(t, 3*slow, "the blocked aggregate to be counted", func() bool {
			s := w.Stats().Events
			return s.Blocked == 1 && s.Pending == 6 && s.Types["trip.completed"].Pending == 6 && s.Oldest > 0
		})
		require.Equal(t, upTo(3), ordered(t, pool, "a"))
		require.ErrorIs(t, task.SkipEvent(t.Context(), task.Autocommit(pool), ids[4]), task.ErrNoEvent)
		require.NoError(t, task.SkipEvent(t.Context(), task.Autocommit(pool), ids[3]))
		become(t, pool, map[string]int{"projected": 10, "dead": 1})
		require.Equal(t, []int{0, 1, 2, 4, 5, 6, 7, 8, 9}, ordered(t, pool, "a"))
	})
	t.Run("retry", func(t *testing.T) {
		t.Parallel()
		pool := projections(t)
		e := event()
		ids := publish(t, task.Autocommit(pool), e, "a", numbered(10, "")...)
		w := start(t, pool, projecting(e, poisoned))
		become(t, pool, map[string]int{"projected": 3, "dead": 1, "blocked": 6})
		require.NoError(t, w.shutdown(t))
		require.NoError(t, task.RetryEvent(t.Context(), task.Autocommit(pool), ids[3]))
		require.ErrorIs(t, task.RetryEvent(t.Context(), task.Autocommit(pool), ids[3]), task.ErrNoEvent)
		start(t, pool, projecting(e, record)) // the deploy that mends it
		become(t, pool, map[string]int{"projected": 10})
		require.Equal(t, upTo(10), ordered(t, pool, "a"))
	})
	t.Run("skip", func(t *testing.T) {
		t.Parallel()
		pool := projections(t)
		e := event(skips)
		publish(t, task.Autocommit(pool), e, "a", numbered(10, "")...)
		start(t, pool, projecting(e, poisoned))
		become(t, pool, map[string]int{"projected": 9, "dead": 1})
		require.Equal(t, []int{0, 1, 2, 4, 5, 6, 7, 8, 9}, ordered(t, pool, "a"))
	})
}

// Later events wait while an earlier one is tried again.
func TestRetriesKeepOrder(t *testing.T) {
	t.Parallel()
	pool := projections(t)
	e := event()
	publish(t, task.Autocommit(pool), e, "a", numbered(20, "")...)
	start(t, pool, projecting(e, func(ctx context.Context, tx pgx.Tx, f *task.Fact[args]) error {
		if f.Payload.N%4 == 0 && f.Attempt < 3 {
			return task.Transient(errors.New("not yet"))
		}
		return record(ctx, tx, f)
	}))
	become(t, pool, map[string]int{"projected": 20})
	require.Equal(t, upTo(20), ordered(t, pool, "a"))
	require.Equal(t, 5, query[int](t, pool, `SELECT count(*) FROM projected WHERE attempt = 3`))
	require.Equal(t, 5, query[int](t, pool, `SELECT count(*) FROM pawl.outbox_events WHERE attempts = 3 AND last_error = 'not yet'`))
}

// However a projection ends, its event has an end, others of the batch are
// projected, and the relay goes on.
func TestProjectionsThatMisbehave(t *testing.T) {
	t.Parallel()
	pool := projections(t)
	exec(t, pool, `CREATE TABLE parent (id int PRIMARY KEY)`)
	exec(t, pool, `CREATE TABLE child (id int REFERENCES parent DEFERRABLE INITIALLY DEFERRED)`)
	modes := map[string]func(context.Context, pgx.Tx) error{
		"panic":      func(context.Context, pgx.Tx) error { panic("boom") },
		"goexit":     func(context.Context, pgx.Tx) error { goruntime.Goexit(); return nil },
		"commit":     func(ctx context.Context, tx pgx.Tx) error { return tx.Commit(ctx) },
		"rollback":   func(ctx context.Context, tx pgx.Tx) error { return tx.Rollback(ctx) },
		"sql commit": func(ctx context.Context, tx pgx.Tx) error { _, err := tx.Exec(ctx, "COMMIT"); return err },
		"sql again": func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Conn().PgConn().Exec(ctx, "COMMIT; BEGIN").ReadAll()
			return err
		},
		"sql abort": func(ctx context.Context, tx pgx.Tx) error { _, err := tx.Exec(ctx, "ROLLBACK"); return err },
		"no savepoint": func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "RELEASE SAVEPOINT pawl_event")
			return err
		},
		"swallow": func(ctx context.Context, tx pgx.Tx) error { _, _ = tx.Exec(ctx, "SELECT 1/0"); return nil },
		"rows": func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Query(ctx, "SELECT generate_series(1, 10000)")
			return err
		},
		"close": func(ctx context.Context, tx pgx.Tx) error { return tx.Conn().Close(ctx) },
		"deferred": func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "INSERT INTO child VALUES (1)")
			return err
		},
		"slow": func(ctx context.Context, tx pgx.Tx) error { _, err := tx.Exec(ctx, "SELECT pg_sleep(60)"); return err },
		"late": func(ctx context.Context, _ pgx.Tx) error { <-ctx.Done(); return ctx.Err() },
	}
	e := event(func(e *taskimpl.Event[args]) {
		e.Policy.Attempts, e.Policy.Unknown, e.Policy.Timeout = 2, 2, time.Second
	})
	names := slices.Sorted(func(yield func(string) bool) {
		for name := range modes {
			if !yield(name) {
				return
			}
		}
	})
	for i, name := range names {
		publish(t, task.Autocommit(pool), e, fmt.Sprint("good", i), args{N: i})
		publish(t, task.Autocommit(pool), e, name, args{N: i, Mode: name}, args{N: i + 100})
	}
	w := start(t, pool, projecting(e, func(ctx context.Context, tx pgx.Tx, f *task.Fact[args]) error {
		if misbehave := modes[f.Payload.Mode]; misbehave != nil {
			return misbehave(ctx, tx)
		}
		return record(ctx, tx, f)
	}))
	n := len(modes)
	become(t, pool, map[string]int{"projected": n, "dead": n, "blocked": n})
	require.Equal(t, n, query[int](t, pool, `SELECT count(*) FROM projected WHERE aggregate LIKE 'good%'`))
	for name, code := range map[string]string{"panic": "panic", "goexit": "goexit", "late": "timeout", "slow": "timeout", "commit": "unknown", "sql commit": "unknown"} {
		require.Equal(t, code, query[string](t, pool, `SELECT code FROM pawl.dead_events WHERE aggregate_id = $1`, name), name)
	}
	require.Contains(t, query[string](t, pool, `SELECT summary FROM pawl.dead_events WHERE aggregate_id = 'sql commit'`), "ended its transaction")
	require.Equal(t, n, query[int](t, pool, `SELECT count(*) FROM pawl.dead_events WHERE attempts = 2`))
	require.NoError(t, w.shutdown(t))
}

// A projection that ignores its context costs its batch, and its event the
// attempts.
func TestStuckProjection(t *testing.T) {
	t.Parallel()
	pool := projections(t)
	e := event(func(e *taskimpl.Event[args]) { e.Policy.Attempts, e.Policy.Timeout = 1, 100*time.Millisecond })
	opened := make(chan struct{})
	config := projecting(e, func(ctx context.Context, tx pgx.Tx, f *task.Fact[args]) error {
		if f.Payload.Mode == "stuck" {
			<-opened
			return nil
		}
		return record(ctx, tx, f)
	})
	config.Lease, config.Heartbeat = 3*time.Second, time.Second
	w := start(t, pool, config)
	publish(t, task.Autocommit(pool), e, "a", args{Mode: "stuck"}, args{N: 1})
	become(t, pool, map[string]int{"dead": 1, "blocked": 1})
	require.EqualValues(t, 1, w.Stats().Events.Stuck)
	publish(t, task.Autocommit(pool), e, "b", numbered(3, "")...)
	become(t, pool, map[string]int{"projected": 3, "dead": 1, "blocked": 1})
	close(opened)
	testdb.Eventually(t, slow, "the projection to return", func() bool { return w.Stats().Events.Stuck == 0 })
	require.NoError(t, w.shutdown(t))
}

// What a worker does not know waits, untouched, for one that does.
func TestUnknownEvents(t *testing.T) {
	t.Parallel()
	pool := projections(t)
	newer := event(func(e *taskimpl.Event[args]) {
		e.Version, e.Capabilities = 2, []taskimpl.Capability{{Version: 2, ID: 0xE2}}
	})
	e := event()
	publish(t, task.Autocommit(pool), e, "a", args{N: 0})
	publish(t, task.Autocommit(pool), newer, "a", args{N: 1})
	publish(t, task.Autocommit(pool), e, "a", args{N: 2})
	w := start(t, pool, projecting(e, record))
	become(t, pool, map[string]int{"projected": 1, "stranded": 1, "waiting": 1})
	testdb.Eventually(t, 3*slow, "it to be counted", func() bool {
		s := w.Stats().Events
		return s.Stranded == 1 && s.Pending == 2 && s.Types["trip.completed"].Stranded == 1
	})
	require.Zero(t, query[int](t, pool, `SELECT sum(attempts) FROM pawl.pending_events`))
	newer.Capabilities = append(newer.Capabilities, e.Capabilities...)
	start(t, pool, projecting(newer, record))
	become(t, pool, map[string]int{"projected": 3})
	require.Equal(t, upTo(3), ordered(t, pool, "a"))
}

// Drain projects what is due, and the jobs that follow from it.
func TestDrainProjects(t *testing.T) {
	t.Parallel()
	pool := projections(t)
	e, k := event(), kind("k", "q")
	for i := range 5 {
		publish(t, task.Autocommit(pool), e, fmt.Sprint(i), numbered(30, "")...)
	}
	config := projecting(e, func(ctx context.Context, tx pgx.Tx, f *task.Fact[args]) error {
		if f.Payload.N == 20 && f.AggregateID == "3" {
			return task.Snooze(time.Hour)
		}
		if f.Payload.N == 0 {
			if _, err := taskimpl.Enqueue(ctx, tx, k, f.Payload, nil); err != nil {
				return err
			}
		}
		return record(ctx, tx, f)
	})
	config.Tables = []task.Table{taskimpl.Table(taskimpl.TxRow(k, func(ctx context.Context, tx pgx.Tx, job *task.Job[args]) error {
		_, err := taskimpl.Publish(ctx, tx, e, "of a job", args{N: 100}, nil)
		return err
	}))}
	w, err := pawlrt.New(workerPool(t, pool, &config), config)
	require.NoError(t, err)
	drained, err := w.Drain(t.Context())
	require.NoError(t, err)
	require.Len(t, drained, 5)
	require.Equal(t, map[string]int{"projected": 145, "pending": 1, "waiting": 9}, status(t, pool))
	require.Zero(t, query[int](t, pool, `SELECT sum(attempts) FROM pawl.pending_events`), "a snooze costs no attempt")
	require.EqualValues(t, 1, w.Stats().Events.GivenBack)

	alone := projecting(e, record)
	w, err = pawlrt.New(workerPool(t, pool, &alone), alone)
	require.NoError(t, err)
	publish(t, task.Autocommit(pool), e, "other", args{N: 1})
	drained, err = w.Drain(t.Context())
	require.NoError(t, err)
	require.Empty(t, drained)
	require.Equal(t, map[string]int{"projected": 146, "pending": 1, "waiting": 9}, status(t, pool))
}

const oddSchema = `odd "one" $$`

// In a schema of an odd name, a projection enqueues and publishes without naming
// it, and all commits together with the mark.
func TestProjectionsEnqueueAndPublish(t *testing.T) {
	t.Parallel()
	pool := testdb.New(t)
	require.NoError(t, migrations.Up(t.Context(), pool, migrations.Options{Schema: oddSchema}))
	k := kind("k", "q")
	from, to := event(), event(func(e *taskimpl.Event[args]) {
		e.Name, e.Capabilities = "trip.billed", []taskimpl.Capability{{Version: 1, ID: 0xE3}}
	})
	done, billed := make(chan int, 10), make(chan int, 10)
	config := pawlrt.Config{
		Schema: oddSchema, Poll: 100 * time.Millisecond,
		Tables: []task.Table{table(k, func(_ context.Context, job *task.Job[args]) error { done <- job.Args.N; return nil })},
		Events: []task.EventTable{taskimpl.EventTable(
			taskimpl.EventRow(from, func(ctx context.Context, tx pgx.Tx, f *task.Fact[args]) error {
				if _, err := taskimpl.Enqueue(ctx, tx, k, f.Payload, nil); err != nil {
					return err
				}
				if _, err := taskimpl.Publish(ctx, tx, to, f.AggregateID, f.Payload, nil); err != nil {
					return err
				}
				if f.Attempt == 1 {
					return task.Transient(errors.New("after the enqueue"))
				}
				return nil
			}),
			taskimpl.EventRow(to, func(_ context.Context, _ pgx.Tx, f *task.Fact[args]) error { billed <- f.Payload.N; return nil }),
		)},
	}
	start(t, pool, config)
	require.NoError(t, pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		publish(t, task.InSchema(tx, oddSchema), from, "a", args{N: 7})
		return nil
	}))
	require.Equal(t, 7, receive(t, done, "the job"))
	require.Equal(t, 7, receive(t, billed, "the other event"))
	testdb.Eventually(t, slow, "all to be over", func() bool {
		return query[int](t, pool, `SELECT count(*) FROM `+pgx.Identifier{oddSchema}.Sanitize()+`.outbox_events WHERE status = 'projected'`) == 2
	})
	require.Empty(t, done, "what failed has enqueued nothing")
	require.Empty(t, billed)
}
