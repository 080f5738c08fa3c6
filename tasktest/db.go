package tasktest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlgo/pawl/internal/testdb"
	"github.com/pawlgo/pawl/migrations"
)

// Option changes what [DB] returns.
type Option func(*options)

type options struct {
	schema  string
	whole   bool // the application's migrations bring Pawl's
	steps   []step
	configs []testdb.Option
}

type step struct {
	key string
	up  func(context.Context, *pgxpool.Pool) error
}

// Migrate lets up prepare the template, after Pawl's own migrations: with the
// application's migrations, and data that all tests start from. It is called
// once, not for each test; other tests and processes with the same key use the
// same template. So the key must change whenever up would do something else:
// [HashFS] makes one of a directory of migrations. Several are applied in the
// order in which they are given.
func Migrate(key string, up func(context.Context, *pgxpool.Pool) error) Option {
	return func(o *options) { o.steps = append(o.steps, step{key, up}) }
}

// MigrateAll is [Migrate] for an application whose own migrations bring Pawl's
// schema too, as [migrations.SQL] returns it.
func MigrateAll(key string, up func(context.Context, *pgxpool.Pool) error) Option {
	return func(o *options) {
		Migrate(key, up)(o)
		o.whole = true
	}
}

// Schema is where Pawl's tables are; "pawl" without it. Bind transactions to it
// with task.InSchema, as elsewhere.
func Schema(name string) Option {
	return func(o *options) { o.schema = name }
}

// Configure lets change alter the configuration of the test's pool, which has at
// most 8 connections otherwise.
func Configure(change func(*pgxpool.Config)) Option {
	return func(o *options) { o.configs = append(o.configs, testdb.Configure(change)) }
}

// HashFS returns a key for [Migrate] that changes with the names or the contents
// of the files in fsys, such as an embed.FS of migrations. It panics where a file
// cannot be read.
func HashFS(fsys fs.FS) string {
	hash := sha256.New()
	err := fs.WalkDir(fsys, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := fs.ReadFile(fsys, path)
		fmt.Fprintf(hash, "%q %d\n", path, len(content))
		hash.Write(content)
		return err
	})
	if err != nil {
		panic(fmt.Sprintf("tasktest: hash the files: %v", err))
	}
	return hex.EncodeToString(hash.Sum(nil))
}

// DB returns a pool on a database that belongs to this test, with Pawl's schema
// and whatever [Migrate] adds. At the end of the test the pool is closed and the
// database dropped, whoever is still connected. It is safe for parallel tests,
// and fails the test where there is no server: see the package's documentation.
func DB(t testing.TB, opts ...Option) *pgxpool.Pool {
	t.Helper()
	var o options
	for _, opt := range opts {
		opt(&o)
	}
	text, err := migrations.SQL(0, migrations.Options{Schema: o.schema})
	if err != nil {
		t.Fatalf("tasktest: %v", err)
	}
	var key strings.Builder
	fmt.Fprintf(&key, "tasktest %x %t", sha256.Sum256([]byte(text)), o.whole)
	for _, s := range o.steps {
		fmt.Fprintf(&key, " %q", s.key)
	}
	return testdb.Template(t, key.String(), o.prepare, o.configs...)
}

// prepare fills the template.
func (o *options) prepare(ctx context.Context, url string) error {
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		return err
	}
	defer pool.Close()
	if !o.whole {
		if err := migrations.Up(ctx, pool, migrations.Options{Schema: o.schema}); err != nil {
			return err
		}
	}
	for _, s := range o.steps {
		if err := s.up(ctx, pool); err != nil {
			return fmt.Errorf("the migrations given to tasktest: %w", err)
		}
	}
	return migrations.Check(ctx, pool, migrations.Options{Schema: o.schema})
}
