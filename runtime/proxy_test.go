package runtime_test

import (
	"context"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// proxy stands between a worker and its database, and fails as networks do.
type proxy struct {
	listener net.Listener
	target   string
	silent   atomic.Bool
	lost     atomic.Int64 // connections that have lost something

	mu    sync.Mutex
	ended bool                  // guarded by mu
	conns map[net.Conn]struct{} // guarded by mu
	work  sync.WaitGroup
}

// newProxy makes a proxy to the server of a configuration. It is gone at the
// end of the test.
func newProxy(t *testing.T, config *pgx.ConnConfig) *proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p := &proxy{
		listener: listener, conns: make(map[net.Conn]struct{}),
		target: net.JoinHostPort(config.Host, strconv.Itoa(int(config.Port))),
	}
	p.work.Go(p.accept)
	t.Cleanup(func() {
		_ = listener.Close()
		p.mu.Lock()
		p.ended = true
		p.mu.Unlock()
		p.cut()
		p.work.Wait()
	})
	return p
}

// through makes a configuration connect through the proxy.
func (p *proxy) through(config *pgx.ConnConfig) {
	address := p.listener.Addr().(*net.TCPAddr)
	config.Host, config.Port, config.Fallbacks = address.IP.String(), uint16(address.Port), nil
}

// silence makes packets vanish in both directions, and connections that are
// made meanwhile get no answer. Nobody is told.
func (p *proxy) silence() { p.silent.Store(true) }

// heal ends a silence. A connection that has lost something stays silent.
func (p *proxy) heal() { p.silent.Store(false) }

// cut closes all connections.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for conn := range p.conns {
		_ = conn.Close()
	}
	clear(p.conns)
}

func (p *proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := (&net.Dialer{}).DialContext(context.Background(), "tcp", p.target)
		if err != nil {
			_ = client.Close()
			continue
		}
		p.mu.Lock()
		p.conns[client], p.conns[server] = struct{}{}, struct{}{}
		ended := p.ended
		p.mu.Unlock()
		if ended {
			p.cut()
		}
		lossy := &atomic.Bool{}
		p.work.Go(func() { p.copy(server, client, lossy) })
		p.work.Go(func() { p.copy(client, server, lossy) })
	}
}

func (p *proxy) copy(to, from net.Conn, lossy *atomic.Bool) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 && p.silent.Load() && lossy.CompareAndSwap(false, true) {
			p.lost.Add(1)
		}
		if n > 0 && !lossy.Load() {
			if _, writeErr := to.Write(buffer[:n]); writeErr != nil {
				err = writeErr
			}
		}
		if err != nil {
			if !p.silent.Load() && !lossy.Load() {
				_ = to.Close() // the end of a connection is a packet too
			}
			_ = from.Close()
			return
		}
	}
}
