package runtime_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/pawlgo/pawl/internal/store"
	"github.com/pawlgo/pawl/internal/testdb"
	pawlrt "github.com/pawlgo/pawl/runtime"
	"github.com/pawlgo/pawl/task"
	"github.com/pawlgo/pawl/task/taskimpl"
)

// labels are those of series, by their short names.
func labels(pairs ...string) map[string]string {
	names := map[string]string{
		"queue": "messaging.destination.name", "kind": "pawl.kind", "outcome": "pawl.outcome", "error": "error.type",
		"op": "db.operation.name", "type": "messaging.operation.type", "table": "db.collection.name",
	}
	all := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		all[names[pairs[i]]] = pairs[i+1]
	}
	return all
}

// move is what becomes of the series of a metric that have these labels: their
// sum grows by that, or to more than nothing where it is zero.
type move struct {
	metric string
	labels map[string]string
	by     float64
}

const grows = 0

// stage is where something is provoked.
type stage struct {
	pool   *pgxpool.Pool
	meters *meters
	worker *running
	gate   *gate
	kind   *taskimpl.Kind[args]
	event  *taskimpl.Event[args]
	undo   []func()
}

// provocation is something that happens once, and how the metrics move.
type provocation struct {
	name string
	// handle and project are what the worker does about jobs and events.
	handle  func(*stage) handler
	project projector
	change  func(*stage, *pawlrt.Config)
	provoke func(*testing.T, *stage)
	moves   []move
}

func succeeds(*stage) handler { return fine }

func fails(err error) func(*stage) handler {
	return func(*stage) handler { return func(context.Context, *task.Job[args]) error { return err } }
}

func holds(s *stage) handler { return s.gate.obey }

func ignores(s *stage) handler { return s.gate.ignore }

func oneJob(t *testing.T, s *stage) { put(t, s.pool, s.kind, args{}) }

func oneHeld(t *testing.T, s *stage) {
	oneJob(t, s)
	s.gate.started(t, 1)
}

func oneEvent(t *testing.T, s *stage) { publish(t, task.Autocommit(s.pool), s.event, "1", args{}) }

// enqueues makes a handler that enqueues one job, and fails to enqueue another.
func enqueues(s *stage) handler {
	return func(ctx context.Context, _ *task.Job[args]) error {
		if _, err := taskimpl.Enqueue(ctx, task.Autocommit(s.pool), kind("other", "other"), args{}, nil); err != nil {
			return err
		}
		_, err := taskimpl.Enqueue(ctx, task.Autocommit(s.pool), kind("other", "other"), args{}, []task.EnqueueOption{task.Attempts(-1)})
		if !errors.Is(err, task.ErrInvalidOption) {
			return fmt.Errorf("an impossible number of attempts: %w", err)
		}
		return nil
	}
}

func publishes(ctx context.Context, tx pgx.Tx, f *task.Fact[args]) error {
	_, err := taskimpl.Publish(ctx, tx, event(func(e *taskimpl.Event[args]) {
		e.Name, e.Capabilities = "trip.billed", []taskimpl.Capability{{Version: 1, ID: 0xE3}}
	}), f.AggregateID, args{}, nil)
	return err
}

func failsProjection(err error) projector {
	return func(context.Context, pgx.Tx, *task.Fact[args]) error { return err }
}

