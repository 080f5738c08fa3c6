package evolved

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/pawlgo/pawl/internal/gen/render/golden/evolved/opt"
	"github.com/pawlgo/pawl/internal/gen/render/golden/evolved/past"
	"github.com/pawlgo/pawl/internal/testdb"
	pawlrt "github.com/pawlgo/pawl/runtime"
	"github.com/pawlgo/pawl/task"
	"github.com/pawlgo/pawl/task/taskimpl"
	"github.com/stretchr/testify/require"
)

// older enqueues as a binary did that was built at an earlier version.
func older[A any](t *testing.T, pool *pgxpool.Pool, kind string, version int, args A) task.Receipt {
	t.Helper()
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %d", kind, version))
	var receipt task.Receipt
	require.NoError(t, pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) (err error) {
		receipt, err = taskimpl.Enqueue(t.Context(), tx, &taskimpl.Kind[A]{
			Name: kind, Queue: QueueEvolved, Priority: task.Normal, Version: version, Policy: kindDeliver.Policy,
			Capabilities: []taskimpl.Capability{{Version: version, ID: binary.BigEndian.Uint64(sum[:8])}},
		}, args, nil)
		return err
	}))
	return receipt
}

// collector keeps what reached a handler, by the job.
type collector struct {
	EvolvedHandlers
	mu   sync.Mutex // guards got
	got  map[string]any
	done chan struct{} // closed once got has all
	want int
}

func (c *collector) keep(id string, args any) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.got[id] = args; len(c.got) == c.want {
		close(c.done)
	}
	return nil
}

func (c *collector) HandleDeliver(_ context.Context, job *task.Job[DeliverArgs]) error {
	return c.keep(job.ID.String(), job.Args)
}

func (c *collector) HandleRetired(_ context.Context, job *task.Job[opt.Of[RetiredArgs]]) error {
	return c.keep(job.ID.String(), job.Args)
}

// Jobs that older binaries stored run in a new one, under old kinds too; those
// that cannot be upgraded are dead letters at once, and as they were stored; those
// of a version that nobody knows wait.
func TestWorkerRunsWhatOlderBinariesStored(t *testing.T) {
	t.Parallel()
	pool := testdb.Migrated(t)
	delivered := DeliverArgs{Names: []string{"Ada", "Lovelace"}, Count: 2}
	every := opt.Some(RetiredArgs{3 * time.Second})
	want := map[string]any{
		older(t, pool, KindDeliver, 1, past.DeliverV1{Name: "Ada Lovelace"}).ID.String():             delivered,
		older(t, pool, KindDeliver, 2, past.DeliverV2{First: "Ada", Last: "Lovelace"}).ID.String():   delivered,
		older(t, pool, KindDeliver, 4, past.DeliverV4{Names: delivered.Names, Count: 2}).ID.String(): delivered,
		older(t, pool, KindRetired, 2, past.RetiredV2{Seconds: 3}).ID.String():                       every,
		older(t, pool, "pensioned", 2, past.RetiredV2{Seconds: 3}).ID.String():                       every,
		older(t, pool, "merged", 1, every).ID.String():                                               every,
	}
	fails := older(t, pool, KindDeliver, 1, past.DeliverV1{Name: "Ada"})
	panics := older(t, pool, KindDeliver, 1, past.DeliverV1{Name: "a b", Retry: &past.Retry{Max: -1}})
	unknown := older(t, pool, KindRetired, 1, past.RetiredV2{})
	require.NoError(t, pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		receipt, err := EnqueueDeliver(t.Context(), tx, delivered)
		want[receipt.ID.String()] = delivered
		return err
	}))

	c := &collector{got: map[string]any{}, done: make(chan struct{}), want: len(want)}
	worker, err := pawlrt.New(pool, pawlrt.Config{Tables: Tables(c), Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- worker.Run(ctx) }()
	defer func() {
		stop()
		require.NoError(t, <-ended)
	}()
	select {
	case <-c.done:
	case <-time.After(time.Minute):
		t.Error("not every job ran")
	}
	count := func(sql string, args ...any) (n int) {
		require.NoError(t, pool.QueryRow(t.Context(), sql, args...).Scan(&n))
		return n
	}
	testdb.Eventually(t, time.Minute, "the dead letters", func() bool {
		return count(`SELECT count(*) FROM pawl.dead_letters`) == 2
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	require.Equal(t, want, c.got)

	for id, dead := range map[task.Receipt]struct{ args, summary string }{
		fails:  {`{"name": "Ada"}`, "upgrade it from version 1: without a name"},
		panics: {`{"name": "a b", "retry": {"max": -1}}`, "upgrade it from version 1: panic: negative (evolved.go:"},
	} {
		var code, args, summary string
		var attempts, version int
		require.NoError(t, pool.QueryRow(t.Context(), `SELECT code, args::text, summary, attempts, version FROM pawl.dead_letters WHERE job_id = $1`, id.ID).
			Scan(&code, &args, &summary, &attempts, &version))
		require.Equal(t, "undecodable", code)
		require.Equal(t, dead.args, args)
		require.Contains(t, summary, dead.summary)
		require.Equal(t, 1, attempts)
		require.Equal(t, 1, version)
	}
	require.Equal(t, 1, count(`SELECT count(*) FROM pawl.ready WHERE id = $1 AND attempts = 0`, unknown.ID), "nobody claims a version that is not known")
}

// One kind has one handler, whichever row it came from.
func TestOneKindInTwoTables(t *testing.T) {
	t.Parallel()
	other := taskimpl.Table(taskimpl.Row(&taskimpl.Kind[int]{Name: "merged", Queue: "q", Policy: kindDeliver.Policy},
		func(context.Context, *task.Job[int]) error { return errors.New("never") }))
	_, err := pawlrt.New(testdb.Migrated(t), pawlrt.Config{Tables: append(Tables(&collector{}), other)})
	require.ErrorIs(t, err, pawlrt.ErrConfig)
	require.ErrorContains(t, err, "kind merged stands in two tables")
}
