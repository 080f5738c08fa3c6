package trace_test

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawlgo/pawl/example/fleet"
	"github.com/pawlgo/pawl/example/reference"
	"github.com/pawlgo/pawl/example/trace"
)

var record = flag.Bool("record", false, "write recorded.ndjson anew")

const good = `{"vehicle":"van-01","at":"2026-03-02T06:00:30Z","lat":53.5,"lon":9.9,"speed_kmh":42.5}`

func TestReadTakesTheDocumentedFormat(t *testing.T) {
	t.Parallel()
	positions, err := trace.Read(strings.NewReader(good + "\n" +
		`{"speed_kmh":0,"lon":-180,"lat":90,"at":"2026-03-02T08:00:30.1234567+02:00","vehicle":"0_a.b-c"}`)) // no final newline
	require.NoError(t, err)
	require.Equal(t, []fleet.Position{
		{Vehicle: "van-01", At: time.Date(2026, 3, 2, 6, 0, 30, 0, time.UTC), Lat: 53.5, Lon: 9.9, SpeedKMH: 42.5},
		{Vehicle: "0_a.b-c", At: time.Date(2026, 3, 2, 6, 0, 30, 123456000, time.UTC), Lat: 90, Lon: -180},
	}, positions)

	crlf, err := trace.Read(strings.NewReader(good + "\r\n" + good + "\r\n"))
	require.NoError(t, err)
	require.Len(t, crlf, 2)
}

func TestReadNamesTheBadLine(t *testing.T) {
	t.Parallel()
	change := func(old, new string) string {
		line := strings.Replace(good, old, new, 1)
		require.NotEqual(t, good, line)
		return line
	}
	for name, tt := range map[string]struct{ line, says string }{
		"no JSON":          {`van-01,2026-03-02`, "not a position"},
		"cut off":          {good[:40], "ends in the middle"},
		"an array":         {`[]`, "an array, where an object is expected"},
		"null":             {`null`, "null, where an object is expected"},
		"byte order mark":  {"\uFEFF" + good, "starts with a byte order mark"},
		"no UTF-8":         {change(`van-01`, "van-\xff"), "is not UTF-8"},
		"comma at the end": {change(`42.5}`, `42.5,}`), "not a position"},
		"number for name":  {`{1:2}`, "not a position"},
		"empty line":       {``, "is empty"},
		"two objects":      {good + good, "one position a line"},
		"unknown field":    {change(`"lat"`, `"lattitude"`), "lattitude"},
		"missing field":    {change(`"lat":53.5,`, ``), "lat is missing"},
		"other case":       {change(`"vehicle"`, `"VEHICLE"`), `the field "VEHICLE" is unknown: write vehicle`},
		"repeated field":   {change(`"lat":53.5`, `"lat":53.5,"lat":53.5`), "the field lat is there twice"},
		"escaped repeat":   {change(`"lat":53.5`, `"lat":53.5,"\u006cat":53.5`), "the field lat is there twice"},
		"only null":        {`{"vehicle":null}`, "vehicle is null"},
		"null field":       {change(`"lat":53.5`, `"lat":null`), "lat is null"},
		"text for number":  {change(`53.5`, `"53.5"`), "lat is a text, where a number is expected"},
		"number for text":  {change(`"van-01"`, `1`), "vehicle is a number, where a text is expected"},
		"object for text":  {change(`"van-01"`, `{}`), "vehicle is an object, where a text is expected"},
		"array for number": {change(`53.5`, `[]`), "lat is an array, where a number is expected"},
		"true for number":  {change(`53.5`, `true`), "lat is true, where a number is expected"},
		"NaN":              {change(`53.5`, `NaN`), "not a position"},
		"too big":          {change(`53.5`, `1e999`), "lat 1e999 is impossible"},
		"latitude":         {change(`53.5`, `90.01`), "lat 90.01 is impossible"},
		"longitude":        {change(`9.9`, `-180.5`), "lon -180.5 is impossible"},
		"negative speed":   {change(`42.5`, `-1`), "speed_kmh -1 is impossible"},
		"no time":          {change(`2026-03-02T06:00:30Z`, `yesterday`), "is not a time"},
		"no zone":          {change(`30Z`, `30`), "is not a time"},
		"no such day":      {change(`03-02`, `02-30`), "is not a time"},
		"long ago":         {change(`2026`, `1970`), "out of range"},
		"far ahead":        {change(`2026`, `2100`), "out of range"},
		"no vehicle":       {change(`van-01`, ``), "vehicle"},
		"path as vehicle":  {change(`van-01`, `../../etc`), "vehicle"},
		"capital letters":  {change(`van-01`, `VAN-01`), "vehicle"},
		"endless line":     {change(`van-01`, strings.Repeat("v", 70_000)), "longer than"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			positions, err := trace.Read(strings.NewReader(good + "\n" + tt.line + "\n" + good + "\n"))
			require.Empty(t, positions)
			bad, ok := errors.AsType[*trace.LineError](err)
			require.True(t, ok, "%v", err)
			require.Equal(t, 2, bad.Line)
			require.ErrorContains(t, err, tt.says)
			require.NotContains(t, err.Error(), "Go ", "no word of how it is read")
		})
	}
}

