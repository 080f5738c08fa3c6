//go:build full

package runtime_test

import (
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawlgo/pawl/internal/testdb"
)

// A hundred thousand events by twenty writers, with delays, rollbacks and
// savepoints, while processes that project them are killed every few seconds.
func TestSoakOfEvents(t *testing.T) {
	t.Parallel()
	pool := projections(t, testdb.MaxConns(40))
	e := event()
	start(t, pool, projecting(e, record))
	writing := make(chan struct{})
	go func() {
		defer close(writing)
		writers(t, pool, e, 20, 100_000, 500)
	}()
	kills := 0
	for done := false; !done; kills++ {
		p := spawn(t, pool, childConfig{Lease: lease, Concurrency: 1, Events: true})
		select {
		case <-writing:
			done = true
		case <-time.After(3 * time.Second):
		}
		p.signal(t, syscall.SIGKILL)
		receive(t, p.exited, "the process to be gone")
	}
	require.Greater(t, kills, 1)
	exactly(t, pool)
}
