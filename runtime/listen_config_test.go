package runtime

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/pawlgo/pawl/internal/dispatch"
	"github.com/pawlgo/pawl/task"
)

func TestListenConfig(t *testing.T) {
	t.Parallel()
	pool, err := pgxpool.New(t.Context(), "postgres://nobody@127.0.0.1:1/none")
	require.NoError(t, err)
	defer pool.Close()
	parsed, err := pgx.ParseConfig("postgres://nobody@127.0.0.1:2/none")
	require.NoError(t, err)
	config := Config{Tables: []task.Table{dispatch.NewTable(row("a", "q"))}, Listen: parsed}
	w, err := New(pool, config)
	require.NoError(t, err)
	require.NotSame(t, parsed, w.config.Listen, "the caller may change it")

	config.PollOnly = true
	_, err = New(pool, config)
	require.ErrorIs(t, err, ErrConfig)
	require.ErrorContains(t, err, "PollOnly does without a listener")

	// The driver panics over such a configuration.
	config = Config{Tables: config.Tables, Listen: &pgx.ConnConfig{Config: pgconn.Config{Host: "127.0.0.1"}}}
	_, err = New(pool, config)
	require.ErrorIs(t, err, ErrConfig)
	require.ErrorContains(t, err, "pgx.ParseConfig")
}
