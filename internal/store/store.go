// Package store holds every SQL statement of the runtime behind typed methods.
// It is the only Go code that knows a table or a column; the statements that
// need several steps are functions of the schema in package migrations.
//
// It imports neither task nor runtime. Enqueue goes through the caller's
// transaction; everything else goes through a [Store]'s own small pool, in
// transactions that say their isolation whatever the role's default is: READ
// COMMITTED, but for the one long reading. Where the server, the database or the
// role is set to be read-only they obey.
package store

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	// connectTimeout bounds a connection attempt to one address where the user's
	// configuration does not. The pool would give it two minutes, and the place
	// of a connection with them.
	connectTimeout = 5 * time.Second
	// closeTimeout is how long connections may take to end politely.
	closeTimeout = time.Second
)

// DefaultSchema is where Pawl's tables are unless the user chooses otherwise.
const DefaultSchema = "pawl"

// Channel is the notification channel of a schema. A channel is at most 63
// bytes, as a schema is, so its name is made from a digest.
func Channel(schema string) string {
	sum := sha256.Sum256([]byte(schema))
	return "pawl_" + hex.EncodeToString(sum[:8])
}

func quote(schema string) string { return pgx.Identifier{schema}.Sanitize() }

// Store runs the statements of one schema on a pool of its own. It is safe for
// concurrent use.
type Store struct {
	pool    *pgxpool.Pool
	sockets *sockets
	schema  string // quoted
	channel string
	moves   atomic.Int64 // how often a server turned out to be of no use any more
}

// Open makes a store for a schema with a pool for conns statements at a time,
// configured as the user's pool is. No connection is made yet.
func Open(ctx context.Context, user *pgxpool.Pool, schema string, conns int32) (*Store, error) {
	config := user.Config() // a copy
	// A connection that is given up keeps its place until the driver has let go
	// of it, so there are as many places again.
	config.MaxConns, config.MinConns, config.MinIdleConns = 2*conns, 0, 0
	if config.ConnConfig.ConnectTimeout <= 0 {
		config.ConnConfig.ConnectTimeout = connectTimeout
	}
	sockets := newSockets()
	before := config.BeforeConnect
	config.BeforeConnect = func(ctx context.Context, c *pgx.ConnConfig) error {
		if before != nil {
			if err := before(ctx, c); err != nil {
				return err
			}
		}
		sockets.watch(c)
		return nil
	}
	switch config.ConnConfig.DefaultQueryExecMode {
	case pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol:
		// Those cannot encode arrays of uuids, since they never ask the server
		// for a parameter's type. This one asks, and needs no session either.
		config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("open the runtime's own pool: %w", err)
	}
	return &Store{pool: pool, sockets: sockets, schema: quote(schema), channel: Channel(schema)}, nil
}

// Close closes the store's connections, and returns in little more than a
// second even where the database is silent.
func (s *Store) Close() {
	timer := time.AfterFunc(closeTimeout, s.sockets.cut)
	defer timer.Stop()
	s.pool.Close()
	s.sockets.cut()
}

// DB is the store's pool, for checks that belong to other packages.
func (s *Store) DB() *pgxpool.Pool { return s.pool }

// call runs one statement in a READ COMMITTED transaction of its own, in one
// round trip, and hands its rows to read. The transaction is committed when
// call returns nil; otherwise it may have been.
func (s *Store) call(ctx context.Context, sql string, args []any, read func(pgx.Rows) error) error {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	batch := &pgx.Batch{}
	batch.Queue("BEGIN ISOLATION LEVEL READ COMMITTED")
	batch.Queue(sql, args...).Query(read)
	batch.Queue("COMMIT")
	if err := conn.SendBatch(ctx, batch).Close(); err != nil {
		if unfit(err) {
			s.leave(ctx, conn.Conn())
			return err
		}
		// The connection may stand in an open or failed transaction; where it
		// cannot be ended, Release destroys the connection.
		if conn.Conn().PgConn().TxStatus() != 'I' && !conn.Conn().IsClosed() {
			_, _ = conn.Exec(ctx, "ROLLBACK")
		}
		return explain(err)
	}
	return nil
}

// explain adds what to do to an error that a pooler makes of the driver's named
// statements: those are of a session, which is another one each time.
func explain(err error) error {
	pgErr, ok := errors.AsType[*pgconn.PgError](err)
	if !ok {
		return err
	}
	switch pgErr.Code {
	case "26000", // invalid_sql_statement_name
		"42P05": // duplicate_prepared_statement
		return fmt.Errorf("%w: where the connection goes through a transaction pooler, add default_query_exec_mode=cache_describe to the pool's connection string, or have the pooler track prepared statements", err)
	}
	return err
}

// unfit says that the server has answered and is of no use: it is read-only,
// since a failover made another one the primary or somebody set it so, or it
// goes down or comes up.
func unfit(err error) bool {
	pgErr, ok := errors.AsType[*pgconn.PgError](err)
	if !ok {
		return false
	}
	switch pgErr.Code {
	case "25006", // read_only_sql_transaction
		"57P01", // admin_shutdown
		"57P02", // crash_shutdown
		"57P03": // cannot_connect_now
		return true
	}
	return false
}

// leave gives up the connections to a server that is of no use, so that the next
// statement connects anew, to wherever that leads by then. A connection would
// never find out by itself that the primary is elsewhere now.
func (s *Store) leave(ctx context.Context, conn *pgx.Conn) {
	_ = conn.Close(ctx) // its release takes it out of the pool
	s.pool.Reset()      // the others lead to the same server, or soon will
	s.moves.Add(1)
}

// drain reads nothing.
func drain(rows pgx.Rows) error {
	rows.Close()
	return rows.Err()
}

// callRow is call for a statement of exactly one row.
func (s *Store) callRow(ctx context.Context, sql string, args []any, dest ...any) error {
	return s.call(ctx, sql, args, func(rows pgx.Rows) error {
		if !rows.Next() {
			if err := rows.Err(); err != nil {
				return err
			}
			return pgx.ErrNoRows
		}
		if err := rows.Scan(dest...); err != nil {
			return err
		}
		rows.Close()
		return rows.Err()
	})
}
