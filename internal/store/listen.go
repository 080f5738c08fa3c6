package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// Listener is a connection that waits for wake-ups.
type Listener struct{ conn *pgx.Conn }

// Listen opens a connection of its own, apart from the pool, and listens on
// the schema's channel.
func (s *Store) Listen(ctx context.Context) (*Listener, error) {
	config := s.pool.Config() // a copy
	if config.BeforeConnect != nil {
		if err := config.BeforeConnect(ctx, config.ConnConfig); err != nil {
			return nil, err
		}
	}
	config.ConnConfig.OnNotification = nil // a handler of the user's would get them all
	conn, err := pgx.ConnectConfig(ctx, config.ConnConfig)
	if err != nil {
		return nil, err
	}
	if _, err := conn.Exec(ctx, "LISTEN "+s.channel); err != nil {
		_ = conn.Close(ctx)
		return nil, err
	}
	return &Listener{conn: conn}, nil
}

// Wait returns the queue that a wake-up names, or empty for all of them. After
// quiet without one it makes sure that the connection still listens, since one
// that only waits never notices that the other end is gone, and returns
// ok false.
func (l *Listener) Wait(ctx context.Context, quiet time.Duration) (queue string, ok bool, err error) {
	waiting, cancel := context.WithTimeout(ctx, quiet)
	defer cancel()
	n, err := l.conn.WaitForNotification(waiting)
	switch {
	case err == nil:
		return n.Payload, true, nil
	case ctx.Err() != nil:
		return "", false, ctx.Err()
	case waiting.Err() == nil:
		return "", false, err
	}
	checking, cancel := context.WithTimeout(ctx, quiet)
	defer cancel()
	var channels int
	if err := l.conn.QueryRow(checking, "SELECT count(*) FROM pg_listening_channels()").Scan(&channels); err != nil {
		return "", false, err
	}
	if channels == 0 {
		return "", false, fmt.Errorf("the connection no longer listens: it seems to go through a transaction pooler")
	}
	return "", false, nil
}

// Close closes the connection.
func (l *Listener) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = l.conn.Close(ctx)
}
