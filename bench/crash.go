package main

import (
	"context"
	"errors"
	"time"

	"github.com/pawlgo/pawl/bench/internal/subject"
)

const backAfter = "from kill -9 until the last of its jobs runs again"

var crashes = []scenario{{
	name: "crash",
	what: "a worker process is killed with 100 running jobs while another runs, both at defaults; River's default for such jobs is an hour, which is not waited for",
	run:  runCrash,
	bars: []bar{{what: "killed worker's jobs back", of: value{"pawl defaults", backAfter}, atMost: 20, unit: " s"}},
}}

func runCrash(ctx context.Context, b *bench) error {
	jobs := pick(b, 100, 100, 10)
	v := pawlDefaults
	v.settings.Lease = pick(b, 0, 0, time.Second)
	return b.compare(ctx, []variant{v}, "", nil, func(ctx context.Context, t *trial) (err error) {
		if err := t.fill(ctx, subject.Batch{Kind: subject.Work, Count: jobs}); err != nil {
			return err
		}
		victim, err := t.startChildren(ctx, 1, blockForever)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, victim.kill()) }()
		if err := until(ctx, int64(jobs), victim.count); err != nil {
			return err
		}
		m := &meter{}
		w, err := t.client.Start(ctx, t.settings, m.handle)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, w.Stop(context.WithoutCancel(ctx))) }()
		// The other one is not brand-new.
		select {
		case <-time.After(pick(b, 2*time.Second, 2*time.Second, 100*time.Millisecond)):
		case <-ctx.Done():
			return ctx.Err()
		}
		killed := time.Now()
		if err := victim.kill(); err != nil {
			return err
		}
		if err := until(ctx, int64(jobs), m.count.Load); err != nil {
			return err
		}
		t.record(backAfter, time.Since(killed).Seconds(), "s")
		return nil
	})
}
