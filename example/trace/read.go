package trace

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"time"

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

func parse(line []byte) (fleet.Position, error) {
	if len(bytes.TrimSpace(line)) == 0 {
		return fleet.Position{}, errors.New("is empty, where a position is expected")
	}
	var r row
	in := json.NewDecoder(bytes.NewReader(line))
	in.DisallowUnknownFields()
	if err := in.Decode(&r); err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) {
			err = errors.New("ends in the middle of the object")
		}
		return fleet.Position{}, fmt.Errorf("not a position: %w", err)
	}
	if _, err := in.Token(); !errors.Is(err, io.EOF) {
		return fleet.Position{}, errors.New("has something after the object: one position a line")
	}
	return r.position()
}

var vehicleName = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,63}$`)

func (r row) position() (fleet.Position, error) {
	for _, f := range []struct {
		name    string
		missing bool
	}{
		{"vehicle", r.Vehicle == nil},
		{"at", r.At == nil},
		{"lat", r.Lat == nil},
		{"lon", r.Lon == nil},
		{"speed_kmh", r.SpeedKMH == nil},
	} {
		if f.missing {
			return fleet.Position{}, fmt.Errorf("the field %s is missing", f.name)
		}
	}
	if !vehicleName.MatchString(*r.Vehicle) {
		return fleet.Position{}, fmt.Errorf("vehicle %.80q: use 1 to 64 of a-z 0-9 . _ - and start with a letter or a digit", *r.Vehicle)
	}
	at, err := time.Parse(time.RFC3339Nano, *r.At)
	if err != nil {
		return fleet.Position{}, fmt.Errorf("at %.80q is not a time such as 2026-03-02T06:00:30Z", *r.At)
	}
	at = at.UTC().Truncate(time.Microsecond)
	if at.Year() < 2000 || at.Year() > 2099 {
		return fleet.Position{}, fmt.Errorf("at %s is out of range: the years 2000 to 2099", at.Format(time.RFC3339))
	}
	for _, f := range []struct {
		name          string
		value, lo, hi float64
	}{
		{"lat", *r.Lat, -90, 90},
		{"lon", *r.Lon, -180, 180},
		{"speed_kmh", *r.SpeedKMH, 0, 500},
	} {
		if !(f.value >= f.lo && f.value <= f.hi) {
			return fleet.Position{}, fmt.Errorf("%s %v is impossible: %v to %v", f.name, f.value, f.lo, f.hi)
		}
	}
	return fleet.Position{Vehicle: *r.Vehicle, At: at, Lat: *r.Lat, Lon: *r.Lon, SpeedKMH: *r.SpeedKMH}, nil
}
