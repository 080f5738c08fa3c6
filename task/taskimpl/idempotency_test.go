package taskimpl_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/pawlgo/pawl/internal/store"
	"github.com/pawlgo/pawl/internal/testdb"
	"github.com/pawlgo/pawl/task"
	"github.com/pawlgo/pawl/task/taskimpl"
)

func TestDuplicateInTheCallersTransaction(t *testing.T) {
	t.Parallel()
	pool := testdb.Migrated(t)
	_, err := pool.Exec(t.Context(), `CREATE TABLE orders (n int); CREATE TABLE audits (note text)`)
	require.NoError(t, err)
	first := enqueue(t, task.Autocommit(pool), keyed(), args{N: 1, Key: []any{"k"}})

	tx := begin(t, pool, pgx.ReadCommitted)
	_, err = tx.Exec(t.Context(), `INSERT INTO orders VALUES (1)`)
	require.NoError(t, err)
	same := enqueue(t, tx, keyed(), args{N: 1, Key: []any{"k"}})
	other := enqueue(t, tx, keyed(), args{N: 2, Key: []any{"k"}})
	_, err = tx.Exec(t.Context(), `INSERT INTO audits VALUES ($1)`, same.ID.String())
	require.NoError(t, err)
	commit(t, tx)

	require.Equal(t, task.Receipt{ID: first.ID, Duplicate: true, SameArgs: true, State: task.StatePending}, same)
	require.Equal(t, task.Receipt{ID: first.ID, Duplicate: true, SameArgs: false, State: task.StatePending}, other)
	var orders, audits int
	require.NoError(t, pool.QueryRow(t.Context(), `SELECT (SELECT count(*) FROM orders), (SELECT count(*) FROM audits)`).Scan(&orders, &audits))
	require.Equal(t, []int{1, 1, 1, 1}, []int{orders, audits, count(t, pool, "jobs"), count(t, pool, "ready")})
}

// The receipt of a duplicate says where its job stands, all through its life.
func TestStateOfADuplicate(t *testing.T) {
	t.Parallel()
	for _, end := range []store.Outcome{store.Completed, store.Dead, store.Cancelled} {
		t.Run(fmt.Sprint(end), func(t *testing.T) {
			t.Parallel()
			pool := testdb.Migrated(t)
			w := newWorker(t, pool)
			state := func(want task.State) {
				t.Helper()
				r := enqueue(t, task.Autocommit(pool), keyed(), args{N: 1})
				require.True(t, r.Duplicate)
				require.Equal(t, want, r.State)
			}
			due := func() {
				t.Helper()
				_, err := pool.Exec(t.Context(), `UPDATE pawl.ready SET run_at = clock_timestamp()`)
				require.NoError(t, err)
			}
			require.Equal(t, task.StateScheduled, enqueue(t, task.Autocommit(pool), keyed(), args{N: 1}, task.In(time.Hour)).State)
			state(task.StateScheduled)
			due()
			w.settle(t, w.claim(t), store.Retry)
			state(task.StateRetrying)
			due()
			job := w.claim(t)
			state(task.StateLeased)
			w.settle(t, job, end)
			want := map[store.Outcome]task.State{store.Completed: task.StateCompleted, store.Dead: task.StateDead, store.Cancelled: task.StateCancelled}[end]
			state(want)
			_, err := pool.Exec(t.Context(), `TRUNCATE pawl.jobs, pawl.outcomes`) // retention
			require.NoError(t, err)
			state(task.StateGone)
		})
	}
}

