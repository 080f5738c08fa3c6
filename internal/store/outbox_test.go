package store_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/pawlgo/pawl/internal/store"
)

// publish stores an event of an aggregate and returns its id.
func publish(t *testing.T, q store.Querier, aggregate string, change ...func(*store.NewEvent)) uuid.UUID {
	t.Helper()
	e := &store.NewEvent{
		ID: uuid.Must(uuid.NewV7()), Type: "trip.completed", AggregateType: "trip", AggregateID: aggregate,
		Version: 1, Capability: capability, Payload: `{"n": 1}`,
	}
	for _, c := range change {
		c(e)
	}
	require.NoError(t, store.Publish(t.Context(), q, store.DefaultSchema, e))
	return e.ID
}

// due are the aggregates that a look from the beginning finds.
func due(t *testing.T, s *store.Store) []uuid.UUID {
	t.Helper()
	later := time.Now().Add(time.Hour)
	picked, err := s.Pick(t.Context(), &store.Pick{Floor: later, Visits: 1000, Limit: 1000, Capabilities: []int64{capability}})
	require.NoError(t, err)
	require.Equal(t, uuid.Nil, picked.Reached)
	fresh, err := s.Pick(t.Context(), &store.Pick{Limit: 1000, Capabilities: []int64{capability}})
	require.NoError(t, err)
	require.ElementsMatch(t, picked.Aggregates, fresh.Aggregates)
	return picked.Aggregates
}

// project begins a batch of all that is due.
func project(t *testing.T, s *store.Store, pool *pgxpool.Pool, limit int) *store.Projecting {
	t.Helper()
	conn, err := pgx.ConnectConfig(t.Context(), pool.Config().ConnConfig)
	require.NoError(t, err)
	p, err := s.BeginProjecting(t.Context(), conn, due(t, s), limit, time.Minute, "test")
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return p
}

// claiming begins an attempt at the one aggregate that is due.
func claiming(t *testing.T, s *store.Store, pool *pgxpool.Pool) *store.Projecting {
	t.Helper()
	conn, err := pgx.ConnectConfig(t.Context(), pool.Config().ConnConfig)
	require.NoError(t, err)
	p, err := s.ClaimProjecting(t.Context(), conn, due(t, s)[0], uuid.New(), []int64{capability}, time.Minute, "test")
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return p
}

func ids(events []store.PendingEvent) (all []uuid.UUID) {
	for _, e := range events {
		all = append(all, e.ID)
	}
	return all
}

// column is one of the view of an event.
func column(t *testing.T, pool *pgxpool.Pool, id uuid.UUID, name string) string {
	t.Helper()
	return query[string](t, pool, `SELECT COALESCE(`+name+`::text, '') FROM pawl.outbox_events WHERE id = $1`, id)
}

func TestProjectInOrder(t *testing.T) {
	t.Parallel()
	s, pool := open(t)
	var want []uuid.UUID
	for i := range 5 {
		want = append(want, publish(t, pool, "a", func(e *store.NewEvent) { e.Payload = fmt.Sprintf(`{"n": %d}`, i); e.OrganizationID = "org" }))
	}
	require.Len(t, due(t, s), 1)
	p := project(t, s, pool, 2)
	require.Equal(t, 3, p.Share())
	require.Equal(t, want[:3], ids(p.Events))
	require.Equal(t, 1, p.Locked)
	e := p.Events[0]
	require.Equal(t, "trip.completed/trip/a/org/1", fmt.Sprintf("%s/%s/%s/%s/%d", e.Type, e.AggregateType, e.AggregateID, e.OrganizationID, e.Version))
	require.True(t, e.Due)
	require.JSONEq(t, `{"n": 0}`, string(e.Payload))
	require.Equal(t, e.PublishedAt, e.OccurredAt)
	for i := range p.Events {
		require.NoError(t, p.Projected(t.Context(), &p.Events[i]))
	}
	require.NoError(t, p.Commit(t.Context()))
	require.Equal(t, "projected", column(t, pool, want[2], "status"))
	require.Equal(t, "test", column(t, pool, want[2], "claimed_by"))
	require.NotEmpty(t, column(t, pool, want[2], "processed_at"))
	require.Equal(t, "pending", column(t, pool, want[3], "status"))
	require.Equal(t, "waiting", column(t, pool, want[4], "status"))
	require.Equal(t, want[3:], ids(project(t, s, pool, 3).Events))
	require.Empty(t, project(t, s, pool, 3).Events)
}

