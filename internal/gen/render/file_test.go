package render

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Stored jobs carry these values: they never change.
func TestCapabilityID(t *testing.T) {
	t.Parallel()
	// printf '["send_webhook",1]' | sha256sum
	require.Equal(t, uint64(0xbb46e02b51d99942), capabilityID("send_webhook", 1))
	require.NotEqual(t, capabilityID("a", 11), capabilityID("a1", 1))
}

func TestDuration(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		time.Second: "time.Second", time.Hour: "time.Hour", 72 * time.Hour: "72 * time.Hour", 90 * time.Second: "90 * time.Second",
		time.Microsecond: "time.Microsecond", 1500 * time.Microsecond: "1500 * time.Microsecond", 1: "1 * time.Nanosecond",
	} {
		require.Equal(t, want, fmt.Sprintf("%#v", duration(d)))
	}
}

func TestQueueName(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"webhooks": "Webhooks", "fleet_reports": "FleetReports", "a__b_": "AB", "q1_2": "Q12",
	} {
		require.Equal(t, want, queue{name: name}.goName())
	}
}
