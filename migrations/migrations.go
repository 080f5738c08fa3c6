// Package migrations holds Pawl's schema as numbered SQL, and applies it.
//
// One call brings a database up to date:
//
//	if err := migrations.Up(ctx, pool, migrations.Options{}); err != nil {
//		return err
//	}
//
// It is safe to call from every process at every start: one process applies
// what is missing while the others wait, in one transaction under a
// transaction-level advisory lock. No session state is used, so it works
// behind a transaction pooler. A database that is newer than the binary is
// left alone and reported as [ErrNewer].
//
// A team that has a migration tool of its own takes the same statements from
// [SQL] instead. They record the versions that they bring, so that [Up] and
// [Check] agree afterwards.
package migrations

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/pawlgo/pawl/internal/store"
)

//go:embed sql/*.sql
var files embed.FS

// Errors of this package, for [errors.Is].
var (
	// ErrNewer says that the database has migrations that this binary does not
	// know: deploy a binary that is at least as new.
	ErrNewer = errors.New("the database is newer than this binary")
	// ErrBehind says that the database lacks migrations of this binary: call
	// [Up], or apply what [SQL] returns.
	ErrBehind = errors.New("the database lacks migrations of this binary")
	// ErrSchemaName says that a schema name cannot be used.
	ErrSchemaName = errors.New("not a name for a schema")
)

// Options say where the schema is.
type Options struct {
	// Schema is the name of the schema, without quotes; "pawl" where empty. Any
	// name that PostgreSQL takes will do, up to 63 bytes, apart from "public",
	// "information_schema", those that begin with "pg_" and those with braces.
	Schema string
}

// DB is what begins a transaction: a *pgxpool.Pool or a *pgx.Conn.
type DB interface {
	BeginTx(ctx context.Context, options pgx.TxOptions) (pgx.Tx, error)
}

// Version is the number of the newest migration in this binary.
func Version() int { return len(migrations) }

type migration struct {
	number int
	name   string
	text   string
}

// migrations are the embedded files, in order, numbered 1, 2, 3 and so on.
var migrations = load()

func load() []migration {
	names, err := fs.Glob(files, "sql/*.sql")
	if err != nil {
		panic(err)
	}
	all := make([]migration, len(names))
	for i, path := range names {
		number, name, _ := strings.Cut(strings.TrimSuffix(strings.TrimPrefix(path, "sql/"), ".sql"), "_")
		if n, err := strconv.Atoi(number); err != nil || n != i+1 {
			panic(fmt.Sprintf("migration %s should be number %d", path, i+1))
		}
		text, err := files.ReadFile(path)
		if err != nil {
			panic(err)
		}
		all[i] = migration{number: i + 1, name: name, text: string(text)}
	}
	return all
}

// Up creates the schema and applies the migrations that it lacks, all of them
// or none. It returns [ErrNewer] where the database is ahead of this binary.
func Up(ctx context.Context, db DB, opts Options) error {
	schema, err := opts.schema()
	if err != nil {
		return err
	}
	tx, err := db.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted, AccessMode: pgx.ReadWrite})
	if err != nil {
		return fmt.Errorf("migrate schema %s: %w", schema, err)
	}
	defer tx.Rollback(context.WithoutCancel(ctx)) // after Commit it does nothing
	if _, err := tx.Exec(ctx, prelude(schema)); err != nil {
		return fmt.Errorf("migrate schema %s: %w", schema, err)
	}
	var applied int
	if err := tx.QueryRow(ctx, `SELECT COALESCE(max(version), 0) FROM `+ident(schema)+`.migrations`).Scan(&applied); err != nil {
		return fmt.Errorf("migrate schema %s: %w", schema, err)
	}
	if applied > len(migrations) {
		return newer(schema, applied)
	}
	for _, m := range migrations[applied:] {
		if _, err := tx.Exec(ctx, m.render(schema)); err != nil {
			return fmt.Errorf("migrate schema %s: migration %d (%s): %w", schema, m.number, m.name, err)
		}
	}
	if applied < len(migrations) {
		if _, err := tx.Exec(ctx, epilogue(schema)); err != nil {
			return fmt.Errorf("migrate schema %s: %w", schema, err)
		}
	}
	if err := tx.Commit(ctx); err != nil {
		return fmt.Errorf("migrate schema %s: %w", schema, err)
	}
	return nil
}

// Check says whether the database is at this binary's version: nil, or an
// error that is [ErrBehind] or [ErrNewer].
func Check(ctx context.Context, db store.Querier, opts Options) error {
	schema, err := opts.schema()
	if err != nil {
		return err
	}
	var applied int
	err = db.QueryRow(ctx, `SELECT COALESCE(max(version), 0) FROM `+ident(schema)+`.migrations`).Scan(&applied)
	if pgErr, ok := errors.AsType[*pgconn.PgError](err); ok && (pgErr.Code == "42P01" || pgErr.Code == "3F000") {
		err = nil // no such table or schema: nothing was ever applied
	}
	switch {
	case err != nil:
		return fmt.Errorf("read the version of schema %s: %w", schema, err)
	case applied > len(migrations):
		return newer(schema, applied)
	case applied < len(migrations):
		return fmt.Errorf("schema %s is at migration %d of %d: %w: call migrations.Up", schema, applied, len(migrations), ErrBehind)
	}
	return nil
}

