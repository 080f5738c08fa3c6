//go:build full && (linux || darwin)

package runtime_test

import (
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pawlgo/pawl/internal/pgbouncer"
	"github.com/pawlgo/pawl/internal/testdb"
	pawlrt "github.com/pawlgo/pawl/runtime"
	"github.com/pawlgo/pawl/task"
)

// A tick is in one transaction, which is all that a transaction pooler keeps
// together.
func TestPgBouncerSchedules(t *testing.T) {
	t.Parallel()
	direct, err := pgx.ParseConfig(testdb.Server(t).URL())
	require.NoError(t, err)
	p := pgbouncer.Start(t, direct, nil)
	for name, mode := range modes {
		for _, listen := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, listener %t", name, listen), func(t *testing.T) {
				t.Parallel()
				pool := testdb.Migrated(t)
				config := pawlrt.Config{
					Lease: time.Minute, Poll: 200 * time.Millisecond, PollOnly: !listen, Logger: slog.New(slog.DiscardHandler),
					Tables: []task.Table{table(everySecond(), fine)},
				}
				if listen {
					config.Listen = pool.Config().ConnConfig
				}
				for range 5 {
					start(t, behind(t, pool, p, mode), config)
				}
				testdb.Eventually(t, time.Minute, "ticks", func() bool { return len(seconds(t, pool)) >= 8 })
				require.NoError(t, task.RunNow(t.Context(), task.Autocommit(behind(t, pool, p, mode)), "every_second"))
				testdb.Eventually(t, slow, "the job that was asked for", func() bool {
					all := seconds(t, pool)
					slices.Sort(all)
					return len(slices.Compact(slices.Clone(all))) == len(all)-1 // in a second that has a tick
				})
				all := seconds(t, pool)
				slices.Sort(all)
				requireEachOnce(t, slices.Compact(all))
			})
		}
	}
}
