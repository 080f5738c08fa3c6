//go:build full

package store_test

import (
	"testing"
	"time"

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
	var taking time.Duration
	for range samples {
		sample := sampledEvery(t, s, pool, every)
		taking += time.Duration(query[int64](t, pool, `SELECT (extract(epoch FROM took) * 1000000)::bigint FROM pawl.samples`)) * time.Microsecond
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
	taking /= samples
	between := time.Duration(query[int64](t, pool, `SELECT (extract(epoch FROM due_at - sampled_at) * 1000000)::bigint FROM pawl.samples`)) * time.Microsecond
	share := taking.Seconds()/max(every, between).Seconds() + (readers*read).Seconds()/every.Seconds()
	t.Logf("a sample takes %v, a read %v: %.2f %% of the time; it touches %d pages", taking, read, 100*share,
		touched(t, pool, `SELECT pawl.sample_jobs(5000, 200)`))
	require.Less(t, share, 0.01)
}
