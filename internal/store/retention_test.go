package store_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/pawlgo/pawl/internal/store"
	"github.com/pawlgo/pawl/internal/testdb"
)

const week = 7 * 24 * time.Hour

// age makes everything look as if so many days had passed since.
func age(t *testing.T, pool *pgxpool.Pool, days int) {
	t.Helper()
	exec(t, pool, fmt.Sprintf(`DO $$ BEGIN
		PERFORM pawl.ensure_day(d.day - %[1]d, ARRAY[d.parent]) FROM (
			SELECT DISTINCT 'jobs' AS parent, j.day FROM pawl.jobs j UNION SELECT DISTINCT 'outcomes', o.day FROM pawl.outcomes o
			UNION SELECT DISTINCT 'job_errors', e.day FROM pawl.job_errors e UNION SELECT DISTINCT 'archive', a.day FROM pawl.archive a) d;
		UPDATE pawl.jobs SET day = day - %[1]d;
		UPDATE pawl.outcomes SET day = day - %[1]d, job_day = job_day - %[1]d;
		UPDATE pawl.job_errors SET day = day - %[1]d, at = at - interval '%[1]d days';
		UPDATE pawl.archive SET day = day - %[1]d;
		UPDATE pawl.ready SET day = day - %[1]d;
		UPDATE pawl.ordered SET day = day - %[1]d;
		UPDATE pawl.leases SET days = ARRAY(SELECT d.day - %[1]d FROM unnest(days) WITH ORDINALITY d(day, n) ORDER BY d.n);
		UPDATE pawl.idempotency_keys SET job_day = job_day - %[1]d, expires_at = expires_at - interval '%[1]d days';
		UPDATE pawl.dead_letters SET died_at = died_at - interval '%[1]d days';
	END $$`, days))
}

// rekey moves all survivors.
func rekey(t *testing.T, s *store.Store, age time.Duration) (moved int) {
	t.Helper()
	all, err := s.Survivors(t.Context(), age, 10_000)
	require.NoError(t, err)
	for batch := range slices.Chunk(all, 100) {
		n, err := s.Rekey(t.Context(), batch)
		require.NoError(t, err)
		moved += n
	}
	return moved
}

// leaf finds the leaf of a table that is so many days old.
func leaf(t *testing.T, s *store.Store, parent string, old int) store.Leaf {
	t.Helper()
	leaves, err := s.Leaves(t.Context())
	require.NoError(t, err)
	for _, l := range leaves {
		if since := l.Over + 24*time.Hour; l.Parent == parent && int(since/(24*time.Hour)) == old && since >= 0 {
			return l
		}
	}
	return store.Leaf{}
}

func empty(t *testing.T, s *store.Store, l store.Leaf) store.Emptying {
	t.Helper()
	answer, err := s.Empty(t.Context(), l, 20)
	require.NoError(t, err)
	return answer
}

// sound fails where the books do not add up.
func sound(t *testing.T, s *store.Store) store.Invariants {
	t.Helper()
	v, err := s.Invariants(t.Context(), 0, 10)
	require.NoError(t, err)
	require.Equal(t, store.Invariants{Ready: v.Ready, Leased: v.Leased, Blocked: v.Blocked, Quarantined: v.Quarantined,
		Lost: none, Doubled: none, Homeless: none, Headless: none, OutOfTurn: none, Stuck: none}, v)
	return v
}

var none = store.Violation{IDs: []uuid.UUID{}}

