package store_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/pawlgo/pawl/internal/store"
	"github.com/pawlgo/pawl/internal/testdb"
)

// ordered makes the jobs of a batch members of one key.
func ordered(key string) func(*store.Batch) {
	return func(b *store.Batch) {
		b.Order = []string{"key"}
		for i := range b.Jobs {
			b.Jobs[i].Args = fmt.Sprintf(`{"key": %q}`, key)
		}
	}
}

// batch is n jobs for a transaction of the test's own.
func batch(n int, change ...func(*store.Batch)) *store.Batch {
	b := &store.Batch{Kind: "k", Queue: "q", Version: 1, Capability: capability, Priority: 2, MaxAttempts: 3, Jobs: make([]store.NewJob, n)}
	for i := range b.Jobs {
		b.Jobs[i] = store.NewJob{ID: uuid.Must(uuid.NewV7()), Args: fmt.Sprintf(`{"n": %d}`, i)}
	}
	for _, c := range change {
		c(b)
	}
	return b
}

// enqueueIn is enqueue in a transaction of the test's own.
func enqueueIn(t *testing.T, tx pgx.Tx, n int, change ...func(*store.Batch)) (ids []uuid.UUID) {
	t.Helper()
	b := batch(n, change...)
	_, err := store.Enqueue(t.Context(), tx, store.DefaultSchema, b)
	require.NoError(t, err)
	for _, j := range b.Jobs {
		ids = append(ids, j.ID)
	}
	return ids
}

func begin(t *testing.T, pool *pgxpool.Pool, level pgx.TxIsoLevel) pgx.Tx {
	t.Helper()
	tx, err := pool.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: level})
	require.NoError(t, err)
	t.Cleanup(func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) })
	return tx
}

func commit(t *testing.T, tx pgx.Tx) {
	t.Helper()
	require.NoError(t, tx.Commit(t.Context()))
}

// levels are what a caller's transaction may run at.
var levels = []pgx.TxIsoLevel{pgx.ReadCommitted, pgx.RepeatableRead, pgx.Serializable}

// turn claims what is due of a queue with order keys.
func turn(t *testing.T, s *store.Store, owner uuid.UUID) []store.ClaimedJob {
	t.Helper()
	claimed, err := s.Claim(t.Context(), orderedClaim(owner))
	require.NoError(t, err)
	return claimed.Jobs
}

func orderedClaim(owner uuid.UUID) *store.Claim {
	return &store.Claim{Owner: owner, Token: uuid.New(), SuspectToken: uuid.New(), Queue: "q", Limit: 100, Capabilities: []int64{capability}, Ordered: true}
}

// end is the settlement of a job that may have an order key.
func end(j store.ClaimedJob, outcome store.Outcome) store.Settlement {
	x := settlement(j, outcome)
	x.Ordered = j.Ordered
	return x
}

// run claims and completes one job after the other and returns their order.
func run(t *testing.T, s *store.Store, owner uuid.UUID) (ids []uuid.UUID) {
	t.Helper()
	for jobs := turn(t, s, owner); len(jobs) > 0; jobs = turn(t, s, owner) {
		require.Len(t, jobs, 1, "one job of a key at a time")
		require.True(t, jobs[0].Ordered)
		require.Equal(t, []bool{true}, settle(t, s, owner, end(jobs[0], store.Completed)))
		ids = append(ids, jobs[0].ID)
	}
	return ids
}

func cancelJob(t *testing.T, db store.Querier, id uuid.UUID) string {
	t.Helper()
	state, err := store.Cancel(t.Context(), db, store.DefaultSchema, id)
	require.NoError(t, err)
	return state
}

func status(t *testing.T, pool *pgxpool.Pool, id uuid.UUID) string {
	t.Helper()
	return query[string](t, pool, `SELECT status FROM pawl.job_status WHERE id = $1`, id)
}

// nothingLeft says that the order's tables are empty but for turns of keys
// without jobs, which the next claim removes.
func nothingLeft(t *testing.T, s *store.Store, pool *pgxpool.Pool, owner uuid.UUID) {
	t.Helper()
	require.Empty(t, turn(t, s, owner))
	require.Zero(t, query[int](t, pool, `SELECT count(*) FROM pawl.ordered`))
	require.Zero(t, query[int](t, pool, `SELECT count(*) FROM pawl.order_turns`))
}