// Two relays never have events of one aggregate at once.
func TestAggregatesAreLocked(t *testing.T) {
	t.Parallel()
	s, pool := open(t)
	publish(t, pool, "a")
	first := project(t, s, pool, 10)
	require.Len(t, first.Events, 1)
	second := project(t, s, pool, 10)
	require.Empty(t, second.Events)
	require.Zero(t, second.Locked)
	require.NoError(t, first.Projected(t.Context(), &first.Events[0]))
	require.Empty(t, project(t, s, pool, 10).Events)
	require.NoError(t, first.Commit(t.Context()))
	require.Empty(t, due(t, s))
}

func TestFailedEvents(t *testing.T) {
	t.Parallel()
	s, pool := open(t)
	id := publish(t, pool, "a")
	behind := publish(t, pool, "a")

	p := project(t, s, pool, 10)
	_, err := p.Tx.Exec(t.Context(), `CREATE TABLE effects (n int)`)
	require.NoError(t, err)
	require.NoError(t, p.Failed(t.Context(), &p.Events[0], store.EventFailure{Outcome: store.Retry, Delay: time.Hour, Code: "transient", Summary: "not yet"}))
	require.NoError(t, p.Commit(t.Context()))
	require.False(t, query[bool](t, pool, `SELECT to_regclass('effects') IS NOT NULL`), "what a failed projection has done")
	require.Equal(t, "retrying", column(t, pool, id, "status"))
	require.Equal(t, "1", column(t, pool, id, "attempts"))
	require.Equal(t, "not yet", column(t, pool, id, "last_error"))
	require.Empty(t, due(t, s), "later events of the aggregate wait for the first one")
	picked, err := s.Pick(t.Context(), &store.Pick{Visits: 10, Limit: 10, Capabilities: []int64{capability}})
	require.NoError(t, err)
	require.InDelta(t, time.Hour, picked.Next, float64(time.Minute))

	exec(t, pool, `UPDATE pawl.pending_events SET available_at = clock_timestamp()`)
	p = project(t, s, pool, 10)
	require.Equal(t, 1, p.Events[0].Attempts)
	require.NoError(t, p.Failed(t.Context(), &p.Events[0], store.EventFailure{Outcome: store.Dead, Code: "permanent", Summary: "never", Block: true}))
	require.NoError(t, p.Commit(t.Context()))
	require.Equal(t, "dead", column(t, pool, id, "status"))
	require.Empty(t, column(t, pool, id, "processed_at"))
	require.Equal(t, "blocked", column(t, pool, behind, "status"))
	require.Empty(t, due(t, s))
	_, blocked, err := s.Lag(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 1, blocked)

	found, err := store.RetryEvent(t.Context(), pool, store.DefaultSchema, id)
	require.NoError(t, err)
	require.True(t, found)
	p = project(t, s, pool, 10)
	require.Equal(t, []uuid.UUID{id, behind}, ids(p.Events), "before those that it has held up")
	require.Zero(t, p.Events[0].Attempts)
	require.NoError(t, p.Failed(t.Context(), &p.Events[0], store.EventFailure{Outcome: store.Dead, Code: "permanent", Block: true}))
	require.NoError(t, p.Commit(t.Context()))

	found, err = store.SkipEvent(t.Context(), pool, store.DefaultSchema, id)
	require.NoError(t, err)
	require.True(t, found)
	found, err = store.SkipEvent(t.Context(), pool, store.DefaultSchema, id)
	require.NoError(t, err)
	require.False(t, found)
	require.Equal(t, []uuid.UUID{behind}, ids(project(t, s, pool, 10).Events))
	require.Equal(t, 1, query[int](t, pool, `SELECT count(*) FROM pawl.dead_events WHERE event_id = $1 AND payload = '{"n": 1}'`, id))
}