// Unfinished jobs move out of an old day, wherever they wait, and run from
// there as if nothing had been; the day is emptied when the last one is out.
func TestSurvivors(t *testing.T) {
	t.Parallel()
	s, pool := open(t)
	owner := register(t, s, time.Minute)
	plain := enqueue(t, pool, 3)
	later := enqueue(t, pool, 300, func(b *store.Batch) { b.Delay = 30 * 24 * time.Hour })
	inOrder := enqueue(t, pool, 4, ordered("a"))
	leased := turn(t, s, owner)
	require.Equal(t, append(plain, inOrder[0]), idsOf(leased))
	require.Equal(t, []bool{true, true}, settle(t, s, owner, settlement(leased[0], store.Completed), settlement(leased[1], store.Retry)))
	age(t, pool, 8)
	before := sound(t, s)

	require.Equal(t, 1+300+3, rekey(t, s, week), "all but the two that are leased")
	require.Zero(t, rekey(t, s, week))
	require.Equal(t, before, sound(t, s))
	require.Equal(t, 3, query[int](t, pool, `SELECT count(*) FROM pawl.jobs WHERE day < pawl.day_of(now())`))
	require.Equal(t, 0, query[int](t, pool, `SELECT count(*) FROM pawl.ready r LEFT JOIN pawl.jobs j ON j.day = r.day AND j.id = r.id WHERE j.id IS NULL OR r.day < pawl.day_of(now())`))
	require.Equal(t, store.Needed, empty(t, s, leaf(t, s, store.Jobs, 8)))
	require.Equal(t, store.Needed, empty(t, s, leaf(t, s, store.Outcomes, 8)))

	// The lease ends: one is done, the head of the key waits again under its old day.
	require.Equal(t, []bool{true, true}, settle(t, s, owner, settlement(leased[2], store.Completed), end(leased[3], store.Retry)))
	require.Equal(t, store.Needed, empty(t, s, leaf(t, s, store.Jobs, 8)))
	require.Equal(t, 1, rekey(t, s, week))
	sound(t, s)
	require.Equal(t, store.Emptied, empty(t, s, leaf(t, s, store.Jobs, 8)))
	require.False(t, leaf(t, s, store.Jobs, 8).Used)
	require.Equal(t, store.Emptied, empty(t, s, leaf(t, s, store.Outcomes, 8)))
	sound(t, s)

	for n, id := range append([]uuid.UUID{plain[1]}, inOrder...) {
		jobs := turn(t, s, owner)
		if n == 0 {
			require.ElementsMatch(t, []uuid.UUID{plain[1], inOrder[0]}, idsOf(jobs))
			require.Equal(t, []bool{true, true}, settle(t, s, owner, settlement(jobs[0], store.Completed), end(jobs[1], store.Retry)))
			continue
		}
		require.Equal(t, []uuid.UUID{id}, idsOf(jobs))
		require.Equal(t, []bool{true}, settle(t, s, owner, end(jobs[0], store.Completed)))
	}
	exec(t, pool, `UPDATE pawl.ready SET run_at = now()`)
	require.Len(t, claim(t, s, owner, 128), 128)
	require.Equal(t, "cancelled", query[string](t, pool, `SELECT pawl.cancel($1)`, later[299]))
	require.Equal(t, store.Invariants{Ready: 171, Leased: 128, Lost: none, Doubled: none, Homeless: none, Headless: none, OutOfTurn: none, Stuck: none}, sound(t, s))
}

