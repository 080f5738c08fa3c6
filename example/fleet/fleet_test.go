package fleet_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawlgo/pawl/example/fleet"
	"github.com/pawlgo/pawl/example/reference"
	"github.com/pawlgo/pawl/example/trace"
)

var eight = time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC)

// at is a position some minutes after eight, that far along a road to the east.
func at(minutes, speed float64) fleet.Position {
	return fleet.Position{
		Vehicle: "van-01", At: eight.Add(time.Duration(minutes * float64(time.Minute))),
		Lat: 53.55, Lon: 9.9 + minutes*0.01, SpeedKMH: speed,
	}
}

func TestSegmentRules(t *testing.T) {
	t.Parallel()
	type span [2]float64 // minutes
	for name, tt := range map[string]struct {
		positions []fleet.Position
		watermark float64
		trips     []span
		after     float64 // -1: the zero time
	}{
		"nothing":                            {nil, 30, nil, -1},
		"standing only":                      {[]fleet.Position{at(0, 0), at(1, 2.9)}, 30, nil, 1},
		"still driving":                      {[]fleet.Position{at(0, 0), at(1, 30), at(2, 30)}, 12, nil, 0},
		"still driving from the start":       {[]fleet.Position{at(1, 30), at(2, 30)}, 12, nil, -1},
		"silent up to the limit":             {[]fleet.Position{at(1, 30), at(2, 30), at(12, 30)}, 13, nil, -1},
		"silent beyond the limit":            {[]fleet.Position{at(1, 30), at(2, 30), at(12.1, 30)}, 13, []span{{1, 2}}, 2},
		"no more can come within the limit":  {[]fleet.Position{at(1, 30), at(2, 30)}, 12.1, []span{{1, 2}}, 2},
		"stop, just too short":               {[]fleet.Position{at(1, 30), at(2, 30), at(3, 0), at(7.9, 0)}, 9, nil, -1},
		"stop":                               {[]fleet.Position{at(1, 30), at(2, 30), at(3, 0), at(8, 0)}, 9, []span{{1, 2}}, 8},
		"short stops do not add up":          {[]fleet.Position{at(1, 30), at(3, 0), at(6, 0), at(7, 30), at(8, 0), at(11, 0)}, 12, nil, -1},
		"a short stop stays within the trip": {[]fleet.Position{at(1, 30), at(3, 0), at(6, 0), at(7, 30)}, 100, []span{{1, 7}}, 7},
		"a silence while standing":           {[]fleet.Position{at(1, 30), at(2, 30), at(3, 0), at(14, 0), at(15, 30)}, 16, []span{{1, 2}}, 14},
		"after a stop the next trip":         {[]fleet.Position{at(1, 30), at(2, 30), at(3, 0), at(8, 0), at(9, 30), at(10, 30)}, 100, []span{{1, 2}, {9, 10}}, 10},
		"too short for a trip":               {[]fleet.Position{at(1, 30), at(1.3, 30)}, 100, nil, 1.3},
		"a single moving position":           {[]fleet.Position{at(1, 30)}, 100, nil, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			trips, after := fleet.Segment(tt.positions, at(tt.watermark, 0).At)
			var spans []span
			for _, trip := range trips {
				spans = append(spans, span{trip.StartedAt.Sub(eight).Minutes(), trip.EndedAt.Sub(eight).Minutes()})
			}
			require.Equal(t, tt.trips, spans)
			if tt.after < 0 {
				require.Zero(t, after)
			} else {
				require.Equal(t, at(tt.after, 0).At, after)
			}
		})
	}
}

func TestTripSums(t *testing.T) {
	t.Parallel()
	trips, _ := fleet.Segment([]fleet.Position{at(0, 30), at(1, 55), at(3, 40)}, fleet.Forever)
	require.Len(t, trips, 1)
	require.Equal(t, 3, trips[0].Positions)
	require.InDelta(t, 55, trips[0].MaxSpeedKMH, 0)
	require.InDelta(t, fleet.Distance(53.55, 9.9, 53.55, 9.93), trips[0].DistanceM, 0.01)
}

func TestDistance(t *testing.T) {
	t.Parallel()
	require.InDelta(t, 111_195, fleet.Distance(0, 0, 1, 0), 1, "a degree of latitude")
	require.InDelta(t, 111_195, fleet.Distance(0, 179.5, 0, -179.5), 1, "across the date line")
	require.InDelta(t, math.Pi*6_371_008.8, fleet.Distance(-90, 0, 90, 0), 1, "from pole to pole")
	require.Zero(t, fleet.Distance(53.5, 9.9, 53.5, 9.9))
}

func TestCrossings(t *testing.T) {
	t.Parallel()
	fence := fleet.Geofence{Name: "yard", Lat: 53.55, Lon: 9.95, RadiusM: 1000} // around minute 5
	crossings := fleet.Crossings([]fleet.Geofence{fence}, []fleet.Position{at(0, 30), at(4.5, 30), at(5, 30), at(9, 30)})
	require.Len(t, crossings, 2)
	require.True(t, crossings[0].Entered)
	require.Equal(t, at(4.5, 0).At, crossings[0].At)
	require.False(t, crossings[1].Entered)
	require.Equal(t, at(9, 0).At, crossings[1].At)
	require.Empty(t, fleet.Crossings([]fleet.Geofence{fence}, []fleet.Position{at(5, 0)}), "where it was before is unknown")
}

