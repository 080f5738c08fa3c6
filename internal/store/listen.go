package store

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// probeTimeout is how long a notification may take from the pool to the
// listener when it has just connected.
const probeTimeout = 2 * time.Second

// ErrDeaf says that a listener does not hear what the pool's connections send.
var ErrDeaf = errors.New("the listener does not hear what the pool's connections send: where they go through a transaction pooler, set Config.Listen to a direct connection, or PollOnly; Config.Listen must lead to the same database")

// errMoved ends a listener when the pool left its server: it may be listening
// to the same one, where nobody sends any more.
var errMoved = errors.New("the pool left a server that is read-only or going down, so the listener connects anew too")

// Listener is a connection that waits for wake-ups.
type Listener struct {
	conn  *pgx.Conn
	store *Store
	moves int64 // of the store, when the listener connected
}

// Listen opens a connection of its own, apart from the pool, and listens on
// the schema's channel. It connects as the pool does, or as direct says where
// that is not nil. It returns when it has heard a notification that went through
// the pool, or an [ErrDeaf]. Ctx bounds all of that.
func (s *Store) Listen(ctx context.Context, direct *pgx.ConnConfig) (*Listener, error) {
	pool := s.pool.Config() // a copy
	config := pool.ConnConfig
	if direct != nil {
		config = direct.Copy()
	}
	if err := pool.BeforeConnect(ctx, config); err != nil {
		return nil, err
	}
	config.OnNotification = nil // a handler of the user's would get them all
	l := &Listener{store: s, moves: s.moves.Load()}
	var err error
	if l.conn, err = pgx.ConnectConfig(ctx, config); err != nil {
		return nil, err
	}
	if err := l.begin(ctx); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

// begin listens, and proves it: a notification takes the way that wake-ups take.
func (l *Listener) begin(ctx context.Context) error {
	id := uuid.New()
	probe := "pawl_" + hex.EncodeToString(id[:])
	if err := l.exec(ctx, "LISTEN "+probe); err != nil {
		return err
	}
	if err := l.store.call(ctx, `SELECT pg_catalog.pg_notify($1, '')`, []any{probe}, drain); err != nil {
		return err
	}
	waiting, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	for {
		n, err := l.conn.WaitForNotification(waiting)
		switch {
		case err == nil && n.Channel == probe:
			return l.exec(ctx, "LISTEN "+l.store.channel+"; UNLISTEN "+probe)
		case err == nil: // of a channel that a hook of the user's listens on
		case waiting.Err() != nil:
			return ErrDeaf
		default:
			return err
		}
	}
}

// exec uses the simple protocol, which needs no state of the session.
func (l *Listener) exec(ctx context.Context, sql string) error {
	_, err := l.conn.PgConn().Exec(ctx, sql).ReadAll()
	return err
}

// Wait returns the payload of a wake-up: the queue, or empty for all of them.
// After quiet without one it makes sure that the connection still listens, since
// one that only waits never notices that the other end is gone, and returns
// ok false. It takes at most twice quiet.
func (l *Listener) Wait(ctx context.Context, quiet time.Duration) (payload string, ok bool, err error) {
	waiting, cancel := context.WithTimeout(ctx, quiet)
	defer cancel()
	n, err := l.conn.WaitForNotification(waiting)
	switch {
	case ctx.Err() != nil:
		return "", false, ctx.Err()
	case l.moves != l.store.moves.Load():
		return "", false, errMoved
	case err == nil:
		return n.Payload, true, nil
	case waiting.Err() == nil:
		return "", false, err
	}
	checking, cancel := context.WithTimeout(ctx, quiet)
	defer cancel()
	var channels int
	if err := l.conn.QueryRow(checking, "SELECT pg_catalog.count(*) FROM pg_catalog.pg_listening_channels()", pgx.QueryExecModeSimpleProtocol).Scan(&channels); err != nil {
		return "", false, fmt.Errorf("make sure that the connection listens: %w", err)
	}
	if channels == 0 {
		return "", false, ErrDeaf
	}
	return "", false, nil
}

// Close closes the connection. It takes at most a second.
func (l *Listener) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = l.conn.Close(ctx)
}
