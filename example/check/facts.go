package check

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/pawlgo/pawl/example/reference"
	"github.com/pawlgo/pawl/example/tasks"
)

// projectedOnce: each committed trip, crossing and silence has exactly one fact of
// its type, and that was projected exactly once.
func projectedOnce(f *Facts) Verdict {
	v := Verdict{Name: "facts"}
	workers := map[string]bool{}
	published, projected := map[uuid.UUID][]Fact{}, map[uuid.UUID]int{}
	for _, x := range f.Published {
		published[x.Subject] = append(published[x.Subject], x)
	}
	for _, p := range f.Projections {
		projected[p.FactID]++
		workers[p.Worker] = true
	}
	one := func(subject uuid.UUID, kind string) {
		of := published[subject]
		delete(published, subject)
		if len(of) != 1 {
			v.problem("%s of %s was published %d times", kind, subject, len(of))
			return
		}
		switch n := projected[of[0].ID]; {
		case of[0].Type != kind:
			v.problem("%s was published as %s, not as %s", subject, of[0].Type, kind)
		case n != 1:
			v.problem("%s of %s was projected %d times and is %s", kind, subject, n, of[0].Status)
		case of[0].Status != "projected":
			v.problem("%s of %s was projected and is %s", kind, subject, of[0].Status)
		}
		delete(projected, of[0].ID)
	}
	for _, t := range f.Trips {
		one(t.ID, tasks.EventTripCompleted)
	}
	for _, c := range f.Crossings {
		kind := tasks.EventGeofenceLeft
		if c.Entered {
			kind = tasks.EventGeofenceEntered
		}
		one(c.ID, kind)
	}
	for _, s := range f.Silences {
		one(s.ID, tasks.EventDeviceOffline)
	}
	for subject, of := range published {
		v.problem("%s of %s was published, and there is no such thing", of[0].Type, subject)
	}
	for id := range projected {
		v.problem("the fact %s was projected, and is of nothing that there is", id)
	}
	v.Says = fmt.Sprintf("each of the %d trips, %d crossings and %d silences was published once and projected once, by %s",
		len(f.Trips), len(f.Crossings), len(f.Silences), strings.Join(slices.Sorted(maps.Keys(workers)), ", "))
	return v
}

// sameOverview: the facts of each vehicle add up to what the reference says.
func sameOverview(f *Facts) Verdict {
	want := f.Reference.Overview()
	v := Verdict{Name: "overview", Says: fmt.Sprintf("the view of %d vehicles is what their facts add up to in memory", len(f.Overview))}
	for _, got := range f.Overview {
		w, ok := want[got.Vehicle]
		if !ok {
			v.problem("%s is there, without any fact or more than once", got.Vehicle)
			continue
		}
		delete(want, got.Vehicle)
		g := reference.Overview{
			Trips: got.Trips, DistanceM: got.DistanceM, Entered: got.Entered, Inside: slices.Sorted(slices.Values(got.Inside)), Silences: got.Silences,
		}
		if got.OfflineSince != nil {
			g.OfflineSince = *got.OfflineSince
		}
		if g.Trips != w.Trips || g.Entered != w.Entered || !slices.Equal(g.Inside, w.Inside) || g.Silences != w.Silences ||
			!g.OfflineSince.Equal(w.OfflineSince) || math.Abs(g.DistanceM-w.DistanceM) > float64(w.Trips) {
			v.problem("%s is %+v, not %+v", got.Vehicle, g, w)
		}
	}
	for _, vehicle := range slices.Sorted(maps.Keys(want)) {
		v.problem("%s is missing", vehicle)
	}
	return v
}
