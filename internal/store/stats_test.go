package store_test

import (
	"context"
	"encoding/json"
	"fmt"
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

// sampled takes a sample now.
func sampled(t *testing.T, s *store.Store, pool *pgxpool.Pool) *store.Sample {
	t.Helper()
	return sampledEvery(t, s, pool, time.Minute)
}

func sampledEvery(t *testing.T, s *store.Store, pool *pgxpool.Pool, every time.Duration) *store.Sample {
	t.Helper()
	exec(t, pool, `UPDATE pawl.samples SET due_at = '-infinity'`)
	sample, err := s.Sample(t.Context(), every)
	require.NoError(t, err)
	require.NotNil(t, sample)
	require.True(t, sample.Taken)
	return sample
}

func queueOf(t *testing.T, sample *store.Sample, name string) store.QueueSample {
	t.Helper()
	for _, q := range sample.Queues {
		if q.Queue == name {
			return q
		}
	}
	require.Fail(t, "the queue is not in the sample", name)
	return store.QueueSample{}
}

// fill stores n waiting jobs of queue q by hand, a millisecond apart, the last one
// due after the given time.
func fill(t *testing.T, pool *pgxpool.Pool, n int, last string, attempts int) {
	t.Helper()
	exec(t, pool, `INSERT INTO pawl.ready (queue, priority, run_at, id, day, capability, attempts, suspect)
		SELECT 'q', 2, clock_timestamp() + $2::text::interval - n * interval '1 millisecond', gen_random_uuid(), 1, $3, $4, false
		FROM generate_series(0, $1::integer - 1) n`, n, last, capability, attempts)
}

func TestSampleCountsEveryState(t *testing.T) {
	t.Parallel()
	s, pool := open(t)
	owner := register(t, s, time.Minute)
	require.Equal(t, store.QueueSample{Queue: "q"}, queueOf(t, sampled(t, s, pool), "q"), "a queue that a worker serves is there with nothing in it")

	enqueue(t, pool, 6)
	jobs := claim(t, s, owner, 4)
	retry := settlement(jobs[0], store.Retry)
	retry.Delay, retry.Code = time.Hour, "transient"
	again := settlement(jobs[1], store.Retry)
	again.Code = "transient"
	dead := settlement(jobs[2], store.Dead)
	dead.Code = "permanent"
	require.Equal(t, []bool{true, true, true}, settle(t, s, owner, retry, again, dead))
	exec(t, pool, `UPDATE pawl.ready SET run_at = clock_timestamp() + interval '1 hour' WHERE id = (SELECT id FROM pawl.ready WHERE attempts = 0 LIMIT 1)`)
	exec(t, pool, `UPDATE pawl.ready SET run_at = clock_timestamp() - interval '1 minute' WHERE attempts = 1 AND run_at < clock_timestamp()`)
	exec(t, pool, `INSERT INTO pawl.ready VALUES ('q', 4, clock_timestamp(), gen_random_uuid(), 1, $1, 1, true)`, capability)
	exec(t, pool, `INSERT INTO pawl.ordered (order_key, job_id, day, queue, head) SELECT 'k', gen_random_uuid(), 1, 'q', n = 1 FROM generate_series(1, 3) n`)

	q := queueOf(t, sampled(t, s, pool), "q")
	require.InDelta(t, time.Minute, q.Oldest.Duration(), float64(30*time.Second))
	q.Oldest = 0
	require.Equal(t, store.QueueSample{Queue: "q", Pending: 3, Scheduled: 1, Retrying: 1, Leased: 1, Blocked: 2, Dead: 1}, q)
}

func TestSampleNamesWhatIsStranded(t *testing.T) {
	t.Parallel()
	s, pool := open(t)
	register(t, s, time.Minute)
	require.NoError(t, s.RegisterKinds(t.Context(), []store.Kind{{Name: "known", Queue: "q", Version: 1, Capability: capability, Priority: 2, MaxAttempts: 3}}))
	for i, name := range []string{"known", "known", "nobody's"} {
		enqueue(t, pool, 1, func(b *store.Batch) { b.Kind, b.Capability = name, int64(1000+i) })
	}
	enqueue(t, pool, 1)
	require.Equal(t, []store.StrandedSample{{Queue: "q", Kind: "known", Jobs: 2}, {Queue: "q", Jobs: 1}}, sampled(t, s, pool).Stranded)
}

func TestSampleSeesTheOutbox(t *testing.T) {
	t.Parallel()
	s, pool := open(t)
	register(t, s, time.Minute)
	require.Empty(t, sampled(t, s, pool).Outbox.Events)
	ids := []uuid.UUID{uuid.New(), uuid.New(), uuid.New()}
	for n := range 3 {
		require.NoError(t, store.Publish(t.Context(), pool, store.DefaultSchema, &store.NewEvent{
			ID: ids[n], Type: "trip.completed", AggregateType: "trip", AggregateID: fmt.Sprint(n), Version: 1, Capability: capability + int64(n/2), Payload: `{}`,
		}))
	}
	exec(t, pool, `UPDATE pawl.pending_events SET published_at = published_at - interval '1 hour' WHERE id = $1`, ids[0])
	exec(t, pool, `INSERT INTO pawl.blocked_aggregates SELECT aggregate, id, clock_timestamp() FROM pawl.pending_events WHERE id = $1`, ids[2])
	// What waits for another attempt is old all the same.
	exec(t, pool, `UPDATE pawl.pending_events SET available_at = clock_timestamp() + interval '1 hour' WHERE id = $1`, ids[0])
	outbox := sampled(t, s, pool).Outbox
	require.Equal(t, int64(1), outbox.Blocked)
	require.Len(t, outbox.Events, 2)
	byKnown := map[bool]store.EventSample{}
	for _, e := range outbox.Events {
		require.Equal(t, "trip.completed", e.Type)
		byKnown[e.Known] = e
	}
	require.Equal(t, int64(2), byKnown[true].Events)
	require.Equal(t, int64(1), byKnown[false].Events)
	require.Greater(t, byKnown[true].Oldest.Duration(), 59*time.Minute)
	require.Less(t, byKnown[false].Oldest.Duration(), 59*time.Minute)
}

func TestSampleSeesWhoHoldsBackVacuum(t *testing.T) {
	t.Parallel()
	_, pool := open(t)
	s := storeOf(t, pool) // of others' sessions a worker sees nothing, unless it is a member of pg_monitor
	// A session of the store's own role, since it may not see those of others.
	tx, err := s.DB().BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	_, err = tx.Exec(t.Context(), `SELECT`) // from here on it has a snapshot
	require.NoError(t, err)
	exec(t, pool, `SELECT pg_current_xact_id()`)
	sample := sampled(t, s, pool)
	require.NotNil(t, sample.Server.Horizon)
	require.Positive(t, *sample.Server.Horizon)
	require.Positive(t, sample.Server.HorizonTransactions)
	require.Zero(t, sample.Server.Notifications)
	require.Contains(t, sample.Server.DeadRows, "ready")
	first := *sample.Server.Horizon
	require.Greater(t, *sampled(t, s, pool).Server.Horizon, first)
}

// Of a session of another role the transactions are seen, and that it is not known
// since when it is in one; what holds back nothing is known to.
func TestSampleOfSessionsThatItMayNotSee(t *testing.T) {
	t.Parallel()
	s, pool := open(t)
	tx, err := pool.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	_, err = tx.Exec(t.Context(), `SELECT`)
	require.NoError(t, err)
	exec(t, pool, `SELECT pg_current_xact_id()`)
	own, err := testdb.As(t, pool, testdb.Worker).BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	require.NoError(t, err)
	defer func() { _ = own.Rollback(context.WithoutCancel(t.Context())) }()
	_, err = own.Exec(t.Context(), `SELECT`)
	require.NoError(t, err)
	sample := sampled(t, s, pool)
	require.Nil(t, sample.Server.Horizon, "one that it sees is younger")
	require.Positive(t, sample.Server.HorizonTransactions)
	require.NoError(t, own.Rollback(t.Context()))
	require.NoError(t, tx.Rollback(t.Context()))
	testdb.Eventually(t, 10*time.Second, "nobody to hold back vacuum", func() bool {
		sample := sampled(t, s, pool)
		return sample.Server.Horizon != nil && *sample.Server.Horizon == 0
	})
}

// Ten processes read it every few seconds, and one of them looks.
func TestSampleIsTakenByOneProcessAtATime(t *testing.T) {
	t.Parallel()
	s, pool := open(t)
	const callers = 10
	stores := make([]*store.Store, callers)
	for i := range stores {
		var err error
		stores[i], err = store.Open(t.Context(), pool, store.DefaultSchema, 1)
		require.NoError(t, err)
		defer stores[i].Close()
	}
	for range 3 {
		exec(t, pool, `UPDATE pawl.samples SET due_at = '-infinity'`)
		before := query[int](t, pool, `SELECT taken FROM pawl.samples`)
		var wg sync.WaitGroup
		for _, s := range stores {
			wg.Go(func() {
				_, err := s.Sample(t.Context(), time.Hour)
				require.NoError(t, err)
			})
		}
		wg.Wait()
		require.Equal(t, before+1, query[int](t, pool, `SELECT taken FROM pawl.samples`))
	}

	// While one is at it the others have the last one, at once.
	exec(t, pool, `UPDATE pawl.samples SET due_at = '-infinity'`)
	require.NoError(t, pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		_, err := tx.Exec(t.Context(), `SELECT FROM pawl.samples FOR UPDATE`)
		require.NoError(t, err)
		sample, err := s.Sample(t.Context(), time.Second)
		require.NoError(t, err)
		require.NotNil(t, sample)
		require.False(t, sample.Taken)
		return nil
	}))

	// What came of a restored schema without its rows.
	exec(t, pool, `DELETE FROM pawl.samples`)
	sample, err := s.Sample(t.Context(), time.Hour)
	require.NoError(t, err)
	require.Nil(t, sample)
	sample, err = s.Sample(t.Context(), time.Hour)
	require.NoError(t, err)
	require.True(t, sample.Taken)
}

