package store_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
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

// cancellations does a worker's part about requests to cancel.
func cancellations(t *testing.T, s *store.Store, process uuid.UUID) []uuid.UUID {
	t.Helper()
	jobs, err := s.Cancellations(t.Context(), process)
	require.NoError(t, err)
	return jobs
}

func requests(t *testing.T, pool *pgxpool.Pool) int {
	t.Helper()
	return query[int](t, pool, `SELECT count(*) FROM pawl.cancel_requests`)
}

func isSerialization(err error) bool {
	pgErr, ok := errors.AsType[*pgconn.PgError](err)
	return ok && pgErr.Code == "40001"
}

// cancelResult is what a call in another goroutine came to.
type cancelResult struct {
	state string
	err   error
}

// cancelling cancels a job in a goroutine of its own, in a transaction that is
// then committed, and waits until that waits for somebody's lock.
func cancelling(t *testing.T, pool *pgxpool.Pool, level pgx.TxIsoLevel, id uuid.UUID) <-chan cancelResult {
	t.Helper()
	answers := make(chan cancelResult, 1)
	ctx := context.WithoutCancel(t.Context())
	go func() {
		var a cancelResult
		a.err = pgx.BeginTxFunc(ctx, pool, pgx.TxOptions{IsoLevel: level}, func(tx pgx.Tx) (err error) {
			a.state, err = store.Cancel(ctx, tx, store.DefaultSchema, id)
			return err
		})
		answers <- a
	}()
	waitsForALock(t, pool)
	return answers
}

// waitsForALock waits until a cancel does.
func waitsForALock(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	testdb.Eventually(t, 10*time.Second, "the cancel to wait", func() bool {
		return query[bool](t, pool, `SELECT EXISTS (SELECT FROM pg_stat_activity
			WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE '%cancel(%')`)
	})
}

