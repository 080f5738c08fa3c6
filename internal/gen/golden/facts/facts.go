// Package facts declares events and no task. Its generated file is committed:
// tests hold it against the generator.
package facts

import (
	"time"

	"github.com/google/uuid"
	"github.com/pawlgo/pawl/task"
)

//go:generate go run github.com/pawlgo/pawl/cmd/taskgen

// TripCompleted is the fact that a trip ended.
//
//task:event trip.completed aggregate=trip
//task:retry attempts=20 base=100ms max=1m unknown=4
//task:timeout 5s
//task:organization OrganizationID
type TripCompleted struct {
	task.Event[TripCompletedPayload]
}

// TripCompletedPayload is the payload of [TripCompleted].
type TripCompletedPayload struct {
	OrganizationID uuid.UUID `json:"organization_id"`
	Meters         int64     `json:"meters"`
	EndedAt        time.Time `json:"ended_at"`
}

// DeviceOffline is the fact that nothing was heard of a device for a while.
//
//task:event device.went_offline aggregate=device onpoison=skip
type DeviceOffline struct {
	task.Event[DeviceOfflinePayload]
}

// DeviceOfflinePayload is the payload of [DeviceOffline].
type DeviceOfflinePayload struct {
	LastSeen time.Time `json:"last_seen"`
}
