package facts_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/pawlgo/pawl/internal/dispatch"
	"github.com/pawlgo/pawl/internal/gen/golden/facts"
	"github.com/pawlgo/pawl/internal/testdb"
	"github.com/pawlgo/pawl/task"
	"github.com/stretchr/testify/require"
)

// projections remembers what it was called with.
type projections struct {
	trips []*task.Fact[facts.TripCompletedPayload]
}

var _ facts.Projections = (*projections)(nil)

var errOffline = errors.New("offline")

func (p *projections) ProjectTripCompleted(_ context.Context, _ pgx.Tx, fact *task.Fact[facts.TripCompletedPayload]) error {
	p.trips = append(p.trips, fact)
	return nil
}

func (p *projections) ProjectDeviceOffline(context.Context, pgx.Tx, *task.Fact[facts.DeviceOfflinePayload]) error {
	return errOffline
}

func TestTableCarriesThePolicy(t *testing.T) {
	t.Parallel()
	rows := dispatch.EventRows(facts.Events(&projections{}))
	require.Len(t, rows, 2)
	require.Equal(t, facts.EventDeviceOffline, rows[0].Event)
	require.True(t, rows[0].Skip)
	require.Equal(t, facts.EventTripCompleted, rows[1].Event)
	require.False(t, rows[1].Skip)
	require.Equal(t, dispatch.Policy{Attempts: 20, Base: 100 * time.Millisecond, Max: time.Minute, Jitter: 0.2, Unknown: 4, Timeout: 5 * time.Second}, rows[1].Policy)
	require.Equal(t, 1, rows[1].Current)
	require.Len(t, rows[1].Versions, 1)
}

func TestRowsCallTheirProjections(t *testing.T) {
	t.Parallel()
	p := &projections{}
	rows := dispatch.EventRows(facts.Events(p))
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	o := &dispatch.Occurrence{ID: uuid.New(), Event: facts.EventTripCompleted, AggregateType: "trip", AggregateID: "7", Sequence: 3, Version: 1,
		Attempt: 2, MaxAttempts: 20, OccurredAt: at, PublishedAt: at, Payload: []byte(`{"meters": 12, "newer": true}`)}
	require.NoError(t, rows[1].Project(t.Context(), nil, o))
	require.Equal(t, []*task.Fact[facts.TripCompletedPayload]{{ID: o.ID, Type: facts.EventTripCompleted, AggregateType: "trip", AggregateID: "7", Sequence: 3,
		Version: 1, Attempt: 2, MaxAttempts: 20, OccurredAt: at, PublishedAt: at, Payload: facts.TripCompletedPayload{Meters: 12}}}, p.trips)
	o.Payload = []byte(`{}`)
	require.ErrorIs(t, rows[0].Project(t.Context(), nil, o), errOffline)

	for _, broken := range []struct {
		version int
		payload string
	}{{1, `{"meters": "many"}`}, {2, `{}`}} {
		o.Version, o.Payload = broken.version, []byte(broken.payload)
		var undecodable *dispatch.DecodeError
		require.ErrorAs(t, rows[1].Project(t.Context(), nil, o), &undecodable)
		require.Error(t, rows[1].Decode(broken.version, o.Payload))
	}
	require.NoError(t, rows[1].Decode(1, []byte(`{"meters": 1}`)))
}

func TestPublish(t *testing.T) {
	t.Parallel()
	pool := testdb.Migrated(t)
	organization := uuid.New()
	r, err := facts.PublishTripCompleted(t.Context(), task.Autocommit(pool), "7", facts.TripCompletedPayload{OrganizationID: organization, Meters: 3})
	require.NoError(t, err)
	var got string
	require.NoError(t, pool.QueryRow(t.Context(), `SELECT concat_ws(' ', event_type, aggregate_type, aggregate_id, organization_id, schema_version, payload ->> 'meters')
		FROM pawl.outbox_events WHERE id = $1`, r.ID).Scan(&got))
	require.Equal(t, "trip.completed trip 7 "+organization.String()+" 1 3", got)
	_, err = facts.PublishDeviceOffline(t.Context(), task.Autocommit(pool), "", facts.DeviceOfflinePayload{})
	require.ErrorIs(t, err, task.ErrInvalidArgs)
	require.ErrorContains(t, err, "publish device.went_offline: ")
}
