package check

import (
	"fmt"
	"slices"
	"time"

	"github.com/pawlgo/pawl/example/tasks"
)

const (
	// MinBacklog is how long reports must have waited in line without a break.
	MinBacklog = 2 * time.Second
	// MinBusy is how much of the time the slots of reports must have been at
	// work meanwhile. What is missing is the time between two jobs.
	MinBusy = 0.75
	// MinAlerts is how many alerts must have become due meanwhile.
	MinAlerts = 20
	// MaxAlertWait is how long any of them may have waited. It is generous: the
	// machine may be slow, but the line of reports is longer.
	MaxAlertWait = 2 * time.Second
)

type window struct{ from, to time.Time }

func (w window) overlap(from, to time.Time) time.Duration {
	if from.Before(w.from) {
		from = w.from
	}
	if to.After(w.to) {
		to = w.to
	}
	return max(to.Sub(from), 0)
}

func (w window) has(t time.Time) bool { return !t.Before(w.from) && t.Before(w.to) }

// alertsDuringReports: while reports were in line for a slot, and so the slots
// of reports busy, alerts kept starting.
//
// What the killed worker took with it is left out: it waited for the lease, not
// for a slot.
func alertsDuringReports(f *Facts) Verdict {
	v := Verdict{Name: "isolation"}
	line := longestLine(f.Executions)
	length := line.to.Sub(line.from)
	if length < MinBacklog {
		v.problem("reports were in line for only %v, so nothing is shown: at least %v", length.Round(time.Millisecond), MinBacklog)
		return v
	}
	busy := f.busy(line)
	if busy < MinBusy {
		v.problem("reports were in line for %v, but their slots at work for only %.0f %% of it", length.Round(time.Millisecond), 100*busy)
	}
	alerts, worst := 0, time.Duration(0)
	for _, e := range f.Executions {
		if e.Queue == tasks.QueueCriticalAlerts && e.Attempt == 1 && line.has(e.DueAt) {
			alerts++
			worst = max(worst, e.StartedAt.Sub(e.DueAt))
		}
	}
	if alerts < MinAlerts {
		v.problem("only %d alerts became due while reports were in line, of at least %d", alerts, MinAlerts)
	}
	if worst > MaxAlertWait {
		v.problem("an alert waited for %v while reports were in line, more than %v", worst.Round(time.Millisecond), MaxAlertWait)
	}
	v.Says = fmt.Sprintf("while reports stood in line for %.1f s with their slots %.0f %% at work, %d alerts started, none later than %d ms",
		length.Seconds(), 100*busy, alerts, worst.Milliseconds())
	return v
}

// longestLine is the longest time during which some report was due and had not
// started.
func longestLine(executions []Execution) window {
	type change struct {
		at time.Time
		by int
	}
	var changes []change
	for _, e := range executions {
		if e.Queue == tasks.QueueReports && e.Attempt == 1 && e.StartedAt.After(e.DueAt) {
			changes = append(changes, change{e.DueAt, 1}, change{e.StartedAt, -1})
		}
	}
	slices.SortFunc(changes, func(a, b change) int {
		if c := a.at.Compare(b.at); c != 0 {
			return c
		}
		return b.by - a.by
	})
	var longest window
	var from time.Time
	waiting := 0
	for _, c := range changes {
		if waiting == 0 {
			from = c.at
		}
		waiting += c.by
		if waiting == 0 && c.at.Sub(from) > longest.to.Sub(longest.from) {
			longest = window{from, c.at}
		}
	}
	return longest
}

// busy is the share of the slots of reports that were at work in a window, in
// the workers that lived. A worker lives from its first execution to its end.
func (f *Facts) busy(w window) float64 {
	var work, slots time.Duration
	born := map[string]time.Time{}
	for _, e := range f.Executions {
		if first, ok := born[e.Worker]; !ok || e.StartedAt.Before(first) {
			born[e.Worker] = e.StartedAt
		}
		if end, ok := f.end(&e); ok && e.Queue == tasks.QueueReports {
			work += w.overlap(e.StartedAt, end)
		}
	}
	for worker, from := range born {
		until := w.to
		if killed, ok := f.Kills[worker]; ok {
			until = killed
		}
		slots += time.Duration(f.Drill.Slots[tasks.QueueReports]) * w.overlap(from, until)
	}
	if slots == 0 {
		return 0
	}
	return work.Seconds() / slots.Seconds()
}
