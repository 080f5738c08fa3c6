package runtime_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/pawlgo/pawl/internal/testdb"
	"github.com/pawlgo/pawl/task"
)

// chaosSeedEnv names one seed to run in place of the usual ones. As far as
// processes allow, the same seed brings the same events.
const chaosSeedEnv = "PAWL_CHAOS_SEED"

const (
	chaosLease     = time.Second
	chaosProducers = 4
	chaosSlots     = 3
	// chaosDrain bounds what it takes to work everything off when all is calm.
	chaosDrain = time.Minute
)

// Worker processes are killed, stopped for longer than their leases, and cut off;
// binaries are mixed; hands write to the tables. When all is quiet again, the
// books are exact.
func TestChaos(t *testing.T) {
	t.Parallel()
	chaosSeeds(t, 1, 2, 3500*time.Millisecond)
}

// chaosSeeds makes a run for each seed, with that much time for things to happen.
func chaosSeeds(t *testing.T, first, last uint64, d time.Duration) {
	if text := os.Getenv(chaosSeedEnv); text != "" {
		seed, err := strconv.ParseUint(text, 10, 64)
		require.NoError(t, err, chaosSeedEnv)
		first, last = seed, seed
	}
	name := t.Name()
	for seed := first; seed <= last; seed++ {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			t.Parallel()
			t.Logf("to have it again: %s=%d go test -run '^%s$' ./runtime", chaosSeedEnv, seed, name)
			newStorm(t, seed).run(t, d)
		})
	}
}

// storm is one chaos run.
type storm struct {
	seed  uint64
	r     *rand.Rand    // of the events
	pool  *pgxpool.Pool // for the books; nobody cuts its connections
	hand  *pgxpool.Pool // for what is written by hand
	slots []*slot
	plan  []planned // what is to happen, sorted by time
	locks sync.WaitGroup
	names int
	quiet bool // nothing happens any more
}

// planned is something that will happen.
type planned struct {
	at time.Time
	do func(t *testing.T)
}

// slot is the place of one worker process after another.
type slot struct {
	*child
	name       string
	generation int
	stopped    bool // by a signal
	down       bool // not to be started again yet
}

func newStorm(t *testing.T, seed uint64) *storm {
	t.Helper()
	s := &storm{seed: seed, r: rand.New(rand.NewPCG(seed, 0)), pool: testdb.Migrated(t)}
	exec(t, s.pool, chaosTables)
	s.hand = s.connect(t, "hand")
	return s
}

// connect returns a pool whose connections have a name.
func (s *storm) connect(t *testing.T, name string) *pgxpool.Pool {
	t.Helper()
	config := s.pool.Config()
	config.ConnConfig.RuntimeParams["application_name"] = name
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	return pool
}

