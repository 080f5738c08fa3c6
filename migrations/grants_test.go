package migrations_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pawlgo/pawl/internal/rights"
	"github.com/pawlgo/pawl/internal/testdb"
	"github.com/pawlgo/pawl/migrations"
)

// Every object of the schema has a row in the table of rights, and nothing else has.
func TestRightsNameEveryObject(t *testing.T) {
	t.Parallel()
	pool := testdb.Migrated(t)
	rows, err := pool.Query(t.Context(), `
		SELECT CASE c.relkind WHEN 'S' THEN 2 ELSE 0 END || ' ' || c.relname FROM pg_class c
		WHERE c.relnamespace = 'pawl'::regnamespace AND c.relkind IN ('r', 'p', 'v', 'm', 'f', 'S') AND NOT c.relispartition
		UNION ALL
		SELECT '1 ' || p.proname FROM pg_proc p WHERE p.pronamespace = 'pawl'::regnamespace
		ORDER BY 1`)
	require.NoError(t, err)
	there, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	var named []string
	for _, o := range rights.Objects() {
		named = append(named, fmt.Sprintf("%d %s", o.Class, o.Name))
	}
	require.ElementsMatch(t, there, named, "each object of the schema has one row in package rights: say what each role may do with a new one")
}

// What the server says of each role is what the table says: no more, by PUBLIC or
// by an owner's default, and no less.
func TestGrantsAreTheRights(t *testing.T) {
	t.Parallel()
	pool := testdb.Migrated(t)
	for role, part := range map[string]rights.Role{
		testdb.Worker: rights.Worker, testdb.Producer: rights.Producer, testdb.Viewer: rights.Viewer, testdb.Operator: rights.Operator,
	} {
		var usage, create bool
		require.NoError(t, pool.QueryRow(t.Context(), `SELECT has_schema_privilege($1, 'pawl', 'USAGE'), has_schema_privilege($1, 'pawl', 'CREATE')`, role).Scan(&usage, &create))
		require.True(t, usage)
		require.False(t, create)
		for _, o := range rights.Objects() {
			var has []string
			sql := `SELECT ARRAY(SELECT p FROM unnest('{SELECT,INSERT,UPDATE,DELETE,TRUNCATE,REFERENCES,TRIGGER}'::text[]) WITH ORDINALITY x(p, n)
				WHERE has_table_privilege($1, $2, p) ORDER BY n)`
			switch o.Class {
			case rights.Function:
				sql = `SELECT CASE WHEN has_function_privilege($1, (SELECT p.oid FROM pg_proc p WHERE p.pronamespace = 'pawl'::regnamespace AND 'pawl.' || p.proname = $2),
					'EXECUTE') THEN '{EXECUTE}' ELSE '{}' END::text[]`
			case rights.Sequence:
				sql = `SELECT CASE WHEN has_sequence_privilege($1, $2, 'USAGE,SELECT,UPDATE') THEN '{USAGE}' ELSE '{}' END::text[]`
			}
			require.NoError(t, pool.QueryRow(t.Context(), sql, role, "pawl."+o.Name).Scan(&has))
			want := o.To(part)
			if columns, ok := strings.CutPrefix(want, "SELECT ("); ok {
				want = ""
				var some []string
				require.NoError(t, pool.QueryRow(t.Context(), `SELECT array_agg(a.attname ORDER BY a.attname) FROM pg_attribute a
					WHERE a.attrelid = $2::regclass AND a.attnum > 0 AND NOT a.attisdropped AND has_column_privilege($1, a.attrelid, a.attnum, 'SELECT')`,
					role, "pawl."+o.Name).Scan(&some))
				require.ElementsMatch(t, strings.Split(strings.TrimSuffix(columns, ")"), ", "), some, "%s on %s", role, o.Name)
			}
			require.Equal(t, want, strings.Join(has, ", "), "%s on %s", role, o.Name)
		}
	}
	var open []string
	require.NoError(t, pool.QueryRow(t.Context(), `SELECT COALESCE(array_agg(p.proname), '{}') FROM pg_proc p, aclexplode(p.proacl) a
		WHERE p.pronamespace = 'pawl'::regnamespace AND a.grantee = 0`).Scan(&open))
	require.Empty(t, open, "PUBLIC may call them")
}

// Of the payloads only workers read anything, by columns that hold them and digests
// of them.
func TestNobodyElseReadsPayloads(t *testing.T) {
	t.Parallel()
	pool := testdb.Migrated(t)
	var readers []string
	require.NoError(t, pool.QueryRow(t.Context(), `
		SELECT array_agg(DISTINCT r.role ORDER BY r.role) FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid, unnest($1::text[]) r(role)
		WHERE c.relnamespace = 'pawl'::regnamespace AND a.attname IN ('args', 'payload', 'args_digest', 'idempotency_key', 'key', 'order_key') AND c.relkind <> 'i'
			AND has_column_privilege(r.role, c.oid, a.attnum, 'SELECT')`,
		[]string{testdb.Worker, testdb.Producer, testdb.Viewer, testdb.Operator}).Scan(&readers))
	require.Equal(t, []string{testdb.Worker}, readers)
}

func TestGrantsRefuse(t *testing.T) {
	t.Parallel()
	for _, roles := range []migrations.Roles{
		{}, {Create: true}, {Worker: "a", Producer: "a"}, {Worker: "pg_read_all_data"}, {Viewer: "public"}, {Viewer: strings.Repeat("x", 64)}, {Viewer: "a\x00"},
	} {
		_, err := migrations.Grants(roles, migrations.Options{})
		require.ErrorIs(t, err, migrations.ErrRoleName, "%v", roles)
	}
	_, err := migrations.Grants(migrations.Roles{Worker: "a"}, migrations.Options{Schema: "public"})
	require.ErrorIs(t, err, migrations.ErrSchemaName)
}
