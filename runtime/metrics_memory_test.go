package runtime_test

import (
	"context"
	"maps"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
)

// meters is a provider of metrics that keeps what it is told, as an SDK would.
type meters struct {
	noop.MeterProvider

	mu         sync.Mutex
	histograms map[string]map[attribute.Distinct]*point // guarded by mu; by name
	callbacks  map[int]metric.Callback                  // guarded by mu
	next       int                                      // guarded by mu
}

// point is one series. Of a histogram the value is how many were recorded.
type point struct {
	name   string
	labels map[string]string
	value  float64
	sum    float64 // of a histogram
}

func newMeters() *meters {
	return &meters{histograms: map[string]map[attribute.Distinct]*point{}, callbacks: map[int]metric.Callback{}}
}

func (m *meters) Meter(string, ...metric.MeterOption) metric.Meter { return meter{m: m} }

type meter struct {
	noop.Meter
	m *meters
}

type recorder struct {
	noop.Float64Histogram
	m    *meters
	name string
}

type observed struct {
	noop.Int64ObservableCounter
	name string
}

type observedGauge struct {
	noop.Float64ObservableGauge
	name string
}

func (x meter) Float64Histogram(name string, _ ...metric.Float64HistogramOption) (metric.Float64Histogram, error) {
	return recorder{m: x.m, name: name}, nil
}

func (meter) Int64ObservableCounter(name string, _ ...metric.Int64ObservableCounterOption) (metric.Int64ObservableCounter, error) {
	return observed{name: name}, nil
}

func (meter) Float64ObservableGauge(name string, _ ...metric.Float64ObservableGaugeOption) (metric.Float64ObservableGauge, error) {
	return observedGauge{name: name}, nil
}

type registration struct {
	noop.Registration
	end func()
}

func (r registration) Unregister() error {
	r.end()
	return nil
}

func (x meter) RegisterCallback(f metric.Callback, _ ...metric.Observable) (metric.Registration, error) {
	m := x.m
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.next
	m.next++
	m.callbacks[n] = f
	return registration{end: func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.callbacks, n)
	}}, nil
}

func (r recorder) Record(_ context.Context, value float64, options ...metric.RecordOption) {
	set := metric.NewRecordConfig(options).Attributes()
	r.m.mu.Lock()
	defer r.m.mu.Unlock()
	if r.m.histograms[r.name] == nil {
		r.m.histograms[r.name] = map[attribute.Distinct]*point{}
	}
	p, ok := r.m.histograms[r.name][set.Equivalent()]
	if !ok {
		p = &point{name: r.name, labels: labelsOf(set)}
		r.m.histograms[r.name][set.Equivalent()] = p
	}
	p.value++
	p.sum += value
}

func labelsOf(set attribute.Set) map[string]string {
	labels := map[string]string{}
	for _, kv := range set.ToSlice() {
		labels[string(kv.Key)] = kv.Value.AsString()
	}
	return labels
}

// observer gathers one collection.
type observer struct {
	noop.Observer
	points *[]point
}

func (o observer) ObserveInt64(of metric.Int64Observable, value int64, options ...metric.ObserveOption) {
	*o.points = append(*o.points, point{name: of.(observed).name, value: float64(value), labels: labelsOf(metric.NewObserveConfig(options).Attributes())})
}

func (o observer) ObserveFloat64(of metric.Float64Observable, value float64, options ...metric.ObserveOption) {
	*o.points = append(*o.points, point{name: of.(observedGauge).name, value: value, labels: labelsOf(metric.NewObserveConfig(options).Attributes())})
}

// collect is what there is now.
func (m *meters) collect(t testing.TB) (all []point) {
	t.Helper()
	m.mu.Lock()
	for _, series := range m.histograms {
		for _, p := range series {
			all = append(all, *p)
		}
	}
	callbacks := maps.Clone(m.callbacks)
	m.mu.Unlock()
	for _, f := range callbacks {
		require.NoError(t, f(t.Context(), observer{points: &all}))
	}
	return all
}

// sum adds up the series of a metric that have these labels, the others apart.
func sum(points []point, name string, labels map[string]string) (value float64) {
	for _, p := range points {
		if p.name == name && contains(p.labels, labels) {
			value += p.value
		}
	}
	return value
}

func contains(all, some map[string]string) bool {
	for k, v := range some {
		if all[k] != v {
			return false
		}
	}
	return true
}
