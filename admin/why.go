package admin

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/pawlgo/pawl/internal/store"
	"github.com/pawlgo/pawl/task"
)

// Cause is what keeps a job from running.
type Cause string

// The causes.
const (
	CauseUnknown     Cause = "unknown"     // there is no trace of such a job
	CauseFinished    Cause = "finished"    // it is completed or cancelled
	CauseDead        Cause = "dead"        // it is a dead letter
	CauseQuarantined Cause = "quarantined" // its row is gone
	CauseLost        Cause = "lost"        // it is in no place at all
	CauseLeased      Cause = "leased"      // a worker has it: it is running
	CauseAbandoned   Cause = "abandoned"   // the worker that has it does not renew its lease
	CauseCancelling  Cause = "cancelling"  // somebody has asked to cancel it
	CauseBlocked     Cause = "blocked"     // another job of its order key is before it
	CauseFuture      Cause = "future"      // it is due later
	CauseBackoff     Cause = "backoff"     // it failed, and waits for another attempt
	CausePaused      Cause = "paused"      // its queue is paused
	CauseNoWorker    Cause = "no worker"   // no live worker serves its queue
	CauseStranded    Cause = "stranded"    // live workers serve its queue, and none of them can decode it
	CauseSuspect     Cause = "suspect"     // it may have ended its worker, so it runs alone, when none such does
	CauseBusy        Cause = "busy"        // nothing is in its way but others that are claimed before it
	CauseDue         Cause = "due"         // nothing at all: a worker should have it within its poll interval
)

// Reason is one thing that keeps a job from running.
type Reason struct {
	Cause Cause `json:"cause"`
	// Text says it in a sentence.
	Text string `json:"text"`
	// Until is when that ends by itself, where that is known.
	Until time.Time `json:"until,omitzero"`
	// Job is the other job that it is about, or Nil.
	Job uuid.UUID `json:"job,omitzero"`
	// Do is what can be done about it, where something can: a command.
	Do string `json:"do,omitempty"`
}

// Explanation says why a job is not running, or that it is.
type Explanation struct {
	ID uuid.UUID `json:"id"`
	// Job is the job, nil where there is no trace of it.
	Job *Job `json:"job,omitempty"`
	// Reasons are all that keeps it from running now, first what would have to go
	// first. There is always one.
	Reasons []Reason `json:"reasons"`
}

