package runtime_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync/atomic"
	"syscall"
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

// step is the payload of a kind with an order key.
type step struct {
	Key  string `json:"key"`
	N    int    `json:"n"` // in its key, from 0
	Plan string `json:"plan"`
}

func stepKind(name string, order ...string) *taskimpl.Kind[step] {
	return &taskimpl.Kind[step]{
		Name: name, Queue: "steps", Priority: task.Normal, Version: 1, Order: order,
		Policy:       taskimpl.Policy{Attempts: 6, Base: 5 * time.Millisecond, Max: 30 * time.Millisecond, Jitter: 0.2, Unknown: 6, Timeout: time.Minute},
		Capabilities: []taskimpl.Capability{{Version: 1, ID: uint64(len(name))<<8 | 0x57}},
		Decode:       func(_ int, raw []byte) (step, error) { return taskimpl.As[step](raw) },
	}
}

func orderedSteps() *taskimpl.Kind[step] { return stepKind("ordered", "key") }
func looseSteps() *taskimpl.Kind[step]   { return stepKind("loose_ones") }

// runsTable is where handlers of steps write down when they ran, by the
// database's clock.
const runsTable = `CREATE TABLE runs (
	id         bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
	job        uuid NOT NULL,
	key        text NOT NULL,
	n          int NOT NULL,
	started_at timestamptz NOT NULL DEFAULT clock_timestamp(),
	ended_at   timestamptz -- NULL: its process was killed
)`

