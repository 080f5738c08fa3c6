package runtime

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"
)

// touchy is a log handler that panics in the methods that it is told to.
type touchy struct {
	in    map[string]bool
	lines *[]string
}

func (h touchy) maybe(method string) {
	if h.in[method] {
		panic(method)
	}
}

func (h touchy) Enabled(context.Context, slog.Level) bool { h.maybe("Enabled"); return true }
func (h touchy) WithAttrs([]slog.Attr) slog.Handler       { h.maybe("WithAttrs"); return h }
func (h touchy) WithGroup(string) slog.Handler            { h.maybe("WithGroup"); return h }
func (h touchy) Handle(_ context.Context, r slog.Record) error {
	h.maybe("Handle")
	*h.lines = append(*h.lines, r.Message)
	return nil
}

func TestAPanicOfTheLogIsSwallowed(t *testing.T) {
	t.Parallel()
	for method, lines := range map[string][]string{
		"none": {"a"}, "Enabled": nil, "Handle": nil, "WithAttrs": {"a"}, "WithGroup": {"a"},
	} {
		var panics atomic.Int64
		var got []string
		log := guard(slog.New(touchy{in: map[string]bool{method: true}, lines: &got}), &panics)
		log.With("k", "v").WithGroup("g").Warn("a", "k", "v")
		require.Equal(t, lines, got, method)
		require.Equal(t, method != "none", panics.Load() == 1, method)
	}
	// Neither is a logger without a handler any trouble.
	var panics atomic.Int64
	guard(&slog.Logger{}, &panics).With("k", "v").Info("a")
	require.Positive(t, panics.Load())
}

// What goes on failing is logged at growing intervals, with the number of what
// was left out; what fails anew is logged at once.
func TestRepeats(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var r repeats
		key := repeatKey{loop: "a", message: "m"}
		begun := time.Now()
		var at []int
		all := 0
		for range 3600 {
			if left, ok := r.due(key); ok {
				at = append(at, int(time.Since(begun).Seconds()))
				all += left + 1
			}
			time.Sleep(time.Second)
		}
		require.Equal(t, []int{0, 5, 15, 35, 75, 155, 311 + 4, 611 + 4, 911 + 4}, at[:9])
		require.Less(t, len(at), 20)
		require.Greater(t, all, 3000)

		_, ok := r.due(repeatKey{loop: "b", message: "m"})
		require.True(t, ok, "another loop")
		_, ok = r.due(repeatKey{loop: "a", message: "m", code: "25006"})
		require.True(t, ok, "another failure")

		time.Sleep(time.Hour)
		_, ok = r.due(key)
		require.True(t, ok, "it had passed")
		time.Sleep(6 * time.Second)
		_, ok = r.due(key)
		require.True(t, ok, "and begins anew")
	})
}

func TestRepeatsByCode(t *testing.T) {
	t.Parallel()
	var lines []string
	w := &Worker{log: slog.New(touchy{lines: &lines})}
	for range 10 {
		w.warn("loop", "failed", fmt.Errorf("claim: %w", &pgconn.PgError{Code: "25006"}))
		w.warn("loop", "failed", &pgconn.PgError{Code: "57P01"})
		w.warn("loop", "failed", errors.New("connection refused by port 1"))
		w.warn("loop", "failed", errors.New("connection refused by port 2"))
		w.error("loop", "failed badly", nil)
	}
	require.Equal(t, []string{"failed", "failed", "failed", "failed badly"}, lines)
}

// A loop that stands still shows when it has missed several turns, and not
// before.
func TestBeats(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var h health
		h.init(&Config{Lease: 15 * time.Second, Heartbeat: 5 * time.Second})
		time.Sleep(time.Hour)
		require.Empty(t, h.dead(), "it has not begun")
		h.serve()
		for range 10 {
			h.keeper.tick()
			require.Empty(t, h.dead())
			time.Sleep(5 * time.Second)
		}
		require.Empty(t, h.dead())
		for range 3 {
			h.keeper.tick()
			time.Sleep(5 * time.Second)
		}
		require.Equal(t, "the sweeper has not moved for 1m5s", h.dead())
		h.sweeper.tick()
		require.Empty(t, h.dead())
		time.Sleep(30 * time.Second)
		require.Equal(t, "the keeper of the lease has not moved for 35s", h.dead())
	})
}
