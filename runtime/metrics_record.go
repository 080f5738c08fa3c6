package runtime

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/metric"

	"github.com/pawlgo/pawl/internal/measure"
	"github.com/pawlgo/pawl/internal/store"
	"github.com/pawlgo/pawl/task"
)

// The bound on series: so many values of a label there are at most, those of the
// worker's own tables first. What comes after them is [other].
const (
	maxKinds  = measure.MaxKinds
	maxQueues = measure.MaxQueues
	maxEvents = measure.MaxEvents
)

// outcomeNames are the values of the label of outcomes.
var outcomeNames = [...]string{
	store.Refused: "refused", store.Completed: "completed", store.Retry: "retried", store.Dead: "dead",
	store.GiveBack: "given_back", store.Cancelled: "cancelled", store.Quarantine: "quarantined",
}

// errorClasses are the values of the label of errors, none being the first.
var errorClasses = [...]string{
	"", string(task.ClassTransient), string(task.ClassRateLimited), string(task.ClassPermanent), string(task.ClassRevoked),
	string(task.ClassTimeout), string(task.ClassUnknown), codePanic, codeGoexit, codeUndecodable, codeExhausted, codeLeaseLost, codeProcessLost, codeCancelled, other,
}

// classOf is the place of a code among them.
func classOf(code string) int {
	if code == "" {
		return 0
	}
	if i := slices.Index(errorClasses[:], code); i > 0 {
		return i
	}
	return len(errorClasses) - 1
}

// operation is what the runtime asks of the database.
type operation int

const (
	opClaim operation = iota
	opSettle
	opComplete // of a transactional job, in its handler's transaction
	opHeartbeat
	opRecover
	opPick
	opTake // the lock and the reading of events
	opCommit
	opTick
	opSample
)

// operationNames are the values of the label of operations.
var operationNames = [...]string{
	opClaim: "claim", opSettle: "settle", opComplete: "complete", opHeartbeat: "heartbeat", opRecover: "recover",
	opPick: "pick", opTake: "take", opCommit: "commit", opTick: "tick", opSample: "sample",
}

// metrics is what a worker tells of itself by the OpenTelemetry API. Nil tells
// nothing and costs nothing. Histograms are recorded as things happen, with
// attributes that were made before; counters and gauges are read when somebody
// collects.
type metrics struct {
	meter   metric.Meter
	listens bool // it has a listener
	names   struct{ queues, kinds, events *measure.Names }

	kinds       []*kindMetrics          // of all queues
	byKind      map[string]*kindMetrics // of the kinds with a name
	events      []*eventMetrics         // of all types
	projections map[string]*eventMetrics
	unprojected *eventMetrics // of types that are in no table
	settles     *grid
	sends       *measure.Sends // of handlers, projections and schedules
	calls       [len(operationNames)]*grid
	sizes       [len(operationNames)]*series
}

// kindMetrics is what is told of one kind.
type kindMetrics struct {
	queue, kind string
	process     *grid
	wait        *series
	lasted      *grid
	ends        ends

	scheduled     bool
	ticks, missed atomic.Int64
}

// queueMetrics is what is told of one queue.
type queueMetrics struct {
	claims *grid
	kinds  map[string]*kindMetrics
	other  *kindMetrics // of what is in no table
}

func (q *queueMetrics) of(kind string) *kindMetrics {
	if k, ok := q.kinds[kind]; ok {
		return k
	}
	return q.other
}

// series is one series of a histogram.
type series struct {
	histogram metric.Float64Histogram
	with      []metric.RecordOption
}

func (s *series) record(value float64) { s.histogram.Record(context.Background(), value, s.with...) }

// grid is the series of a histogram that differ by outcome and error. Each is
// made when it is first asked for, and then kept.
type grid struct {
	row       *instrument
	histogram metric.Float64Histogram
	labels    func(outcome, class string) []string
	cells     [len(outcomeNames)][len(errorClasses)]atomic.Pointer[series]
}

