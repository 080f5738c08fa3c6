package testdb

import (
	"context"
	"crypto/rand"
	"errors"
	"os"
	"os/exec"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

func fill(ctx context.Context, url string) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, "CREATE TABLE numbers AS SELECT generate_series(1, 10) AS n")
	return errors.Join(err, conn.Close(ctx))
}

func TestTemplateIsPreparedOnce(t *testing.T) {
	t.Parallel()
	key := "prepared once " + rand.Text()
	var prepared atomic.Int32
	t.Run("tests", func(t *testing.T) {
		for range 6 {
			t.Run("clone", func(t *testing.T) {
				t.Parallel()
				pool := Template(t, key, func(ctx context.Context, url string) error {
					prepared.Add(1)
					return fill(ctx, url)
				})
				var n int
				require.NoError(t, pool.QueryRow(t.Context(), "SELECT count(*) FROM numbers").Scan(&n))
				require.Equal(t, 10, n)
				_, err := pool.Exec(t.Context(), "DROP TABLE numbers")
				require.NoError(t, err, "each test has a copy of its own")
			})
		}
	})
	require.EqualValues(t, 1, prepared.Load())
}

// templateKeyVariable makes TestTemplateOfAnotherProcess be the other process.
const templateKeyVariable = "TESTDB_TEST_TEMPLATE"

func TestTemplateOfAnotherProcess(t *testing.T) {
	if key := os.Getenv(templateKeyVariable); key != "" {
		pool := Template(t, key, func(ctx context.Context, url string) error {
			os.Stdout.WriteString("PREPARED\n")
			return fill(ctx, url)
		})
		var n int
		require.NoError(t, pool.QueryRow(t.Context(), "SELECT count(*) FROM numbers").Scan(&n))
		require.Equal(t, 10, n)
		return
	}
	t.Parallel()
	// Without a user here, the server might go away between the processes.
	Server(t)
	program, err := os.Executable()
	require.NoError(t, err)
	key := "of another process " + rand.Text()
	outputs := make(chan string)
	for range 3 {
		go func() {
			cmd := exec.CommandContext(t.Context(), program, "-test.run=^TestTemplateOfAnotherProcess$")
			cmd.Env = append(os.Environ(), templateKeyVariable+"="+key)
			out, err := cmd.CombinedOutput()
			if err != nil {
				out = append(out, err.Error()...)
			}
			outputs <- string(out)
		}()
	}
	var prepared int
	for range 3 {
		out := <-outputs
		require.Contains(t, out, "PASS")
		if len(out) > 8 && out[:8] == "PREPARED" {
			prepared++
		}
	}
	require.Equal(t, 1, prepared)
}

func TestAFailedPreparationIsTriedAgain(t *testing.T) {
	t.Parallel()
	url := Server(t).URL()
	key := "fails at first " + rand.Text()
	broken := errors.New("broken")
	_, err := ensureTemplate(t.Context(), url, key, func(ctx context.Context, url string) error {
		return errors.Join(fill(ctx, url), broken)
	})
	require.ErrorIs(t, err, broken)

	leak := func(ctx context.Context, url string) error {
		conn, err := pgx.Connect(ctx, url)
		if err != nil {
			return err
		}
		t.Cleanup(func() { _ = conn.Close(context.Background()) })
		return fill(ctx, url)
	}
	pool := Template(t, key, leak)
	var n int
	require.NoError(t, pool.QueryRow(t.Context(), "SELECT count(*) FROM numbers").Scan(&n))
	require.Equal(t, 10, n)
}

func TestWithDatabase(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"postgres://me:secret@127.0.0.1:5432/postgres?sslmode=disable": "postgres://me:secret@127.0.0.1:5432/other?sslmode=disable",
		"postgresql://127.0.0.1":                      "postgresql://127.0.0.1/other",
		"postgres:///a?host=/run/postgresql&dbname=b": "postgres:///other?host=%2Frun%2Fpostgresql",
		"host=127.0.0.1 dbname=mine":                  "host=127.0.0.1 dbname=mine dbname=other",
	} {
		got, err := withDatabase(in, "other")
		require.NoError(t, err)
		require.Equal(t, want, got)
		config, err := pgx.ParseConfig(got)
		require.NoError(t, err)
		require.Equal(t, "other", config.Database)
	}
	_, err := withDatabase("postgres://me:secret@[", "other")
	require.Error(t, err)
	require.NotContains(t, err.Error(), "secret")
}
