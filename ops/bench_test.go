package ops_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	api "go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/sdk/metric"

	"github.com/pawlgo/pawl/internal/testdb"
	pawlrt "github.com/pawlgo/pawl/runtime"
	"github.com/pawlgo/pawl/task"
	"github.com/pawlgo/pawl/task/taskimpl"
)

// What metrics cost a worker that does nothing but claim and settle: b.N jobs are
// there already, and are worked off.
func BenchmarkWorkOff(b *testing.B) {
	for _, c := range []struct {
		name     string
		provider func() api.MeterProvider
	}{
		{"without", func() api.MeterProvider { return nil }},
		{"with", func() api.MeterProvider { return metric.NewMeterProvider(metric.WithReader(metric.NewManualReader())) }},
	} {
		b.Run(c.name, func(b *testing.B) {
			pool := testdb.Migrated(b)
			kind := &taskimpl.Kind[args]{Name: "k", Queue: "q", Priority: task.Normal, Version: 1, Decode: decode,
				Policy: taskimpl.Policy{Attempts: 3, Unknown: 3, Timeout: time.Minute}, Capabilities: []taskimpl.Capability{{Version: 1, ID: 1}}}
			for left := b.N; left > 0; left -= 1000 {
				_, err := taskimpl.EnqueueMany(b.Context(), task.Autocommit(pool), kind, make([]args, min(left, 1000)), nil)
				require.NoError(b, err)
			}
			worker, err := pawlrt.New(pool, pawlrt.Config{
				Tables: []task.Table{taskimpl.Table(taskimpl.Row(kind, func(context.Context, *task.Job[args]) error { return nil }))},
				Queues: map[string]pawlrt.Queue{"q": {Concurrency: 500}}, MeterProvider: c.provider(), Logger: slog.New(slog.DiscardHandler),
			})
			require.NoError(b, err)
			ctx, stop := context.WithCancel(b.Context())
			done := make(chan error, 1)
			b.ReportAllocs()
			b.ResetTimer()
			go func() { done <- worker.Run(ctx) }()
			testdb.Eventually(b, time.Minute, "all jobs to end", func() bool { return worker.Stats().Completed == int64(b.N) })
			b.StopTimer()
			stop()
			require.NoError(b, <-done)
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "jobs/s")
		})
	}
}
