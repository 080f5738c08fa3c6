package runtime_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	goruntime "runtime"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	pawlrt "github.com/pawlgo/pawl/runtime"
	"github.com/pawlgo/pawl/task"
	"github.com/pawlgo/pawl/task/taskimpl"
)

// The queues of the chaos kinds.
const (
	chaosWork  = "work"  // ordinary tasks
	chaosTx    = "tx"    // transactional ones
	chaosLines = "lines" // tasks with an order key
)

var chaosQueues = []string{chaosWork, chaosTx, chaosLines}

// burden is the payload of the chaos kinds.
type burden struct {
	N      int    `json:"n"` // the idempotency or order key, where there is one
	Org    string `json:"org"`
	Mode   string `json:"mode"`
	Micros int    `json:"micros"` // how long the handler takes; above zero
}

// burdenV1 is its first version.
type burdenV1 struct {
	N    int    `json:"n"`
	Org  string `json:"org"`
	Mode string `json:"mode"`
	Ms   int    `json:"ms"`
}

func upgradeBurden(old burdenV1) (burden, error) {
	return burden{N: old.N, Org: old.Org, Mode: old.Mode, Micros: 1000 * old.Ms}, nil
}

// The modes of a burden: what its handler does.
const (
	modeFine      = "fine"
	modeDeaf      = "deaf"      // takes its time, whatever becomes of its context, once
	modeHang      = "hang"      // until its context ends, and then fails with that, twice
	modeTransient = "transient" // once
	modeLimited   = "limited"   // once
	modeUnknown   = "unknown"   // always
	modePermanent = "permanent"
	modeRevoked   = "revoked"
	modePanic     = "panic"
	modeGoexit    = "goexit"
	modeSnooze    = "snooze" // now and then
	modeFollow    = "follow" // enqueues others
	modeExit      = "exit"   // takes its process along, once
)

// chaosKinds are the kinds as two generations of a binary know them: the second
// has another version of some.
type chaosKinds struct {
	work, line       *taskimpl.Kind[burden]
	oldWork, oldLine *taskimpl.Kind[burdenV1]
	once             *taskimpl.Kind[burden] // idempotent
	tx               []*taskimpl.Kind[burden]
	txLine           *taskimpl.Kind[burden]
}

// onceKeep is how long the keys of the kind once are held at least: for less
// than a run takes, so that they are used again.
const onceKeep = 700 * time.Millisecond

func newChaosKinds() *chaosKinds {
	byN := []string{"n"}
	k := &chaosKinds{
		work: chaosKind[burden]("work", chaosWork, 2), oldWork: chaosKind[burdenV1]("work", chaosWork, 1),
		line: chaosKind[burden]("line", chaosLines, 2), oldLine: chaosKind[burdenV1]("line", chaosLines, 1),
		once: chaosKind[burden]("once", chaosWork, 1), txLine: chaosKind[burden]("tx_line", chaosLines, 1),
	}
	for _, upgraded := range []*taskimpl.Kind[burden]{k.work, k.line} {
		upgraded.Capabilities = append(upgraded.Capabilities, chaosCapability(upgraded.Name, 1))
		upgraded.Decode = func(version int, raw []byte) (burden, error) {
			if version == 2 {
				return taskimpl.As[burden](raw)
			}
			old, err := taskimpl.As[burdenV1](raw)
			return taskimpl.Upgrade(1, old, err, upgradeBurden)
		}
	}
	k.work.Organization = func(b *burden) (string, error) { return b.Org, nil }
	k.oldWork.Organization = func(b *burdenV1) (string, error) { return b.Org, nil }
	k.work.OrganizationField, k.oldWork.OrganizationField = "org", "org"
	k.line.Order, k.oldLine.Order, k.txLine.Order = byN, byN, byN
	k.once.Key, k.once.Keep = func(b *burden) []any { return []any{b.N} }, onceKeep
	for i, level := range levels {
		tx := chaosKind[burden](fmt.Sprintf("tx%d", i), chaosTx, 1)
		tx.Isolation = level
		k.tx = append(k.tx, tx)
	}
	return k
}

func chaosKind[A any](name, queue string, version int) *taskimpl.Kind[A] {
	return &taskimpl.Kind[A]{
		Name: name, Queue: queue, Priority: task.Normal, Version: version,
		Policy: taskimpl.Policy{
			Attempts: 5, Base: 10 * time.Millisecond, Max: 200 * time.Millisecond, Jitter: 0.2, Unknown: 2, Timeout: time.Second,
		},
		Capabilities: []taskimpl.Capability{chaosCapability(name, version)},
		Decode: func(stored int, raw []byte) (A, error) {
			if stored != version {
				var none A
				return none, taskimpl.UnknownVersion(name, stored)
			}
			return taskimpl.As[A](raw)
		},
	}
}

