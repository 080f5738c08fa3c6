package directive

import (
	"go/ast"
	"go/token"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/pawlgo/pawl/internal/gen/suggest"
)

// Field is a field of the payload that a directive names.
type Field struct {
	Name string
	Pos  token.Pos
}

// Alias is an old kind.
type Alias struct {
	Kind string
	Pos  token.Pos
}

// Accept overrides a verdict on a change of the payload.
type Accept struct {
	Reason  string
	Rule    string
	RulePos token.Pos
	Path    string
	PathPos token.Pos
	Pos     token.Pos // of the directive
}

// Policy is what the directives of one declaration say, defaults included.
type Policy struct {
	Kind    string
	KindPos token.Pos // of the declaration's name where the kind is the default
	Queue   string    // empty where it is missing or wrong, which is an error
	// QueuePos is where the queue is named.
	QueuePos token.Pos
	Priority string

	Attempts  int
	Base, Max time.Duration
	Jitter    float64
	Unknown   int
	Timeout   time.Duration

	Fields       []Field // of the idempotency key
	Keep         time.Duration
	Organization *Field

	Order         []Field // of the order key; a change of their order makes another key
	Transactional bool
	Isolation     string // of the handler's transaction; empty where it gets none

	Schedule *Schedule // nil for none

	Event     bool   // the kind is the name of an event
	Aggregate string // the type of what it happens to
	Skip      bool   // a dead event lets later ones of its aggregate pass

	Aliases []Alias  // in the order of the source
	Accepts []Accept // likewise
}

// maxAttempts is the most that the schema's smallints hold, with one to spare.
const maxAttempts = math.MaxInt16 - 1

// nameGrammar is that of kinds and queues.
const nameGrammar = `[a-z][a-z0-9_]{0,62}`

var namePattern = regexp.MustCompile(`^` + nameGrammar + `$`)

var (
	priorities = []string{"low", "normal", "high", "urgent"}
	isolations = []string{"read_committed", "repeatable_read", "serializable"}
)

func defaults() Policy {
	return Policy{
		Priority: "normal", Attempts: 10, Base: time.Second, Max: 10 * time.Minute, Jitter: 0.2,
		Timeout: time.Minute,
	}
}

// Reporter is where errors go.
type Reporter struct {
	Errorf func(pos token.Pos, format string, args ...any)
	// At writes a position for a message.
	At func(token.Pos) string
	// LineStart returns where the nth line after that of pos begins.
	LineStart func(pos token.Pos, n int) token.Pos
}

// Read reads the directives in doc, the comment of the declaration called name
// at namePos.
func Read(doc *ast.CommentGroup, name string, namePos token.Pos, report Reporter) Policy {
	return read(doc, name, namePos, report, false)
}

// ReadEvent is [Read] for the declaration of an event.
func ReadEvent(doc *ast.CommentGroup, name string, namePos token.Pos, report Reporter) Policy {
	return read(doc, name, namePos, report, true)
}

func read(doc *ast.CommentGroup, name string, namePos token.Pos, report Reporter, event bool) Policy {
	r := &reader{Reporter: report, policy: defaults(), declared: name, seen: map[string]token.Pos{}}
	r.policy.Event = event
	if doc != nil {
		for _, c := range doc.List {
			r.comment(c)
		}
	}
	r.finish(name, namePos)
	return r.policy
}

// reader reads the directives of one declaration.
type reader struct {
	Reporter
	policy   Policy
	declared string
	unknown  int                  // as given; 0 for the default
	seen     map[string]token.Pos // directives that were given, right or wrong
}

func (r *reader) comment(c *ast.Comment) {
	d, ok := ast.ParseDirective(c.Slash, c.Text)
	if !ok || d.Tool != Tool {
		for _, l := range lookalikes(c, r.LineStart) {
			r.seen[l.name] = l.pos
			r.Errorf(l.pos, "this is a comment and no directive: write //task:%s, without blanks and in lower case", l.name)
		}
		return
	}
	s, ok := lookup(d.Name)
	if !ok {
		if near := suggest.Near(d.Name, names()); near != "" {
			r.seen[near] = c.Slash
		}
		r.Errorf(c.Slash, "there is no directive //task:%s%s; there are %s",
			d.Name, suggest.DidYouMean(d.Name, names()), strings.Join(names(), ", "))
		return
	}
	if first, ok := r.seen[s.Name]; ok && !s.Repeats {
		r.Errorf(c.Slash, "//task:%s is given twice, first at %s", s.Name, r.At(first))
		return
	}
	r.seen[s.Name] = c.Slash
	if !s.appliesTo(r.policy.Event) {
		r.elsewhere(s, c.Slash)
		return
	}
	if a, ok := r.arguments(s, d); ok {
		s.set(r, a)
	}
}