func (g *grid) at(outcome store.Outcome, class int) *series {
	cell := &g.cells[outcome][class]
	s := cell.Load()
	if s == nil {
		s = &series{g.histogram, []metric.RecordOption{metric.WithAttributeSet(g.row.attributes(g.labels(outcomeNames[outcome], errorClasses[class])))}}
		cell.Store(s)
	}
	return s
}

// newMetrics makes the histograms, and the series that are known beforehand; nil
// without a provider.
func newMetrics(w *Worker) (*metrics, error) {
	if w.config.MeterProvider == nil {
		return nil, nil
	}
	m := &metrics{
		meter: w.config.MeterProvider.Meter(measure.Scope), listens: !w.config.PollOnly,
		byKind: make(map[string]*kindMetrics), projections: make(map[string]*eventMetrics),
	}
	m.names.queues, m.names.kinds, m.names.events = measure.NewNames(maxQueues), measure.NewNames(maxKinds), measure.NewNames(maxEvents)
	histograms := make(map[string]metric.Float64Histogram)
	for _, i := range instruments {
		if i.kind != histogram {
			continue
		}
		h, err := m.meter.Float64Histogram(i.name, metric.WithUnit(i.unit), metric.WithDescription(i.text), metric.WithExplicitBucketBoundaries(i.buckets...))
		if err != nil {
			return nil, wrong("MeterProvider makes no metric %s: %v", i.name, err)
		}
		histograms[i.name] = h
	}
	newGrid := func(name string, labels func(outcome, class string) []string) *grid {
		return &grid{row: instrumentOf(name), histogram: histograms[name], labels: labels}
	}
	newSeries := func(name string, labels ...string) *series {
		return &series{histograms[name], []metric.RecordOption{metric.WithAttributeSet(instrumentOf(name).attributes(labels))}}
	}
	operation := func(name, kind, queue string) *grid {
		return newGrid(operationDuration, func(_, class string) []string { return []string{"pawl", name, kind, queue, "", class} })
	}
	m.sends = measure.NewSends(histograms[operationDuration])
	newKind := func(queue, kind string) *kindMetrics {
		k := &kindMetrics{queue: queue, kind: kind, wait: newSeries(jobWait, queue, kind)}
		k.process = newGrid(processDuration, func(outcome, class string) []string {
			return []string{"pawl", "process", "process", queue, kind, outcome, class}
		})
		k.lasted = newGrid(jobDuration, func(outcome, _ string) []string { return []string{queue, kind, outcome} })
		m.kinds = append(m.kinds, k)
		return k
	}
	for _, q := range w.queues {
		name := m.names.queues.Of(q.name)
		t := &queueMetrics{claims: operation("claim", "receive", name), kinds: make(map[string]*kindMetrics)}
		t.other = newKind(name, other)
		for _, kind := range slices.Sorted(maps.Keys(q.rows)) {
			if m.names.kinds.Of(kind) != kind {
				break
			}
			k := newKind(name, kind)
			k.scheduled = q.rows[kind].Schedule != nil
			t.kinds[kind], m.byKind[kind] = k, k
		}
		q.metrics = t
	}
	newEvent := func(event string) *eventMetrics {
		e := &eventMetrics{event: event}
		e.projection = newGrid(projectionDuration, func(outcome, class string) []string { return []string{event, outcome, class} })
		m.events = append(m.events, e)
		return e
	}
	m.unprojected = newEvent(other)
	if w.relay != nil {
		for _, event := range slices.Sorted(maps.Keys(w.relay.rows)) {
			if m.names.events.Of(event) == event {
				m.projections[event] = newEvent(event)
			}
		}
	}
	m.settles = operation("settle", "settle", "")
	for op, name := range operationNames {
		m.calls[op] = newGrid(databaseDuration, func(_, class string) []string { return []string{name, class} })
		m.sizes[op] = newSeries(batchSize, name)
	}
	return m, nil
}

