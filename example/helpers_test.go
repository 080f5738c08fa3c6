package main

import (
	"bytes"
	"net"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawlgo/pawl/task"
)

// keys returns a function that makes a new idempotency key at each call, in
// place of the declared fields.
func keys(t *testing.T) func(keep time.Duration) task.EnqueueOption {
	t.Helper()
	n := 0
	return func(keep time.Duration) task.EnqueueOption {
		n++
		return task.Key(t.Name()+strconv.Itoa(n), keep)
	}
}

// serve runs a server on the loopback interface until the end of the test.
func serve(t *testing.T, server *http.Server) (url string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	t.Cleanup(func() {
		require.NoError(t, server.Close())
		require.ErrorIs(t, <-ended, http.ErrServerClosed)
	})
	return "http://" + listener.Addr().String()
}

// output is what a run prints, from several goroutines.
type output struct {
	mu   sync.Mutex // guards text
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}
