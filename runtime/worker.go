package runtime

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.opentelemetry.io/otel/trace"

	"github.com/pawlgo/pawl/internal/store"
	"github.com/pawlgo/pawl/migrations"
	"github.com/pawlgo/pawl/task"
)

// Worker claims jobs and runs their handlers. Make it with [New].
type Worker struct {
	config Config
	user   *pgxpool.Pool
	schema string
	log    logger
	queues []*queue
	relay  *relay // nil without events
	ticks  *scheduler
	ran    atomic.Bool

	// These exist while it runs.
	observe  observer // nil for none
	store    *store.Store
	keeper   *keeper
	settler  *settler
	attempts *running
	stopped  chan struct{} // closed when Run is about to return

	holdings holdings
	crew     *crew
	claimer  *claimer
	cancels  chan struct{} // somebody asked to cancel a job
	suspect  chan struct{} // the gate of suspects: holds a token while none runs
	vain     atomic.Int64  // when it was last passed in vain, in Unix nanoseconds
	counters counters
	metrics  *metrics     // nil without a provider
	tracer   trace.Tracer // nil without a provider
	repeats  repeats
	health   health
	contact  chan struct{} // the database answers again
}

// New makes a worker for the tables of the configuration. The pool is the
// user's: the worker takes its configuration and opens a small one of its own,
// so that handlers that use up the user's cannot cost it its leases.
//
// An error is [ErrConfig] and says what to change. Nothing is connected yet.
func New(pool *pgxpool.Pool, config Config) (*Worker, error) {
	if pool == nil {
		return nil, wrong("the pool is nil")
	}
	config, err := config.withDefaults()
	if err != nil {
		return nil, err
	}
	served, err := config.queues()
	if err != nil {
		return nil, err
	}
	events, err := config.events()
	if err != nil {
		return nil, err
	}
	w := &Worker{config: config, user: pool, schema: cmp.Or(config.Schema, store.DefaultSchema), cancels: make(chan struct{}, 1), suspect: make(chan struct{}, 1), stopped: make(chan struct{}), contact: make(chan struct{}, 1)}
	w.log = guard(config.Logger, &w.counters.logPanics)
	w.health.init(&config)
	w.suspect <- struct{}{}
	w.crew = newCrew(w.stopped)
	w.claimer = &claimer{all: w.claimAll}
	for _, s := range served {
		w.queues = append(w.queues, newQueue(w, s))
	}
	if w.ticks, err = newScheduler(w, served); err != nil {
		return nil, err
	}
	if len(events) > 0 {
		w.relay = newRelay(w, events)
	}
	if w.metrics, err = newMetrics(w); err != nil {
		return nil, err
	}
	if config.TracerProvider != nil {
		w.tracer = config.TracerProvider.Tracer(tracerName)
	}
	return w, nil
}

// ErrAlreadyRun says that Run was called a second time. Make a new worker.
var ErrAlreadyRun = errors.New("the worker has run before: make a new one")

// lastWords is how long a shutdown that has used up its limit may still take to
// save what it can.
const lastWords = 500 * time.Millisecond

// startTimeout bounds what Run asks the database before its loops begin.
const startTimeout = 30 * time.Second

// ErrUnsaved says that a shutdown could not save how some attempts ended, since
// the database did not answer before the hard limit. Their jobs are left to
// their leases and run again.
var ErrUnsaved = errors.New("the ends of attempts could not be saved; their jobs run again when the lease ends")

// StillRunning is the error of a shutdown whose hard limit passed before every
// handler had returned. Their jobs are left to their leases: others take them
// within one.
type StillRunning struct {
	Jobs []RunningJob
}

// RunningJob names a job whose handler was running as the worker stopped, or an
// event whose projection was: then Kind is its type, and Queue is empty.
type RunningJob struct {
	ID      uuid.UUID
	Kind    string
	Queue   string
	Attempt int
	Since   time.Time
}

func (e *StillRunning) Error() string {
	names := make([]string, len(e.Jobs))
	for i, j := range e.Jobs {
		names[i] = fmt.Sprintf("%s %s (attempt %d)", j.Kind, j.ID, j.Attempt)
	}
	return fmt.Sprintf("the worker stopped at its hard limit while %d handlers were running; others take their jobs when the lease ends: %s",
		len(e.Jobs), strings.Join(names, ", "))
}