func TestSilences(t *testing.T) {
	t.Parallel()
	limit := fleet.OfflineLimit.Minutes()
	found := fleet.Silences([]fleet.Position{at(0, 30), at(limit, 30), at(2*limit+1, 30), at(2*limit+2, 30)})
	require.Len(t, found, 1)
	require.Equal(t, at(limit, 0).At, found[0].Since)
	require.Equal(t, at(2*limit+1, 0).At, found[0].Until)
	require.Empty(t, fleet.Silences([]fleet.Position{at(5, 0)}))

	_, ok := fleet.LastSilence("a", at(0, 0).At, at(limit, 0).At)
	require.False(t, ok)
	last, ok := fleet.LastSilence("a", at(0, 0).At, at(limit+1, 0).At)
	require.True(t, ok)
	require.Equal(t, at(0, 0).At, last.Since)
	require.Zero(t, last.Until)
}

// Work in steps, whatever the steps, comes to what the reference computes at
// once.
func TestStepsComeToTheReference(t *testing.T) {
	t.Parallel()
	for seed := range uint64(40) {
		positions := trace.Record(trace.Plan{Seed: seed, Vehicles: 2, Hours: 3})
		r := rand.New(rand.NewPCG(seed, 1))
		got := inSteps(positions, func() bool { return r.IntN(30) == 0 })
		requireSame(t, reference.Of(positions, fleet.Geofences()), got)
	}
}

// The order of arrival does not matter, as long as nothing arrives so late that
// it is refused.
func TestArrivalOrderDoesNotMatter(t *testing.T) {
	t.Parallel()
	inOrder := trace.Record(trace.Plan{Seed: 11, Vehicles: 2, Hours: 3})
	slices.SortStableFunc(inOrder, func(a, b fleet.Position) int { return a.At.Compare(b.At) })
	want := reference.Of(inOrder, fleet.Geofences())
	require.Zero(t, want.Late)
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 2))
		type delayed struct {
			at time.Time
			p  fleet.Position
		}
		shuffled := make([]delayed, len(inOrder))
		for i, p := range inOrder {
			shuffled[i] = delayed{p.At.Add(time.Duration(r.Int64N(int64(fleet.Lateness)))), p}
		}
		slices.SortStableFunc(shuffled, func(a, b delayed) int { return a.at.Compare(b.at) })
		arrival := make([]fleet.Position, len(shuffled))
		for i := range shuffled {
			arrival[i] = shuffled[i].p
		}
		require.NotEqual(t, inOrder, arrival)
		requireSame(t, want, inSteps(arrival, func() bool { return r.IntN(20) == 0 }))
	}
}

type found struct {
	trips     []fleet.Trip
	crossings []fleet.Crossing
	silences  []fleet.Silence
}

// inSteps does what ingest and the jobs do, in memory: take positions, and
// every now and then work off what is settled.
func inSteps(arrival []fleet.Position, now func() bool) (got found) {
	type state struct {
		newest, tripsAfter, othersAfter time.Time
		track                           []fleet.Position
	}
	vehicles := map[string]*state{}
	var newest time.Time
	work := func(v *state, ended bool) {
		slices.SortFunc(v.track, func(a, b fleet.Position) int { return a.At.Compare(b.At) })
		watermark := fleet.Watermark(v.newest, ended)
		var forTrips, forOthers []fleet.Position
		for _, p := range v.track {
			if !p.At.Before(watermark) {
				break
			}
			if p.At.After(v.tripsAfter) {
				forTrips = append(forTrips, p)
			}
			if !p.At.Before(v.othersAfter) {
				forOthers = append(forOthers, p)
			}
		}
		trips, after := fleet.Segment(forTrips, watermark)
		got.trips = append(got.trips, trips...)
		if !after.IsZero() {
			v.tripsAfter = after
		}
		got.crossings = append(got.crossings, fleet.Crossings(fleet.Geofences(), forOthers)...)
		got.silences = append(got.silences, fleet.Silences(forOthers)...)
		if len(forOthers) > 0 {
			v.othersAfter = forOthers[len(forOthers)-1].At
		}
		if last, ok := fleet.LastSilence(v.track[0].Vehicle, v.newest, newest); ok && ended {
			got.silences = append(got.silences, last)
		}
	}
	for _, p := range arrival {
		v := vehicles[p.Vehicle]
		if v == nil {
			v = &state{}
			vehicles[p.Vehicle] = v
		}
		known := slices.ContainsFunc(v.track, func(q fleet.Position) bool { return q.At.Equal(p.At) })
		if !known && fleet.Accept(v.newest, p.At) {
			v.track = append(v.track, p)
			if p.At.After(v.newest) {
				v.newest = p.At
			}
			if p.At.After(newest) {
				newest = p.At
			}
		}
		if now() {
			work(v, false)
		}
	}
	for _, v := range vehicles {
		work(v, true)
	}
	return got
}

func requireSame(t *testing.T, want reference.Result, got found) {
	t.Helper()
	require.Empty(t, want.Differences(got.trips, got.crossings, got.silences))
	require.NotEmpty(t, got.trips)
}

func TestReportSaysWhatTheReferenceSays(t *testing.T) {
	t.Parallel()
	got := inSteps(trace.Record(trace.Plan{Seed: 5, Vehicles: 3, Hours: 3}), func() bool { return false })
	for _, trip := range got.trips {
		require.Equal(t, reference.Report(trip, trip.ID.String()), string(fleet.Report(trip)))
	}
}
