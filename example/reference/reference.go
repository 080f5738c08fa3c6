// Package reference computes what the platform must arrive at, the plain way:
// the whole trace in memory, no database, no jobs, no cursor, no watermark.
//
// It states the rules of package fleet a second time and in other words, and
// shares with it only the types and the constants. What it says is worth
// comparing with because it was not computed the same way: trips are cut out of
// whole days instead of being closed step by step, and distances are measured
// between vectors instead of by haversine.
package reference

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/pawlgo/pawl/example/fleet"
)

// Result is what follows from a trace. Its facts have no ids.
type Result struct {
	Trips     []fleet.Trip     // by vehicle and start
	Crossings []fleet.Crossing // by vehicle, time and fence
	Silences  []fleet.Silence  // by vehicle and start
	Late      int              // positions refused as too old
	Repeated  int              // positions of a vehicle and time that were there already
	Accepted  int
	Vehicles  map[string]int // accepted positions of each
}

// Of computes the result of a trace, given in the order of arrival.
func Of(trace []fleet.Position, fences []fleet.Geofence) Result {
	r := Result{Vehicles: map[string]int{}}
	type moment struct {
		vehicle string
		at      int64
	}
	seen := map[moment]bool{}
	newest := map[string]time.Time{}
	tracks := map[string][]fleet.Position{}
	for _, p := range trace {
		key := moment{p.Vehicle, p.At.UnixMicro()}
		latest, known := newest[p.Vehicle]
		switch {
		case known && latest.Sub(p.At) > fleet.Lateness:
			r.Late++
			continue
		case seen[key]:
			r.Repeated++
			continue
		}
		r.Accepted++
		r.Vehicles[p.Vehicle]++
		seen[key] = true
		tracks[p.Vehicle] = append(tracks[p.Vehicle], p)
		if p.At.After(latest) {
			newest[p.Vehicle] = p.At
		}
	}
	for _, vehicle := range slices.Sorted(maps.Keys(tracks)) {
		track := slices.SortedFunc(slices.Values(tracks[vehicle]), func(a, b fleet.Position) int { return a.At.Compare(b.At) })
		r.Trips = append(r.Trips, trips(track)...)
		r.Crossings = append(r.Crossings, crossings(track, fences)...)
		r.Silences = append(r.Silences, silences(track, slices.MaxFunc(slices.Collect(maps.Values(newest)), time.Time.Compare))...)
	}
	slices.SortStableFunc(r.Crossings, func(a, b fleet.Crossing) int {
		if c := strings.Compare(a.Vehicle, b.Vehicle); c != 0 {
			return c
		}
		if c := a.At.Compare(b.At); c != 0 {
			return c
		}
		return strings.Compare(a.Fence, b.Fence)
	})
	return r
}

// trips looks at the moving positions alone: two neighbours among them belong
// to one trip unless a silence or a stop lies between them.
func trips(track []fleet.Position) []fleet.Trip {
	var moving []int
	for i, p := range track {
		if p.SpeedKMH >= fleet.SlowKMH {
			moving = append(moving, i)
		}
	}
	var found []fleet.Trip
	for len(moving) > 0 {
		n := 1
		for n < len(moving) && !parted(track[moving[n-1]:moving[n]+1]) {
			n++
		}
		if t := sum(track[moving[0] : moving[n-1]+1]); t.DistanceM >= fleet.MinTripMeters {
			found = append(found, t)
		}
		moving = moving[n:]
	}
	return found
}

// parted says whether a piece, moving at its two ends and standing between
// them, holds a silence or a stop.
func parted(piece []fleet.Position) bool {
	for i := 1; i < len(piece); i++ {
		if piece[i].At.Sub(piece[i-1].At) > fleet.GapLimit {
			return true
		}
	}
	standing := piece[1 : len(piece)-1]
	return len(standing) > 0 && standing[len(standing)-1].At.Sub(standing[0].At) >= fleet.StopLimit
}

func sum(piece []fleet.Position) fleet.Trip {
	first, last := piece[0], piece[len(piece)-1]
	t := fleet.Trip{Vehicle: first.Vehicle, StartedAt: first.At, EndedAt: last.At, Positions: len(piece)}
	for i := range piece {
		t.MaxSpeedKMH = math.Max(t.MaxSpeedKMH, piece[i].SpeedKMH)
		if i > 0 {
			t.DistanceM += meters(piece[i-1].Lat, piece[i-1].Lon, piece[i].Lat, piece[i].Lon)
		}
	}
	return t
}