func (s *storm) run(t *testing.T, d time.Duration) {
	for i := range chaosSlots {
		s.slots = append(s.slots, &slot{})
		s.spawn(t, s.slots[i], 1+i%2)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var producing sync.WaitGroup
	producers, failures := make([]*producer, chaosProducers), make([]error, chaosProducers)
	for i := range producers {
		name := fmt.Sprintf("producer %d", i)
		p := &producer{name: name, r: rand.New(rand.NewPCG(s.seed, uint64(1+i))), pool: s.connect(t, name), kinds: newChaosKinds()}
		producers[i] = p
		producing.Go(func() { failures[i] = p.run(ctx) })
	}
	s.blow(t, d)
	stop()
	producing.Wait()
	for i, p := range producers {
		require.NoError(t, failures[i])
		t.Logf("%s: %d transactions, and %d that failed", p.name, p.committed.Load(), p.failed.Load())
	}
	s.calm(t)
	s.end(t)
	t.Logf("%d processes, %s", s.names, query[string](t, s.pool, `SELECT string_agg(x, ', ') FROM (
		SELECT count(*) || ' enqueues of which ' || count(*) FILTER (WHERE duplicate) || ' duplicates' FROM books
		UNION ALL SELECT count(*) || ' leases' FROM lease_log WHERE opens
		UNION ALL SELECT count(*) || ' outcomes ' || outcome FROM pawl.outcomes GROUP BY outcome
		UNION ALL SELECT count(*) || ' errors ' || code FROM pawl.job_errors GROUP BY code
		UNION ALL SELECT count(*) || ' by hand ' || what FROM by_hand GROUP BY what
		UNION ALL SELECT count(*) || ' cancels ' || answer FROM cancels GROUP BY answer) c(x)`))
	requireLedgerExact(t, s.pool)
}

// spawn starts the next process of a slot.
func (s *storm) spawn(t *testing.T, p *slot, generation int) {
	s.names++
	c := childConfig{Lease: chaosLease, Chaos: &chaosWorker{
		Name: fmt.Sprintf("worker %d", s.names), Generation: generation, PollOnly: s.r.IntN(4) == 0,
	}}
	c.DieOnClaim = s.r.IntN(10) == 0 && s.names > chaosSlots && !s.quiet
	p.child, p.name, p.generation, p.stopped, p.down = spawn(t, s.pool, c), c.Chaos.Name, generation, false, false
}

// after plans something.
func (s *storm) after(d time.Duration, do func(t *testing.T)) {
	s.plan = append(s.plan, planned{time.Now().Add(d), do})
	slices.SortStableFunc(s.plan, func(a, b planned) int { return a.at.Compare(b.at) })
}

// blow lets things happen for a while, and then at once what was planned to end
// them.
func (s *storm) blow(t *testing.T, d time.Duration) {
	end := time.Now().Add(d)
	var next func(*testing.T)
	next = func(t *testing.T) {
		if time.Now().Before(end) {
			s.event(t)
			s.after(time.Duration(30+s.r.IntN(90))*time.Millisecond, next)
		}
	}
	s.after(300*time.Millisecond, next) // there is something to break by then
	for len(s.plan) > 0 {
		p := s.plan[0]
		if until := time.Until(p.at); until > 0 && time.Now().Before(end) {
			select {
			case <-time.After(until):
			case <-t.Context().Done():
				t.Fatal("the test ended")
			}
		}
		s.plan = s.plan[1:]
		p.do(t)
		s.tend(t)
	}
	s.locks.Wait()
}

// tend starts processes anew that have ended by themselves.
func (s *storm) tend(t *testing.T) {
	for _, p := range s.slots {
		if p.dead() && !p.down {
			s.spawn(t, p, s.generation())
		}
	}
}

// generation is that of the next process: in the end one that knows everything.
func (s *storm) generation() int {
	if s.quiet {
		return 2
	}
	return 1 + s.r.IntN(2)
}

func (p *child) dead() bool {
	select {
	case <-p.exited:
		return true
	default:
		return false
	}
}

// calm waits until everything is worked off.
func (s *storm) calm(t *testing.T) {
	s.quiet = true
	if first := s.slots[0]; first.generation == 1 { // somebody has to know the newest version
		s.kill(t, first)
	}
	// What no worker knows waits unharmed until an operator has an idea.
	rows, err := s.pool.Query(t.Context(), `SELECT h.id, COALESCE(r.attempts = h.attempts, false), EXISTS (SELECT FROM pawl.outcomes o WHERE o.job_id = h.id AND o.outcome = 5)
		FROM by_hand h LEFT JOIN pawl.ready r ON r.id = h.id WHERE h.what = 'strand'`)
	require.NoError(t, err)
	type stranded struct {
		ID                   uuid.UUID
		Untouched, Cancelled bool
	}
	all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[stranded])
	require.NoError(t, err)
	for _, x := range all {
		require.True(t, x.Untouched || x.Cancelled, "the stranded job %s", x.ID)
		state, err := task.Cancel(t.Context(), task.Autocommit(s.pool), x.ID)
		require.NoError(t, err)
		require.Equal(t, task.StateCancelled, state, "the stranded job %s", x.ID)
	}
	const left = `SELECT (SELECT count(*) FROM pawl.ready) || ' ready, ' || (SELECT count(*) FROM pawl.leases) || ' leases, '
		|| (SELECT count(*) FROM pawl.ordered) || ' ordered, ' || (SELECT count(*) FROM pawl.order_turns) || ' turns, '
		|| (SELECT count(*) FROM pawl.cancel_requests c WHERE NOT EXISTS (SELECT FROM by_hand h WHERE h.id = c.job_id AND h.what = 'lease')) || ' cancel requests, '
		|| (SELECT count(*) FROM pawl.processes p WHERE p.name <> ALL ($1)) || ' processes of the dead, '
		|| (SELECT count(*) FROM unnest($1::text[]) l(name) WHERE NOT EXISTS (SELECT FROM pawl.processes p WHERE p.name = l.name)) || ' starting, '
		|| (SELECT count(*) FROM pawl.sleepers s WHERE NOT EXISTS (SELECT FROM pawl.processes p WHERE p.id = s.process)) || ' of their wake-ups'`
	const none = "0 ready, 0 leases, 0 ordered, 0 turns, 0 cancel requests, 0 processes of the dead, 0 starting, 0 of their wake-ups"
	began := time.Now()
	for state := ""; state != none; {
		if time.Since(began) > chaosDrain {
			t.Fatalf("after %v there are still %s\n%s", chaosDrain, state, s.remains(t))
		}
		s.tend(t)
		select {
		case <-time.After(20 * time.Millisecond):
		case <-t.Context().Done():
			t.Fatal("the test ended")
		}
		var living []string
		for _, p := range s.slots {
			living = append(living, p.name)
		}
		state = query[string](t, s.pool, left, living)
	}
	t.Logf("calm after %v", time.Since(began).Round(time.Millisecond))
}

// remains describes what is not worked off.
func (s *storm) remains(t *testing.T) string {
	return query[string](t, s.pool, `SELECT string_agg(x, E'\n') FROM (
		(SELECT 'ready ' || r || ' ' || to_jsonb(b) FROM pawl.ready r LEFT JOIN books b ON b.id = r.id AND NOT b.duplicate LIMIT 5)
		UNION ALL (SELECT 'lease ' || l FROM pawl.leases l LIMIT 5)
		UNION ALL (SELECT 'ordered ' || o FROM pawl.ordered o ORDER BY order_key, seq LIMIT 20)
		UNION ALL (SELECT 'turn ' || o FROM pawl.order_turns o LIMIT 5)
		UNION ALL (SELECT 'process ' || p FROM pawl.processes p)
		UNION ALL (SELECT 'request ' || c || ' ' || COALESCE(to_jsonb(b)::text, '') FROM pawl.cancel_requests c LEFT JOIN books b ON b.id = c.job_id AND NOT b.duplicate)
		UNION ALL (SELECT 'by hand ' || h FROM by_hand h)) x(x)`)
}

// end stops the processes in order.
func (s *storm) end(t *testing.T) {
	for _, p := range s.slots {
		p.stop(t)
	}
}
