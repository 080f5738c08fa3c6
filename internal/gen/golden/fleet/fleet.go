// Package fleet declares tasks with every directive and with none but the queue.
// Its generated file is committed: it is what a reader looks at first, and tests
// hold it against the generator.
package fleet

import (
	"encoding/json"
	"time"

	"github.com/google/uuid"
	"github.com/pawlgo/pawl/task"
)

//go:generate go run github.com/pawlgo/pawl/cmd/taskgen

// SendWebhook delivers one event to one subscriber's endpoint.
//
//task:kind send_webhook
//task:queue webhooks
//task:priority high
//task:retry attempts=12 base=2s max=10m jitter=0.25 unknown=3
//task:timeout 30s
//task:idempotency fields=EndpointID,EventID keep=72h
//task:organization OrganizationID
type SendWebhook struct{ task.Task[SendWebhookArgs] }

// SendWebhookArgs is the payload of [SendWebhook].
type SendWebhookArgs struct {
	OrganizationID uuid.UUID       `json:"organization_id"`
	EndpointID     uuid.UUID       `json:"endpoint_id"`
	EventID        Event           `json:"event_id"`
	Body           json.RawMessage `json:"body"`
	At             time.Time       `json:"at"`
}

// RevokeWebhook forgets a subscriber's endpoint.
//
//task:queue webhooks
//task:retry attempts=1
type RevokeWebhook struct{ task.Task[RevokeWebhookArgs] }

// RevokeWebhookArgs is the payload of [RevokeWebhook].
type RevokeWebhookArgs struct {
	EndpointID uuid.UUID `json:"endpoint_id"`
}

// BuildReport needs nothing but a queue.
//
//task:queue fleet_reports
type BuildReport struct{ task.Task[Batch[Trip]] }

// TrackVehicle folds one position into what is known of a vehicle.
//
//task:queue positions
//task:order fields=Fleet,Vehicle
type TrackVehicle struct{ task.Task[TrackVehicleArgs] }

// TrackVehicleArgs is the payload of [TrackVehicle].
type TrackVehicleArgs struct {
	Owner
	Vehicle  string  `json:"vehicle"`
	Latitude float64 `json:"latitude"`
}

// Owner is part of several payloads.
type Owner struct {
	Fleet int32 `json:"fleet"`
}

// BillTrip writes the invoice of one trip.
//
//task:queue billing
//task:transactional
type BillTrip struct{ task.Task[BillTripArgs] }

// BillTripArgs is the payload of [BillTrip].
type BillTripArgs struct {
	Trip    uuid.UUID   `json:"trip"`
	Invoice ID[Invoice] `json:"invoice"`
}

// ID is that of a T, which is no part of it.
type ID[T any] struct{ uuid.UUID }

// Invoice is in no payload.
type Invoice struct{ Cents int64 }

// CloseMonth adds up the invoices of one month, a month after the other.
//
//task:queue billing
//task:order fields=OrganizationID
//task:transactional isolation=serializable
//task:organization OrganizationID
type CloseMonth struct{ task.Task[CloseMonthArgs] }

// CloseMonthArgs is the payload of [CloseMonth].
type CloseMonthArgs struct {
	OrganizationID uuid.UUID `json:"organization_id"`
	Month          string    `json:"month"`
}

// Batch is several of something.
type Batch[T any] struct {
	Items []T `json:"items"`
}

// Trip is one trip of one vehicle.
type Trip struct {
	Vehicle  string        `json:"vehicle"`
	Duration time.Duration `json:"duration"`
	Next     *Trip         `json:"next,omitempty"`
}

// Event is an identity that encodes itself, through a pointer receiver, which
// the idempotency key has to respect.
type Event struct{ number int64 }

// NewEvent returns the event with that number.
func NewEvent(number int64) Event { return Event{number} }

// MarshalJSON implements [json.Marshaler].
func (e *Event) MarshalJSON() ([]byte, error) { return json.Marshal(e.number) }

// UnmarshalJSON implements [json.Unmarshaler].
func (e *Event) UnmarshalJSON(raw []byte) error { return json.Unmarshal(raw, &e.number) }
