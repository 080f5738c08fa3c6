package runtime_test

import (
	"context"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/pawlgo/pawl/internal/testdb"
	"github.com/pawlgo/pawl/task"
	"github.com/pawlgo/pawl/task/taskimpl"
)

// supervised keeps so many processes running until done, as a supervisor would,
// until so many of them have ended by themselves.
func supervised(t *testing.T, pool *pgxpool.Pool, processes, deaths int, c childConfig, done func() bool) {
	t.Helper()
	ended := 0
	running := make([]*child, processes)
	for i := range running {
		running[i] = spawn(t, pool, c)
	}
	testdb.Eventually(t, 6*slow, "it to be done", func() bool {
		for i, p := range running {
			select {
			case <-p.exited:
				ended++
				running[i] = spawn(t, pool, c)
			default:
			}
		}
		return done() && ended >= deaths // who has ended is known a moment later
	})
	for _, p := range running {
		p.stop(t)
	}
	require.Equal(t, deaths, ended)
}

// An event whose projection ends its process is a dead one after its attempts,
// and holds up its aggregate or not, as declared. Others are projected meanwhile,
// each in its order and without having lost an attempt.
func TestProjectionThatEndsItsProcess(t *testing.T) {
	t.Parallel()
	for _, skip := range []bool{false, true} {
		for _, processes := range []int{1, 2} {
			t.Run(fmt.Sprintf("skip %t, %d processes", skip, processes), func(t *testing.T) {
				t.Parallel()
				pool := projections(t, testdb.MaxConns(10))
				e := event()
				err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
					for i := range 20 {
						publish(t, tx, e, fmt.Sprint(i), numbered(5, "")...)
						if i == 10 {
							publish(t, tx, e, "poison", args{N: 0}, args{N: 1, Mode: "exit"}, args{N: 2}, args{N: 3})
						}
					}
					return nil
				})
				require.NoError(t, err)
				began := time.Now()
				var innocents time.Duration
				want := map[string]int{"projected": 101, "dead": 1, "blocked": 2}
				if skip {
					want = map[string]int{"projected": 103, "dead": 1}
				}
				// The first death leaves open which event it was.
				supervised(t, pool, processes, 1+3, childConfig{Lease: lease, Concurrency: 1, Events: true, Skip: skip}, func() bool {
					if innocents == 0 && query[int](t, pool, `SELECT count(*) FROM projected WHERE aggregate <> 'poison'`) == 100 {
						innocents = time.Since(began)
					}
					return fmt.Sprint(status(t, pool)) == fmt.Sprint(want)
				})
				require.Less(t, innocents, 20*time.Second)
				require.Equal(t, "poison 3 process_lost", query[string](t, pool, `SELECT concat_ws(' ', aggregate_id, attempts, code) FROM pawl.dead_events`))
				require.Equal(t, 3, query[int](t, pool, `SELECT count(*) FROM pawl.event_errors`))
				require.Zero(t, query[int](t, pool, `SELECT count(*) FROM projected WHERE attempt > 1`))
				for i := range 20 {
					require.Equal(t, upTo(5), ordered(t, pool, fmt.Sprint(i)))
				}
				if skip {
					require.Equal(t, []int{0, 2, 3}, ordered(t, pool, "poison"))
				} else {
					require.Equal(t, []int{0}, ordered(t, pool, "poison"))
				}
			})
		}
	}
}

// An attempt whose process is killed counts from the second time on, when it is
// known which one it was. The event is projected after that all the same.
func TestKilledInAProjection(t *testing.T) {
	t.Parallel()
	pool := projections(t)
	e := event()
	publish(t, task.Autocommit(pool), e, "a", args{N: 0, Mode: "hold"}, args{N: 1})
	for range 2 {
		p := spawn(t, pool, childConfig{Lease: lease, Concurrency: 1, Events: true})
		p.waitFor(t, "holding", 1)
		p.signal(t, syscall.SIGKILL)
		receive(t, p.exited, "the process to be gone")
	}
	require.Equal(t, "t 0", query[string](t, pool, `SELECT concat_ws(' ', claimed_at IS NOT NULL AND claimed_by <> '', attempts) FROM pawl.outbox_events WHERE payload ->> 'n' = '0'`), "what is under way is seen")
	p := spawn(t, pool, childConfig{Lease: lease, Concurrency: 1, Events: true})
	p.waitFor(t, "holding", 1)
	require.Equal(t, 1, query[int](t, pool, `SELECT attempts FROM pawl.pending_events ORDER BY seq LIMIT 1`))
	p.tell(t, "open")
	become(t, pool, map[string]int{"projected": 2})
	p.stop(t)
	require.Equal(t, "process_lost", query[string](t, pool, `SELECT code FROM pawl.event_errors`))
	require.Equal(t, upTo(2), ordered(t, pool, "a"))
}

// A transaction that came to nothing in a process that lives makes suspects of its
// events, which are projected one at a time then, and lose no attempt by that.
func TestRolledBackBatch(t *testing.T) {
	t.Parallel()
	pool := projections(t)
	exec(t, pool, `CREATE TABLE twice (n int UNIQUE DEFERRABLE INITIALLY DEFERRED)`)
	e := event()
	require.NoError(t, pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		for i := range 10 {
			publish(t, tx, e, fmt.Sprint(i), numbered(3, "")...)
		}
		publish(t, tx, e, "twice", numbered(2, "twice")...)
		return nil
	}))
	w := start(t, pool, projecting(e, func(ctx context.Context, tx pgx.Tx, f *task.Fact[args]) error {
		if f.Payload.Mode == "twice" {
			_, err := tx.Exec(ctx, `INSERT INTO twice VALUES (1), ($1)`, 1+f.Payload.N)
			return err
		}
		return record(ctx, tx, f)
	}))
	become(t, pool, map[string]int{"projected": 30, "dead": 1, "blocked": 1})
	require.Zero(t, query[int](t, pool, `SELECT count(*) FROM projected WHERE attempt > 1`))
	require.NotZero(t, w.Stats().Events.Broken)
	require.NoError(t, w.shutdown(t))
}

// A commit that fails is laid to the one event that was projected, not to one that
// failed by itself in the same transaction.
func TestFailedCommitIsLaidToTheProjected(t *testing.T) {
	t.Parallel()
	pool := projections(t)
	exec(t, pool, `CREATE TABLE parent (id int PRIMARY KEY)`)
	exec(t, pool, `CREATE TABLE child (id int REFERENCES parent DEFERRABLE INITIALLY DEFERRED)`)
	e := event(func(e *taskimpl.Event[args]) { e.Policy.Attempts = 1 })
	var ids []uuid.UUID
	require.NoError(t, pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		ids = publish(t, tx, e, "a", args{Mode: "deferred"}, args{Mode: "snooze"})
		return nil
	}))
	start(t, pool, projecting(e, func(ctx context.Context, tx pgx.Tx, f *task.Fact[args]) error {
		if f.Payload.Mode == "snooze" {
			return task.Snooze(time.Hour)
		}
		_, err := tx.Exec(ctx, `INSERT INTO child VALUES (1)`)
		return err
	}))
	become(t, pool, map[string]int{"dead": 1, "blocked": 1})
	require.Equal(t, ids[0], query[uuid.UUID](t, pool, `SELECT event_id FROM pawl.event_errors`))
}