// stepTables handle steps as their plans say.
func stepTables(pool *pgxpool.Pool) []task.Table {
	handle := func(ctx context.Context, job *task.Job[step]) (err error) {
		// What is written down must be, whatever becomes of ctx.
		writing := context.WithoutCancel(ctx)
		var run, earlier int
		if err := pool.QueryRow(writing, `INSERT INTO runs (job, key, n) VALUES ($1, $2, $3)
			RETURNING id, (SELECT count(*) FROM runs r WHERE r.job = $1)`, job.ID, job.Args.Key, job.Args.N).Scan(&run, &earlier); err != nil {
			return err
		}
		defer func() {
			_, end := pool.Exec(writing, `UPDATE runs SET ended_at = clock_timestamp() WHERE id = $1`, run)
			err = errors.Join(err, end)
		}()
		pause := time.NewTimer(rand.N(5 * time.Millisecond))
		if job.Args.Plan == "linger" {
			pause.Reset(time.Minute)
		}
		defer pause.Stop()
		select {
		case <-pause.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		switch plan := job.Args.Plan; {
		case plan == "die":
			return task.Permanent(errors.New("as planned"))
		case plan == "retry" && earlier < 2:
			return task.Transient(errors.New("as planned"))
		case plan == "snooze" && earlier == 0:
			return task.Snooze(20 * time.Millisecond)
		}
		return nil
	}
	return []task.Table{taskimpl.Table(taskimpl.Row(orderedSteps(), handle)), taskimpl.Table(taskimpl.Row(looseSteps(), handle))}
}

// Many keys, many workers, one of them killed, and everything that can become of
// a job: those of a key run one after the other in the order of their enqueue.
func TestOrder(t *testing.T) {
	t.Parallel()
	pool := testdb.Migrated(t, testdb.MaxConns(20))
	exec(t, pool, runsTable)
	var children []*child
	for range 4 {
		children = append(children, spawn(t, pool, childConfig{Lease: lease, Concurrency: 1, Steps: true}))
	}
	for range 4 {
		start(t, pool, pawlrt.Config{
			Lease: lease, Poll: 100 * time.Millisecond, Tables: stepTables(pool), Logger: slog.New(slog.DiscardHandler),
			Queues: map[string]pawlrt.Queue{"steps": {Concurrency: 30}},
		})
	}

	const keys, rounds = 20, 50
	k := orderedSteps()
	random := rand.New(rand.NewPCG(1, 2))
	plans := make(map[uuid.UUID]string)
	answers := make(map[uuid.UUID]task.State) // of those that were cancelled
	cancel := func(id uuid.UUID) {
		state, err := task.Cancel(t.Context(), task.Autocommit(pool), id)
		require.NoError(t, err)
		if _, again := answers[id]; !again {
			answers[id] = state
		}
	}
	// linger cancels what runs until somebody does.
	linger := func() {
		rows, err := pool.Query(t.Context(), `SELECT r.job FROM runs r JOIN pawl.jobs j ON j.id = r.job WHERE j.args->>'plan' = 'linger' AND r.ended_at IS NULL`)
		require.NoError(t, err)
		running, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
		require.NoError(t, err)
		for _, id := range running {
			cancel(id)
		}
	}
	killed := false
	for n := range rounds {
		steps := make([]step, keys)
		for i, key := range random.Perm(keys) {
			steps[i] = step{Key: fmt.Sprint(key), N: n, Plan: []string{"", "", "", "", "", "", "retry", "snooze", "die", "linger"}[random.IntN(10)]}
		}
		var ids []uuid.UUID
		err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
			half := random.IntN(keys)
			for _, part := range [][]step{steps[:half], steps[half:]} {
				receipts, err := taskimpl.EnqueueMany(t.Context(), tx, k, part, nil)
				if err != nil {
					return err
				}
				for i, r := range receipts {
					ids = append(ids, r.ID)
					plans[r.ID] = part[i].Plan
				}
			}
			_, err := taskimpl.EnqueueMany(t.Context(), tx, looseSteps(), steps[:10], nil)
			return err
		})
		require.NoError(t, err)
		never := errors.New("rolled back")
		require.ErrorIs(t, pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
			_, err := taskimpl.EnqueueMany(t.Context(), tx, k, []step{{Key: "0", N: -1}, {Key: "1", N: -1}}, nil)
			return errors.Join(err, never)
		}), never)
		cancel(ids[random.IntN(keys)])
		linger()
		if n == rounds/2 {
			children[0].signal(t, syscall.SIGKILL)
			killed = true
		}
	}
	require.True(t, killed)
	testdb.Eventually(t, 60*time.Second, "all jobs to end", func() bool {
		linger()
		return query[bool](t, pool, `SELECT NOT EXISTS (SELECT FROM pawl.ordered)`)
	})
	loose := rounds * 10
	exec(t, pool, `SELECT pawl.cancel(id) FROM pawl.jobs WHERE kind = 'loose_ones' AND args->>'plan' = 'linger'`)
	a := settled(t, pool, keys*rounds+loose)
	require.Equal(t, store.Audit{Completed: a.Completed, Dead: a.Dead, Cancelled: a.Cancelled}, a)

	require.Zero(t, query[int](t, pool, `SELECT count(*) FROM runs WHERE n < 0`), "runs of what was rolled back")
	require.Equal(t, "", query[string](t, pool, `SELECT COALESCE(string_agg(format('key %s: %s began before %s', a.key, b.n, a.n), ', '), '')
		FROM runs a JOIN runs b ON b.key = a.key AND b.n > a.n AND b.started_at < a.started_at
		JOIN pawl.jobs j ON j.id = a.job AND j.kind = 'ordered' JOIN pawl.jobs i ON i.id = b.job AND i.kind = 'ordered'`), "inversions")
	require.Equal(t, "", query[string](t, pool, `SELECT COALESCE(string_agg(format('key %s: %s ran until %s and %s from %s', a.key, a.n, a.ended_at, b.n, b.started_at), ', '), '')
		FROM runs a JOIN runs b ON b.key = a.key AND b.id <> a.id AND b.started_at >= a.started_at AND b.started_at < a.ended_at
		JOIN pawl.jobs j ON j.id = a.job AND j.kind = 'ordered' JOIN pawl.jobs i ON i.id = b.job AND i.kind = 'ordered'`), "overlaps")

	for id, plan := range plans {
		is := query[string](t, pool, `SELECT status FROM pawl.job_status WHERE id = $1`, id)
		want := map[string]string{"": "completed", "retry": "completed", "snooze": "completed", "die": "dead", "linger": "cancelled"}[plan]
		switch answer, asked := answers[id]; {
		case asked && answer == task.StateCancelled:
			want = "cancelled"
		case asked && answer == task.StateLeased:
			if is != want { // it was just ending as planned
				want = "cancelled"
			}
		case asked:
			want = string(answer)
		}
		require.Equal(t, want, is, "a job planned as %q, cancelled when it was %q", plan, answers[id])
	}
	require.Zero(t, query[int](t, pool, `SELECT count(*) FROM runs r JOIN pawl.outcomes o ON o.job_id = r.job WHERE r.started_at > o.finished_at`), "runs after the end")
	testdb.Eventually(t, slow, "nothing to be left", func() bool {
		return query[bool](t, pool, `SELECT NOT EXISTS (SELECT FROM pawl.cancel_requests) AND NOT EXISTS (SELECT FROM pawl.order_turns)`)
	})
	for _, c := range children[1:] {
		c.stop(t)
	}
}

