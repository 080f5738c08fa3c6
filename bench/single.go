package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlgo/pawl/bench/internal/subject"
)

// How the jobs of a single insert are committed, and who listens meanwhile.
const (
	inTx       = "in a transaction"
	autocommit = "autocommit"
	listened   = "a worker of another queue listens"
	worked     = "a worker does them"
)

var singles = []scenario{{
	name: "single", quick: true,
	what: "jobs inserted one by one by 1, 8 and 64 writers, in a caller's transaction and autocommit, with wake-ups and without",
	run:  runSingle,
	bars: singleBars(),
}}

func singleMetric(how, who string, writers int) string {
	return fmt.Sprintf("%s, %d writers, %s", how, writers, who)
}

func singleBars() (bars []bar) {
	for _, who := range []string{listened, worked} {
		for _, x := range []struct {
			writers int
			atLeast float64
		}{{1, 1}, {8, 1.8}} {
			m := singleMetric(inTx, who, x.writers)
			bars = append(bars, bar{what: "pawl to river, " + m, of: value{"pawl", m}, per: value{"river", m}, atLeast: x.atLeast})
		}
		m := singleMetric(inTx, who, 64)
		bars = append(bars, bar{what: "wake-ups to none, " + m, of: value{"pawl", m}, per: value{"pawl without wake-ups", m}, atLeast: 0.9})
	}
	return bars
}

func runSingle(ctx context.Context, b *bench) error {
	silent := pawlDefaults
	silent.name = "pawl without wake-ups"
	waking, rival := pawlDefaults, riverDefaults
	waking.name, rival.name = "pawl", "river"
	hows := pick(b, []string{inTx, autocommit}, []string{inTx}, []string{inTx})
	whos := pick(b, []string{listened, worked}, []string{listened}, []string{listened, worked})
	for _, who := range whos {
		for _, how := range hows {
			variants := []variant{waking, rival, silent}
			if who == listened {
				variants = append(variants, floor)
			}
			err := b.compare(ctx, variants, "", nil, func(ctx context.Context, t *trial) error {
				return t.measureSingles(ctx, how, who, t.name == silent.name)
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

func (t *trial) measureSingles(ctx context.Context, how, who string, silent bool) (err error) {
	settings := t.settings
	if who == listened {
		settings.Kinds = []subject.Kind{subject.Aside}
	}
	if t.subject != (subject.Floor{}) {
		w, startErr := t.client.Start(ctx, settings, (&meter{}).handle)
		if startErr != nil {
			return startErr
		}
		defer func() { err = errors.Join(err, w.Stop(context.WithoutCancel(ctx))) }()
	}
	var number atomic.Int64
	for _, writers := range []int{1, 8, 64} {
		got, err := t.write(ctx, how, silent, writers, &number)
		if err != nil {
			return err
		}
		t.record(singleMetric(how, who, writers), got, perSec)
	}
	return nil
}

// write inserts jobs one by one with several writers for a while, each on a
// connection of its own, and returns how many a second were committed.
func (t *trial) write(ctx context.Context, how string, silent bool, writers int, number *atomic.Int64) (float64, error) {
	config, err := t.db.config()
	if err != nil {
		return 0, err
	}
	config.MaxConns = int32(writers)
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return 0, err
	}
	defer pool.Close()
	client, err := t.subject.Open(ctx, pool)
	if err != nil {
		return 0, err
	}
	defer client.Close()
	insert := func() error {
		job := subject.Batch{Kind: subject.Work, First: number.Add(1), Count: 1, Silent: silent}
		if how == autocommit {
			return client.Insert(ctx, job)
		}
		return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error { return client.InsertTx(ctx, tx, job) })
	}

	// A first round opens the connections and prepares their statements.
	if _, err := inParallel(writers, func() (int, error) { return 0, insert() }); err != nil {
		return 0, err
	}
	began := time.Now()
	end := began.Add(pick(t.b, 3*time.Second, time.Second, 50*time.Millisecond))
	done, err := inParallel(writers, func() (n int, err error) {
		for time.Now().Before(end) {
			if err := insert(); err != nil {
				return n, err
			}
			n++
		}
		return n, nil
	})
	return perSecond(done, time.Since(began)), err
}

// inParallel runs do n times at once and adds up what they return.
func inParallel(n int, do func() (int, error)) (int, error) {
	var (
		wait sync.WaitGroup
		sum  atomic.Int64
		errs = make([]error, n)
	)
	for i := range n {
		wait.Go(func() {
			got, err := do()
			sum.Add(int64(got))
			errs[i] = err
		})
	}
	wait.Wait()
	return int(sum.Load()), errors.Join(errs...)
}
