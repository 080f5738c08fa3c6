package render

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Stored jobs carry the first 8 bytes of the base, big endian.
func TestCapability(t *testing.T) {
	t.Parallel()
	require.Equal(t, uint64(0x0102030405060708), capability([32]byte{1, 2, 3, 4, 5, 6, 7, 8, 9}))
	require.Equal(t, uint64(0xff00000000000000), capability([32]byte{0xff}))
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
