package subject

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlgo/pawl/bench/tasks"
	"github.com/pawlgo/pawl/bench/tasks/many"
	"github.com/pawlgo/pawl/bench/tasks/unknown"
	"github.com/pawlgo/pawl/internal/dispatch"
	"github.com/pawlgo/pawl/internal/store"
	"github.com/pawlgo/pawl/migrations"
	pawlrt "github.com/pawlgo/pawl/runtime"
	"github.com/pawlgo/pawl/task"
)

// Pawl is the subject that this is all about.
type Pawl struct{}

// tunedSlots is where Pawl is fastest: a claim fills up while the jobs of the
// one before it run and are settled.
const tunedSlots = 1000

func (Pawl) Name() string { return "pawl" }

func (Pawl) Migrate(ctx context.Context, pool *pgxpool.Pool) error {
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	return migrations.Up(ctx, conn.Conn(), migrations.Options{})
}

func (Pawl) Open(_ context.Context, pool *pgxpool.Pool) (Client, error) {
	return &pawlClient{pool: pool}, nil
}

type pawlClient struct {
	pool *pgxpool.Pool

	// The claimer of Claim, made by its first call.
	store  *store.Store
	owner  uuid.UUID
	floors [store.Priorities]time.Time
}

func (c *pawlClient) InsertMany(ctx context.Context, b Batch) error {
	return pgx.BeginFunc(ctx, c.pool, func(tx pgx.Tx) error { return c.insert(ctx, tx, b) })
}

func (c *pawlClient) InsertTx(ctx context.Context, tx pgx.Tx, b Batch) error {
	return c.insert(ctx, tx, b)
}

func (c *pawlClient) Insert(ctx context.Context, b Batch) error {
	return c.insert(ctx, task.Autocommit(c.pool), b)
}

func (c *pawlClient) insert(ctx context.Context, tx task.Tx, b Batch) error {
	var opts []task.EnqueueOption
	if b.In > 0 {
		opts = append(opts, task.In(b.In))
	}
	if b.Silent {
		opts = append(opts, task.NoWake())
	}
	switch b.Kind {
	case Work:
		return enqueue(ctx, tx, b, opts, tasks.EnqueueWork, tasks.EnqueueManyWork, func(n int64, account string) tasks.WorkArgs {
			return tasks.WorkArgs{Number: n, Account: account, Note: Note}
		})
	case Aside:
		return enqueue(ctx, tx, b, opts, tasks.EnqueueAside, tasks.EnqueueManyAside, func(n int64, account string) tasks.AsideArgs {
			return tasks.AsideArgs{Number: n, Account: account, Note: Note}
		})
	case Unknown:
		return enqueue(ctx, tx, b, opts, unknown.EnqueueUnknown, unknown.EnqueueManyUnknown, func(n int64, account string) unknown.UnknownArgs {
			return unknown.UnknownArgs{Number: n, Account: account, Note: Note}
		})
	case Once:
		return enqueue(ctx, tx, b, opts, tasks.EnqueueOnce, tasks.EnqueueManyOnce, func(n int64, account string) tasks.OnceArgs {
			return tasks.OnceArgs{Number: n, Account: account, Note: Note}
		})
	case Ordered:
		return enqueue(ctx, tx, b, opts, tasks.EnqueueOrdered, tasks.EnqueueManyOrdered, func(n int64, account string) tasks.OrderedArgs {
			return tasks.OrderedArgs{Number: n, Account: account, Note: Note}
		})
	case Flaky:
		return enqueue(ctx, tx, b, opts, tasks.EnqueueFlaky, tasks.EnqueueManyFlaky, func(n int64, account string) tasks.FlakyArgs {
			return tasks.FlakyArgs{Number: n, Account: account, Note: Note}
		})
	}
	q, err := spread(b.Kind)
	if err != nil {
		return err
	}
	return enqueue(ctx, tx, b, opts, nil, q.EnqueueMany, func(n int64, account string) many.Args {
		return many.Args{Number: n, Account: account, Note: Note}
	})
}

func enqueue[A any](ctx context.Context, tx task.Tx, b Batch, opts []task.EnqueueOption,
	one func(context.Context, task.Tx, A, ...task.EnqueueOption) (task.Receipt, error),
	several func(context.Context, task.Tx, []A, ...task.EnqueueOption) ([]task.Receipt, error),
	args func(n int64, account string) A,
) error {
	if b.Count == 1 && one != nil {
		_, err := one(ctx, tx, args(b.First, b.account(0)), opts...)
		return err
	}
	all := make([]A, b.Count)
	for i := range all {
		all[i] = args(b.First+int64(i), b.account(i))
	}
	_, err := several(ctx, tx, all, opts...)
	return err
}

func spread(k Kind) (many.Queue, error) {
	for _, q := range many.Queues {
		if q.Name == string(k) {
			return q, nil
		}
	}
	return many.Queue{}, fmt.Errorf("there is no kind %q", k)
}

// handlers hands the jobs of all queues to one handler.
type handlers struct{ h Handler }

func attemptOf[A any](j *task.Job[A], number int64) Attempt {
	return Attempt{Number: number, Nth: j.Attempt, DueAt: j.RunAt}
}

func (h handlers) HandleWork(ctx context.Context, j *task.Job[tasks.WorkArgs]) error {
	return h.h(ctx, attemptOf(j, j.Args.Number))
}

