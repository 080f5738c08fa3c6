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

// open returns a store on a migrated database, and the user's pool to it.
func open(t *testing.T) (*store.Store, *pgxpool.Pool) {
	t.Helper()
	pool := testdb.Migrated(t)
	s, err := store.Open(t.Context(), pool, store.DefaultSchema, 4)
	require.NoError(t, err)
	t.Cleanup(s.Close)
	return s, pool
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

// enqueue stores n jobs on queue q and returns their ids.
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
	answer, err := store.Enqueue(t.Context(), pool, store.DefaultSchema, b)
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

func TestLifeOfABatch(t *testing.T) {
	t.Parallel()
	s, pool := open(t)
	owner := register(t, s, time.Minute)
	ids := enqueue(t, pool, 5)

	jobs := claim(t, s, owner, 10)
	require.Len(t, jobs, 5)
	for i, j := range jobs {
		require.Equal(t, ids[i], j.ID, "claimed in the order of enqueue")
		require.Equal(t, i+1, j.Position)
		require.Equal(t, 1, j.Attempt)
		require.JSONEq(t, fmt.Sprintf(`{"n": %d}`, i), string(j.Args))
	}
	require.Equal(t, store.Audit{Leased: 5}, audit(t, s))

	dead := settlement(jobs[1], store.Dead)
	dead.Code, dead.Summary = "broken", "no way"
	retry := settlement(jobs[2], store.Retry)
	retry.Code, retry.Summary, retry.Delay = "transient", "later", time.Hour
	accepted, err := s.Settle(t.Context(), owner, []store.Settlement{settlement(jobs[0], store.Completed), dead, retry})
	require.NoError(t, err)
	require.Equal(t, []bool{true, true, true}, accepted)
	require.Equal(t, store.Audit{Leased: 2, Completed: 1, Dead: 1, Ready: 1}, audit(t, s))

	// The first is fenced off by now; the others end the lease.
	accepted, err = s.Settle(t.Context(), owner, []store.Settlement{
		settlement(jobs[0], store.Completed), settlement(jobs[3], store.Cancelled), settlement(jobs[4], store.GiveBack)})
	require.NoError(t, err)
	require.Equal(t, []bool{false, true, true}, accepted)
	require.Equal(t, store.Audit{Completed: 1, Dead: 1, Cancelled: 1, Ready: 2}, audit(t, s))

	again := claim(t, s, owner, 10)
	require.Len(t, again, 1, "the retry is due in an hour")
	require.Equal(t, jobs[4].ID, again[0].ID)
	require.Equal(t, 1, again[0].Attempt, "an attempt that was given back does not count")
}
