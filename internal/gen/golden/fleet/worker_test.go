package fleet_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/pawlgo/pawl/internal/gen/golden/fleet"
	"github.com/pawlgo/pawl/internal/testdb"
	pawlrt "github.com/pawlgo/pawl/runtime"
	"github.com/pawlgo/pawl/task"
	"github.com/stretchr/testify/require"
)

// biller writes each attempt down in its transaction, and fails the first attempt
// of some jobs after that.
type biller struct {
	mu       sync.Mutex // guards attempts and running
	attempts []string
	running  map[uuid.UUID]int // by organization
}

func (b *biller) write(ctx context.Context, tx pgx.Tx, what string) error {
	_, err := tx.Exec(ctx, `INSERT INTO books SELECT $1, current_setting('transaction_isolation')`, what)
	return err
}

func (b *biller) HandleBillTrip(ctx context.Context, tx pgx.Tx, job *task.Job[fleet.BillTripArgs]) error {
	if err := b.write(ctx, tx, "bill"); err != nil {
		return err
	}
	if job.Attempt == 1 {
		return task.Transient(errors.New("not yet"))
	}
	return nil
}

func (b *biller) HandleCloseMonth(ctx context.Context, tx pgx.Tx, job *task.Job[fleet.CloseMonthArgs]) error {
	organization := job.Args.OrganizationID
	b.mu.Lock()
	b.attempts = append(b.attempts, fmt.Sprintf("%s %s.%d", organization.String()[:2], job.Args.Month, job.Attempt))
	b.running[organization]++
	alone := b.running[organization] == 1
	b.mu.Unlock()
	defer func() {
		b.mu.Lock()
		b.running[organization]--
		b.mu.Unlock()
	}()
	if !alone {
		return task.Permanent(errors.New("another month is being closed"))
	}
	if err := b.write(ctx, tx, "close "+job.Args.Month); err != nil {
		return err
	}
	if job.Args.Month == "01" && job.Attempt == 1 {
		return task.Transient(errors.New("a bill is missing"))
	}
	return nil
}

// What the directives say is what a worker does.
func TestWorkerKeepsOrderAndTransactions(t *testing.T) {
	t.Parallel()
	pool := testdb.Migrated(t)
	_, err := pool.Exec(t.Context(), `CREATE TABLE books (what text, isolation text)`)
	require.NoError(t, err)
	one, two := uuid.UUID{0x11}, uuid.UUID{0x22}
	require.NoError(t, pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		for _, month := range []string{"01", "02", "03"} {
			if _, err := fleet.EnqueueCloseMonth(t.Context(), tx, fleet.CloseMonthArgs{OrganizationID: one, Month: month}); err != nil {
				return err
			}
		}
		_, err := fleet.EnqueueManyCloseMonth(t.Context(), tx, []fleet.CloseMonthArgs{{OrganizationID: two, Month: "11"}, {OrganizationID: two, Month: "12"}})
		if err != nil {
			return err
		}
		_, err = fleet.EnqueueBillTrip(t.Context(), tx, fleet.BillTripArgs{})
		return err
	}))

	b := &biller{running: map[uuid.UUID]int{}}
	worker, err := pawlrt.New(pool, pawlrt.Config{Tables: []task.Table{fleet.BillingTable(b)}, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- worker.Run(ctx) }()
	defer func() {
		stop()
		require.NoError(t, <-ended)
	}()
	books := func() map[string]int {
		rows, err := pool.Query(t.Context(), `SELECT what || ' ' || isolation, count(*) FROM books GROUP BY 1`)
		require.NoError(t, err)
		all := map[string]int{}
		var what string
		var n int
		_, err = pgx.ForEachRow(rows, []any{&what, &n}, func() error { all[what] = n; return nil })
		require.NoError(t, err)
		return all
	}
	testdb.Eventually(t, time.Minute, "all jobs", func() bool { return len(books()) == 6 })
	require.Equal(t, map[string]int{
		"bill read committed": 1, "close 01 serializable": 1, "close 02 serializable": 1, "close 03 serializable": 1,
		"close 11 serializable": 1, "close 12 serializable": 1,
	}, books(), "an attempt that failed has written nothing")

	b.mu.Lock()
	defer b.mu.Unlock()
	var first, second []string
	for _, a := range b.attempts {
		if a[:2] == "11" {
			first = append(first, a[3:])
		} else {
			second = append(second, a[3:])
		}
	}
	require.Equal(t, []string{"01.1", "01.2", "02.1", "03.1"}, first, "a retry holds those behind it")
	require.Equal(t, []string{"11.1", "12.1"}, second)
}
