package taskimpl

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
)

// As decodes a stored payload. Fields that A does not have are ignored, so that
// an older binary reads what a newer compatible one wrote.
func As[A any](raw []byte) (A, error) {
	var a A
	err := json.Unmarshal(raw, &a)
	return a, err
}

// Upgrade is one step of a chain: it calls the application's upgrader from a
// version, unless an earlier step failed. A panic of the upgrader is an error.
func Upgrade[From, To any](version int, args From, failed error, upgrade func(From) (To, error)) (To, error) {
	var none To
	if failed != nil {
		return none, failed
	}
	upgraded, err := func() (_ To, err error) {
		defer recovered(&err)
		return upgrade(args)
	}()
	if err != nil {
		return none, fmt.Errorf("upgrade it from version %d: %w", version, err)
	}
	return upgraded, nil
}

// Convert is a step without an upgrader: a payload decodes as a later version as
// it is.
func Convert[To, From any](args From, failed error) (To, error) {
	if failed != nil {
		var none To
		return none, failed
	}
	raw, err := json.Marshal(&args)
	if err != nil {
		var none To
		return none, fmt.Errorf("encode what the upgrader returned: %w", err)
	}
	return As[To](raw)
}

// UnknownVersion is the error of a version that Decode does not know.
func UnknownVersion(kind string, version int) error { return &unknownVersion{kind, version} }

type unknownVersion struct {
	kind    string
	version int
}

func (e *unknownVersion) Error() string {
	return fmt.Sprintf("this binary does not know version %d of %s", e.version, e.kind)
}

// NoMarshal has every method that encoding/json looks for. Beside it in a struct,
// an embedded type that gains one of them makes that selector ambiguous, and the
// generated code that selects it stops compiling.
type NoMarshal struct{}

// MarshalJSON is never called.
func (NoMarshal) MarshalJSON() ([]byte, error) { return nil, nil }

// MarshalText is never called.
func (NoMarshal) MarshalText() ([]byte, error) { return nil, nil }

// UnmarshalJSON is never called.
func (NoMarshal) UnmarshalJSON([]byte) error { return nil }

// UnmarshalText is never called.
func (NoMarshal) UnmarshalText([]byte) error { return nil }

// recovered makes an error of a panic, with the place of it: the stored summary
// is all that will be left. It is to be deferred.
func recovered(err *error) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("panic: %v%s", r, panicPlace())
	}
}

// panicPlace names the line that panicked, for a function that is deferred by
// the one that recovers.
func panicPlace() string {
	pcs := make([]uintptr, 64)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs)])
	for panicking := false; ; {
		f, more := frames.Next()
		inRuntime := strings.HasPrefix(f.Function, "runtime.")
		if panicking && !inRuntime && f.File != "" {
			return fmt.Sprintf(" (%s:%d)", filepath.Base(f.File), f.Line)
		}
		panicking = panicking || inRuntime
		if !more {
			return ""
		}
	}
}
