package migrations_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/pawlgo/pawl/internal/store"
	"github.com/pawlgo/pawl/internal/testdb"
	"github.com/pawlgo/pawl/migrations"
)

func TestUpTwiceChangesNothing(t *testing.T) {
	t.Parallel()
	pool := testdb.New(t)
	require.ErrorIs(t, migrations.Check(t.Context(), pool, migrations.Options{}), migrations.ErrBehind)
	require.NoError(t, migrations.Up(t.Context(), pool, migrations.Options{}))
	require.NoError(t, migrations.Check(t.Context(), pool, migrations.Options{}))
	once := catalog(t, pool, "pawl")
	require.Contains(t, once, "function CREATE OR REPLACE FUNCTION pawl.claim")
	require.NoError(t, migrations.Up(t.Context(), pool, migrations.Options{}))
	require.Equal(t, once, catalog(t, pool, "pawl"))
	require.Zero(t, outside(t, pool, "pawl"))
	require.Len(t, versions(t, pool, "pawl"), migrations.Version())
}

// Ten processes migrate a fresh database at once.
func TestTenProcessesAtOnce(t *testing.T) {
	t.Parallel()
	want := ""
	for round := range 3 {
		pool := testdb.New(t)
		if round == 0 {
			require.NoError(t, migrations.Up(t.Context(), pool, migrations.Options{}))
			want = catalog(t, pool, "pawl")
			continue
		}
		type child struct {
			cmd   *exec.Cmd
			stdin io.Closer
			out   *strings.Builder
		}
		var children []child
		for range 10 {
			c := child{cmd: exec.CommandContext(t.Context(), os.Args[0]), out: &strings.Builder{}}
			c.cmd.Env = append(os.Environ(), childURL+"="+urlOf(pool))
			c.cmd.Stdout, c.cmd.Stderr = c.out, c.out
			var err error
			c.stdin, err = c.cmd.StdinPipe()
			require.NoError(t, err)
			require.NoError(t, c.cmd.Start())
			children = append(children, c)
		}
		// Each connects, then waits for the end of its input.
		testdb.Eventually(t, 30*time.Second, "ten connections", func() bool {
			var n int
			require.NoError(t, pool.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity
				WHERE datname = current_database() AND state = 'idle' AND pid <> pg_backend_pid()`).Scan(&n))
			return n >= 10
		})
		for _, c := range children {
			require.NoError(t, c.stdin.Close())
		}
		for i, c := range children {
			require.NoError(t, c.cmd.Wait(), "process %d: %s", i, c.out)
		}
		require.Equal(t, want, catalog(t, pool, "pawl"))
		require.Len(t, versions(t, pool, "pawl"), migrations.Version())
	}
}

func TestSchemaNames(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("é", 31) + "x" // 63 bytes
	for _, name := range []string{
		"App Jobs", `qu"ote`, "apo's", "straße ☃", long, "a$$b", "$pawl$", "semi;colon--", `back\slash`, "new\nline", "%s %d", "Select", "123",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := testdb.New(t)
			opts := migrations.Options{Schema: name}
			require.NoError(t, migrations.Up(t.Context(), pool, opts))
			require.NoError(t, migrations.Up(t.Context(), pool, opts))
			require.NoError(t, migrations.Check(t.Context(), pool, opts))
			require.Zero(t, outside(t, pool, name))
			require.Len(t, versions(t, pool, name), migrations.Version())
			_, err := pool.Exec(t.Context(), `SELECT `+pgx.Identifier{name}.Sanitize()+`.ensure_day(40000)`)
			require.NoError(t, err)
		})
	}
	pool := testdb.New(t)
	for _, name := range []string{
		"public", "information_schema", "pg_catalog", "pg_temp", "pg_mine", long + "y", strings.Repeat("x", 64), "nul\x00", "\xff", "{schema}", "a}",
	} {
		opts := migrations.Options{Schema: name}
		require.ErrorIs(t, migrations.Up(t.Context(), pool, opts), migrations.ErrSchemaName, "%q", name)
		require.ErrorIs(t, migrations.Check(t.Context(), pool, opts), migrations.ErrSchemaName, "%q", name)
		_, err := migrations.SQL(0, opts)
		require.ErrorIs(t, err, migrations.ErrSchemaName, "%q", name)
	}
	require.Zero(t, outside(t, pool, "pawl"))
}

func TestTwoSchemasOfOneDatabase(t *testing.T) {
	t.Parallel()
	pool := testdb.New(t)
	require.NoError(t, migrations.Up(t.Context(), pool, migrations.Options{Schema: "schema_one"}))
	require.NoError(t, migrations.Up(t.Context(), pool, migrations.Options{Schema: "schema_two"}))
	same := strings.NewReplacer("schema_two", "schema_one", store.Channel("schema_two"), store.Channel("schema_one"))
	locks := regexp.MustCompile(`(advisory_xact_lock\(|hashtextextended\([^,]+, )-?\d+`) // of one schema each
	one, two := catalog(t, pool, "schema_one"), same.Replace(catalog(t, pool, "schema_two"))
	require.Equal(t, locks.ReplaceAllString(one, "lock"), locks.ReplaceAllString(two, "lock"))
	require.NotEqual(t, locks.FindString(one), locks.FindString(two))
	require.NotEqual(t, store.Channel("schema_one"), store.Channel("schema_two"))
}

func TestNewerDatabase(t *testing.T) {
	t.Parallel()
	pool := testdb.Migrated(t)
	_, err := pool.Exec(t.Context(), `INSERT INTO pawl.migrations (version, name) VALUES ($1, 'from the future')`, migrations.Version()+1)
	require.NoError(t, err)
	before := catalog(t, pool, "pawl")
	require.ErrorIs(t, migrations.Up(t.Context(), pool, migrations.Options{}), migrations.ErrNewer)
	require.ErrorIs(t, migrations.Check(t.Context(), pool, migrations.Options{}), migrations.ErrNewer)
	require.Equal(t, before, catalog(t, pool, "pawl"))
	require.Len(t, versions(t, pool, "pawl"), migrations.Version()+1)
}

// A database at any earlier version is behind, and comes up to the same schema.
func TestFromEveryVersion(t *testing.T) {
	t.Parallel()
	fresh := testdb.New(t)
	require.NoError(t, migrations.Up(t.Context(), fresh, migrations.Options{}))
	want := catalog(t, fresh, "pawl")
	for from := 1; from < migrations.Version(); from++ {
		pool := testdb.New(t)
		_, err := pool.Exec(t.Context(), partial(t, from))
		require.NoError(t, err)
		require.ErrorIs(t, migrations.Check(t.Context(), pool, migrations.Options{}), migrations.ErrBehind)
		if from%2 == 0 {
			require.NoError(t, migrations.Up(t.Context(), pool, migrations.Options{}))
		} else {
			text, err := migrations.SQL(from, migrations.Options{})
			require.NoError(t, err)
			_, err = pool.Exec(t.Context(), text)
			require.NoError(t, err)
		}
		require.NoError(t, migrations.Check(t.Context(), pool, migrations.Options{}))
		require.Equal(t, want, catalog(t, pool, "pawl"))
	}
}

// partial returns the statements of the first n migrations.
func partial(t *testing.T, n int) string {
	t.Helper()
	text, err := migrations.SQL(0, migrations.Options{})
	require.NoError(t, err)
	head, _, ok := strings.Cut(text, fmt.Sprintf("\n-- migration %d: ", n+1))
	require.True(t, ok)
	return head
}

func TestSQLByHand(t *testing.T) {
	t.Parallel()
	pool, up := testdb.New(t), testdb.New(t)
	text, err := migrations.SQL(0, migrations.Options{})
	require.NoError(t, err)
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), text)
	require.NoError(t, err)
	require.NoError(t, tx.Commit(t.Context()))
	require.NoError(t, migrations.Check(t.Context(), pool, migrations.Options{}))

	require.NoError(t, migrations.Up(t.Context(), up, migrations.Options{}))
	require.Equal(t, catalog(t, up, "pawl"), catalog(t, pool, "pawl"))
	require.NoError(t, migrations.Up(t.Context(), pool, migrations.Options{}))
	require.Equal(t, catalog(t, up, "pawl"), catalog(t, pool, "pawl"))

	for _, from := range []int{-1, migrations.Version() + 1} {
		_, err = migrations.SQL(from, migrations.Options{})
		require.ErrorContains(t, err, "use 0 to")
	}
	text, err = migrations.SQL(migrations.Version(), migrations.Options{})
	require.NoError(t, err)
	_, err = pool.Exec(t.Context(), text)
	require.NoError(t, err, "nothing to do is no error")
}