// Run claims and runs jobs until ctx ends, then shuts down: it stops claiming,
// waits for running handlers, ends their contexts with [task.ErrShutdown] at
// the soft limit, and returns when they have returned and what they did is
// saved, at the latest half a second after the hard limit. A drained shutdown
// returns nil; one that ran into the hard limit returns a [*StillRunning],
// [ErrUnsaved] or both.
//
// It returns an error at once where the database cannot be reached or its
// schema does not fit ([migrations.ErrBehind], [migrations.ErrNewer]). After
// that it lives through any outage. A worker runs once.
func (w *Worker) Run(ctx context.Context) error {
	return w.run(ctx, nil, func(ctx context.Context) {
		var loops sync.WaitGroup
		for _, q := range w.queues {
			loops.Go(func() { q.run(ctx) })
		}
		loops.Go(func() { w.ticks.run(w.metrics.into(ctx)) })
		loops.Wait()
		<-ctx.Done() // without any queue
	})
}

// run is a worker's life around its work, which claims and starts attempts until
// it is done, or ctx ends. Observe hears how each ended; it is nil for a worker
// that is to live on, which listens and takes its turn at retention. A short life
// would take the turn and not get through.
func (w *Worker) run(ctx context.Context, observe observer, work func(context.Context)) error {
	if w.ran.Swap(true) {
		return ErrAlreadyRun
	}
	w.observe = observe
	defer w.health.phase.Store(phaseReturned)
	schema := w.schema
	// What the worker's own goroutines use outlives ctx by the shutdown.
	base := context.WithoutCancel(ctx)
	st, err := store.Open(base, w.user, schema, int32(w.connections()))
	if err != nil {
		return err
	}
	defer st.Close()
	w.store = st
	starting, started := context.WithTimeout(ctx, startTimeout)
	defer started()
	if err := migrations.Check(starting, st.DB(), migrations.Options{Schema: schema}); err != nil {
		return err
	}
	if w.metrics != nil {
		registration, err := w.metrics.observe(w)
		if err != nil {
			return err
		}
		defer func() { _ = registration.Unregister() }()
	}

	handlers, endHandlers := context.WithCancelCause(w.metrics.into(base))
	defer endHandlers(nil)
	services, endServices := context.WithCancel(base)
	defer endServices()
	w.keeper, w.settler, w.attempts = newKeeper(w, handlers), newSettler(w), newRunning()

	sent := time.Now()
	process, err := w.keeper.register(starting)
	if err != nil {
		return fmt.Errorf("register the process: %w", err)
	}
	w.registerKinds(ctx)
	w.health.serve()

	var helpers, settling sync.WaitGroup
	keeping, endKeeping := context.WithCancel(services)
	defer endKeeping()
	kept := make(chan uuid.UUID, 1)
	go func() { kept <- w.keeper.run(keeping, process, sent) }()
	helpers.Go(func() { w.sweep(services) })
	helpers.Go(func() { w.watchCancels(services) })
	if observe == nil {
		helpers.Go(func() { w.retain(services) })
		if w.metrics != nil {
			helpers.Go(func() { w.sample(services) })
		}
		if !w.config.PollOnly {
			helpers.Go(func() { w.listen(services) })
		}
	}
	if w.relay != nil {
		w.relay.handlers = handlers
		helpers.Go(func() { w.relay.watch(services) })
	}
	drained := make(chan struct{})
	settling.Go(func() { w.settler.run(services, drained) })
	worked := make(chan struct{})
	go func() {
		defer close(worked)
		work(ctx)
	}()
	relayed := w.relaying(ctx, observe == nil)
	for _, q := range w.queues {
		if most := int(w.user.Config().MaxConns); q.alone != nil && q.concurrency > most {
			w.log.Warn("a queue with transactional tasks has more slots than the pool has connections; the rest wait for one",
				"queue", q.name, "concurrency", q.concurrency, "connections", most)
		}
	}
	w.log.Info("worker started", "name", w.config.Name, "queues", len(w.queues))

	select {
	case <-ctx.Done():
	case <-worked:
	}
	began := time.Now()
	w.health.phase.Store(phaseStopping)
	w.log.Info("worker shutting down", "running", w.counters.running.Load())
	<-worked
	left := w.drain(began, relayed, endHandlers)

	// Save what has ended. The hard limit bounds that too.
	close(drained)
	ending, cancel := context.WithTimeout(services, max(time.Until(began.Add(w.config.HardLimit)), lastWords))
	defer cancel()
	context.AfterFunc(ending, endServices)
	settling.Wait()
	// The keeper would take the row that is removed for one that was lost, and
	// make another.
	endKeeping()
	process = <-kept
	w.reconcile(ending, process)
	if err := w.store.Unregister(ending, process); err != nil {
		w.log.Warn("cannot remove the process's row; it expires by itself", "error", err)
	}
	close(w.stopped)
	endServices()
	helpers.Wait()
	w.log.Info("worker stopped", "after", time.Since(began))
	if len(left) > 0 {
		err = &StillRunning{Jobs: left}
	}
	if n := w.settler.unsaved; n > 0 {
		err = errors.Join(err, fmt.Errorf("%d attempts: %w", n, ErrUnsaved))
	}
	return err
}

