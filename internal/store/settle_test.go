package store_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/pawlgo/pawl/internal/store"
)

// everything is the text of all that a settlement could change.
func everything(t *testing.T, pool *pgxpool.Pool) string {
	t.Helper()
	return query[string](t, pool, `SELECT concat_ws(E'\n',
		(SELECT json_agg(x ORDER BY x.id) FROM pawl.ready x), (SELECT json_agg(x ORDER BY x.token) FROM pawl.leases x),
		(SELECT json_agg(x ORDER BY x.job_id) FROM pawl.outcomes x), (SELECT json_agg(x ORDER BY x.job_id) FROM pawl.dead_letters x),
		(SELECT json_agg(x ORDER BY x.job_id, x.attempt) FROM pawl.job_errors x), (SELECT json_agg(x ORDER BY x.job_id) FROM pawl.quarantine x))`)
}

// What does not name a lease of its owner's and an open job in it is refused,
// and changes nothing.
func TestFence(t *testing.T) {
	t.Parallel()
	s, pool := open(t)
	owner, other := register(t, s, time.Minute), register(t, s, time.Minute)
	enqueue(t, pool, 6)
	mine, theirs := claim(t, s, owner, 3), claim(t, s, other, 3)
	require.Equal(t, []bool{true}, settle(t, s, owner, settlement(mine[2], store.Completed)))
	before := everything(t, pool)

	j := mine[0]
	for name, c := range map[string]struct {
		owner      uuid.UUID
		settlement store.Settlement
	}{
		"another owner":    {other, settlement(j, store.Completed)},
		"a dead owner":     {uuid.New(), settlement(j, store.Completed)},
		"no owner":         {uuid.Nil, settlement(j, store.Completed)},
		"an unknown token": {owner, store.Settlement{Token: uuid.New(), Position: j.Position, ID: j.ID}},
		"another's token":  {owner, store.Settlement{Token: theirs[0].Token, Position: theirs[0].Position, ID: theirs[0].ID}},
		"mixed tokens":     {owner, store.Settlement{Token: theirs[0].Token, Position: j.Position, ID: j.ID}},
		"another position": {owner, store.Settlement{Token: j.Token, Position: 2, ID: j.ID}},
		"position 0":       {owner, store.Settlement{Token: j.Token, Position: 0, ID: j.ID}},
		"position -1":      {owner, store.Settlement{Token: j.Token, Position: -1, ID: j.ID}},
		"position 4":       {owner, store.Settlement{Token: j.Token, Position: 4, ID: j.ID}},
		"position 129":     {owner, store.Settlement{Token: j.Token, Position: 129, ID: j.ID}},
		"position huge":    {owner, store.Settlement{Token: j.Token, Position: math.MaxInt32, ID: j.ID}},
		"another id":       {owner, store.Settlement{Token: j.Token, Position: j.Position, ID: mine[1].ID}},
		"an unknown id":    {owner, store.Settlement{Token: j.Token, Position: j.Position, ID: uuid.New()}},
		"settled before":   {owner, settlement(mine[2], store.Completed)},
	} {
		for _, outcome := range []store.Outcome{store.Completed, store.Retry, store.Dead, store.GiveBack, store.Cancelled, store.Quarantine} {
			x := c.settlement
			x.Outcome, x.Code, x.Summary = outcome, "code", "summary"
			require.Equal(t, []bool{false}, settle(t, s, c.owner, x), "%s, outcome %d", name, outcome)
		}
		require.Equal(t, before, everything(t, pool), name)
	}

	// Among refused ones, those of the owner are saved.
	require.Equal(t, []bool{false, true, false, true}, settle(t, s, owner,
		settlement(theirs[0], store.Completed), settlement(mine[0], store.Completed), settlement(mine[2], store.Retry), settlement(mine[1], store.Completed)))
	require.Equal(t, store.Audit{Leased: 3, Completed: 3}, audit(t, s))
	require.Empty(t, settle(t, s, owner))
}

