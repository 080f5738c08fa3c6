package cron

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// SyntaxError says what is wrong with an expression, and where.
type SyntaxError struct {
	Spec    string
	Offset  int // in bytes, of what is wrong
	Message string
}

func (e *SyntaxError) Error() string { return fmt.Sprintf("%q: %s", e.Spec, e.Message) }

// field is one of the five fields.
type field struct {
	name     string
	min, max int
	names    []string // of the values from min on
}

const (
	minuteField = iota
	hourField
	dayField
	monthField
	weekdayField
)

var fields = [...]field{
	minuteField:  {"minute", 0, 59, nil},
	hourField:    {"hour", 0, 23, nil},
	dayField:     {"day of month", 1, 31, nil},
	monthField:   {"month", 1, 12, []string{"JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"}},
	weekdayField: {"day of week", 0, 6, []string{"SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"}},
}

// all has every value.
func (f field) all() uint64 { return span(f.min, f.max, 1) }

func span(from, to, step int) (set uint64) {
	for v := from; v <= to; v += step {
		set |= 1 << v
	}
	return set
}

var macros = map[string]string{
	"@hourly": "0 * * * *", "@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@weekly": "0 0 * * 0",
	"@monthly": "0 0 1 * *", "@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *",
}

const macroList = "@every DURATION, @hourly, @daily, @midnight, @weekly, @monthly, @yearly, @annually"

// Parse reads an expression. Its error is a [*SyntaxError], also for one that
// never runs.
func Parse(spec string) (Schedule, error) {
	p := &parser{spec: spec}
	s := p.parse()
	if p.err != nil {
		return Schedule{}, p.err
	}
	s.spec = spec
	return s, nil
}

// parser keeps the first error.
type parser struct {
	spec string
	err  error
}

func (p *parser) failf(offset int, format string, args ...any) {
	if p.err == nil {
		p.err = &SyntaxError{Spec: p.spec, Offset: offset, Message: fmt.Sprintf(format, args...)}
	}
}

// token is a part of the expression and where it stands.
type token struct {
	text   string
	offset int
}

// cut splits a token at the first separator.
func (t token) cut(separator string) (before, after token, found bool) {
	text, rest, found := strings.Cut(t.text, separator)
	return token{text, t.offset}, token{rest, t.offset + len(text) + len(separator)}, found
}

// words splits the expression at blanks.
func (p *parser) words() (all []token) {
	start := -1
	for i := range len(p.spec) + 1 {
		blank := i == len(p.spec) || p.spec[i] == ' ' || p.spec[i] == '\t'
		switch {
		case !blank && start < 0:
			start = i
		case blank && start >= 0:
			all = append(all, token{p.spec[start:i], start})
			start = -1
		}
	}
	return all
}

func (p *parser) parse() (s Schedule) {
	words := p.words()
	if len(words) > 0 && strings.HasPrefix(words[0].text, "@") {
		return p.macro(words)
	}
	for _, w := range words {
		if strings.HasPrefix(w.text, "TZ=") || strings.HasPrefix(w.text, "CRON_TZ=") {
			p.failf(w.offset, "an expression has no zone: that is said beside it")
		}
	}
	switch n := len(words); {
	case n < len(fields):
		p.failf(len(p.spec), "it has %d of five fields: minute, hour, day of month, month, day of week", n)
	case n == len(fields)+1:
		p.failf(words[5].offset, "it has six fields, of at most five: there are no seconds and no years; write @every DURATION for less than a minute")
	case n > len(fields):
		p.failf(words[5].offset, "it has %d fields, of at most five", n)
	}
	if p.err != nil {
		return s
	}
	s.minute, _ = p.field(minuteField, words[0])
	s.hour, _ = p.field(hourField, words[1])
	s.day, s.anyDay = p.field(dayField, words[2])
	s.month, _ = p.field(monthField, words[3])
	s.weekday, s.anyWeekday = p.field(weekdayField, words[4])
	if p.err == nil && !s.anyDay && s.anyWeekday && !s.possible() {
		p.failf(words[2].offset, "it never runs: no such month has such a day")
	}
	return s
}

// possible says whether a day of the month exists in one of the months.
func (s Schedule) possible() bool {
	const leapYear = 2000
	for m := time.January; m <= time.December; m++ {
		last := time.Date(leapYear, m+1, 0, 0, 0, 0, 0, time.UTC).Day()
		if s.month&(1<<m) != 0 && s.day&span(1, last, 1) != 0 {
			return true
		}
	}
	return false
}

