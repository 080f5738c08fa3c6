package tasktest_test

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/pawlgo/pawl/task"
	"github.com/pawlgo/pawl/task/taskimpl"
)

// mailArgs is a payload with what is compared in more than one way.
type mailArgs struct {
	To     string         `json:"to"`
	Weight float64        `json:"weight,omitempty"`
	At     time.Time      `json:"at"`
	Tags   map[string]int `json:"tags,omitempty"`
	Org    string         `json:"org,omitempty"`
	Mode   string         `json:"mode,omitempty"`
}

var mailKind = taskimpl.Kind[mailArgs]{
	Name: "mail", Queue: "post", Priority: task.Normal, Version: 1,
	Policy:       taskimpl.Policy{Attempts: 3, Base: time.Hour, Max: time.Hour, Unknown: 3, Timeout: time.Minute},
	Capabilities: []taskimpl.Capability{{Version: 1, ID: 101}},
	Organization: func(a *mailArgs) (string, error) { return a.Org, nil },
	Decode:       func(_ int, raw []byte) (mailArgs, error) { return taskimpl.As[mailArgs](raw) },
}

// mail is a declared task, as generated code would have it.
type mail struct{}

func (mail) TaskKind() *taskimpl.Kind[mailArgs] { return &mailKind }

func enqueueMail(ctx context.Context, tx task.Tx, args mailArgs, opts ...task.EnqueueOption) (task.Receipt, error) {
	return taskimpl.Enqueue(ctx, tx, &mailKind, args, opts)
}

func mailTable(h taskimpl.Handler[mailArgs]) task.Table {
	return taskimpl.Table(taskimpl.Row(&mailKind, h))
}

type billArgs struct {
	Number int    `json:"number"`
	Text   string `json:"text,omitempty"`
}

// billKind has an idempotency key, and an order.
var billKind = taskimpl.Kind[billArgs]{
	Name: "bill", Queue: "money", Priority: task.High, Version: 2,
	Policy:       taskimpl.Policy{Attempts: 5, Base: time.Minute, Max: time.Minute, Unknown: 5, Timeout: time.Minute},
	Capabilities: []taskimpl.Capability{{Version: 2, ID: 102}},
	Key:          func(a *billArgs) []any { return []any{a.Number} },
	Keep:         48 * time.Hour,
	Order:        []string{"text"},
	Decode:       func(_ int, raw []byte) (billArgs, error) { return taskimpl.As[billArgs](raw) },
}

type bill struct{}

func (bill) TaskKind() *taskimpl.Kind[billArgs] { return &billKind }

func enqueueBill(ctx context.Context, tx task.Tx, args billArgs, opts ...task.EnqueueOption) (task.Receipt, error) {
	return taskimpl.Enqueue(ctx, tx, &billKind, args, opts)
}

func billTable(h taskimpl.Handler[billArgs]) task.Table {
	return taskimpl.Table(taskimpl.Row(&billKind, h))
}

// put enqueues and returns the receipt.
func put[A any](t *testing.T, tx task.Tx, enqueue func(context.Context, task.Tx, A, ...task.EnqueueOption) (task.Receipt, error), args A, opts ...task.EnqueueOption) task.Receipt {
	t.Helper()
	receipt, err := enqueue(t.Context(), tx, args, opts...)
	require.NoError(t, err)
	return receipt
}

func begin(t *testing.T, db interface {
	Begin(context.Context) (pgx.Tx, error)
}) pgx.Tx {
	t.Helper()
	tx, err := db.Begin(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) })
	return tx
}

func exec(t *testing.T, pool *pgxpool.Pool, sql string, args ...any) {
	t.Helper()
	_, err := pool.Exec(t.Context(), sql, args...)
	require.NoError(t, err)
}

// fake is a test that can fail without failing the one that it is part of.
type fake struct {
	testing.TB
	log    strings.Builder
	failed bool
}

func (f *fake) Helper() {}

func (f *fake) Fatalf(format string, args ...any) {
	fmt.Fprintf(&f.log, format, args...)
	f.failed = true
	runtime.Goexit()
}

// failure runs what should fail the test, and returns what it says.
func failure(t *testing.T, do func(t testing.TB)) string {
	t.Helper()
	f := &fake{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		do(f)
	}()
	<-done
	require.True(t, f.failed, "it does not fail")
	return f.log.String()
}

// run calls a test function as go test would, for examples, and prints what a
// failure says.
func run(test func(t testing.TB)) {
	ctx, cancel := context.WithCancel(context.Background())
	t := &exampleT{ctx: ctx}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			cancel()
			for _, f := range slices.Backward(t.cleanups) {
				f()
			}
		}()
		test(t)
	}()
	<-done
}

// exampleT is as much of a testing.TB as the examples need.
type exampleT struct {
	testing.TB
	ctx      context.Context
	cleanups []func()
}

func (t *exampleT) Helper()                  {}
func (t *exampleT) Context() context.Context { return t.ctx }
func (t *exampleT) Cleanup(f func())         { t.cleanups = append(t.cleanups, f) }
func (t *exampleT) Output() io.Writer        { return io.Discard }

func (t *exampleT) Errorf(format string, args ...any) {
	fmt.Println(ids.ReplaceAllString(fmt.Sprintf(format, args...), "ID"))
}

func (t *exampleT) Fatal(args ...any) { t.Fatalf("%s", fmt.Sprint(args...)) }

func (t *exampleT) Fatalf(format string, args ...any) {
	t.Errorf(format, args...)
	runtime.Goexit()
}
