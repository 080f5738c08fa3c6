package runtime

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/pawlgo/pawl/internal/cron"
	"github.com/pawlgo/pawl/internal/dispatch"
	"github.com/pawlgo/pawl/internal/store"
)

const (
	// scheduleInterval is how often the schedules are read at least: for jobs that
	// somebody wants now, and for what another process has declared.
	scheduleInterval = 2 * time.Second
	// scheduleAgain is when to look again after a tick that another process was
	// just dealing with, which may die over it, and after a failure.
	scheduleAgain = 500 * time.Millisecond
	// scheduleLeast keeps clocks that disagree from making a busy loop.
	scheduleLeast   = 5 * time.Millisecond
	scheduleTimeout = 30 * time.Second
)

// ScheduleStats is a snapshot of what a worker has done about schedules.
type ScheduleStats struct {
	Ticks   int64 // jobs made for ticks
	Runs    int64 // jobs made because somebody asked for one, by [task.RunNow]
	Missed  int64 // ticks that were found too late, since no worker was there in time
	Skipped int64 // of those, the ones that got no job by the policy of their schedule
	Errors  int64 // failures, after each of which it is tried again
}

// scheduleCounters are the live side of [ScheduleStats].
type scheduleCounters struct {
	ticks, runs, missed, skipped, errors atomic.Int64
}

func (c *scheduleCounters) snapshot() ScheduleStats {
	return ScheduleStats{
		Ticks: c.ticks.Load(), Runs: c.runs.Load(), Missed: c.missed.Load(), Skipped: c.skipped.Load(), Errors: c.errors.Load(),
	}
}

// scheduler makes the jobs of schedules. Each process looks after those of its
// tables; which of them makes a job is decided anew for each tick, in the
// database. Its state is that of the one goroutine that runs it.
type scheduler struct {
	w       *Worker
	kinds   map[string]*dispatch.Schedule
	names   []string // of kinds, sorted
	without []string // kinds of the tables that have no schedule, sorted
	zones   map[string]*time.Location
	hung    map[string]<-chan prepared // by kind: code of the application's that does not return
	// clock makes the time by which ticks are due from the database's; nil for
	// that itself. Tests set it.
	clock func(time.Time) time.Time
}

// newScheduler checks the schedules of the tables.
func newScheduler(w *Worker, queues []served) (*scheduler, error) {
	s := &scheduler{w: w, kinds: make(map[string]*dispatch.Schedule), zones: make(map[string]*time.Location), hung: make(map[string]<-chan prepared)}
	for _, q := range queues {
		for kind, row := range q.rows {
			x := row.Schedule
			if x == nil {
				s.without = append(s.without, kind)
				continue
			}
			if _, _, err := s.parse(x.Spec, x.Zone); err != nil {
				return nil, wrong("the schedule of %s: %v", kind, err)
			}
			s.kinds[kind] = x
		}
	}
	s.names = slices.Sorted(maps.Keys(s.kinds))
	slices.Sort(s.without)
	return s, nil
}

func (s *scheduler) parse(spec, zone string) (cron.Schedule, *time.Location, error) {
	x, err := cron.Parse(spec)
	if err != nil {
		return x, nil, err
	}
	z, ok := s.zones[zone]
	if !ok {
		if z, err = cron.Zone(zone); err != nil {
			return x, nil, err
		}
		s.zones[zone] = z
	}
	return x, z, nil
}

func (s *scheduler) now(database time.Time) time.Time {
	if s.clock != nil {
		return s.clock(database)
	}
	return database
}

// run registers the schedules, and makes jobs until ctx ends.
func (s *scheduler) run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	registered := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		wait := scheduleAgain
		if !registered {
			err := s.register(ctx)
			if registered = err == nil; !registered && ctx.Err() == nil && !errors.Is(err, store.ErrScheduleBusy) {
				s.failed("cannot register the schedules", err)
			}
		}
		if registered {
			if len(s.kinds) == 0 {
				return
			}
			wait = s.look(ctx)
		}
		timer.Reset(max(wait, scheduleLeast))
	}
}

func (s *scheduler) failed(message string, err error, args ...any) {
	s.w.counters.schedule.errors.Add(1)
	s.w.warn("scheduler", message, err, args...)
}

// register declares the schedules as the tables have them: of processes that
// disagree, the one that started last is right.
func (s *scheduler) register(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, scheduleTimeout)
	defer cancel()
	if len(s.without) > 0 {
		removed, err := s.w.store.RemoveSchedules(ctx, s.without)
		if err != nil {
			return err
		}
		for _, kind := range removed {
			s.w.log.Info("the schedule is removed: it is shown and not run", "kind", kind)
		}
	}
	if len(s.names) == 0 {
		return nil
	}
	states, _, err := s.w.store.Schedules(ctx, s.names)
	if err != nil {
		return err
	}
	known := make(map[string]store.ScheduleState, len(states))
	for _, x := range states {
		known[x.Kind] = x
	}
	for _, kind := range s.names {
		if x, ok := known[kind]; ok && s.declaredAs(&x) {
			continue
		}
		if err := s.declare(ctx, kind); err != nil {
			return fmt.Errorf("of %s: %w", kind, err)
		}
	}
	return nil
}