// A job of an outcome that does not exist stays where it is: it must not
// disappear from its lease into nowhere.
func TestUnknownOutcome(t *testing.T) {
	t.Parallel()
	s, pool := open(t)
	owner := register(t, s, time.Minute)
	enqueue(t, pool, 2)
	jobs := claim(t, s, owner, 2)
	before := everything(t, pool)
	for _, outcome := range []store.Outcome{0, -1, 8, 99, math.MaxInt16} {
		x := settlement(jobs[0], outcome)
		x.Code, x.Summary = "code", "summary"
		require.Equal(t, []bool{false}, settle(t, s, owner, x), "outcome %d", outcome)
		require.Equal(t, before, everything(t, pool))
	}
	require.Equal(t, []bool{false, true}, settle(t, s, owner, settlement(jobs[0], 0), settlement(jobs[1], store.Completed)))
	require.Equal(t, store.Audit{Leased: 1, Completed: 1}, audit(t, s))
}

// Of two settlements of one attempt in one call, the first one counts.
func TestDoubledSettlement(t *testing.T) {
	t.Parallel()
	s, pool := open(t)
	owner := register(t, s, time.Minute)
	enqueue(t, pool, 3)
	jobs := claim(t, s, owner, 3)
	require.Equal(t, []bool{true, false, true, false, false}, settle(t, s, owner,
		settlement(jobs[0], store.Completed), settlement(jobs[0], store.Completed),
		settlement(jobs[1], store.Retry), settlement(jobs[1], store.Dead), settlement(jobs[1], store.Retry)))
	require.Equal(t, store.Audit{Leased: 1, Completed: 1, Ready: 1}, audit(t, s))
}

// A lease of a hundred, settled in pieces and in any order.
func TestSettleInPieces(t *testing.T) {
	t.Parallel()
	s, pool := open(t)
	owner := register(t, s, time.Minute)
	ids := enqueue(t, pool, 100)
	jobs := claim(t, s, owner, 100)
	rand.Shuffle(len(jobs), func(i, k int) { jobs[i], jobs[k] = jobs[k], jobs[i] })
	want := make(map[uuid.UUID]store.Outcome)
	outcomes := []store.Outcome{store.Completed, store.Retry, store.Dead, store.GiveBack, store.Cancelled}
	for from, n := 0, 0; from < len(jobs); from += n {
		n = min(1+rand.IntN(9), len(jobs)-from)
		var part []store.Settlement
		for _, j := range jobs[from : from+n] {
			x := settlement(j, outcomes[rand.IntN(len(outcomes))])
			want[j.ID] = x.Outcome
			if x.Outcome != store.Completed {
				x.Code, x.Summary, x.Delay = "code", "summary of "+j.ID.String(), time.Hour
			}
			part = append(part, x)
		}
		for _, ok := range settle(t, s, owner, part...) {
			require.True(t, ok)
		}
		a := audit(t, s)
		require.Equal(t, len(jobs)-from-n, a.Leased)
		require.Zero(t, a.Lost+a.Doubled)
	}
	require.Zero(t, query[int](t, pool, `SELECT count(*) FROM pawl.leases`))
	for _, id := range ids {
		status := map[store.Outcome]string{store.Completed: "completed", store.Retry: "retrying", store.Dead: "dead", store.GiveBack: "scheduled", store.Cancelled: "cancelled"}[want[id]]
		require.Equal(t, status, query[string](t, pool, `SELECT status FROM pawl.job_status WHERE id = $1`, id))
		if want[id] != store.Completed {
			require.Equal(t, "summary of "+id.String(), query[string](t, pool, `SELECT summary FROM pawl.job_errors WHERE job_id = $1`, id))
		}
	}
}

