package store_test

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/pawlgo/pawl/internal/store"
	"github.com/pawlgo/pawl/internal/testdb"
)

// kept is a connection that tells how it is kept alive, and loses what is sent
// on it when it is told to.
type kept struct {
	net.Conn
	idle *atomic.Int64
	deaf *atomic.Bool
}

func (c kept) SetKeepAliveConfig(k net.KeepAliveConfig) error {
	if k.Enable {
		c.idle.Store(int64(k.Idle))
	}
	return c.Conn.(*net.TCPConn).SetKeepAliveConfig(k)
}

func (c kept) Write(p []byte) (int, error) {
	if c.deaf.Load() {
		return len(p), nil
	}
	return c.Conn.Write(p)
}

func keptStore(t *testing.T) (s *store.Store, pool *pgxpool.Pool, idle *atomic.Int64, deaf *atomic.Bool) {
	pool = testdb.Migrated(t)
	idle, deaf = new(atomic.Int64), new(atomic.Bool)
	config := pool.Config()
	dial := config.ConnConfig.DialFunc
	config.ConnConfig.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		return kept{Conn: conn, idle: idle, deaf: deaf}, err
	}
	user, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(user.Close)
	s, err = store.Open(t.Context(), user, store.DefaultSchema, 2)
	require.NoError(t, err)
	t.Cleanup(s.Close)
	return s, pool, idle, deaf
}

func TestKeepAlive(t *testing.T) {
	t.Parallel()
	s, pool, idle, _ := keptStore(t)
	require.NoError(t, s.EnsureDays(t.Context(), 1))
	require.EqualValues(t, 15*time.Second, idle.Load(), "of the pool")
	idle.Store(0)
	l, err := s.Listen(t.Context(), nil)
	require.NoError(t, err)
	defer l.Close()
	require.EqualValues(t, 15*time.Second, idle.Load(), "of the listener")

	// The dial function of a direct listener is another one.
	idle.Store(0)
	direct, err := s.Listen(t.Context(), pool.Config().ConnConfig)
	require.NoError(t, err)
	direct.Close()
	require.Zero(t, idle.Load())
}

// Nothing that is asked of a silent database takes longer than its caller
// allows, nor does the end.
func TestSilentDatabase(t *testing.T) {
	t.Parallel()
	s, pool, _, deaf := keptStore(t)
	l, err := s.Listen(t.Context(), nil)
	require.NoError(t, err)
	require.NoError(t, s.EnsureDays(t.Context(), 1))
	deaf.Store(true)
	begun := time.Now()
	within := func(d time.Duration, what string, do func(context.Context) error) {
		ctx, cancel := context.WithTimeout(t.Context(), d)
		defer cancel()
		require.Error(t, do(ctx), what)
	}
	const short = 200 * time.Millisecond
	within(short, "a statement", func(ctx context.Context) error { return s.EnsureDays(ctx, 1) })
	within(short, "a statement on a new connection", func(ctx context.Context) error { return s.EnsureDays(ctx, 1) })
	within(short, "a new listener", func(ctx context.Context) error {
		_, err := s.Listen(ctx, nil)
		return err
	})
	within(short, "a listener beside a silent pool", func(ctx context.Context) error {
		_, err := s.Listen(ctx, pool.Config().ConnConfig)
		return err
	})
	_, _, err = l.Wait(t.Context(), short)
	require.ErrorContains(t, err, "make sure that the connection listens")
	l.Close()
	s.Close()
	require.Less(t, time.Since(begun), 8*time.Second)
}

func TestListenerThatCannotHear(t *testing.T) {
	t.Parallel()
	s, _, _, _ := keptStore(t)
	_, err := s.Listen(t.Context(), testdb.New(t).Config().ConnConfig)
	require.ErrorIs(t, err, store.ErrDeaf)

	// The pool's hooks are the listener's too.
	l, err := s.Listen(t.Context(), nil)
	require.NoError(t, err)
	defer l.Close()
	_, ok, err := l.Wait(t.Context(), 50*time.Millisecond)
	require.NoError(t, err)
	require.False(t, ok)
	_, err = s.DB().Exec(t.Context(), "SELECT pg_notify($1, 'q')", store.Channel(store.DefaultSchema))
	require.NoError(t, err)
	payload, ok, err := l.Wait(t.Context(), 10*time.Second)
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, "q", payload)
}

// A read-only answer takes all connections out of the pool, and ends a listener
// that may be on the same server.
func TestReadOnlyAnswer(t *testing.T) {
	t.Parallel()
	pool := testdb.Migrated(t)
	var readOnly atomic.Bool
	config := pool.Config()
	config.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		if !readOnly.Load() {
			return nil
		}
		_, err := conn.Exec(ctx, "SET default_transaction_read_only = on")
		return err
	}
	user, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(user.Close)
	s, err := store.Open(t.Context(), user, store.DefaultSchema, 2)
	require.NoError(t, err)
	t.Cleanup(s.Close)
	l, err := s.Listen(t.Context(), nil)
	require.NoError(t, err)
	defer l.Close()
	s.DB().Reset()
	readOnly.Store(true)
	_, err = s.Heartbeat(t.Context(), [16]byte{1})
	require.ErrorContains(t, err, "25006")
	testdb.Eventually(t, 10*time.Second, "the connections to go", func() bool { return s.DB().Stat().TotalConns() == 0 })
	_, _, err = l.Wait(t.Context(), 50*time.Millisecond)
	require.ErrorContains(t, err, "connects anew too")
	readOnly.Store(false)
	alive, err := s.Heartbeat(t.Context(), [16]byte{1})
	require.NoError(t, err)
	require.False(t, alive)
}
