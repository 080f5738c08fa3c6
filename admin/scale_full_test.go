//go:build full

package admin_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawlgo/pawl/admin"
)

// Every question is answered within a second at five million jobs, possibly in
// part. The first answer to each warms the caches.
func TestEveryPageWithinASecond(t *testing.T) {
	pool, c := open(t)
	fill(t, pool, 5_000_000)
	for name, ask := range questions(t, pool, c, admin.Page{}) {
		require.NoError(t, ask(t.Context()), name)
		began := time.Now()
		require.NoError(t, ask(t.Context()), name)
		took := time.Since(began)
		t.Logf("%-24s %v", name, took.Round(time.Millisecond))
		if took >= time.Second {
			t.Errorf("%s took %v", name, took)
		}
	}
	began := time.Now()
	_, err := c.Doctor(t.Context(), admin.DoctorOptions{})
	require.NoError(t, err)
	t.Logf("%-24s %v", "doctor", time.Since(began).Round(time.Millisecond))
}
