package runtime_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/pawlgo/pawl/internal/testdb"
	"github.com/pawlgo/pawl/migrations"
	pawlrt "github.com/pawlgo/pawl/runtime"
	"github.com/pawlgo/pawl/task"
)

func ask(h http.Handler) *httptest.ResponseRecorder {
	answer := httptest.NewRecorder()
	h.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/", nil))
	return answer
}

func requireAnswer(t *testing.T, h http.Handler, status int, text string) {
	t.Helper()
	answer := ask(h)
	require.Equal(t, status, answer.Code, answer.Body)
	require.Equal(t, text+"\n", answer.Body.String())
	require.Equal(t, "no-store", answer.Header().Get("Cache-Control"))
	require.Equal(t, "text/plain; charset=utf-8", answer.Header().Get("Content-Type"))
}

// The answers follow the worker's life: made, running, without its database,
// draining, gone.
func TestHealth(t *testing.T) {
	t.Parallel()
	pool := testdb.Migrated(t)
	p := newProxy(t, pool.Config().ConnConfig)
	g := newGate()
	k := kind("k", "q")
	made, err := pawlrt.New(pool, pawlrt.Config{Tables: []task.Table{table(k, g.ignore)}})
	require.NoError(t, err)
	requireAnswer(t, made.Livez(), http.StatusOK, "ok")
	requireAnswer(t, made.Readyz(), http.StatusServiceUnavailable, "not registered with the database yet")

	w := start(t, changed(t, pool, func(c *pgxpool.Config) { p.through(c.ConnConfig) }), pawlrt.Config{
		Lease: 2 * time.Second, Heartbeat: time.Second, Poll: 50 * time.Millisecond, Logger: slog.New(slog.DiscardHandler), Tables: []task.Table{table(k, g.ignore)}})
	ready := func() bool { return ask(w.Readyz()).Code == http.StatusOK }
	testdb.Eventually(t, slow, "the worker to be ready", ready)
	requireAnswer(t, w.Livez(), http.StatusOK, "ok")

	p.silence()
	testdb.Eventually(t, slow, "the worker not to be ready", func() bool { return !ready() })
	requireAnswer(t, w.Readyz(), http.StatusServiceUnavailable, "no contact with the database")
	requireAnswer(t, w.Livez(), http.StatusOK, "ok")
	p.heal()
	testdb.Eventually(t, slow, "the worker to be ready", ready)

	put(t, pool, k, args{})
	g.started(t, 1)
	w.stop()
	testdb.Eventually(t, slow, "the shutdown", func() bool { return !ready() })
	requireAnswer(t, w.Readyz(), http.StatusServiceUnavailable, "shutting down")
	requireAnswer(t, w.Livez(), http.StatusOK, "ok")
	g.open()
	require.NoError(t, w.shutdown(t))
	requireAnswer(t, w.Readyz(), http.StatusServiceUnavailable, "Run has returned")
	requireAnswer(t, w.Livez(), http.StatusServiceUnavailable, "Run has returned")
}

// A worker whose Run could not begin has returned.
func TestHealthWithoutSchema(t *testing.T) {
	t.Parallel()
	w, err := pawlrt.New(testdb.New(t), pawlrt.Config{Tables: []task.Table{table(kind("k", "q"), fine)}})
	require.NoError(t, err)
	require.ErrorIs(t, w.Run(t.Context()), migrations.ErrBehind)
	requireAnswer(t, w.Livez(), http.StatusServiceUnavailable, "Run has returned")
}

func TestHealthMethods(t *testing.T) {
	t.Parallel()
	w, err := pawlrt.New(testdb.New(t), pawlrt.Config{Tables: []task.Table{table(kind("k", "q"), fine)}})
	require.NoError(t, err)
	mux := http.NewServeMux()
	mux.Handle("/livez", w.Livez())
	mux.Handle("GET /readyz", w.Readyz())
	server := httptest.NewServer(mux)
	defer server.Close()
	for request, want := range map[string]int{
		"GET /livez": http.StatusOK, "HEAD /livez": http.StatusOK, "POST /livez": http.StatusMethodNotAllowed,
		"GET /readyz": http.StatusServiceUnavailable, "HEAD /readyz": http.StatusServiceUnavailable, "DELETE /livez": http.StatusMethodNotAllowed,
	} {
		method, path, _ := strings.Cut(request, " ")
		r, err := http.NewRequestWithContext(t.Context(), method, server.URL+path, nil)
		require.NoError(t, err)
		answer, err := server.Client().Do(r)
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		require.Equal(t, want, answer.StatusCode, request)
		if want == http.StatusMethodNotAllowed {
			require.Equal(t, "GET, HEAD", answer.Header.Get("Allow"), request)
		}
	}
}

// What stops the loop that keeps the lease shows: here a log that never returns.
func TestHealthOfAKeeperThatHangs(t *testing.T) {
	t.Parallel()
	pool := testdb.Migrated(t)
	g := newGate()
	w := start(t, pool, pawlrt.Config{
		Lease: 500 * time.Millisecond, Heartbeat: 100 * time.Millisecond, Poll: never, PollOnly: true,
		Logger: slog.New(hanging{until: g.opened}), Tables: []task.Table{table(kind("k", "q"), fine)},
	})
	testdb.Eventually(t, slow, "the worker to be ready", func() bool { return ask(w.Readyz()).Code == http.StatusOK })
	exec(t, pool, `DELETE FROM pawl.processes`)
	testdb.Eventually(t, slow, "it to show", func() bool { return ask(w.Livez()).Code == http.StatusServiceUnavailable })
	require.Contains(t, ask(w.Livez()).Body.String(), "the keeper of the lease has not moved for")
	require.Contains(t, ask(w.Readyz()).Body.String(), "the keeper of the lease has not moved for")
	g.open()
	testdb.Eventually(t, slow, "it to be well again", func() bool { return ask(w.Livez()).Code == http.StatusOK })
}

// hanging is a log that is stuck at the first bad news.
type hanging struct{ until <-chan struct{} }

func (h hanging) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelError }
func (h hanging) WithAttrs([]slog.Attr) slog.Handler               { return h }
func (h hanging) WithGroup(string) slog.Handler                    { return h }
func (h hanging) Handle(context.Context, slog.Record) error {
	<-h.until
	return errors.New("x")
}