// provocations are the table of all that is told.
var provocations = []provocation{
	{
		name: "a job that succeeds", handle: succeeds, provoke: oneJob,
		moves: []move{
			{"messaging.process.duration", labels("queue", "q", "kind", "k", "outcome", "completed"), 1},
			{"pawl.job.wait", labels("queue", "q", "kind", "k"), 1},
			{"pawl.job.duration", labels("queue", "q", "kind", "k", "outcome", "completed"), 1},
			{"pawl.job.ended", labels("queue", "q", "kind", "k", "outcome", "completed"), 1},
			{"pawl.batch.size", labels("op", "claim"), 1},
			{"pawl.batch.size", labels("op", "settle"), 1},
			{"pawl.database.duration", labels("op", "settle"), 1},
			{"messaging.client.operation.duration", labels("type", "settle"), 1},
		},
	}, {
		name: "a job that dies", handle: fails(task.Permanent(errors.New("no"))), provoke: oneJob,
		moves: []move{
			{"messaging.process.duration", labels("outcome", "dead", "error", "permanent"), 1},
			{"pawl.job.duration", labels("kind", "k", "outcome", "dead"), 1},
			{"pawl.job.ended", labels("kind", "k", "outcome", "dead", "error", "permanent"), 1},
			{"pawl.queue.dead_letters", labels("queue", "q"), 1},
		},
	}, {
		name: "a job that is retried", handle: fails(task.Transient(errors.New("later"))), provoke: oneJob,
		moves: []move{
			{"messaging.process.duration", labels("outcome", "retried", "error", "transient"), 1},
			{"pawl.job.ended", labels("kind", "k", "outcome", "retried", "error", "transient"), 1},
			{"pawl.queue.retrying", labels("queue", "q"), 1},
		},
	}, {
		name: "a job that snoozes", handle: fails(task.Snooze(time.Hour)), provoke: oneJob,
		moves: []move{
			{"messaging.process.duration", labels("outcome", "given_back"), 1},
			{"pawl.job.ended", labels("kind", "k", "outcome", "given_back"), 1},
			{"pawl.queue.scheduled", labels("queue", "q"), 1},
		},
	}, {
		name: "a handler that enqueues", handle: enqueues, provoke: oneJob,
		moves: []move{
			{"messaging.client.operation.duration", labels("type", "send", "queue", "other", "kind", "other"), 2},
			{"messaging.client.operation.duration", labels("type", "send", "queue", "other", "kind", "other", "error", "invalid"), 1},
			{"messaging.client.operation.duration", labels("type", "send"), 2},
		},
	}, {
		name: "a projection that publishes", project: publishes, provoke: oneEvent,
		moves: []move{
			{"messaging.client.operation.duration", labels("type", "send", "kind", "trip.billed"), 1},
			{"messaging.client.operation.duration", labels("type", "send"), 1},
		},
	}, {
		name: "a handler that panics", handle: func(*stage) handler { return func(context.Context, *task.Job[args]) error { panic("oh") } }, provoke: oneJob,
		moves: []move{{"messaging.process.duration", labels("outcome", "retried", "error", "panic"), 1}},
	}, {
		name: "a handler that runs", handle: holds, provoke: oneHeld,
		moves: []move{
			{"pawl.slots.used", labels("queue", "q"), 1},
			{"pawl.slots.free", labels("queue", "q"), -1},
			{"pawl.queue.leased", labels("queue", "q"), 1},
		},
	}, {
		name: "a handler that ignores its context", handle: ignores,
		change: func(s *stage, _ *pawlrt.Config) { s.kind.Policy.Timeout = 50 * time.Millisecond }, provoke: oneHeld,
		moves: []move{
			{"pawl.handlers.stuck", nil, 1},
			{"messaging.process.duration", labels("kind", "k", "outcome", "retried", "error", "timeout"), 1},
		},
	}, {
		name: "a queue that is paused with one job", handle: succeeds,
		provoke: func(t *testing.T, s *stage) {
			_, err := task.Pause(t.Context(), task.Autocommit(s.pool), "q")
			require.NoError(t, err)
			oneJob(t, s)
		},
		moves: []move{
			{"pawl.slots.paused", labels("queue", "q"), 1},
			{"pawl.queue.pending", labels("queue", "q"), 1},
			{"pawl.queue.oldest.age", labels("queue", "q"), grows},
		},
	}, {
		name: "a job behind another of its order key", handle: holds,
		change: func(s *stage, _ *pawlrt.Config) { s.kind.Order = []string{"mode"} },
		provoke: func(t *testing.T, s *stage) {
			put(t, s.pool, s.kind, args{Mode: "same"}, args{Mode: "same"})
		},
		moves: []move{{"pawl.queue.blocked", labels("queue", "q"), 1}, {"pawl.queue.leased", labels("queue", "q"), 1}},
	}, {
		name: "jobs that no worker knows", handle: succeeds,
		provoke: func(t *testing.T, s *stage) {
			put(t, s.pool, kind("k", "q", func(k *taskimpl.Kind[args]) { k.Capabilities[0].ID = 0xBAD }), args{})
			put(t, s.pool, kind("nobody", "q"), args{})
		},
		moves: []move{
			{"pawl.queue.stranded", labels("queue", "q", "kind", "k"), 1},
			{"pawl.queue.stranded", labels("queue", "q", "kind", "_OTHER"), 1},
		},
	}, {
		name: "an end that comes too late", handle: ignores,
		provoke: func(t *testing.T, s *stage) {
			oneHeld(t, s)
			exec(t, s.pool, `DELETE FROM pawl.leases`)
			s.gate.open()
			s.gate = newGate()
		},
		moves: []move{{"pawl.settlement.refused", labels("queue", "q", "kind", "k"), 1}},
	}, {
		name: "a process that loses its leases", handle: succeeds,
		provoke: func(t *testing.T, s *stage) { exec(t, s.pool, `DELETE FROM pawl.processes`) },
		moves:   []move{{"pawl.lease.lost", nil, 1}},
	}, {
		name: "a process that dies", handle: succeeds,
		provoke: func(t *testing.T, s *stage) {
			k := kind("theirs", "theirs")
			put(t, s.pool, k, args{}, args{})
			st, err := store.Open(t.Context(), s.pool, store.DefaultSchema, 2)
			require.NoError(t, err)
			defer st.Close()
			dead := uuid.New()
			capabilities := []int64{int64(k.Capabilities[0].ID)}
			require.NoError(t, st.Register(t.Context(), &store.Process{ID: dead, Name: "dead", Queues: []string{"theirs"}, Capabilities: capabilities, Lease: time.Hour}))
			claimed, err := st.Claim(t.Context(), &store.Claim{Owner: dead, Token: uuid.New(), Queue: "theirs", Limit: 2, Capabilities: capabilities})
			require.NoError(t, err)
			require.Len(t, claimed.Jobs, 2)
			exec(t, s.pool, `UPDATE pawl.jobs SET max_attempts = 1 WHERE id = $1`, claimed.Jobs[0].ID)
			exec(t, s.pool, `UPDATE pawl.processes SET steady_since = steady_since - interval '1 hour', expires_at = CASE WHEN id = $1 THEN clock_timestamp() ELSE expires_at END`, dead)
		},
		moves: []move{
			{"pawl.lease.expirations", nil, 1},
			{"pawl.lease.recovered", labels("outcome", "retried"), 1},
			{"pawl.lease.recovered", labels("outcome", "dead"), 1},
		},
	}, {
		name: "a notification", handle: succeeds,
		change: func(_ *stage, c *pawlrt.Config) { c.PollOnly = false },
		provoke: func(t *testing.T, s *stage) {
			testdb.Eventually(t, slow, "the listener", func() bool { return s.worker.Stats().Listening })
			exec(t, s.pool, `SELECT pg_notify($1, 'nobody''s')`, store.Channel(store.DefaultSchema))
		},
		moves: []move{{"pawl.wakeup.received", nil, 1}, {"pawl.listener.connected", nil, 1}, {"pawl.sample.age", nil, grows}},
	}, {
		name: "a listener that loses its connection", handle: succeeds,
		change: func(_ *stage, c *pawlrt.Config) { c.PollOnly = false },
		provoke: func(t *testing.T, s *stage) {
			testdb.Eventually(t, slow, "the listener", func() bool { return s.worker.Stats().Listening })
			exec(t, s.pool, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN%'`)
		},
		moves: []move{{"pawl.wakeup.failures", nil, 1}, {"pawl.listener.reconnects", nil, 1}},
	}, {
		name: "a tick that was missed", handle: succeeds,
		change: func(s *stage, _ *pawlrt.Config) {
			s.kind.Schedule = &taskimpl.Schedule[args]{Spec: "@every 240h", Zone: "UTC", Missed: "one", Args: func(time.Time) args { return args{} }}
		},
		provoke: func(t *testing.T, s *stage) {
			testdb.Eventually(t, slow, "the schedule", func() bool { return query[bool](t, s.pool, `SELECT EXISTS (SELECT FROM pawl.schedules)`) })
			exec(t, s.pool, `UPDATE pawl.schedules SET cursor = cursor - interval '240 hours', next_tick = next_tick - interval '240 hours'`)
		},
		moves: []move{
			{"pawl.schedule.missed", labels("kind", "k"), 1},
			{"pawl.schedule.ticks", labels("kind", "k"), 1},
			{"messaging.client.operation.duration", labels("type", "send", "queue", "q", "kind", "k"), 1},
			{"pawl.database.duration", labels("op", "tick"), 1},
		},
	}, {
		name: "an event that is projected", project: failsProjection(nil), provoke: oneEvent,
		moves: []move{
			{"pawl.projection.duration", labels("kind", "trip.completed", "outcome", "completed"), 1},
			{"pawl.event.ended", labels("kind", "trip.completed", "outcome", "completed"), 1},
			{"pawl.database.duration", labels("op", "take"), 1},
			{"pawl.database.duration", labels("op", "commit"), 1},
		},
	}, {
		name: "an event that is tried again", project: failsProjection(task.Transient(errors.New("later"))), provoke: oneEvent,
		moves: []move{
			{"pawl.projection.duration", labels("kind", "trip.completed", "outcome", "retried", "error", "transient"), 1},
			{"pawl.event.ended", labels("kind", "trip.completed", "outcome", "retried", "error", "transient"), 1},
			{"pawl.event.ended", nil, 1},
			{"pawl.outbox.lag.events", labels("kind", "trip.completed"), 1},
			{"pawl.outbox.lag.duration", labels("kind", "trip.completed"), grows},
		},
	}, {
		name: "an event that blocks its aggregate", project: failsProjection(task.Permanent(errors.New("no"))), provoke: oneEvent,
		moves: []move{{"pawl.outbox.blocked", nil, 1}, {"pawl.event.ended", labels("outcome", "dead", "error", "permanent"), 1}},
	}, {
		name: "an event that ended its process", project: failsProjection(nil),
		provoke: func(t *testing.T, s *stage) {
			require.NoError(t, pgx.BeginFunc(t.Context(), s.pool, func(tx pgx.Tx) error {
				publish(t, tx, s.event, "1", args{})
				_, err := tx.Exec(t.Context(), `UPDATE pawl.pending_events SET suspect = true, claim = gen_random_uuid(), claimed_at = clock_timestamp() - interval '6 seconds'`)
				return err
			}))
		},
		moves: []move{{"pawl.event.ended", labels("kind", "trip.completed", "outcome", "retried", "error", "process_lost"), 1}, {"pawl.event.ended", nil, 1}},
	}, {
		name: "an event that no worker knows", project: failsProjection(nil),
		provoke: func(t *testing.T, s *stage) {
			publish(t, task.Autocommit(s.pool), event(func(e *taskimpl.Event[args]) { e.Capabilities[0].ID = 0xBAD }), "1", args{})
		},
		moves: []move{{"pawl.outbox.stranded", labels("kind", "trip.completed"), 1}},
	}, {
		name: "a transaction that holds back vacuum", handle: succeeds,
		provoke: func(t *testing.T, s *stage) {
			// A session of the worker's role, since it may not see those of others.
			tx, err := testdb.As(t, s.pool, testdb.Worker).BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
			require.NoError(t, err)
			s.undo = append(s.undo, func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) })
			_, err = tx.Exec(t.Context(), `SELECT`)
			require.NoError(t, err)
			exec(t, s.pool, `SELECT pg_current_xact_id()`)
		},
		moves: []move{{"pawl.database.horizon.age", nil, grows}, {"pawl.database.horizon.transactions", nil, grows}},
	}, {
		name: "a row that is dead", handle: succeeds,
		provoke: func(t *testing.T, s *stage) {
			exec(t, s.pool, `INSERT INTO pawl.idempotency_keys VALUES ('', 'k', '', gen_random_uuid(), 1, clock_timestamp(), '')`)
			exec(t, s.pool, `DELETE FROM pawl.idempotency_keys`)
			exec(t, s.pool, `SELECT pg_stat_force_next_flush()`)
		},
		moves: []move{{"pawl.database.dead_rows", labels("table", "idempotency_keys"), 1}},
	}, {
		name: "notifications that nobody takes", handle: succeeds,
		provoke: func(t *testing.T, s *stage) {
			listener, err := s.pool.Begin(t.Context())
			require.NoError(t, err)
			s.undo = append(s.undo, func() { _ = listener.Rollback(context.WithoutCancel(t.Context())) })
			conn := listener.Conn()
			_, err = conn.Exec(t.Context(), `LISTEN ignored; COMMIT; BEGIN`)
			require.NoError(t, err)
			for n := range 3 {
				exec(t, s.pool, `SELECT pg_notify('ignored', $1 || repeat('x', 7000))`, fmt.Sprint(n))
			}
		},
		moves: []move{{"pawl.database.notification_queue.usage", nil, grows}},
	},
}

