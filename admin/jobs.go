package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/pawlgo/pawl/internal/store"
	"github.com/pawlgo/pawl/task"
)

// States of a job that package task does not know, since an enqueue never meets
// them.
const (
	// StateStranded is a waiting job that no live worker can decode.
	StateStranded task.State = "stranded"
	// StateQuarantined is a job whose row is gone, which was set aside.
	StateQuarantined task.State = "quarantined"
	// StateLost is a job that is in no place at all, which cannot be: see the books of
	// [Client.Doctor].
	StateLost task.State = "lost"
)

// States are those that a [JobFilter] can name.
var states = []task.State{
	task.StatePending, task.StateScheduled, task.StateRetrying, StateStranded, task.StateLeased, task.StateBlocked,
	task.StateCompleted, task.StateDead, task.StateCancelled, StateQuarantined, StateLost,
}

// States returns the states that a [JobFilter] can name.
func States() []task.State { return slices.Clone(states) }

// Job is a job, wherever it is.
type Job struct {
	ID   uuid.UUID `json:"id"`
	Kind string    `json:"kind"`
	// Queue is where it waits, or waited.
	Queue   string `json:"queue"`
	Version int    `json:"version"` // of its payload
	// Capability is the identity of the payload version: workers claim by it.
	Capability     Capability         `json:"capability"`
	Priority       task.PriorityLevel `json:"priority"`
	State          task.State         `json:"state"`
	OrganizationID string             `json:"organization_id,omitempty"`
	EnqueuedAt     time.Time          `json:"enqueued_at,omitzero"`
	// RunAt is when its next attempt is due, or where that is not known or there
	// is none, when the first one was.
	RunAt       time.Time `json:"run_at,omitzero"`
	Attempts    int       `json:"attempts"` // used up, the present one included
	MaxAttempts int       `json:"max_attempts"`
	// Worker, ClaimedAt and LeasedUntil are of the attempt that runs. A worker
	// renews its leases all the time.
	Worker      string    `json:"worker,omitempty"`
	ClaimedAt   time.Time `json:"claimed_at,omitzero"`
	LeasedUntil time.Time `json:"leased_until,omitzero"`
	FinishedAt  time.Time `json:"finished_at,omitzero"`
	// ErrorCode, ErrorSummary and ErrorAt are of the last attempt that failed.
	ErrorCode    string    `json:"error_code,omitempty"`
	ErrorSummary string    `json:"error_summary,omitempty"`
	ErrorAt      time.Time `json:"error_at,omitzero"`
	// Key and OrderKey are digests, as hexadecimal digits. They are empty for a role
	// that may not read them.
	Key      string `json:"idempotency_key,omitempty"`
	OrderKey string `json:"order_key,omitempty"`
	// Args is the payload as the database writes it; in a list it is cut after
	// some hundred characters. ArgsSize is how many bytes it has in all.
	Args     string `json:"args,omitempty"`
	ArgsSize int    `json:"args_size"`
}

// Capability is the identity of a payload version.
type Capability int64

// MarshalText writes 16 hexadecimal digits: as a number, many programs would
// round it.
func (c Capability) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

func (c Capability) String() string { return fmt.Sprintf("%016x", uint64(c)) }

// ArgFilter asks for a value at a path of the payload. Every step is a member's
// name or an index of an array.
type ArgFilter struct {
	Path []string `json:"path"`
	// Value is what has to be there: a JSON value.
	Value json.RawMessage `json:"value"`
	// Redacted says, in a filter that was written down, that the value was not, since
	// it is of a field that is not to be shown. Nothing can be asked for with that.
	Redacted bool `json:"redacted,omitempty"`
}

// ParseArg reads PATH=VALUE, such as customer.id=7, items.0.sku="A-1" or
// endpoint=e1: steps are divided by dots, and a value that is no JSON is a text.
func ParseArg(text string) (ArgFilter, error) {
	path, value, ok := strings.Cut(text, "=")
	if !ok || path == "" {
		return ArgFilter{}, fmt.Errorf("%w: %q is not of the form PATH=VALUE, such as customer.id=7", ErrInvalid, text)
	}
	f := ArgFilter{Path: strings.Split(path, "."), Value: json.RawMessage(value)}
	if !json.Valid(f.Value) {
		quoted, err := json.Marshal(value)
		if err != nil {
			return f, fmt.Errorf("%w: %w", ErrInvalid, err)
		}
		f.Value = quoted
	}
	return f, f.check()
}

