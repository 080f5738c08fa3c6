package runtime_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/pawlgo/pawl/internal/testdb"
	pawlrt "github.com/pawlgo/pawl/runtime"
	"github.com/pawlgo/pawl/task"
	"github.com/pawlgo/pawl/task/taskimpl"
)

// What was published first and commits last is projected all the same.
func TestCommitOrder(t *testing.T) {
	t.Parallel()
	pool := projections(t)
	e := event()
	w := start(t, pool, projecting(e, record))
	for _, level := range []pgx.TxIsoLevel{pgx.ReadCommitted, pgx.RepeatableRead, pgx.Serializable} {
		first, err := pool.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: level})
		require.NoError(t, err)
		publish(t, first, e, "a-"+string(level), args{N: 0})
		publish(t, task.Autocommit(pool), e, "b-"+string(level), args{N: 1})
		testdb.Eventually(t, slow, "the second to be projected", func() bool { return len(ordered(t, pool, "b-"+string(level))) == 1 })
		picks := w.Stats().Events.Picks
		testdb.Eventually(t, slow, "another look", func() bool { return w.Stats().Events.Picks > picks+2 })
		require.Empty(t, ordered(t, pool, "a-"+string(level)))
		require.NoError(t, first.Commit(t.Context()))
		testdb.Eventually(t, slow, "the first to be projected", func() bool { return len(ordered(t, pool, "a-"+string(level))) == 1 })
	}
}

// Whoever publishes for an aggregate after another waits until that one has
// committed, at every isolation level, so that numbers are in the order of
// commits. Others do not wait.
func TestPublishersOfAnAggregateWait(t *testing.T) {
	t.Parallel()
	pool := projections(t)
	e := event()
	for _, level := range []pgx.TxIsoLevel{pgx.ReadCommitted, pgx.RepeatableRead, pgx.Serializable} {
		aggregate := string(level)
		first, err := pool.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: level})
		require.NoError(t, err)
		second, err := pool.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: level})
		require.NoError(t, err)
		_, err = second.Exec(t.Context(), `SELECT 1`) // its snapshot is older than the first's event
		require.NoError(t, err)
		publish(t, first, e, aggregate, args{N: 0})
		published := make(chan error, 1)
		go func() {
			_, err := taskimpl.Publish(context.WithoutCancel(t.Context()), second, e, aggregate, args{N: 1}, nil)
			published <- err
		}()
		testdb.Eventually(t, slow, "the second to wait", func() bool {
			return query[bool](t, pool, `SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted
				AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))`)
		})
		publish(t, task.Autocommit(pool), e, "other", args{N: 0})
		require.NoError(t, first.Commit(t.Context()))
		require.NoError(t, receive(t, published, "the second to publish"))
		require.NoError(t, second.Commit(t.Context()))
	}
	start(t, pool, projecting(e, record))
	become(t, pool, map[string]int{"projected": 9})
	for _, level := range []pgx.TxIsoLevel{pgx.ReadCommitted, pgx.RepeatableRead, pgx.Serializable} {
		require.Equal(t, upTo(2), ordered(t, pool, string(level)))
	}
}

// writers publish from so many transactions at once, each with a delay, some in
// savepoints, some rolled back, at all isolation levels. Each event is written
// down in the same transaction, so that what committed is known.
func writers(t *testing.T, pool *pgxpool.Pool, e *taskimpl.Event[args], writers, events, aggregates int) {
	t.Helper()
	exec(t, pool, `CREATE TABLE IF NOT EXISTS committed (id uuid PRIMARY KEY)`)
	levels := []pgx.TxIsoLevel{pgx.ReadCommitted, pgx.ReadCommitted, pgx.RepeatableRead, pgx.Serializable}
	var all sync.WaitGroup
	for i := range writers {
		all.Go(func() {
			random := rand.New(rand.NewPCG(uint64(i), 1))
			for left := events / writers; left > 0; {
				n := min(1+random.IntN(5), left)
				err := pgx.BeginTxFunc(t.Context(), pool, pgx.TxOptions{IsoLevel: levels[random.IntN(len(levels))]}, func(tx pgx.Tx) error {
					// One aggregate, as changes mostly are, so that nobody deadlocks.
					aggregate := fmt.Sprint("aggregate ", random.IntN(aggregates))
					for j := range n {
						err := pgx.BeginFunc(t.Context(), tx, func(sp pgx.Tx) error {
							r, err := taskimpl.Publish(t.Context(), sp, e, aggregate, args{N: i*events + left - j}, nil)
							if err != nil {
								return err
							}
							if _, err := sp.Exec(t.Context(), `INSERT INTO committed VALUES ($1)`, r.ID); err != nil {
								return err
							}
							if random.IntN(10) == 0 {
								return errUndone
							}
							return nil
						})
						if err != nil && !errors.Is(err, errUndone) {
							return err
						}
					}
					if _, err := tx.Exec(t.Context(), `SELECT pg_sleep($1)`, 0.005*random.Float64()); err != nil {
						return err
					}
					if random.IntN(10) == 0 {
						return errUndone
					}
					return nil
				})
				if err != nil && !errors.Is(err, errUndone) {
					if t.Context().Err() == nil {
						t.Errorf("a writer: %v", err)
					}
					return
				}
				left -= n
			}
		})
	}
	all.Wait()
}

