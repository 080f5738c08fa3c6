package store_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/pawlgo/pawl/internal/store"
	"github.com/pawlgo/pawl/internal/testdb"
)

func priority(p int16) func(*store.Batch)      { return func(b *store.Batch) { b.Priority = p } }
func delay(d time.Duration) func(*store.Batch) { return func(b *store.Batch) { b.Delay = d } }
func queue(name string) func(*store.Batch)     { return func(b *store.Batch) { b.Queue = name } }
func capable(c int64) func(*store.Batch)       { return func(b *store.Batch) { b.Capability = c } }
func attempts(n int) func(*store.Batch)        { return func(b *store.Batch) { b.MaxAttempts = n } }
func idsOf(jobs []store.ClaimedJob) (ids []uuid.UUID) {
	for _, j := range jobs {
		ids = append(ids, j.ID)
	}
	return ids
}

func TestClaimOrder(t *testing.T) {
	t.Parallel()
	s, pool := open(t)
	owner := register(t, s, time.Minute)
	byLevel := make(map[int16][]uuid.UUID)
	for range 5 {
		for _, p := range rand.Perm(4) {
			level := int16(p + 1)
			byLevel[level] = append(byLevel[level], enqueue(t, pool, 2, priority(level))...)
		}
	}
	var want, got []uuid.UUID
	for level := int16(4); level >= 1; level-- {
		want = append(want, byLevel[level]...)
	}
	for len(got) < len(want) {
		jobs := claim(t, s, owner, 7)
		require.NotEmpty(t, jobs)
		got = append(got, idsOf(jobs)...)
	}
	require.Equal(t, want, got)
	require.Empty(t, claim(t, s, owner, 7))
}

func TestClaimTakesOnlyWhatIsDueAndKnown(t *testing.T) {
	t.Parallel()
	s, pool := open(t)
	owner := register(t, s, time.Minute)
	future := enqueue(t, pool, 1, delay(time.Hour), priority(4))
	enqueue(t, pool, 1, delay(2*time.Hour))
	enqueue(t, pool, 3, queue("other"))
	enqueue(t, pool, 3, capable(8), priority(4))
	due := enqueue(t, pool, 1, priority(1))

	claimed, err := s.Claim(t.Context(), &store.Claim{Owner: owner, Token: uuid.New(), Queue: "q", Limit: 10, Capabilities: []int64{capability}})
	require.NoError(t, err)
	require.Equal(t, due, idsOf(claimed.Jobs))
	require.WithinDuration(t, claimed.At.Add(time.Hour), claimed.Next, time.Minute)
	require.Equal(t, store.Audit{Ready: 8, Leased: 1}, audit(t, s))
	require.Equal(t, 0, query[int](t, pool, `SELECT sum(attempts) FROM pawl.ready`), "what was not taken keeps its attempts")

	exec(t, pool, `UPDATE pawl.ready SET run_at = clock_timestamp() WHERE id = $1`, future[0])
	require.Equal(t, future, idsOf(claim(t, s, owner, 1)), "a claim that fills up")
	exec(t, pool, `DELETE FROM pawl.ready WHERE run_at > clock_timestamp()`)
	claimed, err = s.Claim(t.Context(), &store.Claim{Owner: owner, Token: uuid.New(), Queue: "q", Limit: 10, Capabilities: []int64{capability, 9}})
	require.NoError(t, err)
	require.Empty(t, claimed.Jobs)
	require.True(t, claimed.Next.IsZero())
}

func TestClaimFloors(t *testing.T) {
	t.Parallel()
	s, pool := open(t)
	owner := register(t, s, time.Minute)
	ids := enqueue(t, pool, 1, priority(3))
	ids = append(ids, enqueue(t, pool, 1, priority(2))...)
	now := query[time.Time](t, pool, `SELECT clock_timestamp()`)
	at := func(floors [store.Priorities]time.Time) []uuid.UUID {
		claimed, err := s.Claim(t.Context(), &store.Claim{Owner: owner, Token: uuid.New(), Queue: "q", Limit: 10, Capabilities: []int64{capability}, Floors: floors})
		require.NoError(t, err)
		return idsOf(claimed.Jobs)
	}
	require.Empty(t, at([store.Priorities]time.Time{now, now, now, now}))
	require.Empty(t, at([store.Priorities]time.Time{{}, now, now, {}}))
	require.Equal(t, ids[1:], at([store.Priorities]time.Time{now, now, {}, now}))
	exact := query[time.Time](t, pool, `SELECT run_at FROM pawl.ready`)
	require.Equal(t, ids[:1], at([store.Priorities]time.Time{{}, exact, {}, {}}), "a floor is inclusive")
}

