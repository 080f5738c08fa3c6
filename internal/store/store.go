// Package store holds every SQL statement of the runtime behind typed methods.
// It is the only Go code that knows a table or a column; the statements that
// need several steps are functions of the schema in package migrations.
//
// It imports neither task nor runtime. Enqueue goes through the caller's
// transaction; everything else goes through a [Store]'s own small pool, in
// transactions that say their isolation whatever the role's default is: READ
// COMMITTED, but for the one long reading.
package store

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
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
	schema  string // quoted
	channel string
}

// Open makes a store for a schema with a pool of at most conns connections,
// configured as the user's pool is. No connection is made yet.
func Open(ctx context.Context, user *pgxpool.Pool, schema string, conns int32) (*Store, error) {
	config := user.Config() // a copy
	config.MaxConns, config.MinConns, config.MinIdleConns = conns, 0, 0
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
	return &Store{pool: pool, schema: quote(schema), channel: Channel(schema)}, nil
}

// Close closes the store's connections.
func (s *Store) Close() { s.pool.Close() }

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
	batch.Queue("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE")
	batch.Queue(sql, args...).Query(read)
	batch.Queue("COMMIT")
	if err := conn.SendBatch(ctx, batch).Close(); err != nil {
		// The connection may stand in an open or failed transaction; where it
		// cannot be ended, Release destroys the connection.
		if conn.Conn().PgConn().TxStatus() != 'I' && !conn.Conn().IsClosed() {
			_, _ = conn.Exec(ctx, "ROLLBACK")
		}
		return err
	}
	return nil
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
