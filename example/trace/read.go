package trace

import (
	"bufio"
	"errors"
	"fmt"
	"io"

	"github.com/pawlgo/pawl/example/fleet"
)

const (
	maxLine   = 64 << 10
	maxErrors = 10
)

// ErrEmpty says that a trace has no position.
var ErrEmpty = errors.New("the trace is empty: it needs at least one position")

// LineError says what is wrong with one line of a trace.
type LineError struct {
	Line int // from 1
	Err  error
}

func (e *LineError) Error() string { return fmt.Sprintf("line %d: %v", e.Line, e.Err) }

func (e *LineError) Unwrap() error { return e.Err }

// Read reads a whole trace before anything is done with it, so that a bad line
// leaves nothing half done. Its error joins a [*LineError] for each of the
// first ten bad lines, or is [ErrEmpty].
func Read(r io.Reader) ([]fleet.Position, error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLine)
	var positions []fleet.Position
	var errs []error
	n := 0
	for lines.Scan() {
		n++
		p, err := parse(lines.Bytes())
		if err != nil {
			errs = append(errs, &LineError{Line: n, Err: err})
			if len(errs) == maxErrors {
				return nil, errors.Join(errs...)
			}
			continue
		}
		positions = append(positions, p)
	}
	switch err := lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		errs = append(errs, &LineError{Line: n + 1, Err: fmt.Errorf("longer than %d bytes", maxLine)})
	case err != nil:
		errs = append(errs, &LineError{Line: n + 1, Err: err})
	}
	switch {
	case len(errs) > 0:
		return nil, errors.Join(errs...)
	case len(positions) == 0:
		return nil, ErrEmpty
	}
	return positions, nil
}
