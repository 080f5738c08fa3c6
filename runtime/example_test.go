package runtime_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/jackc/pgx/v5"

	"github.com/pawlgo/pawl/internal/demo"
	"github.com/pawlgo/pawl/internal/testdb"
	pawlrt "github.com/pawlgo/pawl/runtime"
	"github.com/pawlgo/pawl/task"
)

// mailer handles the queue mail. The compiler checks that it handles every task
// of it, each with its own payload.
type mailer struct{ done func() }

func (m mailer) HandleSendReceipt(ctx context.Context, job *task.Job[demo.SendReceiptArgs]) error {
	if job.Attempt == 1 {
		return task.Transient(errors.New("the mail server is busy"))
	}
	fmt.Printf("receipt of order %d to %s, attempt %d of %d\n", job.Args.OrderID, job.Args.To, job.Attempt, job.MaxAttempts)
	m.done()
	return nil
}

// A worker runs what a transaction enqueued, and tries again what failed.
func Example() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	pool, drop := testdb.Example(ctx) // a *pgxpool.Pool, after migrations.Up
	defer drop()

	err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		_, err := demo.EnqueueSendReceipt(ctx, tx, demo.SendReceiptArgs{OrderID: 17, To: "ada@example.com"})
		return err
	})
	if err != nil {
		panic(err)
	}

	worker, err := pawlrt.New(pool, pawlrt.Config{
		Tables: demo.Tables(mailer{done: stop}), // a service would stop at a signal
		Queues: map[string]pawlrt.Queue{demo.QueueMail: {Concurrency: 4}},
		Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		panic(err)
	}
	if err := worker.Run(ctx); err != nil {
		panic(err)
	}
	stats := worker.Stats()
	fmt.Println("completed:", stats.Completed, "retried:", stats.Retried)

	// Output:
	// receipt of order 17 to ada@example.com, attempt 2 of 5
	// completed: 1 retried: 1
}
