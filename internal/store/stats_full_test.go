//go:build full

package store_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// A million waiting jobs in four queues, 200,000 dead letters and as many
// pending events: ten processes that read the sample every five seconds, one of
// which takes it, cost less than one part in a hundred of the database's time.
func TestSampleOfAMillionAtFullSize(t *testing.T) {
	s, pool := open(t)
	register(t, s, time.Minute)
	exec(t, pool, `INSERT INTO pawl.ready (queue, priority, run_at, id, day, capability, attempts, suspect)
		SELECT 'q' || n % 4, 1 + n / 4 % 4, clock_timestamp() + (n - 500000) * interval '100 milliseconds', gen_random_uuid(), 1, $1, n % 2, false
		FROM generate_series(1, 1000000) n`, capability)
	exec(t, pool, `INSERT INTO pawl.dead_letters SELECT gen_random_uuid(), 'k', 'q' || n % 4, 1, $1, 2, '', 3, 3, 'unknown', repeat('x', 100),
		clock_timestamp(), clock_timestamp(), '{"n": 1}' FROM generate_series(1, 200000) n`, capability)
	exec(t, pool, `INSERT INTO pawl.pending_events SELECT gen_random_uuid(), n, gen_random_uuid(), 1, $1, 0, clock_timestamp(), clock_timestamp() - interval '1 hour'
		FROM generate_series(1, 200000) n`, capability)

	const (
		every   = 5 * time.Second
		readers = 10
		samples = 20
		reads   = 500
	)
	var taking, passing time.Duration
	for range samples {
		sample := sampledEvery(t, s, pool, every)
		taking += time.Duration(query[int64](t, pool, `SELECT (extract(epoch FROM took) * 1000000)::bigint FROM pawl.samples`)) * time.Microsecond
		between := time.Duration(query[int64](t, pool, `SELECT (extract(epoch FROM due_at - sampled_at) * 1000000)::bigint FROM pawl.samples`)) * time.Microsecond
		passing += max(every, between)
		for _, name := range []string{"q0", "q1", "q2", "q3"} {
			q := queueOf(t, sample, name)
			require.InEpsilon(t, 125_000, q.Pending, 0.35)
			require.InEpsilon(t, 125_000, q.Scheduled+q.Retrying, 0.35)
			require.InEpsilon(t, 50_000, q.Dead, 0.35)
			require.True(t, q.Estimated)
			require.InDelta(t, 50_000, q.Oldest.Duration().Seconds(), 60)
		}
		require.InEpsilon(t, 200_000, sample.Outbox.Events[0].Events, 0.35)
	}
	began := time.Now()
	for range reads {
		sample, err := s.Sample(t.Context(), time.Hour)
		require.NoError(t, err)
		require.False(t, sample.Taken)
	}
	read := time.Since(began) / reads
	share := taking.Seconds()/passing.Seconds() + (readers*read).Seconds()/every.Seconds()
	t.Logf("a sample takes %v, a read %v: %.2f %% of the time; it touches %d pages", taking/samples, read, 100*share,
		touched(t, pool, `SELECT pawl.sample_jobs(5000, 200)`))
	require.Less(t, share, 0.01)
}

// What a drained backlog leaves behind while a transaction keeps vacuum from
// removing it slows a sample and makes it no less true.
func TestSampleOfDeadRowsAtFullSize(t *testing.T) {
	s, pool := open(t)
	register(t, s, time.Minute)
	exec(t, pool, `INSERT INTO pawl.ready (queue, priority, run_at, id, day, capability, attempts, suspect)
		SELECT 'q', 1 + n % 4, clock_timestamp() - n * interval '1 millisecond', gen_random_uuid(), 1, $1, 0, false FROM generate_series(1, 1000000) n`, capability)
	holder, err := pool.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	require.NoError(t, err)
	defer func() { _ = holder.Rollback(context.WithoutCancel(t.Context())) }()
	_, err = holder.Exec(t.Context(), `SELECT`)
	require.NoError(t, err)
	exec(t, pool, `DELETE FROM pawl.ready WHERE run_at < (SELECT max(run_at) - interval '10 milliseconds' FROM pawl.ready)`)
	left := query[int64](t, pool, `SELECT count(*) FROM pawl.ready`)
	for range 3 {
		q := queueOf(t, sampledEvery(t, s, pool, time.Second), "q")
		require.Equal(t, left, q.Pending)
		require.False(t, q.Estimated)
	}
	t.Logf("a sample over a million dead rows takes %s", query[string](t, pool, `SELECT took::text FROM pawl.samples`))
	require.True(t, query[bool](t, pool, `SELECT took < interval '4 seconds' AND due_at - sampled_at >= 125 * took FROM pawl.samples`))
}
