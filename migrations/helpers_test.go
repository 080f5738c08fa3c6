package migrations_test

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/pawlgo/pawl/migrations"
)

// childURL makes the test binary a process that migrates the database it names
// and exits.
const childURL = "PAWL_TEST_MIGRATE_URL"

func TestMain(m *testing.M) {
	if target := os.Getenv(childURL); target != "" {
		if err := migrateOnce(target); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func migrateOnce(target string) error {
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, target)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	// All of a round start together, when the parent closes their input.
	buf := make([]byte, 1)
	_, _ = os.Stdin.Read(buf)
	return migrations.Up(ctx, conn, migrations.Options{})
}

// urlOf is the URL of a pool's database.
func urlOf(pool *pgxpool.Pool) string {
	c := pool.Config().ConnConfig
	u := url.URL{
		Scheme: "postgres", User: url.UserPassword(c.User, c.Password),
		Host: net.JoinHostPort(c.Host, strconv.Itoa(int(c.Port))), Path: "/" + c.Database,
	}
	return u.String()
}

// catalog describes everything in a schema: a line an object, sorted.
func catalog(t *testing.T, pool *pgxpool.Pool, schema string) string {
	t.Helper()
	rows, err := pool.Query(t.Context(), `
		WITH s AS (SELECT oid FROM pg_namespace WHERE nspname = $1)
		SELECT format('relation %s %s %s', c.relkind, c.relname, c.reloptions) FROM pg_class c JOIN s ON s.oid = c.relnamespace
		UNION ALL
		SELECT format('column %s.%s %s %s %s', c.relname, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull, pg_get_expr(d.adbin, d.adrelid))
		FROM pg_class c JOIN s ON s.oid = c.relnamespace JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
		LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
		UNION ALL
		SELECT 'index ' || pg_get_indexdef(i.indexrelid) FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN s ON s.oid = c.relnamespace
		UNION ALL
		SELECT format('constraint %s %s %s', r.conrelid::regclass, r.conname, pg_get_constraintdef(r.oid)) FROM pg_constraint r JOIN s ON s.oid = r.connamespace
		UNION ALL
		SELECT format('partition %s of %s %s', c.oid::regclass, i.inhparent::regclass, pg_get_expr(c.relpartbound, c.oid))
		FROM pg_class c JOIN s ON s.oid = c.relnamespace JOIN pg_inherits i ON i.inhrelid = c.oid
		UNION ALL
		SELECT 'function ' || pg_get_functiondef(p.oid) FROM pg_proc p JOIN s ON s.oid = p.pronamespace
		UNION ALL
		SELECT format('view %s %s', c.relname, pg_get_viewdef(c.oid)) FROM pg_class c JOIN s ON s.oid = c.relnamespace WHERE c.relkind = 'v'
		ORDER BY 1`, schema)
	require.NoError(t, err)
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	return strings.Join(lines, "\n")
}

// outside counts the relations and functions that are in neither the schema
// nor the system's own.
func outside(t *testing.T, pool *pgxpool.Pool, schema string) int {
	t.Helper()
	var n int
	require.NoError(t, pool.QueryRow(t.Context(), `
		WITH foreign_schema AS (SELECT oid FROM pg_namespace WHERE nspname <> $1 AND nspname !~ '^pg_' AND nspname <> 'information_schema')
		SELECT (SELECT count(*) FROM pg_class c JOIN foreign_schema f ON f.oid = c.relnamespace)
			+ (SELECT count(*) FROM pg_proc p JOIN foreign_schema f ON f.oid = p.pronamespace)
			+ (SELECT count(*) FROM pg_type y JOIN foreign_schema f ON f.oid = y.typnamespace)`, schema).Scan(&n))
	return n
}

// versions are the migrations that a schema records, in order.
func versions(t *testing.T, pool *pgxpool.Pool, schema string) []int {
	t.Helper()
	rows, err := pool.Query(t.Context(), `SELECT version FROM `+pgx.Identifier{schema}.Sanitize()+`.migrations ORDER BY version`)
	require.NoError(t, err)
	all, err := pgx.CollectRows(rows, pgx.RowTo[int])
	require.NoError(t, err)
	return all
}
