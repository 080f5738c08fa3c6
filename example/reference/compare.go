package reference

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/pawlgo/pawl/example/fleet"
)

// Differences says in sentences where trips, crossings and silences, in any order,
// are not those of the result. Distances may differ by a metre, since they were
// measured in another way.
func (r Result) Differences(trips []fleet.Trip, crossings []fleet.Crossing, silences []fleet.Silence) []string {
	type tripKey struct {
		vehicle    string
		start, end int64
	}
	type crossingKey struct {
		vehicle, fence string
		entered        bool
		at             int64
	}
	type silenceKey struct {
		vehicle      string
		since, until int64
	}
	diffs := compare(r.Trips, trips,
		func(t fleet.Trip) tripKey { return tripKey{t.Vehicle, t.StartedAt.UnixMicro(), t.EndedAt.UnixMicro()} },
		func(t fleet.Trip) string {
			return fmt.Sprintf("trip of %s from %s to %s", t.Vehicle, clock(t.StartedAt), clock(t.EndedAt))
		},
		func(want, got fleet.Trip) bool {
			return want.Positions == got.Positions && want.MaxSpeedKMH == got.MaxSpeedKMH && math.Abs(want.DistanceM-got.DistanceM) <= 1
		})
	diffs = append(diffs, compare(r.Crossings, crossings,
		func(c fleet.Crossing) crossingKey {
			return crossingKey{c.Vehicle, c.Fence, c.Entered, c.At.UnixMicro()}
		},
		func(c fleet.Crossing) string {
			return fmt.Sprintf("crossing of %s by %s at %s", c.Fence, c.Vehicle, clock(c.At))
		},
		func(fleet.Crossing, fleet.Crossing) bool { return true })...)
	return append(diffs, compare(r.Silences, silences,
		func(s fleet.Silence) silenceKey {
			return silenceKey{s.Vehicle, s.Since.UnixMicro(), s.Until.UnixMicro()}
		},
		func(s fleet.Silence) string {
			return fmt.Sprintf("silence of %s since %s", s.Vehicle, clock(s.Since))
		},
		func(fleet.Silence, fleet.Silence) bool { return true })...)
}

func clock(t time.Time) string { return t.UTC().Format("Jan 2 15:04:05") }

// compare looks for the facts of each side on the other one.
func compare[F any, K comparable](want, got []F, key func(F) K, name func(F) string, same func(want, got F) bool) []string {
	var diffs []string
	wanted := make(map[K]F, len(want))
	for _, f := range want {
		wanted[key(f)] = f
	}
	seen := map[K]bool{}
	for _, f := range got {
		w, ok := wanted[key(f)]
		switch {
		case !ok:
			diffs = append(diffs, "not in the reference: "+name(f))
		case seen[key(f)]:
			diffs = append(diffs, "more than once: "+name(f))
		case !same(w, f):
			diffs = append(diffs, "other values than in the reference: "+name(f))
		}
		seen[key(f)] = true
	}
	for _, f := range want {
		if !seen[key(f)] {
			diffs = append(diffs, "missing: "+name(f))
		}
	}
	slices.Sort(diffs)
	return diffs
}
