package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/pawlgo/pawl/example/fleetdb"
	"github.com/pawlgo/pawl/example/tasks"
	"github.com/pawlgo/pawl/task"
)

// work feeds the trace to the platform, kills a worker on the way, and waits
// until everything is done.
func (p *platform) work(ctx context.Context) error {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	limit := time.AfterFunc(p.settings.Limit-time.Since(p.began), func() {
		fail(fmt.Errorf("the work is not done within %v", p.settings.Limit))
	})
	defer limit.Stop()
	background, stop := context.WithCancel(ctx)
	var owned sync.WaitGroup
	defer owned.Wait()
	defer stop()
	watch := func(w *process) {
		owned.Go(func() {
			select {
			case <-w.done:
				if err := w.unexpected(); err != nil {
					fail(err)
				}
			case <-background.Done():
			}
		})
	}
	for _, w := range p.workers {
		watch(w)
	}
	owned.Go(func() { p.showProgress(background) })
	if p.drill {
		owned.Go(func() {
			replacement, err := p.crash(background, p.workers[1])
			if err == nil {
				watch(replacement)
			} else if background.Err() == nil {
				fail(err)
			}
		})
	} else {
		p.say("%d trips are too little work to kill a worker in its middle: that is left out (-drill insists, from %d trips on it is the rule)", len(p.reference.Trips), drillTrips)
	}

	err := p.ingest(ctx)
	if err == nil {
		err = p.waitForTheEnd(ctx)
	}
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			return cause
		}
		return err
	}
	return nil
}

// ingest takes the trace batch by batch, in its order.
func (p *platform) ingest(ctx context.Context) error {
	batches := (len(p.trace) + p.settings.Batch - 1) / p.settings.Batch
	tick := time.NewTicker(max(p.settings.Ingest/time.Duration(batches), time.Millisecond))
	defer tick.Stop()
	for from := 0; from < len(p.trace); from += p.settings.Batch {
		batch := p.trace[from:min(from+p.settings.Batch, len(p.trace))]
		taken, err := fleetdb.Ingest(ctx, p.pool, batch)
		if err != nil {
			return fmt.Errorf("take the positions %d to %d: %w", from+1, from+len(batch), err)
		}
		p.taken.mu.Lock()
		p.taken.positions += len(batch)
		p.taken.taken.Accepted += taken.Accepted
		p.taken.taken.Late += taken.Late
		p.taken.taken.Repeated += taken.Repeated
		p.taken.mu.Unlock()
		if p.settings.Ingest > 0 {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
	if _, err := fleetdb.End(ctx, p.pool); err != nil {
		return err
	}
	p.say("the trace has ended: %d positions taken, %d too late, %d there already", p.taken.taken.Accepted, p.taken.taken.Late, p.taken.taken.Repeated)
	return nil
}

// waitForTheEnd returns when no job is unfinished and no fact waits. Nothing is
// enqueued any more but by jobs, facts and ticks, so that is the end once the
// schedules are paused.
func (p *platform) waitForTheEnd(ctx context.Context) error {
	if err := p.waitUntil(ctx, func(progress fleetdb.Progress) bool { return progress.Left() == 0 }); err != nil {
		return err
	}
	if err := p.pauseSchedules(ctx); err != nil {
		return err
	}
	return p.waitUntil(ctx, func(progress fleetdb.Progress) bool {
		if progress.Left()+progress.Ticking > 0 {
			return false
		}
		p.sayProgress(progress)
		return true
	})
}

// pauseSchedules stops the ticks, and returns when no transaction is left that may
// not have seen that.
func (p *platform) pauseSchedules(ctx context.Context) error {
	for _, kind := range []string{tasks.KindEvaluateDevices, tasks.KindRevokeLinks, tasks.KindSummarizeFleet} {
		if _, err := task.PauseSchedule(ctx, task.Autocommit(p.pool), kind); err != nil {
			return err
		}
	}
	paused, err := fleetdb.Now(ctx, p.pool)
	if err != nil {
		return err
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if outlived, err := fleetdb.Outlived(ctx, p.pool, paused); err != nil || outlived {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// waitUntil returns when the progress is as wanted.
func (p *platform) waitUntil(ctx context.Context, wanted func(fleetdb.Progress) bool) error {
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		asked := time.Now()
		progress, err := fleetdb.ProgressOf(ctx, p.pool)
		if err != nil {
			return err
		}
		if wanted(progress) {
			return nil
		}
		// The question is about every job there was. It must not become the work.
		tick.Reset(max(200*time.Millisecond, 4*time.Since(asked)))
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (p *platform) showProgress(ctx context.Context) {
	tick := time.NewTicker(2 * time.Second)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		progress, err := fleetdb.ProgressOf(ctx, p.pool)
		if err != nil {
			continue // whoever works on the database says so
		}
		p.sayProgress(progress)
	}
}

func (p *platform) sayProgress(progress fleetdb.Progress) {
	p.taken.mu.Lock()
	positions := p.taken.positions
	p.taken.mu.Unlock()
	p.say("positions %d/%d  trips %d  crossings %d  silences %d  projected %d  reports %d  webhooks %d  notifications %d  left to do %d",
		positions, len(p.trace), progress.Trips, progress.Crossings, progress.Silences, progress.Projected,
		progress.Reports, progress.Delivered, progress.Notified, progress.Left()+progress.Ticking)
}