// What somebody has locked, or takes at the same moment, is left where it is.
func TestSurvivorsInUse(t *testing.T) {
	t.Parallel()
	s, pool := open(t)
	owner := register(t, s, time.Minute)
	ids := enqueue(t, pool, 5)
	inOrder := enqueue(t, pool, 3, ordered("a"))
	require.NotEmpty(t, turn(t, s, owner))
	require.NoError(t, released(s.ReleaseLeases(t.Context(), owner, query[uuid.UUID](t, pool, `SELECT token FROM pawl.leases`))))
	require.Len(t, claim(t, s, owner, 1), 1)
	age(t, pool, 8)
	stale, err := s.Survivors(t.Context(), week, 100)
	require.NoError(t, err)
	require.Len(t, stale, 5+2)

	locked := begin(t, pool, pgx.ReadCommitted)
	_, err = locked.Exec(t.Context(), `SELECT FROM pawl.ready WHERE id = $1 FOR UPDATE`, ids[4])
	require.NoError(t, err)
	_, err = locked.Exec(t.Context(), `SELECT FROM pawl.ordered WHERE job_id = $1 FOR UPDATE`, inOrder[2])
	require.NoError(t, err)
	taken := claim(t, s, owner, 1)
	cancelling := begin(t, pool, pgx.ReadCommitted)
	var state string
	require.NoError(t, cancelling.QueryRow(t.Context(), `SELECT pawl.cancel($1)`, ids[2]).Scan(&state))
	require.Equal(t, "cancelled", state)

	begun := time.Now()
	moved, err := s.Rekey(t.Context(), stale)
	require.NoError(t, err)
	require.Less(t, time.Since(begun), time.Second)
	require.Equal(t, 3, moved, "of the five and two: without the taken, the locked ones and the one about to be cancelled")
	require.NoError(t, cancelling.Rollback(t.Context()))
	require.NoError(t, locked.Rollback(t.Context()))
	sound(t, s)

	// The claim is given back while its row is on the list under another place.
	require.NoError(t, released(s.ReleaseLeases(t.Context(), owner, taken[0].Token)))
	moved, err = s.Rekey(t.Context(), stale)
	require.NoError(t, err)
	require.LessOrEqual(t, moved, 4)
	sound(t, s)
	require.Equal(t, 4-moved, rekey(t, s, week))
	sound(t, s)
}

// A survivor without a row is set aside, and its key goes on.
func TestSurvivorWithoutRow(t *testing.T) {
	t.Parallel()
	s, pool := open(t)
	owner := register(t, s, time.Minute)
	ids := enqueue(t, pool, 2)
	inOrder := enqueue(t, pool, 3, ordered("a"))
	head := turn(t, s, owner)
	require.NoError(t, released(s.ReleaseLeases(t.Context(), owner, head[0].Token)))
	exec(t, pool, `DELETE FROM pawl.jobs WHERE id = ANY ($1)`, []uuid.UUID{ids[0], inOrder[0], inOrder[1]})
	age(t, pool, 8)
	require.Equal(t, 2, rekey(t, s, week))
	require.Equal(t, 3, query[int](t, pool, `SELECT count(*) FROM pawl.quarantine`))
	require.Equal(t, 2, sound(t, s).Ready, "the last of the key has its turn")
	require.Equal(t, store.Emptied, empty(t, s, leaf(t, s, store.Jobs, 8)))
	require.ElementsMatch(t, []uuid.UUID{ids[1], inOrder[2]}, idsOf(turn(t, s, owner)))
}

// A day is emptied only when nothing holds it, and is never waited for.
func TestEmptyBehindLocks(t *testing.T) {
	t.Parallel()
	s, pool := open(t)
	owner := register(t, s, time.Minute)
	enqueue(t, pool, 3)
	for _, j := range claim(t, s, owner, 3) {
		require.Equal(t, []bool{true}, settle(t, s, owner, settlement(j, store.Completed)))
	}
	require.Equal(t, store.Needed, empty(t, s, leaf(t, s, store.Jobs, 0)), "today")
	require.Equal(t, store.Needed, empty(t, s, store.Leaf{Parent: store.Jobs, Day: 3}), "there is none")
	age(t, pool, 8)
	l := leaf(t, s, store.Jobs, 8)
	require.True(t, l.Used)

	for name, sql := range map[string]string{
		"a reader":             `SELECT count(*) FROM pawl.jobs`,
		"a writer of that day": fmt.Sprintf(`UPDATE pawl.jobs_d%d SET trace_context = 'x'`, l.Day),
		"a prepared writer":    fmt.Sprintf(`LOCK TABLE pawl.jobs_d%d IN ROW EXCLUSIVE MODE`, l.Day),
		"a vacuum":             fmt.Sprintf(`LOCK TABLE pawl.jobs_d%d IN SHARE UPDATE EXCLUSIVE MODE`, l.Day),
	} {
		tx := begin(t, pool, pgx.ReadCommitted)
		_, err := tx.Exec(t.Context(), sql)
		require.NoError(t, err, name)
		begun := time.Now()
		require.Equal(t, store.Locked, empty(t, s, l), name)
		require.Less(t, time.Since(begun), 5*time.Second, name)
		require.NoError(t, tx.Rollback(t.Context()), name)
	}
	// An enqueue of today that has not committed is in nobody's way.
	tx := begin(t, pool, pgx.ReadCommitted)
	_, err := store.Enqueue(t.Context(), tx, store.DefaultSchema, &store.Batch{Kind: "k", Queue: "q", Version: 1, Capability: capability,
		Priority: 2, MaxAttempts: 3, Jobs: []store.NewJob{{ID: uuid.New(), Args: "{}"}}})
	require.NoError(t, err)
	require.Equal(t, store.Emptied, empty(t, s, l))
	require.Equal(t, store.Emptied, empty(t, s, leaf(t, s, store.Outcomes, 8)))
	require.NoError(t, tx.Commit(t.Context()))
	require.Equal(t, store.Audit{Ready: 1}, audit(t, s))
}