func TestDelays(t *testing.T) {
	t.Parallel()
	s, pool := open(t)
	owner := register(t, s, time.Minute)
	for _, d := range []time.Duration{0, time.Microsecond, time.Second, 24 * time.Hour, math.MaxInt64} {
		id := enqueue(t, pool, 1)[0]
		x := settlement(claim(t, s, owner, 1)[0], store.Retry)
		x.Delay = d
		require.Equal(t, []bool{true}, settle(t, s, owner, x))
		got := time.Duration(query[float64](t, pool, `DELETE FROM pawl.ready WHERE id = $1 RETURNING extract(epoch FROM run_at - clock_timestamp())::float8`, id) * 1e9)
		require.InDelta(t, d.Seconds(), got.Seconds(), 10)
		require.LessOrEqual(t, got, d)
	}
}

// One job of a batch cannot be stored as asked: the error is of the data, and
// nothing of the call is written.
func TestHostileSummary(t *testing.T) {
	t.Parallel()
	s, pool := open(t)
	owner := register(t, s, time.Minute)
	enqueue(t, pool, 2)
	jobs := claim(t, s, owner, 2)
	before := everything(t, pool)
	for _, text := range []string{"a\x00b", "\xff\xfe"} {
		x := settlement(jobs[0], store.Retry)
		x.Code, x.Summary = "code", text
		_, err := s.Settle(t.Context(), owner, []store.Settlement{x, settlement(jobs[1], store.Completed)})
		pgErr, ok := errors.AsType[*pgconn.PgError](err)
		require.True(t, ok, "%v", err)
		require.Equal(t, "22", pgErr.Code[:2])
		require.Equal(t, before, everything(t, pool))
	}
	require.Equal(t, []bool{true, true}, settle(t, s, owner, settlement(jobs[0], store.Completed), settlement(jobs[1], store.Completed)))
}

// A job without its row has no other attempt and no dead letter: it is set aside,
// and that is what its worker is told.
func TestSettleWithoutARow(t *testing.T) {
	t.Parallel()
	for outcome, want := range map[store.Outcome]store.Outcome{
		store.Completed: store.Completed, store.Cancelled: store.Cancelled,
		store.Retry: store.Quarantine, store.Dead: store.Quarantine, store.GiveBack: store.Quarantine,
	} {
		t.Run(fmt.Sprint(outcome), func(t *testing.T) {
			t.Parallel()
			s, pool := open(t)
			owner := register(t, s, time.Minute)
			ids := enqueue(t, pool, 2)
			jobs := claim(t, s, owner, 2)
			exec(t, pool, `DELETE FROM pawl.jobs WHERE id = $1`, ids[0])
			recorded, err := s.Settle(t.Context(), owner, []store.Settlement{settlement(jobs[0], outcome), settlement(jobs[1], outcome)})
			require.NoError(t, err)
			require.Equal(t, []store.Outcome{want, outcome}, recorded)
		})
	}
}

// Somebody deletes the job's row while its settlement is under way: the job is in
// one place all the same.
func TestRowDeletedDuringSettlement(t *testing.T) {
	t.Parallel()
	for outcome, table := range map[store.Outcome]string{store.Retry: "ready", store.GiveBack: "ready", store.Dead: "dead_letters"} {
		t.Run(fmt.Sprint(outcome), func(t *testing.T) {
			t.Parallel()
			s, pool := open(t)
			owner := register(t, s, time.Minute)
			enqueue(t, pool, 1)
			jobs := claim(t, s, owner, 1)
			exec(t, pool, `CREATE FUNCTION meddle() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN DELETE FROM pawl.jobs; RETURN NULL; END $$`)
			exec(t, pool, `CREATE TRIGGER meddle AFTER INSERT ON pawl.`+table+` FOR EACH STATEMENT EXECUTE FUNCTION meddle()`)
			recorded, err := s.Settle(t.Context(), owner, []store.Settlement{settlement(jobs[0], outcome)})
			require.NoError(t, err)
			require.Equal(t, []store.Outcome{outcome}, recorded)
			require.Zero(t, query[int](t, pool, `SELECT count(*) FROM pawl.quarantine`))
			require.Equal(t, 1, query[int](t, pool, `SELECT (SELECT count(*) FROM pawl.ready) + (SELECT count(*) FROM pawl.outcomes)`))
		})
	}
}

