package main

import (
	"context"
	"fmt"
	"time"

	"github.com/pawlgo/pawl/bench/internal/subject"
)

var orders = []scenario{{
	name: "ordered",
	what: "jobs with an order key, over 1, 100 and 10,000 keys, and the same without one",
	run:  runOrder,
}}

func runOrder(ctx context.Context, b *bench) error {
	for range b.runs {
		for _, accounts := range []int{0, 10_000, 100, 1} {
			v, metric := pawlTuned, fmt.Sprintf("%d keys", accounts)
			batch := subject.Batch{Kind: subject.Ordered, Count: pick(b, 20_000, 5000, 100), Accounts: accounts, Silent: true}
			switch accounts {
			case 0:
				metric, batch.Kind = "no key", subject.Work
			case 1: // one after the other
				batch.Count = pick(b, 2000, 500, 10)
			}
			v.settings.Kinds = []subject.Kind{batch.Kind}
			err := b.try(ctx, v, "", nil, func(ctx context.Context, t *trial) error {
				began := time.Now()
				if err := t.fill(ctx, batch); err != nil {
					return err
				}
				t.record("bulk insert, "+metric, perSecond(batch.Count, time.Since(began)), perSec)
				took, err := t.drain(ctx, batch.Count, 0)
				if err != nil {
					return err
				}
				t.record("drain, "+metric, perSecond(batch.Count, took), perSec)
				return nil
			})
			if err != nil {
				return fmt.Errorf("%s: %w", metric, err)
			}
		}
	}
	return nil
}
