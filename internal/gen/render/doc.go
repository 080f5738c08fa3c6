package render

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/dave/jennifer/jen"
	"github.com/pawlgo/pawl/internal/gen/directive"
)

// policyDoc restates what the directives say, as the list of a doc comment,
// because go doc does not show directives.
func policyDoc(t *Task) []string {
	p := t.Policy
	lines := []string{fmt.Sprintf("kind %s, queue %s, priority %s", p.Kind, p.Queue, p.Priority)}
	stored, works := "jobs", "run"
	if p.Event {
		lines = []string{fmt.Sprintf("event %s, of %s", p.Kind, article(p.Aggregate))}
		stored, works = "events", "are projected"
	}
	if p.Attempts == 1 {
		lines = append(lines, "one attempt, no retry")
	} else {
		delay := fmt.Sprintf("%s apart", directive.Short(p.Base))
		if p.Max > p.Base {
			delay += fmt.Sprintf(" at first, then twice as long each time up to %s", directive.Short(p.Max))
		}
		if p.Jitter > 0 {
			delay += ", give or take " + strconv.FormatFloat(p.Jitter*100, 'g', 4, 64) + "%"
		}
		lines = append(lines, fmt.Sprintf("%d attempts in all, %s", p.Attempts, delay))
		if p.Unknown < p.Attempts {
			lines = append(lines, fmt.Sprintf("a failure that nobody classified is a dead %s from attempt %d on", deadWord[p.Event], p.Unknown))
		}
	}
	lines = append(lines, fmt.Sprintf("%s for each attempt", directive.Short(p.Timeout)))
	if len(p.Fields) > 0 {
		lines = append(lines, fmt.Sprintf("idempotent by %s, while unfinished and for at least %s", list(p.Fields), directive.Short(p.Keep)))
	}
	if len(p.Order) > 0 {
		lines = append(lines, fmt.Sprintf("jobs of equal %s run one at a time, in the order of their enqueue; a retry holds those behind it, a dead letter or a cancellation lets them go",
			list(p.Order)))
	}
	if p.Transactional {
		lines = append(lines, fmt.Sprintf("the handler's writes, its enqueues and the end of the attempt commit together, at %s",
			strings.ReplaceAll(p.Isolation, "_", " ")))
	}
	if s := p.Schedule; s != nil {
		lines = append(lines, fmt.Sprintf("runs at %q in %s%s", s.Spec, s.Zone, missedDoc[s.Missed]))
	}
	if p.Event {
		lines = append(lines, "events of one "+p.Aggregate+" are projected one at a time, in the order in which they were committed; "+poisonDoc[p.Skip])
	}
	if older := t.older(); len(older) > 0 {
		lines = append(lines, fmt.Sprintf("payload version %d, %s since version %d still %s", t.current(), stored, older[0].Number, works))
	}
	for _, a := range t.Aliases {
		lines = append(lines, fmt.Sprintf("%s of the old kind %s still %s", stored, a.Kind, works))
	}
	if p.Organization != nil {
		lines = append(lines, "the organization is "+p.Organization.Name)
	}
	return lines
}

// missedDoc says what becomes of missed ticks.
var missedDoc = map[string]string{
	"skip": "; a missed tick is left out",
	"one":  "; of missed ticks the last one runs",
	"all":  "; missed ticks all run, the last 1000 of them",
}

// article puts one before a word.
func article(word string) string {
	if strings.ContainsRune("aeiou", rune(word[0])) {
		return "an " + word
	}
	return "a " + word
}

// deadWord is what a declaration calls what is never tried again.
var deadWord = map[bool]string{false: "letter", true: "event"}

// poisonDoc says what a dead event does to those behind it.
var poisonDoc = map[bool]string{
	false: "a dead one holds up those behind it until somebody decides about it",
	true:  "a dead one lets those behind it pass",
}

func list(fields []directive.Field) string {
	var names []string
	for _, f := range fields {
		names = append(names, f.Name)
	}
	return strings.Join(names, ", ")
}

// comment writes a doc comment: a text, and under it a list.
func comment(text string, list ...string) jen.Code {
	lines := wrap(text, 77)
	if len(list) > 0 {
		lines = append(lines, "")
	}
	for _, item := range list {
		for i, line := range wrap(item, 73) {
			if i == 0 {
				lines = append(lines, "  - "+line)
			} else {
				lines = append(lines, "    "+line)
			}
		}
	}
	for i, line := range lines {
		lines[i] = strings.TrimRight("// "+line, " ")
	}
	return jen.Comment(strings.Join(lines, "\n"))
}

func wrap(text string, width int) []string {
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && len(line)+1+len(word) > width {
			lines = append(lines, line)
			line = ""
		}
		line = strings.TrimSpace(line + " " + word)
	}
	return append(lines, line)
}