// A key is held while its job is unfinished, expired or not, and after that
// until it expires.
func TestKeep(t *testing.T) {
	t.Parallel()
	pool := testdb.Migrated(t)
	w := newWorker(t, pool)
	expire := func() {
		t.Helper()
		_, err := pool.Exec(t.Context(), `UPDATE pawl.idempotency_keys SET expires_at = clock_timestamp() - interval '1 second'`)
		require.NoError(t, err)
	}
	again := func(want task.Receipt) {
		t.Helper()
		require.Equal(t, want, enqueue(t, task.Autocommit(pool), keyed(), args{N: 1}))
	}
	first := enqueue(t, task.Autocommit(pool), keyed(), args{N: 1})
	expire()
	again(task.Receipt{ID: first.ID, Duplicate: true, SameArgs: true, State: task.StatePending})
	job := w.claim(t)
	again(task.Receipt{ID: first.ID, Duplicate: true, SameArgs: true, State: task.StateLeased})
	w.settle(t, job, store.Completed)
	_, err := pool.Exec(t.Context(), `UPDATE pawl.idempotency_keys SET expires_at = clock_timestamp() + interval '1 hour'`)
	require.NoError(t, err)
	again(task.Receipt{ID: first.ID, Duplicate: true, SameArgs: true, State: task.StateCompleted})
	_, err = pool.Exec(t.Context(), `TRUNCATE pawl.jobs, pawl.outcomes`)
	require.NoError(t, err)
	again(task.Receipt{ID: first.ID, Duplicate: true, SameArgs: true, State: task.StateGone})
	expire()
	second := enqueue(t, task.Autocommit(pool), keyed(), args{N: 1})
	require.False(t, second.Duplicate)
	require.NotEqual(t, first.ID, second.ID)
	again(task.Receipt{ID: second.ID, Duplicate: true, SameArgs: true, State: task.StatePending})
	require.Equal(t, 1, count(t, pool, "idempotency_keys"))

	// The key of a call expires by that call's keep.
	enqueue(t, task.Autocommit(pool), kind[args](), args{}, task.Key("mine", 48*time.Hour))
	var keep time.Duration
	require.NoError(t, pool.QueryRow(t.Context(), `SELECT max(expires_at) - clock_timestamp() FROM pawl.idempotency_keys`).Scan(&keep))
	require.InDelta(t, 48, keep.Hours(), 0.1)
}

// Field values that a joined string would confuse are different keys, and so
// are the scopes of a key.
func TestDistinctKeys(t *testing.T) {
	t.Parallel()
	pool := migrated(t)
	type key struct {
		organization string
		fields       []any
		explicit     string
	}
	keys := []key{
		{fields: []any{"a:b", "c"}}, {fields: []any{"a", "b:c"}}, {fields: []any{"", "ab"}}, {fields: []any{"a", "b"}}, {fields: []any{"ab", ""}},
		{fields: []any{"ab"}}, {fields: []any{1}}, {fields: []any{"1"}}, {fields: []any{nil}}, {fields: []any{"null"}}, {fields: []any{""}},
		{fields: []any{}}, {fields: []any{true}}, {fields: []any{"true"}}, {fields: []any{"a,b"}}, {fields: []any{`a","b`}}, {fields: []any{"A"}}, {fields: []any{"a"}},
		{fields: []any{"é"}}, {fields: []any{"e\u0301"}}, {fields: []any{[]string{"a", "b"}}}, {fields: []any{[]byte("a")}},
		{explicit: "1"}, {explicit: "[1]"}, {explicit: "fields:[1]"}, {explicit: "key:1"}, {explicit: `["1"]`},
		{organization: "o", fields: []any{1}}, {organization: "O", fields: []any{1}}, {organization: "o", explicit: "1"}, {organization: "null", fields: []any{1}},
	}
	put := func(k *taskimpl.Kind[args], key key) task.Receipt {
		var opts []task.EnqueueOption
		if key.explicit != "" {
			opts = append(opts, task.Key(key.explicit, time.Hour))
		}
		return enqueue(t, task.Autocommit(pool), k, args{Organization: key.organization, Key: key.fields}, opts...)
	}
	other := keyed()
	other.Name = "other"
	for _, k := range []*taskimpl.Kind[args]{keyed(), other} {
		for _, key := range keys {
			require.False(t, put(k, key).Duplicate, "%s %v", k.Name, key)
		}
		for _, key := range keys {
			require.True(t, put(k, key).Duplicate, "%s %v: the same key, and without an organization too", k.Name, key)
		}
	}
	require.Equal(t, 2*len(keys), count(t, pool, "jobs"))
}

