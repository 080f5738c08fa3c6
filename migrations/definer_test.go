package migrations_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pawlgo/pawl/internal/testdb"
)

// traps are operators, casts' worth of functions and tables of a caller's own, in a
// schema that comes first for them: each reports who runs it.
const traps = `
CREATE SCHEMA evil;
CREATE TABLE evil.caught (who text, what text);
GRANT USAGE, CREATE ON SCHEMA evil TO %[1]s;
GRANT INSERT, SELECT ON evil.caught TO PUBLIC;
DO $do$
DECLARE
	v_op record;
	v_n  integer := 0;
BEGIN
	FOR v_op IN
		SELECT o.oprname, o.oprleft::regtype AS l, o.oprright::regtype AS r, o.oprresult::regtype AS res FROM pg_operator o
		WHERE o.oprnamespace = 'pg_catalog'::regnamespace AND o.oprkind = 'b'
			AND o.oprleft = ANY ('{text,int2,int4,int8,bool,timestamptz,interval,jsonb,uuid,bytea,date,float8,numeric,xid,tid,name,oid}'::regtype[])
			AND o.oprright = ANY ('{text,int2,int4,int8,bool,timestamptz,interval,jsonb,uuid,bytea,date,float8,numeric,xid,tid,name,oid}'::regtype[])
	LOOP
		v_n := v_n + 1;
		EXECUTE format('CREATE FUNCTION evil.op%%s(%%s, %%s) RETURNS %%s LANGUAGE plpgsql AS $f$ BEGIN
			INSERT INTO evil.caught VALUES (current_user, %%L); RETURN NULL; END $f$', v_n, v_op.l, v_op.r, v_op.res, v_op.l || v_op.oprname || v_op.r);
		EXECUTE format('CREATE OPERATOR evil.%%s (LEFTARG = %%s, RIGHTARG = %%s, FUNCTION = evil.op%%s)', v_op.oprname, v_op.l, v_op.r, v_n);
	END LOOP;
	-- What fits an argument better than the system's own: there an int8 * interval is none.
	EXECUTE 'CREATE FUNCTION evil.times(int8, interval) RETURNS interval LANGUAGE plpgsql AS $f$ BEGIN
		INSERT INTO evil.caught VALUES (current_user, ''int8 * interval''); RETURN $2; END $f$';
	EXECUTE 'CREATE OPERATOR evil.* (LEFTARG = int8, RIGHTARG = interval, FUNCTION = evil.times)';
	EXECUTE 'CREATE FUNCTION evil.joins(text, int4) RETURNS text LANGUAGE plpgsql AS $f$ BEGIN
		INSERT INTO evil.caught VALUES (current_user, ''text || int4''); RETURN $1; END $f$';
	EXECUTE 'CREATE OPERATOR evil.|| (LEFTARG = text, RIGHTARG = int4, FUNCTION = evil.joins)';
	FOR v_op IN
		SELECT p.proname, pg_get_function_identity_arguments(p.oid) AS args, pg_get_function_result(p.oid) AS res FROM pg_proc p
		WHERE p.pronamespace = 'pg_catalog'::regnamespace AND p.prokind = 'f' AND p.proname = ANY ('{clock_timestamp,concat,to_regclass,pg_notify,sha256,convert_to,
			gen_random_uuid,uuid_send,encode,octet_length,length,left,regexp_replace,array_fill,cardinality,jsonb_typeof,nextval,pg_advisory_xact_lock,
			current_setting,isfinite,translate,jsonb_path_exists}'::text[])
			AND pg_get_function_identity_arguments(p.oid) !~ 'any|VARIADIC'
	LOOP
		EXECUTE format('CREATE FUNCTION evil.%%I(%%s) RETURNS %%s LANGUAGE plpgsql AS $f$ BEGIN
			INSERT INTO evil.caught VALUES (current_user, %%L); RETURN%%s; END $f$', v_op.proname, v_op.args, v_op.res, v_op.proname,
			CASE WHEN v_op.res <> 'void' THEN ' NULL' ELSE '' END);
	END LOOP;
	EXECUTE 'CREATE FUNCTION evil.concat(text, text, int4) RETURNS text LANGUAGE plpgsql AS $f$ BEGIN
		INSERT INTO evil.caught VALUES (current_user, ''concat''); RETURN NULL; END $f$';
END $do$;
`

