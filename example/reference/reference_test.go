package reference_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawlgo/pawl/example/fleet"
	"github.com/pawlgo/pawl/example/reference"
)

func at(vehicle string, minutes, speed float64) fleet.Position {
	return fleet.Position{
		Vehicle: vehicle, At: time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC).Add(time.Duration(minutes * float64(time.Minute))),
		Lat: 0, Lon: minutes * 0.01, SpeedKMH: speed, // 1112 m a minute
	}
}

// A trace small enough to work out by hand.
func TestByHand(t *testing.T) {
	t.Parallel()
	fence := fleet.Geofence{Name: "gate", Lat: 0, Lon: 0.03, RadiusM: 500} // minute 3
	got := reference.Of([]fleet.Position{
		at("b", 0, 50),
		at("a", 1, 50), at("a", 3, 60), at("a", 2, 50), // out of order
		at("a", 3, 99),                               // there already
		at("a", 4, 0), at("a", 5, 0), at("a", 6, 50), // waits
		at("a", 7, 0), at("a", 12, 1), at("a", 13, 0), // stops
		at("a", 2.9, 50),                                 // too late
		at("a", 14, 50), at("a", 15, 50), at("a", 26, 0), // falls silent
	}, []fleet.Geofence{fence})

	require.Equal(t, 1, got.Late)
	require.Equal(t, 1, got.Repeated)
	require.Equal(t, 13, got.Accepted)
	require.Equal(t, map[string]int{"a": 12, "b": 1}, got.Vehicles)

	require.Len(t, got.Trips, 2)
	first, second := got.Trips[0], got.Trips[1]
	require.Equal(t, at("a", 1, 0).At, first.StartedAt)
	require.Equal(t, at("a", 6, 0).At, first.EndedAt)
	require.Equal(t, 6, first.Positions)
	require.InDelta(t, 60, first.MaxSpeedKMH, 0)
	require.InDelta(t, 5*1112, first.DistanceM, 3)
	require.Equal(t, at("a", 14, 0).At, second.StartedAt)
	require.Equal(t, at("a", 15, 0).At, second.EndedAt)

	require.Equal(t, []fleet.Crossing{
		{Vehicle: "a", Fence: "gate", Entered: true, At: at("a", 3, 0).At},
		{Vehicle: "a", Fence: "gate", Entered: false, At: at("a", 4, 0).At},
	}, got.Crossings)

	// Between minutes 13 and 26 there is 14 and 15, so 11 minutes are no silence;
	// b was heard of at minute 0 alone, and the last of all is minute 26.
	require.Equal(t, []fleet.Silence{{Vehicle: "b", Since: at("b", 0, 0).At}}, got.Silences)
	require.Equal(t, map[string]reference.Overview{
		"a": {Trips: 2, DistanceM: first.DistanceM + second.DistanceM, Entered: 1},
		"b": {Silences: 1, OfflineSince: at("b", 0, 0).At},
	}, got.Overview())
}