func (p *parser) macro(words []token) (s Schedule) {
	name := words[0].text
	if name == "@every" {
		s.every = p.every(words)
		return s
	}
	text, ok := macros[name]
	switch {
	case !ok:
		p.failf(words[0].offset, "there is no %s; there are %s", name, macroList)
	case len(words) > 1:
		p.failf(words[1].offset, "%s stands alone", name)
	default:
		s, _ = Parse(text)
	}
	return s
}

func (p *parser) every(words []token) (seconds int64) {
	if len(words) != 2 {
		p.failf(words[0].offset, "write @every DURATION, as in @every 90s")
		return 0
	}
	w := words[1]
	d, err := time.ParseDuration(w.text)
	switch {
	case err != nil:
		p.failf(w.offset, "%q is no duration: write one like 30s, 15m or 1h30m", w.text)
	case d < time.Second || d%time.Second != 0:
		p.failf(w.offset, "%s is no interval: use whole seconds, one or more", w.text)
	}
	return int64(d / time.Second)
}

// field reads one field. Any is whether it leaves the field open.
func (p *parser) field(which int, w token) (set uint64, open bool) {
	f := fields[which]
	if w.text == "*" || w.text == "*/1" {
		return f.all(), true
	}
	for rest, more := w, true; more; {
		var item token
		item, rest, more = rest.cut(",")
		set |= p.item(f, item)
	}
	return set, false
}

// item reads one item of a list: a value, a range, either with a step.
func (p *parser) item(f field, item token) uint64 {
	if item.text == "" {
		p.failf(item.offset, "the %s has an empty place in its list: write A,B", f.name)
		return 0
	}
	values, step, stepped := item.cut("/")
	from, to, ranged := f.min, f.max, true
	if values.text != "*" {
		from, to, ranged = p.span(f, values)
	}
	if !stepped || p.err != nil {
		return p.set(f, from, to, 1)
	}
	n, ok := number(step.text)
	switch most := to - from; {
	case !ranged:
		p.failf(values.offset, "a step goes with a range: write %s-%d/%s or */%s", values.text, f.max, step.text, step.text)
	case !ok || n < 1:
		p.failf(step.offset, "%q is no step: use a number from 1 to %d", step.text, most)
	case n > most:
		p.failf(step.offset, "the step %s is too long for %s: in the %s it leads nowhere", step.text, values.text, f.name)
	}
	if p.err != nil {
		return 0
	}
	return p.set(f, from, to, n)
}

// set makes the values, of which 7 is Sunday.
func (p *parser) set(f field, from, to, step int) uint64 {
	set := span(from, to, step)
	if sunday := uint64(1) << 7; f.max == 6 && set&sunday != 0 {
		set = set&^sunday | 1
	}
	return set
}

// span reads a value or a range.
func (p *parser) span(f field, t token) (from, to int, ranged bool) {
	low, high, ranged := t.cut("-")
	from = p.value(f, low)
	if !ranged {
		return from, from, false
	}
	if to = p.value(f, high); f.max == 6 && to == 0 && from > 0 {
		to = 7 // as in FRI-SUN
	}
	if from > to {
		p.failf(t.offset, "the range %s runs backwards: write two, as in %s-%d,%d-%s", t.text, low.text, f.max, f.min, high.text)
	}
	return from, to, true
}

func (p *parser) value(f field, t token) int {
	for i, name := range f.names {
		if strings.EqualFold(name, t.text) {
			return f.min + i
		}
	}
	limit := f.max
	if f.max == 6 {
		limit = 7
	}
	n, ok := number(t.text)
	switch {
	case ok && n >= f.min && n <= limit:
		return n
	case ok:
		p.failf(t.offset, "%s is no %s: that is a number from %d to %d", t.text, f.name, f.min, limit)
	case f.names != nil:
		p.failf(t.offset, "%q is no %s: use a number from %d to %d, or a name from %s to %s", t.text, f.name, f.min, limit, f.names[0], f.names[len(f.names)-1])
	default:
		p.failf(t.offset, "%q is no %s: use a number from %d to %d, *, a list, a range or a step", t.text, f.name, f.min, limit)
	}
	return f.min
}

// number reads a whole number written in digits alone.
func number(s string) (int, bool) {
	for _, c := range s {
		if c < '0' || c > '9' {
			return 0, false
		}
	}
	n, err := strconv.Atoi(s)
	if err != nil && s != "" {
		return math.MaxInt, true // too large for anything
	}
	return n, err == nil
}
