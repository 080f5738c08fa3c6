package runtime

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/pawlgo/pawl/internal/measure"
	"github.com/pawlgo/pawl/internal/store"
)

// other is the value of a label in place of all that the bound on series has no
// room for.
const other = measure.Other

// The labels. There is none for what has no bound: an organization, a job, a
// key, a payload.
const (
	labelQueue   = "messaging.destination.name"
	labelKind    = "pawl.kind" // or an event's type
	labelOutcome = "pawl.outcome"
	labelError   = "error.type"
	labelDBOp    = "db.operation.name"
	labelTable   = "db.collection.name"

	// What the conventions want of the metrics that they name.
	labelSystem = "messaging.system"
	labelOp     = "messaging.operation.name"
	labelOpType = "messaging.operation.type"
)

// The names of the histograms.
const (
	processDuration    = "messaging.process.duration"
	operationDuration  = measure.Operation
	jobWait            = "pawl.job.wait"
	jobDuration        = "pawl.job.duration"
	projectionDuration = "pawl.projection.duration"
	databaseDuration   = "pawl.database.duration"
	batchSize          = "pawl.batch.size"
)

// instrumentKind is what an instrument is: as it is recorded, and as it is read.
type instrumentKind string

const (
	histogram instrumentKind = "histogram"
	counter   instrumentKind = "counter"
	gauge     instrumentKind = "gauge"
)

// reach says about what a gauge or counter is: one process, or the database as
// a whole, of which all processes say the same.
type reach string

const (
	ofProcess  reach = "process"
	ofDatabase reach = "database"
)

// emit tells one value of an instrument, with a value for each of its labels.
type emit func(value float64, labels ...string)

// instrument is one row of the table of metrics.
type instrument struct {
	name, unit, text string
	kind             instrumentKind
	reach            reach
	labels           []string
	buckets          []float64                    // of a histogram
	read             func(*metrics, *Stats, emit) // of the others
}

// The bounds of buckets, in seconds. Those of the conventions end at 10 s; a
// handler may run for hours, and a job wait for days.
var (
	statementBuckets = []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}
	handlerBuckets   = []float64{.001, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 3600, 4 * 3600}
	waitBuckets      = []float64{.001, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 3600, 4 * 3600, 24 * 3600}
	sizeBuckets      = []float64{1, 2, 5, 10, 20, 50, 100, 200, 500}
)

