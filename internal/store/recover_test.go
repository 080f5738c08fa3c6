package store_test

import (
	"context"
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

// Only after one unbroken lease of contact of its own does a process take the
// jobs of others, and never those of the living.
func TestRecoverAfterOneLeaseOfContact(t *testing.T) {
	t.Parallel()
	s, pool := open(t)
	dead, live, sweeper := register(t, s, time.Minute), register(t, s, time.Minute), register(t, s, time.Minute)
	enqueue(t, pool, 6)
	claim(t, s, dead, 3)
	claim(t, s, live, 3)
	expire(t, pool, dead)

	require.Zero(t, recovered(t, s, uuid.New(), true), "a stranger")
	require.Zero(t, recovered(t, s, sweeper, true), "fresh contact")
	steady(t, pool, sweeper)
	expire(t, pool, sweeper) // the server was away
	alive, err := s.Heartbeat(t.Context(), sweeper)
	require.NoError(t, err)
	require.True(t, alive)
	require.Zero(t, recovered(t, s, sweeper, true), "contact was broken")
	require.Equal(t, store.Audit{Leased: 6}, audit(t, s))

	steady(t, pool, sweeper)
	require.Equal(t, store.Recovery{Dead: 1, Requeued: 3}, recovered(t, s, sweeper, false))
	require.Equal(t, store.Audit{Leased: 3, Ready: 3}, audit(t, s))
	require.Zero(t, recovered(t, s, sweeper, true))
	alive, err = s.Heartbeat(t.Context(), dead)
	require.NoError(t, err)
	require.False(t, alive)
	alive, err = s.Heartbeat(t.Context(), live)
	require.NoError(t, err)
	require.True(t, alive)
}

// Spent attempts end in a dead letter; the rest comes back. What has its last
// attempt left is a suspect, and claimed alone.
func TestRecoveredJobs(t *testing.T) {
	t.Parallel()
	s, pool := open(t)
	dead, sweeper := register(t, s, time.Minute), register(t, s, time.Minute)
	steady(t, pool, sweeper)
	last := enqueue(t, pool, 2, attempts(1))
	exec(t, pool, `UPDATE pawl.jobs SET idempotency_key = '\x01', trace_context = 'trace' WHERE id = ANY ($1)`, last)
	more := enqueue(t, pool, 3, attempts(2))
	claim(t, s, dead, 10)
	expire(t, pool, dead)
	require.Equal(t, store.Recovery{Dead: 1, Requeued: 3, Buried: 2}, recovered(t, s, sweeper, false))
	require.Equal(t, store.Audit{Ready: 3, Dead: 2}, audit(t, s))
	for _, id := range last {
		require.Equal(t, "lease_lost", query[string](t, pool, `SELECT code FROM pawl.dead_letters
			WHERE job_id = $1 AND attempts = 1 AND idempotency_key = '\x01' AND order_key IS NULL AND trace_context = 'trace'`, id))
	}
	require.Equal(t, 5, query[int](t, pool, `SELECT count(*) FROM pawl.job_errors WHERE code = 'lease_lost'`))

	fresh := enqueue(t, pool, 4)
	claimed, err := s.Claim(t.Context(), &store.Claim{Owner: sweeper, Token: uuid.New(), Queue: "q", Limit: 2, Capabilities: []int64{capability}})
	require.NoError(t, err)
	require.Equal(t, fresh[:2], idsOf(claimed.Jobs), "suspects only where asked for")
	jobs := claim(t, s, sweeper, 10)
	require.Equal(t, append([]uuid.UUID{more[0]}, fresh[2:]...), idsOf(jobs))
	require.Equal(t, []int{2, 1, 1}, []int{jobs[0].Attempt, jobs[1].Attempt, jobs[2].Attempt})
	require.NotEqual(t, jobs[0].Token, jobs[1].Token, "a suspect has a lease of its own")
	jobs = claim(t, s, sweeper, 1)
	require.Equal(t, more[1:2], idsOf(jobs))
	require.Equal(t, []bool{true}, settle(t, s, sweeper, settlement(jobs[0], store.GiveBack)))
	require.Equal(t, more[2:], idsOf(claim(t, s, sweeper, 1)))
}

// A settlement after the recovery is refused; so is the rest of a lease that
// was settled in part before.
func TestZombie(t *testing.T) {
	t.Parallel()
	s, pool := open(t)
	zombie, sweeper := register(t, s, time.Minute), register(t, s, time.Minute)
	steady(t, pool, sweeper)
	enqueue(t, pool, 3)
	jobs := claim(t, s, zombie, 3)
	require.Equal(t, []bool{true}, settle(t, s, zombie, settlement(jobs[0], store.Completed)))
	expire(t, pool, zombie)
	require.Equal(t, store.Recovery{Dead: 1, Requeued: 2}, recovered(t, s, sweeper, false))
	before := everything(t, pool)
	require.Equal(t, []bool{false, false, false}, settle(t, s, zombie,
		settlement(jobs[0], store.Retry), settlement(jobs[1], store.Completed), settlement(jobs[2], store.Dead)))
	require.NoError(t, released(s.ReleaseLeases(t.Context(), zombie, jobs[0].Token)))
	require.Equal(t, before, everything(t, pool))

	again := claim(t, s, sweeper, 3)
	require.Len(t, again, 2)
	require.Equal(t, []bool{false}, settle(t, s, zombie, settlement(jobs[1], store.Completed)))
	require.Equal(t, []bool{true, true}, settle(t, s, sweeper, settlement(again[0], store.Completed), settlement(again[1], store.Completed)))
}

// hold opens a transaction that holds what the statement locks, until the
// returned function ends it.
func hold(t *testing.T, pool *pgxpool.Pool, sql string, args ...any) (release func()) {
	t.Helper()
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) })
	_, err = tx.Exec(t.Context(), sql, args...)
	require.NoError(t, err)
	return func() { require.NoError(t, tx.Rollback(t.Context())) }
}

