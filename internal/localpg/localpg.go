// Package localpg finds or starts a PostgreSQL server to work on, wherever the
// program runs: a laptop, a container, a CI job, as root or as anybody.
//
// The server comes from the first of these sources that has one:
//
//  1. The environment variable PAWL_DATABASE_URL. That server belongs to
//     whoever set the variable: it is used, never configured and never stopped.
//  2. Server binaries installed on the machine, found in PATH or where the
//     usual packages put them. PostgreSQL 15 is the oldest that serves.
//  3. A build of PostgreSQL that is downloaded once and kept in the user's
//     cache directory.
//
// When none has one, the error is [ErrNoServer] and says what to install.
//
// # Two kinds of servers
//
// [Start] gives a server to this process alone:
//
//	server, err := localpg.Start(ctx, localpg.Options{})
//	if err != nil {
//		return err
//	}
//	defer server.Close()
//	pool, err := pgxpool.New(ctx, server.URL())
//
// [Shared] gives a server that all processes of the same user share, which is
// what "go test ./..." wants: it runs one process per package, and a server
// costs more than a second to make. The first process starts it, the next ones
// join it, and it goes away by itself some seconds after the last one has left.
//
// # What happens when the program dies
//
// A server started here outlives nothing it should not. Beside each server runs
// a guard, a small shell script in a session of its own. Every process that
// uses the server holds the writing end of a FIFO that the guard reads, so the
// kernel tells the guard when the last user is gone, however it went. The guard
// then stops the server and removes its directory. If the guard was killed too,
// the next Start or Shared of the same user removes what it left.
//
// The servers are made for work that may be lost: they listen on the loopback
// interface only, with a random password, and do not wait for the disk.
package localpg

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// URLVariable is the environment variable that names a server to use instead of
// starting one.
const URLVariable = "PAWL_DATABASE_URL"

// oldestMajor is the oldest major version of PostgreSQL that serves. Newer
// versions than those known today are accepted: refusing them would break
// programs on the day of a release, for no known reason.
const oldestMajor = 15

const (
	defaultLinger = 10 * time.Second
	startTimeout  = 60 * time.Second
	pingTimeout   = 5 * time.Second
)

// Options say what server is wanted. The zero value is ready to use.
type Options struct {
	// Settings are settings of the server, as in postgresql.conf, on top of
	// those that localpg chooses. Processes that call [Shared] with different
	// settings do not share. The server of PAWL_DATABASE_URL ignores them.
	Settings map[string]string

	// Linger is how long a shared server stays at least after its last user has
	// left; it stays at most twice as long. Zero means 10 seconds, and fractions
	// of a second are rounded up. [Start] ignores it.
	Linger time.Duration

	// Own asks for a server that localpg itself has started, even when
	// PAWL_DATABASE_URL is set: for a caller that is going to stop or crash it.
	Own bool

	// Logger hears of slow or surprising steps, such as a download. Nil means
	// silence.
	Logger *slog.Logger

	// The rest is for the tests of this package.

	home       string   // parent of the per-user directory, instead of the usual places
	bins       []string // directories with server binaries, instead of the usual ones
	ports      []int    // ports to try first
	repository string   // where builds are downloaded from, instead of the usual place
	cache      string   // where builds are kept, instead of the user's cache directory
}

func (o Options) logger() *slog.Logger {
	return cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
}

// linger returns whole seconds, because fractions are beyond a POSIX sleep.
func (o Options) linger() time.Duration {
	d := cmp.Or(o.Linger, defaultLinger)
	return max(time.Second, (d + time.Second - 1).Truncate(time.Second))
}

// Server is a PostgreSQL server that this process may use until [Server.Close].
// Its methods may be called from several goroutines, except those that change
// whether the server runs: Stop, Crash, Restart and Close.
type Server struct {
	url     string
	version int
	own     *cluster // nil for the server of PAWL_DATABASE_URL
	shared  bool
	close   func() error
}

// URL returns the connection URL of the database postgres, for a superuser. For
// the server of PAWL_DATABASE_URL it is the value of that variable.
func (s *Server) URL() string { return s.url }

// Version returns the major version of the server, 17 for example.
func (s *Server) Version() int { return s.version }

// Close gives the server up. A server of [Start] is stopped and removed with
// all its data before Close returns. A shared server stays for its other users,
// and the server of PAWL_DATABASE_URL stays in any case. Calls after the first
// return what the first did.
func (s *Server) Close() error { return s.close() }

// Start starts a server for this process alone, or finds the one of
// PAWL_DATABASE_URL. It returns when the server accepts connections. The
// server's life does not depend on ctx, but on [Server.Close] and on the life of
// this process.
//
// The error is an [ErrNoServer] when no source has a server.
func Start(ctx context.Context, opts Options) (*Server, error) {
	if url := os.Getenv(URLVariable); url != "" && !opts.Own {
		return external(ctx, url)
	}
	return startOwn(ctx, opts)
}

// Shared joins the server that the processes of this user share, and starts it
// when there is none. Otherwise it is like [Start]. The server stays for
// [Options.Linger] after the last process has closed it or died.
func Shared(ctx context.Context, opts Options) (*Server, error) {
	if url := os.Getenv(URLVariable); url != "" && !opts.Own {
		return external(ctx, url)
	}
	return sharedOwn(ctx, opts)
}

// external does not fall through to another source when the server cannot be
// used: whoever names a server does not want work done elsewhere unnoticed.
func external(ctx context.Context, url string) (*Server, error) {
	version, err := ping(ctx, url)
	if err != nil {
		return nil, fmt.Errorf("use the server of %s: %w", URLVariable, err)
	}
	if version < oldestMajor {
		return nil, fmt.Errorf("the server of %s is PostgreSQL %d: set it to a server of version %d or newer",
			URLVariable, version, oldestMajor)
	}
	return &Server{url: url, version: version, close: func() error { return nil }}, nil
}

// ping connects once and returns the major version.
func ping(ctx context.Context, url string) (major int, err error) {
	ctx, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
	var number int
	if err := conn.QueryRow(ctx, "SELECT current_setting('server_version_num')::int").Scan(&number); err != nil {
		return 0, err
	}
	return number / 10000, nil
}

// once makes a close function that may be called again.
func once(f func() error) func() error { return sync.OnceValue(f) }