// instruments is the table of metrics. What is emitted, docs/metrics.md and the
// files in ops are all held to it.
var instruments = []instrument{
	{name: processDuration, unit: "s", kind: histogram, buckets: handlerBuckets,
		labels: []string{labelSystem, labelOp, labelOpType, labelQueue, labelKind, labelOutcome, labelError},
		text:   "How long a handler ran, by how its attempt ended."},
	{name: operationDuration, unit: measure.OperationUnit, kind: histogram, buckets: measure.OperationBuckets(),
		labels: measure.OperationLabels(), text: measure.OperationText},
	{name: jobWait, unit: "s", kind: histogram, buckets: waitBuckets, labels: []string{labelQueue, labelKind},
		text: "How long a job had been due when its handler started. A retry is due when its delay has passed."},
	{name: jobDuration, unit: "s", kind: histogram, buckets: waitBuckets, labels: []string{labelQueue, labelKind, labelOutcome},
		text: "How long after its enqueue a job was over, with all attempts and all delays."},
	{name: projectionDuration, unit: "s", kind: histogram, buckets: handlerBuckets, labels: []string{labelKind, labelOutcome, labelError},
		text: "How long the projection of an event ran, by how its attempt ended."},
	{name: databaseDuration, unit: "s", kind: histogram, buckets: statementBuckets, labels: []string{labelDBOp, labelError},
		text: "How long one call to the database took, for a whole batch where there is one."},
	{name: batchSize, unit: "{job}", kind: histogram, buckets: sizeBuckets, labels: []string{labelDBOp},
		text: "How many jobs one claim took or one settlement recorded, where there was one."},

	{name: "pawl.job.ended", unit: "{attempt}", kind: counter, reach: ofProcess, labels: []string{labelQueue, labelKind, labelOutcome, labelError},
		text: "Attempts of jobs whose end is recorded.", read: func(m *metrics, _ *Stats, emit emit) {
			for _, k := range m.kinds {
				k.ends.tell(k.kind, func(outcome, class string, n int64) {
					if outcome != outcomeNames[store.Refused] {
						emit(float64(n), k.queue, k.kind, outcome, class)
					}
				})
			}
		}},
	{name: "pawl.event.ended", unit: "{attempt}", kind: counter, reach: ofProcess, labels: []string{labelKind, labelOutcome, labelError},
		text: "Attempts at events whose end is recorded. One that ended its process (process_lost) is recorded by who finds it.", read: func(m *metrics, _ *Stats, emit emit) {
			for _, e := range m.events {
				e.ends.tell(e.event, func(outcome, class string, n int64) { emit(float64(n), e.event, outcome, class) })
			}
		}},
	{name: "pawl.settlement.refused", unit: "{attempt}", kind: counter, reach: ofProcess, labels: []string{labelQueue, labelKind},
		text: "Ends of attempts that came after their lease was lost, and were refused.", read: func(m *metrics, _ *Stats, emit emit) {
			for _, k := range m.kinds {
				emit(float64(k.ends.refused()), k.queue, k.kind)
			}
		}},
	{name: "pawl.lease.lost", unit: "{loss}", kind: counter, reach: ofProcess,
		text: "Times that this process lost all its leases.", read: func(_ *metrics, s *Stats, emit emit) { emit(float64(s.LeasesLost)) }},
	{name: "pawl.lease.expirations", unit: "{process}", kind: counter, reach: ofProcess,
		text: "Processes whose leases had expired when this one looked.", read: func(_ *metrics, s *Stats, emit emit) { emit(float64(s.Expirations)) }},
	{name: "pawl.lease.recovered", unit: "{job}", kind: counter, reach: ofProcess, labels: []string{labelOutcome},
		text: "Jobs that this process took from expired leases: retried, or dead as their attempts were spent.", read: func(_ *metrics, s *Stats, emit emit) {
			emit(float64(s.Recovered), outcomeNames[store.Retry])
			emit(float64(s.Buried), outcomeNames[store.Dead])
		}},
	{name: "pawl.wakeup.received", unit: "{notification}", kind: counter, reach: ofProcess,
		text: "Notifications.", read: func(_ *metrics, s *Stats, emit emit) { emit(float64(s.Wakeups)) }},
	{name: "pawl.wakeup.failures", unit: "{failure}", kind: counter, reach: ofProcess,
		text: "Times that the listener lost its connection, found that it does not hear, or could not connect.", read: func(_ *metrics, s *Stats, emit emit) { emit(float64(s.WakeupFailures)) }},
	{name: "pawl.listener.reconnects", unit: "{connection}", kind: counter, reach: ofProcess,
		text: "Times that the listener connected again.", read: func(_ *metrics, s *Stats, emit emit) { emit(float64(s.Reconnects)) }},
	{name: "pawl.schedule.ticks", unit: "{job}", kind: counter, reach: ofProcess, labels: []string{labelKind},
		text: "Jobs that this process made for ticks of schedules.", read: func(m *metrics, _ *Stats, emit emit) {
			for _, k := range m.kinds {
				if k.scheduled {
					emit(float64(k.ticks.Load()), k.kind)
				}
			}
		}},
	{name: "pawl.schedule.missed", unit: "{tick}", kind: counter, reach: ofProcess, labels: []string{labelKind},
		text: "Ticks that this process found too late, since no worker was there in time.", read: func(m *metrics, _ *Stats, emit emit) {
			for _, k := range m.kinds {
				if k.scheduled {
					emit(float64(k.missed.Load()), k.kind)
				}
			}
		}},

	{name: "pawl.slots.used", unit: "{slot}", kind: gauge, reach: ofProcess, labels: []string{labelQueue},
		text: "Handlers that run in this process.", read: ofQueues(func(q QueueStats) float64 { return float64(q.Running) })},
	{name: "pawl.slots.free", unit: "{slot}", kind: gauge, reach: ofProcess, labels: []string{labelQueue},
		text: "Handlers that could run in this process besides.", read: ofQueues(func(q QueueStats) float64 { return float64(max(q.Concurrency-q.Running, 0)) })},
	{name: "pawl.slots.paused", unit: "{queue}", kind: gauge, reach: ofProcess, labels: []string{labelQueue},
		text: "1 where this process was told at its last claim that the queue is paused.", read: ofQueues(func(q QueueStats) float64 { return oneIf(q.Paused) })},
	{name: "pawl.handlers.stuck", unit: "{handler}", kind: gauge, reach: ofProcess,
		text: "Handlers and projections of this process that ignore the end of their context.", read: func(_ *metrics, s *Stats, emit emit) { emit(float64(s.Stuck + s.Events.Stuck)) }},
	{name: "pawl.listener.connected", unit: "{connection}", kind: gauge, reach: ofProcess,
		text: "1 while the listener has a connection that hears; no series of a worker with PollOnly.", read: func(m *metrics, s *Stats, emit emit) {
			if m.listens {
				emit(oneIf(s.Listening))
			}
		}},

	{name: "pawl.queue.pending", unit: "{job}", kind: gauge, reach: ofDatabase, labels: []string{labelQueue},
		text: "Jobs that are due, whether for the first time or another.", read: depth(func(d *DepthStats) float64 { return float64(d.Pending) })},
	{name: "pawl.queue.scheduled", unit: "{job}", kind: gauge, reach: ofDatabase, labels: []string{labelQueue},
		text: "Jobs that become due later, for the first time.", read: depth(func(d *DepthStats) float64 { return float64(d.Scheduled) })},
	{name: "pawl.queue.retrying", unit: "{job}", kind: gauge, reach: ofDatabase, labels: []string{labelQueue},
		text: "Jobs that become due later and have been tried.", read: depth(func(d *DepthStats) float64 { return float64(d.Retrying) })},
	{name: "pawl.queue.leased", unit: "{job}", kind: gauge, reach: ofDatabase, labels: []string{labelQueue},
		text: "Jobs that some process has.", read: depth(func(d *DepthStats) float64 { return float64(d.Leased) })},
	{name: "pawl.queue.blocked", unit: "{job}", kind: gauge, reach: ofDatabase, labels: []string{labelQueue},
		text: "Jobs that wait for another one of their order key.", read: depth(func(d *DepthStats) float64 { return float64(d.Blocked) })},
	{name: "pawl.queue.dead_letters", unit: "{job}", kind: gauge, reach: ofDatabase, labels: []string{labelQueue},
		text: "Dead letters that are kept.", read: depth(func(d *DepthStats) float64 { return float64(d.DeadLetters) })},
	{name: "pawl.queue.oldest.age", unit: "s", kind: gauge, reach: ofDatabase, labels: []string{labelQueue},
		text: "Since when the job has been due that has been for the longest time; 0 where none is.", read: depth(func(d *DepthStats) float64 { return d.Oldest.Seconds() })},
	{name: "pawl.queue.stranded", unit: "{job}", kind: gauge, reach: ofDatabase, labels: []string{labelQueue, labelKind},
		text: "Waiting jobs whose payload version no live worker knows; no series where there are none.", read: func(m *metrics, s *Stats, emit emit) {
			sums := make(map[[2]string]int64)
			for _, x := range s.Database.Stranded {
				sums[[2]string{m.names.queues.Of(x.Queue), m.names.kinds.Of(x.Kind)}] += x.Jobs
			}
			for of, n := range sums {
				emit(float64(n), of[0], of[1])
			}
		}},
	{name: "pawl.outbox.lag.events", unit: "{event}", kind: gauge, reach: ofDatabase, labels: []string{labelKind},
		text: "Events that are published and not projected.", read: lag(func(l *EventLag) float64 { return float64(l.Pending) })},
	{name: "pawl.outbox.lag.duration", unit: "s", kind: gauge, reach: ofDatabase, labels: []string{labelKind},
		text: "Since when the first of those is published; 0 where there are none.", read: lag(func(l *EventLag) float64 { return l.Oldest.Seconds() })},
	{name: "pawl.outbox.stranded", unit: "{event}", kind: gauge, reach: ofDatabase, labels: []string{labelKind},
		text: "Those of a payload version that no live worker knows.", read: lag(func(l *EventLag) float64 { return float64(l.Stranded) })},
	{name: "pawl.outbox.blocked", unit: "{aggregate}", kind: gauge, reach: ofDatabase,
		text: "Aggregates that a dead event holds up.", read: whole(func(d *DatabaseStats) float64 { return float64(d.BlockedAggregates) })},
	{name: "pawl.database.horizon.age", unit: "s", kind: gauge, reach: ofDatabase,
		text: "Since when the oldest transaction runs that keeps vacuum from removing dead rows, of those that the worker's role may see; no value where it sees that there are others, and not since when.", read: func(_ *metrics, s *Stats, emit emit) {
			if s.Database.Sampled && !s.Database.HorizonHidden {
				emit(s.Database.Horizon.Seconds())
			}
		}},
	{name: "pawl.database.horizon.transactions", unit: "{transaction}", kind: gauge, reach: ofDatabase,
		text: "Transactions that have begun since what holds back vacuum most: a session, a prepared transaction, a replication slot.", read: whole(func(d *DatabaseStats) float64 { return float64(d.HorizonTransactions) })},
	{name: "pawl.database.dead_rows", unit: "{row}", kind: gauge, reach: ofDatabase, labels: []string{labelTable},
		text: "Dead rows of the hot tables, as the server's statistics have them.", read: func(_ *metrics, s *Stats, emit emit) {
			for table, n := range s.Database.DeadRows {
				emit(float64(n), table)
			}
		}},
	{name: "pawl.database.notification_queue.usage", unit: "1", kind: gauge, reach: ofDatabase,
		text: "The part of the server's queue of notifications that is full. At 1 every NOTIFY fails, and with it its transaction.", read: whole(func(d *DatabaseStats) float64 { return d.Notifications })},
	{name: "pawl.sample.age", unit: "s", kind: gauge, reach: ofProcess,
		text: "How old what is said of the database is.", read: whole(func(d *DatabaseStats) float64 { return d.Age.Seconds() })},
}

