package migrations_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pawlgo/pawl/internal/store"
	"github.com/pawlgo/pawl/internal/testdb"
	"github.com/pawlgo/pawl/migrations"
)

// Plain SQL knows the kinds of its own schema, whatever that is called and
// whatever else is in the database.
func TestPlainSQLInAnySchema(t *testing.T) {
	t.Parallel()
	pool := testdb.New(t)
	schemas := []string{"one", `O'ne "$$" \x`, "select", "größe"}
	for i, schema := range schemas {
		require.NoError(t, migrations.Up(t.Context(), pool, migrations.Options{Schema: schema}))
		s, err := store.Open(t.Context(), pool, schema, 1)
		require.NoError(t, err)
		require.NoError(t, s.RegisterKinds(t.Context(), []store.Kind{{
			Name: fmt.Sprint("kind_", i), Queue: "q", Version: 1, Priority: 2, MaxAttempts: 3, OrganizationField: "o",
			Shape: json.RawMessage(`{"root":{"kind":"struct","ref":"A"},"structs":{"A":[{"json":"o","go":"O","type":{"kind":"int"}},` +
				`{"json":"at","go":"At","type":{"kind":"opaque","ref":"time.Time"}}]}}`),
		}}))
		s.Close()
	}
	for i, schema := range schemas {
		in := pgx.Identifier{schema}.Sanitize()
		var state, organization string
		require.NoError(t, pool.QueryRow(t.Context(), `SELECT state FROM `+in+`.enqueue($1, jsonb_build_object('o', 7, 'at', now()))`, fmt.Sprint("kind_", i)).Scan(&state))
		require.Equal(t, "pending", state)
		require.NoError(t, pool.QueryRow(t.Context(), `SELECT organization_id FROM `+in+`.jobs`).Scan(&organization))
		require.Equal(t, "7", organization)
		_, err := pool.Exec(t.Context(), `SELECT `+in+`.enqueue($1, jsonb_build_object('o', '7', 'at', now()))`, fmt.Sprint("kind_", i))
		require.ErrorContains(t, err, store.CodeMisfit)
		_, err = pool.Exec(t.Context(), `SELECT `+in+`.enqueue($1, '{}')`, fmt.Sprint("kind_", (i+1)%len(schemas)))
		require.ErrorContains(t, err, store.CodeUnknownKind)
	}
}
