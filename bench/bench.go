package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"time"

	"github.com/pawlgo/pawl/bench/internal/subject"
)

// size is how much of everything a run measures.
type size int

const (
	sizeFull size = iota
	sizeQuick
	sizeTiny // for tests: whether it works, not how fast
)

// measureTimeout bounds one measurement with its preparations.
const measureTimeout = 20 * time.Minute

// bench is one run of the program.
type bench struct {
	url      string // of the server
	runs     int
	size     size
	progress io.Writer

	scenario  string // the one that runs
	results   results
	templates map[string]string // database by what it was made for; of the scenario that runs
	made      []string          // all databases, whether they are still there or not
}

// pick returns what fits the size of the run.
func pick[T any](b *bench, full, quick, tiny T) T {
	return [...]T{full, quick, tiny}[b.size]
}

// run runs one scenario. What it has measured before an error stays.
func (b *bench) run(ctx context.Context, s scenario) (err error) {
	b.scenario, b.templates = s.name, make(map[string]string)
	began := time.Now()
	b.tell("%s: %s", s.name, s.what)
	defer func() {
		for _, name := range b.templates {
			err = errors.Join(err, b.dropDatabase(name))
		}
		b.tell("%s: took %v", s.name, time.Since(began).Round(time.Second))
	}()
	return s.run(ctx, b)
}

func (b *bench) tell(format string, args ...any) { fmt.Fprintf(b.progress, format+"\n", args...) }

// record takes a measured value of a subject.
func (b *bench) record(subject, metric string, v float64, unit string) {
	b.results.add(b.scenario, value{subject, metric}, v, unit)
	b.tell("  %-16s %-52s %10s %s", subject, metric, short(v), unit)
}

// variant is a subject with settings, under the name that the report calls it.
type variant struct {
	name     string
	subject  subject.Subject
	settings subject.Settings
}

// The variants that most scenarios take from.
var (
	pawlTuned     = variant{"pawl", subject.Pawl{}, subject.Settings{Kinds: work, Tuned: true}}
	riverTuned    = variant{"river", subject.River{}, subject.Settings{Kinds: work, Tuned: true}}
	pawlDefaults  = variant{"pawl defaults", subject.Pawl{}, subject.Settings{Kinds: work, Slots: 100}}
	riverDefaults = variant{"river defaults", subject.River{}, subject.Settings{Kinds: work, Slots: 100}}
	floor         = variant{"floor", subject.Floor{}, subject.Settings{Kinds: work}}

	work = []subject.Kind{subject.Work}
)

// trial is one measurement of one variant in a database of its own.
type trial struct {
	variant
	b      *bench
	db     *database
	client subject.Client
	ready  int // waiting jobs, where a scenario keeps count
}

// record takes a value of the variant.
func (t *trial) record(metric string, v float64, unit string) { t.b.record(t.name, metric, v, unit) }

// compare measures the variants in turn, as often as the run says. Prepare, which
// may be nil, fills the database that each measurement of a subject starts from;
// it is done once for each subject and key.
func (b *bench) compare(ctx context.Context, variants []variant, key string, prepare, measure func(context.Context, *trial) error) error {
	for range b.runs {
		for _, v := range variants {
			if err := b.try(ctx, v, key, prepare, measure); err != nil {
				return fmt.Errorf("%s: %w", v.name, err)
			}
		}
	}
	return nil
}

func (b *bench) try(ctx context.Context, v variant, key string, prepare, measure func(context.Context, *trial) error) (err error) {
	ctx, cancel := context.WithTimeout(ctx, measureTimeout)
	defer cancel()
	db, err := b.subjectDatabase(ctx, v, key, prepare)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.drop()) }()
	client, err := v.subject.Open(ctx, db.pool)
	if err != nil {
		return err
	}
	t := &trial{variant: v, b: b, db: db, client: client}
	defer func() { t.client.Close() }()
	// Nothing of the one before is left to be written or collected.
	if err := b.checkpoint(ctx); err != nil {
		return err
	}
	runtime.GC()
	return measure(ctx, t)
}

// fillBatch is how many jobs a bulk insert stores at once.
const fillBatch = 5000

// fill stores jobs in bulk, a batch at a time.
func (t *trial) fill(ctx context.Context, all subject.Batch) error {
	left := all.Count
	for left > 0 {
		all.Count = min(left, fillBatch)
		if err := t.client.InsertMany(ctx, all); err != nil {
			return fmt.Errorf("insert: %w", err)
		}
		all.First += int64(all.Count)
		left -= all.Count
	}
	return nil
}