// A caller who may create operators and functions, in a schema that comes first in
// its search_path, and temporary tables, has none of them run by the functions that
// run as their owner.
func TestCallersRunNothingAsTheOwner(t *testing.T) {
	t.Parallel()
	pool := testdb.Migrated(t)
	_, err := pool.Exec(t.Context(), strings.NewReplacer("%[1]s", testdb.Producer, "%%", "%").Replace(traps))
	require.NoError(t, err)
	_, err = pool.Exec(t.Context(), `
		INSERT INTO pawl.kinds (kind, queue, version, capability, priority, max_attempts, keyed, shape, order_fields, organization_field, updated_at)
		VALUES ('k', 'q', 1, 7, 2, 3, false, '{"root": {"kind": "struct", "ref": "A"}, "structs": {"A": [{"json": "n", "go": "N", "type": {"kind": "int"}},
			{"json": "o", "go": "O", "type": {"kind": "string"}}]}}', '{n}', 'o', now());
		INSERT INTO pawl.event_types (type, aggregate_type, version, capability, updated_at) VALUES ('e.done', 'e', 1, 8, now());
		INSERT INTO pawl.sleepers (queue, process) VALUES ('q', gen_random_uuid()), ('!outbox', gen_random_uuid())`)
	require.NoError(t, err)
	for _, path := range []string{`evil, pg_catalog`, `evil, pg_catalog, pg_temp`, `pg_temp, evil, pg_catalog, pawl`} {
		conn, err := testdb.As(t, pool, testdb.Producer).Acquire(t.Context())
		require.NoError(t, err)
		defer conn.Release()
		// Simple protocol: the driver's own statements would call the traps as the caller.
		_, err = conn.Exec(t.Context(), `
			CREATE TEMP TABLE jobs (LIKE evil.caught); CREATE TEMP TABLE ready (LIKE evil.caught); CREATE TEMP TABLE kinds (LIKE evil.caught);
			CREATE TEMP TABLE sleepers (queue text); CREATE TEMP TABLE idempotency_keys (LIKE evil.caught);
			SET search_path = `+path+`;
			SELECT pawl.enqueue_job('k', 'q', 1, 7::int8, 2::int2, 3::int2, NULL, 5::int8, pg_catalog.gen_random_uuid(), '{"n": 1}', '', NULL, true);
			SELECT pawl.enqueue_job('k', 'q', 1, 7::int8, 2::int2, 3::int2, pg_catalog.now(), 0::int8, pg_catalog.gen_random_uuid(), '{"n": 1}', '', NULL, true);
			SELECT * FROM pawl.enqueue_jobs('k', 'q', 1, 7::int8, 2::int2, 3::int2, NULL, 0::int8, ARRAY[pg_catalog.gen_random_uuid()], ARRAY['{"n": 1}'], ARRAY['o'], ARRAY['key'::bytea],
				1000000::int8, true, ARRAY['n'], NULL);
			SELECT * FROM pawl.enqueue_jobs('k', 'q', 1, 7::int8, 2::int2, 3::int2, NULL, 0::int8, ARRAY[pg_catalog.gen_random_uuid()], ARRAY['{"n": 1}'], ARRAY['o'], ARRAY['key'::bytea],
				1000000::int8, true, ARRAY['n'], NULL);
			SELECT * FROM pawl.enqueue('k', '{"n": 1, "o": "x"}', key => 'a', keep => '1 hour', delay => '1 second', priority => 'high');
			SELECT pawl.publish('e.done', 'a', '{"x": [1]}');
			SELECT pawl.publish_event('e.done', 'e', 'a', '', 1, 8::int8, pg_catalog.gen_random_uuid(), '{}', NULL, NULL, true);`, pgx.QueryExecModeSimpleProtocol)
		require.NoError(t, err)
		for _, refused := range []string{
			`SELECT * FROM pawl.enqueue('kind', '{}')`, `SELECT * FROM pawl.enqueue('k', '{"n": "x", "o": 1}')`, `SELECT pawl.publish('e.don', 'a', '{}')`,
		} {
			_, err = conn.Exec(t.Context(), refused, pgx.QueryExecModeSimpleProtocol)
			require.ErrorContains(t, err, "SQLSTATE PW01")
		}
	}
	rows, err := pool.Query(t.Context(), `SELECT DISTINCT who || ': ' || what FROM evil.caught`)
	require.NoError(t, err)
	caught, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	for _, c := range caught {
		require.True(t, strings.HasPrefix(c, testdb.Producer+": "), "%s: the caller's own statements may call it, nobody else", c)
	}
}

// The traps work: a function that is as careless as can be falls into one.
func TestTrapsCatch(t *testing.T) {
	t.Parallel()
	pool := testdb.Migrated(t)
	_, err := pool.Exec(t.Context(), strings.NewReplacer("%[1]s", testdb.Producer, "%%", "%").Replace(traps))
	require.NoError(t, err)
	_, err = pool.Exec(t.Context(), `
		CREATE FUNCTION public.careless() RETURNS interval LANGUAGE plpgsql SECURITY DEFINER AS $$
		BEGIN RETURN (5::int8) * interval '1 microsecond'; END $$`)
	require.NoError(t, err)
	as := testdb.As(t, pool, testdb.Producer)
	_, err = as.Exec(t.Context(), `SET search_path = evil, pg_catalog; SELECT public.careless()`)
	require.NoError(t, err)
	var n int
	require.NoError(t, pool.QueryRow(t.Context(), `SELECT count(*) FROM evil.caught WHERE who <> $1`, testdb.Producer).Scan(&n))
	require.Equal(t, 1, n)
}

