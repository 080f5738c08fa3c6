package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/pawlgo/pawl/bench/internal/subject"
)

func queuesMetric(queues int, slots string) string {
	return fmt.Sprintf("rate, %d queues, %s", queues, slots)
}

func workersMetric(workers, processes int) string {
	return fmt.Sprintf("rate, %d workers in %d processes", workers, processes)
}

func bestMetric(processes int) string {
	return fmt.Sprintf("rate, the best number of workers in %d processes", processes)
}

const (
	slotsEach  = "100 slots each"
	slotsInAll = "320 slots in all"
)

var scales = []scenario{{
	name: "queues",
	what: "the same jobs in 1, 4 and 64 queues, one process",
	run:  runQueues,
	bars: []bar{
		{what: "64 queues to 1, 100 slots each", of: value{"pawl", queuesMetric(64, slotsEach)}, per: value{"pawl", queuesMetric(1, slotsEach)}, atLeast: 0.85},
		{what: "64 queues to 1, 320 slots in all", of: value{"pawl", queuesMetric(64, slotsInAll)}, per: value{"pawl", queuesMetric(1, slotsInAll)}, atLeast: 0.85},
	},
}, {
	name: "workers",
	what: "1 to 256 workers, split over 1, 2 and 4 processes",
	run:  runWorkers,
	bars: []bar{
		{what: "256 workers to the best number, in 1 process", of: value{"pawl", workersMetric(256, 1)}, per: value{"pawl", bestMetric(1)}, atLeast: 0.9},
		{what: "256 workers to the best number, in 4 processes", of: value{"pawl", workersMetric(256, 4)}, per: value{"pawl", bestMetric(4)}, atLeast: 0.9},
	},
}}

func runQueues(ctx context.Context, b *bench) error {
	jobs := pick(b, 192_000, 64_000, 640)
	for range b.runs {
		for _, c := range []struct {
			name  string
			slots func(queues int) int
		}{
			{slotsEach, func(int) int { return 100 }},
			{slotsInAll, func(queues int) int { return 320 / queues }},
		} {
			for _, queues := range pick(b, []int{1, 4, 64}, []int{1, 4, 64}, []int{1, 64}) {
				var kinds []subject.Kind
				for n := range queues {
					kinds = append(kinds, subject.Spread(n))
				}
				for _, v := range []variant{pawlTuned, riverTuned} {
					v.settings.Kinds, v.settings.Slots = kinds, c.slots(queues)
					err := b.try(ctx, v, "", nil, func(ctx context.Context, t *trial) error {
						for i, k := range kinds {
							if err := t.fill(ctx, subject.Batch{Kind: k, First: int64(i) * int64(jobs), Count: jobs / queues, Silent: true}); err != nil {
								return err
							}
						}
						took, err := t.drain(ctx, jobs, 0)
						if err != nil {
							return err
						}
						t.record(queuesMetric(queues, c.name), perSecond(jobs, took), perSec)
						return nil
					})
					if err != nil {
						return fmt.Errorf("%s, %d queues: %w", v.name, queues, err)
					}
				}
			}
		}
	}
	return nil
}

func runWorkers(ctx context.Context, b *bench) error {
	for range b.runs {
		top := make(map[int]float64)
		for _, workers := range pick(b, []int{1, 4, 16, 64, 256}, []int{1, 4, 16, 64, 256}, []int{1, 256}) {
			// Enough for some seconds, whatever the number.
			jobs := min(workers*pick(b, 2000, 500, 20), pick(b, 100_000, 20_000, 200))
			for _, processes := range []int{1, 2, 4} {
				if processes > workers {
					continue
				}
				v := pawlTuned
				v.settings.Slots = workers / processes
				err := b.try(ctx, v, "", nil, func(ctx context.Context, t *trial) error {
					got, err := t.drainBy(ctx, processes, jobs)
					if err != nil {
						return err
					}
					top[processes] = max(top[processes], got)
					t.record(workersMetric(workers, processes), got, perSec)
					return nil
				})
				if err != nil {
					return fmt.Errorf("%d workers in %d processes: %w", workers, processes, err)
				}
			}
		}
		for processes, got := range top {
			b.record(pawlTuned.name, bestMetric(processes), got, perSec)
		}
	}
	return nil
}

// drainBy works jobs off with processes and returns the rate.
func (t *trial) drainBy(ctx context.Context, processes, jobs int) (_ float64, err error) {
	if err := t.fill(ctx, subject.Batch{Kind: subject.Work, Count: jobs, Silent: true}); err != nil {
		return 0, err
	}
	group, err := t.startChildren(ctx, processes, "")
	if err != nil {
		return 0, err
	}
	err = until(ctx, int64(jobs), group.count)
	if err == nil {
		err = settled(ctx, t.client)
	}
	took := group.since()
	if err := errors.Join(err, group.stop()); err != nil {
		return 0, err
	}
	return perSecond(jobs, took), t.check(ctx, jobs)
}