// Wherever a job stands, one answer says what became of it, a second one agrees,
// and it has no other attempt.
func TestCancel(t *testing.T) {
	t.Parallel()
	type bench struct {
		s     *store.Store
		pool  *pgxpool.Pool
		owner uuid.UUID
	}
	ended := func(t *testing.T, b bench, outcome store.Outcome, code string, delay time.Duration) uuid.UUID {
		ids := enqueue(t, b.pool, 1)
		x := settlement(claim(t, b.s, b.owner, 1)[0], outcome)
		x.Code, x.Delay = code, delay
		require.Equal(t, []bool{true}, settle(t, b.s, b.owner, x))
		return ids[0]
	}
	for name, tt := range map[string]struct {
		put    func(*testing.T, bench) uuid.UUID
		answer string
	}{
		"pending":   {func(t *testing.T, b bench) uuid.UUID { return enqueue(t, b.pool, 1)[0] }, "cancelled"},
		"scheduled": {func(t *testing.T, b bench) uuid.UUID { return enqueue(t, b.pool, 1, delay(time.Hour))[0] }, "cancelled"},
		"stranded":  {func(t *testing.T, b bench) uuid.UUID { return enqueue(t, b.pool, 1, capable(99))[0] }, "cancelled"},
		"between retries": {func(t *testing.T, b bench) uuid.UUID {
			return ended(t, b, store.Retry, "transient", time.Hour)
		}, "cancelled"},
		"snoozed": {func(t *testing.T, b bench) uuid.UUID { return ended(t, b, store.GiveBack, "", time.Hour) }, "cancelled"},
		"suspect": {func(t *testing.T, b bench) uuid.UUID {
			ids := enqueue(t, b.pool, 1)
			exec(t, b.pool, `UPDATE pawl.ready SET suspect = true, attempts = 1`)
			return ids[0]
		}, "cancelled"},
		"moved by hand": {func(t *testing.T, b bench) uuid.UUID {
			ids := enqueue(t, b.pool, 1, delay(time.Hour))
			exec(t, b.pool, `UPDATE pawl.ready SET run_at = clock_timestamp()`)
			return ids[0]
		}, "cancelled"},
		"first of its key": {func(t *testing.T, b bench) uuid.UUID { return enqueue(t, b.pool, 2, ordered("a"))[0] }, "cancelled"},
		"blocked":          {func(t *testing.T, b bench) uuid.UUID { return enqueue(t, b.pool, 2, ordered("a"))[1] }, "cancelled"},
		"head": {func(t *testing.T, b bench) uuid.UUID {
			ids := enqueue(t, b.pool, 3, ordered("a"))
			jobs := turn(t, b.s, b.owner)
			settle(t, b.s, b.owner, end(jobs[0], store.Completed))
			return ids[1]
		}, "cancelled"},
		"leased": {func(t *testing.T, b bench) uuid.UUID {
			ids := enqueue(t, b.pool, 3)
			claim(t, b.s, b.owner, 3)
			return ids[1]
		}, "leased"},
		"running head": {func(t *testing.T, b bench) uuid.UUID {
			ids := enqueue(t, b.pool, 2, ordered("a"))
			turn(t, b.s, b.owner)
			return ids[0]
		}, "leased"},
		"completed": {func(t *testing.T, b bench) uuid.UUID { return ended(t, b, store.Completed, "", 0) }, "completed"},
		"dead":      {func(t *testing.T, b bench) uuid.UUID { return ended(t, b, store.Dead, "x", 0) }, "dead"},
		"cancelled": {func(t *testing.T, b bench) uuid.UUID { return ended(t, b, store.Cancelled, "x", 0) }, "cancelled"},
		"without history": {func(t *testing.T, b bench) uuid.UUID {
			id := ended(t, b, store.Completed, "", 0)
			exec(t, b.pool, `DELETE FROM pawl.jobs`)
			return id
		}, "completed"},
		"a dead letter alone": {func(t *testing.T, b bench) uuid.UUID {
			id := ended(t, b, store.Dead, "x", 0)
			exec(t, b.pool, `DELETE FROM pawl.jobs`)
			exec(t, b.pool, `DELETE FROM pawl.outcomes`)
			return id
		}, "dead"},
		"unknown": {func(t *testing.T, b bench) uuid.UUID { return uuid.New() }, ""},
	} {
		for _, level := range levels {
			t.Run(fmt.Sprintf("%s/%s", name, level), func(t *testing.T) {
				t.Parallel()
				var b bench
				b.s, b.pool = open(t)
				b.owner = register(t, b.s, time.Minute)
				id := tt.put(t, b)
				before := audit(t, b.s)

				tx := begin(t, b.pool, level)
				require.Equal(t, tt.answer, cancelJob(t, tx, id))
				require.NoError(t, tx.Rollback(t.Context()))
				require.Equal(t, before, audit(t, b.s))
				require.Zero(t, requests(t, b.pool))

				tx = begin(t, b.pool, level)
				require.Equal(t, tt.answer, cancelJob(t, tx, id))
				require.Equal(t, tt.answer, cancelJob(t, tx, id), "twice in one transaction")
				commit(t, tx)
				tx = begin(t, b.pool, level)
				require.Equal(t, tt.answer, cancelJob(t, tx, id), "in another one")
				commit(t, tx)

				if tt.answer == "leased" {
					require.Equal(t, before, audit(t, b.s))
					require.Equal(t, 1, requests(t, b.pool))
					require.Equal(t, []uuid.UUID{id}, cancellations(t, b.s, b.owner))
					require.Empty(t, cancellations(t, b.s, register(t, b.s, time.Minute)), "it is another's")
					return
				}
				exec(t, b.pool, `UPDATE pawl.ready SET run_at = clock_timestamp(), capability = 7`)
				for jobs := turn(t, b.s, b.owner); len(jobs) > 0; jobs = turn(t, b.s, b.owner) {
					for _, j := range jobs {
						require.NotEqual(t, id, j.ID)
						settle(t, b.s, b.owner, end(j, store.Completed))
					}
				}
				require.Zero(t, requests(t, b.pool))
				if tt.answer == "cancelled" {
					require.Equal(t, "cancelled", status(t, b.pool, id))
				}
				nothingLeft(t, b.s, b.pool, b.owner)
			})
		}
	}
}

