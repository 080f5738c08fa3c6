package task

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"syscall"

	"github.com/jackc/pgx/v5/pgconn"
)

// transientStates are the SQLSTATE classes, and single states, of failures of
// the moment: the same statement can succeed a little later.
var transientStates = []string{
	"08",    // connection exceptions
	"25006", // a read-only node, as in the middle of a failover
	"25P03", // the transaction was idle for too long, as when its process was stopped
	"25P04", // the transaction took too long
	"40",    // serialization failures and deadlocks
	"53",    // insufficient resources
	"55P03", // a lock is not available
	"57",    // operator intervention: shutdown, cancellation, recovery
	"58",    // system errors of the server's machine
}

// Classify returns the outermost [Failure] in err's chain. An error that nobody
// classified gets the class that its kind suggests:
//
//   - [context.DeadlineExceeded] is [ClassTimeout];
//   - an error of the network (a [net.OpError], a [net.DNSError], a refused,
//     reset or broken connection, an answer that broke off, anything that says
//     Timeout) is [ClassTransient];
//   - an error of PostgreSQL is [ClassTransient] where its SQLSTATE says that the
//     moment is at fault: connections, serialization failures and deadlocks,
//     resources, locks, shutdowns;
//   - everything else is [ClassUnknown]. [context.Canceled] is too: why the
//     context ended is for the runtime to say.
//
// Classify returns nil for nil.
func Classify(err error) *Failure {
	if err == nil {
		return nil
	}
	if f, ok := errors.AsType[*Failure](err); ok && f != nil {
		return f
	}
	return &Failure{Class: suggested(err), Err: err}
}

func suggested(err error) Class {
	switch {
	case errors.Is(err, context.Canceled):
		return ClassUnknown
	case errors.Is(err, context.DeadlineExceeded):
		return ClassTimeout
	}
	if pgErr, ok := errors.AsType[*pgconn.PgError](err); ok {
		if slices.ContainsFunc(transientStates, func(s string) bool { return len(pgErr.Code) >= len(s) && pgErr.Code[:len(s)] == s }) {
			return ClassTransient
		}
		return ClassUnknown
	}
	if _, ok := errors.AsType[*net.OpError](err); ok {
		return ClassTransient
	}
	if _, ok := errors.AsType[*net.DNSError](err); ok {
		return ClassTransient
	}
	for _, broken := range []error{io.ErrUnexpectedEOF, net.ErrClosed, syscall.ECONNREFUSED, syscall.ECONNRESET, syscall.EPIPE, pgconn.ErrConnClosed} {
		if errors.Is(err, broken) {
			return ClassTransient
		}
	}
	if t, ok := errors.AsType[interface {
		error
		Timeout() bool
	}](err); ok && t.Timeout() {
		return ClassTransient
	}
	return ClassUnknown
}
