package runtime_test

import (
	"bytes"
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/pawlgo/pawl/internal/store"
	"github.com/pawlgo/pawl/internal/testdb"
	pawlrt "github.com/pawlgo/pawl/runtime"
	"github.com/pawlgo/pawl/task"
)

// blackhole makes connections whose packets can get lost without a reset, once
// they have been used to listen.
type blackhole struct {
	open atomic.Bool
}

type lossyConn struct {
	net.Conn
	hole   *blackhole
	listen atomic.Bool
}

func (c *lossyConn) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte("LISTEN ")) {
		c.listen.Store(true)
	}
	if c.listen.Load() && c.hole.open.Load() {
		return len(p), nil
	}
	return c.Conn.Write(p)
}

func (c *lossyConn) Read(p []byte) (int, error) {
	for {
		n, err := c.Conn.Read(p)
		if err != nil || !c.listen.Load() || !c.hole.open.Load() {
			return n, err
		}
	}
}

// The listener's packets vanish: jobs start within the poll interval, and the
// listener finds out and connects again.
func TestSilentListener(t *testing.T) {
	t.Parallel()
	pool := testdb.Migrated(t)
	hole := &blackhole{}
	config := pool.Config()
	dial := config.ConnConfig.DialFunc
	config.ConnConfig.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		return &lossyConn{Conn: conn, hole: hole}, err
	}
	lossy, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	defer lossy.Close()
	k := kind("k", "q")
	w := start(t, lossy, pawlrt.Config{Poll: 200 * time.Millisecond, Tables: []task.Table{table(k, func(context.Context, *task.Job[args]) error { return nil })}})
	listening(t, w)
	hole.open.Store(true)
	wakeups := w.Stats().Wakeups
	for i := range 5 {
		put(t, pool, k, args{N: i})
		require.Equal(t, store.Audit{Completed: i + 1}, settled(t, pool, i+1))
	}
	require.Equal(t, wakeups, w.Stats().Wakeups)
	testdb.Eventually(t, 3*slow, "the listener to notice", func() bool { return !w.Stats().Listening || w.Stats().Reconnects > 0 })
	hole.open.Store(false)
	testdb.Eventually(t, 3*slow, "the listener", func() bool { return w.Stats().Listening && w.Stats().Reconnects > 0 })
	require.Equal(t, wakeups, w.Stats().Wakeups)
	wakesUp(t, pool, w, k)
}

// The user's pool has hooks of its own: the listener connects as the pool would,
// and gets its notifications in any case.
func TestHooksOfThePool(t *testing.T) {
	t.Parallel()
	pool := testdb.Migrated(t)
	config := pool.Config()
	secret := config.ConnConfig.Password
	config.ConnConfig.Password = "expired"
	config.BeforeConnect = func(_ context.Context, c *pgx.ConnConfig) error {
		c.Password = secret // a token that is good for a while
		return nil
	}
	config.ConnConfig.RuntimeParams["application_name"] = pooledName // the hook knows one password
	config.ConnConfig.OnNotification = func(*pgconn.PgConn, *pgconn.Notification) {}
	hooked, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	defer hooked.Close()
	k := kind("k", "q")
	w := start(t, hooked, pawlrt.Config{Poll: never, Tables: []task.Table{table(k, func(context.Context, *task.Job[args]) error { return nil })}})
	listening(t, w)
	idle(t, w)
	put(t, pool, k, args{})
	require.Equal(t, store.Audit{Completed: 1}, settled(t, pool, 1))
	require.Positive(t, w.Stats().Wakeups)
}
