package testdb

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlgo/pawl/migrations"
)

// Example returns a pool on a new database with Pawl's schema for an Example
// function, which has no testing.TB, and what closes the pool and drops the
// database. It panics where a test would fail.
func Example(ctx context.Context) (*pgxpool.Pool, func()) {
	must := func(err error) {
		if err != nil {
			panic(fmt.Sprintf("testdb: %v", err))
		}
	}
	server, err := shared()
	must(err)
	name := newName()
	must(onShared(ctx, "CREATE DATABASE "+name))
	config, err := pgxpool.ParseConfig(server.URL())
	must(err)
	config.ConnConfig.Database = name
	pool, err := pgxpool.NewWithConfig(ctx, config)
	must(err)
	must(migrations.Up(ctx, pool, migrations.Options{}))
	return pool, func() {
		pool.Close()
		must(onShared(context.WithoutCancel(ctx), "DROP DATABASE IF EXISTS "+name+" WITH (FORCE)"))
	}
}