// finish fills in the defaults that depend on something.
func (r *reader) finish(name string, namePos token.Pos) {
	p := &r.policy
	p.Unknown = r.unknown
	if p.Unknown == 0 {
		p.Unknown = min(5, p.Attempts)
	}
	if p.Event {
		if _, given := r.seen["event"]; !given {
			p.KindPos = namePos
			r.Errorf(namePos, "%s has no name: add //task:event NAME aggregate=TYPE to its comment", name)
		}
		return
	}
	if _, given := r.seen["kind"]; !given {
		p.Kind, p.KindPos = SnakeCase(name), namePos
		if !namePattern.MatchString(p.Kind) {
			r.Errorf(namePos, "the kind would be %q, which is no name like %s: give one with //task:kind NAME", p.Kind, nameGrammar)
		}
	}
	if pos, given := r.seen["schedule"]; given && p.Schedule == nil {
		p.Schedule = &Schedule{Pos: pos} // one that is wrong, which has been said
	}
	if _, given := r.seen["queue"]; !given {
		r.Errorf(namePos, "%s has no queue: add //task:queue NAME to its comment", name)
	}
}

func (r *reader) name(a args, what string) (string, bool) {
	if !namePattern.MatchString(a.value.text) {
		r.Errorf(a.value.pos, "%q is no name for a %s: it has to match %s", a.value.text, what, nameGrammar)
		return "", false
	}
	return a.value.text, true
}

func (r *reader) kind(a args) {
	r.policy.Kind, _ = r.name(a, "kind")
	r.policy.KindPos = a.value.pos
}

func (r *reader) alias(a args) {
	name := r.name
	if r.policy.Event {
		name = r.eventName
	}
	kind, ok := name(a, "kind")
	if !ok {
		return
	}
	for _, before := range r.policy.Aliases {
		if before.Kind == kind {
			r.Errorf(a.value.pos, "the alias %s is given twice, first at %s", kind, r.At(before.Pos))
			return
		}
	}
	r.policy.Aliases = append(r.policy.Aliases, Alias{kind, a.value.pos})
}

func (r *reader) accept(a args) {
	rule, ruleGiven := a.keys["rule"]
	path, pathGiven := a.keys["path"]
	if !ruleGiven {
		r.Errorf(a.pos, "//task:accept has no rule: add rule=ID, as the message about the change names it")
	}
	if !pathGiven {
		r.Errorf(a.pos, "//task:accept has no path: add path=PATH, as the message about the change names it")
	}
	if !ruleGiven || !pathGiven {
		return
	}
	for _, before := range r.policy.Accepts {
		if before.Rule == rule.text && before.Path == path.text {
			r.Errorf(a.pos, "%s at %s is accepted twice, first at %s", rule.text, path.text, r.At(before.Pos))
			return
		}
	}
	r.policy.Accepts = append(r.policy.Accepts, Accept{a.value.text, rule.text, rule.pos, path.text, path.pos, a.pos})
}

func (r *reader) queue(a args) {
	r.policy.Queue, _ = r.name(a, "queue")
	r.policy.QueuePos = a.value.pos
}

func (r *reader) priority(a args) {
	for _, p := range priorities {
		if a.value.text == p {
			r.policy.Priority = p
			return
		}
	}
	r.Errorf(a.value.pos, "%q is no priority%s; there are %s", a.value.text,
		suggest.DidYouMean(a.value.text, priorities), strings.Join(priorities, ", "))
}

func (r *reader) timeout(a args) {
	if d, ok := r.duration(a.value, "the timeout"); ok {
		r.policy.Timeout = d
	}
}

func (r *reader) retry(a args) {
	p := &r.policy
	attemptsOK := true
	if w, ok := a.keys["attempts"]; ok {
		n, ok := number(w.text)
		if attemptsOK = ok && n >= 1 && n <= maxAttempts; attemptsOK {
			p.Attempts = n
		} else {
			r.Errorf(w.pos, "attempts=%s: give a whole number from 1 to %d", w.text, maxAttempts)
		}
	}
	if w, ok := a.keys["jitter"]; ok {
		j, err := strconv.ParseFloat(w.text, 64)
		if err != nil || !(j >= 0 && j <= 1) || strings.ContainsAny(w.text, "xXpP_") {
			r.Errorf(w.pos, "jitter=%s: give a share from 0 to 1", w.text)
		} else {
			p.Jitter = j
		}
	}
	if w, ok := a.keys["unknown"]; ok {
		n, ok := number(w.text)
		switch {
		case !ok || n < 1 || n > maxAttempts:
			r.Errorf(w.pos, "unknown=%s: give a whole number from 1 to the attempts", w.text)
		case attemptsOK && n > p.Attempts:
			r.Errorf(w.pos, "unknown=%d is above attempts, which are %d", n, p.Attempts)
		default:
			r.unknown = n
		}
	}
	r.backoff(a)
}

