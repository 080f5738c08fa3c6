package main

import (
	"context"
	"fmt"
	"time"

	"github.com/pawlgo/pawl/example/check"
	"github.com/pawlgo/pawl/example/fleetdb"
)

// crash kills a worker in the middle of its work, and starts another one in its
// place, as a supervisor would.
func (p *platform) crash(ctx context.Context, victim *process) (*process, error) {
	if err := p.waitForVictim(ctx, victim); err != nil {
		return nil, err
	}
	if err := victim.kill(); err != nil {
		return nil, fmt.Errorf("kill the worker %s: %w", victim.name, err)
	}
	if err := fleetdb.Killed(ctx, p.pool, victim.name); err != nil {
		return nil, err
	}
	// How much it held is known at the end: rows of starts may still be on their
	// way into the database.
	p.say("worker %s is killed in the middle of its jobs", victim.name)
	w, err := p.startWorker("c")
	if err != nil {
		return nil, err
	}
	p.say("worker c takes its place: %d", w.cmd.Process.Pid)
	return w, nil
}

// waitForVictim waits until a worker holds so many started jobs that enough of
// them are left by the time the kill reaches it. In the first part of the trace
// it is too early, and in the middle it waits for a good mixture.
func (p *platform) waitForVictim(ctx context.Context, victim *process) error {
	const enough = check.MinHeld + 3
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		p.taken.mu.Lock()
		share := float64(p.taken.positions) / float64(len(p.trace))
		p.taken.mu.Unlock()
		if share < 0.25 {
			continue
		}
		held, err := fleetdb.Held(ctx, p.pool, victim.name)
		if err != nil {
			return err
		}
		if held.Jobs >= enough && (held.Queues >= 3 || share > 0.6) {
			return nil
		}
	}
}