// A job that a caller enqueues and cancels in one transaction never runs, and
// is not lost.
func TestCancelOfTheTransactionsOwn(t *testing.T) {
	t.Parallel()
	for _, level := range levels {
		t.Run(string(level), func(t *testing.T) {
			t.Parallel()
			s, pool := open(t)
			owner := register(t, s, time.Minute)
			tx := begin(t, pool, level)
			ids := enqueueIn(t, tx, 2)
			chain := enqueueIn(t, tx, 3, ordered("a"))
			require.Equal(t, "cancelled", cancelJob(t, tx, ids[0]))
			require.Equal(t, "cancelled", cancelJob(t, tx, chain[0]))
			require.Equal(t, "cancelled", cancelJob(t, tx, chain[1]))
			require.Equal(t, "cancelled", cancelJob(t, tx, chain[1]))
			commit(t, tx)
			require.ElementsMatch(t, []uuid.UUID{ids[1], chain[2]}, idsOf(turn(t, s, owner)))
			require.Equal(t, store.Audit{Leased: 2, Cancelled: 3}, audit(t, s))
		})
	}
}

// Whatever moves the job while a cancel looks for it, the answer is true.
func TestCancelDuringAClaim(t *testing.T) {
	t.Parallel()
	for _, level := range levels {
		for _, committed := range []bool{true, false} {
			for _, key := range []string{"", "a"} {
				t.Run(fmt.Sprintf("%s/%t/%s", level, committed, key), func(t *testing.T) {
					t.Parallel()
					s, pool := open(t)
					owner := register(t, s, time.Minute)
					change := func(*store.Batch) {}
					if key != "" {
						change = ordered(key)
					}
					ids := enqueue(t, pool, 1, change)
					claiming := begin(t, pool, pgx.ReadCommitted)
					token := uuid.New()
					_, err := claiming.Exec(t.Context(), `SELECT FROM pawl.claim($1, '{q}', '{10}', ARRAY[$2::uuid], '{7}', '{1}', array_fill('-infinity'::timestamptz, '{4}'), p_ordered => true)`, owner, token)
					require.NoError(t, err)
					answers := cancelling(t, pool, level, ids[0])
					if committed {
						commit(t, claiming)
					} else {
						require.NoError(t, claiming.Rollback(t.Context()))
					}
					a := <-answers
					switch {
					case !committed:
						require.NoError(t, a.err)
						require.Equal(t, "cancelled", a.state)
						require.Equal(t, store.Audit{Cancelled: 1}, audit(t, s))
						require.Zero(t, requests(t, pool))
						return
					case level != pgx.ReadCommitted:
						require.True(t, isSerialization(a.err), "%v", a.err)
						require.Equal(t, "leased", cancelJob(t, pool, ids[0]), "in a new transaction")
					default:
						require.NoError(t, a.err)
						require.Equal(t, "leased", a.state)
					}
					require.Equal(t, []uuid.UUID{ids[0]}, cancellations(t, s, owner))
					recorded, err := s.Settle(t.Context(), owner, []store.Settlement{{Token: token, Position: 1, ID: ids[0], Ordered: key != "", Outcome: store.Retry, Code: "x"}})
					require.NoError(t, err)
					require.Equal(t, []store.Outcome{store.Cancelled}, recorded)
					require.Empty(t, cancellations(t, s, owner))
					require.Zero(t, requests(t, pool))
					require.Equal(t, store.Audit{Cancelled: 1}, audit(t, s))
				})
			}
		}
	}
}

// A transaction whose cancel has met a claim stays open: the end of the job does
// not wait for it.
func TestOpenCancelDuringAClaim(t *testing.T) {
	t.Parallel()
	s, pool := open(t)
	owner := register(t, s, time.Minute)
	ids := enqueue(t, pool, 2, ordered("a"))
	claiming, caller := begin(t, pool, pgx.ReadCommitted), begin(t, pool, pgx.ReadCommitted)
	token := uuid.New()
	_, err := claiming.Exec(t.Context(), `SELECT FROM pawl.claim($1, '{q}', '{10}', ARRAY[$2::uuid], '{7}', '{1}', array_fill('-infinity'::timestamptz, '{4}'), p_ordered => true)`, owner, token)
	require.NoError(t, err)
	answers := make(chan cancelResult, 1)
	ctx := context.WithoutCancel(t.Context())
	go func() {
		var a cancelResult
		a.state, a.err = store.Cancel(ctx, caller, store.DefaultSchema, ids[0])
		answers <- a
	}()
	waitsForALock(t, pool)
	commit(t, claiming)
	require.Equal(t, cancelResult{state: "leased"}, <-answers)
	begun := time.Now()
	recorded, err := s.Settle(t.Context(), owner, []store.Settlement{{Token: token, Position: 1, ID: ids[0], Ordered: true, Outcome: store.Completed}})
	require.NoError(t, err)
	require.Equal(t, []store.Outcome{store.Completed}, recorded)
	require.Less(t, time.Since(begun), 4*time.Second)
	commit(t, caller)
	require.Equal(t, ids[1:], run(t, s, owner))
	cancellations(t, s, owner)
	require.Zero(t, requests(t, pool))
}

