package admin

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/pawlgo/pawl/internal/cron"
	"github.com/pawlgo/pawl/internal/store"
	"github.com/pawlgo/pawl/task"
)

// Schedule is a schedule that there is or was.
type Schedule struct {
	Kind   string `json:"kind"`
	Spec   string `json:"spec"` // a cron expression
	Zone   string `json:"zone"`
	Missed string `json:"missed"` // what becomes of missed ticks: skip, one or all
	// Status is active, paused, unserved when no live worker has the kind, or
	// removed when a later worker had the kind without a schedule.
	Status   string    `json:"status"`
	PausedAt time.Time `json:"paused_at,omitzero"`
	NextTick time.Time `json:"next_tick,omitzero"`
	// LastTick is the last one that has a job, and LastJob that job.
	LastTick time.Time `json:"last_tick,omitzero"`
	LastJob  uuid.UUID `json:"last_job,omitzero"`

	Ticks        int64 `json:"ticks"`         // that have jobs
	MissedTicks  int64 `json:"missed_ticks"`  // that were found too late
	SkippedTicks int64 `json:"skipped_ticks"` // of those, without a job
	Requests     int64 `json:"requests"`      // jobs that somebody wants besides, and no worker has made yet

	RegisteredAt time.Time `json:"registered_at"`
	RegisteredBy string    `json:"registered_by"`
	RemovedAt    time.Time `json:"removed_at,omitzero"`
}

// Schedules returns all schedules, by kind.
func (c *Client) Schedules(ctx context.Context) ([]Schedule, error) {
	all, _, err := c.schedules(ctx)
	return all, err
}

func (c *Client) schedules(ctx context.Context) (all []Schedule, now time.Time, err error) {
	all = []Schedule{}
	err = c.read(ctx, "list schedules", func(r *store.Reading) error {
		rows, read, err := r.Schedules(ctx)
		now = read
		for _, s := range rows {
			x := Schedule{
				Kind: s.Kind, Spec: s.Spec, Zone: s.Zone, Missed: s.Missed, Status: s.Status, PausedAt: at(s.PausedAt), NextTick: at(s.NextTick),
				LastTick: at(s.LastTick), Ticks: s.Ticks, MissedTicks: s.MissedTicks, SkippedTicks: s.SkippedTicks, Requests: s.Requests,
				RegisteredAt: s.RegisteredAt.UTC(), RegisteredBy: s.RegisteredBy, RemovedAt: at(s.RemovedAt),
			}
			if s.LastJob != nil {
				x.LastJob = *s.LastJob
			}
			all = append(all, x)
		}
		return err
	})
	return all, now, err
}

// Tick is one instant of a schedule.
type Tick struct {
	// At is in the schedule's zone.
	At time.Time `json:"at"`
	// Change is set where the zone's clock is changed between the tick before, or
	// the beginning of the preview, and this one.
	Change *ClockChange `json:"change,omitempty"`
}

// ClockChange is a transition of a time zone.
type ClockChange struct {
	At time.Time `json:"at"` // in UTC
	// From and To are the local times just before and at the transition, such as
	// "01:59:59 PST" and "03:00:00 PDT".
	From string `json:"from"`
	To   string `json:"to"`
	// By is by how much the clock is put forward, and below zero back.
	By time.Duration `json:"by"` // nanoseconds in JSON
}

func (c ClockChange) String() string {
	direction, by := "forward", c.By
	if by < 0 {
		direction, by = "back", -by
	}
	if c.By == 0 {
		return fmt.Sprintf("the zone changes its name: %s, then %s", c.From, c.To)
	}
	return fmt.Sprintf("clocks go %s by %v: %s, then %s", direction, by, c.From, c.To)
}

// maxPreview bounds a preview.
const maxPreview = 10_000

// PreviewSchedule returns the next ticks of a schedule after an instant, or after
// the database's now where that is zero. The error is [task.ErrNoSchedule] where
// the kind has none.
func (c *Client) PreviewSchedule(ctx context.Context, kind string, after time.Time, ticks int) ([]Tick, error) {
	all, now, err := c.schedules(ctx)
	if err != nil {
		return nil, err
	}
	if after.IsZero() {
		after = now
	}
	i := slices.IndexFunc(all, func(s Schedule) bool { return s.Kind == kind && s.RemovedAt.IsZero() })
	if i < 0 {
		return nil, fmt.Errorf("preview the schedule of %s: %w", kind, task.ErrNoSchedule)
	}
	return Preview(all[i].Spec, all[i].Zone, after, ticks)
}

// Preview returns the next ticks of an expression in a zone, as workers would
// make them, without any database. The error is an [ErrInvalid] that says what is
// wrong with the expression or the zone.
func Preview(spec, zone string, after time.Time, ticks int) ([]Tick, error) {
	if ticks < 1 || ticks > maxPreview {
		return nil, fmt.Errorf("%w: a preview has 1 to %d ticks, not %d", ErrInvalid, maxPreview, ticks)
	}
	schedule, err := cron.Parse(spec)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	location, err := cron.Zone(zone)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	all := make([]Tick, 0, ticks)
	last := after.In(location)
	for range ticks {
		next := schedule.Next(last, location)
		if next.IsZero() {
			break
		}
		t := Tick{At: next.In(location)}
		if _, end := last.ZoneBounds(); !end.IsZero() && !end.After(next) {
			t.Change = changeAt(end, location)
		}
		all = append(all, t)
		last = t.At
	}
	return all, nil
}

func changeAt(end time.Time, zone *time.Location) *ClockChange {
	const layout = "2006-01-02 15:04:05 MST"
	before, then := end.Add(-time.Second).In(zone), end.In(zone)
	_, was := before.Zone()
	_, is := then.Zone()
	return &ClockChange{At: end.UTC(), From: before.Format(layout), To: then.Format(layout), By: time.Duration(is-was) * time.Second}
}

// RunScheduleNow asks for one job of a schedule as [task.RunNow] does.
func (c *Client) RunScheduleNow(ctx context.Context, kind, reason string) error {
	return c.change(ctx, "run schedule now", reason, func(tx pgx.Tx) error {
		return task.RunNow(ctx, c.tx(tx), kind)
	})
}

// PauseSchedule stops the ticks of a kind as [task.PauseSchedule] does. It reports
// whether the schedule was not paused already.
func (c *Client) PauseSchedule(ctx context.Context, kind, reason string) (changed bool, err error) {
	err = c.change(ctx, "pause schedule", reason, func(tx pgx.Tx) error {
		changed, err = task.PauseSchedule(ctx, c.tx(tx), kind)
		return err
	})
	return changed, err
}

// ResumeSchedule lets a paused schedule tick again. It reports whether it was
// paused.
func (c *Client) ResumeSchedule(ctx context.Context, kind, reason string) (changed bool, err error) {
	err = c.change(ctx, "resume schedule", reason, func(tx pgx.Tx) error {
		changed, err = task.ResumeSchedule(ctx, c.tx(tx), kind)
		return err
	})
	return changed, err
}