func chaosCapability(name string, version int) taskimpl.Capability {
	id := uint64(version)
	for _, c := range name {
		id = id*31 + uint64(c)
	}
	return taskimpl.Capability{Version: version, ID: id}
}

// chaosWorker is what a worker process of a chaos run is told.
type chaosWorker struct {
	Name       string
	Generation int // 1 or 2
	PollOnly   bool
}

// configure changes the configuration of a worker to one of the chaos kinds.
func (c *chaosWorker) configure(pool *pgxpool.Pool, config *pawlrt.Config) {
	k := newChaosKinds()
	h := &chaosHandler{name: c.Name, pool: pool, kinds: k}
	tables := []task.Table{taskimpl.Table(taskimpl.Row(k.once, h.run), taskimpl.TxRow(k.txLine, h.runTx))}
	for _, tx := range k.tx {
		tables = append(tables, taskimpl.Table(taskimpl.TxRow(tx, h.runTx)))
	}
	if c.Generation == 1 {
		tables = append(tables, taskimpl.Table(taskimpl.Row(k.oldWork, h.runOld), taskimpl.Row(k.oldLine, h.runOld)))
	} else {
		tables = append(tables, taskimpl.Table(taskimpl.Row(k.work, h.run), taskimpl.Row(k.line, h.run)))
	}
	config.Name, config.Tables, config.PollOnly = c.Name, tables, config.PollOnly || c.PollOnly
	config.Queues = make(map[string]pawlrt.Queue)
	for _, q := range chaosQueues {
		config.Queues[q] = pawlrt.Queue{Concurrency: 6}
	}
}

// chaosHandler is the handler of all chaos kinds in one process.
type chaosHandler struct {
	name  string
	pool  *pgxpool.Pool
	kinds *chaosKinds
}

func (h *chaosHandler) runOld(ctx context.Context, job *task.Job[burdenV1]) error {
	args, err := upgradeBurden(job.Args)
	if err != nil {
		return err
	}
	return h.run(ctx, &task.Job[burden]{ID: job.ID, Kind: job.Kind, Attempt: job.Attempt, MaxAttempts: job.MaxAttempts, Args: args})
}

// run keeps the ledger outside of any transaction: a start that is not in it did
// not happen, and what is returned as success is in it.
func (h *chaosHandler) run(ctx context.Context, job *task.Job[burden]) error {
	if err := h.note(ctx, job, "start"); err != nil {
		return task.Transient(err)
	}
	err := h.act(ctx, job, h.pool.Begin)
	event := "ok"
	if err != nil {
		event = fmt.Sprintf("error: %v", err)
	}
	// Also when the lease is lost: what becomes of that is to be seen.
	if noteErr := h.note(context.WithoutCancel(ctx), job, event); noteErr != nil {
		return task.Transient(noteErr)
	}
	return err
}

// runTx writes its effect in the transaction of the attempt.
func (h *chaosHandler) runTx(ctx context.Context, tx pgx.Tx, job *task.Job[burden]) error {
	if _, err := tx.Exec(ctx, `INSERT INTO effects (job_id, attempt, who) VALUES ($1, $2, $3)`, job.ID, job.Attempt, h.name); err != nil {
		return task.Transient(err)
	}
	return h.act(ctx, job, tx.Begin)
}

func (h *chaosHandler) note(ctx context.Context, job *task.Job[burden], event string) error {
	if job.Args.Micros <= 0 {
		event = "misread"
	}
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	_, err := h.pool.Exec(ctx, `INSERT INTO ledger (job_id, attempt, who, event) VALUES ($1, $2, $3, $4)`, job.ID, job.Attempt, h.name, event)
	return err
}

