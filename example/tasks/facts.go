package tasks

import (
	"time"

	"github.com/google/uuid"

	"github.com/pawlgo/pawl/task"
)

// TripCompleted is the fact that a vehicle has made a trip.
//
//task:event trip.completed aggregate=vehicle
//task:retry attempts=10 base=100ms max=2s
//task:timeout 10s
type TripCompleted struct {
	task.Event[TripCompletedPayload]
}

// TripCompletedPayload is the payload of TripCompleted.
type TripCompletedPayload struct {
	TripID    uuid.UUID `json:"trip_id"`
	StartedAt time.Time `json:"started_at"`
	EndedAt   time.Time `json:"ended_at"`
	DistanceM float64   `json:"distance_m"`
}

// GeofenceEntered is the fact that a vehicle came into a geofence.
//
//task:event geofence.entered aggregate=vehicle
//task:retry attempts=10 base=100ms max=2s
//task:timeout 10s
type GeofenceEntered struct {
	task.Event[GeofenceEnteredPayload]
}

// GeofenceEnteredPayload is the payload of GeofenceEntered.
type GeofenceEnteredPayload struct {
	CrossingID uuid.UUID `json:"crossing_id"`
	Geofence   string    `json:"geofence"`
	At         time.Time `json:"at"`
}

// GeofenceLeft is the fact that a vehicle went out of a geofence.
//
//task:event geofence.left aggregate=vehicle
//task:retry attempts=10 base=100ms max=2s
//task:timeout 10s
type GeofenceLeft struct {
	task.Event[GeofenceLeftPayload]
}

// GeofenceLeftPayload is the payload of GeofenceLeft.
type GeofenceLeftPayload struct {
	CrossingID uuid.UUID `json:"crossing_id"`
	Geofence   string    `json:"geofence"`
	At         time.Time `json:"at"`
}

// DeviceOffline is the fact that nothing was heard of a vehicle for longer than
// it may be silent.
//
//task:event device.offline aggregate=vehicle
//task:retry attempts=10 base=100ms max=2s
//task:timeout 10s
type DeviceOffline struct {
	task.Event[DeviceOfflinePayload]
}

// DeviceOfflinePayload is the payload of DeviceOffline.
type DeviceOfflinePayload struct {
	SilenceID uuid.UUID `json:"silence_id"`
	Since     time.Time `json:"since"`
	// Until is when it was heard of again, nil where it was not.
	Until *time.Time `json:"until"`
}