var errUndone = errors.New("undone")

// exactly checks that what was projected is what was committed, each once, and
// in the order of its numbers within each aggregate.
func exactly(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	testdb.Eventually(t, 10*slow, "all events to be projected", func() bool {
		return query[bool](t, pool, `SELECT NOT EXISTS (SELECT FROM pawl.pending_events)`)
	})
	require.NotZero(t, query[int](t, pool, `SELECT count(*) FROM committed`))
	require.Zero(t, query[int](t, pool, `SELECT count(*) FROM committed c FULL JOIN projected p USING (id) WHERE c.id IS NULL OR p.id IS NULL`))
	require.Zero(t, query[int](t, pool, `SELECT count(*) FROM (SELECT seq, lag(seq) OVER (PARTITION BY aggregate ORDER BY at) AS before FROM projected) x WHERE before > seq`), "inversions")
	require.Zero(t, query[int](t, pool, `SELECT count(*) FROM pawl.outbox_events WHERE status <> 'projected'`))
}

// Many writers, several relays: the projected set is the committed set, and in
// order.
func TestManyWriters(t *testing.T) {
	t.Parallel()
	pool := projections(t, testdb.MaxConns(30))
	e := event()
	for range 2 {
		config := projecting(e, func(ctx context.Context, tx pgx.Tx, f *task.Fact[args]) error {
			if f.Attempt == 1 && f.Payload.N%50 == 0 {
				return task.Transient(errors.New("not yet"))
			}
			return record(ctx, tx, f)
		})
		config.Relay = pawlrt.Relay{Concurrency: 2, Batch: 20}
		start(t, pool, config)
	}
	writers(t, pool, e, 20, 2000, 40)
	exactly(t, pool)
}

// Ten relays at once, of which each is killed in the middle of what it does.
func TestKilledRelays(t *testing.T) {
	t.Parallel()
	pool := projections(t, testdb.MaxConns(15))
	e := event()
	writing := make(chan struct{})
	go func() {
		defer close(writing)
		writers(t, pool, e, 5, 1500, 60)
	}()
	for range 4 {
		p := spawn(t, pool, childConfig{Lease: lease, Concurrency: 1, Events: true})
		before := query[int](t, pool, `SELECT count(*) FROM projected`)
		testdb.Eventually(t, 3*slow, "it to project", func() bool {
			return query[int](t, pool, `SELECT count(*) FROM projected`) > before || query[bool](t, pool, `SELECT NOT EXISTS (SELECT FROM pawl.pending_events)`)
		})
		p.signal(t, syscall.SIGKILL)
	}
	<-writing
	last := spawn(t, pool, childConfig{Lease: lease, Concurrency: 1, Events: true})
	exactly(t, pool)
	last.stop(t)
}

// A process that is stopped in the middle of a batch does not keep its
// aggregates for ever.
func TestStoppedRelay(t *testing.T) {
	t.Parallel()
	pool := projections(t)
	e := event()
	first := spawn(t, pool, childConfig{Lease: lease, Concurrency: 1, Events: true})
	publish(t, task.Autocommit(pool), e, "a", args{N: 0}, args{N: 1, Mode: "hold"}, args{N: 2})
	first.waitFor(t, "holding", 1)
	first.signal(t, syscall.SIGSTOP)
	second := spawn(t, pool, childConfig{Lease: lease, Concurrency: 1, Events: true})
	testdb.Eventually(t, 3*slow, "the other process to have a turn", func() bool { return len(second.said("holding")) > 0 })
	second.tell(t, "open")
	become(t, pool, map[string]int{"projected": 3})
	require.Equal(t, upTo(3), ordered(t, pool, "a"))
	second.stop(t)
	first.signal(t, syscall.SIGCONT)
	first.tell(t, "open")
	first.stop(t)
	require.Equal(t, upTo(3), ordered(t, pool, "a"))
}

