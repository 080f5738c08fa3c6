package store

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// keepAlive finds a dead peer of a quiet connection within half a minute, the
// driver's own default in an hour.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 3}

// sockets are the network connections of a store. The driver takes up to 15
// seconds to let go of one whose other end is silent, and asks the server on
// another one to cancel the statement meanwhile; with both at hand, the end of a
// store does not wait for that.
type sockets struct {
	closing context.Context // ends dials that are under way
	end     context.CancelFunc

	mu      sync.Mutex
	conns   []*pgconn.PgConn         // guarded by mu; also some that are closed
	cancels map[*cancelConn]struct{} // guarded by mu
}

func newSockets() *sockets {
	s := &sockets{cancels: make(map[*cancelConn]struct{})}
	s.closing, s.end = context.WithCancel(context.Background())
	return s
}

// watch makes a connection that is about to be made one of s. What it is seen
// to run on stays what the user's dial function returned.
func (s *sockets) watch(c *pgx.ConnConfig) {
	var up atomic.Bool // whoever dials now wants to cancel
	dial, after := c.DialFunc, c.AfterConnect
	c.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(s.closing, cancel)()
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		if tcp, ok := conn.(interface {
			SetKeepAliveConfig(net.KeepAliveConfig) error
		}); ok {
			_ = tcp.SetKeepAliveConfig(keepAlive) // without it, timeouts find out too
		}
		if up.Load() {
			return s.addCancel(conn)
		}
		return conn, nil
	}
	c.AfterConnect = func(ctx context.Context, conn *pgconn.PgConn) error {
		up.Store(true)
		if err := s.add(conn); err != nil {
			return err
		}
		if after != nil {
			return after(ctx, conn)
		}
		return nil
	}
}

// add takes a connection in, and lets go of those that are closed.
func (s *sockets) add(conn *pgconn.PgConn) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.closing.Err(); err != nil {
		return err
	}
	open := s.conns[:0]
	for _, c := range s.conns {
		select {
		case <-c.CleanupDone():
		default:
			open = append(open, c)
		}
	}
	clear(s.conns[len(open):])
	s.conns = append(open, conn)
	return nil
}

func (s *sockets) addCancel(conn net.Conn) (net.Conn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing.Err() != nil {
		_ = conn.Close()
		return nil, net.ErrClosed
	}
	c := &cancelConn{Conn: conn, of: s}
	s.cancels[c] = struct{}{}
	return c, nil
}

// cut closes all that is open, and lets nothing be opened any more.
func (s *sockets) cut() {
	s.end()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.conns {
		_ = c.Conn().Close()
	}
	s.conns = nil
	for c := range s.cancels {
		_ = c.Conn.Close()
	}
	clear(s.cancels)
}

// cancelConn is a connection that asks the server to cancel a statement.
type cancelConn struct {
	net.Conn
	of *sockets
}

// Close closes the connection.
func (c *cancelConn) Close() error {
	c.of.mu.Lock()
	delete(c.of.cancels, c)
	c.of.mu.Unlock()
	return c.Conn.Close()
}
