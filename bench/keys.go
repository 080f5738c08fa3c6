package main

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/pawlgo/pawl/bench/internal/subject"
)

var keys = []scenario{{
	name: "idempotent",
	what: "inserts with an idempotency key, new ones and duplicates, one by one by 8 writers, and in bulk",
	run:  runKeys,
}}

func runKeys(ctx context.Context, b *bench) error {
	const writers = 8
	duration := pick(b, 3*time.Second, time.Second, 50*time.Millisecond)
	bulk := pick(b, 50_000, 20_000, 200)
	return b.compare(ctx, []variant{pawlTuned, riverTuned}, "", nil, func(ctx context.Context, t *trial) error {
		one := func(n int64) error {
			return t.client.Insert(ctx, subject.Batch{Kind: subject.Once, First: n, Count: 1})
		}
		for range 2 * writers {
			if err := one(-1); err != nil {
				return err
			}
		}
		var number atomic.Int64
		each := func(n func() int64) (float64, error) {
			began := time.Now()
			end := began.Add(duration)
			done, err := inParallel(writers, func() (count int, err error) {
				for time.Now().Before(end) {
					if err := one(n()); err != nil {
						return count, err
					}
					count++
				}
				return count, nil
			})
			return perSecond(done, time.Since(began)), err
		}
		fresh, err := each(func() int64 { return number.Add(1) })
		if err != nil {
			return err
		}
		top := number.Load()
		again, err := each(func() int64 { return 1 + number.Add(1)%top })
		if err != nil {
			return err
		}
		t.record("new keys, 8 writers", fresh, perSec)
		t.record("duplicates, 8 writers", again, perSec)
		for _, metric := range []string{"new keys, in bulk", "duplicates, in bulk"} {
			began := time.Now()
			if err := t.fill(ctx, subject.Batch{Kind: subject.Once, First: 1 << 40, Count: bulk}); err != nil {
				return errors.Join(errors.New(metric), err)
			}
			t.record(metric, perSecond(bulk, time.Since(began)), perSec)
		}
		return nil
	})
}
