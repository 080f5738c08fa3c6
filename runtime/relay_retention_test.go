package runtime_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pawlgo/pawl/internal/testdb"
	pawlrt "github.com/pawlgo/pawl/runtime"
	"github.com/pawlgo/pawl/task"
	"github.com/pawlgo/pawl/task/taskimpl"
)

// Events that are over leave with their day; those that wait move to a later
// one, and are projected from there.
func TestEventsAreBounded(t *testing.T) {
	t.Parallel()
	pool := projections(t)
	e := event()
	publish(t, task.Autocommit(pool), e, "over", numbered(5, "")...)
	publish(t, task.Autocommit(pool), e, "dead", numbered(3, "")...)
	first := start(t, pool, projecting(e, func(ctx context.Context, tx pgx.Tx, f *task.Fact[args]) error {
		if f.AggregateID == "dead" {
			return task.Permanent(errors.New("poison"))
		}
		return record(ctx, tx, f)
	}))
	become(t, pool, map[string]int{"projected": 5, "dead": 1, "blocked": 2})
	require.NoError(t, first.shutdown(t))

	// As if that had been ten days ago.
	exec(t, pool, `SELECT pawl.ensure_day(pawl.day_of(clock_timestamp()) - 10, '{events,event_outcomes,event_errors}')`)
	for _, table := range []string{"events", "event_outcomes", "event_errors", "pending_events"} {
		exec(t, pool, `UPDATE pawl.`+table+` SET day = day - 10`)
	}
	exec(t, pool, `UPDATE pawl.dead_events SET died_at = died_at - interval '100 days'`)
	config := projecting(e, record)
	config.Retention = pawlrt.Retention{Every: 50 * time.Millisecond}
	w := start(t, pool, config)
	testdb.Eventually(t, 6*slow, "the days to be gone", func() bool {
		return query[int](t, pool, `SELECT count(*) FROM pawl.event_leaves() WHERE over_us > 0`) == 0
	})
	require.Equal(t, map[string]int{"blocked": 2}, status(t, pool), "of its own day it is gone, and the others wait")
	require.EqualValues(t, 2, w.Stats().Retention.Moved)
	id := query[[16]byte](t, pool, `SELECT event_id FROM pawl.dead_events`)
	require.NoError(t, task.RetryEvent(t.Context(), task.Autocommit(pool), id))
	become(t, pool, map[string]int{"projected": 3})
	require.Equal(t, upTo(3), ordered(t, pool, "dead"))
	require.Zero(t, query[int](t, pool, `SELECT count(*) FROM pawl.dead_events`))
}

func TestEventConfig(t *testing.T) {
	t.Parallel()
	pool := testdb.Migrated(t)
	good := projecting(event(), record)
	for name, change := range map[string]func(*pawlrt.Config){
		"an event twice":      func(c *pawlrt.Config) { c.Events = append(c.Events, c.Events...) },
		"no events at all":    func(c *pawlrt.Config) { c.Events = []task.EventTable{taskimpl.EventTable()} },
		"concurrency below 0": func(c *pawlrt.Config) { c.Relay.Concurrency = -1 },
		"a batch too large":   func(c *pawlrt.Config) { c.Relay.Batch = 1001 },
		"a short history":     func(c *pawlrt.Config) { c.Retention.Events = time.Hour },
	} {
		config := good
		change(&config)
		_, err := pawlrt.New(pool, config)
		require.ErrorIs(t, err, pawlrt.ErrConfig, name)
	}
}
