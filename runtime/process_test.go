package runtime_test

import (
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawlgo/pawl/internal/store"
	"github.com/pawlgo/pawl/internal/testdb"
)

// lease of worker processes: short, since tests wait for its end, and longer
// than a busy machine keeps a process from running.
const lease = 2 * time.Second

// A killed process's jobs run elsewhere within a lease and a little, and the
// attempt that it began is counted once.
func TestKilledProcess(t *testing.T) {
	t.Parallel()
	pool := testdb.Migrated(t)
	first := spawn(t, pool, childConfig{Lease: lease, Concurrency: 5})
	put(t, pool, childKind(), numbered(5, "hold")...)
	first.waitFor(t, "start", 5)
	second := spawn(t, pool, childConfig{Lease: lease, Concurrency: 5})
	testdb.Eventually(t, 3*slow, "the second to be steady", func() bool {
		return query[bool](t, pool, `SELECT count(*) = 2 AND bool_and(expires_at - started_at > 2 * lease) FROM pawl.processes`)
	})
	require.Empty(t, second.said("start"), "the jobs of a live peer")
	first.signal(t, syscall.SIGKILL)
	killed := time.Now()
	second.waitFor(t, "end", 5)
	require.Less(t, time.Since(killed), lease+5*time.Second)
	require.Equal(t, store.Audit{Completed: 5}, settled(t, pool, 5))
	require.Equal(t, 5, query[int](t, pool, `SELECT count(*) FROM pawl.outcomes WHERE attempts = 2`))
	require.Equal(t, 5, query[int](t, pool, `SELECT count(*) FROM pawl.job_errors WHERE code = 'lease_lost' AND attempt = 1`))
	stats := second.stop(t)
	require.EqualValues(t, 1, stats.Expirations)
	require.EqualValues(t, 5, stats.Recovered)
}

// A process that is stopped for longer than its lease finds its jobs taken when
// it goes on: its handlers are told, and what they complete is refused.
func TestZombieProcess(t *testing.T) {
	t.Parallel()
	pool := testdb.Migrated(t)
	zombie := spawn(t, pool, childConfig{Lease: lease, Concurrency: 5})
	put(t, pool, childKind(), append(numbered(3, "hold"), args{N: 3, Mode: "deaf"})...)
	zombie.waitFor(t, "start", 4)
	zombie.signal(t, syscall.SIGSTOP)
	second := spawn(t, pool, childConfig{Lease: lease, Concurrency: 5})
	second.waitFor(t, "end", 4)
	require.Equal(t, store.Audit{Completed: 4}, settled(t, pool, 4))
	finished := query[time.Time](t, pool, `SELECT max(finished_at) FROM pawl.outcomes`)
	zombie.signal(t, syscall.SIGCONT)
	zombie.waitFor(t, "cause", 3)
	for _, cause := range zombie.said("cause") {
		require.Contains(t, cause, "true", "the lease is lost")
	}
	zombie.tell(t, "open")
	zombie.waitFor(t, "end", 4)
	// It works on, under a new identity.
	second.stop(t)
	put(t, pool, childKind(), numbered(2, "")...)
	require.Equal(t, store.Audit{Completed: 6}, settled(t, pool, 6))
	stats := zombie.stop(t)
	require.EqualValues(t, 4, stats.Refused)
	require.EqualValues(t, 1, stats.LeasesLost)
	require.EqualValues(t, 2, stats.Completed)
	require.Equal(t, 4, query[int](t, pool, `SELECT count(*) FROM pawl.outcomes WHERE finished_at <= $1 AND attempts = 2`, finished))
}

// A job that kills its process each time ends as a dead letter after its
// attempts, and takes none of the innocents beside it along.
func TestPoisonAmongInnocents(t *testing.T) {
	t.Parallel()
	pool := testdb.Migrated(t)
	jobs := numbered(50, "")
	jobs[25].Mode = "exit"
	ids := put(t, pool, childKind(), jobs...)
	runs := 0
	for {
		p := spawn(t, pool, childConfig{Lease: lease / 2, Concurrency: 50})
		done := false
		testdb.Eventually(t, 3*slow, "the process to die, or all to be done", func() bool {
			select {
			case <-p.exited:
				return true
			default:
			}
			a := audit(t, pool)
			done = a.Completed+a.Dead == 50
			return done
		})
		for _, s := range p.said("start") {
			if len(s) > 3 && s[:3] == "25 " {
				runs++
			}
		}
		if done {
			p.stop(t)
			break
		}
		require.Equal(t, 3, p.cmd.ProcessState.ExitCode())
		require.LessOrEqual(t, runs, 3)
	}
	require.Equal(t, 3, runs)
	require.Equal(t, store.Audit{Completed: 49, Dead: 1}, audit(t, pool))
	require.Equal(t, "lease_lost", query[string](t, pool, `SELECT code FROM pawl.dead_letters WHERE job_id = $1 AND attempts = 3`, ids[25]))
}

// The process dies between the claim and the handlers.
func TestKilledBetweenClaimAndStart(t *testing.T) {
	t.Parallel()
	pool := testdb.Migrated(t)
	put(t, pool, childKind(), numbered(5, "")...)
	first := spawn(t, pool, childConfig{Lease: lease, Concurrency: 5, DieOnClaim: true})
	receive(t, first.exited, "the process to die")
	require.Empty(t, first.said("start"))
	require.Equal(t, store.Audit{Leased: 5}, audit(t, pool))
	second := spawn(t, pool, childConfig{Lease: lease, Concurrency: 5})
	require.Equal(t, store.Audit{Completed: 5}, settled(t, pool, 5))
	require.Equal(t, 5, query[int](t, pool, `SELECT count(*) FROM pawl.outcomes WHERE attempts = 2`))
	second.stop(t)
}

// Processes come and go while jobs are enqueued: each job is done, and a clean
// shutdown leaves nothing for others to recover.
func TestRollingDeploy(t *testing.T) {
	t.Parallel()
	pool := testdb.Migrated(t)
	const jobs = 600
	old := spawn(t, pool, childConfig{Lease: time.Minute, Concurrency: 10})
	starts := 0
	for range 3 {
		put(t, pool, childKind(), numbered(jobs/3, "")...)
		next := spawn(t, pool, childConfig{Lease: time.Minute, Concurrency: 10})
		testdb.Eventually(t, 3*slow, "the next process", func() bool { return query[int](t, pool, `SELECT count(*) FROM pawl.processes`) == 2 })
		old.stop(t)
		starts += len(old.said("start"))
		old = next
	}
	require.Equal(t, store.Audit{Completed: jobs}, settled(t, pool, jobs))
	stats := old.stop(t)
	starts += len(old.said("start"))
	require.Equal(t, jobs, starts)
	require.Zero(t, stats.Expirations)
	require.Equal(t, 1, query[int](t, pool, `SELECT max(attempts) FROM pawl.outcomes`))
}
