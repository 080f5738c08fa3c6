package measure

import (
	"context"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// Scope is the instrumentation scope of all metrics. What an application measures
// and what a worker of the same process does is one metric by that.
const Scope = "github.com/pawlgo/pawl/runtime"

// The metric of operations, which sends share with what a worker measures of its
// own. It has to be the same in both places, or an SDK takes it for two.
const (
	Operation     = "messaging.client.operation.duration"
	OperationUnit = "s"
	OperationText = "How long an enqueue or a publishing (send), a claim of jobs (receive) or the record of how attempts ended (settle) took, with the waits for a connection and for another try."
)

// OperationBuckets are the bounds of its buckets, in seconds.
func OperationBuckets() []float64 {
	return []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30}
}

// OperationLabels are its labels.
func OperationLabels() []string {
	return []string{"messaging.system", "messaging.operation.name", "messaging.operation.type", "messaging.destination.name", "pawl.kind", "error.type"}
}

// NewOperation makes the metric of operations.
func NewOperation(meter metric.Meter) (metric.Float64Histogram, error) {
	return meter.Float64Histogram(Operation, metric.WithUnit(OperationUnit), metric.WithDescription(OperationText), metric.WithExplicitBucketBoundaries(OperationBuckets()...))
}

// Invalid is the class of the error of a send that was refused before any SQL: what
// was to be sent cannot be stored.
const Invalid = "invalid"

// Sends measures calls that enqueue or publish.
type Sends struct {
	operation             metric.Float64Histogram
	queues, kinds, events *Names

	mu     sync.RWMutex
	series map[send][]metric.RecordOption // guarded by mu; bounded by the names
}

// send is what the series of sends differ by.
type send struct{ name, queue, kind, class string }

// NewSends makes a measurement with the metric of operations.
func NewSends(operation metric.Float64Histogram) *Sends {
	return &Sends{
		operation: operation, series: make(map[send][]metric.RecordOption),
		queues: NewNames(MaxQueues), kinds: NewNames(MaxKinds), events: NewNames(MaxEvents),
	}
}

// sendsKey is the key of a measurement in a context.
type sendsKey struct{}

// Into returns a context in which what is enqueued and published is measured.
func (s *Sends) Into(ctx context.Context) context.Context {
	return context.WithValue(ctx, sendsKey{}, s)
}

// Measuring returns the measurement of a context, nil where there is none.
func Measuring(ctx context.Context) *Sends {
	s, _ := ctx.Value(sendsKey{}).(*Sends)
	return s
}

// Enqueued records one call that has enqueued jobs of a kind, or failed to. The
// class is that of its error, empty for none.
func (s *Sends) Enqueued(ctx context.Context, queue, kind, class string, took time.Duration) {
	s.record(ctx, send{"enqueue", s.queues.Of(queue), s.kinds.Of(kind), class}, took)
}

// Published records one call that has published an event, or failed to.
func (s *Sends) Published(ctx context.Context, event, class string, took time.Duration) {
	s.record(ctx, send{"publish", "", s.events.Of(event), class}, took)
}

func (s *Sends) record(ctx context.Context, of send, took time.Duration) {
	s.mu.RLock()
	with := s.series[of]
	s.mu.RUnlock()
	if with == nil {
		attributes := []attribute.KeyValue{}
		for i, value := range []string{"pawl", of.name, "send", of.queue, of.kind, of.class} {
			if value != "" {
				attributes = append(attributes, attribute.String(OperationLabels()[i], value))
			}
		}
		with = []metric.RecordOption{metric.WithAttributeSet(attribute.NewSet(attributes...))}
		s.mu.Lock()
		s.series[of] = with
		s.mu.Unlock()
	}
	// The span in the context makes exemplars. That it may have ended, with the
	// call that it is about, is no reason to leave that call out.
	s.operation.Record(context.WithoutCancel(ctx), took.Seconds(), with...)
}
