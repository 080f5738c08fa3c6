package runtime

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A relay that stands still shows while it is to turn, and not before or after.
func TestHealthOfARelayThatHangs(t *testing.T) {
	t.Parallel()
	var h health
	config := Config{Heartbeat: time.Hour, Lease: time.Hour}
	h.init(&config)
	h.serve()
	h.contact.Store(true)
	require.Empty(t, h.unready(), "a worker without events")
	h.relay.period = time.Nanosecond
	h.relay.tick()
	h.relays.Store(true)
	require.Eventually(t, func() bool { return h.dead() != "" }, 10*time.Second, time.Millisecond)
	require.Contains(t, h.dead(), "the relay has not moved for")
	require.Contains(t, h.unready(), "the relay has not moved for")
	h.relay.period = time.Hour
	require.Empty(t, h.dead())
	h.relay.period = time.Nanosecond
	h.relays.Store(false)
	require.Empty(t, h.dead(), "it has ended")
}