// An event that somebody else has seen to is nobody's to mark or to fail.
func TestEventsAreFenced(t *testing.T) {
	t.Parallel()
	s, pool := open(t)
	publish(t, pool, "a")
	p := project(t, s, pool, 10)
	_, err := p.Tx.Exec(t.Context(), `COMMIT`)
	require.NoError(t, err)
	require.ErrorIs(t, p.Intact(), store.ErrTransactionEnded)
	require.ErrorIs(t, p.Projected(t.Context(), &p.Events[0]), store.ErrTransactionEnded)

	p = project(t, s, pool, 10)
	_, err = p.Tx.Exec(t.Context(), `COMMIT; BEGIN`, pgx.QueryExecModeSimpleProtocol)
	require.NoError(t, err)
	require.NoError(t, p.Intact())
	require.ErrorIs(t, p.Projected(t.Context(), &p.Events[0]), store.ErrTransactionEnded)

	p = claiming(t, s, pool) // so that others can have its rows
	recorded, err := s.EventFailed(t.Context(), &p.Events[0], store.EventFailure{Outcome: store.Retry, Delay: time.Hour, Code: "timeout"}, p.At, "test")
	require.NoError(t, err)
	require.True(t, recorded)
	recorded, err = s.EventFailed(t.Context(), &p.Events[0], store.EventFailure{Outcome: store.Retry, Code: "timeout"}, p.At, "test")
	require.NoError(t, err)
	require.False(t, recorded, "one attempt counts once")
	exec(t, pool, `DELETE FROM pawl.pending_events`)
	require.ErrorIs(t, p.Projected(t.Context(), &p.Events[0]), store.ErrFenced)
}

// Whoever comes after a transaction that came to nothing sees that, and an attempt
// that was written down.
func TestSuspectEvents(t *testing.T) {
	t.Parallel()
	s, pool := open(t)
	suspects := func(p *store.Projecting) (all []bool) {
		for _, e := range p.Events {
			all = append(all, e.Suspect)
		}
		return all
	}
	for range 4 {
		publish(t, pool, "a")
	}
	p := project(t, s, pool, 1)
	require.Equal(t, []bool{false, false}, suspects(p))
	require.NoError(t, p.Projected(t.Context(), &p.Events[0]))
	require.NoError(t, p.Commit(t.Context()))
	p = project(t, s, pool, 1)
	require.Equal(t, []bool{false, false}, suspects(p), "the second of them was left, in order")
	require.NoError(t, p.Failed(t.Context(), &p.Events[0], store.EventFailure{Outcome: store.Retry, Code: "transient"}))
	require.NoError(t, p.Commit(t.Context()))
	p = project(t, s, pool, 1)
	require.Equal(t, []bool{false, false}, suspects(p), "it has failed in order")
	require.NoError(t, p.Projected(t.Context(), &p.Events[0]))
	require.NoError(t, p.Tx.Rollback(t.Context()))

	for _, third := range []bool{false, true, true} { // which shares the fate of the others from now on
		p = project(t, s, pool, 10)
		require.Equal(t, []bool{true, true, third}, suspects(p))
		require.NoError(t, p.Tx.Rollback(t.Context()))
	}
	p = project(t, s, pool, 10)
	require.NoError(t, p.Commit(t.Context()))

	p = claiming(t, s, pool)
	require.Equal(t, []bool{true, true, false}, []bool{p.Events[0].Mine, p.Events[0].Due, p.Events[0].Claimed})
	require.False(t, p.Events[1].Mine)
	require.NoError(t, p.Tx.Rollback(t.Context()))
	// Whoever has written it down is given some time to take the lock.
	p = claiming(t, s, pool)
	require.Equal(t, []bool{false, false, true}, []bool{p.Events[0].Mine, p.Events[0].Due, p.Events[0].Claimed})
	require.NoError(t, p.Commit(t.Context()))
	exec(t, pool, `UPDATE pawl.pending_events SET claimed_at = claimed_at - interval '5 seconds'`)
	p = claiming(t, s, pool)
	require.Equal(t, []bool{false, true, true}, []bool{p.Events[0].Mine, p.Events[0].Due, p.Events[0].Claimed})
	require.NoError(t, p.Failed(t.Context(), &p.Events[0], store.EventFailure{Outcome: store.Retry, Code: "process_lost"}))
	require.NoError(t, p.Commit(t.Context()))
	p = claiming(t, s, pool)
	require.Equal(t, []bool{true, true, false}, []bool{p.Events[0].Mine, p.Events[0].Suspect, p.Events[0].Claimed})
	require.Equal(t, 2, p.Events[0].Attempts)
	require.NoError(t, p.Failed(t.Context(), &p.Events[0], store.EventFailure{Outcome: store.Retry, Code: "transient"}))
	require.NoError(t, p.Commit(t.Context()))
	p = project(t, s, pool, 10)
	require.Equal(t, []bool{false, true, true}, suspects(p), "it has failed in order")
	require.NoError(t, p.Projected(t.Context(), &p.Events[0]))
	require.NoError(t, p.Commit(t.Context()))
}

