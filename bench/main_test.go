package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawlgo/pawl/internal/testdb"
)

// TestMain is also the worker processes of the tests.
func TestMain(m *testing.M) {
	if isChild(os.Args) {
		os.Exit(childMain(os.Stdin, os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// Every scenario measures what its bars need, and all that it measures is a
// number that can be.
func TestScenarios(t *testing.T) {
	t.Parallel()
	for _, s := range scenarios {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			var said bytes.Buffer
			b := &bench{url: testdb.Server(t).URL(), runs: 1, size: sizeTiny, progress: &said}
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
			defer cancel()
			require.NoError(t, b.run(ctx, s), "%s", &said)

			r := b.results.report([]scenario{s})
			require.NotEmpty(t, r.values)
			for _, v := range r.values {
				require.Equal(t, s.name, v.Scenario)
				require.NotEmpty(t, v.Unit)
				require.Len(t, v.Runs, 1, "%s, %s", v.Subject, v.Metric)
				require.GreaterOrEqual(t, v.Value, 0.0)
				if v.Unit == perSec {
					require.Positive(t, v.Value, "%s, %s", v.Subject, v.Metric)
				}
			}
			require.Len(t, r.ratios, len(s.bars), "a bar without its values")

			file := filepath.Join(t.TempDir(), "results.json")
			require.NoError(t, r.writeJSON(file))
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			var rows []map[string]any
			require.NoError(t, json.Unmarshal(text, &rows))
			require.Len(t, rows, len(r.values)+len(r.ratios))
			require.Equal(t, len(rows)+2, bytes.Count(text, []byte("\n")), "a row a line")
			for i, row := range rows {
				want := []string{"scenario", "subject", "metric", "value", "unit", "runs"}
				if i >= len(r.values) {
					want = []string{"scenario", "metric", "ratio", "bar", "met"}
				}
				require.Len(t, row, len(want))
				for _, name := range want {
					require.Contains(t, row, name)
				}
			}

			left, err := ask[int](ctx, b, `SELECT count(*) FROM pg_database WHERE datname = ANY ($1)`, b.made)
			require.NoError(t, err)
			require.Zero(t, left, "databases are left")
		})
	}
}

// A job that is missing at the end is an error, not a high rate.
func TestMissingJobs(t *testing.T) {
	t.Parallel()
	b := &bench{url: testdb.Server(t).URL(), runs: 1, size: sizeTiny, progress: &bytes.Buffer{}, templates: make(map[string]string)}
	err := b.compare(t.Context(), []variant{pawlTuned}, "", nil, func(ctx context.Context, t *trial) error {
		return t.check(ctx, 1)
	})
	require.ErrorContains(t, err, "0 jobs are finished, of 1")
	for _, name := range b.templates {
		require.NoError(t, b.dropDatabase(name))
	}
}

func TestCalls(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"-list"}, exitOK, "drain"},
		{[]string{"-h"}, exitOK, "-scenario"},
		{[]string{"-scenario", "drian"}, exitBadCall, `no scenario "drian"`},
		{[]string{"-runs", "0"}, exitBadCall, "1 or more"},
		{[]string{"drain"}, exitBadCall, "no arguments"},
		{[]string{"-nonsense"}, exitBadCall, "nonsense"},
	} {
		var out bytes.Buffer
		require.Equal(t, tt.code, command(t.Context(), tt.args, &out, &out), "%v", tt.args)
		require.Contains(t, out.String(), tt.says)
	}
}

func TestChoose(t *testing.T) {
	t.Parallel()
	all := []scenario{{name: "a"}, {name: "b", quick: true}, {name: "c"}}
	for _, tt := range []struct {
		names string
		quick bool
		want  string
	}{
		{"", false, "abc"},
		{"", true, "b"},
		{"c,a", true, "ca"},
	} {
		chosen, err := choose(all, tt.names, tt.quick)
		require.NoError(t, err)
		got := ""
		for _, s := range chosen {
			got += s.name
		}
		require.Equal(t, tt.want, got)
	}
}
