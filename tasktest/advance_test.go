package tasktest_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pawlgo/pawl/internal/testdb"
	pawlrt "github.com/pawlgo/pawl/runtime"
	"github.com/pawlgo/pawl/task"
	"github.com/pawlgo/pawl/task/taskimpl"
	"github.com/pawlgo/pawl/tasktest"
)

// An event that waits for another attempt is due that much sooner, and all times
// of an event move together.
func TestAdvanceMovesEvents(t *testing.T) {
	t.Parallel()
	pool := tasktest.DB(t)
	e := &taskimpl.Event[mailArgs]{
		Name: "mail.sent", Aggregate: "mail", Version: 1,
		Policy:       taskimpl.Policy{Attempts: 2, Base: time.Hour, Max: time.Hour, Unknown: 2, Timeout: time.Minute},
		Capabilities: []taskimpl.Capability{{Version: 1, ID: 103}},
		Decode:       func(_ int, raw []byte) (mailArgs, error) { return taskimpl.As[mailArgs](raw) },
	}
	tries := 0
	events := []task.EventTable{taskimpl.EventTable(taskimpl.EventRow(e, func(context.Context, pgx.Tx, *task.Fact[mailArgs]) error {
		tries++
		if tries == 1 {
			return task.Transient(errors.New("not yet"))
		}
		return nil
	}))}
	drain := func() {
		worker, err := pawlrt.New(pool, pawlrt.Config{Events: events, Logger: slog.New(slog.DiscardHandler)})
		require.NoError(t, err)
		_, err = worker.Drain(t.Context())
		require.NoError(t, err)
	}
	_, err := taskimpl.Publish(t.Context(), task.Autocommit(pool), e, "a", mailArgs{}, nil)
	require.NoError(t, err)
	drain()
	drain()
	require.Equal(t, 1, tries, "the next attempt is due in an hour")
	read := func() (p, o time.Time) {
		require.NoError(t, pool.QueryRow(t.Context(), `SELECT published_at, occurred_at FROM pawl.outbox_events`).Scan(&p, &o))
		return p, o
	}
	published, occurred := read()
	tasktest.Advance(t, pool, 2*time.Hour)
	drain()
	require.Equal(t, 2, tries)
	p, o := read()
	require.Equal(t, published.Add(-2*time.Hour), p)
	require.Equal(t, occurred.Add(-2*time.Hour), o)
	var status string
	require.NoError(t, pool.QueryRow(t.Context(), `SELECT status FROM pawl.outbox_events`).Scan(&status))
	require.Equal(t, "projected", status)
}

// A worker that runs makes the jobs of the ticks whose time has passed.
func TestAdvanceTicks(t *testing.T) {
	t.Parallel()
	pool := tasktest.DB(t)
	kind := billKind
	kind.Name, kind.Capabilities, kind.Order, kind.Version = "nightly", []taskimpl.Capability{{Version: 1, ID: 104}}, nil, 1
	kind.Schedule = &taskimpl.Schedule[billArgs]{Spec: "0 3 * * *", Zone: "UTC", Missed: "all", Args: func(at time.Time) billArgs { return billArgs{Number: at.YearDay()} }}
	worker, err := pawlrt.New(pool, pawlrt.Config{Tables: []task.Table{taskimpl.Table(taskimpl.Row(&kind, noBill))}, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- worker.Run(ctx) }()
	jobs := func() (n int) {
		require.NoError(t, pool.QueryRow(t.Context(), `SELECT count(*) FROM pawl.job_status WHERE kind = 'nightly' AND status = 'completed'`).Scan(&n))
		return n
	}
	testdb.Eventually(t, 20*time.Second, "the schedule to be registered", func() bool {
		var n int
		require.NoError(t, pool.QueryRow(t.Context(), `SELECT count(*) FROM pawl.schedule_status`).Scan(&n))
		return n == 1
	})
	tasktest.Advance(t, pool, 72*time.Hour)
	testdb.Eventually(t, 20*time.Second, "three nights", func() bool { return jobs() == 3 })
	stop()
	require.NoError(t, <-ended)
}
