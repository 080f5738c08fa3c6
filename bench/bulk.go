package main

import (
	"context"
	"fmt"
	"time"

	"github.com/pawlgo/pawl/bench/internal/subject"
)

var bulks = []scenario{{
	name: "bulk", quick: true,
	what: "bulk insert on one connection, 1,000 and 5,000 jobs a transaction; River and the floor by COPY",
	run:  runBulk,
	bars: []bar{
		{what: "pawl to river, 5,000 a call", of: value{"pawl", bulkMetric(5000)}, per: value{"river", bulkMetric(5000)}, atLeast: 1.9},
		{what: "pawl to river, 1,000 a call", of: value{"pawl", bulkMetric(1000)}, per: value{"river", bulkMetric(1000)}, atLeast: 1.9},
	},
}}

func bulkMetric(batch int) string { return fmt.Sprintf("rate, %d a call", batch) }

func runBulk(ctx context.Context, b *bench) error {
	jobs := pick(b, 200_000, 50_000, 300)
	for _, batch := range []int{5000, 1000} {
		err := b.compare(ctx, []variant{pawlTuned, riverTuned, floor}, "", nil, func(ctx context.Context, t *trial) error {
			// The first call prepares statements and meets the first of everything.
			if err := t.client.InsertMany(ctx, subject.Batch{Kind: subject.Work, First: int64(jobs), Count: 10}); err != nil {
				return err
			}
			began := time.Now()
			for first := 0; first < jobs; first += batch {
				if err := t.client.InsertMany(ctx, subject.Batch{Kind: subject.Work, First: int64(first), Count: min(batch, jobs-first)}); err != nil {
					return err
				}
			}
			t.record(bulkMetric(batch), perSecond(jobs, time.Since(began)), perSec)
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}