func (f ArgFilter) check() error {
	switch {
	case f.Redacted:
		return fmt.Errorf("%w: %s: give it again", ErrRedacted, strings.Join(f.Path, "."))
	case len(f.Path) == 0 || slices.Contains(f.Path, ""):
		return fmt.Errorf("%w: the path %q of an argument has an empty step", ErrInvalid, strings.Join(f.Path, "."))
	case !json.Valid(f.Value):
		return fmt.Errorf("%w: the value of %s is no JSON: %s", ErrInvalid, strings.Join(f.Path, "."), f.Value)
	case strings.Contains(string(f.Value), `\u0000`):
		return fmt.Errorf("%w: the value of %s has U+0000, which no payload has", ErrInvalid, strings.Join(f.Path, "."))
	}
	return nil
}

func checkArgs(all []ArgFilter) ([]store.ArgFilter, error) {
	args := make([]store.ArgFilter, len(all))
	for i, a := range all {
		if err := a.check(); err != nil {
			return nil, err
		}
		args[i] = store.ArgFilter{Path: a.Path, Value: a.Value}
	}
	return args, nil
}

// JobFilter says which jobs are meant; what is empty is not asked for.
//
// Where is looked depends on the state. Jobs that wait, run, are blocked, dead or
// quarantined are looked for where they are, and in the order in which they come
// up; without a state, and for what has ended otherwise, all jobs are looked
// through from the newest to the oldest. An error code without a state looks
// through the failures. Kind, organization and arguments have no index. For lost ones
// all jobs are looked through likewise, and where some could be, all that wait besides.
type JobFilter struct {
	Kind  string
	Queue string
	State task.State // one of [States]
	// ErrorCode is that of the last attempt that failed.
	ErrorCode      string
	OrganizationID string
	Args           []ArgFilter
}

// JobList is a page of jobs.
type JobList struct {
	Jobs []Job `json:"jobs"`
	Listed
}

// argsInList is how much of a payload a list has.
const argsInList = 500

