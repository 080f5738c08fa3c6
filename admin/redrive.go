package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/pawlgo/pawl/internal/store"
	"github.com/pawlgo/pawl/task"
)

// RedriveOptions say how dead letters are made to run again.
//
// Values of [DeadFilter.Args] that are of fields which are not to be shown are not
// written down with the redrive, nor in the audit: see [Client.ContinueRedrive].
type RedriveOptions struct {
	// Filter says which: of the letters that are there as the redrive starts.
	Filter DeadFilter
	// Canary is how many, the oldest ones, run first. The others wait until those
	// have ended. Zero for none.
	Canary int
	// Rate is how many are released a second, up to a million. Zero, and a limit of its own, for as
	// many as go.
	Rate float64
	// StopAt is the share of failures at which the redrive stops: 0.1 stops when
	// one of ten jobs is dead again. It is looked at when the canary has ended, and
	// after that from ten ended jobs on, with at most 10,000 on their way. Zero never
	// stops.
	StopAt float64
	// Attempts is how many attempts each job has; as many as it had where zero.
	Attempts int
	// Wait makes the call wait for the ends of all of the jobs.
	Wait bool
	// Reason is why, for the audit.
	Reason string
	// Progress, where it is not nil, is called after each step.
	Progress func(Redrive)
}

// Redrive is a redrive of many dead letters, as far as it is.
type Redrive struct {
	ID     uuid.UUID  `json:"id"`
	Filter DeadFilter `json:"filter"`
	By     string     `json:"by"`
	Reason string     `json:"reason,omitempty"`
	Canary int        `json:"canary"`
	Rate   float64    `json:"rate"`
	StopAt float64    `json:"stop_at"`
	// State is canary while the first ones run, then running, and in the end
	// stopped or done.
	State     RedriveState `json:"state"`
	StartedAt time.Time    `json:"started_at"`
	EndedAt   time.Time    `json:"ended_at,omitzero"`

	Redriven  int64 `json:"redriven"`  // jobs that were made of letters
	Refused   int64 `json:"refused"`   // letters that stay, since another job has their idempotency key
	Skipped   int64 `json:"skipped"`   // letters that somebody had locked, or removed just then
	Completed int64 `json:"completed"` // of the redriven ones
	Failed    int64 `json:"failed"`    // dead again
	Cancelled int64 `json:"cancelled"` // or removed by retention before anybody looked

	// Trouble is what keeps the redrive from going on just now, for who follows it:
	// it is tried again.
	Trouble string `json:"trouble,omitempty"`
}

// RedriveState is where a redrive is.
type RedriveState string

// The states of a redrive.
const (
	RedriveCanary  RedriveState = store.RedriveCanary
	RedriveRunning RedriveState = store.RedriveRunning
	RedriveStopped RedriveState = store.RedriveStopped
	RedriveDone    RedriveState = store.RedriveDone
)

// Ended is how many of the jobs have ended, as far as anybody has looked.
func (r *Redrive) Ended() int64 { return r.Completed + r.Failed + r.Cancelled }

// FailureShare is the share of failures among the jobs that have ended.
func (r *Redrive) FailureShare() float64 {
	if r.Ended() == 0 {
		return 0
	}
	return float64(r.Failed) / float64(r.Ended())
}

const (
	// minShare is how many jobs have to have ended before their share of failures
	// says something, once the canary is over.
	minShare = 10
	// maxOpen is how many released jobs may be on their way where their failures
	// may stop the others.
	maxOpen = 10_000
	// maxRate is more jobs a second than any database takes. What is due by a rate
	// is counted in whole numbers, which a larger one would be too much for.
	maxRate = 1_000_000
	// redrivePoll is how often a redrive looks for ends.
	redrivePoll = 200 * time.Millisecond
	// maxTroubles is how many tries in a row may fail, for reasons of the moment,
	// before a redrive is left for somebody to go on with; maxTrouble is how long it
	// waits between the last ones. All in all it is about as long as a database takes
	// that fails over to another node.
	maxTroubles = 10
	maxTrouble  = 10 * time.Second
)