func oneIf(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

// whole reads what there is one of, once there is a sample.
func whole(value func(*DatabaseStats) float64) func(*metrics, *Stats, emit) {
	return func(_ *metrics, s *Stats, emit emit) {
		if s.Database.Sampled {
			emit(value(&s.Database))
		}
	}
}

// ofQueues reads a number of each queue of this process. Of those that there is no
// room for it is the sum.
func ofQueues(value func(QueueStats) float64) func(*metrics, *Stats, emit) {
	return func(m *metrics, s *Stats, emit emit) {
		folded := make(map[string]float64)
		for _, name := range slices.Sorted(maps.Keys(s.Queues)) {
			folded[m.names.queues.Of(name)] += value(s.Queues[name])
		}
		for name, n := range folded {
			emit(n, name)
		}
	}
}

// depth reads a number of each queue. Of those that there is no room for it is
// the sum, or what is greatest where it is an age.
func depth(value func(*DepthStats) float64) func(*metrics, *Stats, emit) {
	return func(m *metrics, s *Stats, emit emit) {
		folded := make(map[string]DepthStats)
		for _, name := range slices.Sorted(maps.Keys(s.Database.Queues)) { // so that all workers fold the same
			as := m.names.queues.Of(name)
			folded[as] = folded[as].and(s.Database.Queues[name])
		}
		for name, d := range folded {
			emit(value(&d), name)
		}
	}
}

// lag reads a number of each type of event.
func lag(value func(*EventLag) float64) func(*metrics, *Stats, emit) {
	return func(m *metrics, s *Stats, emit emit) {
		folded := make(map[string]EventLag)
		for event := range m.projections {
			if s.Database.Sampled {
				folded[event] = EventLag{}
			}
		}
		for _, name := range slices.Sorted(maps.Keys(s.Database.Events)) {
			l, as := s.Database.Events[name], m.names.events.Of(name)
			sum := folded[as]
			folded[as] = EventLag{Pending: sum.Pending + l.Pending, Oldest: max(sum.Oldest, l.Oldest), Stranded: sum.Stranded + l.Stranded}
		}
		for name, l := range folded {
			emit(value(&l), name)
		}
	}
}

// attributes are those of a series: a value for each label of its instrument,
// where empty means that it has none.
func (i *instrument) attributes(values []string) attribute.Set {
	if len(values) != len(i.labels) {
		panic(fmt.Sprintf("metric %s has the labels %v, and is given %d values", i.name, i.labels, len(values)))
	}
	all := make([]attribute.KeyValue, 0, len(values))
	for n, value := range values {
		if value != "" {
			all = append(all, attribute.String(i.labels[n], value))
		}
	}
	return attribute.NewSet(all...)
}

// instrumentOf finds a row of the table.
func instrumentOf(name string) *instrument {
	return &instruments[slices.IndexFunc(instruments, func(i instrument) bool { return i.name == name })]
}

// observe makes the counters and gauges, and has them read whenever somebody
// collects, until the registration ends.
func (m *metrics) observe(w *Worker) (metric.Registration, error) {
	type observable struct {
		*instrument
		counter metric.Int64ObservableCounter
		gauge   metric.Float64ObservableGauge
	}
	var (
		all  []observable
		keys []metric.Observable
	)
	for n := range instruments {
		o := observable{instrument: &instruments[n]}
		var err error
		switch o.kind {
		case counter:
			o.counter, err = m.meter.Int64ObservableCounter(o.name, metric.WithUnit(o.unit), metric.WithDescription(o.text))
			keys = append(keys, o.counter)
		case gauge:
			o.gauge, err = m.meter.Float64ObservableGauge(o.name, metric.WithUnit(o.unit), metric.WithDescription(o.text))
			keys = append(keys, o.gauge)
		default:
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("make the metric %s: %w", o.name, err)
		}
		all = append(all, o)
	}
	return m.meter.RegisterCallback(func(_ context.Context, observer metric.Observer) error {
		s := w.Stats()
		for _, o := range all {
			o.read(m, &s, func(value float64, labels ...string) {
				with := metric.WithAttributeSet(o.attributes(labels))
				if o.kind == counter {
					observer.ObserveInt64(o.counter, int64(value), with)
				} else {
					observer.ObserveFloat64(o.gauge, value, with)
				}
			})
		}
		return nil
	}, keys...)
}