// between does something when the statement that contains its text has been
// answered, once.
type between struct {
	text  string
	do    func()
	found bool
}

func (b *between) TraceQueryStart(ctx context.Context, _ *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	b.found = b.found || strings.Contains(q.SQL, b.text)
	return ctx
}

func (b *between) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {
	if do := b.do; b.found && do != nil {
		b.do = nil
		do()
	}
}

// An attempt that is written down and does not begin, since another relay has the
// aggregate by then, is none.
func TestAttemptThatDoesNotBegin(t *testing.T) {
	t.Parallel()
	s, pool := open(t)
	publish(t, pool, "a")
	var other *store.Projecting
	config := pool.Config().ConnConfig
	config.Tracer = &between{text: "claim_event", do: func() { other = project(t, s, pool, 10) }}
	conn, err := pgx.ConnectConfig(t.Context(), config)
	require.NoError(t, err)
	defer conn.Close(t.Context())
	aggregate, claim := due(t, s)[0], uuid.New()
	p, err := s.ClaimProjecting(t.Context(), conn, aggregate, claim, []int64{capability}, time.Minute, "test")
	require.NoError(t, err)
	require.Zero(t, p.Locked)
	require.Empty(t, p.Events)
	require.Equal(t, []bool{true, false}, []bool{other.Events[0].Claimed, other.Events[0].Due}, "it is left to who has written it down")
	require.NoError(t, other.Commit(t.Context()))
	require.NoError(t, s.Unclaim(t.Context(), aggregate, uuid.New()))
	require.True(t, query[bool](t, pool, `SELECT claim IS NOT NULL FROM pawl.pending_events`), "another's")
	require.NoError(t, s.Unclaim(t.Context(), aggregate, claim))
	other = project(t, s, pool, 10)
	require.Equal(t, []bool{false, true}, []bool{other.Events[0].Claimed, other.Events[0].Due})
}

// What cannot be is set aside, and holds up nothing.
func TestEventWithoutItsRow(t *testing.T) {
	t.Parallel()
	s, pool := open(t)
	id := publish(t, pool, "a")
	behind := publish(t, pool, "a")
	exec(t, pool, `DELETE FROM pawl.events WHERE id = $1`, id)
	p := project(t, s, pool, 10)
	require.True(t, p.Events[0].Missing)
	require.NoError(t, p.Failed(t.Context(), &p.Events[0], store.EventFailure{Outcome: store.Quarantine, Summary: "no row"}))
	require.NoError(t, p.Projected(t.Context(), &p.Events[1]))
	require.NoError(t, p.Commit(t.Context()))
	require.Equal(t, 1, query[int](t, pool, `SELECT count(*) FROM pawl.quarantine WHERE job_id = $1 AND queue = '!outbox'`, id))
	require.Equal(t, "projected", column(t, pool, behind, "status"))
}

