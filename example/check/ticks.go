package check

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/pawlgo/pawl/example/tasks"
)

// oneJobATick: each tick of a schedule has exactly one job, which ran, and no tick
// between the first and the last one is without, but for those that the policy
// skipped. Each tick of the summaries has one.
func oneJobATick(f *Facts) Verdict {
	v := Verdict{Name: "schedules"}
	ticks := map[string]map[int64][]uuid.UUID{}
	for _, t := range f.Ticks {
		if ticks[t.Kind] == nil {
			ticks[t.Kind] = map[int64][]uuid.UUID{}
		}
		ticks[t.Kind][t.At.UnixMilli()] = append(ticks[t.Kind][t.At.UnixMilli()], t.JobID)
	}
	var counts []string
	for _, s := range f.Schedules {
		of := ticks[s.Kind]
		delete(ticks, s.Kind)
		interval, err := time.ParseDuration(strings.TrimPrefix(s.Spec, "@every "))
		if err != nil {
			v.problem("the schedule of %s is %q", s.Kind, s.Spec)
			continue
		}
		if len(of) == 0 && f.Drill != nil { // which takes long enough for all
			v.problem("%s never ticked", s.Kind)
		}
		jobs, first, last := 0, int64(0), int64(0)
		for at, ids := range of {
			jobs += len(ids)
			if len(ids) > 1 {
				v.problem("the tick of %s at %s has %d jobs", s.Kind, time.UnixMilli(at).UTC().Format(time.TimeOnly), len(ids))
			}
			if at%interval.Milliseconds() != 0 {
				v.problem("%s ticked at %s", s.Kind, time.UnixMilli(at).UTC().Format(time.RFC3339Nano))
			}
			if first == 0 || at < first {
				first = at
			}
			last = max(last, at)
		}
		if jobs != s.Ticks {
			v.problem("%d jobs of ticks of %s ran, of %d that were made", jobs, s.Kind, s.Ticks)
		}
		if len(of) == 0 {
			continue
		}
		if none := int((last-first)/interval.Milliseconds()) + 1 - len(of); none > s.Skipped {
			v.problem("%d ticks of %s between the first and the last one have no job, and %d were skipped", none, s.Kind, s.Skipped)
		}
		if s.Kind == tasks.KindSummarizeFleet {
			for at := range of {
				if !slices.ContainsFunc(f.Summaries, func(t time.Time) bool { return t.UnixMilli() == at }) {
					v.problem("the tick at %s has no summary", time.UnixMilli(at).UTC().Format(time.TimeOnly))
				}
			}
		}
		counts = append(counts, fmt.Sprintf("%d of %s", len(of), s.Kind))
	}
	for kind := range ticks {
		v.problem("%s has ticks and no schedule", kind)
	}
	if len(f.Schedules) == 0 {
		v.problem("there is no schedule")
	}
	v.Says = fmt.Sprintf("each tick has exactly one job: %s", strings.Join(counts, ", "))
	return v
}

// linksRevoked: each trip has a public link, of which none was revoked before it
// had expired, and none is open that had when the last look for such began.
func linksRevoked(f *Facts) Verdict {
	v := Verdict{Name: "links"}
	var looked time.Time
	for _, e := range f.Executions {
		if e.Kind == tasks.KindRevokeLinks && e.FinishedAt != nil && e.StartedAt.After(looked) {
			looked = e.StartedAt
		}
	}
	links := map[uuid.UUID]int{}
	revoked := 0
	for _, l := range f.Links {
		links[l.TripID]++
		switch {
		case l.RevokedAt == nil && !l.ExpiresAt.After(looked):
			v.problem("the link to the trip %s is open, and had expired %v before the last look", l.TripID, looked.Sub(l.ExpiresAt).Round(time.Millisecond))
		case l.RevokedAt != nil && l.RevokedAt.Before(l.ExpiresAt):
			v.problem("the link to the trip %s was revoked %v before it expired", l.TripID, l.ExpiresAt.Sub(*l.RevokedAt).Round(time.Millisecond))
		case l.RevokedAt != nil:
			revoked++
		}
	}
	for _, t := range f.Trips {
		if n := links[t.ID]; n != 1 {
			v.problem("the trip %s has %d public links", t.ID, n)
		}
	}
	v.Says = fmt.Sprintf("each trip has a public link, and the %d that had expired by the last look are revoked", revoked)
	return v
}