func TestClaimByAStranger(t *testing.T) {
	t.Parallel()
	s, pool := open(t)
	owner := register(t, s, time.Minute)
	enqueue(t, pool, 3)
	_, err := s.Claim(t.Context(), &store.Claim{Owner: uuid.New(), Token: uuid.New(), Queue: "q", Limit: 10, Capabilities: []int64{capability}})
	pgErr, ok := errors.AsType[*pgconn.PgError](err)
	require.True(t, ok, "%v", err)
	require.Equal(t, store.NotRegistered, pgErr.Code)
	_, err = s.Claim(t.Context(), &store.Claim{Owner: owner, Token: uuid.New(), Queue: "q", Limit: store.MaxBatch + 1})
	require.ErrorContains(t, err, "at most 128")
	require.Equal(t, store.Audit{Ready: 3}, audit(t, s))
}

// A full lease uses every bit of its map.
func TestFullLease(t *testing.T) {
	t.Parallel()
	s, pool := open(t)
	owner := register(t, s, time.Minute)
	enqueue(t, pool, store.MaxBatch+1)
	jobs := claim(t, s, owner, store.MaxBatch)
	require.Len(t, jobs, store.MaxBatch)
	require.Equal(t, store.Audit{Ready: 1, Leased: store.MaxBatch}, audit(t, s))
	for i := len(jobs) - 1; i >= 0; i-- {
		require.Equal(t, []bool{true}, settle(t, s, owner, settlement(jobs[i], store.Completed)))
	}
	require.Equal(t, store.Audit{Ready: 1, Completed: store.MaxBatch}, audit(t, s))
	require.Zero(t, query[int](t, pool, `SELECT count(*) FROM pawl.leases`))
}

// A claim of more than a lease holds makes several, each full but the last.
func TestClaimOfSeveralLeases(t *testing.T) {
	t.Parallel()
	s, pool := open(t)
	owner := register(t, s, time.Minute)
	ids := enqueue(t, pool, 300)
	tokens := []uuid.UUID{uuid.New(), uuid.New(), uuid.New()}
	claimed, err := s.Claim(t.Context(), &store.Claim{Owner: owner, Token: tokens[0], MoreTokens: tokens[1:], Queue: "q", Limit: 300, Capabilities: []int64{capability}})
	require.NoError(t, err)
	require.Equal(t, ids, idsOf(claimed.Jobs))
	settlements := make([]store.Settlement, 300)
	for i, j := range claimed.Jobs {
		require.Equal(t, tokens[i/store.MaxBatch], j.Token)
		require.Equal(t, 1+i%store.MaxBatch, j.Position)
		settlements[i] = settlement(j, store.Completed)
	}
	require.Equal(t, store.Audit{Leased: 300}, audit(t, s))
	require.NotContains(t, settle(t, s, owner, settlements...), false)
	require.Equal(t, store.Audit{Completed: 300}, audit(t, s))
	require.Zero(t, query[int](t, pool, `SELECT count(*) FROM pawl.leases`))
}

