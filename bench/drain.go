package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/pawlgo/pawl/bench/internal/subject"
)

const rate, perSec = "rate", "jobs/s"

var drains = []scenario{{
	name: "drain", quick: true,
	what: "a backlog of no-op jobs, tuned and at defaults",
	run:  runDrain,
	bars: []bar{
		{what: "pawl to river, tuned", of: value{"pawl", rate}, per: value{"river", rate}, atLeast: 4},
		{what: "pawl to river, defaults", of: value{"pawl defaults", rate}, per: value{"river defaults", rate}, atLeast: 20},
	},
}, {
	name: "handlers",
	what: "a backlog whose handlers wait 1, 2 and 5 ms",
	run:  runHandlers,
}, {
	name: "batch",
	what: "10,000 jobs with 4 workers of 1, 10, 100 and 500 slots, which bound what one claim takes",
	run:  runBatch,
}}

func runDrain(ctx context.Context, b *bench) error {
	tuned, defaults := pick(b, 200_000, 50_000, 300), pick(b, 50_000, 5_000, 300)
	for _, c := range []struct {
		jobs     int
		variants []variant
	}{{tuned, []variant{pawlTuned, riverTuned, floor}}, {defaults, []variant{pawlDefaults, riverDefaults}}} {
		err := b.compare(ctx, c.variants, "", nil, func(ctx context.Context, t *trial) error {
			return t.measureDrain(ctx, rate, c.jobs, 0)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// measureDrain stores jobs, works them off and records at what rate.
func (t *trial) measureDrain(ctx context.Context, metric string, jobs int, handler time.Duration) error {
	if err := t.fill(ctx, subject.Batch{Kind: subject.Work, Count: jobs, Silent: true}); err != nil {
		return err
	}
	took, err := t.drain(ctx, jobs, handler)
	if err != nil {
		return err
	}
	t.record(metric, perSecond(jobs, took), perSec)
	return nil
}

func runHandlers(ctx context.Context, b *bench) error {
	jobs := pick(b, 20_000, 5_000, 200)
	handlers := []time.Duration{time.Millisecond, 2 * time.Millisecond, 5 * time.Millisecond}
	for _, handler := range handlers[:pick(b, 3, 3, 1)] {
		err := b.compare(ctx, []variant{pawlTuned, riverTuned, pawlDefaults, riverDefaults}, "", nil, func(ctx context.Context, t *trial) error {
			return t.measureDrain(ctx, fmt.Sprintf("rate, handlers of %v", handler), jobs, handler)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func runBatch(ctx context.Context, b *bench) error {
	jobs := pick(b, 10_000, 10_000, 200)
	sizes := []int{1, 10, 100, 500}
	for _, slots := range sizes[:pick(b, 4, 4, 2)] {
		variants := slices.Clone([]variant{pawlTuned, riverTuned})
		for i := range variants {
			variants[i].settings.Slots, variants[i].settings.Fetchers = slots, 4
		}
		err := b.compare(ctx, variants, "", nil, func(ctx context.Context, t *trial) error {
			return t.measureDrain(ctx, fmt.Sprintf("rate, 4 workers of %d slots", slots), jobs, 0)
		})
		if err != nil {
			return err
		}
	}
	return nil
}