// An enqueue that began on a day keeps it until it has ended, and its job with it.
func TestLateCommitOfAnOldDay(t *testing.T) {
	t.Parallel()
	s, pool := open(t)
	enqueue(t, pool, 1)
	age(t, pool, 8)
	require.Equal(t, 1, rekey(t, s, week))
	l := leaf(t, s, store.Jobs, 8)
	tx := begin(t, pool, pgx.ReadCommitted)
	id := uuid.New()
	_, err := tx.Exec(t.Context(), `INSERT INTO pawl.jobs (day, id, kind, queue, version, capability, priority, max_attempts, organization_id, run_at, enqueued_at, args)
		SELECT $1, $2, kind, queue, version, capability, priority, max_attempts, organization_id, run_at, enqueued_at, args FROM pawl.jobs`, l.Day, id)
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), `INSERT INTO pawl.ready (queue, priority, run_at, id, day, capability, attempts, suspect)
		SELECT queue, priority, run_at, $2, $1, capability, 0, false FROM pawl.jobs WHERE id <> $2`, l.Day, id)
	require.NoError(t, err)
	require.Equal(t, store.Locked, empty(t, s, l))
	require.NoError(t, tx.Commit(t.Context()))
	require.Equal(t, store.Needed, empty(t, s, l))
	require.Equal(t, 1, rekey(t, s, week))
	require.Equal(t, store.Emptied, empty(t, s, l))
	require.Equal(t, store.Audit{Ready: 2}, audit(t, s))
	sound(t, s)
}

// An empty day goes, however far a process that was killed had come with it. One
// that somebody has added to meanwhile stays.
func TestRemove(t *testing.T) {
	t.Parallel()
	_, pool := open(t)
	s := storeOf(t, pool)
	for _, n := range []int{10, 11, 12, 13} {
		exec(t, pool, `SELECT pawl.ensure_day(pawl.day_of(now()) - $1)`, n)
	}
	remove := func(l store.Leaf) bool {
		gone, err := s.Remove(t.Context(), l)
		require.NoError(t, err)
		return gone
	}
	require.True(t, remove(leaf(t, s, store.Jobs, 10)))
	require.Empty(t, leaf(t, s, store.Jobs, 10))

	// Killed while it waited for a transaction that uses the table.
	tx := begin(t, pool, pgx.ReadCommitted)
	_, err := tx.Exec(t.Context(), `SELECT FROM pawl.jobs`)
	require.NoError(t, err)
	soon, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err = s.Remove(soon, leaf(t, s, store.Jobs, 11))
	require.Error(t, err)
	testdb.Eventually(t, 10*time.Second, "the leaf to be on its way out", func() bool { return leaf(t, s, store.Jobs, 11).State == store.Pending })
	// Nobody waits for it, not even for a day that is not there yet.
	enqueue(t, pool, 1)
	exec(t, pool, `SET lock_timeout = '2s'; SELECT pawl.ensure_day(pawl.day_of(now()) + 20)`)
	require.NoError(t, tx.Rollback(t.Context()))
	testdb.Eventually(t, 10*time.Second, "the leaf to go", func() bool {
		gone, err := s.Remove(t.Context(), leaf(t, s, store.Jobs, 11))
		return err == nil && gone
	})

	// Killed when it had detached it.
	l := leaf(t, s, store.Outcomes, 12)
	exec(t, pool, fmt.Sprintf(`ALTER TABLE pawl.outcomes DETACH PARTITION pawl.outcomes_d%d`, l.Day))
	l = leaf(t, s, store.Outcomes, 12)
	require.Equal(t, store.Detached, l.State)
	require.True(t, remove(l))

	l = leaf(t, s, store.Jobs, 13)
	exec(t, pool, `INSERT INTO pawl.jobs SELECT (json_populate_record(j, json_build_object('day', $1::integer))).* FROM pawl.jobs j`, l.Day)
	require.False(t, remove(l))
	require.Equal(t, store.Attached, leaf(t, s, store.Jobs, 13).State)
	require.Equal(t, 2, query[int](t, pool, `SELECT count(*) FROM pawl.jobs`))
}