// Eight claimers of three processes, each of one queue or of several at once, with
// retries and give-backs in between: every job is done exactly once, and no two hold
// one at the same time.
func TestClaimersNeverShare(t *testing.T) {
	t.Parallel()
	const jobs = 3000
	pool := testdb.Migrated(t)
	s, err := store.Open(t.Context(), pool, store.DefaultSchema, 8)
	require.NoError(t, err)
	defer s.Close()
	names := []string{"q", "r", "s"}
	for i := range jobs / 500 {
		enqueue(t, pool, 500, attempts(100), queue(names[i%len(names)]))
	}
	owners := []uuid.UUID{register(t, s, time.Minute), register(t, s, time.Minute), register(t, s, time.Minute)}

	var (
		mu        sync.Mutex
		held      = make(map[uuid.UUID]bool)
		completed = make(map[uuid.UUID]int)
	)
	work := func(owner uuid.UUID, random *rand.Rand) error {
		for {
			var claims []*store.Claim
			for _, n := range random.Perm(len(names))[:1+random.IntN(len(names))] {
				claims = append(claims, &store.Claim{Owner: owner, Token: uuid.New(), Queue: names[n], Limit: 1 + random.IntN(100), Capabilities: []int64{capability}})
			}
			if len(claims) == 1 {
				claims[0].SuspectToken = uuid.New()
			}
			all, err := s.ClaimAll(t.Context(), claims)
			if err != nil {
				return err
			}
			var got []store.ClaimedJob
			for _, c := range all {
				got = append(got, c.Jobs...)
			}
			if len(got) == 0 {
				mu.Lock()
				done := len(completed) == jobs
				mu.Unlock()
				if done || t.Context().Err() != nil {
					return t.Context().Err()
				}
				continue
			}
			mu.Lock()
			for _, j := range got {
				if held[j.ID] || completed[j.ID] > 0 {
					err = fmt.Errorf("job %s is claimed twice", j.ID)
				}
				held[j.ID] = true
			}
			mu.Unlock()
			if err != nil {
				return err
			}
			random.Shuffle(len(got), func(i, k int) { got[i], got[k] = got[k], got[i] })
			for from := 0; from < len(got); {
				part := got[from:min(from+1+random.IntN(40), len(got))]
				from += len(part)
				settlements := make([]store.Settlement, len(part))
				mu.Lock()
				for i, j := range part {
					settlements[i] = settlement(j, []store.Outcome{store.Completed, store.Completed, store.Completed, store.Retry, store.GiveBack}[random.IntN(5)])
					delete(held, j.ID)
					if settlements[i].Outcome == store.Completed {
						completed[j.ID]++
					}
				}
				mu.Unlock()
				recorded, err := s.Settle(t.Context(), owner, settlements)
				if err != nil {
					return err
				}
				for i, outcome := range recorded {
					if outcome == store.Refused {
						return fmt.Errorf("the settlement of job %s is refused", part[i].ID)
					}
				}
			}
		}
	}
	var claimers sync.WaitGroup
	for i := range 8 {
		claimers.Go(func() {
			if err := work(owners[i%3], rand.New(rand.NewPCG(uint64(i), 1))); err != nil {
				t.Error(err)
			}
		})
	}
	claimers.Wait()
	require.Equal(t, store.Audit{Completed: jobs}, audit(t, s))
	require.Zero(t, query[int](t, pool, `SELECT count(*) FROM pawl.leases`))
}

// A job without its row is handed out as missing; its neighbours run.
func TestMissingRow(t *testing.T) {
	t.Parallel()
	s, pool := open(t)
	owner := register(t, s, time.Minute)
	ids := enqueue(t, pool, 5)
	exec(t, pool, `DELETE FROM pawl.jobs WHERE id = $1`, ids[2])
	require.Equal(t, store.Audit{Ready: 5, Homeless: 1}, audit(t, s))
	jobs := claim(t, s, owner, 10)
	require.Equal(t, ids, idsOf(jobs))
	settlements := make([]store.Settlement, len(jobs))
	for i, j := range jobs {
		require.Equal(t, i == 2, j.Missing)
		settlements[i] = settlement(j, store.Completed)
		if j.Missing {
			settlements[i].Outcome = store.Quarantine
			settlements[i].Code, settlements[i].Summary = "missing", "no row"
		}
	}
	require.Equal(t, []bool{true, true, true, true, true}, settle(t, s, owner, settlements...))
	require.Equal(t, store.Audit{Completed: 4, Quarantined: 1}, audit(t, s))
	require.Equal(t, "no row", query[string](t, pool, `SELECT reason FROM pawl.quarantine WHERE job_id = $1`, ids[2]))
}