// Jobs of one key run in the order of their enqueue, in one call, in one
// transaction, and from one to the next, whatever their priorities.
func TestOrder(t *testing.T) {
	t.Parallel()
	s, pool := open(t)
	owner := register(t, s, time.Minute)
	ids := enqueue(t, pool, 20, ordered("a"))
	tx := begin(t, pool, pgx.ReadCommitted)
	for range 5 {
		ids = append(ids, enqueueIn(t, tx, 2, ordered("a"), priority(1))...)
	}
	commit(t, tx)
	ids = append(ids, enqueue(t, pool, 2, ordered("a"), priority(4))...)
	require.Equal(t, ids, run(t, s, owner))
	require.Equal(t, store.Audit{Completed: len(ids)}, audit(t, s))
	nothingLeft(t, s, pool, owner)
}

// A key waits for its head's next attempt, and goes on after whatever end.
func TestWhatHoldsAKey(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		outcome store.Outcome
		delay   time.Duration
		holds   bool
		state   string
	}{
		"completed":  {outcome: store.Completed, state: "completed"},
		"dead":       {outcome: store.Dead, state: "dead"},
		"cancelled":  {outcome: store.Cancelled, state: "cancelled"},
		"retry":      {outcome: store.Retry, delay: time.Hour, holds: true, state: "retrying"},
		"give back":  {outcome: store.GiveBack, delay: time.Hour, holds: true, state: "scheduled"},
		"quarantine": {outcome: store.Quarantine},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, pool := open(t)
			owner := register(t, s, time.Minute)
			ids := enqueue(t, pool, 3, ordered("a"))
			jobs := turn(t, s, owner)
			require.Equal(t, ids[:1], idsOf(jobs))
			require.Equal(t, "leased", status(t, pool, ids[0]))
			require.Equal(t, "blocked", status(t, pool, ids[1]))
			require.Empty(t, turn(t, s, owner))
			x := end(jobs[0], tt.outcome)
			x.Delay, x.Code = tt.delay, "why"
			require.Equal(t, []bool{true}, settle(t, s, owner, x))
			if tt.state != "" {
				require.Equal(t, tt.state, status(t, pool, ids[0]))
			}
			if tt.holds {
				require.Empty(t, turn(t, s, owner))
				require.Equal(t, "blocked", status(t, pool, ids[1]))
				exec(t, pool, `UPDATE pawl.ready SET run_at = clock_timestamp()`)
				require.Equal(t, ids, run(t, s, owner))
				nothingLeft(t, s, pool, owner)
				return
			}
			require.Equal(t, "pending", status(t, pool, ids[1]))
			require.Equal(t, ids[1:], run(t, s, owner))
			nothingLeft(t, s, pool, owner)
		})
	}
}

// The jobs of a dead process keep their place in their keys.
func TestOrderAfterRecovery(t *testing.T) {
	t.Parallel()
	s, pool := open(t)
	first, second := register(t, s, time.Minute), register(t, s, time.Minute)
	steady(t, pool, second)
	ids := enqueue(t, pool, 3, ordered("a"), attempts(2))
	zombie := turn(t, s, first)
	require.Equal(t, ids[:1], idsOf(zombie))
	expire(t, pool, first)
	require.Equal(t, 1, recovered(t, s, second, false).Requeued)
	require.Equal(t, "blocked", status(t, pool, ids[1]))
	again := turn(t, s, second)
	require.Equal(t, ids[:1], idsOf(again))
	require.Equal(t, []bool{false}, settle(t, s, first, end(zombie[0], store.Completed)))
	require.Empty(t, turn(t, s, second), "a refused settlement passes nothing on")
	// The second loss is its last: the dead letter releases the next.
	expire(t, pool, second)
	third := register(t, s, time.Minute)
	steady(t, pool, third)
	require.Equal(t, 1, recovered(t, s, third, false).Buried)
	require.Equal(t, ids[1:], run(t, s, third))
	require.Equal(t, store.Audit{Completed: 2, Dead: 1}, audit(t, s))
	nothingLeft(t, s, pool, third)
}