// Jobs lists the jobs of a filter, a page at a time. It reads a bounded number of
// rows: where those do not fill a page, its Next says where to go on.
func (c *Client) Jobs(ctx context.Context, f JobFilter, page Page) (*JobList, error) {
	page, err := page.normal()
	if err != nil {
		return nil, err
	}
	if f.State != "" && !slices.Contains(states, f.State) {
		return nil, fmt.Errorf("%w: there is no state %q; there are %v", ErrInvalid, f.State, states)
	}
	filter := &store.JobFilter{Kind: f.Kind, Queue: f.Queue, State: string(f.State), ErrorCode: f.ErrorCode, Organization: f.OrganizationID}
	if filter.Args, err = checkArgs(f.Args); err != nil {
		return nil, err
	}
	list := &JobList{Jobs: []Job{}}
	err = c.read(ctx, "list jobs", func(r *store.Reading) error {
		found, listed, err := look(page, func(scan store.Scan) (*store.Scanned, error) { return r.ScanJobs(ctx, filter, scan) })
		if err != nil {
			return err
		}
		list.Listed = listed
		search := store.SearchNot
		if f.State == StateLost && len(found) > 0 {
			// They wait for no time that their history knows; some may for another one.
			waiting, err := r.Waiting(ctx, idsOf(found))
			if err != nil {
				return err
			}
			search = store.SearchDone
			found = slices.DeleteFunc(found, func(p store.Place) bool { return slices.Contains(waiting, p.ID) })
		}
		rows, err := r.Jobs(ctx, found, argsInList, search)
		for i := range rows {
			list.Jobs = append(list.Jobs, jobOf(&rows[i]))
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}

func jobOf(r *store.JobRow) Job {
	return Job{
		ID: r.ID, Kind: r.Kind, Queue: r.Queue, Version: r.Version, Capability: Capability(r.Capability), Priority: task.PriorityLevel(r.Priority),
		State: task.State(r.State), OrganizationID: r.OrganizationID, EnqueuedAt: at(r.EnqueuedAt), RunAt: at(r.RunAt),
		Attempts: r.Attempts, MaxAttempts: r.MaxAttempts, Worker: r.Worker, ClaimedAt: at(r.ClaimedAt), LeasedUntil: at(r.LeasedUntil),
		FinishedAt: at(r.FinishedAt), ErrorCode: r.ErrorCode, ErrorSummary: r.ErrorSummary, ErrorAt: at(r.ErrorAt),
		Key: r.Key, OrderKey: r.OrderKey, Args: r.Args, ArgsSize: r.ArgsSize,
	}
}

func at(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.UTC()
}

// Attempt is one attempt that failed.
type Attempt struct {
	Attempt int       `json:"attempt"`
	At      time.Time `json:"at"`
	Code    string    `json:"code"`
	Summary string    `json:"summary"`
	// RetryAt is when the next attempt became due; zero for none.
	RetryAt time.Time `json:"retry_at,omitzero"`
}

// Life is what was before a dead job was made to run again.
type Life struct {
	DiedAt     time.Time `json:"died_at"`
	RedrivenAt time.Time `json:"redriven_at"`
	// Redrive is the redrive that it was part of, or Nil.
	Redrive  uuid.UUID `json:"redrive,omitzero"`
	Attempts int       `json:"attempts"`
	Code     string    `json:"code"`
	Summary  string    `json:"summary"`
	Errors   []Attempt `json:"errors"` // the latest twenty
}

// JobDetail is all that is known of one job.
type JobDetail struct {
	Job
	Errors []Attempt `json:"errors"` // the latest fifty attempts that failed, oldest first
	Lives  []Life    `json:"lives,omitempty"`
}

// Job returns all that is known of a job, its whole payload included. The error is
// [task.ErrNoJob] where there is no trace of it.
func (c *Client) Job(ctx context.Context, id uuid.UUID) (*JobDetail, error) {
	var detail *JobDetail
	err := c.read(ctx, fmt.Sprintf("show job %s", id), func(r *store.Reading) error {
		rows, err := r.Jobs(ctx, []store.Place{{ID: id}}, wholePayload, store.SearchWalk)
		if err != nil {
			return err
		}
		if len(rows) == 0 {
			return task.ErrNoJob
		}
		history, err := r.History(ctx, id)
		if err != nil {
			return err
		}
		detail = &JobDetail{Job: jobOf(&rows[0]), Errors: attemptsOf(history.Errors)}
		for _, l := range history.Lives {
			life := Life{DiedAt: l.DiedAt.UTC(), RedrivenAt: l.RedrivenAt.UTC(), Attempts: l.Attempts, Code: l.Code, Summary: l.Summary, Errors: attemptsOf(l.Errors)}
			if l.Redrive != nil {
				life.Redrive = *l.Redrive
			}
			detail.Lives = append(detail.Lives, life)
		}
		return nil
	})
	return detail, err
}

// wholePayload is more than any payload has.
const wholePayload = 1 << 30

func attemptsOf(rows []store.ErrorRow) []Attempt {
	all := make([]Attempt, len(rows))
	for i, e := range rows {
		all[i] = Attempt{Attempt: e.Attempt, At: e.At.UTC(), Code: e.Code, Summary: e.Summary, RetryAt: at(e.RetryAt)}
	}
	return all
}

// CancelJob cancels a job as [task.Cancel] does, and returns where it stands.
func (c *Client) CancelJob(ctx context.Context, id uuid.UUID, reason string) (state task.State, err error) {
	err = c.change(ctx, "cancel job", reason, func(tx pgx.Tx) error {
		state, err = task.Cancel(ctx, c.tx(tx), id)
		return err
	})
	return state, err
}

// CancelOrganization cancels every job of an organization as
// [task.CancelOrganization] does, and returns how many waited and how many were
// running.
func (c *Client) CancelOrganization(ctx context.Context, organizationID, reason string) (waiting, running int, err error) {
	err = c.change(ctx, "cancel organization", reason, func(tx pgx.Tx) error {
		waiting, running, err = task.CancelOrganization(ctx, c.tx(tx), organizationID)
		return err
	})
	return waiting, running, err
}

// RetryJob makes a dead job run again, now, with its id and with all its attempts.
// Its dead letter is gone then, and what had failed is among its [JobDetail.Lives].
// The error is [ErrNotDead], [ErrKeyTaken] or [task.ErrNoJob].
func (c *Client) RetryJob(ctx context.Context, id uuid.UUID, reason string) error {
	err := c.change(ctx, "retry job", reason, func(tx pgx.Tx) error {
		redriven, refused, err := c.store.RedriveLetters(ctx, tx, []uuid.UUID{id}, uuid.Nil, nil)
		switch {
		case err != nil:
			return err
		case len(refused) > 0:
			return fmt.Errorf("job %s: %w: cancel that one, or wait until the key is free", id, ErrKeyTaken)
		case len(redriven) == 0:
			return ErrNotDead
		}
		return nil
	})
	if !errors.Is(err, ErrNotDead) {
		return err
	}
	job, showErr := c.Job(ctx, id)
	if showErr != nil {
		return showErr
	}
	return fmt.Errorf("%w: it is %s", err, job.State)
}

// RunJobNow makes a job due that waits for its time: one that is scheduled for
// later, or in the backoff after a failure. It returns where the job stands,
// which is pending, or blocked where it has to wait for its turn all the same.
// The error is [ErrNoWait] or [task.ErrNoJob]. To run a dead job, see [Client.RetryJob].
func (c *Client) RunJobNow(ctx context.Context, id uuid.UUID, reason string) (state task.State, err error) {
	err = c.change(ctx, "run job now", reason, func(tx pgx.Tx) error {
		answer, err := c.store.RunJobNow(ctx, tx, id)
		if err != nil {
			return err
		}
		switch state = task.State(answer); state {
		case "":
			return task.ErrNoJob
		case task.StatePending, task.StateBlocked:
			return nil
		}
		return fmt.Errorf("job %s is %s: %w", id, state, ErrNoWait)
	})
	return state, err
}
