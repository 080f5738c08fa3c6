// Package devdb starts a PostgreSQL server for development, with Pawl's schema on
// it, that leaves nothing behind.
//
//	server, err := devdb.Start(ctx, devdb.Options{})
//	if err != nil {
//		return err
//	}
//	defer server.Close()
//	pool, err := pgxpool.New(ctx, server.URL())
//
// It uses the server binaries of the machine, or downloads a build once. The
// server listens on the loopback interface only, does not wait for the disk, and
// is gone with its data when it is closed, or when the process ends, however it
// ends. It is for work that may be lost.
//
// The package is apart from admin so that programs which run in production do not
// get the means to start a server.
package devdb

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/jackc/pgx/v5"

	"github.com/pawlgo/pawl/internal/localpg"
	"github.com/pawlgo/pawl/migrations"
)

// Options say what is wanted.
type Options struct {
	// Schema is where Pawl's tables come; "pawl" where empty.
	Schema string
	// Logger hears of slow steps, such as a download. Nil means silence.
	Logger *slog.Logger
}

// Server is a running server.
type Server struct{ server *localpg.Server }

// Start starts a server and migrates its database. Its life does not depend on
// ctx, but on [Server.Close] and on the life of this process. Where the machine
// has no PostgreSQL and cannot get one, the error says what to install.
func Start(ctx context.Context, opts Options) (_ *Server, err error) {
	server, err := localpg.Start(ctx, localpg.Options{Own: true, Logger: opts.Logger})
	if err != nil {
		return nil, fmt.Errorf("start a server: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, server.Close())
		}
	}()
	conn, err := pgx.Connect(ctx, server.URL())
	if err != nil {
		return nil, fmt.Errorf("connect to the server that was just started: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if err := migrations.Up(ctx, conn, migrations.Options{Schema: opts.Schema}); err != nil {
		return nil, err
	}
	return &Server{server}, nil
}

// URL is the connection URL of the database, for a superuser.
func (s *Server) URL() string { return s.server.URL() }

// Version is the major version of the server.
func (s *Server) Version() int { return s.server.Version() }

// Close stops the server and removes its data.
func (s *Server) Close() error { return s.server.Close() }
