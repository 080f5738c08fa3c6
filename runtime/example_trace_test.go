package runtime_test

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/jackc/pgx/v5"
	"go.opentelemetry.io/otel/trace"

	"github.com/pawlgo/pawl/internal/demo/trips"
	"github.com/pawlgo/pawl/internal/testdb"
	pawlrt "github.com/pawlgo/pawl/runtime"
	"github.com/pawlgo/pawl/task"
)

// followed projects trips into tasks, and sends what they ask for. Both happen in
// the trace of the request that published the event.
type followed struct{ stop func() }

func (followed) ProjectTripCompleted(ctx context.Context, tx pgx.Tx, fact *task.Fact[trips.TripCompletedPayload]) error {
	fmt.Println("the projection: ", trace.SpanContextFromContext(ctx).TraceID())
	_, err := trips.EnqueueSendSummary(ctx, tx, trips.SendSummaryArgs{Trip: fact.AggregateID, Driver: fact.Payload.Driver})
	return err
}

func (f followed) HandleSendSummary(ctx context.Context, _ *task.Job[trips.SendSummaryArgs]) error {
	fmt.Println("the task:       ", trace.SpanContextFromContext(ctx).TraceID())
	f.stop()
	return nil
}

// One trace goes from the request over the event that it publishes to the task
// that the event's projection enqueues.
func Example_traces() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	pool, drop := testdb.Example(ctx) // a *pgxpool.Pool, after migrations.Up
	defer drop()

	// In a service the span is that of the request, from its middleware.
	request := trace.ContextWithSpanContext(ctx, trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{0x4b, 0xf9, 0x2f}, SpanID: trace.SpanID{0x1}, TraceFlags: trace.FlagsSampled,
	}))
	fmt.Println("the request:    ", trace.SpanContextFromContext(request).TraceID())
	if _, err := trips.PublishTripCompleted(request, task.Autocommit(pool), "17", trips.TripCompletedPayload{Driver: "ada", Meters: 1200}); err != nil {
		panic(err)
	}

	f := followed{stop}
	worker, err := pawlrt.New(pool, pawlrt.Config{
		Tables: trips.Tables(f),
		Events: []task.EventTable{trips.Events(f)},
		Logger: slog.New(slog.DiscardHandler),
		// TracerProvider: that of your SDK, for a span of each attempt
	})
	if err != nil {
		panic(err)
	}
	if err := worker.Run(ctx); err != nil {
		panic(err)
	}
	// Output:
	// the request:     4bf92f00000000000000000000000000
	// the projection:  4bf92f00000000000000000000000000
	// the task:        4bf92f00000000000000000000000000
}
