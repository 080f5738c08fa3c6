package runtime_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"

	"github.com/pawlgo/pawl/internal/demo"
	"github.com/pawlgo/pawl/internal/testdb"
	pawlrt "github.com/pawlgo/pawl/runtime"
)

// An orchestrator asks whether to send the process traffic, and whether to
// restart it.
func ExampleWorker_Livez() {
	ctx, stop := context.WithCancel(context.Background())
	pool, drop := testdb.Example(ctx) // a *pgxpool.Pool, after migrations.Up
	defer drop()
	worker, err := pawlrt.New(pool, pawlrt.Config{
		Tables: demo.Tables(mailer{}),
		Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		panic(err)
	}

	mux := http.NewServeMux()
	mux.Handle("/livez", worker.Livez())
	mux.Handle("/readyz", worker.Readyz())
	server := httptest.NewServer(mux) // a service would listen on a port that its orchestrator knows
	defer server.Close()
	ask := func(path string) {
		answer, err := http.Get(server.URL + path)
		if err != nil {
			panic(err)
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		if err != nil {
			panic(err)
		}
		fmt.Printf("%s: %d %s", path, answer.StatusCode, text)
	}

	ask("/livez")
	ask("/readyz")
	done := make(chan error, 1)
	go func() { done <- worker.Run(ctx) }()
	stop() // a service would stop at a signal
	<-done
	ask("/livez")

	// Output:
	// /livez: 200 ok
	// /readyz: 503 not registered with the database yet
	// /livez: 503 Run has returned
}
