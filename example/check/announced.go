package check

import (
	"fmt"
	"net/http"
	"slices"

	"github.com/google/uuid"
)

// announced: each webhook was delivered at least once, or ended in a dead letter
// because its subscriber is gone; and every crossing, trip and silence was notified.
func announced(f *Facts) Verdict {
	dead := map[uuid.UUID]bool{}
	for _, e := range f.Executions {
		if e.Outcome == "permanent" {
			dead[e.JobID] = true
		}
	}
	v := Verdict{Name: "webhooks"}
	delivered, gone, repeated := 0, 0, 0
	for _, w := range f.Webhooks {
		ok := 0
		for _, status := range w.Answers {
			if status >= 200 && status < 300 {
				ok++
			}
		}
		switch {
		case ok > 0:
			delivered++
			repeated += ok - 1
		case slices.Contains(w.Answers, http.StatusGone) && dead[w.JobID]:
			gone++
		case slices.Contains(w.Answers, http.StatusGone):
			v.problem("%s is gone, but its webhook for %s is no dead letter", w.Subscriber, w.EventID)
		default:
			v.problem("the webhook for %s never reached %s, which answered %v", w.EventID, w.Subscriber, w.Answers)
		}
	}
	v.Says = fmt.Sprintf("%d webhooks delivered, %d of them more than once, and %d dead letters of a subscriber that is gone", delivered, repeated, gone)

	notified := map[uuid.UUID]bool{}
	for _, id := range f.Notifications {
		notified[id] = true
	}
	asked := map[uuid.UUID]bool{}
	for _, w := range f.Webhooks {
		asked[w.EventID] = true
	}
	event := func(id uuid.UUID, what string, subscribed bool) {
		if subscribed && !asked[id] {
			v.problem("nobody was to be told of the %s %s", what, id)
		}
		if !notified[id] {
			v.problem("the %s %s was not notified", what, id)
		}
	}
	for _, t := range f.Trips {
		event(t.ID, "trip", true)
	}
	for _, c := range f.Crossings {
		event(c.ID, "crossing", true)
	}
	for _, s := range f.Silences {
		event(s.ID, "silence", false)
	}
	return v
}