// Each metric moves by one when what it counts happens once.
func TestEachMetricMovesByOne(t *testing.T) {
	t.Parallel()
	covered := map[string]bool{}
	for _, p := range provocations {
		for _, m := range p.moves {
			covered[m.metric] = true
		}
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			p.run(t)
		})
	}
	for _, name := range pawlrt.MetricNames() {
		require.Contains(t, covered, name, "nothing provokes it")
	}
}

func (p *provocation) run(t *testing.T) {
	s := &stage{pool: testdb.Migrated(t), meters: newMeters(), gate: newGate()}
	s.kind = kind("k", "q", func(k *taskimpl.Kind[args]) { k.Policy.Base, k.Policy.Max = time.Hour, time.Hour })
	s.event = event(func(e *taskimpl.Event[args]) { e.Policy.Base, e.Policy.Max = time.Hour, time.Hour })
	config := pawlrt.Config{Lease: 3 * time.Second, Poll: 20 * time.Millisecond, PollOnly: true, MeterProvider: s.meters}
	if p.change != nil {
		p.change(s, &config)
	}
	if p.handle != nil {
		config.Tables = []task.Table{table(s.kind, p.handle(s))}
	}
	if p.project != nil {
		config.Events = projecting(s.event, p.project).Events
	}
	before := s.meters.collect(t)
	s.worker = start(t, s.pool, config)
	if !slices.ContainsFunc(p.moves, func(m move) bool { return m.metric == "pawl.listener.connected" }) {
		testdb.Eventually(t, slow, "the first sample", func() bool { return s.worker.Stats().Database.Sampled })
		before = s.meters.collect(t)
	}
	defer func() {
		s.gate.open()
		for _, f := range s.undo {
			f()
		}
	}()
	p.provoke(t, s)
	var last []string
	defer func() {
		if t.Failed() {
			t.Log(last)
		}
	}()
	testdb.Eventually(t, 3*slow, "the metrics to move", func() bool {
		s.hurry(t)
		last = p.missing(before, s.meters.collect(t))
		return len(last) == 0
	})
	// And no further.
	taken := s.worker.Stats().Database.Taken
	testdb.Eventually(t, slow, "another sample", func() bool {
		s.hurry(t)
		return s.worker.Stats().Database.Taken > taken
	})
	require.Empty(t, p.missing(before, s.meters.collect(t)))
	require.NoError(t, s.requireKnownLabels(t))
}

