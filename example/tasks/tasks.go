// Package tasks declares the background work of the fleet platform and the facts
// that it tells of. What is generated beside it enqueues the one, publishes the
// other, and names handlers and projections; those are in package work.
//
//	critical_alerts       EvaluateGeofences   after every batch of positions
//	location_derivation   ReconcileTrips      after every batch of positions
//	                      EvaluateDevices     every second
//	webhooks              SendWebhook         for every crossing and trip that a subscriber asked for
//	notifications         Notify              for every crossing, trip and silence
//	reports               RenderTripReport    for every trip
//	                      SummarizeFleet      every five seconds
//	exports               ExportTrips         once a vehicle's trace has ended
//	maintenance           PurgePositions      once a vehicle's trace has ended
//	                      RevokeLinks         every two seconds
//
// A queue is a promise of its own: reports may take as long as they like and
// pile up, alerts start at once all the same.
//
// The facts are those of vehicles: TripCompleted, GeofenceEntered, GeofenceLeft
// and DeviceOffline. The handler that finds one out commits it together with its
// row. What follows from it is the matter of its projection.
package tasks

import (
	"github.com/google/uuid"

	"github.com/pawlgo/pawl/task"
)

//go:generate go tool taskgen

// EvaluateGeofences looks at the settled positions of a vehicle for crossings
// that were not seen before.
//
//task:queue critical_alerts
//task:retry attempts=10 base=100ms max=2s
//task:timeout 10s
type EvaluateGeofences struct {
	task.Task[EvaluateGeofencesArgs]
}

// EvaluateGeofencesArgs is the payload of EvaluateGeofences.
type EvaluateGeofencesArgs struct {
	Vehicle string `json:"vehicle"`
}

// ReconcileTrips looks at the settled positions of a vehicle for trips that
// have ended, and commits them.
//
//task:queue location_derivation
//task:retry attempts=10 base=100ms max=2s
//task:timeout 10s
type ReconcileTrips struct {
	task.Task[ReconcileTripsArgs]
}

// ReconcileTripsArgs is the payload of ReconcileTrips.
type ReconcileTripsArgs struct {
	Vehicle string `json:"vehicle"`
}

// SendWebhook delivers one event to one subscriber's endpoint.
//
//task:queue webhooks
//task:retry attempts=10 base=250ms max=5s unknown=3
//task:timeout 10s
//task:idempotency fields=EndpointID,EventID keep=72h
type SendWebhook struct {
	task.Task[SendWebhookArgs]
}

// SendWebhookArgs is the payload of SendWebhook. The body travels as bytes: it
// arrives as it was made.
type SendWebhookArgs struct {
	EndpointID uuid.UUID `json:"endpoint_id"`
	EventID    uuid.UUID `json:"event_id"`
	Event      string    `json:"event"`
	Body       []byte    `json:"body"`
}

// Notify tells the dispatcher on duty of a crossing or a trip.
//
//task:queue notifications
//task:retry attempts=5 base=200ms max=5s
//task:timeout 10s
//task:idempotency fields=EventID keep=72h
type Notify struct{ task.Task[NotifyArgs] }

// NotifyArgs is the payload of Notify.
type NotifyArgs struct {
	EventID uuid.UUID `json:"event_id"`
	Text    string    `json:"text"`
}

// RenderTripReport writes the report of a committed trip as a file.
//
//task:queue reports
//task:retry attempts=5 base=500ms max=10s
//task:timeout 30s
//task:idempotency fields=TripID keep=72h
type RenderTripReport struct {
	task.Task[RenderTripReportArgs]
}

// RenderTripReportArgs is the payload of RenderTripReport.
type RenderTripReportArgs struct {
	TripID uuid.UUID `json:"trip_id"`
}

// ExportTrips writes all trips of a vehicle as one CSV file.
//
//task:queue exports
//task:retry attempts=5 base=500ms max=10s
//task:timeout 1m
//task:idempotency fields=Vehicle keep=72h
type ExportTrips struct{ task.Task[ExportTripsArgs] }

// ExportTripsArgs is the payload of ExportTrips.
type ExportTripsArgs struct {
	Vehicle string `json:"vehicle"`
}

// PurgePositions removes the raw positions of a vehicle that are beyond the
// horizon and of no more use.
//
//task:queue maintenance
//task:priority low
//task:retry attempts=5 base=1s max=10s
//task:timeout 1m
//task:idempotency fields=Vehicle keep=1h
type PurgePositions struct {
	task.Task[PurgePositionsArgs]
}

// PurgePositionsArgs is the payload of PurgePositions.
type PurgePositionsArgs struct {
	Vehicle string `json:"vehicle"`
}
