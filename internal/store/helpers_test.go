package store_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/pawlgo/pawl/internal/store"
	"github.com/pawlgo/pawl/internal/testdb"
)

const capability = 7

// open returns a store on a migrated database, which has the rights of a worker and
// no more, and the owner's pool to it.
func open(t *testing.T) (*store.Store, *pgxpool.Pool) {
	t.Helper()
	pool := testdb.Migrated(t)
	return storeOf(t, testdb.As(t, pool, testdb.Worker)), pool
}

// storeOf returns a store with the rights of a pool's role.
func storeOf(t *testing.T, pool *pgxpool.Pool) *store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), pool, store.DefaultSchema, 4)
	require.NoError(t, err)
	t.Cleanup(s.Close)
	return s
}

// register makes a process with the given lease.
func register(t *testing.T, s *store.Store, lease time.Duration) uuid.UUID {
	t.Helper()
	id := uuid.New()
	require.NoError(t, s.Register(t.Context(), &store.Process{
		ID: id, Name: "test", Queues: []string{"q"}, Capabilities: []int64{capability}, Lease: lease,
	}))
	return id
}

// enqueue stores n jobs on queue q as a producer, and returns their ids.
func enqueue(t *testing.T, pool *pgxpool.Pool, n int, change ...func(*store.Batch)) []uuid.UUID {
	t.Helper()
	b := &store.Batch{Kind: "k", Queue: "q", Version: 1, Capability: capability, Priority: 2, MaxAttempts: 3, Jobs: make([]store.NewJob, n)}
	ids := make([]uuid.UUID, n)
	for i := range b.Jobs {
		ids[i] = uuid.Must(uuid.NewV7())
		b.Jobs[i] = store.NewJob{ID: ids[i], Args: fmt.Sprintf(`{"n": %d}`, i)}
	}
	for _, c := range change {
		c(b)
	}
	answer, err := store.Enqueue(t.Context(), testdb.Enqueuing(t, pool), store.DefaultSchema, b)
	require.NoError(t, err)
	require.Empty(t, answer.Duplicates)
	return ids
}

// claim takes up to limit jobs of queue q.
func claim(t *testing.T, s *store.Store, owner uuid.UUID, limit int) []store.ClaimedJob {
	t.Helper()
	claimed, err := s.Claim(t.Context(), &store.Claim{
		Owner: owner, Token: uuid.New(), SuspectToken: uuid.New(), Queue: "q", Limit: limit, Capabilities: []int64{capability},
	})
	require.NoError(t, err)
	require.False(t, claimed.At.IsZero())
	return claimed.Jobs
}

func settlement(j store.ClaimedJob, outcome store.Outcome) store.Settlement {
	return store.Settlement{Token: j.Token, Position: j.Position, ID: j.ID, Outcome: outcome}
}

func audit(t *testing.T, s *store.Store) store.Audit {
	t.Helper()
	a, err := s.Audit(t.Context())
	require.NoError(t, err)
	return a
}

// settle settles and returns what was accepted.
func settle(t *testing.T, s *store.Store, owner uuid.UUID, settlements ...store.Settlement) []bool {
	t.Helper()
	recorded, err := s.Settle(t.Context(), owner, settlements)
	require.NoError(t, err)
	accepted := make([]bool, len(recorded))
	for i, outcome := range recorded {
		accepted[i] = outcome != store.Refused
	}
	return accepted
}

// exec runs one statement by hand, as somebody who breaks things would.
func exec(t *testing.T, pool *pgxpool.Pool, sql string, args ...any) {
	t.Helper()
	_, err := pool.Exec(t.Context(), sql, args...)
	require.NoError(t, err)
}

// query returns one value.
func query[V any](t *testing.T, pool *pgxpool.Pool, sql string, args ...any) (v V) {
	t.Helper()
	require.NoError(t, pool.QueryRow(t.Context(), sql, args...).Scan(&v))
	return v
}

// steady makes a process look as if it had been in contact for long.
func steady(t *testing.T, pool *pgxpool.Pool, process uuid.UUID) {
	t.Helper()
	exec(t, pool, `UPDATE pawl.processes SET steady_since = steady_since - interval '1 day' WHERE id = $1`, process)
}

// expire makes a process look as if it had stopped renewing.
func expire(t *testing.T, pool *pgxpool.Pool, process uuid.UUID) {
	t.Helper()
	exec(t, pool, `UPDATE pawl.processes SET expires_at = clock_timestamp() - interval '1 second' WHERE id = $1`, process)
}

// recovered is what one look for dead processes found.
func recovered(t *testing.T, s *store.Store, process uuid.UUID, orphans bool) store.Recovery {
	t.Helper()
	r, err := s.Recover(t.Context(), process, orphans)
	require.NoError(t, err)
	return r
}

// released drops the count of released jobs.
func released(_ int, err error) error { return err }