func crossings(track []fleet.Position, fences []fleet.Geofence) []fleet.Crossing {
	var found []fleet.Crossing
	for _, fence := range fences {
		inside := make([]bool, len(track))
		for i, p := range track {
			inside[i] = meters(fence.Lat, fence.Lon, p.Lat, p.Lon) <= fence.RadiusM
		}
		for i := 1; i < len(track); i++ {
			if inside[i] != inside[i-1] {
				found = append(found, fleet.Crossing{
					Vehicle: track[i].Vehicle, Fence: fence.Name, Entered: inside[i], At: track[i].At,
				})
			}
		}
	}
	return found
}

// silences looks at every position for the one that comes after it. After the last
// one there is the last one of all vehicles.
func silences(track []fleet.Position, newest time.Time) []fleet.Silence {
	var found []fleet.Silence
	for i, p := range track {
		s := fleet.Silence{Vehicle: p.Vehicle, Since: p.At}
		heard := newest
		if i+1 < len(track) {
			s.Until = track[i+1].At
			heard = s.Until
		}
		if heard.After(p.At.Add(fleet.OfflineLimit)) {
			found = append(found, s)
		}
	}
	return found
}

// Overview is what is known of one vehicle in the end.
type Overview struct {
	Trips        int
	DistanceM    float64
	Entered      int
	Inside       []string // geofences, sorted
	Silences     int
	OfflineSince time.Time // zero where it was heard of again
}

// Overview is the view of the fleet, by vehicle: those of which there is a fact.
func (r Result) Overview() map[string]Overview {
	view := map[string]Overview{}
	for _, t := range r.Trips {
		o := view[t.Vehicle]
		o.Trips++
		o.DistanceM += t.DistanceM
		view[t.Vehicle] = o
	}
	// The last crossing of each vehicle and geofence says on which side it is.
	type side struct{ vehicle, fence string }
	last := map[side]bool{}
	for _, c := range r.Crossings {
		o := view[c.Vehicle]
		if c.Entered {
			o.Entered++
		}
		view[c.Vehicle] = o
		last[side{c.Vehicle, c.Fence}] = c.Entered
	}
	for s, inside := range last {
		if o := view[s.vehicle]; inside {
			o.Inside = append(o.Inside, s.fence)
			slices.Sort(o.Inside)
			view[s.vehicle] = o
		}
	}
	for _, s := range r.Silences {
		o := view[s.Vehicle]
		o.Silences++
		if s.Until.IsZero() {
			o.OfflineSince = s.Since
		}
		view[s.Vehicle] = o
	}
	return view
}

// meters is the angle between two unit vectors, times the earth's radius.
func meters(lat1, lon1, lat2, lon2 float64) float64 {
	const radius = 6_371_008.8
	a, b := vector(lat1, lon1), vector(lat2, lon2)
	cross := [3]float64{a[1]*b[2] - a[2]*b[1], a[2]*b[0] - a[0]*b[2], a[0]*b[1] - a[1]*b[0]}
	dot := a[0]*b[0] + a[1]*b[1] + a[2]*b[2]
	return radius * math.Atan2(math.Hypot(math.Hypot(cross[0], cross[1]), cross[2]), dot)
}

func vector(lat, lon float64) [3]float64 {
	lat, lon = lat*math.Pi/180, lon*math.Pi/180
	return [3]float64{math.Cos(lat) * math.Cos(lon), math.Cos(lat) * math.Sin(lon), math.Sin(lat)}
}

// Report is the text that a trip's report must have, for the id that the
// platform gave to the trip.
func Report(t fleet.Trip, id string) string {
	seconds := t.EndedAt.Sub(t.StartedAt).Seconds()
	average := 0.0
	if seconds > 0 {
		average = t.DistanceM / seconds * 3.6
	}
	return strings.Join([]string{
		"# Trip of " + t.Vehicle,
		"",
		"- trip: " + id,
		"- from: " + t.StartedAt.UTC().Format(time.RFC3339),
		"- to: " + t.EndedAt.UTC().Format(time.RFC3339),
		"- duration: " + (time.Duration(math.Round(seconds)) * time.Second).String(),
		fmt.Sprintf("- distance: %.2f km", t.DistanceM/1000),
		fmt.Sprintf("- average speed: %.1f km/h", average),
		fmt.Sprintf("- highest speed: %.1f km/h", t.MaxSpeedKMH),
		fmt.Sprintf("- positions: %d", t.Positions),
		"",
	}, "\n")
}
