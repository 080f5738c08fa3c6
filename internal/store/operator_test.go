package store_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pawlgo/pawl/internal/store"
	"github.com/pawlgo/pawl/internal/testdb"
)

// What walks along the letters does so by the same plans, wherever it is called from.
func TestPlansOfOperators(t *testing.T) {
	t.Parallel()
	_, pool := open(t)
	o := store.NewOperator(testdb.As(t, pool, testdb.Operator), store.DefaultSchema, nil)
	settings := func(tx pgx.Tx) (text string) {
		require.NoError(t, tx.QueryRow(t.Context(), `SELECT string_agg(s.name || '=' || current_setting(s.name), ' ' ORDER BY s.name)
			FROM unnest('{enable_seqscan,enable_bitmapscan,enable_hashjoin,enable_mergejoin,jit,max_parallel_workers_per_gather}'::text[]) s(name)`).Scan(&text))
		return text
	}
	const walk = "enable_bitmapscan=off enable_hashjoin=off enable_mergejoin=off enable_seqscan=off jit=off max_parallel_workers_per_gather=0"
	run := &store.RedriveRow{ID: uuid.New(), Filter: []byte(`{}`), State: store.RedriveRunning}
	for name, do := range map[string]func(pgx.Tx) error{
		"purge": func(tx pgx.Tx) error {
			_, _, err := o.Purge(t.Context(), tx, &store.LetterFilter{Kind: "k"}, store.Scan{Rows: 10, Limit: 10})
			return err
		},
		"redrive": func(tx pgx.Tx) error {
			if err := o.StartRedrive(t.Context(), tx, run); err != nil {
				return err
			}
			_, err := o.Redrive(t.Context(), tx, run, store.LetterFilter{Kind: "k"}, 10, 10)
			return err
		},
	} {
		require.NoError(t, o.Change(t.Context(), store.Note{ID: uuid.New(), By: "me"}, func(tx pgx.Tx) error {
			require.NotEqual(t, walk, settings(tx))
			if err := do(tx); err != nil {
				return err
			}
			require.Equal(t, walk, settings(tx), name)
			return nil
		}))
	}
}