// A enqueues K and waits, B enqueues K, A rolls back, B commits: one K.
func TestRollbackTwin(t *testing.T) {
	t.Parallel()
	for _, level := range levels {
		for _, rollback := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s rollback=%v", level, rollback), func(t *testing.T) {
				t.Parallel()
				pool := migrated(t)
				a, b := begin(t, pool, level), begin(t, pool, level)
				_, err := b.Exec(t.Context(), `SELECT 1`) // its snapshot is older than A's commit
				require.NoError(t, err)
				first := enqueue(t, a, keyed(), args{N: 1})
				var second task.Receipt
				failed := make(chan error, 1)
				go func() {
					var err error
					second, err = taskimpl.Enqueue(t.Context(), b, keyed(), args{N: 1}, nil)
					failed <- err
				}()
				waiting(t, pool, 1)
				if rollback {
					require.NoError(t, a.Rollback(t.Context()))
				} else {
					commit(t, a)
				}
				err = <-failed
				switch {
				case rollback:
					require.NoError(t, err)
					require.False(t, second.Duplicate)
					commit(t, b)
				case level == pgx.ReadCommitted:
					require.NoError(t, err)
					require.True(t, second.Duplicate)
					require.Equal(t, first.ID, second.ID)
					commit(t, b)
				default:
					require.ErrorIs(t, err, task.ErrSerialization)
					require.NoError(t, b.Rollback(t.Context()))
					// Run again, as the error says, it is an ordinary duplicate.
					b = begin(t, pool, level)
					require.Equal(t, first.ID, enqueue(t, b, keyed(), args{N: 1}).ID)
					commit(t, b)
				}
				require.Equal(t, 1, count(t, pool, "jobs"))
				require.Equal(t, 1, count(t, pool, "ready"))
			})
		}
	}
}

// Two transactions that take the same keys in two calls each, in opposite
// order, deadlock; the error says so.
func TestDeadlockAcrossCalls(t *testing.T) {
	t.Parallel()
	pool := testdb.Migrated(t)
	a, b := begin(t, pool, pgx.ReadCommitted), begin(t, pool, pgx.ReadCommitted)
	for _, tx := range []pgx.Tx{a, b} {
		_, err := tx.Exec(t.Context(), `SET LOCAL deadlock_timeout = '100ms'`)
		require.NoError(t, err)
	}
	enqueue(t, a, keyed(), args{N: 1})
	enqueue(t, b, keyed(), args{N: 2})
	failed := make(chan error, 2)
	for i, tx := range []pgx.Tx{a, b} {
		go func() {
			_, err := taskimpl.Enqueue(t.Context(), tx, keyed(), args{N: 2 - i}, nil)
			if err != nil {
				_ = tx.Rollback(context.WithoutCancel(t.Context()))
			}
			failed <- err
		}()
	}
	err := errors.Join(<-failed, <-failed)
	require.ErrorIs(t, err, task.ErrDeadlock)
	require.NotErrorIs(t, err, task.ErrSerialization)
}

// Random mixes of callers, calls and ends: where anybody who committed was told
// "stored" or "duplicate", there is exactly one such job.
func TestRandomMixes(t *testing.T) {
	t.Parallel()
	for _, level := range levels {
		t.Run(string(level), func(t *testing.T) {
			t.Parallel()
			pool := migrated(t)
			random := rand.New(rand.NewPCG(1, uint64(len(level))))
			var mu sync.Mutex
			promised := make(map[int]bool)
			for round := range 200 {
				var callers sync.WaitGroup
				for range 3 {
					keys := random.Perm(3)[:1+random.IntN(3)]
					bulk, end := random.IntN(2) == 0, random.IntN(3) > 0
					tx, err := pool.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: level})
					require.NoError(t, err)
					callers.Go(func() {
						defer tx.Rollback(context.WithoutCancel(t.Context()))
						batch := make([]args, 0, len(keys))
						for _, key := range keys {
							batch = append(batch, args{N: round*10 + key})
						}
						if !bulk {
							batch = batch[:1]
						}
						_, err := taskimpl.EnqueueMany(t.Context(), tx, keyed(), batch, nil)
						if err == nil && end {
							err = tx.Commit(t.Context())
							if err == nil {
								mu.Lock()
								for _, a := range batch {
									promised[a.N] = true
								}
								mu.Unlock()
							}
						}
						if err == nil {
							return
						}
						pgErr, _ := errors.AsType[*pgconn.PgError](err)
						if level == pgx.ReadCommitted || pgErr == nil || pgErr.Code != "40001" {
							t.Errorf("round %d: %v", round, err)
						}
					})
				}
				callers.Wait()
			}
			rows, err := pool.Query(t.Context(), `SELECT (j.args->>'n')::int, count(*)::int FROM pawl.jobs j JOIN pawl.ready r ON r.id = j.id GROUP BY 1`)
			require.NoError(t, err)
			stored := make(map[int]bool)
			var n, times int
			_, err = pgx.ForEachRow(rows, []any{&n, &times}, func() error {
				require.Equal(t, 1, times, "key %d", n)
				stored[n] = true
				return nil
			})
			require.NoError(t, err)
			require.Equal(t, promised, stored)
			require.NotEmpty(t, stored)
		})
	}
}

