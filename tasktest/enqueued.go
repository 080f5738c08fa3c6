package tasktest

import (
	"encoding/hex"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/pawlgo/pawl/internal/enqueue"
	"github.com/pawlgo/pawl/internal/store"
	"github.com/pawlgo/pawl/task"
	"github.com/pawlgo/pawl/task/taskimpl"
)

// Declaration is a declared task, such as tasks.SendReceipt{}, whose payload is
// A. The method is generated.
type Declaration[A any] interface {
	TaskKind() *taskimpl.Kind[A]
}

// Job is a job as it was enqueued.
type Job[A any] struct {
	ID             uuid.UUID
	Kind           string
	Queue          string
	OrganizationID string // empty where the kind declares none
	Version        int    // of the payload that is stored
	Priority       task.PriorityLevel
	MaxAttempts    int
	// EnqueuedAt and RunAt are by the database's clock: when it was enqueued, and
	// when it first becomes due. They are equal where that is at once.
	EnqueuedAt, RunAt time.Time
	// Key is the digest of its idempotency key in hexadecimal, empty for none.
	Key string
	// Keep is for how long its key is held at least, from the enqueue; zero where
	// there is none or it was given up.
	Keep time.Duration
	// OrderKey is the same in jobs that run one at a time, and empty in those
	// without such a key.
	OrderKey string
	// State is where it stands.
	State task.State
	// Args is the payload.
	Args A
}

// Delay is how long after its enqueue the job becomes due.
func (j Job[A]) Delay() time.Duration { return j.RunAt.Sub(j.EnqueuedAt) }

func (j Job[A]) known() []uuid.UUID { return []uuid.UUID{j.ID} }

// Jobs are jobs in the order of their enqueue.
type Jobs[A any] []Job[A]

func (js Jobs[A]) known() (ids []uuid.UUID) {
	for _, j := range js {
		ids = append(ids, j.ID)
	}
	return ids
}

// Known is what [RequireNothingElse] can be told of: a [Job] or [Jobs].
type Known interface{ known() []uuid.UUID }

// Enqueued returns the jobs of a declaration that the transaction has enqueued,
// or all that there are where db is no transaction, in the order of their enqueue.
// A job of another name, of before a rename, is not one of them. It fails the test
// where they cannot be read or decoded.
func Enqueued[A any](t testing.TB, db task.Querier, declaration Declaration[A]) Jobs[A] {
	t.Helper()
	kind := declaration.TaskKind()
	var jobs Jobs[A]
	for _, row := range look(t, db).read(t, "").rows {
		if row.Kind == kind.Name {
			jobs = append(jobs, typed(t, kind, row))
		}
	}
	return jobs
}

// RequireEnqueued fails the test unless the transaction has enqueued exactly one
// job that is as if it came of an enqueue of args with opts: the same payload, due
// time, priority, attempts, organization and idempotency key. It returns that job.
// The failure shows how the one that comes closest differs.
//
// Due at once, which is what an enqueue without task.At and task.In means, is to
// the microsecond, as is task.In: both are counted by the database from its own
// clock. task.NoWake makes no difference that could be seen.
func RequireEnqueued[A any](t testing.TB, db task.Querier, declaration Declaration[A], args A, opts ...task.EnqueueOption) Job[A] {
	t.Helper()
	kind := declaration.TaskKind()
	plan, err := taskimpl.Planned(kind, args, opts)
	if err != nil {
		t.Fatalf("tasktest: no enqueue could store what is expected: %v", err)
	}
	v := look(t, db).read(t, plan.Jobs[0].Args)
	want := expectation{Batch: &plan, args: v.normal}
	var found []store.Inspected
	for _, row := range v.rows {
		if want.fits(&row) {
			found = append(found, row)
		}
	}
	switch len(found) {
	case 0:
		t.Fatalf("tasktest: %s", want.missing(t, v))
	case 1:
	default:
		t.Fatalf("tasktest: %d jobs are equal where one is expected; use Enqueued where several are meant\n%s", len(found), list(found))
	}
	return typed(t, kind, found[0])
}

// RequireNothingElse fails the test if the transaction has enqueued a job that is
// not one of the known, or if there is one where db is no transaction. The failure
// lists those. With nothing known, it requires that nothing was enqueued at all.
func RequireNothingElse(t testing.TB, db task.Querier, known ...Known) {
	t.Helper()
	v := look(t, db).read(t, "")
	for _, k := range known {
		for _, id := range k.known() {
			v.rows = slices.DeleteFunc(v.rows, func(row store.Inspected) bool { return row.ID == id })
		}
	}
	if len(v.rows) > 0 {
		verb := "was"
		if len(v.rows) > 1 {
			verb = "were"
		}
		t.Fatalf("tasktest: %s %s not expected\n%s", count(len(v.rows), "job"), verb, list(v.rows))
	}
}

// view is what a test can look at.
type view struct {
	db     task.Querier
	schema string
	own    bool // a transaction's own jobs
	rows   []store.Inspected
	normal string // the arguments that were asked for, as the database writes them
}

func look(t testing.TB, db task.Querier) *view {
	t.Helper()
	schema, err := enqueue.SchemaOf(db)
	if err != nil {
		t.Fatalf("tasktest: %v", err)
	}
	own, err := store.InTransaction(t.Context(), db)
	if err != nil {
		t.Fatalf("tasktest: look into the database: %v", explain(err))
	}
	return &view{db: db, schema: schema, own: own}
}

func (v *view) read(t testing.TB, args string) *view {
	t.Helper()
	var err error
	v.rows, v.normal, err = store.Inspect(t.Context(), v.db, v.schema, v.own, args)
	if err != nil {
		t.Fatalf("tasktest: read what was enqueued: %v", explain(err))
	}
	return v
}

func typed[A any](t testing.TB, kind *taskimpl.Kind[A], row store.Inspected) Job[A] {
	t.Helper()
	args, err := kind.Decode(row.Version, row.Args)
	if err != nil {
		t.Fatalf("tasktest: decode the payload of %s: %v\n%s", row.Kind, err, list([]store.Inspected{row}))
	}
	return Job[A]{
		ID: row.ID, Kind: row.Kind, Queue: row.Queue, OrganizationID: row.OrganizationID, Version: row.Version,
		Priority: task.PriorityLevel(row.Priority), MaxAttempts: row.MaxAttempts, EnqueuedAt: row.EnqueuedAt, RunAt: row.RunAt,
		Key: hex.EncodeToString(row.Key), Keep: row.Keep(), OrderKey: hex.EncodeToString(row.OrderKey),
		State: task.State(row.State), Args: args,
	}
}
