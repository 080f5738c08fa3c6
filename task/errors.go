package task

import (
	"errors"
	"fmt"
)

// Errors of an enqueue. Each comes wrapped in an [*EnqueueError], so ask with
// [errors.Is]. Those marked "before any SQL" leave the caller's transaction
// usable; after the others it has to be rolled back, as after any SQL error.
var (
	// ErrInvalidArgs says that the payload cannot be stored: U+0000, invalid
	// UTF-8, NaN or an infinity, or a value that encoding/json refuses. Before
	// any SQL.
	ErrInvalidArgs = errors.New("the arguments cannot be stored")
	// ErrTooLarge says that the encoded payload is over the limit of 64 MiB.
	// Before any SQL.
	ErrTooLarge = errors.New("the arguments are too large")
	// ErrInvalidOption says that an option has an impossible value or does not
	// fit the call. Before any SQL.
	ErrInvalidOption = errors.New("an option is invalid")
	// ErrNotMigrated says that the schema lacks Pawl's tables or functions:
	// apply the migrations first, or name the right schema with [InSchema].
	ErrNotMigrated = errors.New("the database has no schema of Pawl's, or an older one")
	// ErrSerialization says that the transaction conflicts with another (a
	// twin of the same key at REPEATABLE READ or above): run the whole
	// transaction again.
	ErrSerialization = errors.New("the transaction conflicts with a concurrent one")
	// ErrDeadlock says that the server broke a deadlock by ending this
	// transaction: run the whole transaction again.
	ErrDeadlock = errors.New("the transaction was ended to break a deadlock")
)

// ErrTxOwned says that Commit or Rollback was called on a transaction that
// belongs to somebody else.
var ErrTxOwned = errors.New("the transaction is not yours to end")

// Causes of the end of a handler's context, from [context.Cause].
var (
	// ErrTimeout says that the attempt took longer than its kind allows.
	ErrTimeout = errors.New("the attempt took longer than its timeout")
	// ErrLeaseLost says that this process no longer holds the job: another may
	// have it already, and what the handler still reports is refused.
	ErrLeaseLost = errors.New("the lease on the job is lost")
	// ErrShutdown says that the worker is shutting down and its soft limit has
	// passed. A handler that returns because of it costs its job no attempt.
	ErrShutdown = errors.New("the worker is shutting down")
	// ErrCancelled says that somebody cancelled the job, with [Cancel] or
	// [CancelOrganization]. Unless the handler succeeds all the same, the job
	// ends as cancelled, whatever error it returns.
	ErrCancelled = errors.New("the job is cancelled")
)

// EnqueueError is the error of an enqueue: which kind, what went wrong, and
// what to do about it.
type EnqueueError struct {
	Kind   string // the wire name of the kind
	Reason error  // one of the sentinels above, or nil where the cause is the database's own
	Err    error  // the cause
}

func (e *EnqueueError) Error() string {
	switch {
	case e.Reason == nil:
		return fmt.Sprintf("enqueue %s: %v", e.Kind, e.Err)
	case e.Err == nil:
		return fmt.Sprintf("enqueue %s: %v", e.Kind, e.Reason)
	}
	return fmt.Sprintf("enqueue %s: %v: %v", e.Kind, e.Reason, e.Err)
}

// Unwrap returns the sentinel and the cause.
func (e *EnqueueError) Unwrap() []error {
	var errs []error
	for _, err := range []error{e.Reason, e.Err} {
		if err != nil {
			errs = append(errs, err)
		}
	}
	return errs
}
