package store_test

import (
	"encoding/json"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/pawlgo/pawl/internal/store"
)

// eventType is a type of event as a worker declares it.
func eventType(change ...func(*store.EventType)) store.EventType {
	e := store.EventType{
		Name: "trip.completed", AggregateType: "trip", Version: 2, Capability: capability, OrganizationField: "organization",
		Shape: json.RawMessage(`{"root":{"kind":"struct","ref":"P"},"structs":{"P":[
			{"json":"n","go":"N","type":{"kind":"int"}},{"json":"organization","go":"Organization","type":{"kind":"string"}}]}}`),
	}
	for _, c := range change {
		c(&e)
	}
	return e
}

// The newest version of a type of event stays, whoever starts last, and a start
// that changes nothing writes nothing.
func TestRegisterEvents(t *testing.T) {
	t.Parallel()
	s, pool := open(t)
	registered := func() string {
		return query[string](t, pool, `SELECT string_agg(concat_ws(' ', type, aggregate_type, version, capability, organization_field, shape IS NULL, xmin), E'\n' ORDER BY type) FROM pawl.event_types`)
	}
	bare := eventType(func(e *store.EventType) { e.Name, e.OrganizationField, e.Shape = "bare.done", "", nil })
	require.NoError(t, s.RegisterEvents(t.Context(), []store.EventType{eventType(), bare}))
	before := registered()
	require.NoError(t, s.RegisterEvents(t.Context(), []store.EventType{bare, eventType()}))
	require.NoError(t, s.RegisterEvents(t.Context(), []store.EventType{eventType(func(e *store.EventType) { e.Version = 1 })}))
	require.Equal(t, before, registered())
	require.NoError(t, s.RegisterEvents(t.Context(), []store.EventType{eventType(func(e *store.EventType) { e.Version, e.AggregateType = 3, "journey" })}))
	require.Equal(t, 1, query[int](t, pool, `SELECT count(*) FROM pawl.event_types WHERE version = 3 AND aggregate_type = 'journey' AND organization_field = 'organization'`))
	require.Equal(t, 1, query[int](t, pool, `SELECT count(*) FROM pawl.event_types WHERE type = 'bare.done' AND organization_field IS NULL AND shape IS NULL`))
}

// What plain SQL publishes is what Go would have published, and what does not fit
// is refused with the reason, in a transaction that nothing else has changed.
func TestPlainPublish(t *testing.T) {
	t.Parallel()
	s, pool := open(t)
	_, err := pool.Exec(t.Context(), `SELECT pawl.publish('trip.completed', 'a', '{}')`)
	requireRefusal(t, err, store.CodeUnknownKind, "there is no event 'trip.completed'", "No worker has registered any event.",
		"An event is known when a worker that projects it has started once.")
	require.NoError(t, s.RegisterEvents(t.Context(), []store.EventType{
		eventType(), eventType(func(e *store.EventType) { e.Name, e.OrganizationField, e.Shape = "any.done", "", nil }),
	}))

	first := query[uuid.UUID](t, pool, `SELECT pawl.publish('trip.completed', 'a', '{"n": 1, "organization": "acme"}')`)
	second := query[uuid.UUID](t, pool, `SELECT pawl.publish('any.done', 'a', '7', occurred_at => '2020-01-02 03:04:05Z', organization_id => 'other')`)
	require.Equal(t, uuid.Version(7), first.Version())
	require.Equal(t, "trip.completed trip a acme 2 {\"n\": 1, \"organization\": \"acme\"}", column(t, pool, first,
		`concat_ws(' ', event_type, aggregate_type, aggregate_id, organization_id, schema_version, payload)`))
	require.Equal(t, "true", column(t, pool, first, `(occurred_at = published_at)`))
	require.Equal(t, "other true", column(t, pool, second, `concat_ws(' ', organization_id, CASE WHEN occurred_at = '2020-01-02 03:04:05Z' THEN 'true' END)`))
	p := project(t, s, pool, 10)
	require.Equal(t, []uuid.UUID{first, second}, ids(p.Events), "of one aggregate, in order")

	const hint = "It is held against version 2. Names of members are case-sensitive."
	for _, c := range []struct{ arguments, code, message, detail, hint string }{
		{`'trip.complete', 'a', '{}'`, store.CodeUnknownKind, "there is no event 'trip.complete'",
			"The nearest that there are: trip.completed, any.done.", "An event is known when a worker that projects it has started once."},
		{`NULL, 'a', '{}'`, store.CodeUnknownKind, "there is no event NULL",
			"The nearest that there are: any.done, trip.completed.", "An event is known when a worker that projects it has started once."},
		{`'trip.completed', 'a', '{"n": "1", "organization": ""}'`, store.CodeMisfit, "the payload does not fit trip.completed",
			"payload.n: expected a whole number without a decimal point, from -9223372036854775808 to 9223372036854775807, got a string", hint},
		{`'trip.completed', 'a', NULL`, store.CodeMisfit, "the payload does not fit trip.completed", "payload: expected a JSON value, got NULL of SQL", hint},
		{`'any.done', 'a', to_jsonb(repeat('x', 67108863))`, store.CodeMisfit, "the payload does not fit any.done",
			"payload: 67108865 bytes as text, of at most 67108864", hint},
		{`'any.done', 'a', (repeat('[', 10001) || repeat(']', 10001))::jsonb`, store.CodeMisfit, "the payload does not fit any.done",
			"payload: nested deeper than 10000 levels", hint},
		{`'trip.completed', '', '{}'`, store.CodeInvalidOption, "cannot publish trip.completed: aggregate_id is empty", "", "Name the trip that the event happened to."},
		{`'trip.completed', NULL, '{}'`, store.CodeInvalidOption, "cannot publish trip.completed: aggregate_id is empty", "", "Name the trip that the event happened to."},
		{`'trip.completed', repeat('ä', 501), '{}'`, store.CodeInvalidOption, "cannot publish trip.completed: aggregate_id has 1002 bytes", "", "Use an id of at most 1000 bytes."},
		{`'any.done', 'a', '1', occurred_at => 'infinity'`, store.CodeInvalidOption, "cannot publish any.done: occurred_at is infinity", "", "Give a time of the years 1 to 9999."},
		{`'trip.completed', 'a', '{"n": 1, "organization": "acme"}', organization_id => 'other'`, store.CodeInvalidOption,
			"cannot publish trip.completed: organization_id is not that of the payload", "The event takes its organization from payload.organization.", "Leave organization_id out."},
		{`'any.done', 'a', '1', organization_id => repeat('x', 1001)`, store.CodeInvalidOption, "cannot publish any.done: the organization has 1001 bytes", "", "Use its id, of at most 1000 bytes."},
	} {
		_, err := pool.Exec(t.Context(), `SELECT pawl.publish(`+c.arguments+`)`)
		requireRefusal(t, err, c.code, c.message, c.detail, c.hint)
	}
	require.Equal(t, 2, query[int](t, pool, `SELECT count(*) FROM pawl.events`))
}
