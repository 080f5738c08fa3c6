package measure_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"

	"github.com/pawlgo/pawl/internal/measure"
)

// provider makes a histogram that keeps what is recorded.
type provider struct {
	noop.MeterProvider
	histogram
	err error
}

type histogram struct {
	noop.Float64Histogram
	seen *[]string
}

type meter struct {
	noop.Meter
	p provider
}

func (p provider) Meter(string, ...metric.MeterOption) metric.Meter { return meter{p: p} }

func (m meter) Float64Histogram(string, ...metric.Float64HistogramOption) (metric.Float64Histogram, error) {
	return m.p.histogram, m.p.err
}

func (h histogram) Record(ctx context.Context, value float64, opts ...metric.RecordOption) {
	set := metric.NewRecordConfig(opts).Attributes()
	*h.seen = append(*h.seen, fmt.Sprint(set.Encoded(attribute.DefaultEncoder()), " ", value, " ", ctx.Err()))
}

func sends(t *testing.T) (*measure.Sends, *[]string) {
	t.Helper()
	seen := &[]string{}
	operation, err := measure.NewOperation(provider{histogram: histogram{seen: seen}}.Meter(measure.Scope))
	require.NoError(t, err)
	return measure.NewSends(operation), seen
}

func TestSends(t *testing.T) {
	t.Parallel()
	s, seen := sends(t)
	require.Nil(t, measure.Measuring(t.Context()))
	ctx, cancel := context.WithCancel(s.Into(t.Context()))
	require.Same(t, s, measure.Measuring(ctx))
	s.Enqueued(ctx, "mail", "send_receipt", "", 2*time.Second)
	cancel() // as it may be after a failure
	for range 2 {
		s.Enqueued(ctx, "mail", "send_receipt", "timeout", time.Second)
	}
	s.Published(ctx, "trip.completed", measure.Invalid, time.Second)
	const system, send = "messaging.system=pawl", "messaging.operation.type=send"
	failed := "error.type=timeout,messaging.destination.name=mail,messaging.operation.name=enqueue," + send + "," + system + ",pawl.kind=send_receipt 1 <nil>"
	require.Equal(t, []string{
		"messaging.destination.name=mail,messaging.operation.name=enqueue," + send + "," + system + ",pawl.kind=send_receipt 2 <nil>",
		failed, failed,
		"error.type=invalid,messaging.operation.name=publish," + send + "," + system + ",pawl.kind=trip.completed 1 <nil>",
	}, *seen)
}

// There is a bound on what is kept, whatever is enqueued.
func TestBoundOnSends(t *testing.T) {
	t.Parallel()
	s, seen := sends(t)
	for i := range measure.MaxKinds + 10 {
		s.Enqueued(t.Context(), "q", fmt.Sprint("k", i), "", time.Second)
	}
	series := map[string]bool{}
	for _, x := range *seen {
		series[x] = true
	}
	require.Len(t, series, measure.MaxKinds+1)
	require.Contains(t, (*seen)[measure.MaxKinds], "pawl.kind="+measure.Other)
}

func TestProviderThatFails(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	_, err := measure.NewOperation(provider{err: broken}.Meter(measure.Scope))
	require.ErrorIs(t, err, broken)
}