// A job that is due later holds those that were enqueued after it.
func TestScheduledHead(t *testing.T) {
	t.Parallel()
	s, pool := open(t)
	owner := register(t, s, time.Minute)
	ids := enqueue(t, pool, 1, ordered("a"), delay(time.Hour))
	ids = append(ids, enqueue(t, pool, 1, ordered("a"))...)
	require.Equal(t, "scheduled", status(t, pool, ids[0]), "before its turn")
	require.Equal(t, "blocked", status(t, pool, ids[1]))
	claimed, err := s.Claim(t.Context(), orderedClaim(owner))
	require.NoError(t, err)
	require.Empty(t, claimed.Jobs)
	require.WithinDuration(t, claimed.At.Add(time.Hour), claimed.Next, time.Minute)
	require.Equal(t, "scheduled", status(t, pool, ids[0]))
	require.Equal(t, "blocked", status(t, pool, ids[1]))
	exec(t, pool, `UPDATE pawl.ready SET run_at = clock_timestamp()`)
	require.Equal(t, ids, run(t, s, owner))
}

// Keys differ where the values of their fields, the organization or the kind do.
// However a number is written, it is one.
func TestOrderKeysOfNumbers(t *testing.T) {
	t.Parallel()
	_, pool := open(t)
	for value, same := range map[string]string{"1": "1.0", "0": "0.00", "100": "1e2", "-2.5": "-2.50"} {
		require.True(t, query[bool](t, pool, `SELECT pawl.order_key('k', '', $1::jsonb, '{a}') = pawl.order_key('k', '', $2::jsonb, '{a}')`,
			`{"a": `+value+`}`, `{"a": `+same+`}`), value)
		require.False(t, query[bool](t, pool, `SELECT pawl.order_key('k', '', $1::jsonb, '{a}') = pawl.order_key('k', '', $2::jsonb, '{a}')`,
			`{"a": `+value+`}`, `{"a": "`+value+`"}`), value)
	}
}

func TestOrderKeys(t *testing.T) {
	t.Parallel()
	s, pool := open(t)
	owner := register(t, s, time.Minute)
	type job struct{ kind, organization, args string }
	distinct := []job{
		{"k", "", `{"a": "a:b", "b": "c"}`},
		{"k", "", `{"a": "a", "b": "b:c"}`},
		{"k", "", `{"a": "", "b": "ab"}`},
		{"k", "", `{"a": "ab", "b": ""}`},
		{"k", "", `{"a": 1, "b": "c"}`},
		{"k", "", `{"a": "1", "b": "c"}`},
		{"k", "", `{"a": "null", "b": "c"}`},
		{"k", "", `{"a": null, "b": "c"}`},
		{"k", "", `{"a": "c", "b": null}`},
		{"k", "", `{"a": ["x", "y"], "b": "c"}`},
		{"k", "", `{"a": "[\"x\", \"y\"]", "b": "c"}`},
		{"k", "o", `{"a": 1, "b": "c"}`},
		{"k", "p", `{"a": 1, "b": "c"}`},
		{"l", "", `{"a": 1, "b": "c"}`},
		{"l", "o", `{"a": 1, "b": "c"}`},
		{"k\", \"o", "", `{"a": 1, "b": "c"}`},
	}
	enqueueAll := func(jobs []job, order ...string) {
		for _, j := range jobs {
			enqueue(t, pool, 1, func(b *store.Batch) {
				b.Kind, b.Order = j.kind, order
				b.Jobs[0].Args, b.Jobs[0].OrganizationID = j.args, j.organization
			})
		}
	}
	enqueueAll(distinct, "a", "b")
	require.Len(t, turn(t, s, owner), len(distinct))

	// What is equal as JSON is one key, whatever else is in the payload: so are a
	// number in two spellings, and null and a member that is left out.
	enqueueAll([]job{
		{"m", "", `{"a": 1, "b": {"x": 1, "y": 2}}`},
		{"m", "", `{"b": {"y": 2, "x": 1}, "other": true, "a": 1}`},
		{"n", "", `{"a": null, "b": 1}`},
		{"n", "", `{"b": 1}`},
	}, "a", "b")
	enqueueAll([]job{{"o", "", `{"a": "x", "b": "y"}`}, {"o", "", `{"a": "x", "b": "z"}`}}, "a")
	require.Len(t, turn(t, s, owner), 3)
}

