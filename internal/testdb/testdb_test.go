package testdb

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
)

func TestNewIsDroppedAtTheEnd(t *testing.T) {
	t.Parallel()
	var name, other string
	outer := t
	t.Run("first", func(t *testing.T) {
		pool := New(t, MaxConns(2), Configure(func(c *pgxpool.Config) {
			c.ConnConfig.RuntimeParams["application_name"] = "tweaked"
		}))
		require.EqualValues(t, 2, pool.Config().MaxConns)
		var application string
		require.NoError(t, pool.QueryRow(t.Context(),
			"SELECT current_database(), current_setting('application_name')").Scan(&name, &application))
		require.Equal(t, "tweaked", application)
		require.NoError(t, New(t).QueryRow(t.Context(), "SELECT current_database()").Scan(&other))
		require.NotEqual(t, name, other)

		// A connection that stays open does not keep the database.
		config := pool.Config().ConnConfig.Copy()
		stray, err := pgx.ConnectConfig(t.Context(), config)
		require.NoError(t, err)
		outer.Cleanup(func() { _ = stray.Close(context.Background()) })
	})
	conn, err := pgx.Connect(t.Context(), Server(t).URL())
	require.NoError(t, err)
	defer conn.Close(t.Context())
	var left int
	require.NoError(t, conn.QueryRow(t.Context(),
		"SELECT count(*) FROM pg_database WHERE datname IN ($1, $2)", name, other).Scan(&left))
	require.Zero(t, left)
}

func TestPrivateServer(t *testing.T) {
	t.Parallel()
	s := Private(t, map[string]string{"max_connections": "20"})
	require.NotEqual(t, Server(t).URL(), s.URL())
	require.NoError(t, s.Crash(t.Context()))
	require.NoError(t, s.Restart(t.Context()))
	pool := On(t, s)
	var limit string
	require.NoError(t, pool.QueryRow(t.Context(), "SHOW max_connections").Scan(&limit))
	require.Equal(t, "20", limit)
	require.NoError(t, s.Stop(t.Context()), "a test may leave its server stopped")
}

func TestEventually(t *testing.T) {
	t.Parallel()
	var asked int
	Eventually(t, time.Minute, "the third question", func() bool {
		asked++
		return asked == 3
	})
	require.Equal(t, 3, asked)

	failure := &recorder{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		Eventually(failure, 30*time.Millisecond, "pigs to fly", func() bool { return false })
		failure.continued.Store(true)
	}()
	<-done
	require.Equal(t, "after 30ms still waiting for pigs to fly", failure.message)
	require.False(t, failure.continued.Load(), "a failed wait ends the test")
}

// recorder is a test that may fail.
type recorder struct {
	testing.TB
	message   string
	continued atomic.Bool
}

func (r *recorder) Helper() {}

func (r *recorder) Fatalf(format string, args ...any) {
	r.message = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

func (r *recorder) Errorf(format string, args ...any) { r.message = fmt.Sprintf(format, args...) }

func TestAConnectionThatIsNotGivenBackIsReported(t *testing.T) {
	t.Parallel()
	pool := New(t)
	conn, err := pool.Acquire(t.Context())
	require.NoError(t, err)
	failure := &recorder{TB: t}
	closePool(failure, pool, 50*time.Millisecond)
	require.Contains(t, failure.message, "1 connection")
	conn.Release()
}

func TestOnServerReportsTheStatement(t *testing.T) {
	t.Parallel()
	err := onServer(t.Context(), Server(t).URL(), "CREATE DATABASE postgres")
	require.ErrorContains(t, err, "already exists")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("over"))
	require.Error(t, onServer(ctx, Server(t).URL(), "SELECT 1"))
}
