package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawlgo/pawl/bench/internal/subject"
)

const (
	heldClean    = "nothing held"
	heldSnapshot = "a snapshot held"
	heldXid      = "a transaction id held"
	trend        = "last third of the time, "
	ofFirst      = "of the first third"
)

var held = []scenario{{
	name: "held",
	what: "a minute of draining while somebody holds a repeatable-read snapshot, or an idle transaction that has written",
	run:  runHeld,
	bars: []bar{
		{what: "snapshot held to clean", of: value{"pawl", heldSnapshot}, per: value{"pawl", heldClean}, atLeast: 0.85},
		{what: "snapshot held: last third to first", of: value{"pawl", trend + heldSnapshot}, atLeast: 0.95},
		{what: "transaction id held to clean", of: value{"pawl", heldXid}, per: value{"pawl", heldClean}, atLeast: 0.85},
		{what: "transaction id held: last third to first", of: value{"pawl", trend + heldXid}, atLeast: 0.95},
	},
}}

// errRanOut says that a measurement does not count, since the worker was faster
// than was thought.
var errRanOut = errors.New("the backlog ran out")

func runHeld(ctx context.Context, b *bench) error {
	duration := pick(b, 60*time.Second, 20*time.Second, 900*time.Millisecond)
	for _, v := range []variant{pawlTuned, riverTuned} {
		// As many jobs as it can do in the time, and half as many again: with a
		// backlog that runs out, the snapshot would be held over nothing.
		sample := pick(b, 50_000, 20_000, 2000)
		var best float64
		err := b.try(ctx, v, "", nil, func(ctx context.Context, t *trial) error {
			if err := t.fill(ctx, subject.Batch{Kind: subject.Work, Count: sample, Silent: true}); err != nil {
				return err
			}
			took, err := t.drain(ctx, sample, 0)
			best = perSecond(sample, took)
			return err
		})
		if err != nil {
			return err
		}
		backlog := int(best*duration.Seconds()*1.5) + sample
		for range b.runs {
			for _, what := range []string{heldClean, heldSnapshot, heldXid} {
				for {
					err := b.try(ctx, v, fmt.Sprintf("backlog of %d", backlog), func(ctx context.Context, t *trial) error {
						return t.fill(ctx, subject.Batch{Kind: subject.Work, Count: backlog, Silent: true})
					}, func(ctx context.Context, t *trial) error {
						return t.measureHeld(ctx, what, duration, backlog)
					})
					if errors.Is(err, errRanOut) {
						backlog *= 2
						continue
					}
					if err != nil {
						return fmt.Errorf("%s, %s: %w", v.name, what, err)
					}
					break
				}
			}
		}
	}
	return nil
}

func (t *trial) measureHeld(ctx context.Context, what string, duration time.Duration, backlog int) (err error) {
	if what != heldClean {
		conn, connErr := pgx.ConnectConfig(ctx, t.db.pool.Config().ConnConfig)
		if connErr != nil {
			return connErr
		}
		defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
		sql := `BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM pg_class`
		if what == heldXid {
			sql = `BEGIN; SELECT pg_current_xact_id()`
		}
		if _, err := conn.Exec(ctx, sql, pgx.QueryExecModeSimpleProtocol); err != nil {
			return err
		}
	}
	m := &meter{}
	w, err := t.client.Start(ctx, t.settings, m.handle)
	if err != nil {
		return err
	}
	thirds, err := m.thirds(ctx, duration)
	if m.count.Load() >= int64(backlog) {
		err = errors.Join(err, errRanOut)
	}
	if err := errors.Join(err, w.Stop(context.WithoutCancel(ctx))); err != nil {
		return err
	}
	t.record(what, (thirds[0]+thirds[1]+thirds[2])/duration.Seconds(), perSec)
	t.record(trend+what, thirds[2]/thirds[0], ofFirst)
	return nil
}

// thirds counts the jobs of each third of a duration, from the first one on.
func (m *meter) thirds(ctx context.Context, duration time.Duration) (counts [3]float64, err error) {
	if err := until(ctx, 1, m.count.Load); err != nil {
		return counts, err
	}
	began := time.Unix(0, m.first.Load())
	before := int64(0)
	for i := range counts {
		select {
		case <-ctx.Done():
			return counts, ctx.Err()
		case <-time.After(time.Until(began.Add(duration * time.Duration(i+1) / 3))):
		}
		now := m.count.Load()
		if now == before {
			return counts, errors.New("nothing was done for a third of the time")
		}
		counts[i], before = float64(now-before), now
	}
	return counts, nil
}
