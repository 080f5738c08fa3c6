package runtime_test

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/jackc/pgx/v5"

	"github.com/pawlgo/pawl/internal/demo/trips"
	"github.com/pawlgo/pawl/internal/testdb"
	pawlrt "github.com/pawlgo/pawl/runtime"
	"github.com/pawlgo/pawl/task"
)

// summaries projects trips into tasks. What it does in tx happens once for each
// trip.
type summaries struct{}

func (summaries) ProjectTripCompleted(ctx context.Context, tx pgx.Tx, fact *task.Fact[trips.TripCompletedPayload]) error {
	_, err := trips.EnqueueSendSummary(ctx, tx, trips.SendSummaryArgs{Trip: fact.AggregateID, Driver: fact.Payload.Driver})
	return err
}

// postman sends what the tasks ask for.
type postman struct{ stop func() }

func (p postman) HandleSendSummary(_ context.Context, job *task.Job[trips.SendSummaryArgs]) error {
	fmt.Println("a summary of trip", job.Args.Trip, "for", job.Args.Driver)
	p.stop()
	return nil
}

// An event is published in the transaction of the change, and projected by a
// worker.
func Example_events() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	pool, drop := testdb.Example(ctx) // a *pgxpool.Pool, after migrations.Up
	defer drop()

	err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		// The change of the trip stands here.
		_, err := trips.PublishTripCompleted(ctx, tx, "17", trips.TripCompletedPayload{Driver: "ada", Meters: 1200})
		return err
	})
	if err != nil {
		panic(err)
	}
	worker, err := pawlrt.New(pool, pawlrt.Config{
		Tables: trips.Tables(postman{stop}),
		Events: []task.EventTable{trips.Events(summaries{})},
		Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		panic(err)
	}
	if err := worker.Run(ctx); err != nil {
		panic(err)
	}
	// Output: a summary of trip 17 for ada
}