// One job of a key is added just as the one before it ends, again and again: the
// next one always starts, and never beside the other.
func TestTurnsAreNeverLost(t *testing.T) {
	t.Parallel()
	for _, pollOnly := range []bool{false, true} {
		t.Run(fmt.Sprint(pollOnly), func(t *testing.T) {
			t.Parallel()
			pool := testdb.Migrated(t)
			var now, most atomic.Int64
			started := make(chan int, 100)
			k := orderedSteps()
			config := pawlrt.Config{PollOnly: pollOnly, Poll: 20 * time.Millisecond, Tables: []task.Table{taskimpl.Table(taskimpl.Row(k, func(_ context.Context, job *task.Job[step]) error {
				most.Store(max(most.Load(), now.Add(1)))
				started <- job.Args.N
				now.Add(-1)
				return nil
			}))}}
			if !pollOnly {
				config.Poll = 2 * time.Second
			}
			jobs := 1000
			if pollOnly {
				jobs = 300
			}
			for range 2 {
				w := start(t, pool, config)
				if !pollOnly {
					listening(t, w)
				}
			}
			longest := time.Duration(0)
			for n := range jobs {
				until := time.Now().Add(rand.N(3 * time.Millisecond))
				for time.Now().Before(until) { // shorter than a timer is exact
				}
				begun := time.Now()
				_, err := taskimpl.Enqueue(t.Context(), task.Autocommit(pool), k, step{Key: "a", N: n}, nil)
				require.NoError(t, err)
				require.Equal(t, n, receive(t, started, fmt.Sprintf("step %d", n)))
				longest = max(longest, time.Since(begun))
			}
			require.Equal(t, store.Audit{Completed: jobs}, settled(t, pool, jobs))
			require.EqualValues(t, 1, most.Load())
			t.Log("the longest wait was", longest)
			require.Less(t, longest, 5*time.Second)
		})
	}
}

// At stricter levels a handler's transaction cannot see who was added since it
// began; the key goes on all the same, in order, and what fails is repeated.
func TestOrderOfTransactionalJobs(t *testing.T) {
	t.Parallel()
	for _, level := range levels {
		t.Run(string(level), func(t *testing.T) {
			t.Parallel()
			pool := effects(t)
			k := orderedSteps()
			k.Isolation = level
			var failed atomic.Int64
			config := pawlrt.Config{Tables: []task.Table{taskimpl.Table(taskimpl.TxRow(k, func(ctx context.Context, tx pgx.Tx, job *task.Job[step]) error {
				if _, err := tx.Exec(ctx, `INSERT INTO effects (n, attempt) VALUES ($1, $2)`, job.Args.N, job.Attempt); err != nil {
					return err
				}
				if job.Args.N%10 == 3 && job.Attempt == 1 {
					failed.Add(1)
					return task.Transient(errors.New("as planned"))
				}
				return nil
			}))}}
			start(t, pool, config)
			start(t, pool, config)
			const jobs = 60
			for n := range jobs {
				_, err := taskimpl.Enqueue(t.Context(), task.Autocommit(pool), k, step{Key: "a", N: n}, nil)
				require.NoError(t, err)
			}
			require.Equal(t, store.Audit{Completed: jobs}, settled(t, pool, jobs))
			require.EqualValues(t, jobs/10, failed.Load())
			require.Equal(t, jobs, query[int](t, pool, `SELECT count(*) FROM effects`))
			require.Zero(t, query[int](t, pool, `SELECT count(*) FROM effects a JOIN effects b ON b.n > a.n AND b.at < a.at`), "inversions")
		})
	}
}

// A key that waits holds up neither other keys nor jobs without one, in a queue
// with few slots.
func TestAHeldKeyHoldsNothingElse(t *testing.T) {
	t.Parallel()
	pool := testdb.Migrated(t)
	ordered, loose := orderedSteps(), looseSteps()
	release := make(chan struct{})
	held := make(chan int, 1)
	handle := func(_ context.Context, job *task.Job[step]) error {
		if job.Args.Plan == "hold" {
			held <- job.Args.N
			<-release
		}
		return nil
	}
	start(t, pool, pawlrt.Config{
		Queues: map[string]pawlrt.Queue{"steps": {Concurrency: 2}},
		Tables: []task.Table{taskimpl.Table(taskimpl.Row(ordered, handle)), taskimpl.Table(taskimpl.Row(loose, handle))},
	})
	steps := []step{{Key: "held", Plan: "hold"}}
	for n := range 500 {
		steps = append(steps, step{Key: "held", N: n + 1})
	}
	_, err := taskimpl.EnqueueMany(t.Context(), task.Autocommit(pool), ordered, steps, nil)
	require.NoError(t, err)
	receive(t, held, "the head")
	for n := range 20 {
		_, err := taskimpl.Enqueue(t.Context(), task.Autocommit(pool), ordered, step{Key: fmt.Sprint(n % 3)}, nil)
		require.NoError(t, err)
		_, err = taskimpl.Enqueue(t.Context(), task.Autocommit(pool), loose, step{Key: "held"}, nil)
		require.NoError(t, err)
	}
	testdb.Eventually(t, slow, "the others to end", func() bool { return audit(t, pool).Completed == 40 })
	require.Equal(t, store.Audit{Completed: 40, Leased: 1, Blocked: 500}, audit(t, pool))
	close(release)
	require.Equal(t, store.Audit{Completed: 541}, settled(t, pool, 541))
}
