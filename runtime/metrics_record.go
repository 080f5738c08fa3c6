package runtime

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/metric"

	"github.com/pawlgo/pawl/internal/store"
	"github.com/pawlgo/pawl/task"
)

// The bound on series: so many values of a label there are at most, those of the
// worker's own tables first. What comes after them is [other].
const (
	maxKinds  = 500
	maxQueues = 200
	maxEvents = 200
)

// outcomeNames are the values of the label of outcomes.
var outcomeNames = [...]string{
	store.Refused: "refused", store.Completed: "completed", store.Retry: "retried", store.Dead: "dead",
	store.GiveBack: "given_back", store.Cancelled: "cancelled", store.Quarantine: "quarantined",
}

// errorClasses are the values of the label of errors, none being the first.
var errorClasses = [...]string{
	"", string(task.ClassTransient), string(task.ClassRateLimited), string(task.ClassPermanent), string(task.ClassRevoked),
	string(task.ClassTimeout), string(task.ClassUnknown), codePanic, codeGoexit, codeUndecodable, codeExhausted, codeLeaseLost, codeCancelled, other,
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
	names   struct{ queues, kinds, events *names }

	kinds       []*kindMetrics          // of all queues
	byKind      map[string]*kindMetrics // of the kinds with a name
	projections map[string]*grid
	unprojected *grid // of types that are in no table
	settles     *grid
	sends       map[string]*grid // by queue
	calls       [len(operationNames)]*grid
	sizes       [len(operationNames)]*series
}

// kindMetrics is what is told of one kind.
type kindMetrics struct {
	queue, kind string
	process     *grid
	wait        *series
	lasted      *grid
	ends        [len(outcomeNames)][len(errorClasses)]atomic.Int64

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

// names are the values of a label, of which there are at most so many.
type names struct {
	mu    sync.Mutex
	known map[string]bool // guarded by mu
	room  int             // guarded by mu; for others than the known
}

func newNames(most int) *names { return &names{known: make(map[string]bool), room: most} }

// of is a name, or [other] where there is no room for one more.
func (n *names) of(name string) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.known[name] {
		return name
	}
	if n.room == 0 || name == "" {
		return other
	}
	n.known[name] = true
	n.room--
	return name
}

// newMetrics makes the histograms, and the series that are known beforehand; nil
// without a provider.
func newMetrics(w *Worker) (*metrics, error) {
	if w.config.MeterProvider == nil {
		return nil, nil
	}
	m := &metrics{
		meter: w.config.MeterProvider.Meter(scope), listens: !w.config.PollOnly,
		byKind: make(map[string]*kindMetrics), projections: make(map[string]*grid), sends: make(map[string]*grid),
	}
	m.names.queues, m.names.kinds, m.names.events = newNames(maxQueues), newNames(maxKinds), newNames(maxEvents)
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
		return newGrid(operationDuration, func(_, class string) []string { return []string{"pawl", name, kind, queue, class} })
	}
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
		name := m.names.queues.of(q.name)
		t := &queueMetrics{claims: operation("claim", "receive", name), kinds: make(map[string]*kindMetrics)}
		m.sends[name] = operation("enqueue", "send", name)
		t.other = newKind(name, other)
		for _, kind := range slices.Sorted(maps.Keys(q.rows)) {
			if m.names.kinds.of(kind) != kind {
				break
			}
			k := newKind(name, kind)
			k.scheduled = q.rows[kind].Schedule != nil
			t.kinds[kind], m.byKind[kind] = k, k
		}
		q.metrics = t
	}
	projection := func(kind string) *grid {
		return newGrid(projectionDuration, func(outcome, class string) []string { return []string{kind, outcome, class} })
	}
	m.unprojected = projection(other)
	if w.relay != nil {
		for _, event := range slices.Sorted(maps.Keys(w.relay.rows)) {
			if m.names.events.of(event) == event {
				m.projections[event] = projection(event)
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
	class := 0
	if recorded != store.Completed && recorded != store.GiveBack {
		class = classOf(e.Code)
	}
	k.ends[recorded][class].Add(1)
	switch recorded {
	case store.Completed, store.Dead, store.Cancelled:
		if a := e.attempt; a.claim != nil && !a.job.EnqueuedAt.IsZero() {
			k.lasted.at(recorded, 0).record(a.claim.since(a.job.EnqueuedAt))
		}
	}
}

// projected records the end of a projection.
func (m *metrics) projected(event string, v *verdict, took time.Duration) {
	if m == nil {
		return
	}
	g, ok := m.projections[event]
	if !ok {
		g = m.unprojected
	}
	g.at(v.outcome, classOf(v.code)).record(took.Seconds())
}

// measure records a transaction about a schedule, or that it failed.
func (s *scheduler) measure(kind string, d *done, began time.Time, err error) {
	m := s.w.metrics
	if m == nil || errors.Is(err, store.ErrScheduleBusy) || errors.Is(err, store.ErrScheduleMoved) {
		return
	}
	took := time.Since(began)
	m.database(opTick, took, 0, err)
	k, ok := m.byKind[kind]
	if !ok {
		return
	}
	if err != nil || d.ticks+d.runs > 0 {
		m.sends[k.queue].at(0, errorClass(err)).record(took.Seconds())
	}
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

// ended tells what has been counted, and that something has not, so that its
// first time is seen.
func (k *kindMetrics) ended(tell func(outcome, class string, n int64)) {
	for outcome := range k.ends {
		for class := range k.ends[outcome] {
			n := k.ends[outcome][class].Load()
			if n > 0 || store.Outcome(outcome) == store.Completed && class == 0 && k.kind != other {
				tell(outcomeNames[outcome], errorClasses[class], n)
			}
		}
	}
}

func (k *kindMetrics) refused() (n int64) {
	for class := range k.ends[store.Refused] {
		n += k.ends[store.Refused][class].Load()
	}
	return n
}
