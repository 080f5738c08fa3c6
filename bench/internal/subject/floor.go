package subject

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Floor is what the server can do at all with such rows: COPY them in, and
// delete them in batches. It keeps no promise: a worker that dies has lost what
// it held. Nothing that keeps one can be faster.
type Floor struct{}

// floorBatch is how many rows one DELETE takes, floorWorkers how many
// connections do that.
const (
	floorBatch   = 500
	floorWorkers = 2
)

func (Floor) Name() string { return "floor" }

func (Floor) Migrate(ctx context.Context, pool *pgxpool.Pool) error {
	_, err := pool.Exec(ctx, `CREATE TABLE floor_jobs (
		id uuid NOT NULL PRIMARY KEY, kind text NOT NULL, queue text NOT NULL, run_at timestamptz NOT NULL, args jsonb NOT NULL)`)
	return err
}

func (Floor) Open(_ context.Context, pool *pgxpool.Pool) (Client, error) {
	return &floorClient{pool: pool}, nil
}

type floorClient struct {
	pool     *pgxpool.Pool
	inserted atomic.Int64
}

type floorArgs struct {
	Number  int64  `json:"number"`
	Account string `json:"account"`
	Note    string `json:"note"`
}

func (b *Batch) floorRow(i int) ([]any, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return nil, err
	}
	args, err := json.Marshal(floorArgs{b.First + int64(i), b.account(i), Note})
	if err != nil {
		return nil, err
	}
	return []any{id, string(b.Kind), queueOf(b.Kind), time.Now().Add(b.In), args}, nil
}

func (c *floorClient) InsertMany(ctx context.Context, b Batch) error {
	_, err := c.pool.CopyFrom(ctx, pgx.Identifier{"floor_jobs"}, []string{"id", "kind", "queue", "run_at", "args"},
		pgx.CopyFromSlice(b.Count, b.floorRow))
	c.inserted.Add(int64(b.Count))
	return err
}

const floorInsert = `INSERT INTO floor_jobs (id, kind, queue, run_at, args) VALUES ($1, $2, $3, $4, $5)`

func (c *floorClient) InsertTx(ctx context.Context, tx pgx.Tx, b Batch) error {
	row, err := b.floorRow(0)
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, floorInsert, row...)
	c.inserted.Add(1)
	return err
}

func (c *floorClient) Insert(ctx context.Context, b Batch) error {
	row, err := b.floorRow(0)
	if err != nil {
		return err
	}
	_, err = c.pool.Exec(ctx, floorInsert, row...)
	c.inserted.Add(1)
	return err
}

func (c *floorClient) Start(ctx context.Context, _ Settings, h Handler) (Worker, error) {
	ctx, end := context.WithCancel(ctx)
	w := &floorWorker{end: end, errs: make([]error, floorWorkers)}
	for n := range floorWorkers {
		w.loops.Go(func() { w.errs[n] = c.work(ctx, h) })
	}
	return w, nil
}

type floorWorker struct {
	end   context.CancelFunc
	loops sync.WaitGroup
	errs  []error // read after loops
}

func (w *floorWorker) Stop(context.Context) error {
	w.end()
	w.loops.Wait()
	return errors.Join(w.errs...)
}

// work deletes and handles batches until ctx ends. What it finds is the whole
// work of a job.
func (c *floorClient) work(ctx context.Context, h Handler) error {
	for ctx.Err() == nil {
		// A walk along the primary key, whose order is that of the inserts.
		rows, err := c.pool.Query(context.WithoutCancel(ctx), `DELETE FROM floor_jobs WHERE ctid = ANY (ARRAY(
			SELECT ctid FROM floor_jobs ORDER BY id LIMIT $1 FOR UPDATE SKIP LOCKED)) RETURNING args`, floorBatch)
		if err != nil {
			return err
		}
		all, err := pgx.CollectRows(rows, pgx.RowTo[floorArgs])
		if err != nil {
			return err
		}
		for _, args := range all {
			if err := h(ctx, Attempt{Number: args.Number, Nth: 1}); err != nil {
				return err
			}
		}
		if len(all) == 0 {
			select {
			case <-ctx.Done():
			case <-time.After(time.Millisecond):
			}
		}
	}
	return nil
}

var errFloor = errors.New("plain rows cannot do that")

func (c *floorClient) Pause(context.Context, Kind) error { return errFloor }

func (c *floorClient) Busy(context.Context) (bool, error) { return false, nil }

func (c *floorClient) Finished(ctx context.Context) (int, error) {
	var left int
	err := c.pool.QueryRow(ctx, `SELECT count(*) FROM floor_jobs`).Scan(&left)
	return int(c.inserted.Load()) - left, err
}

func (c *floorClient) Claim(ctx context.Context, n int) (int, error) { return 0, errFloor }

func (c *floorClient) Close() {}