// The archive has every finished job with how it ended; the unfinished stay.
func TestArchive(t *testing.T) {
	t.Parallel()
	s, pool := open(t)
	owner := register(t, s, time.Minute)
	ids := enqueue(t, pool, 10)
	jobs := claim(t, s, owner, 8)
	dead := settlement(jobs[1], store.Dead)
	dead.Code, dead.Summary = "broken", "no way"
	settle(t, s, owner, settlement(jobs[0], store.Completed), dead, settlement(jobs[2], store.Cancelled), settlement(jobs[3], store.Completed))
	age(t, pool, 8)
	l := leaf(t, s, store.Jobs, 8)
	was := query[string](t, pool, `SELECT json_agg(j ORDER BY j.id) FROM (SELECT id, kind, queue, version, capability, priority, organization_id, max_attempts,
		run_at, enqueued_at, idempotency_key, order_key, trace_context, args FROM pawl.jobs WHERE id = ANY ($1)) j`, ids[:4])

	total, after := 0, uuid.Nil
	for {
		moved, next, err := s.ArchiveJobs(t.Context(), l.Day, after, 3)
		require.NoError(t, err)
		total += moved
		if next == uuid.Nil {
			break
		}
		after = next
	}
	require.Equal(t, 4, total)
	require.Equal(t, was, query[string](t, pool, `SELECT json_agg(j ORDER BY j.id) FROM (SELECT id, kind, queue, version, capability, priority, organization_id, max_attempts,
		run_at, enqueued_at, idempotency_key, order_key, trace_context, args FROM pawl.archive) j`))
	require.Equal(t, "completed dead cancelled completed", query[string](t, pool, `SELECT string_agg(status, ' ' ORDER BY id) FROM pawl.archive
		WHERE attempts = 1 AND finished_at > claimed_at AND archived_at > finished_at AND day = pawl.day_of(now())`))
	require.Equal(t, 6, query[int](t, pool, `SELECT count(*) FROM pawl.jobs`))
	require.Equal(t, "completed", query[string](t, pool, `SELECT pawl.cancel($1)`, ids[0]))
	require.Equal(t, store.Needed, empty(t, s, l))
	age(t, pool, 91)
	require.Equal(t, store.Emptied, empty(t, s, leaf(t, s, store.Archive, 91)))
}