// act does what the mode of the job says. Begin begins the transaction, or
// savepoint, that follow-ups are enqueued in.
func (h *chaosHandler) act(ctx context.Context, job *task.Job[burden], begin func(context.Context) (pgx.Tx, error)) error {
	wait, takes := ctx.Done(), time.Duration(job.Args.Micros)*time.Microsecond
	switch {
	case job.Args.Mode == modeDeaf && job.Attempt == 1:
		wait = nil
	case job.Args.Mode == modeDeaf:
		takes = 0
	case job.Args.Mode == modeHang && job.Attempt <= 2:
		<-wait
		return ctx.Err()
	}
	select {
	case <-time.After(takes):
	case <-wait:
		return ctx.Err()
	}
	failure := errors.New("as the mode says")
	switch mode := job.Args.Mode; {
	case mode == modeTransient && job.Attempt == 1:
		return task.Transient(failure)
	case mode == modeLimited && job.Attempt == 1:
		return task.RateLimited(failure, 100*time.Millisecond)
	case mode == modeUnknown:
		return failure
	case mode == modePermanent:
		return task.Permanent(failure)
	case mode == modeRevoked:
		return task.Revoked(failure)
	case mode == modePanic:
		panic("as the mode says")
	case mode == modeGoexit:
		goruntime.Goexit()
	case mode == modeSnooze && rand.IntN(2) == 0:
		return task.Snooze(time.Duration(rand.IntN(200)) * time.Millisecond)
	case mode == modeExit && job.Attempt == 1:
		os.Exit(3)
	case mode == modeFollow:
		return h.follow(ctx, job, begin)
	}
	return nil
}

// follow enqueues an ordinary job and one with an order key, in one transaction
// with their entries in the books.
func (h *chaosHandler) follow(ctx context.Context, job *task.Job[burden], begin func(context.Context) (pgx.Tx, error)) error {
	tx, err := begin(ctx)
	if err != nil {
		return task.Transient(err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
	e := entry{producer: h.name, parent: job.ID}
	args := burden{N: job.Args.N, Mode: modeFine, Micros: 1000}
	if err := chaosEnqueue(ctx, tx, h.kinds.work, e, args); err != nil {
		return task.Transient(err)
	}
	if err := chaosEnqueue(ctx, tx, h.kinds.line, e, args); err != nil {
		return task.Transient(err)
	}
	if err := tx.Commit(ctx); err != nil {
		return task.Transient(err)
	}
	return nil
}

// entry is what the books say of an enqueue beside its receipt.
type entry struct {
	producer  string
	parent    uuid.UUID // the job whose handler enqueued it
	mode      string
	n         int // rises with each enqueue of a producer
	isolation string
	key       string        // of idempotency
	keep      time.Duration // of the key
	order     string        // of the order
	attempts  int
}

// chaosEnqueue enqueues jobs of one kind and enters the receipts in the books, in
// the caller's transaction.
func chaosEnqueue[A any](ctx context.Context, tx pgx.Tx, k *taskimpl.Kind[A], e entry, args A, opts ...task.EnqueueOption) error {
	return chaosEnqueueMany(ctx, tx, k, []entry{e}, []A{args}, opts...)
}

func chaosEnqueueMany[A any](ctx context.Context, tx pgx.Tx, k *taskimpl.Kind[A], entries []entry, args []A, opts ...task.EnqueueOption) error {
	began, err := chaosClock(ctx, tx)
	if err != nil {
		return err
	}
	receipts, err := taskimpl.EnqueueMany(ctx, tx, k, args, opts)
	if err != nil {
		return err
	}
	for i, r := range receipts {
		var b burden
		switch a := any(args[i]).(type) {
		case burden:
			b = a
		case burdenV1:
			b, _ = upgradeBurden(a)
		}
		e := entries[i]
		e.mode = b.Mode
		if e.attempts == 0 {
			e.attempts = k.Policy.Attempts
		}
		if k.Order != nil {
			e.order = fmt.Sprintf("%s/%d", k.Name, b.N)
		}
		if k.Key != nil {
			e.key, e.keep = fmt.Sprintf("field %d", b.N), k.Keep
		}
		if err := e.enter(ctx, tx, k.Name, began, r); err != nil {
			return err
		}
	}
	return nil
}

func chaosClock(ctx context.Context, db task.Querier) (now time.Time, err error) {
	err = db.QueryRow(ctx, `SELECT clock_timestamp()`).Scan(&now)
	return now, err
}

func (e *entry) enter(ctx context.Context, tx pgx.Tx, kind string, began time.Time, r task.Receipt) error {
	_, err := tx.Exec(ctx, `INSERT INTO books (id, kind, duplicate, state, producer, parent, mode, n, isolation, key, keep, order_key, max_attempts, began)
		VALUES ($1, $2, $3, $4, $5, NULLIF($6::uuid, '00000000-0000-0000-0000-000000000000'), $7, $8, $9, $10, $11::bigint * interval '1 microsecond', $12, $13, $14)`,
		r.ID, kind, r.Duplicate, string(r.State), e.producer, e.parent, e.mode, e.n, e.isolation, e.key, e.keep.Microseconds(), e.order, e.attempts, began)
	return err
}