func (r *reader) backoff(a args) {
	p := &r.policy
	base, baseGiven := a.keys["base"]
	limit, maxGiven := a.keys["max"]
	ok := true
	if baseGiven {
		if d, valid := r.duration(base, "base"); valid {
			p.Base = d
		} else {
			ok = false
		}
	}
	if maxGiven {
		if d, valid := r.duration(limit, "max"); valid {
			p.Max = d
		} else {
			ok = false
		}
	}
	switch {
	case !ok || p.Base <= p.Max:
	case baseGiven:
		r.Errorf(base.pos, "base=%s is above max, which is %s", base.text, Short(p.Max))
	default:
		r.Errorf(limit.pos, "max=%s is below base, which is %s", limit.text, Short(p.Base))
	}
}

func (r *reader) idempotency(a args) {
	fields, ok := a.keys["fields"]
	if !ok {
		r.Errorf(a.pos, "//task:idempotency has no fields: add fields=A,B")
	} else {
		r.policy.Fields = r.fields(fields)
	}
	if keep, ok := a.keys["keep"]; !ok {
		r.Errorf(a.pos, "//task:idempotency has no keep: add keep=DURATION, how long a key is held at least")
	} else if d, ok := r.duration(keep, "keep"); ok {
		r.policy.Keep = d
	}
}

func (r *reader) fields(w word) []Field {
	var fields []Field
	pos := w.pos
	for name := range strings.SplitSeq(w.text, ",") {
		switch {
		case name == "":
			r.Errorf(pos, "fields=%s names an empty field: write a list as A,B", w.text)
		case contains(fields, name):
			r.Errorf(pos, "fields=%s names %s twice", w.text, name)
		default:
			fields = append(fields, Field{name, pos})
		}
		pos += token.Pos(len(name) + 1)
	}
	return fields
}

func contains(fields []Field, name string) bool {
	for _, f := range fields {
		if f.Name == name {
			return true
		}
	}
	return false
}

func (r *reader) organization(a args) {
	if strings.Contains(a.value.text, ",") {
		r.Errorf(a.value.pos, "//task:organization takes one field: %q is a list", a.value.text)
		return
	}
	r.policy.Organization = &Field{a.value.text, a.value.pos}
}

func (r *reader) order(a args) {
	r.policy.Order = r.fields(a.keys["fields"])
}

func (r *reader) transactional(a args) {
	r.policy.Transactional, r.policy.Isolation = true, isolations[0]
	w, given := a.keys["isolation"]
	switch {
	case !given:
	case slices.Contains(isolations, w.text):
		r.policy.Isolation = w.text
	default:
		r.Errorf(w.pos, "isolation=%s is no isolation level%s; there are %s", w.text,
			suggest.DidYouMean(w.text, isolations), strings.Join(isolations, ", "))
	}
}

func (r *reader) duration(w word, what string) (time.Duration, bool) {
	d, err := time.ParseDuration(w.text)
	switch {
	case err != nil:
		r.Errorf(w.pos, "%q is no duration: write one like 30s, 1h30m or 500ms", w.text)
	case d <= 0:
		r.Errorf(w.pos, "%q: %s has to be above zero", w.text, what)
	default:
		return d, true
	}
	return 0, false
}

// number reads a whole number written in digits alone.
func number(s string) (int, bool) {
	for _, c := range s {
		if c < '0' || c > '9' {
			return 0, false
		}
	}
	n, err := strconv.Atoi(s)
	return n, err == nil
}

// SnakeCase writes a Go name as a wire name: SendHTTPWebhook becomes
// send_http_webhook.
func SnakeCase(name string) string {
	runes := []rune(name)
	var b strings.Builder
	for i, c := range runes {
		if unicode.IsUpper(c) && i > 0 && runes[i-1] != '_' {
			begins := !unicode.IsUpper(runes[i-1])
			ends := i+1 < len(runes) && unicode.IsLower(runes[i+1])
			if begins || ends {
				b.WriteByte('_')
			}
		}
		b.WriteRune(unicode.ToLower(c))
	}
	return b.String()
}

// Short writes a duration without its zero parts: 10m, not 10m0s.
func Short(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = s[:len(s)-2]
	}
	if strings.HasSuffix(s, "h0m") {
		s = s[:len(s)-2]
	}
	return s
}
