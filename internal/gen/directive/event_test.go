package directive

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFact(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		"trip.completed", "geofence.entered", "device.offline", "device.went_offline", "invoice.paid", "mail.sent", "report.built", "key.withdrawn",
	} {
		require.True(t, Fact(name), name)
	}
	for _, name := range []string{"trip.complete", "mail.send", "order.do_ship", "sent.mail"} {
		require.False(t, Fact(name), name)
	}
}
