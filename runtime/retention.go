package runtime

import (
	"cmp"
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/pawlgo/pawl/internal/store"
)

// The defaults of [Retention].
const (
	DefaultHistory        = 7 * 24 * time.Hour
	DefaultDeadLetters    = 30 * 24 * time.Hour
	DefaultArchive        = 90 * 24 * time.Hour
	DefaultAudit          = 365 * 24 * time.Hour
	DefaultRetentionEvery = time.Hour
)

const (
	day = 24 * time.Hour

	retentionTimeout = 30 * time.Second
	// removeTimeout is how long a pass waits for the transactions that use a
	// table from which it takes an empty day away. The next pass goes on.
	removeTimeout = 5 * time.Second

	// Of the steps that are made in batches: each batch is a transaction of some
	// ten milliseconds.
	survivorsList = 10_000
	rekeyBatch    = 250
	archiveBatch  = 500
	purgeBatch    = 500
	keyBlocks     = 64

	// emptyTries, at about ten milliseconds each, is how often a pass tries to
	// get the lock on a day for the moment that it takes to empty it.
	emptyTries = 300
)

// Retention says for how long what is over is kept. Of each duration zero means
// the default, and below zero for ever. All workers of a database should have
// the same: what one of them removes is gone for all.
//
// Jobs that are not finished are kept in any case, however old they are.
type Retention struct {
	// History is how long a job is kept after it was enqueued, with its payload,
	// once it is finished; 7 days where zero, at least a day. It leaves when the
	// whole day of its enqueue is that old. A job that is unfinished for long is
	// moved to a later day now and then, from which it is counted anew.
	History time.Duration
	// Outcomes is how long it is known how a job ended, and with which errors,
	// counted from the end; as long as History where zero, and never shorter.
	Outcomes time.Duration
	// Events is how long an event is kept after it was published, once it is over,
	// and how long it is known how it ended; as long as History where zero, at
	// least a day. It leaves by whole days, as jobs do.
	Events time.Duration
	// DeadLetters is how long dead letters are kept, and dead events, counted from
	// their death; 30 days where zero. A dead event that holds up its aggregate is
	// kept in any case.
	DeadLetters time.Duration
	// ArchiveFinished moves finished jobs to the table archive when their
	// History is over, instead of removing them.
	ArchiveFinished bool
	// Archive is how long they are kept there, counted from the move; 90 days
	// where zero.
	Archive time.Duration
	// Redrives is how long redrives are kept, counted from when something last changed
	// in them, and the former lives of jobs, counted from when they were made to run
	// again; as long as DeadLetters where zero.
	Redrives time.Duration
	// Audit is how long a row of the audit is kept after something was last added to
	// it; 365 days where zero, at least 30.
	Audit time.Duration
	// Every is how often the workers of a database make a pass, one of them at a
	// time; an hour where zero.
	Every time.Duration
}

func (r Retention) withDefaults() (Retention, error) {
	r.History = cmp.Or(r.History, DefaultHistory)
	r.Outcomes = cmp.Or(r.Outcomes, r.History)
	r.Events = cmp.Or(r.Events, r.History)
	r.DeadLetters = cmp.Or(r.DeadLetters, DefaultDeadLetters)
	r.Archive = cmp.Or(r.Archive, DefaultArchive)
	r.Redrives = cmp.Or(r.Redrives, r.DeadLetters)
	r.Audit = cmp.Or(r.Audit, DefaultAudit)
	r.Every = cmp.Or(r.Every, DefaultRetentionEvery)
	switch {
	case r.History > 0 && r.History < day:
		// Jobs leave by whole days, and an unfinished one moves a day before.
		return r, wrong("Retention.History is %v: use 24h or more, or a negative duration to keep jobs for ever", r.History)
	case r.Events > 0 && r.Events < day:
		return r, wrong("Retention.Events is %v: use 24h or more, or a negative duration to keep events for ever", r.Events)
	case r.History < 0 && r.Outcomes > 0:
		return r, wrong("Retention.Outcomes is %v, and History is for ever: a job is kept with its outcome, so leave Outcomes out", r.Outcomes)
	case r.Outcomes > 0 && r.Outcomes < r.History:
		return r, wrong("Retention.Outcomes is %v, shorter than History %v: a job is kept with its outcome", r.Outcomes, r.History)
	case r.History < 0 && r.ArchiveFinished:
		return r, wrong("Retention.ArchiveFinished is set, and History is for ever: jobs are archived when their History is over")
	case r.Audit > 0 && r.Audit < store.MinAudit:
		return r, wrong("Retention.Audit is %v: use %v or more, or a negative duration to keep the audit for ever", r.Audit, store.MinAudit)
	case r.Every < time.Millisecond:
		return r, wrong("Retention.Every is %v: use a millisecond or more", r.Every)
	}
	return r, nil
}

