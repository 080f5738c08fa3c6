package runtime

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/pawlgo/pawl/internal/cron"
	"github.com/pawlgo/pawl/internal/dispatch"
	"github.com/pawlgo/pawl/internal/store"
)

const (
	// onTime is how late a tick may be found and still not be a missed one: a
	// restart and most failovers take less.
	onTime = 30 * time.Second
	// maxMissed is how many missed ticks the policy "all" makes up for, the last
	// ones.
	maxMissed = 1000
	// tickBatch is how many jobs one transaction makes at most for each of ticks
	// and requests.
	tickBatch = 100
	// prepareTimeout is how long code of the application's may take over the
	// payloads of one transaction. The server waits for longer.
	prepareTimeout = 5 * time.Second
)

// The policies for missed ticks.
const (
	missedSkip = "skip"
	missedOne  = "one"
)

// ticks is what is to be done about ticks that are due.
type ticks struct {
	run     []time.Time // that get a job, oldest first
	cursor  time.Time   // how far that goes
	missed  int
	skipped int // of those missed, without a job
}

// dueTicks says what is to be done, and whether there is anything. Where the oldest
// tick is found too late, there was a gap: then all that are due were missed, and
// the policy decides. Otherwise each gets its job.
func dueTicks(spec cron.Schedule, zone *time.Location, policy string, cursor, now time.Time) (ticks, bool) {
	last, all := spec.Due(cursor, now, zone, maxMissed)
	if all == 0 {
		return ticks{}, false
	}
	t := ticks{run: last, cursor: last[len(last)-1]}
	if now.Sub(spec.Next(cursor, zone)) > onTime {
		t.missed = all
		switch policy {
		case missedSkip:
			t.run = nil
		case missedOne:
			t.run = last[len(last)-1:]
		}
	}
	t.skipped = all - len(t.run)
	if rest := len(t.run) - tickBatch; rest > 0 {
		t.run = t.run[:tickBatch]
		t.cursor = t.run[tickBatch-1]
		t.missed = max(t.missed-rest, 0)
	}
	return t, true
}

// done is what came of one transaction about a schedule.
type done struct{ ticks, runs, missed, skipped int }

func (s *scheduler) count(kind string, d *done) {
	c := &s.w.counters.schedule
	c.ticks.Add(int64(d.ticks))
	c.runs.Add(int64(d.runs))
	c.missed.Add(int64(d.missed))
	c.skipped.Add(int64(d.skipped))
	s.w.metrics.ticked(kind, d)
	if d.missed > 0 {
		s.w.log.Warn("ticks of a schedule were missed: no worker that has it was there", "kind", kind, "missed", d.missed, "skipped", d.skipped)
	}
}

// tick makes the jobs of one schedule that are due, and returns when it is due
// again.
func (s *scheduler) tick(ctx context.Context, kind string) (next time.Time, err error) {
	var d done
	began := time.Now()
	err = s.w.store.Schedule(ctx, kind, func(t *store.Scheduling) error {
		if t.State == nil || t.State.Removed {
			return store.ErrScheduleMoved
		}
		if err := s.deal(ctx, t, s.now(t.Now), &d); err != nil {
			return err
		}
		if err := s.request(ctx, t, &d); err != nil {
			return err
		}
		next, err = s.next(t.State)
		return err
	})
	s.w.metrics.tick(began, err)
	if err == nil {
		s.count(kind, &d)
	}
	return next, err
}

