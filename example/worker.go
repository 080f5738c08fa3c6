package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlgo/pawl/example/tasks"
	"github.com/pawlgo/pawl/example/work"
	pawlrt "github.com/pawlgo/pawl/runtime"
	"github.com/pawlgo/pawl/task"
)

// workerOrder is what a worker process is told to do: the first line of its
// standard input. It holds a password, so it is neither an argument nor a
// variable.
type workerOrder struct {
	Name     string         `json:"name"`
	Database string         `json:"database"`
	Out      string         `json:"out"`
	Orphaned bool           `json:"remove_when_orphaned"` // Out is temporary: remove it once the parent is dead
	Slots    map[string]int `json:"slots"`
	Lease    time.Duration  `json:"lease"`
	Pace     work.Pace      `json:"pace"`
	Verbose  bool           `json:"verbose"`
}

// lastWord is the second line, with which the parent asks for the end. An input
// that ends without it has lost its parent.
const lastWord = "drain"

// errOrphaned says that the parent of a worker process has died.
var errOrphaned = errors.New("the parent process has died")

// isWorker says whether this process is a worker of another one.
func isWorker(args []string) bool { return len(args) == 2 && args[1] == "worker" }

// workerMain is a worker process: one Pawl worker, with the platform's handlers
// and projections, for as long as the parent wants or lives.
func workerMain(stdin io.Reader, stderr io.Writer) int {
	// An interrupt from the terminal reaches the whole group of processes. The
	// parent then says what to do.
	signal.Ignore(os.Interrupt)
	input := bufio.NewReader(stdin)
	var order workerOrder
	line, err := input.ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &order)
	}
	if err != nil {
		fmt.Fprintf(stderr, "worker: read the order from the parent process: %v\n", err)
		return exitFailed
	}
	ctx, stop := context.WithCancelCause(context.Background())
	defer stop(nil)
	go func() {
		// Without an owner on purpose: it ends with the process at the latest.
		if line, _ := input.ReadString('\n'); line == lastWord+"\n" {
			stop(nil)
			return
		}
		stop(errOrphaned)
	}()
	logger := slog.New(slog.DiscardHandler)
	if order.Verbose {
		logger = slog.New(slog.NewTextHandler(stderr, nil)).With("worker", order.Name)
	}
	if err := order.work(ctx, logger); err != nil {
		fmt.Fprintf(stderr, "worker %s: %v\n", order.Name, err)
		return exitFailed
	}
	return exitOK
}

// work runs the worker until ctx ends.
func (o workerOrder) work(ctx context.Context, logger *slog.Logger) error {
	config, err := pgxpool.ParseConfig(o.Database)
	if err != nil {
		return err
	}
	config.MaxConns = 18
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return err
	}
	out, err := os.OpenRoot(o.Out)
	if err != nil {
		return errors.Join(err, ctx.Err())
	}
	queues := map[string]pawlrt.Queue{}
	for name, slots := range o.Slots {
		queues[name] = pawlrt.Queue{Concurrency: slots}
	}
	handlers := work.New(pool, out, o.Name, o.Pace)
	worker, err := pawlrt.New(pool, pawlrt.Config{
		Tables: tasks.Tables(handlers), Queues: queues, Events: []task.EventTable{tasks.Events(handlers)},
		Name: o.Name, Logger: logger, Lease: o.Lease,
		SoftLimit: 3 * time.Second, HardLimit: 5 * time.Second,
	})
	if err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() { done <- worker.Run(ctx) }()
	select {
	case err = <-done:
	case <-ctx.Done():
		if errors.Is(context.Cause(ctx), errOrphaned) {
			return o.abandon()
		}
		err = <-done
	}
	pool.Close()
	return errors.Join(err, out.Close())
}

// abandon is the end of an orphan. Its database goes with the parent, so there
// is nothing to drain; what stays until the next run sweeps is the directory.
func (o workerOrder) abandon() error {
	if !o.Orphaned {
		return errOrphaned
	}
	return errors.Join(errOrphaned, removeOutput(o.Out))
}
