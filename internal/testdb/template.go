package testdb

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// prepareTimeout bounds the preparation of a template, and the wait for another
// process that prepares it.
const prepareTimeout = 2 * time.Minute

// Template is [New] for a database that is a copy of a prepared one, which takes
// some tens of milliseconds however long the preparation takes:
//
//	pool := testdb.Template(t, "migrations "+migrations.Hash, migrate)
//
// The key names the template among all processes that share the server. The
// first test that asks for a key has prepare fill the template, given the URL of
// an empty database; the others, of other processes too, wait for it. A key
// stands for its content, so it must change when prepare would do something
// else. When prepare fails, the test fails and the next one tries again.
func Template(t testing.TB, key string, prepare func(ctx context.Context, url string) error, opts ...Option) *pgxpool.Pool {
	t.Helper()
	server := Server(t)
	ctx, cancel := context.WithTimeout(t.Context(), prepareTimeout)
	defer cancel()
	name, err := ensureTemplate(ctx, server.URL(), key, prepare)
	if err != nil {
		t.Fatalf("testdb: prepare the template %q: %v", key, err)
	}
	return newDatabase(t, server, name, opts)
}

// ensureTemplate returns the name of the complete template database of the key.
//
// A template is complete when the server has it as one that nobody may connect
// to. That is set last and in one step, so a template whose preparation failed
// or died with its process is not taken for a complete one.
func ensureTemplate(ctx context.Context, serverURL, key string, prepare func(ctx context.Context, url string) error) (name string, err error) {
	sum := sha256.Sum256([]byte(key))
	name = namePrefix + "template_" + hex.EncodeToString(sum[:8])

	pool, err := operators()
	if err != nil {
		return "", err
	}
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return "", err
	}
	defer conn.Release()
	complete, err := templateComplete(ctx, conn, name)
	if err != nil || complete {
		return name, err
	}
	lockID := int64(binary.BigEndian.Uint64(sum[8:16]))
	if _, err := conn.Exec(ctx, "SELECT pg_advisory_lock($1)", lockID); err != nil {
		return "", err
	}
	defer func() {
		_, unlockErr := conn.Exec(context.WithoutCancel(ctx), "SELECT pg_advisory_unlock($1)", lockID)
		err = errors.Join(err, unlockErr)
	}()
	complete, err = templateComplete(ctx, conn, name)
	if err != nil || complete {
		return name, err
	}
	if _, err := conn.Exec(ctx, "DROP DATABASE IF EXISTS "+name+" WITH (FORCE)"); err != nil {
		return "", err
	}
	if _, err := conn.Exec(ctx, "CREATE DATABASE "+name); err != nil {
		return "", err
	}
	templateURL, err := withDatabase(serverURL, name)
	if err != nil {
		return "", err
	}
	if err := prepare(ctx, templateURL); err != nil {
		return "", err
	}
	if _, err := conn.Exec(ctx, "ALTER DATABASE "+name+" WITH IS_TEMPLATE true ALLOW_CONNECTIONS false"); err != nil {
		return "", err
	}
	// A connection that prepare has left open would keep the template from
	// being copied.
	_, err = conn.Exec(ctx, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1", name)
	return name, err
}

func templateComplete(ctx context.Context, conn *pgxpool.Conn, name string) (bool, error) {
	var complete bool
	err := conn.QueryRow(ctx,
		"SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1 AND datistemplate AND NOT datallowconn)",
		name).Scan(&complete)
	return complete, err
}

// withDatabase returns the connection string of another database of the same
// server. Like the string given, it may have either form that PostgreSQL knows.
func withDatabase(server, name string) (string, error) {
	if !strings.HasPrefix(server, "postgres://") && !strings.HasPrefix(server, "postgresql://") {
		// Of settings that are given twice the last one counts.
		return server + " dbname=" + name, nil
	}
	u, err := url.Parse(server)
	if err != nil {
		// The parser's error shows the whole URL, with the password.
		return "", errors.New("the URL of the server cannot be parsed")
	}
	u.Path = "/" + name
	query := u.Query()
	query.Del("dbname")
	u.RawQuery = query.Encode()
	return u.String(), nil
}