func (s *scheduler) declaration(kind string) store.Schedule {
	x := s.kinds[kind]
	return store.Schedule{Kind: kind, Spec: x.Spec, Zone: x.Zone, Missed: x.Missed}
}

// declaredAs says whether a schedule is registered as this process has it.
func (s *scheduler) declaredAs(x *store.ScheduleState) bool {
	return x.Schedule == s.declaration(x.Kind) && !x.Removed
}

// declare writes one schedule down. Ticks that are due by what was declared
// before get their jobs first; what was declared now ticks from now on.
func (s *scheduler) declare(ctx context.Context, kind string) error {
	var d done
	err := s.w.store.Schedule(ctx, kind, func(t *store.Scheduling) error {
		now := s.now(t.Now)
		cursor := now
		if x := t.State; x != nil {
			if s.declaredAs(x) {
				return nil // by a process that started together with this one
			}
			if !x.Removed {
				if err := s.settle(ctx, t, now, &d); err != nil {
					return err
				}
				if x.Cursor.After(cursor) {
					cursor = x.Cursor
				}
			}
		}
		want := s.declaration(kind)
		spec, zone, err := s.parse(want.Spec, want.Zone)
		if err != nil {
			return err
		}
		return t.Register(ctx, want, s.w.config.Name, cursor, spec.Next(cursor, zone))
	})
	if err == nil {
		s.count(kind, &d)
	}
	return err
}

// settle makes the jobs of a schedule that is about to be another one.
func (s *scheduler) settle(ctx context.Context, t *store.Scheduling, now time.Time, d *done) error {
	if _, _, err := s.parse(t.State.Spec, t.State.Zone); err != nil {
		s.w.warn("scheduler", "the schedule was declared in a way that this binary does not know; its ticks until now are left out", err, "kind", t.State.Kind)
		return nil
	}
	for {
		before := t.State.Cursor
		if err := s.deal(ctx, t, now, d); err != nil || t.State.Cursor.Equal(before) {
			return err
		}
	}
}

// look makes the jobs of all ticks that are due, and returns how long to wait
// before the next look.
func (s *scheduler) look(ctx context.Context) time.Duration {
	ctx, cancel := context.WithTimeout(ctx, scheduleTimeout)
	defer cancel()
	states, database, err := s.w.store.Schedules(ctx, s.names)
	if err != nil {
		if ctx.Err() == nil {
			s.failed("cannot read the schedules", err)
		}
		return scheduleAgain
	}
	read, now := time.Now(), s.now(database)
	wait := scheduleInterval
	s.restore(ctx, states)
	for _, x := range states {
		if x.Removed {
			continue // by a process that started later
		}
		next, err := s.next(&x)
		if err == nil && (x.Requests > 0 || !next.After(now)) {
			next, err = s.tick(ctx, x.Kind)
		}
		switch {
		case ctx.Err() != nil:
			return scheduleAgain
		case errors.Is(err, store.ErrScheduleBusy), errors.Is(err, store.ErrScheduleMoved):
			wait = min(wait, scheduleAgain)
		case err != nil:
			s.failed("cannot make the job of a tick; it is tried again", err, "kind", x.Kind)
		default:
			wait = min(wait, max(next.Sub(now), 0))
		}
	}
	return wait - time.Since(read)
}

// restore declares again what is not registered any more: somebody has deleted
// it, or gone back to a backup.
func (s *scheduler) restore(ctx context.Context, states []store.ScheduleState) {
	if len(states) == len(s.names) {
		return
	}
	for _, kind := range s.names {
		if slices.ContainsFunc(states, func(x store.ScheduleState) bool { return x.Kind == kind }) {
			continue
		}
		if err := s.declare(ctx, kind); err != nil && ctx.Err() == nil && !errors.Is(err, store.ErrScheduleBusy) {
			s.failed("cannot register a schedule again", err, "kind", kind)
		}
	}
}

// next is the first tick that has not been dealt with.
func (s *scheduler) next(x *store.ScheduleState) (time.Time, error) {
	spec, zone, err := s.parse(x.Spec, x.Zone)
	if err != nil {
		return time.Time{}, fmt.Errorf("a later process has declared it in a way that this binary does not know: %w", err)
	}
	return spec.Next(x.Cursor, zone), nil
}
