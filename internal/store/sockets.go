package store

import (
	"context"
	"net"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// keepAlive finds a dead peer of a quiet connection within half a minute. The
// driver's own default takes an hour.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 3}

// sockets are the network connections of a store. The driver takes up to 15
// seconds to let go of one whose other end is silent; with them at hand, the end
// of a store does not wait for that.
type sockets struct {
	closing context.Context // ends dials that are under way
	end     context.CancelFunc

	mu   sync.Mutex
	open map[*socket]struct{} // guarded by mu
}

type socket struct {
	net.Conn
	of *sockets
}

func newSockets() *sockets {
	s := &sockets{open: make(map[*socket]struct{})}
	s.closing, s.end = context.WithCancel(context.Background())
	return s
}

// through returns a dial function that remembers what dial opens.
func (s *sockets) through(dial pgconn.DialFunc) pgconn.DialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
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
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.closing.Err() != nil {
			_ = conn.Close()
			return nil, net.ErrClosed
		}
		c := &socket{Conn: conn, of: s}
		s.open[c] = struct{}{}
		return c, nil
	}
}

// cut closes all that is open, and lets nothing be opened any more.
func (s *sockets) cut() {
	s.end()
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.open {
		_ = c.Conn.Close()
	}
	clear(s.open)
}

// Close closes the connection.
func (c *socket) Close() error {
	c.of.mu.Lock()
	delete(c.of.open, c)
	c.of.mu.Unlock()
	return c.Conn.Close()
}
