//go:build full

package taskimpl_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pawlgo/pawl/task"
	"github.com/pawlgo/pawl/task/taskimpl"
)

// A call of more than half a gigabyte is refused before it breaks the connection.
func TestTooMuchAtOnce(t *testing.T) {
	t.Parallel()
	pool := migrated(t)
	tx := &counted{Tx: begin(t, pool, pgx.ReadCommitted)}
	_, err := taskimpl.EnqueueMany(t.Context(), tx, kind[holder](), slices.Repeat([]holder{{V: strings.Repeat("x", 60<<20)}}, 9), nil)
	require.ErrorIs(t, err, task.ErrTooLarge)
	require.ErrorContains(t, err, "in one call")
	require.Zero(t, tx.n)
}
