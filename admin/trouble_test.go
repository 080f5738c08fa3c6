package admin

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A redrive that fails is tried again for as long as a failover takes, and then left
// to somebody.
func TestTroubleDelay(t *testing.T) {
	t.Parallel()
	var all time.Duration
	last := time.Duration(0)
	for n := 1; ; n++ {
		delay, more := troubleDelay(n)
		if !more {
			require.Equal(t, maxTroubles, n)
			break
		}
		require.GreaterOrEqual(t, delay, last)
		require.LessOrEqual(t, delay, maxTrouble)
		last = delay
		all += delay
	}
	require.Greater(t, all, 30*time.Second)
	require.Less(t, all, 2*time.Minute)
}
