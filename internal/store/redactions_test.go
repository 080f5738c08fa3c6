package store_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawlgo/pawl/internal/store"
)

// Paths are added and never taken away, whichever binary starts last; and a start
// that has nothing to add writes nothing.
func TestRedactionsOnlyGrow(t *testing.T) {
	t.Parallel()
	s, pool := open(t)
	register := func(paths string) string {
		t.Helper()
		require.NoError(t, s.RegisterRedactions(t.Context(), []store.Redaction{
			{Kind: "k", Version: 1, Paths: json.RawMessage(paths)}, {Event: true, Kind: "k", Version: 1, Paths: json.RawMessage(`[]`)},
		}))
		var row string
		require.NoError(t, pool.QueryRow(t.Context(), `SELECT paths::text FROM pawl.redactions WHERE NOT event AND kind = 'k' AND version = 1`).Scan(&row))
		return row
	}
	written := func() (xmins string) {
		require.NoError(t, pool.QueryRow(t.Context(), `SELECT string_agg(xmin::text, ' ') FROM pawl.redactions`).Scan(&xmins))
		return xmins
	}
	require.Equal(t, `[]`, register(`[]`))
	require.Equal(t, `[["a", "b"]]`, register(`[["a", "b"]]`))
	require.Equal(t, `[["a"], ["a", "b"]]`, register(`[["a"]]`), "one path within another is not the same")
	before := written()
	require.Equal(t, `[["a"], ["a", "b"]]`, register(`[]`))
	require.Equal(t, `[["a"], ["a", "b"]]`, register(`[["a", "b"]]`))
	require.Equal(t, before, written())
}
