// Package fleet is the domain of the example: positions, the trips and the
// geofence crossings that follow from them, and the rules by which they follow.
//
// Everything here is a pure function. What makes the platform safe to run as
// unordered, repeated background jobs is that its results depend on nothing but
// the order in which positions arrived:
//
//   - A position is accepted unless it is more than [Lateness] older than the
//     newest one of its vehicle, see [Accept]. So behind the [Watermark] the
//     past of a vehicle no longer changes.
//   - [Segment], [Crossings] and [Silences] read only that settled past, from left
//     to right, and it is known how far they got. Run them after every batch or once at the end,
//     the results are the same.
package fleet

import (
	"time"

	"github.com/google/uuid"
)

// The rules of the platform.
const (
	// Lateness is how far a position may lag behind the newest one of its
	// vehicle. An older one is refused.
	Lateness = 10 * time.Minute
	// GapLimit is the longest silence within a trip. A longer one ends it.
	GapLimit = 10 * time.Minute
	// StopLimit is how long a vehicle may stand within a trip. Standing for so
	// long, or longer, ends it.
	StopLimit = 5 * time.Minute
	// OfflineLimit is the longest silence of a device that is taken for none. It is
	// above [Lateness], so a late position can only end one that is not settled.
	OfflineLimit = 12 * time.Minute
	// SlowKMH is the speed below which a vehicle counts as standing.
	SlowKMH = 3.0
	// MinTripMeters is the shortest trip. What is shorter is the noise of a
	// receiver, not a journey.
	MinTripMeters = 300.0
	// RawHorizon is how long raw positions are kept, counted back from the
	// newest one of their vehicle.
	RawHorizon = 2 * time.Hour
)

// Position is where a vehicle was at one moment.
type Position struct {
	Vehicle  string
	At       time.Time
	Lat, Lon float64 // degrees
	SpeedKMH float64
}

func (p Position) moving() bool { return p.SpeedKMH >= SlowKMH }

// Trip is a journey between two stops or silences. It starts and ends with a
// moving position.
type Trip struct {
	ID                 uuid.UUID
	Vehicle            string
	StartedAt, EndedAt time.Time
	Positions          int
	DistanceM          float64
	MaxSpeedKMH        float64
}

// Geofence is a circle on the map.
type Geofence struct {
	Name     string
	Lat, Lon float64
	RadiusM  float64
}

// Contains says whether p is inside.
func (g Geofence) Contains(p Position) bool {
	return Distance(g.Lat, g.Lon, p.Lat, p.Lon) <= g.RadiusM
}

// Geofences are the areas that the platform watches.
func Geofences() []Geofence {
	return []Geofence{
		{Name: "harbour", Lat: 53.5350, Lon: 9.9400, RadiusM: 1800},
		{Name: "old-town", Lat: 53.5503, Lon: 9.9920, RadiusM: 900},
		{Name: "airport", Lat: 53.6304, Lon: 9.9882, RadiusM: 1500},
	}
}

// Crossing is the fact that a vehicle entered or left a geofence.
type Crossing struct {
	ID      uuid.UUID
	Vehicle string
	Fence   string
	Entered bool
	At      time.Time // of the first position on the new side
}

// Silence is the fact that nothing was heard of a vehicle for longer than
// [OfflineLimit].
type Silence struct {
	ID      uuid.UUID
	Vehicle string
	Since   time.Time // its last position before
	Until   time.Time // its next one, zero where there was none
}

// The ids of facts follow from the facts: whoever derives one again, derives
// the same id.
var namespace = uuid.MustParse("6ba0d9f4-7a53-4c39-9d0e-2f1c6d6b8a11")

func factID(kind, vehicle, what string, at time.Time) uuid.UUID {
	return uuid.NewSHA1(namespace, []byte(kind+"\n"+vehicle+"\n"+what+"\n"+at.UTC().Format(time.RFC3339Nano)))
}