// Why says exactly what keeps a job from running. A job that there is no trace of
// has the [CauseUnknown], and that is no error.
func (c *Client) Why(ctx context.Context, id uuid.UUID) (*Explanation, error) {
	x := &Explanation{ID: id}
	err := c.read(ctx, fmt.Sprintf("explain job %s", id), func(r *store.Reading) error {
		rows, err := r.Jobs(ctx, []store.Place{{ID: id}}, argsInList, store.SearchWalk)
		if err != nil {
			return err
		}
		if len(rows) == 0 {
			x.Reasons = []Reason{{Cause: CauseUnknown, Text: "there is no job of this id, and no trace of one: it was never committed, or its history has been removed"}}
			return nil
		}
		job := jobOf(&rows[0])
		x.Job = &job
		around, err := r.Circumstances(ctx, &rows[0])
		if err != nil {
			return err
		}
		x.Reasons = reasons(&job, &around)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return x, nil
}

// reasons says what keeps a job from running.
func reasons(j *Job, around *store.CircumstancesRow) []Reason {
	switch j.State {
	case task.StateCompleted, task.StateCancelled:
		return []Reason{{Cause: CauseFinished, Text: fmt.Sprintf("it is %s since %s, after %s", j.State, clock(j.FinishedAt), attempts(j.Attempts))}}
	case task.StateDead:
		return []Reason{{Cause: CauseDead, Do: fmt.Sprintf("taskctl jobs retry %s", j.ID),
			Text: fmt.Sprintf("it is a dead letter since %s, after %s of %d: %s: %s", clock(j.FinishedAt), attempts(j.Attempts), j.MaxAttempts, j.ErrorCode, j.ErrorSummary)}}
	case StateQuarantined:
		return []Reason{{Cause: CauseQuarantined, Text: fmt.Sprintf("it was set aside at %s: %s", clock(at(around.QuarantinedAt)), around.QuarantineReason)}}
	case StateLost:
		return []Reason{{Cause: CauseLost, Do: "taskctl doctor", Text: "it is in no place at all: rows were changed by hand or lost"}}
	}
	var all []Reason
	add := func(r Reason) { all = append(all, r) }
	if around.RequestAt != nil {
		add(Reason{Cause: CauseCancelling, Text: fmt.Sprintf("it was asked to be cancelled at %s, and ends when its worker or the next one sees that", clock(*around.RequestAt))})
	}
	if j.State == task.StateLeased {
		by := fmt.Sprintf("worker %s has it since %s, in attempt %d of %d", j.Worker, clock(j.ClaimedAt), j.Attempts, j.MaxAttempts)
		switch {
		case around.OwnerLives:
			add(Reason{Cause: CauseLeased, Until: j.LeasedUntil, Text: fmt.Sprintf("%s; the lease is until %s, and is renewed while the worker lives", by, clock(j.LeasedUntil))})
		case j.LeasedUntil.IsZero():
			add(Reason{Cause: CauseAbandoned, Text: by + "; that worker is gone, and the next look for leases without an owner takes the job, within a minute, where any worker runs"})
		default:
			add(Reason{Cause: CauseAbandoned, Text: fmt.Sprintf("%s; that worker has not renewed its lease, which ended at %s: another worker takes the job, where any runs", by, clock(j.LeasedUntil))})
		}
		return all
	}
	if j.State == task.StateBlocked && around.First != nil {
		many := fmt.Sprint(around.Ahead)
		if around.Ahead >= store.AheadBound {
			many += " or more"
		}
		add(Reason{Cause: CauseBlocked, Job: *around.First, Do: fmt.Sprintf("taskctl why %s", *around.First),
			Text: fmt.Sprintf("it is behind job %s, the first of its order key; %s in all are before it", *around.First, many)})
	}
	if j.RunAt.After(around.Now) {
		left := j.RunAt.Sub(around.Now).Round(time.Second)
		if j.Attempts > 0 {
			add(Reason{Cause: CauseBackoff, Until: j.RunAt, Do: fmt.Sprintf("taskctl jobs run-now %s", j.ID),
				Text: fmt.Sprintf("attempt %d of %d failed (%s: %s); the next one is due at %s, in %v", j.Attempts, j.MaxAttempts, j.ErrorCode, j.ErrorSummary, clock(j.RunAt), left)})
		} else {
			add(Reason{Cause: CauseFuture, Until: j.RunAt, Do: fmt.Sprintf("taskctl jobs run-now %s", j.ID), Text: fmt.Sprintf("it is due at %s, in %v", clock(j.RunAt), left)})
		}
	}
	if around.PausedAt != nil {
		add(Reason{Cause: CausePaused, Do: "taskctl queues resume " + j.Queue, Text: fmt.Sprintf("queue %s is paused since %s", j.Queue, clock(*around.PausedAt))})
	}
	switch {
	case around.QueueWorkers == 0:
		text := fmt.Sprintf("no live worker serves queue %s", j.Queue)
		if around.Workers > 0 {
			text += fmt.Sprintf("; %d live workers serve others", around.Workers)
		}
		add(Reason{Cause: CauseNoWorker, Do: "taskctl workers", Text: text})
	case !around.KnowsVersion:
		text := fmt.Sprintf("no live worker knows its payload, %s version %d (%s)", j.Kind, j.Version, j.Capability)
		switch {
		case around.KindVersion == 0:
			text += "; no worker has ever registered that kind"
		case around.KindVersion < j.Version:
			text += fmt.Sprintf("; the newest that was ever registered is version %d: deploy newer workers", around.KindVersion)
		default:
			text += fmt.Sprintf("; the newest that was registered is version %d", around.KindVersion)
		}
		add(Reason{Cause: CauseStranded, Do: "taskctl workers", Text: text})
	}
	if around.Suspect {
		add(Reason{Cause: CauseSuspect, Text: "its last attempts ended with their worker, so it runs alone, one such job at a time in each process"})
	}
	if len(all) > 0 {
		return all
	}
	if around.DueAhead > 0 {
		many := fmt.Sprint(around.DueAhead)
		if around.DueAhead >= store.AheadBound {
			many += " or more"
		}
		return []Reason{{Cause: CauseBusy, Text: fmt.Sprintf("it is due since %s; %s due jobs of queue %s are claimed before it, and workers have %d", clock(j.RunAt), many, j.Queue, around.QueueLeased)}}
	}
	if around.QueueLeased > 0 {
		return []Reason{{Cause: CauseBusy, Text: fmt.Sprintf("it is due since %s and first of queue %s; workers have %d others of it, maybe as many as they take", clock(j.RunAt), j.Queue, around.QueueLeased)}}
	}
	return []Reason{{Cause: CauseDue, Text: fmt.Sprintf("nothing is in its way: it is due since %s, and a worker should have it within its poll interval", clock(j.RunAt))}}
}

func clock(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05Z") }

func attempts(n int) string {
	if n == 1 {
		return "1 attempt"
	}
	return fmt.Sprintf("%d attempts", n)
}

// Running says whether the job is running now, as far as the database knows.
func (x *Explanation) Running() bool {
	for _, r := range x.Reasons {
		if r.Cause == CauseLeased {
			return true
		}
	}
	return false
}

// Err is [task.ErrNoJob] where there is no trace of the job, else nil.
func (x *Explanation) Err() error {
	for _, r := range x.Reasons {
		if r.Cause == CauseUnknown {
			return fmt.Errorf("job %s: %w", x.ID, task.ErrNoJob)
		}
	}
	return nil
}
