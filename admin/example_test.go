package admin_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"

	"github.com/google/uuid"

	"github.com/pawlgo/pawl/admin"
	"github.com/pawlgo/pawl/internal/demo"
	"github.com/pawlgo/pawl/internal/testdb"
	pawlrt "github.com/pawlgo/pawl/runtime"
	"github.com/pawlgo/pawl/task"
)

// mailer is down for a while.
type mailer struct {
	down  bool
	ended chan<- int64
}

func (m mailer) HandleSendReceipt(_ context.Context, job *task.Job[demo.SendReceiptArgs]) error {
	defer func() { m.ended <- job.Args.OrderID }()
	if m.down {
		return task.Permanent(fmt.Errorf("no route to the mailbox of order %d", job.Args.OrderID))
	}
	return nil
}

// mail runs a worker until three jobs have been handled.
func mail(ctx context.Context, w func(chan<- int64) (*pawlrt.Worker, error)) error {
	ended := make(chan int64, 3)
	worker, err := w(ended)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	done := make(chan error, 1)
	go func() { done <- worker.Run(ctx) }()
	for range 3 {
		<-ended
	}
	stop()
	return <-done
}

// Three receipts cannot be sent, for a reason that is over. They are looked at by
// their error, and run again.
func Example() {
	ctx := context.Background()
	pool, drop := testdb.Example(ctx) // a database with Pawl's schema
	defer drop()
	c := admin.New(pool, admin.Options{By: "alice"})

	run := func() error {
		var ids []uuid.UUID
		for order := range int64(3) {
			receipt, err := demo.EnqueueSendReceipt(ctx, task.Autocommit(pool), demo.SendReceiptArgs{OrderID: 41 + order, To: "a@example.com"})
			if err != nil {
				return err
			}
			ids = append(ids, receipt.ID)
		}
		why, err := c.Why(ctx, ids[0])
		if err != nil {
			return err
		}
		fmt.Println(why.Reasons[0].Text)

		err = mail(ctx, func(ended chan<- int64) (*pawlrt.Worker, error) {
			return pawlrt.New(pool, pawlrt.Config{Tables: demo.Tables(mailer{true, ended}), Logger: slog.New(slog.DiscardHandler)})
		})
		if err != nil {
			return err
		}
		groups, err := c.DeadGroups(ctx, admin.Page{})
		if err != nil {
			return err
		}
		sort := groups.Groups[0]
		fmt.Printf("%v dead: %s\n", sort.Count, sort.Shape)

		redrive, err := c.Redrive(ctx, admin.RedriveOptions{Filter: admin.DeadFilter{Fingerprint: sort.Fingerprint}, Reason: "the route is back"})
		if err != nil {
			return err
		}
		fmt.Println("redriven:", redrive.Redriven)
		err = mail(ctx, func(ended chan<- int64) (*pawlrt.Worker, error) {
			return pawlrt.New(pool, pawlrt.Config{Tables: demo.Tables(mailer{false, ended}), Logger: slog.New(slog.DiscardHandler)})
		})
		if err != nil {
			return err
		}
		job, err := c.Job(ctx, ids[0])
		if err != nil {
			return err
		}
		fmt.Printf("%s, after it was dead once: %s\n", job.State, job.Lives[0].Summary)

		err = c.RetryJob(ctx, ids[0], "")
		fmt.Println(errors.Is(err, admin.ErrNotDead))
		return nil
	}
	if err := run(); err != nil {
		log.Print(err)
	}
	// Output:
	// no live worker serves queue mail
	// 3 dead: no route to the mailbox of order #
	// redriven: 3
	// completed, after it was dead once: no route to the mailbox of order 41
	// true
}
