package main

import (
	"net"
	"net/http"
	"strconv"
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