// hurry lets the worker take the next sample at once, however long the last one
// took on a machine that has other things to do.
func (s *stage) hurry(t *testing.T) {
	t.Helper()
	exec(t, s.pool, `UPDATE pawl.samples SET due_at = '-infinity' WHERE failed = 0 AND due_at > clock_timestamp()`)
}

// missing tells of the series that have not moved as they should have.
func (p *provocation) missing(before, after []point) (all []string) {
	for _, m := range p.moves {
		moved := sum(after, m.metric, m.labels) - sum(before, m.metric, m.labels)
		if m.by == grows && moved <= 0 || m.by != grows && moved != m.by {
			all = append(all, fmt.Sprintf("%s%v moved by %v", m.metric, m.labels, moved))
		}
	}
	return all
}

// requireKnownLabels fails where a series has a label that the table does not
// name, or one that has no bound.
func (s *stage) requireKnownLabels(t *testing.T) error {
	for _, p := range s.meters.collect(t) {
		for label, value := range p.labels {
			if !slices.Contains(pawlrt.MetricLabels(p.name), label) {
				return fmt.Errorf("%s has the label %s", p.name, label)
			}
			if _, err := uuid.Parse(value); err == nil || strings.Contains(value, "{") {
				return fmt.Errorf("%s has the value %s of %s", p.name, value, label)
			}
		}
	}
	return nil
}

