package taskimpl_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/pawlgo/pawl/internal/store"
	"github.com/pawlgo/pawl/internal/testdb"
	"github.com/pawlgo/pawl/task"
	"github.com/pawlgo/pawl/task/taskimpl"
)

const capability = 7

// args is the payload of most tests.
type args struct {
	N            int    `json:"n"`
	Organization string `json:"organization,omitempty"`
	Key          []any  `json:"-"` // what stands for the idempotency fields
}

// holder is a payload that holds anything.
type holder struct {
	V any `json:"v"`
}

// kind is a kind as generated code would declare it.
func kind[A any](change ...func(*taskimpl.Kind[A])) *taskimpl.Kind[A] {
	k := &taskimpl.Kind[A]{
		Name: "k", Queue: "q", Priority: task.Normal, Version: 1,
		Policy:       taskimpl.Policy{Attempts: 3, Base: time.Second, Max: time.Minute, Unknown: 3, Timeout: time.Minute},
		Capabilities: []taskimpl.Capability{{Version: 1, ID: capability}},
		Decode:       func(_ int, raw []byte) (A, error) { return taskimpl.As[A](raw) },
	}
	for _, c := range change {
		c(k)
	}
	return k
}

// keyed is a kind with idempotency fields and an organization.
func keyed() *taskimpl.Kind[args] {
	return kind(func(k *taskimpl.Kind[args]) {
		k.Keep = time.Hour
		k.Organization = func(a *args) (string, error) { return a.Organization, nil }
		k.Key = func(a *args) []any {
			if a.Key != nil {
				return a.Key
			}
			return []any{a.N}
		}
	})
}

// begin opens a transaction that the test rolls back at its end at the latest.
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

// enqueue stores one job, and fails the test where it cannot.
func enqueue[A any](t *testing.T, tx task.Tx, k *taskimpl.Kind[A], a A, opts ...task.EnqueueOption) task.Receipt {
	t.Helper()
	r, err := taskimpl.Enqueue(t.Context(), tx, k, a, opts)
	require.NoError(t, err)
	return r
}

// count counts the rows of one of Pawl's tables.
func count(t *testing.T, db task.Querier, table string) (n int) {
	t.Helper()
	require.NoError(t, db.QueryRow(t.Context(), `SELECT count(*) FROM pawl.`+table).Scan(&n))
	return n
}

// waiting waits until n sessions of the pool's database wait for a lock.
func waiting(t *testing.T, pool *pgxpool.Pool, n int) {
	t.Helper()
	testdb.Eventually(t, 10*time.Second, "a session to wait for a lock", func() bool {
		var got int
		require.NoError(t, pool.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity
			WHERE datname = current_database() AND wait_event_type = 'Lock'`).Scan(&got))
		return got >= n
	})
}

// worker is a registered process on a store of its own.
type worker struct {
	*store.Store
	process uuid.UUID
}

func newWorker(t *testing.T, pool *pgxpool.Pool) worker {
	t.Helper()
	s, err := store.Open(t.Context(), pool, store.DefaultSchema, 2)
	require.NoError(t, err)
	t.Cleanup(s.Close)
	w := worker{Store: s, process: uuid.New()}
	require.NoError(t, s.Register(t.Context(), &store.Process{
		ID: w.process, Name: "test", Queues: []string{"q"}, Capabilities: []int64{capability}, Lease: time.Minute}))
	return w
}

// claim takes the one job that is due.
func (w worker) claim(t *testing.T) store.ClaimedJob {
	t.Helper()
	claimed, err := w.Claim(t.Context(), &store.Claim{Owner: w.process, Token: uuid.New(), Queue: "q", Limit: 1, Capabilities: []int64{capability}})
	require.NoError(t, err)
	require.Len(t, claimed.Jobs, 1)
	return claimed.Jobs[0]
}

func (w worker) settle(t *testing.T, j store.ClaimedJob, outcome store.Outcome) {
	t.Helper()
	recorded, err := w.Settle(t.Context(), w.process, []store.Settlement{{
		Token: j.Token, Position: j.Position, ID: j.ID, Outcome: outcome, Delay: time.Hour, Code: "code", Summary: "summary"}})
	require.NoError(t, err)
	require.Equal(t, []store.Outcome{outcome}, recorded)
}

// migrated returns a pool on a migrated database that has the rights of a worker.
func migrated(t *testing.T, opts ...testdb.Option) *pgxpool.Pool {
	t.Helper()
	return testdb.As(t, testdb.Migrated(t, opts...), testdb.Worker)
}