// Two transactions cancel one job: the second one waits, and both are told the
// truth.
func TestCancelByTwo(t *testing.T) {
	t.Parallel()
	for _, level := range levels {
		for _, leased := range []bool{false, true} {
			for _, committed := range []bool{true, false} {
				t.Run(fmt.Sprintf("%s/%t/%t", level, leased, committed), func(t *testing.T) {
					t.Parallel()
					s, pool := open(t)
					owner := register(t, s, time.Minute)
					ids := enqueue(t, pool, 1)
					want := "cancelled"
					if leased {
						claim(t, s, owner, 1)
						want = "leased"
					}
					first := begin(t, pool, level)
					require.Equal(t, want, cancelJob(t, first, ids[0]))
					answers := cancelling(t, pool, level, ids[0])
					if committed {
						commit(t, first)
					} else {
						require.NoError(t, first.Rollback(t.Context()))
					}
					a := <-answers
					if committed && level != pgx.ReadCommitted {
						require.True(t, isSerialization(a.err), "%v", a.err)
					} else {
						require.NoError(t, a.err)
						require.Equal(t, want, a.state)
					}
					if leased {
						require.Equal(t, 1, requests(t, pool))
					} else {
						require.Equal(t, store.Audit{Cancelled: 1}, audit(t, s))
						require.Zero(t, requests(t, pool))
					}
				})
			}
		}
	}
}

// What becomes of a job that a worker has when it was asked to cancel it.
func TestCancelRequested(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		outcome, recorded store.Outcome
	}{
		"success counts":           {store.Completed, store.Completed},
		"no other attempt":         {store.Retry, store.Cancelled},
		"no snooze":                {store.GiveBack, store.Cancelled},
		"no dead letter":           {store.Dead, store.Cancelled},
		"as the handler said":      {store.Cancelled, store.Cancelled},
		"a job without its row is": {store.Quarantine, store.Quarantine},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, pool := open(t)
			owner := register(t, s, time.Minute)
			ids := enqueue(t, pool, 2, ordered("a"))
			jobs := turn(t, s, owner)
			require.Equal(t, "leased", cancelJob(t, pool, ids[0]))
			recorded, err := s.Settle(t.Context(), owner, []store.Settlement{end(jobs[0], tt.outcome)})
			require.NoError(t, err)
			require.Equal(t, []store.Outcome{tt.recorded}, recorded)
			require.Zero(t, query[int](t, pool, `SELECT count(*) FROM pawl.dead_letters`))
			require.Equal(t, ids[1:], run(t, s, owner))
			require.Empty(t, cancellations(t, s, owner))
			if tt.outcome != store.Quarantine { // by hand, although it has its row
				require.Zero(t, requests(t, pool))
			}
		})
	}
}

// The process dies, or gives its claim back, while its job is asked to end: the
// job has no other attempt.
func TestCancelOfALostLease(t *testing.T) {
	t.Parallel()
	s, pool := open(t)
	owner, other := register(t, s, time.Minute), register(t, s, time.Minute)
	steady(t, pool, other)
	ids := enqueue(t, pool, 3, attempts(1))
	jobs := claim(t, s, owner, 3)
	require.Equal(t, "leased", cancelJob(t, pool, ids[0]))
	expire(t, pool, owner)
	recovered(t, s, other, false)
	require.Equal(t, "cancelled", status(t, pool, ids[0]))
	require.Equal(t, "dead", status(t, pool, ids[1]))
	require.Equal(t, []bool{false}, settle(t, s, owner, settlement(jobs[0], store.Completed)))

	ids = enqueue(t, pool, 2)
	jobs = claim(t, s, other, 2)
	require.Equal(t, "leased", cancelJob(t, pool, ids[0]))
	require.NoError(t, released(s.ReleaseLeases(t.Context(), other, jobs[0].Token)))
	require.Equal(t, "cancelled", status(t, pool, ids[0]))
	require.Equal(t, ids[1:], idsOf(claim(t, s, other, 2)))
	require.Empty(t, cancellations(t, s, other))
	require.Zero(t, requests(t, pool))
}

