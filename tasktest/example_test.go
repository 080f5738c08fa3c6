package tasktest_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawlgo/pawl/internal/demo"
	"github.com/pawlgo/pawl/task"
	"github.com/pawlgo/pawl/tasktest"
)

// mailer handles the queue mail. At first the mail server is busy.
type mailer struct{}

func (mailer) HandleSendReceipt(_ context.Context, job *task.Job[demo.SendReceiptArgs]) error {
	if job.Attempt == 1 {
		return task.Transient(errors.New("the mail server is busy"))
	}
	fmt.Printf("receipt of order %d to %s\n", job.Args.OrderID, job.Args.To)
	return nil
}

// placeOrder is what the application does.
func placeOrder(ctx context.Context, tx pgx.Tx, id int64) error {
	_, err := demo.EnqueueSendReceipt(ctx, tx, demo.SendReceiptArgs{OrderID: id, To: "ada@example.com"}, task.In(time.Hour))
	return err
}

// A test of an application: what is enqueued with an order, and what comes of it.
func Example() {
	run(func(t testing.TB) { // func TestOrder(t *testing.T)
		pool := tasktest.DB(t)
		tx, err := pool.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer tx.Rollback(t.Context())
		if err := placeOrder(t.Context(), tx, 17); err != nil {
			t.Fatal(err)
		}
		receipt := tasktest.RequireEnqueued(t, tx, demo.SendReceipt{}, demo.SendReceiptArgs{OrderID: 17, To: "ada@example.com"}, task.In(time.Hour))
		tasktest.RequireNothingElse(t, tx, receipt)
		if err := tx.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}

		fmt.Println("due now:", len(tasktest.Drain(t, pool, demo.Tables(mailer{})...)))
		tasktest.Advance(t, pool, time.Hour)
		fmt.Println(tasktest.WorkOne(t, pool, demo.Tables(mailer{})...).Err)
		tasktest.Advance(t, pool, time.Minute) // the backoff
		if err := tasktest.Drain(t, pool, demo.Tables(mailer{})...).Err(); err != nil {
			t.Fatal(err)
		}
	})

	// Output:
	// due now: 0
	// the mail server is busy
	// receipt of order 17 to ada@example.com
}

// Where not everything is known beforehand, look at the jobs by hand.
func ExampleEnqueued() {
	run(func(t testing.TB) {
		pool := tasktest.DB(t)
		err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
			for id := range int64(3) {
				if err := placeOrder(t.Context(), tx, id); err != nil {
					return err
				}
			}
			for _, job := range tasktest.Enqueued(t, tx, demo.SendReceipt{}) {
				fmt.Println(job.Args.OrderID, job.Delay(), job.State)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	})

	// Output:
	// 0 1h0m0s scheduled
	// 1 1h0m0s scheduled
	// 2 1h0m0s scheduled
}

// A failure shows what is different, and what there is.
func ExampleRequireEnqueued() {
	run(func(t testing.TB) {
		pool := tasktest.DB(t)
		tx, err := pool.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer tx.Rollback(t.Context())
		if err := placeOrder(t.Context(), tx, 17); err != nil {
			t.Fatal(err)
		}
		tasktest.RequireEnqueued(t, tx, demo.SendReceipt{}, demo.SendReceiptArgs{OrderID: 17, To: "ada@example.org"}, task.In(time.Hour))
	})

	// Output:
	// tasktest: no such job of send_receipt was enqueued in this transaction
	// --- expected
	// +++ job ID
	// @@ -6,5 +6,5 @@
	//  idempotency key 304701208dc4, held for 72h0m0s
	//  {
	//    "order_id": 17,
	// -  "to": "ada@example.org"
	// +  "to": "ada@example.com"
	//  }
	// 1 job:
	// 	ID send_receipt on mail, due in 1h0m0s, scheduled, {"to": "ada@example.com", "order_id": 17}
}
