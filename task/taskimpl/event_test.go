package taskimpl_test

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"

	"github.com/pawlgo/pawl/internal/testdb"
	"github.com/pawlgo/pawl/task"
	"github.com/pawlgo/pawl/task/taskimpl"
)

// fact is an event as generated code would declare it.
func fact[P any]() *taskimpl.Event[P] {
	return &taskimpl.Event[P]{
		Name: "trip.completed", Aggregate: "trip", Version: 1,
		Capabilities: []taskimpl.Capability{{Version: 1, ID: capability}},
		Decode:       func(_ int, raw []byte) (P, error) { return taskimpl.As[P](raw) },
	}
}

// What cannot be stored is refused before any SQL, so that the transaction goes
// on.
func TestPublishRefuses(t *testing.T) {
	t.Parallel()
	pool := migrated(t)
	tx := begin(t, pool, pgx.ReadCommitted)
	e := fact[holder]()
	for name, c := range map[string]struct {
		aggregate string
		value     any
		opts      []task.PublishOption
		reason    error
	}{
		"U+0000":                        {"a", "\x00", nil, task.ErrInvalidArgs},
		"NaN":                           {"a", math.NaN(), nil, task.ErrInvalidArgs},
		"invalid UTF-8":                 {"a", "\xff", nil, task.ErrInvalidArgs},
		"no aggregate":                  {"", 1, nil, task.ErrInvalidArgs},
		"a bad aggregate":               {"a\x00", 1, nil, task.ErrInvalidArgs},
		"a long aggregate":              {strings.Repeat("a", 1001), 1, nil, task.ErrInvalidArgs},
		"the zero time":                 {"a", 1, []task.PublishOption{task.OccurredAt(time.Time{})}, task.ErrInvalidOption},
		"the year 10000":                {"a", 1, []task.PublishOption{task.OccurredAt(time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC))}, task.ErrInvalidOption},
		"an option that is nil is none": {"a", 1, []task.PublishOption{nil}, nil},
	} {
		_, err := taskimpl.Publish(t.Context(), tx, e, c.aggregate, holder{c.value}, c.opts)
		if c.reason == nil {
			require.NoError(t, err, name)
			continue
		}
		require.ErrorIs(t, err, c.reason, name)
		var failed *task.PublishError
		require.ErrorAs(t, err, &failed)
		require.Equal(t, "trip.completed", failed.Event)
	}
	_, err := taskimpl.Publish(t.Context(), task.InSchema(tx, ""), e, "a", holder{1}, nil)
	require.ErrorIs(t, err, task.ErrInvalidOption)
	commit(t, tx)
	require.Equal(t, 1, count(t, pool, "pending_events"))

	_, err = taskimpl.Publish(t.Context(), task.InSchema(task.Autocommit(pool), "elsewhere"), e, "a", holder{1}, nil)
	require.ErrorIs(t, err, task.ErrNotMigrated)
}

// Every mode of the driver can publish, and database/sql too.
func TestPublishInEveryMode(t *testing.T) {
	t.Parallel()
	e := fact[args]()
	for _, mode := range []pgx.QueryExecMode{
		pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec, pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol,
	} {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			pool := migrated(t, testdb.Configure(func(c *pgxpool.Config) { c.ConnConfig.DefaultQueryExecMode = mode }))
			at := time.Now()
			_, err := taskimpl.Publish(t.Context(), task.Autocommit(pool), e, "a", args{N: 1}, []task.PublishOption{task.OccurredAt(at), task.NoWake()})
			require.NoError(t, err)
			db := stdlib.OpenDBFromPool(pool)
			defer db.Close()
			tx, err := db.BeginTx(t.Context(), nil)
			require.NoError(t, err)
			r, err := taskimpl.Publish(t.Context(), task.SQL(tx), e, "a", args{N: 2}, nil)
			require.NoError(t, err)
			require.NoError(t, tx.Commit())
			require.Equal(t, 2, count(t, pool, "outbox_events"))
			require.ErrorIs(t, task.RetryEvent(t.Context(), task.Autocommit(pool), r.ID), task.ErrNoEvent)
			require.ErrorIs(t, task.SkipEvent(t.Context(), task.Autocommit(pool), r.ID), task.ErrNoEvent)
		})
	}
}

// A savepoint that is rolled back takes only its own events with it.
func TestPublishInSavepoints(t *testing.T) {
	t.Parallel()
	pool := migrated(t)
	e := fact[args]()
	tx := begin(t, pool, pgx.ReadCommitted)
	publish := func(tx task.Tx, n int) {
		_, err := taskimpl.Publish(t.Context(), tx, e, "a", args{N: n}, nil)
		require.NoError(t, err)
	}
	publish(tx, 1)
	undone := errors.New("undone")
	require.ErrorIs(t, pgx.BeginFunc(t.Context(), tx, func(tx pgx.Tx) error {
		publish(tx, 2)
		return undone
	}), undone)
	publish(tx, 3)
	commit(t, tx)
	var got []int32
	require.NoError(t, pool.QueryRow(t.Context(), `SELECT array_agg((payload ->> 'n')::integer ORDER BY seq) FROM pawl.outbox_events`).Scan(&got))
	require.Equal(t, []int32{1, 3}, got)
}