func TestReadNamesTheFirstTenBadLines(t *testing.T) {
	t.Parallel()
	_, err := trace.Read(strings.NewReader(strings.Repeat("x\n", 50)))
	require.ErrorContains(t, err, "line 10:")
	require.NotContains(t, err.Error(), "line 11:")
}

func TestReadRefusesAnEmptyTrace(t *testing.T) {
	t.Parallel()
	_, err := trace.Read(strings.NewReader(""))
	require.ErrorIs(t, err, trace.ErrEmpty)
}

func TestReadPassesOnWhatTheReaderSays(t *testing.T) {
	t.Parallel()
	broken := errors.New("the disk is gone")
	_, err := trace.Read(&brokenReader{strings.NewReader(good + "\n"), broken})
	require.ErrorIs(t, err, broken)
}

type brokenReader struct {
	in  *strings.Reader
	err error
}

func (r *brokenReader) Read(p []byte) (int, error) {
	if r.in.Len() > 0 {
		return r.in.Read(p)
	}
	return 0, r.err
}

func TestRecordIsDeterministic(t *testing.T) {
	t.Parallel()
	plan := trace.Plan{Seed: 3, Vehicles: 3, Hours: 2}
	require.Equal(t, trace.Record(plan), trace.Record(plan))
	plan.Seed = 4
	require.NotEqual(t, trace.Record(trace.Plan{Seed: 3, Vehicles: 3, Hours: 2}), trace.Record(plan))
}

func TestWhatIsWrittenIsReadAgain(t *testing.T) {
	t.Parallel()
	positions := trace.Record(trace.Plan{Seed: 1, Vehicles: 2, Hours: 3})
	var b bytes.Buffer
	require.NoError(t, trace.Write(&b, positions))
	again, err := trace.Read(&b)
	require.NoError(t, err)
	require.Equal(t, positions, again)
}

// The shipped file is what the recorder gives, and has what a reader of the
// example is promised.
func TestShippedTrace(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	require.NoError(t, trace.Write(&b, trace.Record(trace.Shipped)))
	if *record {
		require.NoError(t, os.WriteFile("recorded.ndjson", b.Bytes(), 0o644))
		return
	}
	file, err := os.ReadFile("recorded.ndjson")
	require.NoError(t, err)
	require.Equal(t, b.String(), string(file), "run go test ./trace -record")

	positions, err := trace.Read(trace.Recorded())
	require.NoError(t, err)
	require.Greater(t, len(positions), 3000)

	newest := map[string]time.Time{}
	gaps, disorder := 0, 0
	for _, p := range positions {
		switch latest := newest[p.Vehicle]; {
		case latest.IsZero():
		case p.At.Before(latest):
			disorder++
			continue
		case p.At.Sub(latest) > fleet.GapLimit:
			gaps++
		}
		newest[p.Vehicle] = p.At
	}
	require.Greater(t, len(newest), 5, "several vehicles")
	require.Greater(t, gaps, 5)
	require.Greater(t, disorder, 50)

	result := reference.Of(positions, fleet.Geofences())
	require.Greater(t, len(result.Trips), 100)
	require.Greater(t, len(result.Crossings), 20)
	require.Positive(t, result.Late)
	require.Positive(t, result.Repeated)
	t.Logf("%d positions: %d trips, %d crossings, %d late, %d repeated, %d gaps, %d out of order",
		len(positions), len(result.Trips), len(result.Crossings), result.Late, result.Repeated, gaps, disorder)
}
