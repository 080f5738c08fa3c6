package ops_test

import (
	"context"
	"fmt"
	"log/slog"
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
