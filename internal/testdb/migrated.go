package testdb

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlgo/pawl/migrations"
)

// Migrated returns a pool on a new database with Pawl's schema under its
// default name, cloned from one that was migrated once for all tests. The pool's
// role owns everything; [As] is for those that do not.
func Migrated(t testing.TB, opts ...Option) *pgxpool.Pool {
	t.Helper()
	text, err := migrations.SQL(0, migrations.Options{})
	if err != nil {
		t.Fatalf("testdb: %v", err)
	}
	rights, err := grants()
	if err != nil {
		t.Fatalf("testdb: %v", err)
	}
	sum := sha256.Sum256([]byte(text + rights))
	pool := Template(t, "pawl_"+hex.EncodeToString(sum[:8]), func(ctx context.Context, url string) error {
		conn, err := pgx.Connect(ctx, url)
		if err != nil {
			return err
		}
		defer conn.Close(context.WithoutCancel(ctx))
		// On this connection: all of the operators' may be waiting for this template.
		if err := makeRoles(ctx, conn); err != nil {
			return err
		}
		if err := migrations.Up(ctx, conn, migrations.Options{}); err != nil {
			return err
		}
		_, err = conn.Exec(ctx, rights)
		return err
	}, opts...)
	c := pool.Config().ConnConfig
	owners.Store(c.Database, c.User)
	return pool
}