// Redrive makes dead letters run again, as jobs with the ids that they had, and
// returns when it has released them all. The letter, its job, and the entry in
// the audit change in one transaction, a few hundred at a time, and how far the
// redrive is stands in the database: when its process ends in the middle,
// [Client.ContinueRedrive] goes on, and no letter runs twice.
//
// Letters that could not be redriven, since somebody had them locked or another job
// had their key, are tried once more at the end. What is [Redrive.Refused] and
// [Redrive.Skipped] then, stays dead. A job that dies again becomes a new dead
// letter, which this redrive leaves alone.
//
// A step that fails for a reason of the moment, such as a lock, a deadlock or a
// connection that was cut, is tried again after a while; [Redrive.Trouble] says so.
// Once ten tries in a row have failed, the error is the last one's.
//
// Otherwise the error is [ErrStopped] when too many of the jobs failed, the end of
// ctx, [ErrNoFilter], [ErrInvalid], [ErrNoPayloads] or [ErrRedacted]; with all but the
// last four the redrive is returned too.
func (c *Client) Redrive(ctx context.Context, opts RedriveOptions) (*Redrive, error) {
	if _, err := opts.Filter.target(); err != nil {
		return nil, err
	}
	switch {
	case opts.Canary < 0 || opts.Canary > maxOpen:
		return nil, fmt.Errorf("%w: a canary of %d jobs; give up to %d", ErrInvalid, opts.Canary, maxOpen)
	case !(opts.Rate >= 0 && opts.Rate <= maxRate):
		return nil, fmt.Errorf("%w: a rate of %v jobs a second; give up to %d, or zero for no limit", ErrInvalid, opts.Rate, maxRate)
	case !(opts.StopAt >= 0 && opts.StopAt <= 1):
		return nil, fmt.Errorf("%w: to stop at a share of %v; give 0 to 1", ErrInvalid, opts.StopAt)
	case opts.Attempts < 0 || opts.Attempts > store.MaxAttempts:
		return nil, fmt.Errorf("%w: %d attempts; give up to %d", ErrInvalid, opts.Attempts, store.MaxAttempts)
	}
	row := &store.RedriveRow{
		ID: newID(), By: c.by, Reason: opts.Reason, Canary: opts.Canary, Rate: opts.Rate, StopShare: opts.StopAt, State: store.RedriveRunning,
	}
	if opts.Canary > 0 {
		row.State = store.RedriveCanary
	}
	if opts.Attempts > 0 {
		row.Attempts = &opts.Attempts
	}
	var given []ArgFilter // what is not written down
	if err := c.read(ctx, "redrive dead letters", func(r *store.Reading) error {
		if err := r.MayFilter(ctx, len(opts.Filter.Args)); err != nil {
			return err // before anything is written down
		}
		shown, err := opts.Filter.redacted(ctx, r)
		if err != nil {
			return err
		}
		for i, a := range shown.Args {
			if a.Redacted {
				given = append(given, opts.Filter.Args[i])
			}
		}
		row.Filter, err = json.Marshal(shown)
		return err
	}); err != nil {
		return nil, err
	}
	if err := c.change(ctx, "redrive dead letters", opts.Reason, func(tx pgx.Tx) error { return c.store.StartRedrive(ctx, tx, row) }); err != nil {
		return nil, err
	}
	return c.follow(ctx, row.ID, opts, given)
}

