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