// Attempts at the ends of their range: a row that was changed by hand, and a
// smallint that must not overflow.
func TestAttemptsAtTheirEnd(t *testing.T) {
	t.Parallel()
	s, pool := open(t)
	owner := register(t, s, time.Minute)
	ids := enqueue(t, pool, 3, attempts(store.MaxAttempts))
	exec(t, pool, `UPDATE pawl.ready SET attempts = 32766 WHERE id <> $1`, ids[0])
	for _, bad := range []int{-1, 32767} {
		_, err := pool.Exec(t.Context(), `UPDATE pawl.ready SET attempts = $1`, bad)
		require.ErrorContains(t, err, "ready_in_range")
	}
	jobs := claim(t, s, owner, 10)
	require.Len(t, jobs, 3)
	require.Equal(t, []int{1, 32767, 32767}, []int{jobs[0].Attempt, jobs[1].Attempt, jobs[2].Attempt})
	dead := settlement(jobs[2], store.Dead)
	dead.Code, dead.Summary = "attempts_exhausted", "too many"
	require.Equal(t, []bool{true, true, true}, settle(t, s, owner, settlement(jobs[0], store.GiveBack), settlement(jobs[1], store.Retry), dead))
	require.Equal(t, store.Audit{Ready: 2, Dead: 1}, audit(t, s))
	require.Equal(t, 0, query[int](t, pool, `SELECT attempts FROM pawl.ready WHERE id = $1`, ids[0]))
	require.Equal(t, 32766, query[int](t, pool, `SELECT attempts FROM pawl.ready WHERE id = $1`, ids[1]))
}

// buffers is how many pages a claim of 20 touches that starts at the floor. One
// that has to plan anew, since the tables were analyzed just now, also reads the
// catalog; the better of two does not.
func buffers(t *testing.T, pool *pgxpool.Pool, owner uuid.UUID, floor string) int {
	t.Helper()
	return min(buffersOnce(t, pool, owner, floor), buffersOnce(t, pool, owner, floor))
}

func buffersOnce(t *testing.T, pool *pgxpool.Pool, owner uuid.UUID, floor string) int {
	t.Helper()
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	defer tx.Rollback(t.Context())
	var plan []byte
	require.NoError(t, tx.QueryRow(t.Context(), `EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON)
		SELECT * FROM pawl.claim($1, '{q}', '{20}', ARRAY[$2::uuid], '{7}', '{1}', array_fill($4::timestamptz, '{4}'), p_suspect_token => $3)`,
		pgx.QueryExecModeSimpleProtocol, owner.String(), uuid.NewString(), uuid.NewString(), floor).Scan(&plan))
	var nodes []struct {
		Plan struct {
			Hit  int     `json:"Shared Hit Blocks"`
			Read int     `json:"Shared Read Blocks"`
			Rows float64 `json:"Actual Rows"`
		}
	}
	require.NoError(t, json.Unmarshal(plan, &nodes))
	require.InDelta(t, 21, nodes[0].Plan.Rows, 0, "20 jobs and the last row")
	return nodes[0].Plan.Hit + nodes[0].Plan.Read
}

// A table that was vacuumed while empty and then fills up misleads the planner;
// a claim must not follow it. One session polls, as a worker does.
func TestPlans(t *testing.T) {
	t.Parallel()
	for _, queues := range []int{1, 64} {
		t.Run(fmt.Sprint(queues), func(t *testing.T) {
			t.Parallel()
			pool := testdb.Migrated(t, testdb.MaxConns(1))
			s, err := store.Open(t.Context(), pool, store.DefaultSchema, 1)
			require.NoError(t, err)
			defer s.Close()
			owner := register(t, s, time.Hour)
			exec(t, pool, `VACUUM ANALYZE`)
			for range 10 {
				require.Empty(t, claim(t, s, owner, 20))
				exec(t, pool, `SELECT * FROM pawl.claim($1, '{q}', '{20}', ARRAY[$2::uuid], '{7}', '{1}', array_fill('-infinity'::timestamptz, '{4}'), p_suspect_token => $3)`, owner, uuid.New(), uuid.New())
			}
			enqueue(t, pool, 40)
			small := buffers(t, pool, owner, "-infinity")

			fill := func(n int, change ...func(*store.Batch)) {
				for range n / 10_000 {
					enqueue(t, pool, 10_000, change...)
				}
			}
			fill(60_000)
			fill(20_000, delay(time.Hour), priority(4))
			for n := range queues {
				enqueue(t, pool, 20_000/queues, queue(fmt.Sprintf("other%d", n)))
			}
			require.LessOrEqual(t, buffers(t, pool, owner, "-infinity"), 2*small)
			require.Len(t, claim(t, s, owner, 20), 20)
		})
	}
}

