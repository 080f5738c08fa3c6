package testdb

import (
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlgo/pawl/migrations"
)

// Migrated returns a pool on a new database with Pawl's schema under its
// default name.
func Migrated(t testing.TB, opts ...Option) *pgxpool.Pool {
	t.Helper()
	pool := New(t, opts...)
	if err := migrations.Up(t.Context(), pool, migrations.Options{}); err != nil {
		t.Fatalf("testdb: %v", err)
	}
	return pool
}
