package subject

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

// River is github.com/riverqueue/river, the established job queue for Go on
// PostgreSQL. Bulk inserts take its COPY path; tuned, it has the settings that
// its own benchmark uses.
type River struct{}

const (
	riverTunedSlots    = 2000
	riverTunedCooldown = 2 * time.Millisecond
	riverTunedPoll     = 20 * time.Millisecond
	// riverSlots stands in for a default of its own, which River does not have:
	// the number in most of its examples.
	riverSlots = 100
)

func (River) Name() string { return "river" }

func (River) Migrate(ctx context.Context, pool *pgxpool.Pool) error {
	migrator, err := rivermigrate.New(riverpgxv5.New(pool), &rivermigrate.Config{Logger: silence()})
	if err != nil {
		return err
	}
	_, err = migrator.Migrate(ctx, rivermigrate.DirectionUp, nil)
	return err
}

func (River) Open(_ context.Context, pool *pgxpool.Pool) (Client, error) {
	client, err := river.NewClient(riverpgxv5.New(pool), &river.Config{Logger: silence()})
	return &riverClient{pool: pool, client: client}, err
}

type riverClient struct {
	pool   *pgxpool.Pool
	client *river.Client[pgx.Tx] // only inserts
}

// riverArgs is the same payload.
type riverArgs struct {
	Number  int64  `json:"number"`
	Account string `json:"account"`
	Note    string `json:"note"`
}

func (riverArgs) Kind() string { return "work" }

func (b *Batch) riverParams(i int) (riverArgs, *river.InsertOpts) {
	opts := &river.InsertOpts{Queue: queueOf(b.Kind)}
	if b.In > 0 {
		opts.ScheduledAt = time.Now().Add(b.In)
	}
	if b.Kind == Once {
		opts.UniqueOpts.ByArgs = true
	}
	return riverArgs{b.First + int64(i), b.account(i), Note}, opts
}

func (c *riverClient) InsertMany(ctx context.Context, b Batch) error {
	params := make([]river.InsertManyParams, b.Count)
	for i := range params {
		params[i].Args, params[i].InsertOpts = b.riverParams(i)
	}
	if b.Kind == Once { // COPY cannot leave out duplicates
		_, err := c.client.InsertMany(ctx, params)
		return err
	}
	_, err := c.client.InsertManyFast(ctx, params)
	return err
}

func (c *riverClient) InsertTx(ctx context.Context, tx pgx.Tx, b Batch) error {
	args, opts := b.riverParams(0)
	_, err := c.client.InsertTx(ctx, tx, args, opts)
	return err
}

func (c *riverClient) Insert(ctx context.Context, b Batch) error {
	args, opts := b.riverParams(0)
	_, err := c.client.Insert(ctx, args, opts)
	return err
}

type riverWorker struct {
	river.WorkerDefaults[riverArgs]
	h Handler
}

func (w *riverWorker) Work(ctx context.Context, j *river.Job[riverArgs]) error {
	return w.h(ctx, Attempt{Number: j.Args.Number, Nth: j.Attempt, DueAt: j.ScheduledAt})
}

// NextRetry is that of the kind Flaky; the others do not fail.
func (w *riverWorker) NextRetry(*river.Job[riverArgs]) time.Time {
	return time.Now().Add(time.Second)
}

func (c *riverClient) Start(ctx context.Context, s Settings, h Handler) (Worker, error) {
	slots := cmp.Or(s.Slots, riverSlots)
	if s.Tuned {
		slots = cmp.Or(s.Slots, riverTunedSlots)
	}
	group := &riverWorkers{}
	for range max(s.Fetchers, 1) {
		config := &river.Config{Logger: silence(), Queues: make(map[string]river.QueueConfig), Workers: river.NewWorkers()}
		if s.Tuned {
			config.FetchCooldown, config.FetchPollInterval = riverTunedCooldown, riverTunedPoll
		}
		for _, k := range s.Kinds {
			config.Queues[queueOf(k)] = river.QueueConfig{MaxWorkers: slots}
		}
		if err := river.AddWorkerSafely(config.Workers, &riverWorker{h: h}); err != nil {
			return nil, err
		}
		client, err := river.NewClient(riverpgxv5.New(c.pool), config)
		if err != nil {
			return nil, err
		}
		if err := client.Start(context.WithoutCancel(ctx)); err != nil {
			return nil, errors.Join(err, group.Stop(ctx))
		}
		group.clients = append(group.clients, client)
	}
	return group, nil
}

type riverWorkers struct{ clients []*river.Client[pgx.Tx] }

func (g *riverWorkers) Stop(ctx context.Context) error {
	var errs []error
	for _, c := range g.clients {
		errs = append(errs, c.Stop(ctx))
	}
	return errors.Join(errs...)
}

func (c *riverClient) Pause(ctx context.Context, k Kind) error {
	// Only a worker makes the row of a queue, which is what can be paused.
	w, err := c.Start(ctx, Settings{Kinds: []Kind{k}}, func(context.Context, Attempt) error { return nil })
	if err != nil {
		return err
	}
	if err := w.Stop(ctx); err != nil {
		return err
	}
	return c.client.QueuePause(ctx, queueOf(k), nil)
}

func (c *riverClient) Busy(ctx context.Context) (busy bool, err error) {
	err = c.pool.QueryRow(ctx, `SELECT EXISTS (SELECT FROM river_job WHERE state = 'running')`).Scan(&busy)
	return busy, err
}

func (c *riverClient) Finished(ctx context.Context) (n int, err error) {
	err = c.pool.QueryRow(ctx, `SELECT count(*) FROM river_job WHERE state = 'completed'`).Scan(&n)
	return n, err
}

func (c *riverClient) Claim(ctx context.Context, n int) (int, error) {
	result, err := riverpgxv5.New(c.pool).GetExecutor().JobGetAvailable(ctx, &riverdriver.JobGetAvailableParams{
		ClientID: "claimer", MaxAttemptedBy: 100, MaxToLock: n, Queue: queueOf(Work),
	})
	if err != nil {
		return 0, err
	}
	return len(result.Jobs), nil
}

func (c *riverClient) Close() {}
