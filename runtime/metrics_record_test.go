package runtime

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"

	"github.com/pawlgo/pawl/internal/dispatch"
	"github.com/pawlgo/pawl/internal/measure"
	"github.com/pawlgo/pawl/internal/store"
	"github.com/pawlgo/pawl/task"
	"github.com/pawlgo/pawl/task/taskimpl"
)

// measuredWorker is a worker that is never run, with so many kinds.
func measuredWorker(t testing.TB, provider metric.MeterProvider, kinds int) *Worker {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), "postgres://127.0.0.1:1/nothing")
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	var rows []dispatch.Row
	for n := range kinds {
		k := &taskimpl.Kind[struct{}]{Name: fmt.Sprintf("k%03d", n), Queue: "q", Version: 1, Policy: taskimpl.Policy{Attempts: 1, Unknown: 1, Timeout: time.Minute},
			Capabilities: []taskimpl.Capability{{Version: 1, ID: uint64(n + 1)}}, Decode: func(int, []byte) (x struct{}, err error) { return x, nil }}
		rows = append(rows, taskimpl.Row(k, func(context.Context, *task.Job[struct{}]) error { return nil }))
	}
	w, err := New(pool, Config{Tables: []task.Table{taskimpl.Table(rows...)}, MeterProvider: provider})
	require.NoError(t, err)
	return w
}

// attemptOf is an attempt as a claim would have made it.
func attemptOf(w *Worker, kind string) *attempt {
	a := &attempt{w: w, q: w.queues[0]}
	a.job.Kind, a.job.EnqueuedAt, a.job.RunAt = kind, time.Now(), time.Now()
	if w.metrics != nil {
		a.claim = &claimTime{at: time.Now(), sent: time.Now()}
	}
	return a
}

// job records all that is recorded of one job.
func (m *metrics) job(a *attempt, e *ending, v *verdict) {
	took := m.took(m.started(a))
	m.processed(a, v, took)
	m.ended(e, v.outcome)
}

// Nothing is allocated for a job: neither without a provider, where nothing is
// done at all, nor by this package with one, once its series are known.
func TestMetricsAllocateNothing(t *testing.T) {
	for name, provider := range map[string]metric.MeterProvider{"none": nil, "one that does nothing": noop.NewMeterProvider()} {
		t.Run(name, func(t *testing.T) {
			w := measuredWorker(t, provider, 1)
			for _, kind := range []string{"k000", "in no table"} {
				a := attemptOf(w, kind)
				e := &ending{q: a.q, kind: kind, attempt: a, Settlement: store.Settlement{ID: uuid.New(), Code: "timeout"}}
				v := &verdict{outcome: store.Retry, code: "timeout"}
				require.Zero(t, testing.AllocsPerRun(100, func() { w.metrics.job(a, e, v) }))
			}
		})
	}
}

func BenchmarkMetricsOfAJob(b *testing.B) {
	for name, provider := range map[string]metric.MeterProvider{"none": nil, "noop": noop.NewMeterProvider()} {
		b.Run(name, func(b *testing.B) {
			w := measuredWorker(b, provider, 1)
			a := attemptOf(w, "k000")
			e := &ending{q: a.q, kind: "k000", attempt: a}
			v := &verdict{outcome: store.Completed}
			b.ReportAllocs()
			for b.Loop() {
				w.metrics.job(a, e, v)
			}
		})
	}
}

func TestMetricsWithoutAProvider(t *testing.T) {
	t.Parallel()
	w := measuredWorker(t, nil, 1)
	require.Nil(t, w.metrics)
	m := w.metrics
	m.database(opClaim, time.Second, 1, nil)
	m.settled(time.Second, nil)
	m.completed(time.Second, nil)
	m.projected("e", &verdict{}, time.Second)
	m.ticked("k", &done{})
	require.Nil(t, m.claimed(w.queues[0], 0, 0, nil, nil))
	require.Zero(t, m.started(attemptOf(w, "k000")))
}

// The number of series has a bound: what there is no room for is one value.
func TestBoundOnSeries(t *testing.T) {
	t.Parallel()
	n := measure.NewNames(2)
	for range 2 {
		require.Equal(t, []string{"a", "b", other, "a", other}, []string{n.Of("a"), n.Of("b"), n.Of("c"), n.Of("a"), n.Of("")})
	}

	w := measuredWorker(t, noop.NewMeterProvider(), maxKinds+10)
	require.Len(t, w.metrics.kinds, maxKinds+1, "those that there is room for, and the one for the rest")
	require.Equal(t, "k499", w.queues[0].metrics.of("k499").kind)
	require.Equal(t, other, w.queues[0].metrics.of("k500").kind)
	require.Equal(t, other, w.queues[0].metrics.of("of nobody").kind)

	for _, class := range errorClasses[:len(errorClasses)-1] {
		require.Equal(t, class, errorClasses[classOf(class)])
	}
	require.Equal(t, other, errorClasses[classOf("made up")])
	require.Empty(t, errorClasses[errorClass(nil)])
	require.Equal(t, "timeout", errorClasses[errorClass(context.DeadlineExceeded)])

	// Queues of the database fold likewise.
	s := &Stats{}
	s.Database.Queues = make(map[string]DepthStats)
	for i := range maxQueues + 5 {
		s.Database.Queues[fmt.Sprintf("queue%04d", i)] = DepthStats{Pending: 1, Oldest: time.Duration(i) * time.Second}
	}
	seen := map[string]float64{}
	instrumentOf("pawl.queue.pending").read(w.metrics, s, func(value float64, labels ...string) { seen[labels[0]] = value })
	require.Len(t, seen, maxQueues, "the worker's own queue has a place of its own")
	require.Equal(t, 6.0, seen[other])
	instrumentOf("pawl.queue.oldest.age").read(w.metrics, s, func(value float64, labels ...string) { seen[labels[0]] = value })
	require.Equal(t, float64(maxQueues+4), seen[other], "the greatest of them")
}

// The rows of the table say what they are.
func TestTableOfMetrics(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, i := range instruments {
		require.False(t, seen[i.name], i.name)
		seen[i.name] = true
		require.NotEmpty(t, i.text, i.name)
		require.NotEmpty(t, i.unit, i.name)
		require.Equal(t, i.kind == histogram, i.read == nil, i.name)
		require.Equal(t, i.kind == histogram, len(i.buckets) > 0, i.name)
		require.Equal(t, i.kind == histogram, i.reach == "", i.name)
		for n := 1; n < len(i.buckets); n++ {
			require.Less(t, i.buckets[n-1], i.buckets[n], i.name)
		}
	}
	for _, name := range []string{processDuration, jobWait, jobDuration, projectionDuration} {
		buckets := instrumentOf(name).buckets
		require.GreaterOrEqual(t, buckets[len(buckets)-1], 4*time.Hour.Seconds(), name)
	}
}