// RetentionStats is what a worker has removed. The workers of a database share
// the work, so only their sum says something.
type RetentionStats struct {
	Passes int64
	Moved  int64 // unfinished jobs, to a later day

	Archived    int64 // finished jobs
	DeadLetters int64
	Keys        int64 // idempotency keys that had expired
	Redrives    int64 // and former lives of jobs
	Audit       int64 // rows

	Emptied int64 // days of a table
	Dropped int64 // empty days of a table
	PutOff  int64 // tries to empty a day that somebody still needed or had locked
	Errors  int64
}

// retain makes a pass when the worker starts and from time to time, unless
// another process has just made one.
func (w *Worker) retain(ctx context.Context) {
	every := w.config.Retention.Every
	// Often enough that a process that comes to its turn is not late by much.
	ticker := time.NewTicker(max(every/4, time.Millisecond))
	defer ticker.Stop()
	for {
		p := pass{w: w, ctx: ctx, keep: w.config.Retention}
		if p.begin() {
			w.counters.retention.passes.Add(1)
			p.run()
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// pass is one round of retention. A step that fails is left for the next pass,
// and keeps none of the others from being made.
type pass struct {
	w    *Worker
	ctx  context.Context
	keep Retention
}

// step runs one transaction of a pass, and says whether it worked.
func (p *pass) step(what string, f func(context.Context) error) bool {
	if p.ctx.Err() != nil {
		return false
	}
	ctx, cancel := context.WithTimeout(p.ctx, retentionTimeout)
	defer cancel()
	err := f(ctx)
	if err != nil && p.ctx.Err() == nil {
		p.w.counters.retention.errors.Add(1)
		p.w.warn("retention", "cannot "+what+"; the next pass tries again", err)
	}
	return err == nil
}

func (p *pass) begin() (mine bool) {
	p.step("begin to remove what is over", func(ctx context.Context) (err error) {
		mine, err = p.w.store.BeginRetention(ctx, p.keep.Every)
		return err
	})
	return mine
}

func (p *pass) run() {
	moving := p.moveSurvivors()
	leaves := p.leaves()
	if p.keep.History > 0 {
		for _, l := range due(leaves, store.Jobs, p.keep.History) {
			if p.keep.ArchiveFinished {
				p.archive(l)
			}
			if moving[l.Day] {
				// Transactions may be under way that see unfinished jobs there.
				p.putOff(l)
				continue
			}
			p.empty(l)
		}
	}
	if p.keep.Outcomes > 0 {
		for _, l := range slices.Concat(due(leaves, store.Outcomes, p.keep.Outcomes), due(leaves, store.JobErrors, p.keep.Outcomes)) {
			p.empty(l)
		}
	}
	if p.keep.Archive > 0 {
		for _, l := range due(leaves, store.Archive, p.keep.Archive) {
			p.empty(l)
		}
	}
	p.events()
	for _, l := range p.leaves() {
		// Whoever is about to add to a day has begun before its end.
		if l.State != store.Attached || !l.Used && l.Over > day {
			p.remove(l)
		}
	}
	p.purge()
}

// due are the leaves of a table that are to be emptied.
func due(leaves []store.Leaf, parent string, keep time.Duration) (all []store.Leaf) {
	for _, l := range leaves {
		if l.Parent == parent && l.State == store.Attached && l.Used && l.Over >= keep {
			all = append(all, l)
		}
	}
	return all
}

func (p *pass) leaves() (leaves []store.Leaf) {
	p.step("list the days that there are", func(ctx context.Context) (err error) {
		leaves, err = p.w.store.Leaves(ctx)
		return err
	})
	return leaves
}

// moveSurvivors moves unfinished jobs out of the days that are to be emptied
// next. It returns the days in which it has found some.
func (p *pass) moveSurvivors() map[int]bool {
	found := make(map[int]bool)
	for more := p.keep.History > 0; more; {
		var all []store.Survivor
		if !p.step("look for unfinished jobs of old days", func(ctx context.Context) (err error) {
			all, err = p.w.store.Survivors(ctx, p.keep.History, survivorsList)
			return err
		}) {
			break
		}
		progress := false
		for batch := range slices.Chunk(all, rekeyBatch) {
			for _, s := range batch {
				found[s.Day] = true
			}
			p.step("move unfinished jobs to a later day", func(ctx context.Context) error {
				moved, err := p.w.store.Rekey(ctx, batch)
				p.w.counters.retention.moved.Add(int64(moved))
				progress = progress || moved > 0
				return err
			})
		}
		more = progress && len(all) == survivorsList
	}
	return found
}

func (p *pass) archive(l store.Leaf) {
	var after uuid.UUID
	for {
		if !p.step("move finished jobs to the archive", func(ctx context.Context) error {
			moved, next, err := p.w.store.ArchiveJobs(ctx, l.Day, after, archiveBatch)
			p.w.counters.retention.archived.Add(int64(moved))
			after = next
			return err
		}) || after == uuid.Nil {
			return
		}
	}
}

func (p *pass) empty(l store.Leaf) { p.emptyBy(l, p.w.store.Empty) }

func (p *pass) emptyBy(l store.Leaf, try func(context.Context, store.Leaf, int) (store.Emptying, error)) {
	p.step("empty a day that is over", func(ctx context.Context) error {
		answer, err := try(ctx, l, emptyTries)
		switch {
		case err != nil:
		case answer == store.Emptied:
			p.w.counters.retention.emptied.Add(1)
			p.w.log.Info("emptied a day that is over", "table", l.Parent, "day", date(l))
		case answer == store.Locked:
			p.w.warn("retention", "cannot empty a day that is over: a transaction, a vacuum or a dump has it locked; the next pass tries again", nil,
				"table", l.Parent, "day", date(l))
			p.putOff(l)
		default:
			p.putOff(l)
		}
		return err
	})
}

func (p *pass) putOff(l store.Leaf) {
	p.w.counters.retention.putOff.Add(1)
	p.w.log.Debug("put off emptying a day", "table", l.Parent, "day", date(l))
}

// remove takes an empty day away, so that statements have few partitions to
// look at.
func (p *pass) remove(l store.Leaf) {
	p.step("remove an empty day", func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, removeTimeout)
		defer cancel()
		gone, err := p.w.store.Remove(ctx, l)
		if gone {
			p.w.counters.retention.dropped.Add(1)
		}
		return err
	})
}

// purge removes what is over row by row: dead letters, what operators have done, and
// idempotency keys.
func (p *pass) purge() {
	c, s := &p.w.counters.retention, p.w.store
	p.batches("remove old dead letters", p.keep.DeadLetters, &c.deadLetters, s.PurgeDeadLetters)
	// Lives after their redrives, which some of them stay for.
	p.batches("remove old redrives", p.keep.Redrives, &c.redrives, s.PurgeRedrives)
	p.batches("remove former lives of jobs", p.keep.Redrives, &c.redrives, s.PurgeLives)
	p.batches("remove old rows of the audit", p.keep.Audit, &c.audit, s.PurgeAudit)
	p.keys()
}

// batches removes what is older than keep, in transactions of a few rows each.
func (p *pass) batches(what string, keep time.Duration, count *atomic.Int64, purge func(context.Context, time.Duration, int) (int, error)) {
	for left := keep > 0; left; {
		ok := p.step(what, func(ctx context.Context) error {
			removed, err := purge(ctx, keep, purgeBatch)
			count.Add(int64(removed))
			left = removed == purgeBatch
			return err
		})
		left = left && ok
	}
}

func (p *pass) keys() {
	for block, left := 0, true; left; block += keyBlocks {
		ok := p.step("remove idempotency keys that have expired", func(ctx context.Context) error {
			removed, blocks, err := p.w.store.PurgeKeys(ctx, block, keyBlocks)
			p.w.counters.retention.keys.Add(int64(removed))
			left = block+keyBlocks < blocks
			return err
		})
		left = left && ok
	}
}

func date(l store.Leaf) string { return time.Unix(int64(l.Day)*86400, 0).UTC().Format(time.DateOnly) }
