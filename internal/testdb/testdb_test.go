package testdb_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawlgo/pawl/internal/testdb"
)

func TestNew(t *testing.T) {
	t.Parallel()
	pool := testdb.New(t)
	var one int
	require.NoError(t, pool.QueryRow(t.Context(), "SELECT 1").Scan(&one))
	require.Equal(t, 1, one)
}
