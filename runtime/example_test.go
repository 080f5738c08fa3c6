package runtime_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/jackc/pgx/v5"

	"github.com/pawlgo/pawl/internal/demo"
	"github.com/pawlgo/pawl/internal/demo/ledger"
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

// bookkeeper handles the queue ledger. Its task is transactional, so each
// handler gets a transaction that the worker commits together with the end of
// the job: what it writes and enqueues there happens exactly once.
type bookkeeper struct{ booked func() }

func (b bookkeeper) HandlePostPayment(ctx context.Context, tx pgx.Tx, job *task.Job[ledger.PostPaymentArgs]) error {
	if _, err := tx.Exec(ctx, `INSERT INTO bookings (account, cents) VALUES ($1, $2)`, job.Args.Account, job.Args.Cents); err != nil {
		return err
	}
	if job.Attempt == 1 && job.Args.Cents == 300 { // rolled back, and tried again before the next payment of the account
		return task.Transient(errors.New("the bank is busy"))
	}
	b.booked()
	_, err := ledger.EnqueueSendStatement(ctx, tx, ledger.SendStatementArgs{Account: job.Args.Account})
	return err
}

// A task that is ordered and transactional: the payments of an account are
// booked one at a time, in order, each exactly once, whatever fails between.
func Example_transactional() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	pool, drop := testdb.Example(ctx)
	defer drop()
	if _, err := pool.Exec(ctx, `CREATE TABLE bookings (n serial, account text, cents bigint)`); err != nil {
		panic(err)
	}
	err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		_, err := ledger.EnqueueManyPostPayment(ctx, tx, []ledger.PostPaymentArgs{
			{Account: "ada", Cents: 300}, {Account: "ada", Cents: -120}, {Account: "ada", Cents: 70},
		})
		return err
	})
	if err != nil {
		panic(err)
	}

	left := 3
	worker, err := pawlrt.New(pool, pawlrt.Config{
		Tables: []task.Table{ledger.LedgerTable(bookkeeper{booked: func() {
			if left--; left == 0 {
				stop()
			}
		}})},
		Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		panic(err)
	}
	if err := worker.Run(ctx); err != nil {
		panic(err)
	}
	var bookings, statements string
	if err := pool.QueryRow(context.Background(), `SELECT (SELECT string_agg(cents::text, ' ' ORDER BY n) FROM bookings),
		(SELECT count(*)::text FROM pawl.job_status WHERE kind = 'send_statement')`).Scan(&bookings, &statements); err != nil {
		panic(err)
	}
	fmt.Println("bookings:", bookings)
	fmt.Println("statements:", statements)

	// Output:
	// bookings: 300 -120 70
	// statements: 3
}

// Middleware runs around every handler, for what all of them need.
func ExampleMiddleware() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	pool, drop := testdb.Example(ctx)
	defer drop()
	if _, err := demo.EnqueueSendReceipt(ctx, task.Autocommit(pool), demo.SendReceiptArgs{OrderID: 17, To: "ada@example.com"}); err != nil {
		panic(err)
	}

	audit := func(ctx context.Context, job pawlrt.JobInfo, next func(context.Context) error) error {
		err := next(ctx)
		fmt.Printf("%s, attempt %d: %v\n", job.Kind, job.Attempt, err)
		return err
	}
	worker, err := pawlrt.New(pool, pawlrt.Config{
		Tables:     demo.Tables(mailer{done: stop}),
		Middleware: []pawlrt.Middleware{audit},
		Logger:     slog.New(slog.DiscardHandler),
	})
	if err != nil {
		panic(err)
	}
	if err := worker.Run(ctx); err != nil {
		panic(err)
	}

	// Output:
	// send_receipt, attempt 1: the mail server is busy
	// receipt of order 17 to ada@example.com, attempt 2 of 5
	// send_receipt, attempt 2: <nil>
}