// 16 callers enqueue the same 20 keys in random orders, bulk and one by one.
func TestCrowd(t *testing.T) {
	t.Parallel()
	pool := migrated(t, testdb.MaxConns(16))
	random := rand.New(rand.NewPCG(2, 3))
	var callers sync.WaitGroup
	for caller := range 16 {
		orders := make([][]args, 10)
		for i := range orders {
			for _, key := range random.Perm(20) {
				orders[i] = append(orders[i], args{N: i*20 + key})
			}
		}
		callers.Go(func() {
			for _, order := range orders {
				if caller%2 == 0 {
					tx, err := pool.Begin(t.Context())
					if err == nil {
						_, err = taskimpl.EnqueueMany(t.Context(), tx, keyed(), order, nil)
					}
					if err == nil {
						err = tx.Commit(t.Context())
					}
					if err != nil {
						t.Errorf("caller %d, in bulk: %v", caller, err)
						_ = tx.Rollback(context.WithoutCancel(t.Context()))
						return
					}
					continue
				}
				for _, a := range order {
					if _, err := taskimpl.Enqueue(t.Context(), task.Autocommit(pool), keyed(), a, nil); err != nil {
						t.Errorf("caller %d, one by one: %v", caller, err)
						return
					}
				}
			}
		})
	}
	callers.Wait()
	require.Equal(t, 200, count(t, pool, "jobs"))
	require.Equal(t, 200, count(t, pool, "ready"))
	require.Equal(t, 200, count(t, pool, "idempotency_keys"))
}

// The holder of an expired key ends, and many callers find out at once.
func TestExpiredKeyIsTakenOverOnce(t *testing.T) {
	t.Parallel()
	for _, level := range levels {
		t.Run(string(level), func(t *testing.T) {
			t.Parallel()
			pool := migrated(t)
			w := newWorker(t, pool)
			enqueue(t, task.Autocommit(pool), keyed(), args{N: 1})
			w.settle(t, w.claim(t), store.Completed)
			_, err := pool.Exec(t.Context(), `UPDATE pawl.idempotency_keys SET expires_at = clock_timestamp() - interval '1 second'`)
			require.NoError(t, err)
			var callers sync.WaitGroup
			for range 8 {
				callers.Go(func() {
					tx, err := pool.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: level})
					if err == nil {
						defer tx.Rollback(context.WithoutCancel(t.Context()))
						_, err = taskimpl.Enqueue(t.Context(), tx, keyed(), args{N: 1}, nil)
					}
					if err == nil {
						err = tx.Commit(t.Context())
					}
					pgErr, _ := errors.AsType[*pgconn.PgError](err)
					if err != nil && (level == pgx.ReadCommitted || pgErr == nil || pgErr.Code != "40001") {
						t.Error(err)
					}
				})
			}
			callers.Wait()
			require.Equal(t, 1, count(t, pool, "ready"))
			require.Equal(t, 2, count(t, pool, "jobs"))
		})
	}
}

// A held key that goes while the same call still waits for another one: the
// receipt must not name a job that was not stored.
func TestKeyThatGoesDuringTheCall(t *testing.T) {
	t.Parallel()
	pool := migrated(t)
	held := enqueue(t, task.Autocommit(pool), keyed(), args{N: 1})
	other := begin(t, pool, pgx.ReadCommitted)
	enqueue(t, other, keyed(), args{N: 1, Organization: "z"}) // sorts after

	type answer struct {
		receipts []task.Receipt
		err      error
	}
	done := make(chan answer, 1)
	go func() {
		tx, err := pool.Begin(t.Context())
		if err != nil {
			done <- answer{err: err}
			return
		}
		receipts, err := taskimpl.EnqueueMany(t.Context(), tx, keyed(), []args{{N: 1}, {N: 1, Organization: "z"}}, nil)
		if err == nil {
			err = tx.Commit(t.Context())
		}
		done <- answer{receipts, err}
	}()
	waiting(t, pool, 1)
	_, err := pool.Exec(t.Context(), `DELETE FROM pawl.idempotency_keys WHERE job_id = $1`, held.ID)
	require.NoError(t, err)
	require.NoError(t, other.Rollback(t.Context()))
	a := <-done
	require.NoError(t, a.err)
	require.Equal(t, task.Receipt{ID: held.ID, Duplicate: true, SameArgs: true, State: task.StatePending}, a.receipts[0])
	for _, r := range a.receipts {
		var stored int
		require.NoError(t, pool.QueryRow(t.Context(), `SELECT count(*) FROM pawl.jobs WHERE id = $1`, r.ID).Scan(&stored))
		require.Equal(t, 1, stored)
	}
}