// A receipt says where the job stands that holds the idempotency key: blocked,
// then pending, also where its turn came long after its time, then leased.
func TestOrderOfDuplicates(t *testing.T) {
	t.Parallel()
	s, pool := open(t)
	owner := register(t, s, time.Minute)
	keyed := func(key string) func(*store.Batch) {
		return func(b *store.Batch) { b.Keep, b.Jobs[0].Key = time.Hour, []byte(key) }
	}
	enqueue(t, pool, 1, ordered("a"), keyed("1"))
	ids := enqueue(t, pool, 1, ordered("a"), keyed("2"))
	duplicate := func() string {
		t.Helper()
		answer, err := store.Enqueue(t.Context(), pool, store.DefaultSchema, batch(1, ordered("a"), keyed("2")))
		require.NoError(t, err)
		require.Len(t, answer.Duplicates, 1)
		require.Equal(t, ids[0], answer.Duplicates[0].ID)
		return answer.Duplicates[0].State
	}
	require.Equal(t, "blocked", duplicate())
	jobs := turn(t, s, owner)
	require.Equal(t, "blocked", duplicate())
	settle(t, s, owner, end(jobs[0], store.Completed))
	require.Equal(t, "pending", duplicate())
	jobs = turn(t, s, owner)
	require.Equal(t, "leased", duplicate())
	retry := end(jobs[0], store.Retry)
	retry.Delay, retry.Code = time.Hour, "x"
	settle(t, s, owner, retry)
	require.Equal(t, "retrying", duplicate())
	exec(t, pool, `UPDATE pawl.ready SET run_at = clock_timestamp()`)
	require.Equal(t, ids, run(t, s, owner), "the duplicates are in no order")
	require.Equal(t, "completed", duplicate())
	nothingLeft(t, s, pool, owner)
}

// Transactions that enqueue for a key and stay open hold up nobody; what they
// add takes its place as they commit, and what they take back was never there.
func TestOpenEnqueues(t *testing.T) {
	t.Parallel()
	for _, level := range levels {
		t.Run(string(level), func(t *testing.T) {
			t.Parallel()
			s, pool := open(t)
			owner := register(t, s, time.Minute)
			early, gone := begin(t, pool, level), begin(t, pool, level)
			first := enqueueIn(t, early, 2, ordered("a"))
			enqueueIn(t, gone, 2, ordered("a"))
			second := enqueue(t, pool, 1, ordered("a"))
			require.Equal(t, second, run(t, s, owner))
			require.NoError(t, gone.Rollback(t.Context()))
			require.Empty(t, turn(t, s, owner))
			third := enqueue(t, pool, 2, ordered("a"))
			jobs := turn(t, s, owner)
			require.Equal(t, third[:1], idsOf(jobs))
			commit(t, early) // while the head runs: those came first
			require.Empty(t, turn(t, s, owner))
			settle(t, s, owner, end(jobs[0], store.Completed))
			require.Equal(t, slices.Concat(first, third[1:]), run(t, s, owner))

			// A savepoint takes back only what is its own.
			tx := begin(t, pool, level)
			fourth := enqueueIn(t, tx, 1, ordered("a"))
			savepoint, err := tx.Begin(t.Context())
			require.NoError(t, err)
			enqueueIn(t, savepoint, 3, ordered("a"))
			require.Equal(t, "cancelled", cancelJob(t, savepoint, fourth[0]))
			require.NoError(t, savepoint.Rollback(t.Context()))
			fourth = append(fourth, enqueueIn(t, tx, 1, ordered("a"))...)
			commit(t, tx)
			require.Equal(t, fourth, run(t, s, owner))
			nothingLeft(t, s, pool, owner)
		})
	}
}

// A cancellation that is not committed yet leaves its job where it is: nobody
// runs before it, whichever way that ends.
func TestOpenCancel(t *testing.T) {
	t.Parallel()
	for _, level := range levels {
		for _, keep := range []bool{false, true} {
			for _, place := range []string{"candidate", "waiting head", "behind a running one", "behind a waiting one"} {
				t.Run(fmt.Sprintf("%s/%s/%t", level, place, keep), func(t *testing.T) {
					t.Parallel()
					s, pool := open(t)
					owner := register(t, s, time.Minute)
					ids := enqueue(t, pool, 4, ordered("a"))
					victim := 0
					var running []store.ClaimedJob
					switch place {
					case "waiting head":
						exec(t, pool, `SELECT pawl.take_turns('q')`)
					case "behind a running one":
						running = turn(t, s, owner)
						victim = 1
					case "behind a waiting one":
						exec(t, pool, `SELECT pawl.take_turns('q')`)
						victim = 1
					}
					tx := begin(t, pool, level)
					require.Equal(t, "cancelled", cancelJob(t, tx, ids[victim]))
					more := enqueue(t, pool, 1, ordered("a"))
					if running != nil {
						settle(t, s, owner, end(running[0], store.Completed))
					}
					if place == "behind a waiting one" {
						jobs := turn(t, s, owner)
						require.Equal(t, ids[:1], idsOf(jobs))
						settle(t, s, owner, end(jobs[0], store.Completed))
					}
					require.Empty(t, turn(t, s, owner))
					want := slices.Concat(ids[victim:], more)
					if keep {
						require.NoError(t, tx.Rollback(t.Context()))
					} else {
						commit(t, tx)
						want = want[1:]
					}
					require.Equal(t, want, run(t, s, owner))
					nothingLeft(t, s, pool, owner)
					a := audit(t, s)
					require.Equal(t, 5, a.Completed+a.Cancelled)
				})
			}
		}
	}
}

