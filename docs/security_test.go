package docs_test

import (
	"context"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pawlgo/pawl/internal/testdb"
	"github.com/pawlgo/pawl/migrations"
)

// The SQL of the guide, with what taskctl prints in between.
func TestSecurity(t *testing.T) {
	t.Parallel()
	pool := testdb.New(t)
	own := "shop_" + uuid.NewString()[:8] + "_" // roles are the server's, not the database's
	var sql []string
	for _, b := range blocks(t, "security.md") {
		if b.lang == "sql" {
			sql = append(sql, strings.ReplaceAll(b.text, "shop_", own))
		}
	}
	require.Len(t, sql, 4)
	audit, sql := sql[0], sql[1:]
	conn, err := pool.Acquire(t.Context())
	require.NoError(t, err)
	defer conn.Release()
	run := func(text string) {
		t.Helper()
		_, err := conn.Exec(t.Context(), text, pgx.QueryExecModeSimpleProtocol)
		require.NoError(t, err)
	}
	grant := func(roles migrations.Roles) {
		t.Helper()
		text, err := migrations.Grants(roles, migrations.Options{})
		require.NoError(t, err)
		run("BEGIN;\n" + text + "COMMIT;")
	}
	run(sql[0])
	t.Cleanup(func() {
		for _, role := range []string{"web", "worker", "migrator"} {
			_, err := pool.Exec(context.WithoutCancel(t.Context()), `DROP OWNED BY `+own+role+` CASCADE; DROP ROLE `+own+role, pgx.QueryExecModeSimpleProtocol)
			require.NoError(t, err)
		}
	})
	grant(migrations.Roles{Migrator: own + "migrator"})
	run(`SET ROLE ` + own + `migrator`)
	require.NoError(t, migrations.Up(t.Context(), conn, migrations.Options{}))
	grant(migrations.Roles{Worker: own + "worker", Producer: own + "web"})
	run(`INSERT INTO pawl.kinds (kind, queue, version, capability, priority, max_attempts, keyed, updated_at) VALUES ('ship_order', 'q', 1, 1, 2, 3, false, now()); RESET ROLE`)
	run(sql[1])
	run(sql[2])
	run(audit)
	var by, verb string
	require.NoError(t, conn.QueryRow(t.Context(), `SELECT made_by, verb FROM pawl.audit`).Scan(&by, &verb))
	require.Equal(t, []string{"ada", "pause queue"}, []string{by, verb})
	var owners, jobs int
	require.NoError(t, conn.QueryRow(t.Context(), `SELECT (SELECT count(DISTINCT relowner) FROM pg_class WHERE relnamespace = 'pawl'::regnamespace), (SELECT count(*) FROM pawl.jobs)`).Scan(&owners, &jobs))
	require.Equal(t, 1, owners)
	require.Equal(t, 1, jobs)
}
