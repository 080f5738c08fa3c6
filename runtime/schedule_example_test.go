package runtime_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/pawlgo/pawl/internal/demo/nightly"
	"github.com/pawlgo/pawl/internal/testdb"
	pawlrt "github.com/pawlgo/pawl/runtime"
	"github.com/pawlgo/pawl/task"
)

// reporter handles the queue reports.
type reporter struct{ done func() }

func (r reporter) HandleReport(_ context.Context, job *task.Job[nightly.ReportArgs]) error {
	day, err := time.Parse(time.DateOnly, job.Args.Day)
	if err != nil {
		return task.Permanent(err)
	}
	fmt.Println("a report of a day that is over:", day.Before(job.RunAt))
	r.done()
	return nil
}

// The jobs of a schedule need no caller: a worker that has the table makes them.
// RunNow makes one besides.
func Example_schedule() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	pool, drop := testdb.Example(ctx)
	defer drop()

	worker, err := pawlrt.New(pool, pawlrt.Config{
		Tables: nightly.Tables(reporter{done: stop}),
		Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		panic(err)
	}
	finished := make(chan error, 1)
	go func() { finished <- worker.Run(ctx) }()

	// A database knows a schedule as soon as a worker that has it runs.
	for range time.Tick(20 * time.Millisecond) {
		if err = task.RunNow(ctx, task.Autocommit(pool), nightly.KindReport); !errors.Is(err, task.ErrNoSchedule) {
			break
		}
	}
	if err != nil {
		panic(err)
	}
	if err := <-finished; err != nil {
		panic(err)
	}
	// Output: a report of a day that is over: true
}
