package admin_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pawlgo/pawl/admin"
	"github.com/pawlgo/pawl/internal/testdb"
	pawlrt "github.com/pawlgo/pawl/runtime"
	"github.com/pawlgo/pawl/task"
	"github.com/pawlgo/pawl/task/taskimpl"
)

func TestEvents(t *testing.T) {
	t.Parallel()
	pool, c := open(t)
	event := &taskimpl.Event[args]{
		Name: "trip.completed", Aggregate: "trip", Version: 1,
		Policy:       taskimpl.Policy{Attempts: 1, Base: time.Second, Max: time.Second, Unknown: 1, Timeout: time.Minute},
		Capabilities: []taskimpl.Capability{{Version: 1, ID: 5}},
		Decode:       func(_ int, raw []byte) (args, error) { return taskimpl.As[args](raw) },
	}
	publish := func(aggregate, mode string) uuid.UUID {
		r, err := taskimpl.Publish(t.Context(), task.Autocommit(pool), event, aggregate, args{Mode: mode}, nil)
		require.NoError(t, err)
		return r.ID
	}
	is := func(f admin.EventFilter, limit int) (ids []uuid.UUID) {
		for page := (admin.Page{Limit: limit}); ; {
			list, err := c.Events(t.Context(), f, page)
			require.NoError(t, err)
			for _, e := range list.Events {
				require.NotContains(t, ids, e.ID)
				ids = append(ids, e.ID)
			}
			if page.Cursor = list.Next; page.Cursor == "" {
				return ids
			}
		}
	}
	first, poison := publish("7", ""), publish("7", "poison")
	behind := []uuid.UUID{publish("7", ""), publish("7", ""), publish("7", "")}
	other := publish("8", "")
	require.Len(t, is(admin.EventFilter{Status: admin.EventPending}, 2), 6)
	require.Equal(t, []uuid.UUID{other}, is(admin.EventFilter{Status: admin.EventPending, AggregateType: "trip", AggregateID: "8"}, 2))

	work(t, pool, mailed(), obey, func(config *pawlrt.Config) {
		config.Events = []task.EventTable{taskimpl.EventTable(taskimpl.EventRow(event, func(_ context.Context, _ pgx.Tx, fact *task.Fact[args]) error {
			if fact.Payload.Mode == "poison" {
				return task.Permanent(errors.New("no driver"))
			}
			return nil
		}))}
	})
	testdb.Eventually(t, soon, "the poison to be dead", func() bool { return len(is(admin.EventFilter{Status: admin.EventDead}, 2)) == 1 })
	require.ElementsMatch(t, behind, is(admin.EventFilter{Status: admin.EventBlocked}, 2))
	testdb.Eventually(t, soon, "two to be projected", func() bool { return len(is(admin.EventFilter{Status: admin.EventProjected}, 1)) == 2 })
	require.ElementsMatch(t, []uuid.UUID{first, other}, is(admin.EventFilter{Status: admin.EventProjected}, 1))
	require.Len(t, is(admin.EventFilter{Type: "trip.completed"}, 4), 6)
	require.Empty(t, is(admin.EventFilter{Type: "nothing"}, 4))
	require.Empty(t, is(admin.EventFilter{OrganizationID: "acme"}, 4))
	_, err := c.Events(t.Context(), admin.EventFilter{Status: admin.EventRetrying}, admin.Page{})
	require.ErrorIs(t, err, admin.ErrInvalid)

	e, err := c.Event(t.Context(), poison)
	require.NoError(t, err)
	require.Equal(t, admin.EventDead, e.Status)
	require.True(t, e.Blocks)
	require.Equal(t, "no driver", e.ErrorSummary)
	require.Len(t, e.Errors, 1)
	e, err = c.Event(t.Context(), behind[1])
	require.NoError(t, err)
	require.Equal(t, admin.EventBlocked, e.Status)
	_, err = c.Event(t.Context(), uuid.New())
	require.ErrorIs(t, err, task.ErrNoEvent)
	require.ErrorIs(t, c.RetryEvent(t.Context(), behind[0], ""), task.ErrNoEvent)

	exec(t, pool, `DELETE FROM pawl.events WHERE id = $1`, poison)
	exec(t, pool, `DELETE FROM pawl.event_outcomes WHERE event_id = $1`, poison)
	require.Equal(t, []uuid.UUID{poison}, is(admin.EventFilter{Status: admin.EventDead, Type: "trip.completed"}, 2))
	require.NoError(t, c.SkipEvent(t.Context(), poison, "nobody drove"))
	testdb.Eventually(t, soon, "the others to be projected", func() bool { return len(is(admin.EventFilter{Status: admin.EventProjected}, 2)) == 5 })
	audit, err := c.Audit(t.Context(), admin.Page{})
	require.NoError(t, err)
	require.Len(t, audit.Entries, 1)
	require.Equal(t, "skip event", audit.Entries[0].Verb)
}

// The oldest event is the one that was published first, also while it waits for
// another attempt and others are to be projected before it.
func TestOldestEventWaitsForARetry(t *testing.T) {
	t.Parallel()
	pool, c := open(t)
	event := &taskimpl.Event[args]{
		Name: "trip.completed", Aggregate: "trip", Version: 1, Policy: taskimpl.Policy{Attempts: 3, Base: time.Hour, Max: time.Hour, Unknown: 3, Timeout: time.Minute},
		Capabilities: []taskimpl.Capability{{Version: 1, ID: 5}},
	}
	for _, aggregate := range []string{"7", "8", "9"} {
		_, err := taskimpl.Publish(t.Context(), task.Autocommit(pool), event, aggregate, args{}, nil)
		require.NoError(t, err)
	}
	oldest := func() time.Duration {
		t.Helper()
		status, err := c.Status(t.Context())
		require.NoError(t, err)
		return status.OldestEvent
	}
	require.Less(t, oldest(), 50*time.Minute)
	exec(t, pool, `UPDATE pawl.pending_events SET published_at = published_at - interval '1 hour', available_at = available_at + interval '10 minutes'
		WHERE seq = (SELECT max(seq) FROM pawl.pending_events)`)
	require.Greater(t, oldest(), 50*time.Minute)
	require.Less(t, oldest(), 70*time.Minute)
}
