package localpg

import (
	"errors"
	"fmt"
	"strings"
)

// ErrNoServer is matched by the error of [Start] and [Shared] when no source has
// a server. The error itself is a [*NoServerError].
var ErrNoServer = errors.New("no PostgreSQL server to work on")

// ErrNotOwned is returned by the methods that stop a server when the server is
// not of this process alone.
var ErrNotOwned = errors.New("the server is not this process's to stop: start one with localpg.Start and Options.Own")

// NoServerError says why each source has no server.
type NoServerError struct {
	// Reasons has an error for each source or binary that was passed over.
	Reasons []error
}

// Error is one sentence: what to do, then the reasons.
func (e *NoServerError) Error() string {
	reasons := make([]string, len(e.Reasons))
	for i, r := range e.Reasons {
		reasons[i] = oneLine(r.Error())
	}
	return fmt.Sprintf("%v: install PostgreSQL %d or newer, or set %s to the URL of a running one (%s)",
		ErrNoServer, oldestMajor, URLVariable, strings.Join(reasons, "; "))
}

// Is makes the error match [ErrNoServer].
func (e *NoServerError) Is(target error) bool { return target == ErrNoServer }

// Unwrap returns the reasons.
func (e *NoServerError) Unwrap() []error { return e.Reasons }

// StartError says that server binaries were found, but the server did not start.
type StartError struct {
	// Bin is the directory of the server binaries.
	Bin string
	// Log is the end of what the server and its tools have printed.
	Log string
	// Err is what went wrong.
	Err error
}

func (e *StartError) Error() string {
	if e.Log == "" {
		return fmt.Sprintf("start the PostgreSQL of %s: %v", e.Bin, e.Err)
	}
	return fmt.Sprintf("start the PostgreSQL of %s: %v; its log ends with:\n%s", e.Bin, e.Err, e.Log)
}

// Unwrap returns Err.
func (e *StartError) Unwrap() error { return e.Err }

// oneLine makes the text of a program or of a joined error fit into a sentence.
func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }
