package migrations

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/pawlgo/pawl/internal/rights"
)

// ErrRoleName says that the name of a role cannot be used.
var ErrRoleName = errors.New("not a name for a role")

// Roles are the names of roles of the database, without quotes. A part without a
// name is left as it is.
type Roles struct {
	// Migrator owns the schema and everything in it, and so may do anything there.
	Migrator string
	// Worker is the role of the pool that a worker is given. It may also do what a
	// producer may, and cancel, pause and the like, since handlers do.
	Worker string
	// Producer may enqueue and publish, by the functions of the schema, and reads no
	// job.
	Producer string
	// Viewer reads everything but payloads and the digests of keys.
	Viewer string
	// Operator is a viewer that may cancel, retry, purge and pause besides.
	Operator string
	// Create makes those of the roles that do not exist, without the right to log
	// in. Otherwise they have to be there.
	Create bool
}

// Grants returns the statements that give roles their rights in the schema, and
// take any others in it away from them. Run them in one transaction, as a role
// that may: the owner of the schema, and for a migrator one that may give the schema to
// it. They can be repeated, and have to be after each migration, since objects that
// are new are nobody's but the owner's.
//
// Where the schema is not there yet, name a migrator alone: it gets an empty one,
// for [Up] to fill.
//
// What each role may do is in docs/security.md. To see since when sessions of other
// roles hold back vacuum, a worker and an operator have to be members of pg_monitor
// besides: that is for a superuser to grant, and no right in the schema. The rights
// of a role on tables of the application are the application's business.
func Grants(roles Roles, opts Options) (string, error) {
	schema, err := opts.schema()
	if err != nil {
		return "", err
	}
	parts := []struct {
		what, name string
		role       rights.Role
	}{
		{"worker", roles.Worker, rights.Worker}, {"producer", roles.Producer, rights.Producer},
		{"viewer", roles.Viewer, rights.Viewer}, {"operator", roles.Operator, rights.Operator},
	}
	taken := map[string]string{}
	for _, p := range append(parts, struct {
		what, name string
		role       rights.Role
	}{"migrator", roles.Migrator, 0}) {
		if p.name == "" {
			continue
		}
		if err := checkRole(p.name); err != nil {
			return "", fmt.Errorf("role %q of the %s: %w", p.name, p.what, err)
		}
		if other := taken[p.name]; other != "" {
			return "", fmt.Errorf("role %q is the %s and the %s: %w: give each part a role, and a user both roles", p.name, other, p.what, ErrRoleName)
		}
		taken[p.name] = p.what
	}
	if len(taken) == 0 {
		return "", fmt.Errorf("no role is named: %w", ErrRoleName)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "-- Rights in schema %s. Run this in one transaction, and again after each migration.\n", ident(schema))
	create := func(name string) {
		if roles.Create {
			fmt.Fprintf(&b, "DO %[1]s BEGIN\n\tIF NOT EXISTS (SELECT FROM pg_catalog.pg_roles r WHERE r.rolname OPERATOR(pg_catalog.=) %[2]s) THEN\n\t\tCREATE ROLE %[3]s;\n\tEND IF;\nEND %[1]s;\n",
				dollar(schema+name), literal(name), ident(name))
		}
	}
	if roles.Migrator != "" {
		fmt.Fprintf(&b, "\n-- The migrator.\n")
		create(roles.Migrator)
		b.WriteString(ownership(schema, roles.Migrator))
	}
	for _, p := range parts {
		if p.name == "" {
			continue
		}
		fmt.Fprintf(&b, "\n-- The %s.\n", p.what)
		create(p.name)
		role := ident(p.name)
		for _, all := range []string{"TABLES", "SEQUENCES", "FUNCTIONS"} {
			fmt.Fprintf(&b, "REVOKE ALL ON ALL %s IN SCHEMA %s FROM %s;\n", all, ident(schema), role)
		}
		fmt.Fprintf(&b, "REVOKE ALL ON SCHEMA %[1]s FROM %[2]s;\nGRANT USAGE ON SCHEMA %[1]s TO %[2]s;\n", ident(schema), role)
		for _, o := range rights.Objects() {
			if to := o.To(p.role); to != "" {
				fmt.Fprintf(&b, "GRANT %s ON %s %s.%s TO %s;\n", to, classes[o.Class], ident(schema), o.Name, role)
			}
		}
	}
	return b.String(), nil
}

var classes = map[rights.Class]string{rights.Table: "TABLE", rights.Function: "FUNCTION", rights.Sequence: "SEQUENCE"}

// ownership makes a role the owner of the schema and of everything in it.
func ownership(schema, role string) string {
	return fmt.Sprintf(`DO %[1]s
DECLARE
	v_schema CONSTANT pg_catalog.text := %[2]s;
	v_role   CONSTANT pg_catalog.text := %[3]s;
	v_path   CONSTANT pg_catalog.text := pg_catalog.current_setting('search_path');
	v_alter  pg_catalog.text;
BEGIN
	PERFORM pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
	IF to_regnamespace(v_schema) IS NULL THEN
		EXECUTE 'CREATE SCHEMA ' || v_schema || ' AUTHORIZATION ' || v_role;
	END IF;
	FOR v_alter IN
		SELECT 'ALTER SCHEMA ' || v_schema || ' OWNER TO ' FROM pg_namespace n WHERE n.oid = to_regnamespace(v_schema) AND n.nspowner <> to_regrole(v_role)
		UNION ALL -- sequences of a column and indexes have the owner of their table
		SELECT 'ALTER TABLE ' || c.oid::regclass || ' OWNER TO ' FROM pg_class c
		WHERE c.relnamespace = to_regnamespace(v_schema) AND c.relkind IN ('r', 'p', 'v', 'S') AND c.relowner <> to_regrole(v_role)
			AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype IN ('a', 'i') AND c.relkind = 'S')
		UNION ALL
		SELECT 'ALTER ROUTINE ' || p.oid::regprocedure || ' OWNER TO ' FROM pg_proc p
		WHERE p.pronamespace = to_regnamespace(v_schema) AND p.proowner <> to_regrole(v_role)
	LOOP
		EXECUTE v_alter || v_role;
	END LOOP;
	PERFORM set_config('search_path', v_path, true);
END %[1]s;
`, dollar(schema+role), literal(ident(schema)), literal(ident(role)))
}

func checkRole(name string) error {
	switch {
	case len(name) > 63 || !utf8.ValidString(name) || strings.ContainsRune(name, 0):
		return fmt.Errorf("%w: use at most 63 bytes of UTF-8", ErrRoleName)
	case strings.HasPrefix(name, "pg_") || name == "public" || name == "none":
		return fmt.Errorf("%w: PostgreSQL has that name for itself", ErrRoleName)
	}
	return nil
}