// ContinueRedrive goes on with a redrive whose process has ended in the middle, or
// that was stopped for its failures: in that case what has failed until now counts
// no more. The filter and the other settings are those that it was started with;
// of opts only Wait and Progress are used, and Filter.Args.
//
// Those have to be the values of the filter that were not written down, since they
// are of fields that are not to be shown, and no others: the error is [ErrRedacted]
// where one is missing. That they are those of the beginning nobody knows but the
// caller. Otherwise the error is as for [Client.Redrive], or [ErrNoRedrive] where
// there is none of that id, or it is done.
func (c *Client) ContinueRedrive(ctx context.Context, id uuid.UUID, opts RedriveOptions) (*Redrive, error) {
	if _, err := checkArgs(opts.Filter.Args); err != nil {
		return nil, err
	}
	// What has ended unseen since it was stopped is of before, too.
	if err := c.store.RedriveEnds(ctx, id); err != nil {
		return nil, wrap("continue a redrive", err)
	}
	err := c.change(ctx, "continue a redrive", "", func(tx pgx.Tx) error {
		row, err := c.store.LockRedrive(ctx, tx, id)
		switch {
		case store.IsNoRow(err):
			return fmt.Errorf("redrive %s: %w", id, ErrNoRedrive)
		case err != nil:
			return err
		case row.State == store.RedriveDone:
			return fmt.Errorf("redrive %s is done: %w", id, ErrNoRedrive)
		}
		filter, err := filterOf(row)
		if err == nil {
			_, err = filter.complete(opts.Filter.Args)
		}
		if err != nil {
			return fmt.Errorf("the filter of redrive %s: %w", id, err)
		}
		if row.State == store.RedriveStopped {
			return c.store.ResumeRedrive(ctx, tx, id)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return c.follow(ctx, id, opts, opts.Filter.Args)
}

// Redrives returns the newest redrives, at most so many.
func (c *Client) Redrives(ctx context.Context, most int) ([]Redrive, error) {
	all := []Redrive{}
	err := c.read(ctx, "list redrives", func(r *store.Reading) error {
		rows, err := r.Redrives(ctx, most)
		for i := range rows {
			all = append(all, *redriveOf(&rows[i]))
		}
		return err
	})
	return all, err
}

func redriveOf(r *store.RedriveRow) *Redrive {
	filter, err := filterOf(r)
	if err != nil {
		filter = DeadFilter{Message: string(r.Filter)}
	}
	return &Redrive{
		ID: r.ID, By: r.By, Reason: r.Reason, Canary: r.Canary, Rate: r.Rate, StopAt: r.StopShare, State: RedriveState(r.State),
		StartedAt: r.StartedAt.UTC(), EndedAt: at(r.EndedAt), Redriven: r.Redriven, Refused: r.Refused, Skipped: r.Skipped,
		Completed: r.Completed, Failed: r.Failed, Cancelled: r.Cancelled, Filter: filter,
	}
}

// filterOf is the filter as it was written down. Of one that was made by hand or by a
// later version something may be unknown here, without which it would mean more.
func filterOf(r *store.RedriveRow) (f DeadFilter, err error) {
	d := json.NewDecoder(bytes.NewReader(r.Filter))
	d.DisallowUnknownFields()
	if err := d.Decode(&f); err != nil {
		return f, fmt.Errorf("%w: read its filter: %w", ErrNoRedrive, err)
	}
	return f, nil
}

// follower drives one redrive.
type follower struct {
	c        *Client
	id       uuid.UUID
	progress func(Redrive)
	note     store.Note
	given    []ArgFilter // values of the filter that were not written down
	last     *Redrive
	open     int64 // released, and not seen to have ended
	failed   int64 // before it was stopped and somebody went on: that counts no more
	ended    int64 // before
	nextLook time.Time
	troubles int  // tries in a row that failed
	again    bool // the second pass begins, and somebody had letters locked
}

// follow drives a redrive until it has ended.
func (c *Client) follow(ctx context.Context, id uuid.UUID, opts RedriveOptions, given []ArgFilter) (*Redrive, error) {
	f := &follower{c: c, id: id, progress: opts.Progress, note: c.note(""), given: given}
	poll := time.NewTicker(redrivePoll)
	defer poll.Stop()
	var (
		began  time.Time // the rate counts from here
		before int64
	)
	for {
		run := f.last
		var err error
		switch {
		case run == nil:
			if err = f.look(ctx); err == nil {
				began, before = time.Now(), f.last.Redriven
				f.note.Reason = f.last.Reason
			}
		case run.State == RedriveStopped:
			return run, fmt.Errorf("redrive %s: %w: %d of %d that have ended", id, ErrStopped, run.Failed, run.Ended())
		case run.State == RedriveDone:
			if !opts.Wait || f.open == 0 {
				return run, nil
			}
			err = f.pause(ctx, poll)
		case f.tooMany():
			err = f.set(ctx, RedriveStopped)
		case run.State == RedriveCanary && run.Redriven >= int64(run.Canary):
			if f.open == 0 {
				err = f.set(ctx, RedriveRunning)
				began, before = time.Now(), run.Redriven
			} else {
				err = f.pause(ctx, poll)
			}
		default:
			want := f.want(time.Since(began), before)
			if want == 0 || f.again || run.StopAt > 0 && f.open >= maxOpen {
				f.again = false // who had them locked is done soon
				err = f.pause(ctx, poll)
				break
			}
			err = f.step(ctx, want)
		}
		if err = f.weather(ctx, err); err != nil {
			return f.last, err
		}
	}
}

// weather waits where a try has failed for a reason of the moment, unless too many
// have. The error is the one that ends the redrive, here.
func (f *follower) weather(ctx context.Context, err error) error {
	switch {
	case err == nil:
		f.troubles = 0
		return ctx.Err()
	case ctx.Err() != nil:
		return err
	}
	switch task.Classify(err).Class {
	case task.ClassTransient, task.ClassTimeout: // not of ctx
	default:
		return err
	}
	f.troubles++
	delay, more := troubleDelay(f.troubles)
	if !more {
		return fmt.Errorf("redrive %s has failed %d times in a row; go on with it later: %w", f.id, f.troubles, err)
	}
	if f.last != nil {
		f.last.Trouble = err.Error()
		if f.progress != nil {
			f.progress(*f.last)
		}
	}
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
	}
	// A commit whose answer was lost may have been one. Where this fails too, so does
	// the next try.
	_ = f.look(ctx)
	return nil
}

// troubleDelay is how long to wait after so many failures in a row, and false after
// the last one.
func troubleDelay(failures int) (time.Duration, bool) {
	return min(redrivePoll<<(failures-1), maxTrouble), failures < maxTroubles
}

// want is how many may be released now.
func (f *follower) want(since time.Duration, before int64) int {
	run := f.last
	if run.State == RedriveCanary {
		return int(min(int64(run.Canary)-run.Redriven, changeLimit))
	}
	if run.Rate == 0 {
		return changeLimit
	}
	// The first one at once, the others as time passes.
	due := int64(run.Rate*since.Seconds()) + 1 - (run.Redriven - before)
	return int(max(0, min(due, changeLimit)))
}

// tooMany says whether the share of failures is too large.
func (f *follower) tooMany() bool {
	run := f.last
	ended, failed := run.Ended()-f.ended, run.Failed-f.failed
	if run.StopAt == 0 || ended == 0 || float64(failed) < run.StopAt*float64(ended) {
		return false
	}
	if run.State == RedriveCanary { // all of it counts, and once it cannot be met any more there is no need to wait
		return run.Redriven >= int64(run.Canary) && (f.open == 0 || float64(failed) >= run.StopAt*float64(run.Canary))
	}
	return ended >= minShare || ended >= int64(run.Canary) && run.Canary > 0
}

// step releases some letters, in one transaction with the audit.
func (f *follower) step(ctx context.Context, want int) error {
	c, again := f.c, false
	err := c.store.Change(ctx, f.note, func(tx pgx.Tx) error {
		row, err := c.store.LockRedrive(ctx, tx, f.id)
		if err != nil || row.State != string(f.last.State) {
			return err // somebody else has gone on with it
		}
		if row.State == store.RedriveCanary {
			if want = min(want, row.Canary-int(row.Redriven)); want <= 0 {
				return nil
			}
		}
		filter, err := filterOf(row)
		if err != nil {
			return err
		}
		if filter, err = filter.complete(f.given); err != nil {
			return err
		}
		letters, err := filter.target()
		if err != nil {
			return err
		}
		step, err := c.store.Redrive(ctx, tx, row, *letters, changeRows, want)
		if err != nil {
			return err
		}
		switch {
		case step.More:
		case row.State == store.RedriveCanary && row.Redriven+int64(len(step.Redriven)) > 0:
			err = c.store.SetRedriveCanary(ctx, tx, f.id)
		case row.Pass == 1:
			again = row.Skipped+int64(step.Skipped) > 0
			err = c.store.RepeatRedrive(ctx, tx, f.id)
		default:
			err = c.store.SetRedriveState(ctx, tx, f.id, store.RedriveDone)
		}
		return err
	})
	if err != nil {
		return wrap("redrive dead letters", err)
	}
	f.again = again
	return f.look(ctx)
}

// look finds out where the redrive is, and from time to time what has ended.
func (f *follower) look(ctx context.Context) error {
	if began := time.Now(); !began.Before(f.nextLook) {
		if err := f.c.store.RedriveEnds(ctx, f.id); err != nil {
			return wrap("follow a redrive", err)
		}
		// A tenth of the time is enough for that, however many are on their way.
		now := time.Now()
		f.nextLook = now.Add(max(redrivePoll, 10*now.Sub(began)))
	}
	err := f.c.read(ctx, "follow a redrive", func(r *store.Reading) error {
		row, err := r.Redrive(ctx, f.id)
		switch {
		case store.IsNoRow(err): // retention has taken it
			return fmt.Errorf("redrive %s: %w", f.id, ErrNoRedrive)
		case err == nil:
			f.last, f.failed, f.ended = redriveOf(row), row.ForgivenFailed, row.ForgivenEnded
		}
		return err
	})
	if err != nil {
		return err
	}
	f.open = f.last.Redriven - f.last.Ended()
	if f.progress != nil {
		f.progress(*f.last)
	}
	return nil
}

func (f *follower) set(ctx context.Context, state RedriveState) error {
	err := f.c.store.Change(ctx, f.note, func(tx pgx.Tx) error {
		row, err := f.c.store.LockRedrive(ctx, tx, f.id)
		if err != nil || row.State != string(f.last.State) {
			return err
		}
		return f.c.store.SetRedriveState(ctx, tx, f.id, string(state))
	})
	if err != nil {
		return wrap("follow a redrive", err)
	}
	return f.look(ctx)
}

func (f *follower) pause(ctx context.Context, poll *time.Ticker) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-poll.C:
		return f.look(ctx)
	}
}