func waiting(t *testing.T, pool *pgxpool.Pool, n int) {
	t.Helper()
	testdb.Eventually(t, 10*time.Second, "a session to wait for a lock", func() bool {
		return query[int](t, pool, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`) >= n
	})
}

// A lease that somebody holds locked is passed over, and found later as one
// that no process owns.
func TestLockedLeaseBecomesAnOrphan(t *testing.T) {
	t.Parallel()
	s, pool := open(t)
	dead, sweeper := register(t, s, time.Minute), register(t, s, time.Minute)
	steady(t, pool, sweeper)
	enqueue(t, pool, 4)
	locked := claim(t, s, dead, 2)
	claim(t, s, dead, 2)
	expire(t, pool, dead)
	release := hold(t, pool, `SELECT FROM pawl.leases WHERE token = $1 FOR UPDATE`, locked[0].Token)
	require.Equal(t, store.Recovery{Dead: 1, Requeued: 2}, recovered(t, s, sweeper, false))
	require.Zero(t, recovered(t, s, sweeper, true))
	release()
	require.Zero(t, recovered(t, s, sweeper, false))
	require.Equal(t, store.Recovery{Requeued: 2}, recovered(t, s, sweeper, true))
	require.Equal(t, store.Audit{Ready: 4}, audit(t, s))
}

// A page of living leases before one dead orphan does not hide it.
func TestHiddenOrphan(t *testing.T) {
	t.Parallel()
	s, pool := open(t)
	live, sweeper := register(t, s, time.Minute), register(t, s, time.Minute)
	steady(t, pool, sweeper)
	enqueue(t, pool, 301)
	for range 300 {
		require.Len(t, claim(t, s, live, 1), 1)
	}
	claim(t, s, sweeper, 1)
	exec(t, pool, `UPDATE pawl.leases SET owner = gen_random_uuid(), token = 'ffffffff-ffff-ffff-ffff-ffffffffffff' WHERE owner = $1`, sweeper)
	require.Equal(t, store.Recovery{Requeued: 1}, recovered(t, s, sweeper, true))
	require.Equal(t, store.Audit{Ready: 1, Leased: 300}, audit(t, s))
}

// A sweeper is held between its read and its write, while a job of the lease
// that it found completes: whoever has the lease's lock first is right, and
// the other changes nothing.
func TestLateSweeper(t *testing.T) {
	t.Parallel()
	t.Run("the sweeper first", func(t *testing.T) {
		t.Parallel()
		s, pool := open(t)
		zombie, sweeper := register(t, s, time.Minute), register(t, s, time.Minute)
		steady(t, pool, sweeper)
		enqueue(t, pool, 2)
		jobs := claim(t, s, zombie, 2)
		expire(t, pool, zombie)
		release := hold(t, pool, `LOCK TABLE pawl.ready IN SHARE MODE`) // its writes wait
		var wg sync.WaitGroup
		wg.Go(func() {
			if r, err := s.Recover(t.Context(), sweeper, false); err != nil || r != (store.Recovery{Dead: 1, Requeued: 2}) {
				t.Errorf("%+v, %v", r, err)
			}
		})
		waiting(t, pool, 1)
		wg.Go(func() {
			if recorded, err := s.Settle(t.Context(), zombie, []store.Settlement{settlement(jobs[0], store.Completed)}); err != nil || recorded[0] != store.Refused {
				t.Errorf("%v, %v", recorded, err)
			}
		})
		waiting(t, pool, 2)
		release()
		wg.Wait()
		require.Equal(t, store.Audit{Ready: 2}, audit(t, s))
	})
	t.Run("the settlement first", func(t *testing.T) {
		t.Parallel()
		s, pool := open(t)
		zombie, sweeper, third := register(t, s, time.Minute), register(t, s, time.Minute), register(t, s, time.Minute)
		steady(t, pool, sweeper)
		enqueue(t, pool, 2)
		jobs := claim(t, s, zombie, 2)
		expire(t, pool, zombie)
		release := hold(t, pool, `LOCK TABLE pawl.outcomes IN SHARE MODE`)
		var wg sync.WaitGroup
		wg.Go(func() {
			if recorded, err := s.Settle(t.Context(), zombie, []store.Settlement{settlement(jobs[0], store.Completed)}); err != nil || recorded[0] == store.Refused {
				t.Errorf("%v, %v", recorded, err)
			}
		})
		waiting(t, pool, 1)
		require.Equal(t, store.Recovery{Dead: 1}, recovered(t, s, sweeper, true), "the lease is locked")
		release()
		wg.Wait()
		require.Equal(t, store.Recovery{Requeued: 1}, recovered(t, s, sweeper, true))
		again := claim(t, s, third, 2)
		require.Equal(t, []uuid.UUID{jobs[1].ID}, idsOf(again))
		require.Equal(t, 2, again[0].Attempt)
		require.Zero(t, recovered(t, s, sweeper, true))
		require.Equal(t, store.Audit{Leased: 1, Completed: 1}, audit(t, s))
	})
	t.Run("a heartbeat first", func(t *testing.T) {
		t.Parallel()
		s, pool := open(t)
		slow, sweeper := register(t, s, time.Minute), register(t, s, time.Minute)
		steady(t, pool, sweeper)
		enqueue(t, pool, 2)
		claim(t, s, slow, 2)
		expire(t, pool, slow)
		tx, err := pool.BeginTx(t.Context(), pgx.TxOptions{})
		require.NoError(t, err)
		_, err = tx.Exec(t.Context(), `SELECT pawl.heartbeat($1)`, slow)
		require.NoError(t, err)
		require.Zero(t, recovered(t, s, sweeper, true))
		require.NoError(t, tx.Commit(t.Context()))
		require.Zero(t, recovered(t, s, sweeper, true))
		require.Equal(t, store.Audit{Leased: 2}, audit(t, s))
	})
}

// Sweepers at once find each dead process once.
func TestManySweepers(t *testing.T) {
	t.Parallel()
	pool := testdb.Migrated(t)
	s, err := store.Open(t.Context(), pool, store.DefaultSchema, 8)
	require.NoError(t, err)
	defer s.Close()
	enqueue(t, pool, 200)
	for range 20 {
		dead := register(t, s, time.Minute)
		require.Len(t, claim(t, s, dead, 10), 10)
		expire(t, pool, dead)
	}
	sweepers := make([]uuid.UUID, 8)
	for i := range sweepers {
		sweepers[i] = register(t, s, time.Minute)
		steady(t, pool, sweepers[i])
	}
	var (
		wg    sync.WaitGroup
		mu    sync.Mutex
		total store.Recovery
	)
	for _, sweeper := range sweepers {
		wg.Go(func() {
			for range 5 {
				r, err := s.Recover(t.Context(), sweeper, true)
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				total.Dead += r.Dead
				total.Requeued += r.Requeued
				total.Buried += r.Buried
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	require.Equal(t, store.Recovery{Dead: 20, Requeued: 200}, total)
	require.Equal(t, store.Audit{Ready: 200}, audit(t, s))
}

// Rows that were broken by hand hold up nothing else, and do not break the
// sweep.
func TestRecoverAmongBrokenRows(t *testing.T) {
	t.Parallel()
	s, pool := open(t)
	dead, sweeper := register(t, s, time.Minute), register(t, s, time.Minute)
	steady(t, pool, sweeper)
	ids := enqueue(t, pool, 10)
	leases := make([][]store.ClaimedJob, 5)
	for i := range leases {
		leases[i] = claim(t, s, dead, 2)
	}
	exec(t, pool, `UPDATE pawl.leases SET open = 0::bit(128) WHERE token = $1`, leases[0][0].Token) // nothing is open
	exec(t, pool, `DELETE FROM pawl.jobs WHERE id = $1`, leases[1][0].ID)                           // no row
	exec(t, pool, `UPDATE pawl.leases SET attempts = '{}' WHERE token = $1`, leases[2][0].Token)    // unequal arrays
	exec(t, pool, `UPDATE pawl.leases SET attempts = '{32767,32767}' WHERE token = $1`, leases[3][0].Token)
	exec(t, pool, `INSERT INTO pawl.dead_letters SELECT id, kind, queue, version, capability, priority, '', 1, 3, 'old', 'old', now(), now(), args FROM pawl.jobs WHERE id = $1`, leases[3][0].ID)
	expire(t, pool, dead)

	r := recovered(t, s, sweeper, true)
	require.Equal(t, 1, r.Dead)
	require.Equal(t, 2, r.Buried, "of the last attempt that there is")
	require.Equal(t, 1, query[int](t, pool, `SELECT count(*) FROM pawl.quarantine WHERE job_id = $1`, leases[1][0].ID))
	for _, i := range []int{1, 4} {
		require.Equal(t, 1, query[int](t, pool, `SELECT count(*) FROM pawl.ready WHERE id = $1`, leases[i][1].ID))
	}
	require.Equal(t, 1, query[int](t, pool, `SELECT count(*) FROM pawl.ready WHERE id = $1`, leases[4][0].ID))
	for range 2 {
		recovered(t, s, sweeper, true)
	}
	a := audit(t, s)
	require.Zero(t, a.Doubled)
	require.Len(t, ids, 10)
	require.Equal(t, 0, query[int](t, pool, `SELECT count(*) FROM pawl.leases WHERE open = 0::bit(128)`), "a lease with nothing open is no lease")
}

// A job is a suspect when its lease was lost twice in a row, or when one attempt
// is left: not before, since a killed worker's jobs shall be back at once.
func TestSuspects(t *testing.T) {
	t.Parallel()
	s, pool := open(t)
	sweeper := register(t, s, time.Minute)
	steady(t, pool, sweeper)
	ids := enqueue(t, pool, 3, attempts(9))
	lose := func(n int) {
		t.Helper()
		dead := register(t, s, time.Minute)
		for range n {
			require.NotEmpty(t, claim(t, s, dead, 3))
		}
		expire(t, pool, dead)
		recovered(t, s, sweeper, false)
	}
	suspects := func() int { return query[int](t, pool, `SELECT count(*) FROM pawl.ready WHERE suspect`) }

	lose(1)
	require.Zero(t, suspects())
	jobs := claim(t, s, sweeper, 3)
	require.Equal(t, ids, idsOf(jobs))
	failed := settlement(jobs[0], store.Retry)
	failed.Code = "transient"
	require.Equal(t, []bool{true, true, true}, settle(t, s, sweeper, failed, settlement(jobs[1], store.GiveBack), settlement(jobs[2], store.GiveBack)))
	lose(1)
	require.Equal(t, 2, suspects(), "the third attempt of one job, after one that failed otherwise")
	require.Equal(t, ids[0], query[uuid.UUID](t, pool, `SELECT id FROM pawl.ready WHERE NOT suspect`))
	lose(2)
	require.Equal(t, 3, suspects())
}

func TestUnregister(t *testing.T) {
	t.Parallel()
	s, pool := open(t)
	owner := register(t, s, time.Minute)
	enqueue(t, pool, 1)
	jobs := claim(t, s, owner, 1)
	require.NoError(t, s.Unregister(t.Context(), owner))
	alive, err := s.Heartbeat(t.Context(), owner)
	require.NoError(t, err)
	require.True(t, alive, "it still has a lease")
	settle(t, s, owner, settlement(jobs[0], store.Completed))
	require.NoError(t, s.Unregister(t.Context(), owner))
	require.NoError(t, s.Unregister(t.Context(), owner))
	alive, err = s.Heartbeat(t.Context(), owner)
	require.NoError(t, err)
	require.False(t, alive)
}