// A key goes when its time is over and its job is too, and no sooner; dead
// letters go by their age.
func TestPurge(t *testing.T) {
	t.Parallel()
	s, pool := open(t)
	owner := register(t, s, time.Minute)
	keyed := func(keep time.Duration) func(*store.Batch) {
		return func(b *store.Batch) {
			b.Keep = keep
			for i := range b.Jobs {
				id := uuid.New()
				b.Jobs[i].Key = id[:]
			}
		}
	}
	short, long := enqueue(t, pool, 400, keyed(time.Hour)), enqueue(t, pool, 50, keyed(100*24*time.Hour))
	jobs := slices.Concat(claim(t, s, owner, 100), claim(t, s, owner, 100), claim(t, s, owner, 100))
	for _, j := range jobs {
		require.Equal(t, []bool{true}, settle(t, s, owner, settlement(j, []store.Outcome{store.Completed, store.Dead, store.Cancelled}[j.Position%3])))
	}
	purge := func() (keys int) {
		for block, blocks := 0, 1; block < blocks; block++ {
			var removed int
			var err error
			removed, blocks, err = s.PurgeKeys(t.Context(), block, 1)
			require.NoError(t, err)
			keys += removed
		}
		return keys
	}
	require.Zero(t, purge())
	age(t, pool, 8)
	lock := begin(t, pool, pgx.ReadCommitted)
	_, err := lock.Exec(t.Context(), `SELECT FROM pawl.idempotency_keys WHERE job_id = $1 FOR UPDATE`, short[0])
	require.NoError(t, err)
	require.Equal(t, 299, purge())
	require.NoError(t, lock.Rollback(t.Context()))
	require.Equal(t, 1, purge())
	require.Equal(t, 150, query[int](t, pool, `SELECT count(*) FROM pawl.idempotency_keys`), "unfinished, or held for longer")
	require.Equal(t, 50, query[int](t, pool, `SELECT count(*) FROM pawl.idempotency_keys WHERE job_id = ANY ($1)`, long))

	dead := query[int](t, pool, `SELECT count(*) FROM pawl.dead_letters`)
	removed, err := s.PurgeDeadLetters(t.Context(), 9*24*time.Hour, 1000)
	require.NoError(t, err)
	require.Zero(t, removed)
	for _, want := range []int{60, dead - 60, 0} {
		removed, err = s.PurgeDeadLetters(t.Context(), week, 60)
		require.NoError(t, err)
		require.Equal(t, min(60, want), removed)
	}
}

// One pass at a time is made, and one for each interval.
func TestBeginRetention(t *testing.T) {
	t.Parallel()
	s, pool := open(t)
	turn := func() bool {
		mine, err := s.BeginRetention(t.Context(), time.Hour)
		require.NoError(t, err)
		return mine
	}
	require.True(t, turn())
	require.False(t, turn())
	exec(t, pool, `UPDATE pawl.retention SET began_at = began_at - interval '61 minutes'`)
	require.True(t, turn())
	exec(t, pool, `UPDATE pawl.retention SET began_at = now() + interval '1 year'`)
	require.True(t, turn(), "after the clock was set back")
}