// Ten relays at once project each event once.
func TestTenRelays(t *testing.T) {
	t.Parallel()
	pool := projections(t, testdb.MaxConns(25))
	e := event()
	for range 10 {
		config := projecting(e, record)
		config.Relay = pawlrt.Relay{Concurrency: 1, Batch: 10}
		start(t, pool, config)
	}
	writers(t, pool, e, 10, 500, 5)
	exactly(t, pool)
}

// An aggregate with very many events keeps nobody waiting, nor do many that wait
// for something else.
func TestBusyAggregates(t *testing.T) {
	t.Parallel()
	pool := projections(t)
	e := event()
	fill := func(aggregate string, events int, due string) {
		exec(t, pool, `WITH x AS (
				SELECT gen_random_uuid() AS id, nextval('pawl.event_seq') AS seq, `+aggregate+` AS aggregate FROM generate_series(1, $1) n
			), e AS (
				INSERT INTO pawl.events (day, id, seq, type, aggregate_type, aggregate_id, organization_id, version, capability, occurred_at, published_at, payload)
				SELECT pawl.day_of(now()), id, seq, 'trip.completed', 'trip', aggregate, '', 1, $2::bigint, now(), now(), '{"n": 1}' FROM x
			)
			INSERT INTO pawl.pending_events (aggregate, seq, id, day, capability, attempts, available_at, published_at)
			SELECT pawl.aggregate_of('trip', aggregate), seq, id, pawl.day_of(now()), $2::bigint, 0, now() + $3::text::interval, now() FROM x`,
			events, int64(e.Capabilities[0].ID), due)
	}
	fill(`'busy'`, 20_000, "0")
	fill(`'waits ' || n % 5000`, 10_000, "1 hour")
	config := projecting(e, record)
	config.Relay = pawlrt.Relay{Concurrency: 1, Batch: 20}
	w := start(t, pool, config)
	for i := range 20 {
		publish(t, task.Autocommit(pool), e, fmt.Sprint("other ", i), args{N: i})
		testdb.Eventually(t, slow, "it to be projected", func() bool { return len(ordered(t, pool, fmt.Sprint("other ", i))) == 1 })
	}
	require.Less(t, query[int](t, pool, `SELECT count(*) FROM projected WHERE aggregate = 'busy'`), 20_000, "the others have passed it")
	testdb.Eventually(t, slow, "the busy one to go on", func() bool { return w.Stats().Events.Projected > 200 })
}

// One aggregate whose projections take long does not keep the others of its
// transaction from having a turn.
func TestSlowAggregate(t *testing.T) {
	t.Parallel()
	pool := projections(t)
	e := event()
	config := projecting(e, func(ctx context.Context, tx pgx.Tx, f *task.Fact[args]) error {
		if f.AggregateID == "slow" {
			if _, err := tx.Exec(ctx, `SELECT pg_sleep(0.3)`); err != nil {
				return err
			}
		}
		return record(ctx, tx, f)
	})
	config.Relay.Concurrency = 1
	publish(t, task.Autocommit(pool), e, "slow", numbered(20, "")...)
	for i := range 5 {
		publish(t, task.Autocommit(pool), e, fmt.Sprint("other ", i), args{N: i})
	}
	start(t, pool, config)
	testdb.Eventually(t, 2*slow, "the others to be projected", func() bool {
		return query[int](t, pool, `SELECT count(*) FROM projected WHERE aggregate <> 'slow'`) == 5
	})
	require.Less(t, len(ordered(t, pool, "slow")), 20)
	become(t, pool, map[string]int{"projected": 25})
}

// Projections that lock the same rows in another order wait for each other or
// fail with a deadlock, and get through.
func TestDeadlocksAmongProjections(t *testing.T) {
	t.Parallel()
	pool := projections(t)
	exec(t, pool, `CREATE TABLE totals (name text PRIMARY KEY, n int NOT NULL)`)
	exec(t, pool, `INSERT INTO totals VALUES ('x', 0), ('y', 0)`)
	e := event(func(e *taskimpl.Event[args]) { e.Policy.Attempts, e.Policy.Unknown = 20, 20 })
	config := projecting(e, func(ctx context.Context, tx pgx.Tx, f *task.Fact[args]) error {
		names := []string{"x", "y"}
		if f.Payload.N%2 == 0 {
			names = []string{"y", "x"}
		}
		for _, name := range names {
			if _, err := tx.Exec(ctx, `UPDATE totals SET n = n + 1 WHERE name = $1`, name); err != nil {
				return err
			}
		}
		return record(ctx, tx, f)
	})
	config.Relay.Concurrency = 4
	for i := range 40 {
		publish(t, task.Autocommit(pool), e, fmt.Sprint(i), args{N: i})
	}
	start(t, pool, config)
	become(t, pool, map[string]int{"projected": 40})
	require.Equal(t, 80, query[int](t, pool, `SELECT sum(n) FROM totals`))
}

