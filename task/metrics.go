package task

import (
	"context"
	"errors"
	"fmt"

	"go.opentelemetry.io/otel/metric"

	"github.com/pawlgo/pawl/internal/measure"
)

// Metrics measures how long what an application enqueues and publishes takes: the
// metric messaging.client.operation.duration with the operation type "send". Make
// one with [NewMetrics] when the application starts, and put it into the contexts
// of its calls with [Metrics.Context]. It is safe for concurrent use.
//
// A worker with a MeterProvider measures what its handlers, projections and
// schedules enqueue and publish by itself.
type Metrics struct{ sends *measure.Sends }

// NewMetrics makes the metric with a provider, by the OpenTelemetry API: that of
// your SDK, or what otel.GetMeterProvider() returns for the process's global one.
// It may be the provider of a worker in the same process.
//
// The error is the provider's, or says that there is none.
func NewMetrics(provider metric.MeterProvider) (*Metrics, error) {
	if provider == nil {
		return nil, errors.New("the provider of meters is nil: leave out task.NewMetrics where nothing is to be measured")
	}
	operation, err := measure.NewOperation(provider.Meter(measure.Scope))
	if err != nil {
		return nil, fmt.Errorf("make the metric %s: %w", measure.Operation, err)
	}
	return &Metrics{measure.NewSends(operation)}, nil
}

// Context returns a context in which enqueues and publishings are measured, and so
// are they in all that derive from it. A service has one place for that, where the
// contexts of its requests begin:
//
//	metrics, err := task.NewMetrics(provider)
//	...
//	server := &http.Server{BaseContext: func(net.Listener) context.Context { return metrics.Context(ctx) }}
//
// Of a nil Metrics it returns ctx.
func (m *Metrics) Context(ctx context.Context) context.Context {
	if m == nil {
		return ctx
	}
	return m.sends.Into(ctx)
}
