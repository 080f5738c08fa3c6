package runtime

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawlgo/pawl/internal/store"
)

// Without a provider of tracers, a job or an event that comes from no trace costs
// nothing.
func TestNoTraceAllocatesNothing(t *testing.T) {
	w := measuredWorker(t, nil, 1)
	a := attemptOf(w, "k000")
	p := &projection{event: &store.PendingEvent{Type: "trip.completed"}}
	ctx, now := context.Background(), time.Now()
	require.Zero(t, testing.AllocsPerRun(100, func() {
		if a.trace(ctx) != ctx || p.trace(ctx, w, now) != ctx {
			t.Fatal("another context")
		}
		a.traced.end(&verdict{}, now)
		p.traced.undone(outcomeRolledBack, "", now)
	}))
	require.False(t, a.traced.id.IsValid())
}