func (h handlers) HandleAside(ctx context.Context, j *task.Job[tasks.AsideArgs]) error {
	return h.h(ctx, attemptOf(j, j.Args.Number))
}

func (h handlers) HandleOnce(ctx context.Context, j *task.Job[tasks.OnceArgs]) error {
	return h.h(ctx, attemptOf(j, j.Args.Number))
}

func (h handlers) HandleOrdered(ctx context.Context, j *task.Job[tasks.OrderedArgs]) error {
	return h.h(ctx, attemptOf(j, j.Args.Number))
}

func (h handlers) HandleFlaky(ctx context.Context, j *task.Job[tasks.FlakyArgs]) error {
	return h.h(ctx, attemptOf(j, j.Args.Number))
}

func tableOf(k Kind, h Handler) (task.Table, error) {
	switch k {
	case Work:
		return tasks.BenchTable(handlers{h}), nil
	case Aside:
		return tasks.AsideTable(handlers{h}), nil
	case Once:
		return tasks.OnceTable(handlers{h}), nil
	case Ordered:
		return tasks.OrderedTable(handlers{h}), nil
	case Flaky:
		return tasks.FlakyTable(handlers{h}), nil
	}
	q, err := spread(k)
	if err != nil {
		return task.Table{}, err
	}
	return q.Table(func(ctx context.Context, args many.Args) error {
		return h(ctx, Attempt{Number: args.Number, Nth: 1})
	}), nil
}

func queueOf(k Kind) string {
	switch k {
	case Work, Unknown:
		return tasks.QueueBench
	case Aside:
		return tasks.QueueAside
	case Once:
		return tasks.QueueOnce
	case Ordered:
		return tasks.QueueOrdered
	case Flaky:
		return tasks.QueueFlaky
	}
	return string(k)
}

func (c *pawlClient) Start(ctx context.Context, s Settings, h Handler) (Worker, error) {
	slots := s.Slots
	if s.Tuned {
		slots = cmp.Or(slots, tunedSlots)
	}
	group := &pawlWorkers{}
	for range max(s.Fetchers, 1) {
		config := pawlrt.Config{Queues: make(map[string]pawlrt.Queue), Logger: silence(), Lease: s.Lease}
		for _, k := range s.Kinds {
			table, err := tableOf(k, h)
			if err != nil {
				return nil, err
			}
			config.Tables = append(config.Tables, table)
			config.Queues[queueOf(k)] = pawlrt.Queue{Concurrency: slots}
		}
		worker, err := pawlrt.New(c.pool, config)
		if err != nil {
			return nil, err
		}
		group.run(ctx, worker)
	}
	return group, nil
}

// pawlWorkers are the workers of one process.
type pawlWorkers struct {
	ends []context.CancelFunc
	done []chan error
}

func (g *pawlWorkers) run(ctx context.Context, worker *pawlrt.Worker) {
	ctx, end := context.WithCancel(ctx)
	done := make(chan error, 1)
	g.ends, g.done = append(g.ends, end), append(g.done, done)
	go func() { done <- worker.Run(ctx) }()
}

func (g *pawlWorkers) Stop(context.Context) error {
	for _, end := range g.ends {
		end()
	}
	var errs []error
	for _, done := range g.done {
		errs = append(errs, <-done)
	}
	return errors.Join(errs...)
}

func (c *pawlClient) Pause(ctx context.Context, k Kind) error {
	_, err := task.Pause(ctx, task.Autocommit(c.pool), queueOf(k))
	return err
}

func (c *pawlClient) Busy(ctx context.Context) (busy bool, err error) {
	err = c.pool.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pawl.leases)`).Scan(&busy)
	return busy, err
}

func (c *pawlClient) Finished(ctx context.Context) (n int, err error) {
	err = c.pool.QueryRow(ctx, `SELECT count(*) FROM pawl.outcomes WHERE outcome = 1`).Scan(&n)
	return n, err
}

func (c *pawlClient) Claim(ctx context.Context, n int) (int, error) {
	row := dispatch.Rows(tasks.BenchTable(handlers{}))[0]
	capabilities := []int64{row.Versions[0].Capability}
	if c.store == nil {
		st, err := store.Open(ctx, c.pool, store.DefaultSchema, 1)
		if err != nil {
			return 0, err
		}
		c.store, c.owner = st, uuid.New()
		if err := st.Register(ctx, &store.Process{
			ID: c.owner, Name: "claimer", Queues: []string{tasks.QueueBench}, Capabilities: capabilities, Lease: time.Hour,
		}); err != nil {
			return 0, err
		}
	}
	claimed, err := c.store.Claim(ctx, &store.Claim{
		Owner: c.owner, Token: uuid.New(), Queue: tasks.QueueBench, Limit: n, Capabilities: capabilities, Floors: c.floors,
	})
	if err != nil {
		return 0, err
	}
	if got := len(claimed.Jobs); got > 0 {
		// As the runtime does: what was claimed is not looked at again.
		for i := range c.floors {
			c.floors[i] = claimed.Jobs[got-1].RunAt
		}
	}
	return len(claimed.Jobs), nil
}

func (c *pawlClient) Close() {
	if c.store != nil {
		c.store.Close()
	}
}
