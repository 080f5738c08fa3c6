package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	// poolConns is how many connections every subject may use at once.
	poolConns   = 16
	dropTimeout = time.Minute
)

// database is one database of the server and a pool on it.
type database struct {
	b    *bench
	name string
	pool *pgxpool.Pool
}

// onServer runs a statement outside all databases that are measured.
func (b *bench) onServer(ctx context.Context, sql string) error {
	conn, err := pgx.Connect(ctx, b.url)
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, sql)
	return errors.Join(err, conn.Close(context.WithoutCancel(ctx)))
}

func (b *bench) checkpoint(ctx context.Context) error { return b.onServer(ctx, "CHECKPOINT") }

// ask reads one value outside all databases that are measured.
func ask[T any](ctx context.Context, b *bench, sql string, args ...any) (v T, err error) {
	conn, err := pgx.Connect(ctx, b.url)
	if err != nil {
		return v, err
	}
	err = conn.QueryRow(ctx, sql, args...).Scan(&v)
	return v, errors.Join(err, conn.Close(context.WithoutCancel(ctx)))
}

// describe says what the numbers of this run belong to.
func (b *bench) describe(ctx context.Context) (string, error) {
	var about []string
	for _, name := range []string{"server_version", "fsync", "synchronous_commit", "full_page_writes", "shared_buffers", "max_wal_size", "checkpoint_timeout"} {
		v, err := ask[string](ctx, b, "SELECT current_setting($1)", name)
		if err != nil {
			return "", err
		}
		about = append(about, name+" "+v)
	}
	return fmt.Sprintf("PostgreSQL: %s\nMachine: %d CPUs, %s/%s, %s, %s\n", strings.Join(about, ", "),
		runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, runtime.Version(), time.Now().UTC().Format(time.DateOnly)), nil
}

// createDatabase makes a database, a copy of a template where one is named.
func (b *bench) createDatabase(ctx context.Context, template string, large bool) (*database, error) {
	name := "bench_" + strings.ReplaceAll(uuid.NewString(), "-", "")
	sql := "CREATE DATABASE " + name
	if template != "" {
		sql += " TEMPLATE " + template
		if large { // not through the WAL
			sql += " STRATEGY file_copy"
		}
	}
	b.made = append(b.made, name)
	if err := b.onServer(ctx, sql); err != nil {
		return nil, err
	}
	db := &database{b: b, name: name}
	if err := db.connect(ctx); err != nil {
		return nil, errors.Join(err, b.dropDatabase(name))
	}
	return db, nil
}

func (d *database) config() (*pgxpool.Config, error) {
	config, err := pgxpool.ParseConfig(d.b.url)
	if err != nil {
		return nil, err
	}
	config.ConnConfig.Database = d.name
	config.MaxConns = poolConns
	return config, nil
}

func (d *database) connect(ctx context.Context) error {
	config, err := d.config()
	if err != nil {
		return err
	}
	d.pool, err = pgxpool.NewWithConfig(ctx, config)
	return err
}

// quiet closes the pool and waits until the last connection to the database is
// gone, since only then its statistics are complete.
func (d *database) quiet(ctx context.Context) error {
	d.pool.Close()
	for {
		n, err := ask[int](ctx, d.b, `SELECT count(*) FROM pg_stat_activity WHERE datname = $1 AND backend_type = 'client backend'`, d.name)
		if err != nil || n == 0 {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func (d *database) drop() error {
	d.pool.Close()
	return d.b.dropDatabase(d.name)
}

// dropDatabase does so also when the run was interrupted.
func (b *bench) dropDatabase(name string) error {
	ctx, cancel := context.WithTimeout(context.Background(), dropTimeout)
	defer cancel()
	return b.onServer(ctx, "DROP DATABASE IF EXISTS "+name+" WITH (FORCE)")
}

// subjectDatabase returns a database where the subject of a variant has its
// tables and what prepare put into them, which happens once for each key.
func (b *bench) subjectDatabase(ctx context.Context, v variant, key string, prepare func(context.Context, *trial) error) (*database, error) {
	key = v.subject.Name() + "/" + key
	template, ok := b.templates[key]
	if !ok {
		db, err := b.createDatabase(ctx, "", false)
		if err != nil {
			return nil, err
		}
		b.templates[key], template = db.name, db.name
		if err := db.prepare(ctx, v, prepare); err != nil {
			return nil, fmt.Errorf("prepare: %w", err)
		}
	}
	return b.createDatabase(ctx, template, prepare != nil)
}

func (d *database) prepare(ctx context.Context, v variant, prepare func(context.Context, *trial) error) error {
	defer d.pool.Close() // nobody may be connected to a template
	if err := v.subject.Migrate(ctx, d.pool); err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	if prepare == nil {
		return nil
	}
	client, err := v.subject.Open(ctx, d.pool)
	if err != nil {
		return err
	}
	defer client.Close()
	if err := prepare(ctx, &trial{variant: v, b: d.b, db: d, client: client}); err != nil {
		return err
	}
	// As a database is that has had these rows for a while. Copies of it begin
	// without the statistics that would make autovacuum do so.
	if _, err := d.pool.Exec(ctx, "VACUUM (ANALYZE)"); err != nil {
		return err
	}
	return d.quiet(ctx)
}
