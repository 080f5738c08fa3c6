package main

import (
	"context"
	"time"

	"github.com/pawlgo/pawl/bench/internal/subject"
)

const (
	alone        = "alone"
	amongFuture  = "among 1M future and 1M finished"
	amongPaused  = "beside 1M paused in another queue"
	amongUnknown = "among 1M that no worker knows"
)

var crowds = []scenario{{
	name: "crowd",
	what: "a drain among a million jobs that are not to be done now",
	run:  runCrowd,
	bars: []bar{
		{what: "1M future and 1M finished to none", of: value{"pawl", amongFuture}, per: value{"pawl", alone}, atLeast: 0.95},
		{what: "1M paused to none", of: value{"pawl", amongPaused}, per: value{"pawl", alone}, atLeast: 0.95},
		{what: "1M stranded to none", of: value{"pawl", amongUnknown}, per: value{"pawl", alone}, atLeast: 0.95},
	},
}}

func runCrowd(ctx context.Context, b *bench) error {
	jobs, others := pick(b, 200_000, 50_000, 300), pick(b, 1_000_000, 100_000, 500)
	both := append([]subject.Kind{subject.Aside}, work...)
	cases := []struct {
		name     string
		variants []variant
		kinds    []subject.Kind
		prepare  func(ctx context.Context, t *trial) error
	}{{
		alone, []variant{pawlTuned, riverTuned}, work, nil,
	}, {
		amongFuture, []variant{pawlTuned, riverTuned}, work,
		func(ctx context.Context, t *trial) error {
			if err := t.fill(ctx, subject.Batch{Kind: subject.Work, Count: others, Silent: true}); err != nil {
				return err
			}
			if _, err := t.drain(ctx, others, 0); err != nil {
				return err
			}
			return t.fill(ctx, subject.Batch{Kind: subject.Work, Count: others, In: 30 * 24 * time.Hour, Silent: true})
		},
	}, {
		amongPaused, []variant{pawlTuned, riverTuned}, both,
		func(ctx context.Context, t *trial) error {
			if err := t.client.Pause(ctx, subject.Aside); err != nil {
				return err
			}
			return t.fill(ctx, subject.Batch{Kind: subject.Aside, Count: others, Silent: true})
		},
	}, {
		// River would run them and discard them.
		amongUnknown, []variant{pawlTuned}, work,
		func(ctx context.Context, t *trial) error {
			return t.fill(ctx, subject.Batch{Kind: subject.Unknown, Count: others, Silent: true})
		},
	}}
	for range b.runs {
		for _, c := range cases {
			for _, v := range c.variants {
				v.settings.Kinds = c.kinds
				err := b.try(ctx, v, c.name, c.prepare, func(ctx context.Context, t *trial) error {
					return t.measureDrain(ctx, c.name, jobs, 0)
				})
				if err != nil {
					return err
				}
			}
		}
	}
	return nil
}