// The checker finds whatever somebody breaks by hand.
func TestInvariants(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		sql string
		of  func(*store.Invariants) *store.Violation
	}{
		"lost":               {`DELETE FROM pawl.ready WHERE id = $1`, func(v *store.Invariants) *store.Violation { return &v.Lost }},
		"finished as well":   {`INSERT INTO pawl.outcomes SELECT day, id, day, 1, 1, queue, now(), now() FROM pawl.ready WHERE id = $1`, func(v *store.Invariants) *store.Violation { return &v.Doubled }},
		"waiting twice":      {`INSERT INTO pawl.ready SELECT * FROM pawl.ready WHERE id = $1`, func(v *store.Invariants) *store.Violation { return &v.Doubled }},
		"stored twice":       {`INSERT INTO pawl.jobs SELECT (json_populate_record(j, json_build_object('day', j.day + 1))).* FROM pawl.jobs j WHERE id = $1`, func(v *store.Invariants) *store.Violation { return &v.Doubled }},
		"leased as well":     {`INSERT INTO pawl.leases SELECT gen_random_uuid(), gen_random_uuid(), queue, now(), ARRAY[id], ARRAY[day], '{1}', (~ 0::bit(128)) << 127 FROM pawl.ready WHERE id = $1`, func(v *store.Invariants) *store.Violation { return &v.Doubled }},
		"without a row":      {`DELETE FROM pawl.jobs WHERE id = $1`, func(v *store.Invariants) *store.Violation { return &v.Homeless }},
		"of another day":     {`UPDATE pawl.ready SET day = day - 5 WHERE id = $1`, func(v *store.Invariants) *store.Violation { return &v.Homeless }},
		"a head that is not": {`DELETE FROM pawl.ready WHERE id = $2`, func(v *store.Invariants) *store.Violation { return &v.Headless }},
		"out of turn":        {`UPDATE pawl.ordered SET head = false WHERE job_id = $2`, func(v *store.Invariants) *store.Violation { return &v.OutOfTurn }},
		"stuck":              {`WITH gone AS (DELETE FROM pawl.ordered WHERE head), ready AS (DELETE FROM pawl.ready WHERE id = $2) DELETE FROM pawl.jobs WHERE id = $2`, func(v *store.Invariants) *store.Violation { return &v.Stuck }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, pool := open(t)
			owner := register(t, s, time.Minute)
			exec(t, pool, `SELECT pawl.ensure_day(pawl.day_of(now()) + 1)`)
			one := enqueue(t, pool, 5)[4]
			inOrder := enqueue(t, pool, 3, ordered("a"))
			jobs := turn(t, s, owner)
			require.NoError(t, released(s.ReleaseLeases(t.Context(), owner, jobs[0].Token)))
			require.Equal(t, 1, len(settle(t, s, owner, settlement(claim(t, s, owner, 1)[0], store.Completed))))
			claim(t, s, owner, 1)
			require.Equal(t, 4, sound(t, s).Ready)
			exec(t, pool, c.sql+` AND ($1::uuid IS NOT NULL OR $2::uuid IS NOT NULL)`, one, inOrder[0])
			for _, days := range []int{0, 2} {
				v, err := s.Invariants(t.Context(), days, 1)
				require.NoError(t, err)
				require.NotZero(t, c.of(&v).Jobs)
				require.Len(t, c.of(&v).IDs, 1)
			}
		})
	}
}

// Old jobs are claimed, retried, given back and cancelled while they move, and
// their day is tried to be emptied all the time: each of them ends once.
func TestSurvivorsInTraffic(t *testing.T) {
	t.Parallel()
	s, pool := open(t)
	ids := enqueue(t, pool, 600)
	for n := range 60 {
		ids = append(ids, enqueue(t, pool, 5, ordered(fmt.Sprint(n)))...)
	}
	age(t, pool, 8)
	old := leaf(t, s, store.Jobs, 8)
	ctx, stop := context.WithTimeout(t.Context(), 2*time.Minute)
	defer stop()
	var group errgroup.Group
	for range 2 {
		owner := register(t, s, time.Hour)
		group.Go(func() error {
			for idle := 0; idle < 200 && ctx.Err() == nil; {
				claimed, err := s.Claim(ctx, &store.Claim{Owner: owner, Token: uuid.New(), Queue: "q", Limit: 7, Capabilities: []int64{capability}, Ordered: true})
				if err != nil {
					return err
				}
				idle++
				var ends []store.Settlement
				for _, j := range claimed.Jobs {
					idle = 0
					outcome := store.Completed
					if j.Attempt < 3 && rand.IntN(3) == 0 {
						outcome = store.Retry
					}
					ends = append(ends, end(j, outcome))
				}
				if _, err := s.Settle(ctx, owner, ends); err != nil {
					return err
				}
			}
			return nil
		})
	}
	group.Go(func() error {
		for range 60 {
			if _, err := store.Cancel(ctx, pool, store.DefaultSchema, ids[rand.IntN(len(ids))]); err != nil {
				return err
			}
		}
		return nil
	})
	moved := 0
	group.Go(func() error {
		for ctx.Err() == nil {
			all, err := s.Survivors(ctx, week, 40)
			if err != nil {
				return err
			}
			n, err := s.Rekey(ctx, all)
			if err != nil {
				return err
			}
			moved += n
			answer, err := s.Empty(ctx, old, 3)
			if err != nil || answer == store.Emptied {
				return err
			}
		}
		return nil
	})
	require.NoError(t, group.Wait())
	require.Greater(t, moved, 100)
	a := audit(t, s)
	require.Equal(t, store.Audit{Completed: a.Completed, Cancelled: a.Cancelled}, store.Audit{Completed: len(ids) - a.Cancelled, Cancelled: a.Cancelled})
	sound(t, s)
	require.False(t, leaf(t, s, store.Jobs, 8).Used)
}