// relaying starts the relay's loop, where there is one to start, and returns
// what is closed when it has ended.
func (w *Worker) relaying(ctx context.Context, loop bool) <-chan struct{} {
	if w.relay == nil || !loop {
		ended := make(chan struct{})
		close(ended)
		return ended
	}
	go w.relay.run(ctx)
	return w.relay.finished
}

// drain waits for the attempts and projections to end and returns those that did
// not.
func (w *Worker) drain(began time.Time, relayed <-chan struct{}, endHandlers context.CancelCauseFunc) []RunningJob {
	soft := time.NewTimer(time.Until(began.Add(w.config.SoftLimit)))
	defer soft.Stop()
	hard := time.NewTimer(time.Until(began.Add(w.config.HardLimit)))
	defer hard.Stop()
	attempts := w.attempts.empty()
	for attempts != nil || relayed != nil {
		select {
		case <-attempts:
			attempts = nil
		case <-relayed:
			relayed = nil
		case <-soft.C:
			w.log.Warn("soft limit: ending the contexts of handlers", "running", w.counters.running.Load())
			endHandlers(task.ErrShutdown)
		case <-hard.C:
			left := w.attempts.list()
			if w.relay != nil {
				left = append(left, w.relay.list()...)
			}
			return left
		}
	}
	return nil
}

// takeSuspect takes the gate: the right to run one job whose lease was lost. If
// such a job kills its process, it kills few others with it.
func (w *Worker) takeSuspect() bool {
	select {
	case <-w.suspect:
		return true
	default:
		return false
	}
}

// releaseSuspect opens the gate again, for whichever queue has a suspect. One
// that passed it in vain, since somebody has its suspects locked, is not woken,
// and wakes others only now and then: they would wake one another without end.
func (w *Worker) releaseSuspect(vain *queue) {
	w.suspect <- struct{}{}
	if vain != nil {
		now := time.Now().UnixNano()
		last := w.vain.Load()
		if now-last < int64(suspectRetry) || !w.vain.CompareAndSwap(last, now) {
			return
		}
	}
	for _, q := range w.queues {
		if q != vain && q.suspects.Load() {
			q.wake()
		}
	}
}

func (w *Worker) wakeAll() {
	for _, q := range w.queues {
		q.wake()
	}
	if w.relay != nil {
		w.relay.wake()
	}
}

// running is the set of attempts that a shutdown waits for.
type running struct {
	mu   sync.Mutex
	set  map[*attempt]struct{} // guarded by mu
	zero chan struct{}         // guarded by mu; closed while set is empty
}

func newRunning() *running {
	r := &running{set: make(map[*attempt]struct{}), zero: make(chan struct{})}
	close(r.zero)
	return r
}

func (r *running) add(a *attempt) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.set) == 0 {
		r.zero = make(chan struct{})
	}
	a.started = time.Now()
	r.set[a] = struct{}{}
}

func (r *running) remove(a *attempt) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.set[a]; !ok {
		return
	}
	delete(r.set, a)
	if len(r.set) == 0 {
		close(r.zero)
	}
}

// empty returns a channel that is closed when no attempt runs.
func (r *running) empty() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.zero
}

func (r *running) all() []*attempt {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Collect(maps.Keys(r.set))
}

func (r *running) list() []RunningJob {
	running := r.all()
	jobs := make([]RunningJob, 0, len(running))
	for _, a := range running {
		jobs = append(jobs, RunningJob{ID: a.job.ID, Kind: a.job.Kind, Queue: a.q.name, Attempt: a.job.Attempt, Since: a.started})
	}
	slices.SortFunc(jobs, func(a, b RunningJob) int { return cmp.Compare(a.ID.String(), b.ID.String()) })
	return jobs
}
