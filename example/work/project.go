package work

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/pawlgo/pawl/example/fleetdb"
	"github.com/pawlgo/pawl/example/tasks"
	"github.com/pawlgo/pawl/task"
)

// ProjectTripCompleted adds a trip to the overview, makes the public link to it,
// and enqueues its report, webhooks and notification.
func (h *Handlers) ProjectTripCompleted(ctx context.Context, tx pgx.Tx, fact *task.Fact[tasks.TripCompletedPayload]) error {
	trip, vehicle := fact.Payload, fact.AggregateID
	if err := fleetdb.Drove(ctx, tx, vehicle, trip.DistanceM); err != nil {
		return task.Transient(err)
	}
	if err := fleetdb.ShareTrip(ctx, tx, trip.TripID, h.pace.Link); err != nil {
		return task.Transient(err)
	}
	if _, err := tasks.EnqueueRenderTripReport(ctx, tx, tasks.RenderTripReportArgs{TripID: trip.TripID}); err != nil {
		return task.Transient(err)
	}
	return announce(ctx, tx, h, fact, trip.TripID, fmt.Sprintf("%s made a trip of %.1f km", vehicle, trip.DistanceM/1000))
}

// ProjectGeofenceEntered adds a geofence to those that the vehicle is in, and
// enqueues webhooks and notification.
func (h *Handlers) ProjectGeofenceEntered(ctx context.Context, tx pgx.Tx, fact *task.Fact[tasks.GeofenceEnteredPayload]) error {
	crossing, vehicle := fact.Payload, fact.AggregateID
	if err := fleetdb.Entered(ctx, tx, vehicle, crossing.Geofence); err != nil {
		return task.Transient(err)
	}
	return announce(ctx, tx, h, fact, crossing.CrossingID, fmt.Sprintf("%s entered %s at %s", vehicle, crossing.Geofence, clock(crossing.At)))
}

// ProjectGeofenceLeft takes it away again. That works because the facts of a
// vehicle are projected in their order.
func (h *Handlers) ProjectGeofenceLeft(ctx context.Context, tx pgx.Tx, fact *task.Fact[tasks.GeofenceLeftPayload]) error {
	crossing, vehicle := fact.Payload, fact.AggregateID
	if err := fleetdb.Left(ctx, tx, vehicle, crossing.Geofence); err != nil {
		return task.Transient(err)
	}
	return announce(ctx, tx, h, fact, crossing.CrossingID, fmt.Sprintf("%s left %s at %s", vehicle, crossing.Geofence, clock(crossing.At)))
}

// ProjectDeviceOffline adds a silence to the overview, and enqueues the
// notification.
func (h *Handlers) ProjectDeviceOffline(ctx context.Context, tx pgx.Tx, fact *task.Fact[tasks.DeviceOfflinePayload]) error {
	silence, vehicle := fact.Payload, fact.AggregateID
	if err := fleetdb.WasSilent(ctx, tx, vehicle, silence.Since, silence.Until); err != nil {
		return task.Transient(err)
	}
	text := fmt.Sprintf("nothing was heard of %s since %s", vehicle, clock(silence.Since))
	if silence.Until != nil {
		text = fmt.Sprintf("nothing was heard of %s from %s to %s", vehicle, clock(silence.Since), clock(*silence.Until))
	}
	return announce(ctx, tx, h, fact, silence.SilenceID, text)
}

func clock(t time.Time) string { return t.UTC().Format(time.TimeOnly) }

// announce enqueues, in the transaction of a projection, the webhooks and the
// notification of a fact.
func announce[P any](ctx context.Context, tx pgx.Tx, h *Handlers, fact *task.Fact[P], subject uuid.UUID, text string) error {
	body, err := json.Marshal(map[string]any{"fact": fact.Type, "vehicle": fact.AggregateID, "occurred_at": fact.OccurredAt.UTC(), "data": fact.Payload})
	if err != nil {
		return task.Permanent(err)
	}
	endpoints, err := fleetdb.Endpoints(ctx, tx, fact.Type)
	if err != nil {
		return task.Transient(err)
	}
	for _, e := range endpoints {
		receipt, err := tasks.EnqueueSendWebhook(ctx, tx, tasks.SendWebhookArgs{EndpointID: e.ID, EventID: subject, Event: fact.Type, Body: body})
		if err != nil {
			return task.Transient(err)
		}
		if err := fleetdb.InsertWebhook(ctx, tx, e.ID, subject, receipt.ID); err != nil {
			return task.Transient(err)
		}
	}
	if _, err := tasks.EnqueueNotify(ctx, tx, tasks.NotifyArgs{EventID: subject, Text: text}); err != nil {
		return task.Transient(err)
	}
	return task.Transient(fleetdb.Projected(ctx, tx, fact.ID, subject, h.worker))
}
