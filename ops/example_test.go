package ops_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"

	"github.com/jackc/pgx/v5/pgxpool"
	prom "github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"

	"github.com/pawlgo/pawl/internal/demo"
	"github.com/pawlgo/pawl/internal/testdb"
	pawlrt "github.com/pawlgo/pawl/runtime"
	"github.com/pawlgo/pawl/task"
)

// newWorker makes a worker whose metrics are at /metrics of the mux.
func newWorker(pool *pgxpool.Pool, tables []task.Table, mux *http.ServeMux) (*pawlrt.Worker, error) {
	registry := prom.NewRegistry()
	exporter, err := prometheus.New(prometheus.WithRegisterer(registry))
	if err != nil {
		return nil, err
	}
	provider := metric.NewMeterProvider(metric.WithReader(exporter))
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	return pawlrt.New(pool, pawlrt.Config{Tables: tables, MeterProvider: provider})
}

// mailer handles the queue mail.
type mailer struct{ done func() }

func (m mailer) HandleSendReceipt(context.Context, *task.Job[demo.SendReceiptArgs]) error {
	m.done()
	return nil
}

// A worker whose metrics Prometheus can scrape. Another exporter is another
// reader of the provider; the process's global provider would be
// otel.GetMeterProvider().
func Example() {
	slog.SetDefault(slog.New(slog.DiscardHandler))
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	pool, drop := testdb.Example(ctx) // a *pgxpool.Pool, after migrations.Up
	defer drop()
	if _, err := demo.EnqueueSendReceipt(ctx, task.Autocommit(pool), demo.SendReceiptArgs{OrderID: 17, To: "ada@example.com"}); err != nil {
		panic(err)
	}

	mux := http.NewServeMux()
	worker, err := newWorker(pool, demo.Tables(mailer{done: stop}), mux)
	if err != nil {
		panic(err)
	}
	if err := worker.Run(ctx); err != nil {
		panic(err)
	}

	server := httptest.NewServer(mux)
	defer server.Close()
	fmt.Println("completed:", scrape(server.URL + "/metrics")[`messaging_process_duration_seconds_count{messaging_destination_name="mail",outcome="completed"}`])

	// Output:
	// completed: 1
}

// What an application enqueues is measured once it says so, in the one place where
// the contexts of its requests begin. The provider may be that of a worker in the
// same process.
func Example_sends() {
	ctx := context.Background()
	pool, drop := testdb.Example(ctx)
	defer drop()

	registry := prom.NewRegistry()
	exporter, err := prometheus.New(prometheus.WithRegisterer(registry))
	if err != nil {
		panic(err)
	}
	metrics, err := task.NewMetrics(metric.NewMeterProvider(metric.WithReader(exporter)))
	if err != nil {
		panic(err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("POST /orders", func(_ http.ResponseWriter, r *http.Request) {
		if _, err := demo.EnqueueSendReceipt(r.Context(), task.Autocommit(pool), demo.SendReceiptArgs{OrderID: 17, To: "ada@example.com"}); err != nil {
			panic(err)
		}
	})
	server := httptest.NewUnstartedServer(mux)
	server.Config.BaseContext = func(net.Listener) context.Context { return metrics.Context(ctx) }
	server.Start()
	defer server.Close()

	response, err := http.Post(server.URL+"/orders", "", nil)
	if err != nil {
		panic(err)
	}
	defer response.Body.Close()
	fmt.Println("enqueued:", scrape(server.URL + "/metrics")[`messaging_client_operation_duration_seconds_count{messaging_destination_name="mail",outcome=""}`])

	// Output:
	// enqueued: 1
}