// deal makes the jobs of ticks, of some where there are many, and moves the
// cursor of the schedule on.
func (s *scheduler) deal(ctx context.Context, t *store.Scheduling, now time.Time, d *done) error {
	x := t.State
	spec, zone, err := s.parse(x.Spec, x.Zone)
	if err != nil {
		return err
	}
	todo, ok := dueTicks(spec, zone, x.Missed, x.Cursor, now)
	if !ok {
		return nil
	}
	if x.Paused {
		last, _ := spec.Due(x.Cursor, now, zone, 1)
		todo = ticks{cursor: last[0]}
	}
	stores, err := s.prepare(ctx, x.Kind, todo.run, true)
	if err != nil {
		return err
	}
	// Who moves the cursor has the ticks. The lock saves the others the work.
	if err := t.Advance(ctx, store.Step{
		Cursor: todo.cursor, Next: spec.Next(todo.cursor, zone), Missed: todo.missed, Skipped: todo.skipped,
	}); err != nil {
		return err
	}
	x.Cursor = todo.cursor
	m, err := s.enqueue(ctx, t, stores)
	if err == nil && m.jobs > 0 {
		err = t.Ticked(ctx, todo.run[m.last], m.id, m.jobs)
	}
	if err != nil {
		return err
	}
	d.ticks += m.jobs
	d.missed += todo.missed
	d.skipped += todo.skipped
	return nil
}

// request makes the jobs that somebody has asked for.
func (s *scheduler) request(ctx context.Context, t *store.Scheduling, d *done) error {
	if t.State.Requests == 0 {
		return nil
	}
	_, zone, err := s.parse(t.State.Spec, t.State.Zone)
	if err != nil {
		return err
	}
	wanted, err := t.TakeRequests(ctx, tickBatch)
	if err != nil {
		return err
	}
	for i := range wanted {
		wanted[i] = wanted[i].In(zone)
	}
	stores, err := s.prepare(ctx, t.State.Kind, wanted, false)
	if err != nil {
		return err
	}
	m, err := s.enqueue(ctx, t, stores)
	d.runs += m.jobs
	return err
}

// made is what became of prepared jobs.
type made struct {
	jobs int       // that are new
	last int       // the position of the last of them
	id   uuid.UUID // and its id
}

// enqueue stores prepared jobs.
func (s *scheduler) enqueue(ctx context.Context, t *store.Scheduling, stores []dispatch.Store) (m made, err error) {
	for i, enqueue := range stores {
		id, duplicate, err := enqueue(ctx, t.Tx, s.w.schema)
		if err != nil {
			return made{}, err
		}
		if !duplicate {
			m = made{jobs: m.jobs + 1, last: i, id: id}
		}
	}
	return m, nil
}

// prepared are jobs that wait to be stored.
type prepared struct {
	stores []dispatch.Store
	err    error
}

var (
	errHung  = errors.New("ScheduledArgs has not returned yet, since an earlier tick")
	errSlow  = errors.New("ScheduledArgs takes longer than 5 seconds: it has to make the payload from its argument alone")
	errEnded = errors.New("ScheduledArgs has ended its goroutine")
)

// prepare makes jobs of some instants by code of the application's, which gets a
// goroutine of its own: it must not be able to stop a worker from stopping. While
// one does not return, its kind gets no other.
func (s *scheduler) prepare(ctx context.Context, kind string, at []time.Time, tick bool) ([]dispatch.Store, error) {
	if len(at) == 0 {
		return nil, nil
	}
	if hung := s.hung[kind]; hung != nil {
		select {
		case <-hung:
			delete(s.hung, kind)
		default:
			return nil, errHung
		}
	}
	answer := make(chan prepared, 1)
	go func() {
		p := prepared{err: errEnded}
		defer func() { answer <- p }()
		p = prepareAll(s.kinds[kind], at, tick)
	}()
	late := time.NewTimer(prepareTimeout)
	defer late.Stop()
	select {
	case p := <-answer:
		return p.stores, p.err
	case <-late.C:
		s.hung[kind] = answer
		return nil, errSlow
	case <-ctx.Done():
		s.hung[kind] = answer
		return nil, ctx.Err()
	}
}

func prepareAll(x *dispatch.Schedule, at []time.Time, tick bool) (p prepared) {
	for _, t := range at {
		enqueue, err := x.Prepare(t, tick)
		if err != nil {
			return prepared{err: err}
		}
		p.stores = append(p.stores, enqueue)
	}
	return p
}
