package runtime_test

import (
	"context"
	"errors"
	"net/http"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pawlgo/pawl/internal/testdb"
	pawlrt "github.com/pawlgo/pawl/runtime"
	"github.com/pawlgo/pawl/task"
)

// Middleware runs around projections as it does around handlers: it sees the
// attempt, hands on its context, and decides what becomes of it.
func TestMiddlewareAroundProjections(t *testing.T) {
	t.Parallel()
	pool := projections(t)
	e := event()
	type key struct{}
	infos := make(chan pawlrt.JobInfo, 10)
	config := projecting(e, func(ctx context.Context, tx pgx.Tx, f *task.Fact[args]) error {
		if ctx.Value(key{}) != "outer inner" {
			return task.Permanent(errors.New("no context of the middleware"))
		}
		return record(ctx, tx, f)
	})
	config.Middleware = []pawlrt.Middleware{
		func(ctx context.Context, job pawlrt.JobInfo, next func(context.Context) error) error {
			infos <- job
			return next(context.WithValue(ctx, key{}, "outer"))
		},
		func(ctx context.Context, job pawlrt.JobInfo, next func(context.Context) error) error {
			err := next(context.WithValue(ctx, key{}, ctx.Value(key{}).(string)+" inner"))
			if job.AggregateID == "refused" {
				return task.Permanent(errors.New("refused"))
			}
			return err
		},
	}
	w := start(t, pool, config)
	id := publish(t, task.Autocommit(pool), e, "a", args{N: 1})[0]
	become(t, pool, map[string]int{"projected": 1})
	info := receive(t, infos, "the attempt")
	require.False(t, info.EnqueuedAt.IsZero())
	require.Equal(t, info.EnqueuedAt, info.RunAt)
	require.Equal(t, pawlrt.JobInfo{
		ID: id, Kind: "trip.completed", Version: 1, Attempt: 1, MaxAttempts: 3, EnqueuedAt: info.EnqueuedAt, RunAt: info.RunAt,
		AggregateType: "trip", AggregateID: "a",
	}, info)

	publish(t, task.Autocommit(pool), e, "refused", args{N: 2})
	become(t, pool, map[string]int{"projected": 1, "dead": 1})
	require.Empty(t, ordered(t, pool, "refused"), "what the projection has done")
	require.Equal(t, http.StatusOK, ask(w.Readyz()).Code)
	require.Equal(t, http.StatusOK, ask(w.Livez()).Code)
}

// The checker finds whatever somebody breaks by hand in the outbox, and nothing
// where all is well.
func TestInvariantsOfEvents(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		sql, says string
		of        func(*pawlrt.EventInvariants) pawlrt.Violation
	}{
		"lost": {`DELETE FROM pawl.pending_events WHERE seq = (SELECT max(seq) FROM pawl.pending_events)`,
			"1 events are lost", func(v *pawlrt.EventInvariants) pawlrt.Violation { return v.Lost }},
		"projected without an outcome": {`DELETE FROM pawl.event_outcomes WHERE outcome = 1`,
			"2 events are lost", func(v *pawlrt.EventInvariants) pawlrt.Violation { return v.Lost }},
		"pending and over": {`INSERT INTO pawl.event_outcomes SELECT day, id, day, 1, 1, now(), '', now() FROM pawl.pending_events LIMIT 1`,
			"1 events are doubled", func(v *pawlrt.EventInvariants) pawlrt.Violation { return v.Doubled }},
		"over twice": {`INSERT INTO pawl.event_outcomes SELECT * FROM pawl.event_outcomes WHERE outcome = 3`,
			"1 events are doubled", func(v *pawlrt.EventInvariants) pawlrt.Violation { return v.Doubled }},
		"stored twice": {`INSERT INTO pawl.events SELECT (json_populate_record(e, json_build_object('day', e.day + 1))).* FROM pawl.events e LIMIT 1`,
			"1 events are doubled", func(v *pawlrt.EventInvariants) pawlrt.Violation { return v.Doubled }},
		"without a row": {`DELETE FROM pawl.events WHERE id = (SELECT id FROM pawl.pending_events LIMIT 1)`,
			"1 events are pending and have no row", func(v *pawlrt.EventInvariants) pawlrt.Violation { return v.Homeless }},
		"out of order": {`UPDATE pawl.pending_events SET seq = seq + 1000 WHERE seq = (SELECT min(seq) FROM pawl.pending_events)`,
			"out of their order", func(v *pawlrt.EventInvariants) pawlrt.Violation { return v.Misfiled }},
		"of another aggregate": {`UPDATE pawl.pending_events SET aggregate = gen_random_uuid() WHERE seq = (SELECT min(seq) FROM pawl.pending_events)`,
			"for another aggregate", func(v *pawlrt.EventInvariants) pawlrt.Violation { return v.Misfiled }},
		"blocked by none": {`DELETE FROM pawl.dead_events`,
			"1 events block an aggregate", func(v *pawlrt.EventInvariants) pawlrt.Violation { return v.Stray }},
		"blocked by another's": {`UPDATE pawl.blocked_aggregates SET aggregate = gen_random_uuid()`,
			"1 events block an aggregate", func(v *pawlrt.EventInvariants) pawlrt.Violation { return v.Stray }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := projections(t)
			exec(t, pool, `SELECT pawl.ensure_day(pawl.day_of(now()) + 1, '{events,event_outcomes,event_errors}')`)
			e := event()
			publish(t, task.Autocommit(pool), e, "a", numbered(2, "")...)
			publish(t, task.Autocommit(pool), e, "b", numbered(3, "poison")...)
			w := start(t, pool, projecting(e, func(ctx context.Context, tx pgx.Tx, f *task.Fact[args]) error {
				if f.Payload.Mode == "poison" {
					return task.Permanent(errors.New("poison"))
				}
				return record(ctx, tx, f)
			}))
			become(t, pool, map[string]int{"projected": 2, "dead": 1, "blocked": 2})
			require.NoError(t, w.shutdown(t))
			v := sound(t, pool)
			require.Equal(t, 2, v.Events.Pending)
			require.Equal(t, 1, v.Events.Blocked)

			exec(t, pool, c.sql)
			for _, days := range []int{-1, 2} {
				v, err := pawlrt.CheckInvariants(t.Context(), pool, pawlrt.InvariantOptions{Days: days})
				require.NoError(t, err)
				require.NotZero(t, c.of(&v.Events).Jobs)
				require.ErrorIs(t, v.Err(), pawlrt.ErrInvariant)
				require.ErrorContains(t, v.Err(), c.says)
			}
		})
	}
}

// What was dead and is projected after all is there once.
func TestInvariantsAfterARetry(t *testing.T) {
	t.Parallel()
	pool := projections(t)
	e := event()
	mended := make(chan struct{})
	start(t, pool, projecting(e, func(ctx context.Context, tx pgx.Tx, f *task.Fact[args]) error {
		select {
		case <-mended:
			return record(ctx, tx, f)
		default:
			return task.Permanent(errors.New("poison"))
		}
	}))
	id := publish(t, task.Autocommit(pool), e, "a", numbered(3, "")...)[0]
	become(t, pool, map[string]int{"dead": 1, "blocked": 2})
	sound(t, pool)
	close(mended)
	require.NoError(t, task.RetryEvent(t.Context(), task.Autocommit(pool), id))
	become(t, pool, map[string]int{"projected": 3})
	sound(t, pool)
	testdb.Eventually(t, slow, "the order", func() bool { return len(ordered(t, pool, "a")) == 3 })
	require.Equal(t, upTo(3), ordered(t, pool, "a"))
}
