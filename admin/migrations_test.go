package admin_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawlgo/pawl/admin"
	"github.com/pawlgo/pawl/internal/testdb"
	"github.com/pawlgo/pawl/migrations"
)

func TestMigrations(t *testing.T) {
	t.Parallel()
	pool := testdb.New(t)
	c := admin.New(pool, admin.Options{Schema: "App Jobs"})
	m, err := c.Migrations(t.Context())
	require.NoError(t, err)
	require.Zero(t, m.Applied)
	require.Len(t, m.Missing(), migrations.Version())
	require.NoError(t, c.Migrate(t.Context()))
	m, err = c.Migrations(t.Context())
	require.NoError(t, err)
	require.Empty(t, m.Missing())
	require.Equal(t, m.Known, m.Applied)
	require.False(t, m.All[0].AppliedAt.IsZero())
	text, err := c.MigrationSQL(0)
	require.NoError(t, err)
	require.Contains(t, text, `"App Jobs".audit`)
}