// A role whose transactions are SERIALIZABLE by default changes nothing.
func TestRelayAtEveryDefaultIsolation(t *testing.T) {
	t.Parallel()
	pool := projections(t, testdb.Configure(func(c *pgxpool.Config) {
		c.ConnConfig.RuntimeParams["default_transaction_isolation"] = "serializable"
	}))
	e := event()
	levels := make(chan string, 100)
	for range 2 {
		start(t, pool, projecting(e, func(ctx context.Context, tx pgx.Tx, f *task.Fact[args]) error {
			var level string
			if err := tx.QueryRow(ctx, `SHOW transaction_isolation`).Scan(&level); err != nil {
				return err
			}
			levels <- level
			return record(ctx, tx, f)
		}))
	}
	for i := range 50 {
		publish(t, task.Autocommit(pool), e, fmt.Sprint(i%7), args{N: i})
	}
	become(t, pool, map[string]int{"projected": 50})
	require.Equal(t, "read committed", receive(t, levels, "a level"))
	require.Zero(t, query[int](t, pool, `SELECT count(*) FROM pawl.event_errors`))
}

// Every mode of the driver can project, fail and publish.
func TestRelayInEveryMode(t *testing.T) {
	t.Parallel()
	for _, mode := range []pgx.QueryExecMode{
		pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec, pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol,
	} {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			pool := projections(t, testdb.Configure(func(c *pgxpool.Config) { c.ConnConfig.DefaultQueryExecMode = mode }))
			e := event()
			start(t, pool, projecting(e, func(ctx context.Context, tx pgx.Tx, f *task.Fact[args]) error {
				switch {
				case f.Payload.N == 1 && f.Attempt == 1:
					return errors.New("not yet")
				case f.Payload.N == 3:
					return task.Permanent(errors.New("never"))
				case f.Payload.N == 2:
					return task.Revoked(errors.New("no more"))
				}
				_, err := tx.Exec(ctx, `INSERT INTO projected (id, aggregate, n, seq, attempt) VALUES ($1::text::uuid, $2::text, $3::integer, $4::bigint, $5::integer)`,
					f.ID.String(), f.AggregateID, f.Payload.N, f.Sequence, f.Attempt)
				return err
			}))
			publish(t, task.Autocommit(pool), e, "a", numbered(5, "")...)
			become(t, pool, map[string]int{"projected": 2, "discarded": 1, "dead": 1, "blocked": 1})
		})
	}
}

// A transactional task publishes in its transaction: once, and only where it
// commits.
func TestTransactionalTasksPublish(t *testing.T) {
	t.Parallel()
	pool := projections(t)
	e, k := event(), kind("k", "q")
	config := projecting(e, record)
	config.Tables = []task.Table{taskimpl.Table(taskimpl.TxRow(k, func(ctx context.Context, tx pgx.Tx, job *task.Job[args]) error {
		if _, err := taskimpl.Publish(ctx, tx, e, "a", job.Args, nil); err != nil {
			return err
		}
		if job.Attempt < 3 && job.Args.N%2 == 0 {
			return task.Transient(errors.New("not yet"))
		}
		return nil
	}))}
	start(t, pool, config)
	put(t, pool, k, numbered(10, "")...)
	settled(t, pool, 10)
	become(t, pool, map[string]int{"projected": 10})
}

// A thousand transactions publish and enqueue beside a change, and half of them
// roll back: who is told of a change finds it.
func TestProjectionsSeeTheChange(t *testing.T) {
	t.Parallel()
	pool := projections(t)
	exec(t, pool, `CREATE TABLE trips (n int PRIMARY KEY)`)
	e := event()
	start(t, pool, projecting(e, func(ctx context.Context, tx pgx.Tx, f *task.Fact[args]) error {
		var n int
		if err := tx.QueryRow(ctx, `SELECT n FROM trips WHERE n = $1`, f.Payload.N).Scan(&n); err != nil {
			return task.Permanent(err)
		}
		return record(ctx, tx, f)
	}))
	const n = 400
	for i := range n {
		err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
			publish(t, tx, e, fmt.Sprint("trip ", i), args{N: i})
			if _, err := tx.Exec(t.Context(), `INSERT INTO trips VALUES ($1)`, i); err != nil {
				return err
			}
			if i%2 == 0 {
				return errUndone
			}
			return nil
		})
		require.True(t, err == nil || errors.Is(err, errUndone), "%v", err)
	}
	become(t, pool, map[string]int{"projected": n / 2})
	require.Zero(t, query[int](t, pool, `SELECT count(*) FROM pawl.event_errors`))
}