// A job of a key whose row is gone is set aside wherever it stands, and holds up
// neither its key nor, where there are thousands, the claim that meets them.
func TestMissingRowsOfAKey(t *testing.T) {
	t.Parallel()
	s, pool := open(t)
	owner := register(t, s, time.Minute)
	waiting := enqueue(t, pool, 2, ordered("waiting"))
	jobs := turn(t, s, owner) // and with it, the head is running
	for _, outcome := range []store.Outcome{store.Completed, store.Retry, store.Dead, store.GiveBack, store.Cancelled} {
		ids := enqueue(t, pool, 2, ordered(fmt.Sprint(outcome)))
		running := turn(t, s, owner)
		require.Equal(t, ids[:1], idsOf(running))
		exec(t, pool, `DELETE FROM pawl.jobs WHERE id = $1`, ids[0])
		require.Equal(t, []bool{true}, settle(t, s, owner, end(running[0], outcome)))
		require.Equal(t, ids[1:], run(t, s, owner), "after %v", outcome)
	}
	require.Equal(t, waiting[:1], idsOf(jobs))
	exec(t, pool, `DELETE FROM pawl.jobs WHERE id = $1`, waiting[0])
	require.Equal(t, 1, func() int {
		n, err := s.ReleaseLeases(t.Context(), owner, jobs[0].Token)
		require.NoError(t, err)
		return n
	}())
	require.Equal(t, waiting[1:], run(t, s, owner))

	ids := enqueue(t, pool, 5000, ordered("a"))
	exec(t, pool, `DELETE FROM pawl.jobs WHERE id = ANY ($1)`, ids[:4000])
	exec(t, pool, `DELETE FROM pawl.jobs WHERE id = ANY ($1)`, ids[4001:4998])
	require.Equal(t, []uuid.UUID{ids[4000], ids[4998], ids[4999]}, run(t, s, owner))
	require.Equal(t, 4997, query[int](t, pool, `SELECT count(*) FROM pawl.quarantine WHERE reason LIKE 'its turn has come%'`))
	nothingLeft(t, s, pool, owner)
}

// However many keys there are, a look after their turns takes few locks, and
// keys that somebody's open transaction holds keep it from no others.
func TestManyTurns(t *testing.T) {
	t.Parallel()
	s, pool := open(t)
	owner := register(t, s, time.Minute)
	put := func(from, n int) {
		_, err := store.Enqueue(t.Context(), pool, store.DefaultSchema, batch(n, func(b *store.Batch) {
			b.Order = []string{"key"}
			for i := range b.Jobs {
				b.Jobs[i].Args, b.Jobs[i].OrganizationID = fmt.Sprintf(`{"key": %d}`, from+i), "o"
			}
		}))
		require.NoError(t, err)
	}
	put(0, 250)
	tx := begin(t, pool, pgx.ReadCommitted)
	for left := true; left; {
		require.NoError(t, tx.QueryRow(t.Context(), `SELECT pawl.take_turns('q')`).Scan(&left))
	}
	var locks int
	require.NoError(t, tx.QueryRow(t.Context(), `SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()`).Scan(&locks))
	require.LessOrEqual(t, locks, 128)
	commit(t, tx)
	require.Equal(t, 250, query[int](t, pool, `SELECT count(*) FROM pawl.ready`))

	// Somebody is about to cancel them all.
	tx = begin(t, pool, pgx.ReadCommitted)
	_, _, err := store.CancelOrganization(t.Context(), tx, store.DefaultSchema, "o")
	require.NoError(t, err)
	put(0, 250)
	put(250, 30)
	require.Len(t, turn(t, s, owner), 30)
	require.Empty(t, turn(t, s, owner))
	commit(t, tx)
	got := 0
	for claimed := turn(t, s, owner); len(claimed) > 0; claimed = turn(t, s, owner) {
		got += len(claimed)
	}
	require.Equal(t, 250, got)
}

