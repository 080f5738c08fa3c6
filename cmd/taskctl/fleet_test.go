package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	pawlrt "github.com/pawlgo/pawl/runtime"
	"github.com/pawlgo/pawl/task"
	"github.com/pawlgo/pawl/task/taskimpl"
)

// webhook is the payload of the scripts' jobs.
type webhook struct {
	N       int    `json:"n"`
	Account string `json:"account"`
	Mode    string `json:"mode"`
}

// kinds are those of the scripts: webhooks, and postings that keep their order.
func kinds(version int) (webhooks, postings *taskimpl.Kind[webhook]) {
	decode := func(_ int, raw []byte) (webhook, error) { return taskimpl.As[webhook](raw) }
	organization := func(w *webhook) (string, error) { return w.Account, nil }
	webhooks = &taskimpl.Kind[webhook]{
		Name: "send_webhook", Queue: "webhooks", Priority: task.Normal, Version: version, Organization: organization, OrganizationField: "account",
		Policy:       taskimpl.Policy{Attempts: 3, Base: time.Hour, Max: time.Hour, Unknown: 3, Timeout: time.Minute},
		Capabilities: []taskimpl.Capability{{Version: version, ID: 0xabcd0000 + uint64(version)}}, Decode: decode,
	}
	postings = &taskimpl.Kind[webhook]{
		Name: "post", Queue: "books", Priority: task.Normal, Version: 1, Organization: organization, OrganizationField: "account", Order: []string{"account"},
		Policy:       taskimpl.Policy{Attempts: 3, Base: time.Hour, Max: time.Hour, Unknown: 3, Timeout: time.Minute},
		Capabilities: []taskimpl.Capability{{Version: 1, ID: 0xdcba0001}}, Decode: decode,
		Schedule: &taskimpl.Schedule[webhook]{
			Spec: "30 2 * * *", Zone: "America/Los_Angeles", Missed: "one",
			Args: func(time.Time) webhook { return webhook{Account: "tick"} },
		},
	}
	return webhooks, postings
}

// workerMain runs a worker until it is interrupted. The variable GONE lists the
// numbers of the jobs whose receiver answers 410: "all", or such as 3,5.
func workerMain() {
	version := flag.Int("version", 1, "of the payload")
	flag.Parse()
	gone := os.Getenv("GONE")
	handle := func(ctx context.Context, job *task.Job[webhook]) error {
		switch job.Args.Mode {
		case "hang":
			<-ctx.Done()
			return ctx.Err()
		case "retry":
			return task.Transient(errors.New("the server is away"))
		}
		if gone == "all" || slices.Contains(strings.Split(gone, ","), strconv.Itoa(job.Args.N)) {
			return task.Permanent(fmt.Errorf("POST https://example.com/%d: the server answered 410 Gone", job.Args.N))
		}
		return nil
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	pool, err := pgxpool.New(ctx, os.Getenv("APP_URL"))
	check(err)
	defer pool.Close()
	webhooks, postings := kinds(*version)
	worker, err := pawlrt.New(pool, pawlrt.Config{
		Tables: []task.Table{taskimpl.Table(taskimpl.Row(webhooks, handle)), taskimpl.Table(taskimpl.Row(postings, handle))},
		Events: []task.EventTable{taskimpl.EventTable(taskimpl.EventRow(completed, project))},
		Name:   "bob", Poll: 50 * time.Millisecond, SoftLimit: 100 * time.Millisecond, Logger: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
	check(err)
	check(worker.Run(ctx))
}

// enqueueMain enqueues jobs and prints their ids.
func enqueueMain() {
	var (
		job     webhook
		in      = flag.Duration("in", 0, "from now")
		version = flag.Int("version", 1, "of the payload")
		count   = flag.Int("count", 1, "how many, numbered from 1")
		post    = flag.Bool("post", false, "a posting, not a webhook")
	)
	flag.StringVar(&job.Account, "account", "acme", "")
	flag.StringVar(&job.Mode, "mode", "", "")
	flag.Parse()
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, os.Getenv("APP_URL"))
	check(err)
	defer pool.Close()
	webhooks, postings := kinds(*version)
	kind := webhooks
	if *post {
		kind = postings
	}
	for n := range *count {
		job.N = n + 1
		receipt, err := taskimpl.Enqueue(ctx, task.Autocommit(pool), kind, job, []task.EnqueueOption{task.In(*in)})
		check(err)
		fmt.Println(receipt.ID)
	}
}

// completed is the event of the scripts.
var completed = &taskimpl.Event[webhook]{
	Name: "trip.completed", Aggregate: "trip", Version: 1, Policy: taskimpl.Policy{Attempts: 1, Base: time.Second, Max: time.Second, Unknown: 1, Timeout: time.Minute},
	Capabilities: []taskimpl.Capability{{Version: 1, ID: 0xeeee0001}},
	Decode:       func(_ int, raw []byte) (webhook, error) { return taskimpl.As[webhook](raw) },
}

func project(_ context.Context, _ pgx.Tx, fact *task.Fact[webhook]) error {
	if fact.Payload.Mode == "poison" {
		return task.Permanent(errors.New("trip 7 has no driver"))
	}
	return nil
}

// publishMain publishes events of an aggregate, one for each mode that is named,
// and prints their ids.
func publishMain() {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, os.Getenv("APP_URL"))
	check(err)
	defer pool.Close()
	for _, mode := range os.Args[2:] {
		receipt, err := taskimpl.Publish(ctx, task.Autocommit(pool), completed, os.Args[1], webhook{Mode: mode}, nil)
		check(err)
		fmt.Println(receipt.ID)
	}
}
