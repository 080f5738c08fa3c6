package testdb

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlgo/pawl/migrations"
)

// The roles of the shared server that have the rights of [migrations.Grants] in
// each database of [Migrated]. Like the server's other objects they stay on the
// server of PAWL_DATABASE_URL.
const (
	Migrator = "testdb_migrator" // owns nothing
	Worker   = "testdb_worker"
	Producer = "testdb_producer"
	Viewer   = "testdb_viewer"
	Operator = "testdb_operator"
)

// rolePassword is that of all of them: whoever reaches the server of the tests
// needs no secret.
const rolePassword = "testdb"

var allRoles = []string{Migrator, Worker, Producer, Viewer, Operator}

// As returns a pool like another one that logs in as one of the roles. It is closed
// at the end of the test. What the worker's handlers write to is in schema public,
// where that role may use every table that is made from now on.
func As(t testing.TB, pool *pgxpool.Pool, role string) *pgxpool.Pool {
	t.Helper()
	config := pool.Config()
	config.ConnConfig.User, config.ConnConfig.Password = role, rolePassword
	as, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatalf("testdb: connect as %s: %v", role, err)
	}
	t.Cleanup(func() { closePool(t, as, cleanupTimeout) })
	return as
}

// owners are the users that own the databases of Migrated, by name.
var owners sync.Map // string -> string

// Owns says whether a pool is on a database of [Migrated], and logs in as the owner
// of everything in it. Then [As] is for it.
func Owns(pool *pgxpool.Pool) bool {
	c := pool.Config()
	owner, ok := owners.Load(c.ConnConfig.Database)
	return ok && owner == c.ConnConfig.User && c.AfterConnect == nil
}

// producers are the pools of Enqueuing.
var producers sync.Map // *pgxpool.Pool -> *pgxpool.Pool

// Enqueuing returns the one pool of the role [Producer] that there is beside a pool
// of [Migrated].
func Enqueuing(t testing.TB, pool *pgxpool.Pool) *pgxpool.Pool {
	t.Helper()
	if p, ok := producers.Load(pool); ok {
		return p.(*pgxpool.Pool)
	}
	p := As(t, pool, Producer)
	if known, loaded := producers.LoadOrStore(pool, p); loaded {
		return known.(*pgxpool.Pool)
	}
	t.Cleanup(func() { producers.Delete(pool) })
	return p
}

// makeRoles makes the roles, unless another test has.
func makeRoles(ctx context.Context, conn *pgx.Conn) error {
	for _, role := range allRoles {
		if _, err := conn.Exec(ctx, fmt.Sprintf(`DO $$ BEGIN
			IF NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = '%[1]s') THEN
				CREATE ROLE %[1]s LOGIN PASSWORD '%[2]s';
			END IF;
		EXCEPTION WHEN duplicate_object OR unique_violation THEN
			NULL; -- of another template
		END $$`, role, rolePassword)); err != nil {
			return fmt.Errorf("make the role %s: %w", role, err)
		}
	}
	return nil
}

// grants are the rights of the roles in a database of Migrated.
func grants() (string, error) {
	text, err := migrations.Grants(migrations.Roles{Worker: Worker, Producer: Producer, Viewer: Viewer, Operator: Operator}, migrations.Options{})
	return text + fmt.Sprintf(`
ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT ALL ON TABLES TO %[1]s;
ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT ALL ON SEQUENCES TO %[1]s;
`, Worker), err
}
