package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/pawlgo/pawl/bench/internal/subject"
)

const (
	startP50, startP99 = "enqueue to start, p50", "enqueue to start, p99"
	lateP50, lateP99   = "late after a retry's due time, p50", "late after a retry's due time, p99"
)

var latencies = []scenario{{
	name: "idle", quick: true,
	what: "one job at a time at idle workers with defaults, 20 to 250 ms apart: from the call of the enqueue to the start of the handler",
	run:  runIdle,
	bars: []bar{
		{what: "pawl to river, p50", of: value{"pawl defaults", startP50}, per: value{"river defaults", startP50}, atMost: 1},
		{what: "pawl to river, p99", of: value{"pawl defaults", startP99}, per: value{"river defaults", startP99}, atMost: 0.3},
	},
}, {
	name: "retry",
	what: "jobs that fail once, at workers with defaults: how late the second attempt starts, a second after the first",
	run:  runRetry,
}}

func runIdle(ctx context.Context, b *bench) error {
	samples := pick(b, 400, 45, 3)
	return b.compare(ctx, []variant{pawlDefaults, riverDefaults}, "", nil, func(ctx context.Context, t *trial) (err error) {
		started := make(chan time.Time, 1)
		w, err := t.client.Start(ctx, t.settings, func(context.Context, subject.Attempt) error {
			started <- time.Now()
			return nil
		})
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, w.Stop(context.WithoutCancel(ctx))) }()
		took := make([]time.Duration, 0, samples)
		// The first ones find a worker that is still starting.
		for n := range 5 + samples {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(20*time.Millisecond + rand.N(230*time.Millisecond)):
			}
			began := time.Now()
			if err := t.client.Insert(ctx, subject.Batch{Kind: subject.Work, First: int64(n), Count: 1}); err != nil {
				return err
			}
			select {
			case at := <-started:
				if n >= 5 {
					took = append(took, at.Sub(began))
				}
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(stall):
				return errors.New("the job was not started")
			}
		}
		t.percentiles(took, startP50, startP99)
		return nil
	})
}

func (t *trial) percentiles(all []time.Duration, p50, p99 string) {
	slices.Sort(all)
	at := func(q float64) float64 {
		return float64(all[int(q*float64(len(all)-1)+0.5)].Microseconds()) / 1000
	}
	t.record(p50, at(0.5), "ms")
	t.record(p99, at(0.99), "ms")
}

func runRetry(ctx context.Context, b *bench) error {
	samples := pick(b, 500, 100, 5)
	variants := []variant{pawlDefaults, riverDefaults}
	for i := range variants {
		variants[i].settings.Kinds = []subject.Kind{subject.Flaky}
	}
	return b.compare(ctx, variants, "", nil, func(ctx context.Context, t *trial) (err error) {
		var (
			mu   sync.Mutex
			late []time.Duration // guarded by mu
		)
		w, err := t.client.Start(ctx, t.settings, func(_ context.Context, a subject.Attempt) error {
			if a.Nth == 1 {
				return errors.New("the first attempt fails")
			}
			d := time.Since(a.DueAt)
			mu.Lock()
			defer mu.Unlock()
			late = append(late, d)
			return nil
		})
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, w.Stop(context.WithoutCancel(ctx))) }()
		for n := range samples {
			if err := t.client.Insert(ctx, subject.Batch{Kind: subject.Flaky, First: int64(n), Count: 1}); err != nil {
				return err
			}
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(rand.N(10 * time.Millisecond)):
			}
		}
		err = until(ctx, int64(samples), func() int64 {
			mu.Lock()
			defer mu.Unlock()
			return int64(len(late))
		})
		if err != nil {
			return err
		}
		t.percentiles(late, lateP50, lateP99)
		return nil
	})
}
