package main

import (
	"bytes"
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawlgo/pawl/example/fleet"
	"github.com/pawlgo/pawl/example/reference"
	"github.com/pawlgo/pawl/internal/localpg"
)

// The test binary is also the worker processes of the runs under test, and the
// whole example where a test needs it as a process.
func TestMain(m *testing.M) {
	switch {
	case isWorker(os.Args):
		os.Exit(workerMain(os.Stdin, os.Stderr))
	case len(os.Args) > 1 && os.Args[1] == "example":
		os.Args = append(os.Args[:1], os.Args[2:]...)
		main()
	}
	os.Exit(m.Run())
}

const line = `{"vehicle":"van-01","at":"2026-03-02T06:00:30Z","lat":53.5,"lon":9.9,"speed_kmh":42.5}` + "\n"

func TestBadCallsEndWith2BeforeAnythingStarts(t *testing.T) {
	t.Parallel()
	full := t.TempDir()
	require.NoError(t, os.WriteFile(full+"/mine", nil, 0o644))
	file := full + "/mine"
	for name, tt := range map[string]struct {
		args  []string
		stdin string
		says  string
	}{
		"no such file":    {[]string{"-trace", full + "/none"}, "", "no such file"},
		"empty file":      {[]string{"-trace", file}, "", "mine: the trace is empty"},
		"empty input":     {[]string{"-trace", "-"}, "", "the standard input: the trace is empty"},
		"bad line":        {[]string{"-trace", "-"}, line + strings.Replace(line, "53.5", "153.5", 1), "line 2: lat 153.5 is impossible"},
		"argument":        {[]string{"file"}, "", "-trace file"},
		"unknown flag":    {[]string{"-treace", "x"}, "", "-treace"},
		"full directory":  {[]string{"-out", full}, "", "not empty"},
		"file for output": {[]string{"-out", file}, "", "output directory"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var stdout, stderr bytes.Buffer
			require.Equal(t, exitBadInput, command(t.Context(), tt.args, strings.NewReader(tt.stdin), &stdout, &stderr))
			require.Contains(t, stderr.String(), tt.says)
			require.NotContains(t, stdout.String(), "PostgreSQL")
		})
	}
}

func TestHelpIsNoFailure(t *testing.T) {
	t.Parallel()
	var stdout, stderr bytes.Buffer
	require.Equal(t, exitOK, command(t.Context(), []string{"-h"}, strings.NewReader(""), &stdout, &stderr))
	require.Contains(t, stderr.String(), "-trace FILE")
}

func TestSpeedsFitTheTrace(t *testing.T) {
	t.Parallel()
	of := func(positions, trips int) settings {
		o := &options{trace: make([]fleet.Position, positions), reference: reference.Result{Trips: make([]fleet.Trip, trips)}}
		return settingsFor(o)
	}
	require.LessOrEqual(t, of(4000, 130).Pace.Report, 500*time.Millisecond, "so that a lost one comes back soon")
	require.LessOrEqual(t, 10_000*of(1_000_000, 10_000).Pace.Report, time.Minute)
	shipped := of(4305, 135)
	require.LessOrEqual(t, shipped.Limit, time.Minute)
	require.Zero(t, of(10, 0).Ingest)
	require.Positive(t, of(1, 0).Batch)
	require.Less(t, 1_000_000/of(1_000_000, 10_000).Batch, 200)
}

// sharedServer is the server of the tests in place of one that a run starts.
func sharedServer(ctx context.Context) (*localpg.Server, error) {
	return localpg.Shared(ctx, localpg.Options{})
}
