//go:build linux || darwin

package localpg

import (
	"context"
	"errors"
	"net"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

func testOptions(t *testing.T) Options {
	return Options{Own: true, Linger: time.Second, home: testHome(t)}
}

func TestServerLife(t *testing.T) {
	t.Parallel()
	opts := testOptions(t)
	s, err := Start(t.Context(), opts)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	require.GreaterOrEqual(t, s.Version(), oldestMajor)

	exec := func(sql string) {
		t.Helper()
		conn, err := pgx.Connect(t.Context(), s.URL())
		require.NoError(t, err)
		defer conn.Close(t.Context())
		_, err = conn.Exec(t.Context(), sql)
		require.NoError(t, err)
	}
	exec("CREATE TABLE kept AS SELECT 1 AS n")

	require.NoError(t, s.Stop(t.Context()))
	_, err = ping(t.Context(), s.URL())
	require.Error(t, err, "a stopped server refuses connections")
	require.NoError(t, s.Stop(t.Context()), "stopping twice is stopping")
	require.NoError(t, s.Restart(t.Context()))
	exec("INSERT INTO kept VALUES (2)")

	require.NoError(t, s.Crash(t.Context()))
	_, err = ping(t.Context(), s.URL())
	require.Error(t, err, "a crashed server refuses connections")
	require.NoError(t, s.Restart(t.Context()))
	exec("INSERT INTO kept VALUES (3)")
	require.NoError(t, s.Restart(t.Context()), "a running server restarts as well")
	exec("DELETE FROM kept")

	require.NoError(t, s.Close())
	require.Empty(t, serverDirs(t, opts.home), "Close returns when everything is removed")
	requireGone(t, opts.home)
	require.NoError(t, s.Close(), "closing again does nothing")
}

func TestCloseRemovesACrashedServer(t *testing.T) {
	t.Parallel()
	opts := testOptions(t)
	s, err := Start(t.Context(), opts)
	require.NoError(t, err)
	require.NoError(t, s.Crash(t.Context()))
	require.NoError(t, s.Close())
	require.Empty(t, serverDirs(t, opts.home))
}

func TestSettings(t *testing.T) {
	t.Parallel()
	opts := testOptions(t)
	opts.Settings = map[string]string{"max_connections": "17", "application_name": "it's a test"}
	s, err := Start(t.Context(), opts)
	require.NoError(t, err)
	defer s.Close()
	conn, err := pgx.Connect(t.Context(), s.URL())
	require.NoError(t, err)
	defer conn.Close(t.Context())
	for name, want := range map[string]string{
		"max_connections":  "17",
		"application_name": "it's a test",
		"fsync":            "off",
		"server_encoding":  "UTF8",
		"lc_collate":       "C",
	} {
		var got string
		require.NoError(t, conn.QueryRow(t.Context(),
			"SELECT reset_val FROM pg_settings WHERE name = $1 UNION ALL "+
				"SELECT datcollate FROM pg_database WHERE datname = 'postgres' LIMIT 1", name).Scan(&got))
		require.Equal(t, want, got, name)
	}

	config := conn.Config().Copy()
	config.Password = "guess"
	_, err = pgx.ConnectConfig(t.Context(), config)
	require.ErrorContains(t, err, "password authentication failed")
}

func TestAWrongSettingFailsWithTheLog(t *testing.T) {
	t.Parallel()
	opts := testOptions(t)
	opts.Settings = map[string]string{"max_connections": "many"}
	_, err := Start(t.Context(), opts)
	startErr, ok := errors.AsType[*StartError](err)
	require.True(t, ok, "%v", err)
	require.Contains(t, startErr.Log, `"max_connections"`)
	require.ErrorContains(t, err, startErr.Log)
	require.Empty(t, serverDirs(t, opts.home))
}

func TestAPortTakenMeanwhileIsGivenUp(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	taken := listener.Addr().(*net.TCPAddr).Port
	opts := testOptions(t)
	opts.ports = []int{taken, taken}
	s, err := Start(t.Context(), opts)
	require.NoError(t, err)
	defer s.Close()
	require.NotEqual(t, taken, s.own.port)
	_, err = ping(t.Context(), s.URL())
	require.NoError(t, err)
}

func TestContextEndsTheWaits(t *testing.T) {
	t.Parallel()
	opts := testOptions(t)
	cause := errors.New("no longer wanted")

	t.Run("for the lock", func(t *testing.T) {
		h, err := openHome(t.Context(), opts, account{})
		require.NoError(t, err)
		lock, err := h.lock(t.Context())
		require.NoError(t, err)
		defer lock.Close()
		ctx, cancel := context.WithTimeoutCause(t.Context(), 100*time.Millisecond, cause)
		defer cancel()
		_, err = Shared(ctx, opts)
		require.ErrorIs(t, err, cause)
	})
	t.Run("for the server", func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		// The data directory is the first sign that initdb has begun.
		watched := make(chan struct{})
		go func() {
			defer close(watched)
			for ctx.Err() == nil {
				for _, dir := range serverDirs(t, opts.home) {
					if _, err := os.Stat(dir + "/data/PG_VERSION"); err == nil {
						cancel(cause)
					}
				}
				_ = pause(ctx, pollInterval)
			}
		}()
		_, err := Start(ctx, opts)
		require.Error(t, err)
		<-watched
		require.ErrorIs(t, err, cause)
		require.Empty(t, serverDirs(t, opts.home))
	})
}

func TestOnlyAPrivateServerCanBeStopped(t *testing.T) {
	t.Parallel()
	s, err := Shared(t.Context(), testOptions(t))
	require.NoError(t, err)
	defer s.Close()
	require.ErrorIs(t, s.Stop(t.Context()), ErrNotOwned)
	require.ErrorIs(t, s.Crash(t.Context()), ErrNotOwned)
	require.ErrorIs(t, s.Restart(t.Context()), ErrNotOwned)
	_, err = ping(t.Context(), s.URL())
	require.NoError(t, err)
}
