package directive

import (
	"errors"
	"go/token"
	"slices"
	"strings"

	"github.com/pawlgo/pawl/internal/cron"
	"github.com/pawlgo/pawl/internal/gen/suggest"
)

// Schedule says when jobs are made without anybody's enqueue.
type Schedule struct {
	Pos    token.Pos // of the directive
	Spec   string    // a cron expression
	Zone   string
	Missed string // what becomes of ticks that nobody was there for
}

var missedPolicies = []string{"skip", "one", "all"}

func (r *reader) schedule(a args) {
	s := &Schedule{Pos: a.pos, Spec: a.value.text, Zone: "UTC", Missed: "one"}
	r.policy.Schedule = s
	_, err := cron.Parse(s.Spec)
	if syntax, ok := errors.AsType[*cron.SyntaxError](err); ok {
		const quote = 1
		r.Errorf(a.value.pos+quote+token.Pos(syntax.Offset), "the schedule %v", err)
	}
	if w, given := a.keys["zone"]; given {
		s.Zone = w.text
		if _, err := cron.Zone(w.text); err != nil {
			r.Errorf(w.pos, "zone=%s: %v", w.text, err)
		}
	}
	if w, given := a.keys["missed"]; given {
		s.Missed = w.text
		if !slices.Contains(missedPolicies, w.text) {
			r.Errorf(w.pos, "missed=%s is no policy for missed ticks%s; there are %s", w.text,
				suggest.DidYouMean(w.text, missedPolicies), strings.Join(missedPolicies, ", "))
		}
	}
}