// A look goes on where the last one ended, whatever an aggregate has pending.
func TestPickGoesRound(t *testing.T) {
	t.Parallel()
	s, pool := open(t)
	for i := range 30 {
		publish(t, pool, fmt.Sprint(i%10))
	}
	publish(t, pool, "stranger", func(e *store.NewEvent) { e.Capability = 8; e.Version = 2 })
	var found []uuid.UUID
	looks, after := 0, uuid.Nil
	for {
		picked, err := s.Pick(t.Context(), &store.Pick{Floor: time.Now().Add(time.Hour), After: after, Visits: 4, Limit: 3, Capabilities: []int64{capability}})
		require.NoError(t, err)
		require.LessOrEqual(t, len(picked.Aggregates), 3)
		found = append(found, picked.Aggregates...)
		looks++
		if after = picked.Reached; after == uuid.Nil {
			break
		}
	}
	require.LessOrEqual(t, looks, 5)
	require.Len(t, found, 10)
	require.True(t, slices.IsSortedFunc(found, func(a, b uuid.UUID) int { return slices.Compare(a[:], b[:]) }))

	picked, err := s.Pick(t.Context(), &store.Pick{Limit: 3, Capabilities: []int64{capability}})
	require.NoError(t, err)
	require.Len(t, picked.Aggregates, 10, "all are fresh")
	require.False(t, picked.More)
	since := picked.Seen
	picked, err = s.Pick(t.Context(), &store.Pick{Floor: since, Limit: 3, Capabilities: []int64{capability}})
	require.NoError(t, err)
	require.Empty(t, picked.Aggregates)
	publish(t, pool, "5")
	picked, err = s.Pick(t.Context(), &store.Pick{Floor: since, Limit: 3, Capabilities: []int64{capability}})
	require.NoError(t, err)
	require.Len(t, picked.Aggregates, 1)

	process := register(t, s, time.Minute)
	lags, _, err := s.Lag(t.Context())
	require.NoError(t, err)
	require.Len(t, lags, 2)
	require.Equal(t, "trip.completed 1 31 true", fmt.Sprint(lags[0].Type, " ", lags[0].Version, " ", lags[0].Pending, " ", lags[0].Known))
	require.False(t, lags[1].Known)

	yes := true
	_, err = s.Pick(t.Context(), &store.Pick{Visits: 4, Limit: 3, Capabilities: []int64{99}, Process: process, Sleep: &yes})
	require.NoError(t, err)
	require.Equal(t, 1, query[int](t, pool, `SELECT count(*) FROM pawl.sleepers WHERE queue = '!outbox'`))
	no := false
	_, err = s.Pick(t.Context(), &store.Pick{Visits: 4, Limit: 3, Capabilities: []int64{99}, Process: process, Sleep: &no})
	require.NoError(t, err)
	require.Zero(t, query[int](t, pool, `SELECT count(*) FROM pawl.sleepers`))
}

// Events that are over leave with their day, and pending ones move out of it.
func TestEventDaysAreEmptied(t *testing.T) {
	t.Parallel()
	s, pool := open(t)
	var all []uuid.UUID
	for range 3 {
		all = append(all, publish(t, pool, "a"))
	}
	p := project(t, s, pool, 1)
	require.NoError(t, p.Projected(t.Context(), &p.Events[0]))
	require.NoError(t, p.Commit(t.Context()))
	// As if it had been ten days ago.
	exec(t, pool, `SELECT pawl.ensure_day(pawl.day_of(clock_timestamp()) - 10, '{events,event_outcomes,event_errors}')`)
	for _, table := range []string{"events", "event_outcomes", "pending_events"} {
		exec(t, pool, `UPDATE pawl.`+table+` SET day = day - 10`)
	}
	exec(t, pool, `UPDATE pawl.event_outcomes SET event_day = event_day - 10`)
	leaf := func(parent string) store.Leaf {
		leaves, err := s.EventLeaves(t.Context())
		require.NoError(t, err)
		i := slices.IndexFunc(leaves, func(l store.Leaf) bool { return l.Parent == parent && l.Over > 0 })
		require.GreaterOrEqual(t, i, 0)
		return leaves[i]
	}
	empty := func(parent string) store.Emptying {
		answer, err := s.EmptyEvents(t.Context(), leaf(parent), 100)
		require.NoError(t, err)
		return answer
	}
	require.Equal(t, store.Needed, empty(store.Events))
	require.Equal(t, store.Needed, empty(store.EventOutcomes))
	moved, days, err := s.RekeyEvents(t.Context(), 7*24*time.Hour, 100)
	require.NoError(t, err)
	require.Equal(t, 2, moved)
	require.Equal(t, []int{leaf(store.Events).Day}, days)
	require.Equal(t, store.Emptied, empty(store.Events))
	require.Equal(t, store.Emptied, empty(store.EventOutcomes))
	gone, err := s.Remove(t.Context(), leaf(store.Events))
	require.NoError(t, err)
	require.True(t, gone)
	require.Equal(t, all[1:], ids(project(t, s, pool, 10).Events))
}
