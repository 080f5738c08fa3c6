package directive

import (
	"go/token"
	"regexp"
	"slices"
	"strings"

	"github.com/pawlgo/pawl/internal/gen/suggest"
)

// eventGrammar is that of the names of events. The dot tells them from kinds.
const eventGrammar = `[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)+`

// maxEventName is as long as a kind may be.
const maxEventName = 63

var eventPattern = regexp.MustCompile(`^` + eventGrammar + `$`)

var poisons = []string{"block", "skip"}

// elsewhere adds an error for a directive that belongs to the other sort of
// declaration.
func (r *reader) elsewhere(s Spec, pos token.Pos) {
	if !r.policy.Event {
		r.Errorf(pos, "//task:%s belongs to an event, and %s embeds task.Task: embed task.Event", s.Name, r.declared)
		return
	}
	var all []string
	for _, s := range Specs() {
		if s.Events {
			all = append(all, s.Name)
		}
	}
	r.Errorf(pos, "//task:%s does not apply to an event; there are %s", s.Name, strings.Join(all, ", "))
}

func (r *reader) event(a args) {
	r.policy.KindPos = a.value.pos
	r.policy.Kind, _ = r.eventName(a, "event")
	if w, ok := a.keys["aggregate"]; !ok {
		r.Errorf(a.pos, "//task:event has no aggregate: add aggregate=TYPE, the type of what it happens to")
	} else {
		r.policy.Aggregate, _ = r.name(args{value: w}, "type of an aggregate")
	}
	switch w, given := a.keys["onpoison"]; {
	case !given:
	case slices.Contains(poisons, w.text):
		r.policy.Skip = w.text == "skip"
	default:
		r.Errorf(w.pos, "onpoison=%s is no policy%s; there are %s", w.text, suggest.DidYouMean(w.text, poisons), strings.Join(poisons, ", "))
	}
}

func (r *reader) eventName(a args, what string) (string, bool) {
	if !eventPattern.MatchString(a.value.text) || len(a.value.text) > maxEventName {
		r.Errorf(a.value.pos, "%q is no name for an event: it has at most %d letters and matches %s, such as trip.completed", a.value.text, maxEventName, eventGrammar)
		return "", false
	}
	return a.value.text, true
}

// facts are last words of names of facts that do not look like the past tense.
var facts = map[string]bool{}

func init() {
	for word := range strings.FieldsSeq(`active available away back bent beaten begun bitten blown bought bound broken brought built
		burnt cast caught chosen closed cut dealt dirty done down drawn driven drunk due empty fallen fed felt forgotten fought found
		frozen full given gone grown hidden high hit held hung idle inactive kept known laid late learnt left lent lit lost low made met
		offline online open overdue paid put quit read ready rebuilt rerun reset ridden risen run seen sent set shown shut sold sought
		spent split spoken spread stale stolen struck stuck sunk swept sworn taken taught thrown told torn unavailable undone unpaid
		unset up valid invalid void withdrawn won worn written`) {
		facts[word] = true
	}
}

// Fact reports whether the name of an event reads like a fact, by its last word.
// It knows no grammar: it takes a word for a fact that ends in -ed, or that it has
// in a list.
func Fact(name string) bool {
	last := name[strings.LastIndexAny(name, "._")+1:]
	return strings.HasSuffix(last, "ed") || facts[last]
}