// errorClass is the class of what a statement answered.
func errorClass(err error) int {
	if err == nil {
		return 0
	}
	return classOf(string(task.Classify(err).Class))
}

// into returns a context in which what the application enqueues and publishes is
// measured.
func (m *metrics) into(ctx context.Context) context.Context {
	if m == nil {
		return ctx
	}
	return m.sends.Into(ctx)
}

// database records one call to the database, that of a batch of so many jobs
// where size is above zero.
func (m *metrics) database(op operation, took time.Duration, size int, err error) {
	if m == nil {
		return
	}
	m.calls[op].at(0, errorClass(err)).record(took.Seconds())
	if size > 0 && err == nil {
		m.sizes[op].record(float64(size))
	}
}

// claimTime is what the times of a claim's jobs are counted from: the database's
// clock up to the claim, and this process's monotonic one from there on. Neither
// is compared with the other.
type claimTime struct {
	at   time.Time // the database's
	sent time.Time
}

func (c *claimTime) since(earlier time.Time) float64 {
	return max(c.at.Sub(earlier)+time.Since(c.sent), 0).Seconds()
}

// claimed records a claim, and returns what its jobs are to be measured by.
func (m *metrics) claimed(q *queue, took, statement time.Duration, claimed *store.Claimed, err error) *claimTime {
	if m == nil {
		return nil
	}
	q.metrics.claims.at(0, errorClass(err)).record(took.Seconds())
	if err != nil || len(claimed.Jobs) == 0 {
		return nil
	}
	m.sizes[opClaim].record(float64(len(claimed.Jobs)))
	return &claimTime{at: claimed.At, sent: time.Now().Add(-statement)}
}

// started records how long a job had been due, and returns when its handler
// started.
func (m *metrics) started(a *attempt) (began time.Time) {
	if m == nil || a.claim == nil {
		return began
	}
	a.q.metrics.of(a.job.Kind).wait.record(a.claim.since(a.job.RunAt))
	return time.Now()
}

// processed records the end of a handler.
func (m *metrics) processed(a *attempt, v *verdict, took time.Duration) {
	if m == nil {
		return
	}
	a.q.metrics.of(a.job.Kind).process.at(v.outcome, classOf(v.code)).record(took.Seconds())
}

// took is how long ago a handler started.
func (m *metrics) took(began time.Time) time.Duration {
	if m == nil {
		return 0
	}
	return time.Since(began)
}

// settled records a settlement.
func (m *metrics) settled(took time.Duration, err error) {
	if m == nil {
		return
	}
	m.settles.at(0, errorClass(err)).record(took.Seconds())
}

// completed records the end of a transactional attempt, which is a settlement.
func (m *metrics) completed(took time.Duration, err error) {
	m.database(opComplete, took, 0, err)
	m.settled(took, err)
}

// ended counts what was recorded of an attempt, and records how long its job has
// been there if that was its last.
func (m *metrics) ended(e *ending, recorded store.Outcome) {
	if m == nil || e.attempt == nil {
		return
	}
	k := e.q.metrics.of(e.kind)
	k.ends[recorded][endClass(recorded, e.Code)].Add(1)
	switch recorded {
	case store.Completed, store.Dead, store.Cancelled:
		if a := e.attempt; a.claim != nil && !a.job.EnqueuedAt.IsZero() {
			k.lasted.at(recorded, 0).record(a.claim.since(a.job.EnqueuedAt))
		}
	}
}

// tick records a transaction about a schedule, or that it failed.
func (m *metrics) tick(began time.Time, err error) {
	if m == nil || errors.Is(err, store.ErrScheduleBusy) || errors.Is(err, store.ErrScheduleMoved) {
		return
	}
	m.database(opTick, time.Since(began), 0, err)
}

// ticked counts what a transaction has done about a schedule.
func (m *metrics) ticked(kind string, d *done) {
	if m == nil {
		return
	}
	if k, ok := m.byKind[kind]; ok {
		k.ticks.Add(int64(d.ticks))
		k.missed.Add(int64(d.missed))
	}
}
