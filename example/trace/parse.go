package trace

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/pawlgo/pawl/example/fleet"
)

// fieldNames are the fields of a position, in the order in which they are
// written and in which missing ones are named.
var fieldNames = []string{"vehicle", "at", "lat", "lon", "speed_kmh"}

// parse reads one line.
func parse(line []byte) (fleet.Position, error) {
	switch {
	case len(bytes.TrimSpace(line)) == 0:
		return fleet.Position{}, errors.New("is empty, where a position is expected")
	case bytes.HasPrefix(line, []byte("\uFEFF")):
		return fleet.Position{}, errors.New("starts with a byte order mark: save the trace without one")
	case !utf8.Valid(line):
		return fleet.Position{}, errors.New("is not UTF-8")
	}
	// Token by token, since Decode takes names in any letter case and repeated
	// ones, of which it keeps the last.
	in := json.NewDecoder(bytes.NewReader(line))
	in.UseNumber()
	r, err := parseRow(in)
	if err != nil {
		return fleet.Position{}, err
	}
	if _, err := in.Token(); !errors.Is(err, io.EOF) {
		return fleet.Position{}, errors.New("has something after the object: one position a line")
	}
	return r.position()
}

func parseRow(in *json.Decoder) (row, error) {
	var r row
	first, err := in.Token()
	if err != nil {
		return r, syntaxError(err)
	}
	if first != json.Delim('{') {
		return r, fmt.Errorf("not a position: %s, where an object is expected", nameOf(first))
	}
	var seen []string
	for in.More() {
		key, err := in.Token()
		if err != nil {
			return r, syntaxError(err)
		}
		name := key.(string) // the decoder takes nothing else for a key
		if err := checkName(name, seen); err != nil {
			return r, err
		}
		seen = append(seen, name)
		value, err := in.Token()
		if err != nil {
			return r, syntaxError(err)
		}
		if err := r.set(name, value); err != nil {
			return r, err
		}
	}
	if _, err := in.Token(); err != nil {
		return r, syntaxError(err)
	}
	return r, nil
}

// syntaxError says why a line is no JSON.
func syntaxError(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("not a position: ends in the middle of the object")
	}
	return fmt.Errorf("not a position: %w", err)
}

func checkName(name string, seen []string) error {
	if slices.Contains(seen, name) {
		return fmt.Errorf("the field %s is there twice", name)
	}
	if slices.Contains(fieldNames, name) {
		return nil
	}
	if i := slices.IndexFunc(fieldNames, func(known string) bool { return strings.EqualFold(known, name) }); i >= 0 {
		return fmt.Errorf("the field %.80q is unknown: write %s, in small letters", name, fieldNames[i])
	}
	return fmt.Errorf("the field %.80q is unknown: a position has %s", name, strings.Join(fieldNames, ", "))
}

// set takes the value of a field that there is.
func (r *row) set(name string, value json.Token) (err error) {
	switch name {
	case "vehicle":
		r.Vehicle, err = text(name, value)
	case "at":
		r.At, err = text(name, value)
	case "lat":
		r.Lat, err = number(name, value)
	case "lon":
		r.Lon, err = number(name, value)
	case "speed_kmh":
		r.SpeedKMH, err = number(name, value)
	}
	return err
}

func text(name string, value json.Token) (*string, error) {
	if s, ok := value.(string); ok {
		return &s, nil
	}
	return nil, wrongKind(name, value, "a text")
}

func number(name string, value json.Token) (*float64, error) {
	literal, ok := value.(json.Number)
	if !ok {
		return nil, wrongKind(name, value, "a number")
	}
	x, err := literal.Float64()
	if err != nil {
		return nil, fmt.Errorf("%s %.80s is impossible: too large for a number", name, literal)
	}
	return &x, nil
}

func wrongKind(name string, value json.Token, want string) error {
	if value == nil {
		return fmt.Errorf("the field %s is null, and it is required", name)
	}
	return fmt.Errorf("the field %s is %s, where %s is expected", name, nameOf(value), want)
}

// nameOf says in words what kind of value starts with a token.
func nameOf(value json.Token) string {
	switch v := value.(type) {
	case nil:
		return "null"
	case string:
		return "a text"
	case bool:
		return strconv.FormatBool(v)
	case json.Number:
		return "a number"
	case json.Delim:
		if v == '[' {
			return "an array"
		}
	}
	return "an object"
}

var vehicleName = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,63}$`)

func (r row) position() (fleet.Position, error) {
	for i, missing := range []bool{r.Vehicle == nil, r.At == nil, r.Lat == nil, r.Lon == nil, r.SpeedKMH == nil} {
		if missing {
			return fleet.Position{}, fmt.Errorf("the field %s is missing", fieldNames[i])
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
