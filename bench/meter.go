package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/pawlgo/pawl/bench/internal/subject"
)

const (
	// stall is how long a worker may do nothing before a measurement fails.
	stall = 45 * time.Second
	// look is how often it is looked at whether the work is done.
	look = time.Millisecond
)

// meter is the handler of all subjects, and the clock of all measurements.
type meter struct {
	first atomic.Int64 // when the first job started, in Unix nanoseconds
	count atomic.Int64 // jobs that were handled
	work  time.Duration
}

func (m *meter) handle(ctx context.Context, _ subject.Attempt) error {
	if m.first.Load() == 0 {
		m.first.CompareAndSwap(0, time.Now().UnixNano())
	}
	if m.work > 0 {
		select {
		case <-time.After(m.work):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	m.count.Add(1)
	return nil
}

// since is how long ago the first job started.
func (m *meter) since() time.Duration { return time.Since(time.Unix(0, m.first.Load())) }

// until waits until count says that n jobs were handled.
func until(ctx context.Context, n int64, count func() int64) error {
	ticker := time.NewTicker(look)
	defer ticker.Stop()
	last, moved := int64(-1), time.Now()
	for {
		now := count()
		switch {
		case now >= n:
			return nil
		case now != last:
			last, moved = now, time.Now()
		case time.Since(moved) > stall:
			return fmt.Errorf("stalled at %d of %d jobs", now, n)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ticker.C:
		}
	}
}

// settled waits until no job is claimed any more.
func settled(ctx context.Context, c subject.Client) error {
	for began := time.Now(); ; {
		busy, err := c.Busy(ctx)
		if err != nil || !busy {
			return err
		}
		if time.Since(began) > stall {
			return fmt.Errorf("jobs are still claimed after %v", stall)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(look):
		}
	}
}

// drain works off the n jobs that are due, with handlers that take a while, and
// returns how long that took: from the start of the first until the database says
// that the last one is done.
func (t *trial) drain(ctx context.Context, n int, handler time.Duration) (time.Duration, error) {
	before, err := t.client.Finished(ctx)
	if err != nil {
		return 0, err
	}
	m := &meter{work: handler}
	w, err := t.client.Start(ctx, t.settings, m.handle)
	if err != nil {
		return 0, err
	}
	if err = until(ctx, int64(n), m.count.Load); err == nil {
		err = settled(ctx, t.client)
	}
	took := m.since()
	if err := errors.Join(err, w.Stop(context.WithoutCancel(ctx))); err != nil {
		return 0, err
	}
	return took, t.check(ctx, before+n)
}

// check makes sure that the clock did not stop too early.
func (t *trial) check(ctx context.Context, want int) error {
	finished, err := t.client.Finished(ctx)
	if err != nil {
		return err
	}
	if finished != want {
		return fmt.Errorf("%d jobs are finished, of %d", finished, want)
	}
	return nil
}

func perSecond(n int, took time.Duration) float64 { return float64(n) / took.Seconds() }