// Bulk enqueues of the same keys in random orders, settlements and cancels at
// every isolation level: nobody deadlocks, and no key is left behind.
func TestOrderWithoutDeadlocks(t *testing.T) {
	t.Parallel()
	pool := testdb.Migrated(t, testdb.MaxConns(16))
	s, err := store.Open(t.Context(), pool, store.DefaultSchema, 8)
	require.NoError(t, err)
	t.Cleanup(s.Close)
	const writers, rounds, keys = 6, 25, 20
	var (
		mu        sync.Mutex
		known     []uuid.UUID
		conflicts int // serialization failures, which their callers try again
	)
	write := func(n int) error {
		random := rand.New(rand.NewPCG(uint64(n), 2))
		level := levels[n%len(levels)]
		for range rounds {
			b := batch(2 * keys)
			b.Order = []string{"key"}
			for i, key := range random.Perm(2 * keys) {
				b.Jobs[i].Args = fmt.Sprintf(`{"key": %d}`, key%keys)
			}
			err := pgx.BeginTxFunc(t.Context(), pool, pgx.TxOptions{IsoLevel: level}, func(tx pgx.Tx) error {
				_, err := store.Enqueue(t.Context(), tx, store.DefaultSchema, b)
				return err
			})
			if err != nil {
				return fmt.Errorf("enqueue at %s: %w", level, err)
			}
			mu.Lock()
			for _, j := range b.Jobs {
				known = append(known, j.ID)
			}
			victims := []uuid.UUID{known[random.IntN(len(known))], b.Jobs[random.IntN(len(b.Jobs))].ID}
			mu.Unlock()
			for _, victim := range victims {
				err := pgx.BeginTxFunc(t.Context(), pool, pgx.TxOptions{IsoLevel: level}, func(tx pgx.Tx) error {
					_, err := store.Cancel(t.Context(), tx, store.DefaultSchema, victim)
					return err
				})
				switch {
				case isSerialization(err) && level != pgx.ReadCommitted:
					mu.Lock()
					conflicts++
					mu.Unlock()
				case err != nil:
					return fmt.Errorf("cancel at %s: %w", level, err)
				}
			}
		}
		return nil
	}
	var writing, working sync.WaitGroup
	for n := range writers {
		writing.Go(func() {
			if err := write(n); err != nil {
				t.Error(err)
			}
		})
	}
	written := make(chan struct{})
	const all = writers * rounds * 2 * keys
	work := func(owner uuid.UUID, random *rand.Rand) error {
		for {
			claimed, err := s.Claim(t.Context(), orderedClaim(owner))
			if err != nil {
				return fmt.Errorf("claim: %w", err)
			}
			var ends []store.Settlement
			for _, j := range claimed.Jobs {
				x := end(j, []store.Outcome{store.Completed, store.Completed, store.Dead, store.GiveBack, store.Retry}[random.IntN(5)])
				if j.Cancelled {
					x.Outcome = store.Cancelled
				}
				ends = append(ends, x)
			}
			if _, err := s.Settle(t.Context(), owner, ends); err != nil {
				return fmt.Errorf("settle: %w", err)
			}
			if _, err := s.Cancellations(t.Context(), owner); err != nil {
				return fmt.Errorf("cancellations: %w", err)
			}
			select {
			case <-written:
				var left bool
				if err := pool.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM pawl.ordered)`).Scan(&left); err != nil || !left {
					return err
				}
			default:
			}
		}
	}
	for n := range 4 {
		owner := register(t, s, time.Minute)
		working.Go(func() {
			if err := work(owner, rand.New(rand.NewPCG(uint64(n), 3))); err != nil {
				t.Error(err)
			}
		})
	}
	writing.Wait()
	close(written)
	working.Wait()
	if t.Failed() {
		return
	}
	a := audit(t, s)
	require.Equal(t, all, a.Completed+a.Dead+a.Cancelled)
	require.Equal(t, store.Audit{Completed: a.Completed, Dead: a.Dead, Cancelled: a.Cancelled}, a)
	require.Positive(t, a.Cancelled)
	nothingLeft(t, s, pool, register(t, s, time.Minute))
	require.Zero(t, query[int](t, pool, `SELECT count(*) FROM pawl.cancel_requests`))
	t.Logf("%d serialization failures of cancels", conflicts)
}

// pages is how many pages a statement touches: the least of several runs, since
// one that plans anew reads the catalog too. Each is rolled back.
func pages(t *testing.T, pool *pgxpool.Pool, sql string, args ...any) (least int) {
	t.Helper()
	least = 1 << 30
	for range 4 {
		tx, err := pool.Begin(t.Context())
		require.NoError(t, err)
		var plan []byte
		require.NoError(t, tx.QueryRow(t.Context(), `EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) `+sql,
			append([]any{pgx.QueryExecModeSimpleProtocol}, args...)...).Scan(&plan))
		require.NoError(t, tx.Rollback(t.Context()))
		var nodes []struct {
			Plan struct {
				Hit  int `json:"Shared Hit Blocks"`
				Read int `json:"Shared Read Blocks"`
			}
		}
		require.NoError(t, json.Unmarshal(plan, &nodes))
		least = min(least, nodes[0].Plan.Hit+nodes[0].Plan.Read)
	}
	return least
}

// A hundred thousand blocked jobs cost other jobs nothing, and their own key's
// next steps little.
func TestBlockedJobsCostNothing(t *testing.T) {
	t.Parallel()
	pool := testdb.Migrated(t, testdb.MaxConns(1))
	s, err := store.Open(t.Context(), pool, store.DefaultSchema, 1)
	require.NoError(t, err)
	t.Cleanup(s.Close)
	owner := register(t, s, time.Hour)
	exec(t, pool, `VACUUM ANALYZE`)
	enqueue(t, pool, 1, ordered("a"), queue("ordered"))
	enqueue(t, pool, 40)
	claimUnordered := func() int {
		return pages(t, pool, `SELECT * FROM pawl.claim($1, '{q}', '{20}', ARRAY[$2::uuid], '{7}', '{1}', array_fill('-infinity'::timestamptz, '{4}'))`, owner.String(), uuid.NewString())
	}
	enqueueOne := func() int {
		return pages(t, pool, `SELECT * FROM pawl.enqueue_jobs('k', 'ordered', 1, 7, 2::smallint, 3::smallint, NULL, 0, ARRAY[gen_random_uuid()],
			ARRAY['{"key": "a"}'], '{""}', NULL, 0, true, '{key}', NULL)`)
	}
	claimHead := func() int {
		return pages(t, pool, `SELECT * FROM pawl.claim($1, '{ordered}', '{20}', ARRAY[$2::uuid], '{7}', '{1}', array_fill('-infinity'::timestamptz, '{4}'), p_ordered => true)`, owner.String(), uuid.NewString())
	}
	unordered, enqueued, head := claimUnordered(), enqueueOne(), claimHead()
	for range 10 {
		enqueue(t, pool, 10_000, ordered("a"), queue("ordered"))
	}
	require.LessOrEqual(t, claimUnordered(), 2*unordered, "the index of jobs is deeper")
	require.LessOrEqual(t, enqueueOne(), enqueued+20)
	require.LessOrEqual(t, claimHead(), head+50)

	claimed, err := s.Claim(t.Context(), &store.Claim{Owner: owner, Token: uuid.New(), Queue: "ordered", Limit: 20, Capabilities: []int64{capability}, Ordered: true})
	require.NoError(t, err)
	require.Len(t, claimed.Jobs, 1)
	j := claimed.Jobs[0]
	require.Less(t, pages(t, pool, `SELECT * FROM pawl.settle($1, ARRAY[$2]::uuid[], '{1}', ARRAY[$3]::uuid[], '{1}', '{}', '{}', '{}', true)`,
		owner.String(), j.Token.String(), j.ID.String()), 150)
	require.Less(t, pages(t, pool, `SELECT pawl.cancel($1)`, query[uuid.UUID](t, pool, `SELECT job_id FROM pawl.ordered WHERE seq = 50000`).String()), 150)
	require.Equal(t, 100_000, query[int](t, pool, `SELECT count(*) FROM pawl.ordered WHERE NOT head`))
}
