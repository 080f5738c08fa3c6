//go:build full && (linux || darwin)

package runtime_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pawlgo/pawl/internal/pgbouncer"
	"github.com/pawlgo/pawl/internal/testdb"
	"github.com/pawlgo/pawl/task"
)

// pooledEvents are the tests of events that are run once more behind a pooler.
const pooledEvents = "^Test(Relay|PublishingWakes|PoisonedEvent|PoisonedAggregate|RetriesKeepOrder|ProjectionsThatMisbehave|StuckProjection|UnknownEvents" +
	"|CommitOrder|ManyWriters|KilledRelays|DeadlocksAmongProjections|ProjectionsEnqueueAndPublish|TransactionalTasksPublish|ProjectionsSeeTheChange" +
	"|EventsAreBounded)$"

func TestPgBouncerEventSuite(t *testing.T) {
	again(t, pooledEvents, "|^TestRelay$|^TestPublishingWakes$", 10)
}

// Five relays and ten writers share two connections to the server. What was
// committed is projected once, in order within each aggregate, although some
// projections fail at first; what was rolled back never is. A batch is one
// transaction, which is all that a transaction pooler keeps together.
func TestPgBouncerEvents(t *testing.T) {
	t.Parallel()
	direct, err := pgx.ParseConfig(testdb.Server(t).URL())
	require.NoError(t, err)
	p := pgbouncer.Start(t, direct, nil)
	for name, mode := range modes {
		for _, listen := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, listener %t", name, listen), func(t *testing.T) {
				t.Parallel()
				pool := projections(t)
				e := event()
				config := projecting(e, func(ctx context.Context, tx pgx.Tx, f *task.Fact[args]) error {
					if f.Attempt == 1 && f.Payload.N%20 == 0 {
						return task.Transient(errors.New("not yet"))
					}
					return record(ctx, tx, f)
				})
				config.Lease, config.PollOnly, config.Logger = time.Minute, !listen, slog.New(slog.DiscardHandler)
				if listen {
					config.Listen = pool.Config().ConnConfig
				}
				var workers []*running
				for range 5 {
					workers = append(workers, start(t, behind(t, pool, p, mode), config))
				}
				writers(t, behind(t, pool, p, mode), e, 10, 500, 20)
				exactly(t, pool)
				if listen {
					// As long as there is work nobody has to be woken.
					asleep(t, pool)
					publish(t, task.Autocommit(behind(t, pool, p, mode)), e, "late", args{N: 1})
					testdb.Eventually(t, slow, "the event of a sleeping relay", func() bool { return len(ordered(t, pool, "late")) == 1 })
				}
				var projected, wakeups int64
				for _, w := range workers {
					require.NoError(t, w.shutdown(t))
					s := w.Stats()
					projected += s.Events.Projected
					wakeups += s.Wakeups
					require.Zero(t, s.Events.Stuck)
				}
				require.EqualValues(t, query[int](t, pool, `SELECT count(*) FROM projected`), projected)
				require.Equal(t, listen, wakeups > 0)
			})
		}
	}
}