// What an earlier accident left does not stop a settlement: a dead letter or an
// error of the same job, a job without a row, a day without a partition.
func TestSettleAmongLeftovers(t *testing.T) {
	t.Parallel()
	for _, outcome := range []store.Outcome{store.Completed, store.Retry, store.Dead, store.GiveBack, store.Cancelled, store.Quarantine} {
		t.Run(fmt.Sprint(outcome), func(t *testing.T) {
			t.Parallel()
			s, pool := open(t)
			owner := register(t, s, time.Minute)
			ids := enqueue(t, pool, 3)
			jobs := claim(t, s, owner, 3)
			exec(t, pool, `INSERT INTO pawl.dead_letters SELECT id, kind, queue, version, capability, priority, '', 1, 3, 'old', 'old', now(), now(), args FROM pawl.jobs WHERE id = $1`, ids[0])
			exec(t, pool, `INSERT INTO pawl.job_errors VALUES (pawl.day_of(now()), $1, 1, now(), 'old', 'old')`, ids[0])
			exec(t, pool, `DELETE FROM pawl.jobs WHERE id = $1`, ids[1])
			exec(t, pool, `DO $$ DECLARE leaf regclass; BEGIN
				FOR leaf IN SELECT inhrelid::regclass FROM pg_inherits WHERE inhparent = 'pawl.outcomes'::regclass LOOP
					EXECUTE format('DROP TABLE %s', leaf);
				END LOOP; END $$`)
			settlements := make([]store.Settlement, 3)
			for i, j := range jobs {
				settlements[i] = settlement(j, outcome)
				settlements[i].Code, settlements[i].Summary = "code", "summary"
			}
			require.Equal(t, []bool{true, true, true}, settle(t, s, owner, settlements...))
			require.Zero(t, query[int](t, pool, `SELECT count(*) FROM pawl.leases`))
			a := audit(t, s)
			require.Zero(t, a.Lost+a.Doubled+a.Homeless+a.Leased)
			require.Equal(t, 3, a.Ready+a.Completed+a.Dead+a.Cancelled+a.Quarantined)
			require.Zero(t, query[int](t, pool, `SELECT count(*) FROM pawl.quarantine q JOIN pawl.outcomes o ON o.job_id = q.job_id`), "set aside and ended")
			require.Zero(t, query[int](t, pool, `SELECT count(*) FROM pawl.outcomes o WHERE o.outcome = 3
				AND NOT EXISTS (SELECT FROM pawl.dead_letters d WHERE d.job_id = o.job_id)`), "died without a dead letter")
		})
	}
}

// A claim whose answer was lost is given back whole, attempts included.
func TestReleaseLease(t *testing.T) {
	t.Parallel()
	s, pool := open(t)
	owner, other := register(t, s, time.Minute), register(t, s, time.Minute)
	enqueue(t, pool, 10)
	jobs := claim(t, s, owner, 5)
	claim(t, s, other, 5)
	settle(t, s, owner, settlement(jobs[1], store.Completed), settlement(jobs[3], store.Completed))
	require.NoError(t, released(s.ReleaseLeases(t.Context(), owner, uuid.New())))
	require.NoError(t, released(s.ReleaseLeases(t.Context(), other, jobs[0].Token)))
	require.Equal(t, store.Audit{Leased: 8, Completed: 2}, audit(t, s))
	for range 2 {
		require.NoError(t, released(s.ReleaseLeases(t.Context(), owner, jobs[0].Token)))
		require.Equal(t, store.Audit{Leased: 5, Completed: 2, Ready: 3}, audit(t, s))
	}
	again := claim(t, s, owner, 10)
	require.Len(t, again, 3)
	for _, j := range again {
		require.Equal(t, 1, j.Attempt)
	}
}
