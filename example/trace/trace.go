// Package trace reads and writes recorded traces: what the vehicles of a fleet
// sent, in the order in which it arrived.
//
// A trace is NDJSON, one position a line, in UTF-8:
//
//	{"vehicle":"van-01","at":"2026-03-02T06:00:30Z","lat":53.54321,"lon":9.98765,"speed_kmh":42.5}
//
// All five fields are required, each once and spelled as here. Others are refused.
//
//	vehicle    1 to 64 of a-z 0-9 . _ -, the first of them a letter or a digit
//	at         the vehicle's time, RFC 3339 with a zone, of the years 2000 to 2099; counted in microseconds
//	lat, lon   degrees, -90 to 90 and -180 to 180
//	speed_kmh  0 to 500
//
// The times need not rise: vehicles buffer while they have no reception. What
// the platform makes of that is the business of package fleet.
package trace

import (
	"bufio"
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/pawlgo/pawl/example/fleet"
)

//go:embed recorded.ndjson
var recorded []byte

// Recorded returns the trace that comes with the example.
func Recorded() io.Reader { return bytes.NewReader(recorded) }

// row is one line. A nil field is a missing one.
type row struct {
	Vehicle  *string  `json:"vehicle"`
	At       *string  `json:"at"`
	Lat      *float64 `json:"lat"`
	Lon      *float64 `json:"lon"`
	SpeedKMH *float64 `json:"speed_kmh"`
}

// Write writes positions as a trace.
func Write(w io.Writer, positions []fleet.Position) error {
	out := bufio.NewWriter(w)
	for _, p := range positions {
		at := p.At.UTC().Format(time.RFC3339Nano)
		line, err := json.Marshal(row{&p.Vehicle, &at, &p.Lat, &p.Lon, &p.SpeedKMH})
		if err != nil {
			return fmt.Errorf("write a position of %s: %w", p.Vehicle, err)
		}
		if _, err := out.Write(append(line, '\n')); err != nil {
			return err
		}
	}
	return out.Flush()
}