func newer(schema string, applied int) error {
	return fmt.Errorf("schema %s has migration %d, this binary knows %d: %w: deploy a newer binary", schema, applied, len(migrations), ErrNewer)
}

// SQL returns the statements that bring a schema from a version to that of
// this binary, for another migration tool; from 0 includes the schema itself.
// Run them in one transaction.
func SQL(from int, opts Options) (string, error) {
	schema, err := opts.schema()
	if err != nil {
		return "", err
	}
	if from < 0 || from > len(migrations) {
		return "", fmt.Errorf("there is no migration %d to start from: use 0 to %d", from, len(migrations))
	}
	var b strings.Builder
	b.WriteString(prelude(schema))
	for _, m := range migrations[from:] {
		fmt.Fprintf(&b, "\n-- migration %d: %s\n", m.number, m.name)
		b.WriteString(m.render(schema))
	}
	b.WriteString(epilogue(schema))
	return b.String(), nil
}

// prelude takes the lock, then makes what the migrations themselves need. The
// two are one text, yet the lock comes first: every statement of a text sees
// what was committed before it began.
func prelude(schema string) string {
	return fmt.Sprintf(`SELECT pg_advisory_xact_lock(%d);
-- What the bodies of functions and views mean is settled here: nobody's operators
-- but the system's.
SELECT set_config('pawl.search_path', current_setting('search_path'), true), set_config('search_path', 'pg_catalog, pg_temp', true);
DO %[3]s BEGIN
	-- IF NOT EXISTS would want the right to create schemas even then.
	IF to_regnamespace(%[4]s) IS NULL THEN
		CREATE SCHEMA %[2]s;
	END IF;
END %[3]s;
CREATE TABLE IF NOT EXISTS %[2]s.migrations (
	version    integer     PRIMARY KEY,
	name       text        NOT NULL,
	applied_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
`, lockKey("migrate", schema), ident(schema), dollar(schema), literal(ident(schema)))
}

// epilogue keeps the functions from everybody who was not given them by [Grants]:
// by default PUBLIC may call any, and some run with the rights of their owner. It
// stands here and not beside each, so that none of a later migration is forgotten.
// The owner needs no right.
func epilogue(schema string) string {
	return fmt.Sprintf(`
REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA %s FROM PUBLIC;
SELECT set_config('search_path', current_setting('pawl.search_path'), true);
`, ident(schema))
}

func (m migration) render(schema string) string {
	return strings.NewReplacer(
		"{schema}", ident(schema),
		"{schema_text}", literal(ident(schema)),
		"{channel}", "'"+store.Channel(schema)+"'",
		"{lock_day}", strconv.FormatInt(lockKey("day", schema), 10),
		"{lock_order}", strconv.FormatInt(int64(int32(lockKey("order", schema))), 10),
		"{lock_publish}", strconv.FormatInt(int64(int32(lockKey("publish", schema))), 10),
		"{lock_relay}", strconv.FormatInt(int64(int32(lockKey("relay", schema))), 10),
		"{pinned}", pinned,
		"$$", dollar(schema),
	).Replace(m.text) +
		fmt.Sprintf("INSERT INTO %s.migrations (version, name) VALUES (%d, '%s');\n", ident(schema), m.number, m.name)
}

// pinned are the settings of the hot functions. A table that was vacuumed while
// empty and then fills up makes the planner choose scans and sorts that take
// seconds; each of these statements has one right plan, by index.
//
// Those of the runtime also give up on a lock after a while, sooner than their
// caller gives up on the answer: a claim that nobody waits for any more must not
// take jobs when the lock is free at last.
const pinned = `SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_sort = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET enable_material = off
SET jit = off`

func (o Options) schema() (string, error) {
	name := o.Schema
	switch {
	case name == "":
		return store.DefaultSchema, nil
	case len(name) > 63 || !utf8.ValidString(name) || strings.ContainsRune(name, 0):
		return "", fmt.Errorf("schema %q: %w: use at most 63 bytes of UTF-8", name, ErrSchemaName)
	case name == "public" || name == "information_schema" || strings.HasPrefix(name, "pg_"):
		return "", fmt.Errorf("schema %q: %w: choose one for Pawl alone", name, ErrSchemaName)
	case strings.ContainsAny(name, "{}"):
		return "", fmt.Errorf("schema %q: %w: braces are not supported", name, ErrSchemaName)
	}
	return name, nil
}

// dollar is the quote around function bodies: one that the schema's name,
// which stands in some of them, does not contain.
func dollar(schema string) string {
	tag := "$$"
	for n := 0; strings.Contains(schema, tag); n++ {
		tag = fmt.Sprintf("$b%d$", n)
	}
	return tag
}

// literal quotes text as a string constant, whatever the session takes
// backslashes for.
func literal(text string) string {
	return " E'" + strings.NewReplacer(`\`, `\\`, `'`, `''`).Replace(text) + "'"
}

func ident(schema string) string { return pgx.Identifier{schema}.Sanitize() }

// lockKey names an advisory lock of one schema. Different schemas of a database
// do not wait for one another.
func lockKey(what, schema string) int64 {
	h := fnv.New64a()
	h.Write([]byte("pawl/" + what + "/" + schema))
	return int64(h.Sum64())
}
