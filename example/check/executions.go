package check

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
)

// neverTwiceAtOnce: no two executions of one job overlap.
func neverTwiceAtOnce(f *Facts) Verdict {
	v := Verdict{Name: "overlap", Says: fmt.Sprintf("in %d executions no job ran twice at the same time", len(f.Executions))}
	for _, of := range byJob(f.Executions) {
		for i := 1; i < len(of); i++ {
			before, now := of[i-1], of[i]
			end, known := f.end(&before)
			if !known {
				v.problem("job %s: attempt %d started while attempt %d had no end", now.JobID, now.Attempt, before.Attempt)
			} else if now.StartedAt.Before(end) {
				v.problem("job %s: attempt %d started %v before attempt %d ended", now.JobID, now.Attempt, end.Sub(now.StartedAt), before.Attempt)
			}
		}
	}
	return v
}

// byJob groups executions by job, each group in the order of starts.
func byJob(executions []Execution) map[uuid.UUID][]Execution {
	jobs := map[uuid.UUID][]Execution{}
	for _, e := range executions {
		jobs[e.JobID] = append(jobs[e.JobID], e)
	}
	for _, of := range jobs {
		slices.SortFunc(of, func(a, b Execution) int { return a.StartedAt.Compare(b.StartedAt) })
	}
	return jobs
}

// nothingLeft: every job is at its end, no execution of a living worker is
// without an end, no worker runs, no raw position is overdue.
func nothingLeft(f *Facts) Verdict {
	v := Verdict{Name: "nothing left", Says: "no job, no execution, no process and no overdue position is left"}
	for _, u := range f.Unfinished {
		v.problem("%d jobs of %s are %s", u.Jobs, u.Queue, u.Status)
	}
	for _, e := range f.Executions {
		if _, ended := f.end(&e); !ended {
			v.problem("attempt %d of job %s (%s) has no end, and its worker %s was not killed", e.Attempt, e.JobID, e.Kind, e.Worker)
		}
	}
	for _, w := range f.Workers {
		v.problem("worker %s still runs", w)
	}
	if f.Overdue > 0 {
		v.problem("%d raw positions are beyond the horizon", f.Overdue)
	}
	return v
}

// MinHeld is how many started jobs a worker must hold as it is killed.
const MinHeld = 5

// Return is what became of a job that the killed worker held.
type Return struct {
	Held  Execution
	After time.Duration // from the kill to the next start; 0 where there was none
}

// Returns lists the jobs that the killed worker held, the quickest first and
// those that never came back at the end.
func Returns(f *Facts) []Return {
	if f.Drill == nil {
		return nil
	}
	killed := f.Kills[f.Drill.Worker]
	var returns []Return
	for _, of := range byJob(f.Executions) {
		for i, e := range of {
			if e.Worker != f.Drill.Worker || e.FinishedAt != nil {
				continue
			}
			r := Return{Held: e}
			if i+1 < len(of) {
				r.After = of[i+1].StartedAt.Sub(killed)
			}
			returns = append(returns, r)
		}
	}
	slices.SortFunc(returns, func(a, b Return) int {
		if (a.After == 0) != (b.After == 0) {
			if a.After == 0 {
				return 1
			}
			return -1
		}
		return cmp.Or(cmp.Compare(a.After, b.After), strings.Compare(a.Held.JobID.String(), b.Held.JobID.String()))
	})
	return returns
}

// MaxReturn is the latest time after a kill by which the first of the dead
// worker's jobs must be running again, at a lease of 15 s.
const MaxReturn = 20 * time.Second

// cameBack: the killed worker held enough started jobs, and all came back.
func cameBack(f *Facts) Verdict {
	v := Verdict{Name: "crash"}
	returns := Returns(f)
	if _, ok := f.Kills[f.Drill.Worker]; !ok {
		v.problem("worker %s was not killed", f.Drill.Worker)
		return v
	}
	if len(returns) < MinHeld {
		v.problem("worker %s held %d started jobs as it was killed, of at least %d", f.Drill.Worker, len(returns), MinHeld)
	}
	for _, r := range returns {
		if r.After == 0 {
			v.problem("job %s (%s) of worker %s never came back", r.Held.JobID, r.Held.Kind, f.Drill.Worker)
		}
	}
	if len(returns) == 0 {
		return v
	}
	first, last := returns[0].After, returns[len(returns)-1].After
	if first > MaxReturn {
		v.problem("the first job of worker %s came back after %v, more than %v", f.Drill.Worker, first.Round(time.Millisecond), MaxReturn)
	}
	v.Says = fmt.Sprintf("the killed worker %s held %d started jobs, and all came back, after %.1f s to %.1f s",
		f.Drill.Worker, len(returns), first.Seconds(), last.Seconds())
	return v
}
