package runtime

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/pawlgo/pawl/internal/store"
	"github.com/pawlgo/pawl/task"
)

const (
	// settleBatch bounds one settlement statement.
	settleBatch = 512
	// settleBacklog is how many endings may wait for it. When it is full,
	// attempts wait with their slots, so that a database that does not answer
	// stops the claims too.
	settleBacklog = 2 * settleBatch
	// settleAgain is how long an ending rests that the database refuses for what
	// it is: a constraint of somebody's, a partition that was taken away.
	settleAgain = 2 * time.Second
	// settleTimeout bounds one try.
	settleTimeout = 10 * time.Second
)

// ending is the end of an attempt on its way to the database.
type ending struct {
	store.Settlement
	q       *queue
	owner   uuid.UUID
	kind    string
	attempt *attempt            // to be measured; nil without metrics
	suspect bool                // it holds the gate until its end is recorded
	unsure  bool                // the attempt may have been completed in its own transaction
	told    func(store.Outcome) // hears what was recorded; nil for nobody
}

// settler writes the ends of attempts. While one statement is under way the
// next ones gather, so that batches grow with the load and an idle worker
// waits for nothing.
type settler struct {
	w       *Worker
	endings chan ending

	// What follows is run's alone until it has returned.
	later    []ending // what the database refuses, to be tried again; at most settleBatch
	laterErr error    // why
	unsaved  int      // endings that were never saved
}

func newSettler(w *Worker) *settler {
	return &settler{w: w, endings: make(chan ending, settleBacklog)}
}

// add hands over an ending. After the worker has stopped it does nothing: what
// still ends then has lost its lease, or will.
func (s *settler) add(e ending) {
	select {
	case s.endings <- e:
	case <-s.w.stopped:
	}
}

// run settles until done is closed and nothing waits any more, or ctx ends.
func (s *settler) run(ctx context.Context, done <-chan struct{}) {
	defer func() { s.unsaved += len(s.endings) + len(s.later) }()
	batch := make([]ending, 0, settleBatch)
	again := time.NewTicker(settleAgain)
	defer again.Stop()
	for {
		batch = batch[:0]
		select {
		case e := <-s.endings:
			batch = append(batch, e)
		default:
			select {
			case e := <-s.endings:
				batch = append(batch, e)
			case <-again.C:
				s.settleLater(ctx)
				continue
			case <-ctx.Done():
				return
			case <-done:
				if len(s.endings) == 0 {
					s.settleLater(ctx) // a last time
					return
				}
				continue
			}
		}
		for len(batch) < settleBatch {
			select {
			case e := <-s.endings:
				batch = append(batch, e)
				continue
			default:
			}
			break
		}
		s.settleAll(ctx, batch)
		select {
		case <-again.C: // a busy settler has no idle moment for it
			s.settleLater(ctx)
		default:
		}
	}
}

// settleLater tries again what the database has refused.
func (s *settler) settleLater(ctx context.Context) {
	if len(s.later) == 0 {
		return
	}
	refused := s.later
	s.later = nil
	s.settleAll(ctx, refused)
	if n := len(s.later); n > 0 {
		s.w.error("settler", "the database refuses the ends of attempts; their jobs stay leased, and it is tried again",
			s.laterErr, "attempts", n, "again_in", settleAgain)
	}
}

// settleAll settles endings by owner. There are several only while those of a
// lost session and of its successor meet.
func (s *settler) settleAll(ctx context.Context, endings []ending) {
	for len(endings) > 0 {
		owner := endings[0].owner
		var mine, rest []ending
		for _, e := range endings {
			if e.owner == owner {
				mine = append(mine, e)
			} else {
				rest = append(rest, e)
			}
		}
		s.settle(ctx, owner, mine)
		endings = rest
	}
}

// settle writes endings of one owner, and tries again until the database has
// answered or ctx ends.
func (s *settler) settle(ctx context.Context, owner uuid.UUID, endings []ending) {
	settlements := make([]store.Settlement, len(endings))
	for i, e := range endings {
		settlements[i] = e.Settlement
	}
	began := time.Now()
	unsure := false // an earlier try may have been committed
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		recorded, err := s.try(ctx, owner, settlements)
		if err == nil {
			s.w.metrics.settled(time.Since(began), nil)
			s.report(endings, recorded, unsure)
			return
		}
		if ctx.Err() != nil {
			s.unsaved += len(endings)
			return
		}
		s.w.counters.settleErrors.Add(1)
		if refuses(err) {
			if len(endings) > 1 { // one of them is bad: find it, save the others
				for i := range endings {
					s.settle(ctx, owner, endings[i:i+1])
				}
				return
			}
			if settlements[0].Summary != "" { // in case its text is the reason
				settlements[0].Summary = ""
				continue
			}
			if len(s.later) < settleBatch {
				s.later, s.laterErr = append(s.later, endings[0]), err
				return
			}
			// Too many: from here on new ones wait too, and with them their slots.
		}
		unsure = unsure || !pgconn.SafeToRetry(err)
		s.w.warn("settler", "settlement failed, trying again", err, "jobs", len(endings))
		select {
		case <-ctx.Done():
			s.unsaved += len(endings)
			return
		case <-time.After(pause):
		}
	}
}

// refuses says that the statement is at fault, not the moment: the database
// answered, and will answer the same again.
func refuses(err error) bool {
	pgErr, ok := errors.AsType[*pgconn.PgError](err)
	return ok && pgErr.SeverityUnlocalized == "ERROR" && task.Classify(pgErr).Class != task.ClassTransient
}

func (s *settler) try(ctx context.Context, owner uuid.UUID, settlements []store.Settlement) ([]store.Outcome, error) {
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	began := time.Now()
	recorded, err := s.w.store.Settle(ctx, owner, settlements)
	s.w.metrics.database(opSettle, time.Since(began), len(settlements), err)
	return recorded, err
}

// report counts what was settled, and wakes a queue when its retries are due.
func (s *settler) report(endings []ending, recorded []store.Outcome, unsure bool) {
	c := &s.w.counters
	for i, e := range endings {
		s.w.holdings.done(e.Token)
		if e.suspect { // not before: the next one may end the process
			s.w.releaseSuspect(nil)
		}
		if e.Ordered {
			e.q.wake() // its end is another's turn
		}
		switch recorded[i] {
		case store.Refused:
			if !unsure && !e.unsure {
				c.refused.Add(1)
				s.w.log.Warn("a late settlement is refused: the lease was lost, and the job is another's now", "job", e.ID, "kind", e.kind)
			}
		case store.Completed:
			c.completed.Add(1)
		case store.Retry:
			c.retried.Add(1)
			e.q.dueIn(e.Delay)
		case store.Dead:
			c.dead.Add(1)
		case store.GiveBack:
			c.givenBack.Add(1)
			e.q.dueIn(e.Delay)
		case store.Cancelled:
			c.cancelled.Add(1)
		case store.Quarantine:
			c.quarantined.Add(1)
			s.w.log.Error("a job without a row of its own is set aside in the table quarantine", "job", e.ID)
		}
		if recorded[i] != store.Refused || !unsure && !e.unsure {
			s.w.metrics.ended(&endings[i], recorded[i])
		}
		if e.told != nil {
			e.told(recorded[i])
		}
	}
}