// Of the functions that run as their owner each has its own search_path, with
// temporary objects last, or no name in it that is not qualified.
func TestDefinersPinTheirNames(t *testing.T) {
	t.Parallel()
	pool := testdb.Migrated(t)
	rows, err := pool.Query(t.Context(), `
		SELECT p.proname, COALESCE(array_to_string(p.proconfig, '; '), ''), p.prosrc FROM pg_proc p
		WHERE p.pronamespace = 'pawl'::regnamespace AND p.prosecdef ORDER BY 1`)
	require.NoError(t, err)
	defer rows.Close()
	n := 0
	for ; rows.Next(); n++ {
		var name, settings, body string
		require.NoError(t, rows.Scan(&name, &settings, &body))
		if name != "enqueue_job" {
			require.Contains(t, settings, "search_path=pawl, pg_temp", name)
			continue
		}
		require.Empty(t, settings, "SET costs as much as a row")
		body = strings.ReplaceAll(body, `"pawl"`, "pawl")
		body = regexp.MustCompile(`--.*`).ReplaceAllString(body, "")
		body = regexp.MustCompile(`'[^']*'`).ReplaceAllString(body, "''")
		body = regexp.MustCompile(`OPERATOR\(pg_catalog\.[^)]+\)`).ReplaceAllString(body, ";")
		// The one that is left is the assignment.
		require.NotRegexp(t, `[-+*/<>=~!@#%^&|?]`, strings.ReplaceAll(body, ":=", ""))
		for _, call := range regexp.MustCompile(`([\w.]+)\s*\(`).FindAllStringSubmatch(body, -1) {
			switch strings.ToUpper(call[1]) {
			case "GREATEST", "COALESCE", "VALUES", "EXISTS", "AS", "JOBS", "READY", "PAWL.JOBS", "PAWL.READY":
			default:
				require.Regexp(t, `^(pg_catalog|pawl)\.`, call[1])
			}
		}
	}
	require.NoError(t, rows.Err())
	require.Greater(t, n, 20)
}

// A name in the caller's temporary tables does not stand for a day that is not
// there: what would empty it runs as the owner, and so would its triggers.
func TestTemporaryDays(t *testing.T) {
	t.Parallel()
	pool := testdb.Migrated(t)
	as := testdb.As(t, pool, testdb.Worker)
	_, err := pool.Exec(t.Context(), `CREATE TABLE caught (who text); GRANT INSERT ON caught TO PUBLIC; GRANT CREATE ON SCHEMA public TO `+testdb.Worker)
	require.NoError(t, err)
	conn, err := as.Acquire(t.Context())
	require.NoError(t, err)
	defer conn.Release()
	exec := func(sql string) {
		t.Helper()
		_, err := conn.Exec(t.Context(), sql, pgx.QueryExecModeSimpleProtocol)
		require.NoError(t, err)
	}
	exec(`CREATE FUNCTION public.trap() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO public.caught VALUES (current_user); RETURN NULL; END $$`)
	for _, parent := range []string{"jobs", "outcomes", "job_errors", "archive", "events", "event_outcomes", "event_errors", "evil"} {
		exec(`CREATE TEMP TABLE ` + parent + `_d7 (id uuid, n int);
			INSERT INTO ` + parent + `_d7 VALUES (pg_catalog.gen_random_uuid(), 1);
			CREATE TRIGGER t AFTER TRUNCATE ON ` + parent + `_d7 EXECUTE FUNCTION public.trap();
			CREATE TRIGGER d AFTER DELETE ON ` + parent + `_d7 FOR EACH STATEMENT EXECUTE FUNCTION public.trap();
			SELECT pawl.empty_leaf('` + parent + `', 7, 3); SELECT pawl.empty_event_leaf('` + parent + `', 7, 3); SELECT pawl.detach_leaf('` + parent + `', 7, 3)`)
		_, err := conn.Exec(t.Context(), `SELECT pawl.drop_leaf('`+parent+`', 7)`)
		require.Error(t, err)
		_, err = conn.Exec(t.Context(), `SELECT pawl.ensure_day(7, '{`+parent+`_d7}')`)
		require.Error(t, err)
	}
	_, err = conn.Exec(t.Context(), `SELECT pawl.archive_jobs(7, '00000000-0000-0000-0000-000000000000', 10)`)
	require.ErrorContains(t, err, "42P01")
	_, err = conn.Exec(t.Context(), `SELECT pawl.truncate_leaf('pawl.jobs', 1)`)
	require.ErrorContains(t, err, "42501")
	var n int
	require.NoError(t, pool.QueryRow(t.Context(), `SELECT count(*) FROM caught`).Scan(&n))
	require.Zero(t, n)
}