// What happens all the time is told as often as it is counted.
func TestMetricsOfEveryCall(t *testing.T) {
	t.Parallel()
	pool := projections(t)
	m := newMeters()
	k := kind("k", "q")
	config := projecting(event(), record)
	config.Tables = []task.Table{taskimpl.Table(taskimpl.TxRow(k, func(context.Context, pgx.Tx, *task.Job[args]) error { return nil }))}
	config.MeterProvider, config.Lease = m, 3*time.Second
	put(t, pool, k, numbered(5, "")...)
	w := start(t, pool, config)
	settled(t, pool, 5)
	points := func(op string) float64 { return sum(m.collect(t), "pawl.database.duration", labels("op", op)) }
	testdb.Eventually(t, slow, "every kind of call", func() bool {
		return points("heartbeat") > 0 && points("recover") > 0 && points("pick") > 0 && points("sample") > 0
	})
	require.NoError(t, w.shutdown(t))
	stats := w.Stats()
	require.Positive(t, stats.Claims)
	require.Equal(t, float64(stats.Claims+stats.ClaimErrors), sum(m.collect(t), "messaging.client.operation.duration", labels("type", "receive", "queue", "q")))
	require.Equal(t, float64(stats.Claims+stats.ClaimErrors), points("claim"))
	require.Equal(t, float64(stats.Events.Picks+stats.Events.PickErrors), points("pick"))
	require.Equal(t, 5.0, points("complete"))
	require.Equal(t, 5.0, sum(m.collect(t), "messaging.client.operation.duration", labels("type", "settle")))
	require.Empty(t, m.callbacks, "nothing is read of a worker that has ended")
}