// Whatever the session's defaults and however the driver speaks, as behind a
// transaction pooler: nothing is left in the session.
func TestSessions(t *testing.T) {
	t.Parallel()
	for name, tweak := range map[string]func(*pgxpool.Config){
		"repeatable read": parameter("default_transaction_isolation", "repeatable read"),
		"serializable":    parameter("default_transaction_isolation", "serializable"),
		"read only":       parameter("default_transaction_read_only", "on"),
		"no search path":  parameter("search_path", ""),
		"old strings":     parameter("standard_conforming_strings", "off"),
		"cache describe":  mode(pgx.QueryExecModeCacheDescribe),
		"describe exec":   mode(pgx.QueryExecModeDescribeExec),
		"exec":            mode(pgx.QueryExecModeExec),
		"simple":          mode(pgx.QueryExecModeSimpleProtocol),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := testdb.New(t, testdb.Configure(tweak), testdb.MaxConns(1))
			require.NoError(t, migrations.Up(t.Context(), pool, migrations.Options{}))
			require.NoError(t, migrations.Check(t.Context(), pool, migrations.Options{}))
			require.NoError(t, migrations.Up(t.Context(), pool, migrations.Options{}))
			require.Zero(t, outside(t, pool, "pawl"))
			var locks, listening int
			require.NoError(t, pool.QueryRow(t.Context(), `SELECT (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()),
				(SELECT count(*) FROM pg_listening_channels())`).Scan(&locks, &listening))
			require.Zero(t, locks)
			require.Zero(t, listening)
		})
	}
}

