// Package testdb gives tests databases of their own on a PostgreSQL server that
// all packages of a test run share. It needs no set-up: see package localpg for
// where the server comes from.
//
//	func TestInsert(t *testing.T) {
//		t.Parallel()
//		pool := testdb.New(t)
//		_, err := pool.Exec(t.Context(), "CREATE TABLE t (id int)")
//		require.NoError(t, err)
//	}
//
// Databases of tests that were killed go with the server. On the server of
// PAWL_DATABASE_URL they stay, and so do the templates of [Template]: there, drop
// the databases whose names start with testdb_ from time to time.
//
// Only tests import this package, because it imports testing.
package testdb

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlgo/pawl/internal/localpg"
)

const (
	// defaultMaxConns is small, because many tests run at once on one server.
	defaultMaxConns = 8

	// maxOperators is few, since the server makes databases one after another.
	maxOperators = 4

	// serverTimeout covers the download of a server.
	serverTimeout = 5 * time.Minute

	cleanupTimeout = 30 * time.Second

	// namePrefix starts the names of all databases made here.
	namePrefix = "testdb_"
)

// Option changes the pool that [New] and [Template] return.
type Option func(*pgxpool.Config)

// MaxConns sets the size of the pool, which is 8 otherwise.
func MaxConns(n int32) Option { return func(c *pgxpool.Config) { c.MaxConns = n } }

// Configure lets tweak change the configuration of the pool in any way.
func Configure(tweak func(*pgxpool.Config)) Option { return tweak }

// shared is the server of this process. There is no owner that could close it:
// a test binary has no end that its packages could see, and the server goes away
// when the process has.
var shared = sync.OnceValues(func() (*localpg.Server, error) {
	ctx, cancel := context.WithTimeout(context.Background(), serverTimeout)
	defer cancel()
	return localpg.Shared(ctx, localpg.Options{})
})

// operators are connections to the shared server for the statements that make
// and drop databases: to connect anew would cost more than those do. Like the
// server they go with the process.
var operators = sync.OnceValues(func() (*pgxpool.Pool, error) {
	server, err := shared()
	if err != nil {
		return nil, err
	}
	config, err := pgxpool.ParseConfig(server.URL())
	if err != nil {
		return nil, err
	}
	config.MaxConns = maxOperators
	return pgxpool.NewWithConfig(context.Background(), config)
})

// Server returns the server that the tests of this user share. Tests must not
// stop it, nor change settings of the server as a whole.
func Server(t testing.TB) *localpg.Server {
	t.Helper()
	s, err := shared()
	if err != nil {
		t.Fatalf("testdb: %v", err)
	}
	return s
}

// Private starts a server for this test alone, for tests that stop or crash it.
// It costs more than a second, and is gone at the end of the test. Settings are
// settings of the server, as in postgresql.conf, and may be nil.
func Private(t testing.TB, settings map[string]string) *localpg.Server {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), serverTimeout)
	defer cancel()
	s, err := localpg.Start(ctx, localpg.Options{Own: true, Settings: settings})
	if err != nil {
		t.Fatalf("testdb: %v", err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("testdb: close the server: %v", err)
		}
	})
	return s
}

// New returns a pool on a new, empty database of the shared server. At the end
// of the test the pool is closed and the database is dropped, whoever is still
// connected to it.
func New(t testing.TB, opts ...Option) *pgxpool.Pool {
	t.Helper()
	return newDatabase(t, Server(t), "", opts)
}

// On is [New] on a server of [Private]. The database is not dropped at the end
// of the test, when the server may not even run: it goes with the server.
func On(t testing.TB, s *localpg.Server, opts ...Option) *pgxpool.Pool {
	t.Helper()
	name := newName()
	if err := onServer(t.Context(), s.URL(), "CREATE DATABASE "+name); err != nil {
		t.Fatalf("testdb: create a database: %v", err)
	}
	return connect(t, s.URL(), name, opts)
}

// newDatabase creates a copy of a template on the shared server, or an empty
// database without one, and drops it at the end of the test.
func newDatabase(t testing.TB, server *localpg.Server, template string, opts []Option) *pgxpool.Pool {
	t.Helper()
	name := newName()
	statement := "CREATE DATABASE " + name
	if template != "" {
		statement += " TEMPLATE " + template
	}
	if err := onShared(t.Context(), statement); err != nil {
		t.Fatalf("testdb: create a database: %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), cleanupTimeout)
		defer cancel()
		if err := onShared(ctx, "DROP DATABASE IF EXISTS "+name+" WITH (FORCE)"); err != nil {
			t.Errorf("testdb: drop the database %s: %v", name, err)
		}
	})
	return connect(t, server.URL(), name, opts)
}

func newName() string { return namePrefix + strings.ToLower(rand.Text()) }

// connect returns a pool that is closed at the end of the test.
func connect(t testing.TB, url, name string, opts []Option) *pgxpool.Pool {
	t.Helper()
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		t.Fatalf("testdb: %v", err)
	}
	config.ConnConfig.Database = name
	config.MaxConns = defaultMaxConns
	for _, opt := range opts {
		opt(config)
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatalf("testdb: connect to %s: %v", name, err)
	}
	t.Cleanup(func() { closePool(t, pool, cleanupTimeout) })
	return pool
}

// closePool closes a pool without hanging on a connection that the test has not
// given back.
func closePool(t testing.TB, pool *pgxpool.Pool, within time.Duration) {
	t.Helper()
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		pool.Close()
	}()
	select {
	case <-closed:
	case <-time.After(within):
		t.Errorf("testdb: the test still holds %d connection(s) of its pool: release them, or stop what holds them, before it ends", pool.Stat().AcquiredConns())
	}
}

// onShared runs one statement on the shared server.
func onShared(ctx context.Context, statement string) error {
	pool, err := operators()
	if err != nil {
		return err
	}
	_, err = pool.Exec(ctx, statement)
	return err
}

// onServer runs one statement on the database of the URL.
func onServer(ctx context.Context, url, statement string) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return fmt.Errorf("connect to the server: %w", err)
	}
	_, err = conn.Exec(ctx, statement)
	if closeErr := conn.Close(context.WithoutCancel(ctx)); err == nil {
		err = closeErr
	}
	return err
}
