package ops_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"

	"github.com/pawlgo/pawl/internal/testdb"
	pawlrt "github.com/pawlgo/pawl/runtime"
	"github.com/pawlgo/pawl/task"
	"github.com/pawlgo/pawl/task/taskimpl"
)

// names are the metrics that Prometheus sees, each with its labels.
type names map[string]map[string]bool

// add notes a series.
func (n names) add(name string, labels ...string) {
	if n[name] == nil {
		n[name] = map[string]bool{"instance": true, "job": true} // which a scrape adds
	}
	for _, l := range labels {
		n[name][l] = true
	}
}

// read scrapes a server once.
func read(url string) (names, map[string]float64) {
	response, err := http.Get(url)
	if err != nil {
		panic(err)
	}
	defer response.Body.Close()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(response.Body)
	if err != nil {
		panic(err)
	}
	all, counts := names{}, map[string]float64{}
	for name, family := range families {
		for _, m := range family.GetMetric() {
			var (
				labels         []string
				queue, outcome string
			)
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetName())
				switch l.GetName() {
				case "messaging_destination_name":
					queue = l.GetValue()
				case "pawl_outcome":
					outcome = l.GetValue()
				}
			}
			if h := m.GetHistogram(); h != nil {
				all.add(name+"_bucket", append(labels, "le")...)
				all.add(name+"_sum", labels...)
				all.add(name+"_count", labels...)
				counts[fmt.Sprintf("%s_count{messaging_destination_name=%q,outcome=%q}", name, queue, outcome)] += float64(h.GetSampleCount())
				continue
			}
			all.add(name, labels...)
		}
	}
	return all, counts
}

func scrape(url string) map[string]float64 {
	_, counts := read(url)
	return counts
}

type args struct{}

func decode(int, []byte) (a args, err error) { return a, nil }

// emitted is what a worker emits to which about everything has happened.
func emitted(t *testing.T) names {
	t.Helper()
	pool := testdb.Migrated(t)
	kind := func(name string, id uint64) *taskimpl.Kind[args] {
		return &taskimpl.Kind[args]{Name: name, Queue: "mail", Priority: task.Normal, Version: 1, Decode: decode,
			Policy:       taskimpl.Policy{Attempts: 3, Base: time.Hour, Max: time.Hour, Unknown: 3, Timeout: time.Minute},
			Capabilities: []taskimpl.Capability{{Version: 1, ID: id}}}
	}
	good, bad := kind("good", 1), kind("bad", 2)
	good.Schedule = &taskimpl.Schedule[args]{Spec: "@every 1s", Zone: "UTC", Missed: "one", Args: func(time.Time) args { return args{} }}
	event := &taskimpl.Event[args]{Name: "trip.completed", Aggregate: "trip", Version: 1, Decode: decode,
		Policy:       taskimpl.Policy{Attempts: 3, Base: time.Hour, Max: time.Hour, Unknown: 3, Timeout: time.Minute},
		Capabilities: []taskimpl.Capability{{Version: 1, ID: 3}}}
	tables := []task.Table{taskimpl.Table(
		taskimpl.Row(good, func(context.Context, *task.Job[args]) error { return nil }),
		taskimpl.Row(bad, func(context.Context, *task.Job[args]) error { return task.Permanent(errors.New("no")) }),
	)}

	mux := http.NewServeMux()
	provider := providerAt(t, mux)
	worker, err := pawlrt.New(pool, pawlrt.Config{
		Tables: tables, MeterProvider: provider, Lease: 3 * time.Second, Logger: slog.New(slog.DiscardHandler),
		Events: []task.EventTable{taskimpl.EventTable(taskimpl.EventRow(event, func(context.Context, pgx.Tx, *task.Fact[args]) error {
			return task.Transient(errors.New("later"))
		}))},
	})
	require.NoError(t, err)
	// What the application enqueues is the same metric as what the schedule does.
	metrics, err := task.NewMetrics(provider)
	require.NoError(t, err)
	sending := metrics.Context(t.Context())
	for _, k := range []*taskimpl.Kind[args]{good, bad, kind("bad", 4)} {
		_, err := taskimpl.Enqueue(sending, task.Autocommit(pool), k, args{}, nil)
		require.NoError(t, err)
	}
	_, err = taskimpl.Publish(sending, task.Autocommit(pool), event, "1", args{}, nil)
	require.NoError(t, err)

	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- worker.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		require.NoError(t, <-done)
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	testdb.Eventually(t, 30*time.Second, "all to happen", func() bool {
		all, _ := read(server.URL + "/metrics")
		for name, label := range map[string]string{
			"pawl_queue_stranded": "pawl_kind", "messaging_process_duration_seconds_count": "error_type", "pawl_projection_duration_seconds_count": "error_type",
			"pawl_outbox_lag_events": "pawl_kind", "pawl_schedule_ticks_total": "pawl_kind", "messaging_client_operation_duration_seconds_count": "messaging_operation_type",
			"pawl_batch_size_count": "db_operation_name",
		} {
			if !all[name][label] {
				return false
			}
		}
		return worker.Stats().Dead == 1 && worker.Stats().Schedules.Ticks > 0
	})
	all, _ := read(server.URL + "/metrics")
	return all
}
