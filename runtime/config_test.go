package runtime

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/pawlgo/pawl/internal/dispatch"
	"github.com/pawlgo/pawl/task"
)

func row(kind, queue string) dispatch.Row {
	return dispatch.Row{Kind: kind, Queue: queue, Versions: []dispatch.Version{{Number: 1, Capability: 1}},
		Policy: dispatch.Policy{Attempts: 1, Base: 1, Max: 1, Unknown: 1, Timeout: time.Minute},
		Run:    func(context.Context, *dispatch.Delivery) error { return nil }}
}

func TestConfigErrors(t *testing.T) {
	t.Parallel()
	pool, err := pgxpool.New(t.Context(), "postgres://nobody@127.0.0.1:1/none")
	require.NoError(t, err)
	defer pool.Close()
	tables := []task.Table{dispatch.NewTable(row("a", "q"), row("b", "q")), dispatch.NewTable(row("c", "r"))}
	for message, c := range map[string]Config{
		"no table has a handler":                                         {},
		"no table has a handler: pass":                                   {Tables: []task.Table{{}, dispatch.NewTable()}},
		"kind a stands in two tables":                                    {Tables: append(tables, dispatch.NewTable(row("a", "other")))},
		`Queues names "s", which no table serves: the tables serve q, r`: {Tables: tables, Queues: map[string]Queue{"s": {}}},
		"queue q has concurrency -1":                                     {Tables: tables, Queues: map[string]Queue{"q": {Concurrency: -1}}},
		"queue q has concurrency 1048577":                                {Tables: tables, Queues: map[string]Queue{"q": {Concurrency: 1<<20 + 1}}},
		"Middleware[1] is nil":                                           {Tables: tables, Middleware: []Middleware{func(ctx context.Context, _ JobInfo, next func(context.Context) error) error { return next(ctx) }, nil}},
		"Name is not valid UTF-8 without U+0000":                         {Tables: tables, Name: "a\x00b"},
		"Name is not valid":                                              {Tables: tables, Name: "\xff"},
		"Lease is -1s":                                                   {Tables: tables, Lease: -time.Second},
		"Lease is 1ns":                                                   {Tables: tables, Lease: 1},
		"Heartbeat is -1s":                                               {Tables: tables, Heartbeat: -time.Second},
		"Heartbeat is 8s, more than half of the lease":                   {Tables: tables, Heartbeat: 8 * time.Second},
		"Poll is -1s":                                                    {Tables: tables, Poll: -time.Second},
		"SoftLimit is -1s":                                               {Tables: tables, SoftLimit: -time.Second},
		"HardLimit is -1s":                                               {Tables: tables, HardLimit: -time.Second},
		"HardLimit 1s is before SoftLimit 20s":                           {Tables: tables, HardLimit: time.Second},
		"HardLimit 1s is before SoftLimit 2s":                            {Tables: tables, SoftLimit: 2 * time.Second, HardLimit: time.Second},
	} {
		w, err := New(pool, c)
		require.ErrorIs(t, err, ErrConfig, message)
		require.ErrorContains(t, err, message)
		require.Nil(t, w)
	}
	_, err = New(nil, Config{Tables: tables})
	require.ErrorIs(t, err, ErrConfig)
	require.ErrorContains(t, err, "the pool is nil")
}

func TestConfigDefaults(t *testing.T) {
	t.Parallel()
	tables := []task.Table{dispatch.NewTable(row("a", "q"), row("b", "r"))}
	given := Config{Tables: tables, Queues: map[string]Queue{"r": {Concurrency: 3}}}
	c, err := given.withDefaults()
	require.NoError(t, err)
	require.Equal(t, []time.Duration{DefaultLease, DefaultHeartbeat, DefaultPoll, DefaultSoftLimit, DefaultHardLimit},
		[]time.Duration{c.Lease, c.Heartbeat, c.Poll, c.SoftLimit, c.HardLimit})
	require.NotEmpty(t, c.Name)
	require.NotNil(t, c.Logger)
	require.Zero(t, given.Lease, "the caller's copy is left alone")
	all, err := c.queues()
	require.NoError(t, err)
	require.Equal(t, []int{DefaultConcurrency, 3}, []int{all[0].concurrency, all[1].concurrency})

	c, err = Config{Tables: tables, Lease: 3 * time.Second, SoftLimit: time.Minute}.withDefaults()
	require.NoError(t, err)
	require.Equal(t, []time.Duration{time.Second, time.Minute}, []time.Duration{c.Heartbeat, c.HardLimit})
}