// A job goes back to wait while the transaction that cancels it is open: it runs
// no more after that has committed, whether a claim or a look for requests meets
// it first.
func TestRetryWhileTheCancelIsOpen(t *testing.T) {
	t.Parallel()
	for _, level := range levels {
		for _, outcome := range []store.Outcome{store.Retry, store.GiveBack} {
			for _, claimed := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%d/%t", level, outcome, claimed), func(t *testing.T) {
					t.Parallel()
					s, pool := open(t)
					owner := register(t, s, time.Minute)
					ids := enqueue(t, pool, 2, ordered("a"))
					jobs := turn(t, s, owner)
					tx := begin(t, pool, level)
					require.Equal(t, "leased", cancelJob(t, tx, ids[0]))
					recorded, err := s.Settle(t.Context(), owner, []store.Settlement{end(jobs[0], outcome)})
					require.NoError(t, err)
					require.Equal(t, []store.Outcome{outcome}, recorded)
					commit(t, tx)
					if claimed {
						jobs = turn(t, s, owner)
						require.Equal(t, ids[:1], idsOf(jobs))
						require.True(t, jobs[0].Cancelled)
						require.Equal(t, ids[:1], cancellations(t, s, owner))
						settle(t, s, owner, end(jobs[0], store.Cancelled))
					}
					require.Empty(t, cancellations(t, s, owner))
					require.Equal(t, "cancelled", status(t, pool, ids[0]))
					require.Zero(t, requests(t, pool))
					require.Equal(t, ids[1:], run(t, s, owner))
				})
			}
		}
	}
}

// A request whose job somebody's open transaction has locked waits for that; the
// others do not wait with it, nor does the process learn less of its own jobs.
func TestLockedRequest(t *testing.T) {
	t.Parallel()
	s, pool := open(t)
	owner := register(t, s, time.Minute)
	ids := enqueue(t, pool, 3)
	jobs := claim(t, s, owner, 3)
	back := func(j store.ClaimedJob) store.Settlement {
		x := settlement(j, store.Retry)
		x.Delay, x.Code = time.Hour, "x"
		return x
	}
	settle(t, s, owner, back(jobs[0]), back(jobs[1]))
	exec(t, pool, `INSERT INTO pawl.cancel_requests SELECT id, clock_timestamp() FROM unnest($1::uuid[]) id`, ids)
	tx := begin(t, pool, pgx.ReadCommitted)
	require.Equal(t, "cancelled", cancelJob(t, tx, ids[0]))
	require.Equal(t, ids[2:], cancellations(t, s, owner))
	require.Equal(t, "cancelled", status(t, pool, ids[1]))
	require.Equal(t, 2, requests(t, pool))
	require.NoError(t, tx.Rollback(t.Context()))
	require.Equal(t, ids[2:], cancellations(t, s, owner))
	require.Equal(t, "cancelled", status(t, pool, ids[0]))
	settle(t, s, owner, settlement(jobs[2], store.Cancelled))
	cancellations(t, s, owner)
	require.Zero(t, requests(t, pool))
	require.Equal(t, store.Audit{Cancelled: 3}, audit(t, s))
}

// A cancelled job's idempotency key is held for as long as it was declared to be.
func TestCancelKeepsTheKey(t *testing.T) {
	t.Parallel()
	_, pool := open(t)
	put := func() *store.Batch {
		b := batch(1)
		b.Keep, b.Jobs[0].Key = time.Hour, []byte("key")
		return b
	}
	first := put()
	_, err := store.Enqueue(t.Context(), pool, store.DefaultSchema, first)
	require.NoError(t, err)
	require.Equal(t, "cancelled", cancelJob(t, pool, first.Jobs[0].ID))
	answer, err := store.Enqueue(t.Context(), pool, store.DefaultSchema, put())
	require.NoError(t, err)
	require.Len(t, answer.Duplicates, 1)
	require.Equal(t, "cancelled", answer.Duplicates[0].State)
	exec(t, pool, `UPDATE pawl.idempotency_keys SET expires_at = clock_timestamp()`)
	answer, err = store.Enqueue(t.Context(), pool, store.DefaultSchema, put())
	require.NoError(t, err)
	require.Empty(t, answer.Duplicates)
}

