package runtime_test

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/pawlgo/pawl/internal/demo"
	"github.com/pawlgo/pawl/internal/testdb"
	pawlrt "github.com/pawlgo/pawl/runtime"
	"github.com/pawlgo/pawl/task"
)

// A program that a cron daemon starts works off what there is, and ends.
func ExampleWorker_Drain() {
	ctx := context.Background()
	pool, drop := testdb.Example(ctx)
	defer drop()
	_, err := demo.EnqueueSendReceipt(ctx, task.Autocommit(pool), demo.SendReceiptArgs{OrderID: 17, To: "ada@example.com"})
	if err != nil {
		panic(err)
	}

	worker, err := pawlrt.New(pool, pawlrt.Config{
		Tables: demo.Tables(mailer{done: func() {}}),
		Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		panic(err)
	}
	drained, err := worker.Drain(ctx)
	for _, d := range drained {
		fmt.Println(d.Kind, "attempt", d.Attempt, d.Outcome, "with", d.Err)
	}
	if err != nil {
		panic(err)
	}

	// Output:
	// send_receipt attempt 1 retried with the mail server is busy
}