// The times of jobs are the database's: how long one was due, and how long it
// has been there.
func TestMetricsOfTimes(t *testing.T) {
	t.Parallel()
	pool := testdb.Migrated(t)
	m := newMeters()
	k := kind("k", "q")
	put(t, pool, k, args{})
	exec(t, pool, `UPDATE pawl.ready SET run_at = run_at - interval '2 hours'`)
	exec(t, pool, `UPDATE pawl.jobs SET enqueued_at = enqueued_at - interval '3 hours'`)
	w := start(t, pool, pawlrt.Config{MeterProvider: m, Tables: []task.Table{table(k, fine)}})
	settled(t, pool, 1)
	require.NoError(t, w.shutdown(t))
	seen := map[string]float64{}
	for _, p := range m.collect(t) {
		seen[p.name] = p.sum
	}
	require.InDelta(t, 2*3600, seen["pawl.job.wait"], 60)
	require.InDelta(t, 3*3600, seen["pawl.job.duration"], 60)
}

// A worker without a provider takes no samples; one with a provider says what all
// of them say.
func TestSamplesOfTwoWorkers(t *testing.T) {
	t.Parallel()
	pool := testdb.Migrated(t)
	k := kind("k", "q")
	_, err := task.Pause(t.Context(), task.Autocommit(pool), "q")
	require.NoError(t, err)
	put(t, pool, k, numbered(3, "")...)
	config := pawlrt.Config{Lease: 3 * time.Second, Tables: []task.Table{table(k, fine)}}
	without := start(t, pool, config)
	config.MeterProvider = newMeters()
	workers := []*running{start(t, pool, config), start(t, pool, config)}
	testdb.Eventually(t, slow, "both to have a sample with the jobs", func() bool {
		for _, w := range workers {
			if w.Stats().Database.Queues["q"].Pending != 3 {
				return false
			}
		}
		return true
	})
	require.Zero(t, without.Stats().Database)
	require.NoError(t, workers[0].shutdown(t))
	require.NoError(t, workers[1].shutdown(t))
	require.Equal(t, query[int64](t, pool, `SELECT taken FROM pawl.samples`), workers[0].Stats().Database.Taken+workers[1].Stats().Database.Taken)
}