func of(organization string) func(*store.Batch) {
	return func(b *store.Batch) {
		for i := range b.Jobs {
			b.Jobs[i].OrganizationID = organization
		}
	}
}

func cancelOrganization(t *testing.T, db store.Querier, organization string) (cancelled, requested int) {
	t.Helper()
	cancelled, requested, err := store.CancelOrganization(t.Context(), db, store.DefaultSchema, organization)
	require.NoError(t, err)
	return cancelled, requested
}

// Every job of one organization is cancelled or asked to end, and nobody else's.
func TestCancelOrganization(t *testing.T) {
	t.Parallel()
	for _, level := range levels {
		t.Run(string(level), func(t *testing.T) {
			t.Parallel()
			s, pool := open(t)
			owner := register(t, s, time.Minute)
			fill := func(organization string) (ids []uuid.UUID) {
				ids = append(ids, enqueue(t, pool, 3, of(organization))...)
				ids = append(ids, enqueue(t, pool, 1, of(organization), ordered("running"))...)
				return ids
			}
			running := map[string][]uuid.UUID{"a": fill("a"), "b": fill("b"), "": fill("")}
			require.Len(t, turn(t, s, owner), 12)
			for organization := range running {
				enqueue(t, pool, 2, of(organization), ordered("running")) // blocked
				enqueue(t, pool, 3, of(organization))
				enqueue(t, pool, 3, of(organization), delay(time.Hour))
				enqueue(t, pool, 2, of(organization), queue("elsewhere"), capable(99))
				enqueue(t, pool, 3, of(organization), ordered("waiting"))
			}
			exec(t, pool, `UPDATE pawl.ready SET suspect = true WHERE queue = 'elsewhere'`)
			exec(t, pool, `SELECT pawl.take_turns('q')`)
			tx := begin(t, pool, level)
			cancelled, requested := cancelOrganization(t, tx, "a")
			require.Equal(t, 13, cancelled)
			require.Equal(t, 4, requested)
			cancelled, requested = cancelOrganization(t, tx, "a")
			require.Zero(t, cancelled)
			require.Equal(t, 4, requested)
			commit(t, tx)
			require.ElementsMatch(t, running["a"], cancellations(t, s, owner))
			require.Zero(t, query[int](t, pool, `SELECT count(*) FROM pawl.job_status WHERE organization_id = 'a' AND status NOT IN ('cancelled', 'leased')`))
			require.Zero(t, query[int](t, pool, `SELECT count(*) FROM pawl.job_status WHERE organization_id IS DISTINCT FROM 'a' AND status = 'cancelled'`))
			_, _, err := store.CancelOrganization(t.Context(), pool, store.DefaultSchema, "")
			require.ErrorContains(t, err, "no organization is named")
		})
	}
}

