//go:build full

package admin_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawlgo/pawl/admin"
)

// Every question is answered within a second at five million jobs, possibly in
// part. The first answer to each warms the caches.
func TestEveryPageWithinASecond(t *testing.T) {
	pool, c := openOwned(t)
	fill(t, pool, 5_000_000)
	timed := func(name string, ask func(context.Context) error) {
		require.NoError(t, ask(t.Context()), name)
		began := time.Now()
		require.NoError(t, ask(t.Context()), name)
		took := time.Since(began)
		t.Logf("%-24s %v", name, took.Round(time.Millisecond))
		if took >= time.Second {
			t.Errorf("%s took %v", name, took)
		}
	}
	for name, ask := range questions(t, pool, c, admin.Page{}) {
		timed(name, ask)
	}
	// Some that wait for a time that their history does not know, and may be lost.
	exec(t, pool, `UPDATE pawl.ready r SET run_at = r.run_at + interval '1 second' FROM (SELECT j.id FROM pawl.jobs j ORDER BY j.id DESC LIMIT 1000) x WHERE r.id = x.id`)
	timed("jobs lost", func(ctx context.Context) error {
		list, err := c.Jobs(ctx, admin.JobFilter{State: admin.StateLost}, admin.Page{})
		require.Empty(t, list.Jobs)
		return err
	})
	began := time.Now()
	_, err := c.Doctor(t.Context(), admin.DoctorOptions{})
	require.NoError(t, err)
	t.Logf("%-24s %v", "doctor", time.Since(began).Round(time.Millisecond))
}