// What a duplicate costs does not depend on how much waits: its state is looked
// up by index.
func TestStatePlan(t *testing.T) {
	t.Parallel()
	_, pool := open(t)
	exec(t, pool, `VACUUM ANALYZE`)
	pages := func(id uuid.UUID) int {
		var plan []byte
		require.NoError(t, pool.QueryRow(t.Context(), `EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON)
			SELECT pawl.job_state(pawl.day_of(clock_timestamp()), $1)`, pgx.QueryExecModeSimpleProtocol, id.String()).Scan(&plan))
		var nodes []struct {
			Plan struct {
				Hit  int `json:"Shared Hit Blocks"`
				Read int `json:"Shared Read Blocks"`
			}
		}
		require.NoError(t, json.Unmarshal(plan, &nodes))
		return nodes[0].Plan.Hit + nodes[0].Plan.Read
	}
	first := enqueue(t, pool, 100)[50]
	pages(first) // what a new session reads of the catalog
	for range 3 {
		enqueue(t, pool, 10_000)
	}
	last := enqueue(t, pool, 100)[50]
	for _, id := range []uuid.UUID{first, last} {
		require.Equal(t, "pending", query[string](t, pool, `SELECT pawl.job_state(pawl.day_of(clock_timestamp()), $1)`, id))
		most := 0
		for range 16 { // of any session of the pool
			most = pages(id)
		}
		require.Less(t, most, 100)
	}
}

// What no claimer knows does not slow a claim: the floor has passed it.
func TestStrandedPlan(t *testing.T) {
	t.Parallel()
	pool := testdb.Migrated(t, testdb.MaxConns(1))
	s, err := store.Open(t.Context(), pool, store.DefaultSchema, 1)
	require.NoError(t, err)
	defer s.Close()
	owner := register(t, s, time.Hour)
	exec(t, pool, `VACUUM ANALYZE`)
	enqueue(t, pool, 40)
	small := buffers(t, pool, owner, "-infinity")
	exec(t, pool, `DELETE FROM pawl.ready`)
	for range 5 {
		enqueue(t, pool, 10_000, func(b *store.Batch) { b.Capability = 99 })
	}
	claimed, err := s.Claim(t.Context(), &store.Claim{Owner: owner, Token: uuid.New(), Queue: "q", Limit: 20, Capabilities: []int64{capability}})
	require.NoError(t, err)
	require.Empty(t, claimed.Jobs)
	enqueue(t, pool, 40)
	require.LessOrEqual(t, buffers(t, pool, owner, claimed.At.Format(time.RFC3339Nano)), 2*small)
	require.Equal(t, 50_000, query[int](t, pool, `SELECT count(*) FROM pawl.ready WHERE capability = 99 AND attempts = 0`))
}

// Whoever may call the functions of an enqueue cannot store with them what no
// worker could run.
func TestEnqueueOutOfRange(t *testing.T) {
	t.Parallel()
	_, pool := open(t)
	const one = `SELECT pawl.enqueue_job('k', 'q', $1, 7, $2, $3, NULL, 0, gen_random_uuid(), '{}', '', NULL, false)`
	const many = `SELECT pawl.enqueue_jobs('k', 'q', $1, 7, $2, $3, NULL, 0, ARRAY[gen_random_uuid()], '{"{}"}', '{""}', NULL, 0, false, NULL, NULL)`
	for _, sql := range []string{one, many} {
		for _, bad := range [][3]int{{0, 2, 3}, {-1, 2, 3}, {1, 0, 3}, {1, 5, 3}, {1, 2, 0}, {1, 2, 32767}} {
			_, err := pool.Exec(t.Context(), sql, bad[0], bad[1], bad[2])
			require.ErrorContains(t, err, "SQLSTATE 23514", "%v", bad)
		}
		exec(t, pool, sql, 1, 4, 32766)
	}
	require.Equal(t, 2, query[int](t, pool, `SELECT count(*) FROM pawl.jobs`))
}
