package evolve

import (
	"fmt"
	"slices"

	"github.com/pawlgo/pawl/internal/gen/lock"
	"github.com/pawlgo/pawl/internal/gen/rules"
	"github.com/pawlgo/pawl/internal/gen/suggest"
)

// acceptances are what overrides verdicts about one task. One that the reference
// has is spent: it was about a change that is merged, and does not speak for the
// next one of the same kind. A new reason makes a new acceptance.
type acceptances struct {
	d       *decisions
	task    int
	before  []lock.Acceptance
	matched []bool // beside those of the task
	found   []rules.Finding
}

// accepts reports whether the author has accepted f.
func (a *acceptances) accepts(f rules.Finding) bool {
	a.found = append(a.found, f)
	accepted := false
	for i, given := range a.d.Tasks[a.task].Accepts {
		if given.Rule == f.Rule.ID && given.Path == f.Path && !slices.Contains(a.before, given) {
			a.matched[i], accepted = true, true
		}
	}
	return accepted
}

// spent reports whether an acceptance of f stands in the source that the
// reference has already.
func (a *acceptances) spent(f rules.Finding) bool {
	return slices.ContainsFunc(a.d.Tasks[a.task].Accepts, func(given lock.Acceptance) bool {
		return given.Rule == f.Rule.ID && given.Path == f.Path && slices.Contains(a.before, given)
	})
}

// finish returns the acceptances for the lock, and adds a problem for each that
// accepts nothing.
func (a *acceptances) finish() []lock.Acceptance {
	all := a.before
	for i, given := range a.d.Tasks[a.task].Accepts {
		switch {
		case slices.Contains(a.before, given):
		case a.matched[i]:
			all = append(all, given)
		default:
			a.problem(i, given)
		}
	}
	return all
}

func (a *acceptances) problem(i int, given lock.Acceptance) {
	rule, ok := rules.Lookup(given.Rule)
	p := Problem{Task: a.task, Place: AtAcceptRule, Index: i}
	switch {
	case !ok:
		var ids []string
		for _, r := range rules.All() {
			ids = append(ids, r.ID)
		}
		p.Message = fmt.Sprintf("there is no rule %s%s", given.Rule, suggest.DidYouMean(given.Rule, ids))
	case rule.Verdict == rules.Compatible:
		p.Message = fmt.Sprintf("%s is compatible: there is nothing to accept", given.Rule)
	case rule.ID == rules.KindChanged || rule.ID == rules.CodecChanged:
		p.Message = fmt.Sprintf("%s cannot be accepted: %s", given.Rule, rule.Remedy)
	default:
		p.Place = AtAcceptPath
		var paths []string
		for _, f := range a.found {
			if f.Rule.ID == given.Rule {
				paths = append(paths, f.Path)
			}
		}
		p.Message = fmt.Sprintf("no change at %s is one of the rule %s%s: remove the line, or correct it", given.Path, given.Rule, suggest.DidYouMean(given.Path, paths))
	}
	a.d.problem(p)
}