// A worker that does not own the tables removes days too, when nobody is using them.
func TestRemoveWithoutOwning(t *testing.T) {
	t.Parallel()
	s, pool := open(t)
	for _, n := range []int{10, 11} {
		exec(t, pool, `SELECT pawl.ensure_day(pawl.day_of(now()) - $1)`, n)
	}
	tx := begin(t, pool, pgx.ReadCommitted)
	_, err := tx.Exec(t.Context(), `SELECT FROM pawl.jobs`)
	require.NoError(t, err)
	gone, err := s.Remove(t.Context(), leaf(t, s, store.Jobs, 10))
	require.NoError(t, err)
	require.False(t, gone, "somebody has the table locked")
	require.NoError(t, tx.Rollback(t.Context()))
	for _, l := range []store.Leaf{leaf(t, s, store.Jobs, 10), leaf(t, s, store.Outcomes, 11)} {
		gone, err = s.Remove(t.Context(), l)
		require.NoError(t, err)
		require.True(t, gone)
		gone, err = s.Remove(t.Context(), l)
		require.NoError(t, err)
		require.False(t, gone, "it is not there any more")
	}
	// One that the owner was interrupted with is finished.
	owner := storeOf(t, pool)
	tx = begin(t, pool, pgx.ReadCommitted)
	_, err = tx.Exec(t.Context(), `SELECT FROM pawl.jobs`)
	require.NoError(t, err)
	soon, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err = owner.Remove(soon, leaf(t, s, store.Jobs, 11))
	require.Error(t, err)
	testdb.Eventually(t, 10*time.Second, "the leaf to be on its way out", func() bool { return leaf(t, s, store.Jobs, 11).State == store.Pending })
	// While somebody still uses it, that is waited for, but not for long.
	began := time.Now()
	gone, err = s.Remove(t.Context(), leaf(t, s, store.Jobs, 11))
	require.NoError(t, err)
	require.False(t, gone)
	require.Less(t, time.Since(began), 10*time.Second)
	require.Equal(t, store.Pending, leaf(t, s, store.Jobs, 11).State)
	require.NoError(t, tx.Rollback(t.Context()))
	gone, err = s.Remove(t.Context(), leaf(t, s, store.Jobs, 11))
	require.NoError(t, err)
	require.True(t, gone)
	// One that somebody has added to stays, and is locked no longer than for that look.
	exec(t, pool, `SELECT pawl.ensure_day(pawl.day_of(now()) - 12)`)
	exec(t, pool, `INSERT INTO pawl.outcomes (day, job_id, job_day, outcome, attempts, queue, claimed_at, finished_at)
		SELECT pawl.day_of(now()) - 12, gen_random_uuid(), 1, 1, 1, 'q', now(), now()`)
	gone, err = s.Remove(t.Context(), leaf(t, s, store.Outcomes, 12))
	require.NoError(t, err)
	require.False(t, gone)
	tx = begin(t, testdb.As(t, pool, testdb.Worker), pgx.ReadCommitted)
	var detached bool
	require.NoError(t, tx.QueryRow(t.Context(), `SELECT pawl.detach_leaf('outcomes', pawl.day_of(now()) - 12, 1)`).Scan(&detached))
	require.False(t, detached)
	exec(t, pool, `SET lock_timeout = '2s'; SELECT FROM pawl.outcomes`, pgx.QueryExecModeSimpleProtocol)
}