func parameter(name, value string) func(*pgxpool.Config) {
	return func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams[name] = value }
}

func mode(m pgx.QueryExecMode) func(*pgxpool.Config) {
	return func(c *pgxpool.Config) { c.ConnConfig.DefaultQueryExecMode = m }
}

// A failure in the middle leaves nothing behind.
func TestUpIsAllOrNothing(t *testing.T) {
	t.Parallel()
	pool := testdb.New(t)
	// Something of the user's own stands where the last migration wants a view.
	_, err := pool.Exec(t.Context(), `CREATE SCHEMA pawl; CREATE TABLE pawl.job_status (n int)`)
	require.NoError(t, err)
	before := catalog(t, pool, "pawl")
	require.ErrorContains(t, migrations.Up(t.Context(), pool, migrations.Options{}), "job_status")
	require.Equal(t, before, catalog(t, pool, "pawl"))

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, migrations.Up(ctx, pool, migrations.Options{}), context.Canceled)
	require.Equal(t, before, catalog(t, pool, "pawl"))
}

// A role that may not create schemas uses the one that was made for it.
func TestRoleWithoutCreate(t *testing.T) {
	t.Parallel()
	admin := testdb.New(t)
	role := pgx.Identifier{admin.Config().ConnConfig.Database + "_role"}.Sanitize()
	t.Cleanup(func() {
		_, err := admin.Exec(context.WithoutCancel(t.Context()), `DROP OWNED BY `+role+` CASCADE; DROP ROLE `+role)
		require.NoError(t, err)
	})
	_, err := admin.Exec(t.Context(), `CREATE ROLE `+role+`; CREATE SCHEMA pawl AUTHORIZATION `+role)
	require.NoError(t, err)
	config := admin.Config()
	config.MaxConns = 1
	config.AfterConnect = func(ctx context.Context, c *pgx.Conn) error {
		_, err := c.Exec(ctx, `SET ROLE `+role)
		return err
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	defer pool.Close()
	require.NoError(t, migrations.Up(t.Context(), pool, migrations.Options{}))
	require.NoError(t, migrations.Up(t.Context(), pool, migrations.Options{}))
}