// A turn that comes to nothing is another's before long, and turns that do so
// time and again become rare.
func TestSampleThatFailsIsPutOff(t *testing.T) {
	t.Parallel()
	s, pool := open(t)
	var pauses []int
	for range 9 {
		exec(t, pool, `UPDATE pawl.samples SET due_at = '-infinity'`)
		require.True(t, query[bool](t, pool, `SELECT turn FROM pawl.sample(10000000, 125)`))
		require.False(t, query[bool](t, pool, `SELECT turn FROM pawl.sample(10000000, 125)`))
		pauses = append(pauses, query[int](t, pool, `SELECT ceil(extract(epoch FROM due_at - clock_timestamp()) / 10) * 10 FROM pawl.samples`))
	}
	require.Equal(t, []int{20, 40, 80, 160, 320, 640, 1250, 1250, 1250}, pauses)
	sampled(t, s, pool)
	require.Zero(t, query[int](t, pool, `SELECT failed FROM pawl.samples`))

	// The process hears of it, and what was there stays.
	exec(t, pool, `UPDATE pawl.samples SET due_at = '-infinity'`)
	exec(t, pool, `ALTER FUNCTION pawl.sample_server() RENAME TO away`)
	_, err := s.Sample(t.Context(), time.Minute)
	require.ErrorContains(t, err, "sample_server")
	sample, err := s.Sample(t.Context(), time.Minute)
	require.NoError(t, err)
	require.NotNil(t, sample)
}