// Claimers and settlements move the jobs of an organization about while two
// callers cancel them: none is missed, and none of another organization is hit.
func TestCancelOrganizationUnderLoad(t *testing.T) {
	t.Parallel()
	pool := testdb.Migrated(t, testdb.MaxConns(12))
	s, err := store.Open(t.Context(), pool, store.DefaultSchema, 6)
	require.NoError(t, err)
	t.Cleanup(s.Close)
	const jobs = 600
	enqueue(t, pool, jobs, of("a"), attempts(1000))
	for n := range 10 {
		enqueue(t, pool, jobs/10, of("a"), attempts(1000), ordered(fmt.Sprint(n)))
	}
	enqueue(t, pool, 50, of("b"), attempts(1000))
	var (
		workers sync.WaitGroup
		done    = make(chan struct{})
		moves   atomic.Int64
	)
	for range 3 {
		owner := register(t, s, time.Minute)
		workers.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				claimed, err := s.Claim(t.Context(), orderedClaim(owner))
				if err != nil {
					t.Error(err)
					return
				}
				var ends []store.Settlement
				for i, j := range claimed.Jobs {
					x := end(j, []store.Outcome{store.Retry, store.GiveBack}[i%2])
					if j.Cancelled {
						x.Outcome = store.Cancelled
					}
					ends = append(ends, x)
				}
				if _, err := s.Settle(t.Context(), owner, ends); err != nil {
					t.Error(err)
					return
				}
				if _, err := s.Cancellations(t.Context(), owner); err != nil {
					t.Error(err)
					return
				}
				moves.Add(int64(len(ends)))
			}
		})
	}
	testdb.Eventually(t, 20*time.Second, "some moves", func() bool { return moves.Load() > jobs })
	var callers sync.WaitGroup
	for range 2 {
		callers.Go(func() {
			if _, _, err := store.CancelOrganization(t.Context(), pool, store.DefaultSchema, "a"); err != nil {
				t.Error(err)
			}
		})
	}
	callers.Wait()
	testdb.Eventually(t, 20*time.Second, "all of them to be cancelled", func() bool {
		return audit(t, s).Cancelled == 2*jobs && requests(t, pool) == 0
	})
	close(done)
	workers.Wait()
	require.Equal(t, 50, query[int](t, pool, `SELECT count(*) FROM pawl.ready`))
	a := audit(t, s)
	require.Equal(t, store.Audit{Ready: 50, Cancelled: 2 * jobs}, a)
}

// No claim has a time after the commit of a pause, of however many claimers.
func TestPause(t *testing.T) {
	t.Parallel()
	pool := testdb.Migrated(t, testdb.MaxConns(12))
	s, err := store.Open(t.Context(), pool, store.DefaultSchema, 6)
	require.NoError(t, err)
	t.Cleanup(s.Close)
	owner := register(t, s, time.Minute)
	pause := func() bool {
		changed, err := store.Pause(t.Context(), pool, store.DefaultSchema, "q")
		require.NoError(t, err)
		return changed
	}
	resume := func() bool {
		changed, err := store.Resume(t.Context(), pool, store.DefaultSchema, "q")
		require.NoError(t, err)
		return changed
	}
	require.False(t, resume(), "it is not paused")
	require.True(t, pause(), "nobody knows the queue yet")
	require.False(t, pause())
	enqueue(t, pool, 1)
	enqueue(t, pool, 2, ordered("a"))
	exec(t, pool, `UPDATE pawl.ready SET suspect = true`)
	claimed, err := s.Claim(t.Context(), orderedClaim(owner))
	require.NoError(t, err)
	require.True(t, claimed.Paused)
	require.False(t, claimed.At.IsZero())
	require.Empty(t, claimed.Jobs)
	require.True(t, resume())
	require.Len(t, turn(t, s, owner), 2)

	for range 10 {
		var claimers sync.WaitGroup
		done := make(chan struct{})
		started := make(chan struct{}, 1)
		for range 4 {
			claimers.Go(func() {
				for {
					select {
					case <-done:
						return
					default:
					}
					c := orderedClaim(owner)
					c.Limit = 1
					claimed, err := s.Claim(t.Context(), c)
					if err != nil {
						t.Error(err)
						return
					}
					if len(claimed.Jobs) > 0 {
						select {
						case started <- struct{}{}:
						default:
						}
					}
				}
			})
		}
		for range 4 {
			enqueue(t, pool, 50)
			enqueue(t, pool, 5, ordered(uuid.NewString()))
		}
		<-started
		require.True(t, pause())
		paused := query[time.Time](t, pool, `SELECT clock_timestamp()`)
		enqueue(t, pool, 5)
		testdb.Eventually(t, 10*time.Second, "claims that find the queue paused", func() bool {
			claimed, err := s.Claim(t.Context(), orderedClaim(owner))
			return err == nil && claimed.Paused
		})
		close(done)
		claimers.Wait()
		require.Zero(t, query[int](t, pool, `SELECT count(*) FROM pawl.leases WHERE claimed_at > $1`, paused))
		require.Positive(t, query[int](t, pool, `SELECT count(*) FROM pawl.ready`))
		require.True(t, resume())
	}
}
