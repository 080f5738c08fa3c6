package task_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/pawlgo/pawl/internal/demo"
	"github.com/pawlgo/pawl/internal/testdb"
	"github.com/pawlgo/pawl/task"
)

// An enqueue belongs to the transaction of the change, and a duplicate key does
// not disturb it: the receipt says which job holds the key.
func Example_transaction() {
	ctx := context.Background()
	pool, drop := testdb.Example(ctx)
	defer drop()

	order := demo.SendReceiptArgs{OrderID: 17, To: "ada@example.com"}
	var first, second task.Receipt
	err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) (err error) {
		if first, err = demo.EnqueueSendReceipt(ctx, tx, order); err != nil {
			return err
		}
		second, err = demo.EnqueueSendReceipt(ctx, tx, order)
		return err
	})
	if err != nil {
		panic(err)
	}
	fmt.Println("first: duplicate", first.Duplicate)
	fmt.Println("second: duplicate", second.Duplicate, "of the first", second.ID == first.ID, "same arguments", second.SameArgs, second.State)

	// Output:
	// first: duplicate false
	// second: duplicate true of the first true same arguments true pending
}

// With database/sql, the transaction is adapted.
func ExampleSQL() {
	ctx := context.Background()
	pool, drop := testdb.Example(ctx)
	defer drop()
	db := stdlib.OpenDBFromPool(pool)
	defer db.Close()

	tx, err := db.BeginTx(ctx, &sql.TxOptions{})
	if err != nil {
		panic(err)
	}
	defer tx.Rollback()
	receipt, err := demo.EnqueueSendReceipt(ctx, task.SQL(tx), demo.SendReceiptArgs{OrderID: 18}, task.In(time.Hour))
	if err != nil {
		panic(err)
	}
	fmt.Println(receipt.State)
	if err := tx.Commit(); err != nil {
		panic(err)
	}

	// Output:
	// scheduled
}

// Where there is no change to tie the job to, Autocommit says so.
func ExampleAutocommit() {
	ctx := context.Background()
	pool, drop := testdb.Example(ctx)
	defer drop()

	_, err := demo.EnqueueSendReceipt(ctx, task.Autocommit(pool), demo.SendReceiptArgs{OrderID: 19, To: "a\x00b"})
	fmt.Println(errors.Is(err, task.ErrInvalidArgs))

	receipts, err := demo.EnqueueManySendReceipt(ctx, task.Autocommit(pool),
		[]demo.SendReceiptArgs{{OrderID: 20}, {OrderID: 21}}, task.Priority(task.High), task.Attempts(3))
	fmt.Println(len(receipts), err)

	// Output:
	// true
	// 2 <nil>
}

// Cancel belongs to the caller's transaction too: here the order is taken back
// together with the mail about it.
func ExampleCancel() {
	ctx := context.Background()
	pool, drop := testdb.Example(ctx)
	defer drop()

	receipt, err := demo.EnqueueSendReceipt(ctx, task.Autocommit(pool), demo.SendReceiptArgs{OrderID: 22}, task.In(time.Hour))
	if err != nil {
		panic(err)
	}
	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		state, err := task.Cancel(ctx, tx, receipt.ID)
		if err != nil {
			return err
		}
		switch state {
		case task.StateCancelled:
			fmt.Println("it will not be sent")
		case task.StateLeased:
			fmt.Println("it is being sent; the handler has been told")
		default:
			fmt.Println("it was too late: the job is", state)
		}
		return nil
	})
	if err != nil {
		panic(err)
	}
	_, err = task.Cancel(ctx, task.Autocommit(pool), uuid.New())
	fmt.Println(errors.Is(err, task.ErrNoJob))

	// Output:
	// it will not be sent
	// true
}

// A tenant leaves: what waits for it is cancelled, and what runs is told to end.
func ExampleCancelOrganization() {
	ctx := context.Background()
	pool, drop := testdb.Example(ctx)
	defer drop()

	waiting, running, err := task.CancelOrganization(ctx, task.Autocommit(pool), "acme")
	fmt.Println(waiting, running, err)

	// Output:
	// 0 0 <nil>
}

// A queue stands still in all processes, while the mail server is away.
func ExamplePause() {
	ctx := context.Background()
	pool, drop := testdb.Example(ctx)
	defer drop()

	changed, err := task.Pause(ctx, task.Autocommit(pool), "mail")
	fmt.Println("paused", changed, err)
	changed, err = task.Pause(ctx, task.Autocommit(pool), "mail")
	fmt.Println("paused", changed, err)
	changed, err = task.Resume(ctx, task.Autocommit(pool), "mail")
	fmt.Println("resumed", changed, err)

	// Output:
	// paused true <nil>
	// paused false <nil>
	// resumed true <nil>
}

// A handler says what its failure means. The error stays visible to errors.Is.
func ExamplePermanent() {
	errNoSuchOrder := errors.New("no such order")
	err := fmt.Errorf("order 17: %w", task.Permanent(errNoSuchOrder))
	fmt.Println(err, errors.Is(err, errNoSuchOrder), task.Classify(err).Class)

	// Output:
	// order 17: no such order true permanent
}

// The answer of an HTTP server says by itself what a failure means.
func ExampleResponseError() {
	resp := &http.Response{StatusCode: http.StatusTooManyRequests, Header: http.Header{"Retry-After": {"30"}}}
	err := task.ResponseError(resp)
	failure := task.Classify(err)
	fmt.Println(err, failure.Class, failure.After)

	// Output:
	// the server answered 429 Too Many Requests rate_limited 30s
}
