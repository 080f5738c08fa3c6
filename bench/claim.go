package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/pawlgo/pawl/bench/internal/subject"
)

const claimSize = 100

func claimMetric(ready string) string { return "a claim of 100 at " + ready + " ready, p50" }

var claims = []scenario{{
	name: "claim",
	what: "the time of one claim of 100 jobs at 0, 10k, 1M and 5M waiting ones; River up to 1M",
	run:  runClaim,
	bars: []bar{
		{what: "5M ready to 10k", of: value{"pawl", claimMetric("5M")}, per: value{"pawl", claimMetric("10k")}, atMost: 1.2},
	},
}}

func runClaim(ctx context.Context, b *bench) (err error) {
	each := pick(b, 30, 10, 3)
	var trials []*trial
	defer func() {
		for _, t := range trials {
			t.client.Close()
			err = errors.Join(err, t.db.drop())
		}
	}()
	for _, v := range []variant{pawlTuned, riverTuned} {
		db, err := b.subjectDatabase(ctx, v, "", nil)
		if err != nil {
			return err
		}
		client, err := v.subject.Open(ctx, db.pool)
		if err != nil {
			return errors.Join(err, db.drop())
		}
		trials = append(trials, &trial{variant: v, b: b, db: db, client: client})
	}
	for _, at := range []struct {
		name  string
		ready int
		rival bool
	}{
		{"0", 0, true},
		{"10k", pick(b, 10_000, 10_000, 1000), true},
		{"1M", pick(b, 1_000_000, 100_000, 2000), true},
		{"5M", pick(b, 5_000_000, 500_000, 3000), false},
	} {
		there := trials
		if !at.rival {
			there = trials[:1]
		}
		for range b.runs {
			for _, t := range there {
				if err := t.topUp(ctx, at.ready); err != nil {
					return err
				}
				took, err := t.measureClaims(ctx, each, at.ready > 0)
				if err != nil {
					return err
				}
				t.record(claimMetric(at.name), float64(took.Microseconds())/1000, "ms")
			}
		}
	}
	return nil
}

// topUp brings the waiting jobs to n.
func (t *trial) topUp(ctx context.Context, n int) error {
	if n > t.ready {
		if err := t.fill(ctx, subject.Batch{Kind: subject.Work, Count: n - t.ready, Silent: true}); err != nil {
			return err
		}
		t.ready = n
	}
	return nil
}

// measureClaims claims several times and returns the median of the times.
func (t *trial) measureClaims(ctx context.Context, n int, some bool) (time.Duration, error) {
	var took []time.Duration
	for range n {
		began := time.Now()
		got, err := t.client.Claim(ctx, claimSize)
		if err != nil {
			return 0, err
		}
		took = append(took, time.Since(began))
		if some && got != claimSize {
			return 0, fmt.Errorf("a claim got %d jobs, of %d", got, claimSize)
		}
		t.ready -= got
	}
	slices.Sort(took)
	return took[len(took)/2], nil
}
