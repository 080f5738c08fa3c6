package evolve

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/pawlgo/pawl/internal/gen/lock"
	"github.com/pawlgo/pawl/internal/gen/rules"
)

// step is the function of the user's that takes a payload from one version to
// the next.
type step struct {
	from, to        int
	name, signature string
}

func (t *Task) upgrader(from, to int) step {
	name, payload := fmt.Sprintf("Upgrade%sV%d", t.Name, from), t.Name+"Args"
	if t.event() {
		payload = t.Name + "Payload"
	}
	return step{from, to, name, fmt.Sprintf("func %s(old %sV%d) (%sV%d, error)", name, payload, from, payload, to)}
}

func (t *Task) event() bool { return t.Aggregate != "" }

// stored is what carries a task's payloads.
func (t *Task) stored() string {
	if t.event() {
		return "event"
	}
	return "job"
}

func (s step) missing(t *Task) string {
	return fmt.Sprintf("%s is missing: it makes version %d of stored %ss from version %d\n%s\nif no %s of version %d is left, taskgen retire %s %d makes it unnecessary",
		s.name, s.to, t.stored(), s.from, s.signature, t.stored(), s.from, t.Kind, s.from)
}

// broken says what a breaking change would do, and what helps.
func (f finding) broken(t *Task, u step, a *acceptances) string {
	var b strings.Builder
	if f.version > 0 {
		fmt.Fprintf(&b, "stored %ss of %s, version %d, would break: ", t.stored(), t.Kind, f.version)
	} else {
		fmt.Fprintf(&b, "stored %ss of %s would break: ", t.stored(), t.Kind)
	}
	fmt.Fprintf(&b, "%s%s\nthe upgrader of the new version %d is\n%s\nor, if you know better, accept it with", f.Finding, f.elsewhere(), u.to, u.signature)
	spent := false
	for _, path := range f.paths() {
		at := f.Finding
		at.Path = path
		b.WriteString("\n" + directive(at))
		spent = spent || a.spent(at)
	}
	if spent {
		b.WriteString("\nthe //task:accept that stands there is about an earlier change, which was merged: give a new reason")
	}
	return b.String()
}

func directive(f rules.Finding) string {
	return fmt.Sprintf(`//task:accept "REASON" rule=%s path=%s`, f.Rule.ID, f.Path)
}

// key is what jobs are compared by.
type key struct {
	name  string
	rule  string
	place Place
}

var (
	idempotencyKey = key{"idempotency key", rules.IdempotencyChanged, AtIdentity}
	orderKey       = key{"order key", rules.OrderChanged, AtOrder}
)

// key adds a problem where a key is made in another way than at the reference. A
// key where none was before is no change: nobody relied on it.
func (d *decisions) key(i int, k key, before, now *lock.Identity, a *acceptances) {
	if before == nil || equalIdentity(before, now) {
		return
	}
	rule, _ := rules.Lookup(k.rule)
	f := rules.Finding{Rule: rule, Path: ".", Detail: describe(before, now)}
	if a.accepts(f) {
		return
	}
	message := fmt.Sprintf("the %s of %s changed: %s\nto accept it: %s", k.name, d.Tasks[i].Kind, f, directive(f))
	if a.spent(f) {
		message += "\nthe one that stands there is about an earlier change, which was merged: give a new reason"
	}
	d.problem(Problem{Task: i, Place: k.place, Code: rule.ID, Message: message})
}

// aggregate adds a problem where the aggregate of an event is another type than
// at the reference.
func (d *decisions) aggregate(i int, before string, a *acceptances) {
	t := &d.Tasks[i]
	if before == "" || before == t.Aggregate {
		return
	}
	rule, _ := rules.Lookup(rules.AggregateChanged)
	f := rules.Finding{Rule: rule, Path: ".", Detail: fmt.Sprintf("it was %s and is %s", before, t.Aggregate)}
	if a.accepts(f) {
		return
	}
	message := fmt.Sprintf("the aggregate of %s changed: %s\nto accept it: %s", t.Kind, f, directive(f))
	if a.spent(f) {
		message += "\nthe one that stands there is about an earlier change, which was merged: give a new reason"
	}
	d.problem(Problem{Task: i, Place: AtKind, Code: rule.ID, Message: message})
}

func equalIdentity(a, b *lock.Identity) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.String() == b.String() && slices.EqualFunc(a.Fields, b.Fields, equalField) &&
		(a.Organization == nil || equalField(*a.Organization, *b.Organization))
}

func equalField(a, b lock.IdentityField) bool {
	return a.Field == b.Field && bytes.Equal(a.Wire, b.Wire)
}

func describe(old, new *lock.Identity) string {
	if new == nil {
		return fmt.Sprintf("it was made from %s and there is none now", old)
	}
	if old.String() != new.String() {
		return fmt.Sprintf("it was made from %s and is made from %s", old, new)
	}
	for i, f := range old.Fields {
		if !equalField(f, new.Fields[i]) {
			return fmt.Sprintf("it is made from %s, which is encoded in another way than before", f.Field)
		}
	}
	return fmt.Sprintf("it is scoped by %s, which is encoded in another way than before", old.Organization.Field)
}