// Samples have a small part of the time, however long they take.
func TestSampleIsLessOftenWhereItIsSlow(t *testing.T) {
	t.Parallel()
	s, pool := open(t)
	sampled(t, s, pool)
	require.True(t, query[bool](t, pool, `SELECT due_at - sampled_at = interval '1 minute' FROM pawl.samples`))
	// The interval asked for is shorter than it takes.
	exec(t, pool, `UPDATE pawl.samples SET due_at = '-infinity'`)
	_, err := s.Sample(t.Context(), time.Microsecond)
	require.NoError(t, err)
	require.True(t, query[bool](t, pool, `SELECT due_at - sampled_at = 125 * took FROM pawl.samples`))
}

// touching is a part of what EXPLAIN answers.
type touching struct {
	Plan struct {
		Hit  int `json:"Shared Hit Blocks"`
		Read int `json:"Shared Read Blocks"`
	}
}

// touched is how many pages a statement touches.
func touched(t *testing.T, pool *pgxpool.Pool, sql string) int {
	t.Helper()
	var p []touching
	require.NoError(t, json.Unmarshal([]byte(query[string](t, pool, `EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) `+sql)), &p))
	return p[0].Plan.Hit + p[0].Plan.Read
}

// What a sample costs has a bound that the number of jobs is no part of, and
// what it says of many is near the truth.
func TestSampleOfManyCostsNoMore(t *testing.T) {
	t.Parallel()
	s, pool := open(t)
	register(t, s, time.Minute)
	exec(t, pool, `ALTER TABLE pawl.ready SET (autovacuum_enabled = false)`)
	const bound, pages = 200, 20
	cost := func() int {
		t.Helper()
		sql := fmt.Sprintf(`SELECT pawl.sample_jobs(%d, %d)`, bound, pages)
		exec(t, pool, sql) // reads the catalogs
		return touched(t, pool, sql)
	}
	look := func() (q store.QueueSample) {
		t.Helper()
		var jobs store.Sample
		text := query[string](t, pool, `SELECT pawl.sample_jobs($1, $2)::text`, bound, pages)
		require.NoError(t, json.Unmarshal([]byte(text), &jobs))
		return queueOf(t, &jobs, "q")
	}
	fill(t, pool, bound-1, "-1 hour", 0)
	fill(t, pool, bound-1, "1 hour", 0)
	require.Equal(t, [...]any{int64(bound - 1), int64(bound - 1), false}, [...]any{look().Pending, look().Scheduled, look().Estimated}, "exact up to the bound")

	for range 5 {
		fill(t, pool, 1000, "-1 hour", 0)
		fill(t, pool, 1000, "1 hour", 0)
	}
	small := cost()
	for range 5 {
		fill(t, pool, 6000, "-1 hour", 0)
		fill(t, pool, 6000, "1 hour", 0)
	}
	large := cost()
	t.Logf("pages touched: %d for 10,000 jobs, %d for 70,000", small, large)
	require.Less(t, large, small+small/4)

	q := look()
	require.True(t, q.Estimated)
	// One draw of 20 pages out of 900 says little; the mean of many has to be right.
	var pending, scheduled int64
	const draws = 40
	for range draws {
		q := look()
		pending, scheduled = pending+q.Pending, scheduled+q.Scheduled
	}
	require.InEpsilon(t, 35_199, pending/draws, 0.25)
	require.InEpsilon(t, 35_199, scheduled/draws, 0.25)
	require.InDelta(t, time.Hour+6*time.Second, q.Oldest.Duration(), float64(time.Minute))

	// A table that had much and has little is counted, however large it is.
	exec(t, pool, `DELETE FROM pawl.ready WHERE id NOT IN (SELECT id FROM pawl.ready WHERE run_at < clock_timestamp() LIMIT 7)`)
	q = look()
	require.Equal(t, [...]any{int64(7), int64(0), false}, [...]any{q.Pending, q.Scheduled, q.Estimated})
	testdb.Eventually(t, 20*time.Second, "the dead rows to be counted", func() bool { return sampled(t, s, pool).Server.DeadRows["ready"] > 60_000 })
}
