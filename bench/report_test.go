package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestReport(t *testing.T) {
	t.Parallel()
	var r results
	for _, x := range []float64{300, 100, 200} {
		r.add("s", value{"pawl", "rate"}, x, "jobs/s")
		r.add("s", value{"river", "rate"}, x/4, "jobs/s")
		r.add("s", value{"pawl", "time"}, x, "ms")
		r.add("s", value{"river", "time"}, x/2, "ms")
	}
	r.add("s", value{"pawl", "recovery"}, 12, "s")
	r.add("s", value{"pawl", "recovery"}, 13, "s")
	chosen := []scenario{{name: "s", bars: []bar{
		{what: "faster", of: value{"pawl", "rate"}, per: value{"river", "rate"}, atLeast: 4},
		{what: "much faster", of: value{"pawl", "rate"}, per: value{"river", "rate"}, atLeast: 4.1},
		{what: "sooner", of: value{"pawl", "time"}, per: value{"river", "time"}, atMost: 1},
		{what: "back", of: value{"pawl", "recovery"}, atMost: 20, unit: " s"},
		{what: "not measured", of: value{"pawl", "nothing"}, atMost: 20, unit: " s"},
	}}}
	got := r.report(chosen)
	require.Equal(t, []ratioRow{
		{"s", "faster", 4, "≥ 4.00", true},
		{"s", "much faster", 4, "≥ 4.10", false},
		{"s", "sooner", 2, "≤ 1.00", false},
		{"s", "back", 12.5, "≤ 20.00 s", true},
	}, got.ratios)
	require.Equal(t, []string{"s, time: 200 ms, River 100"}, got.losses)
	require.Equal(t, valueRow{"s", "pawl", "rate", 200, "jobs/s", []float64{300, 100, 200}}, got.values[0])

	var out strings.Builder
	got.print(&out)
	require.Contains(t, out.String(), "NOT MET")
	require.Contains(t, out.String(), "2 of 4 bars are met.")
	require.Contains(t, out.String(), "Where Pawl is behind River:\n  s, time")
}

func TestMarkdown(t *testing.T) {
	t.Parallel()
	r := report{
		values: []valueRow{{"s", "pawl", "rate", 200, "jobs/s", []float64{200}}},
		ratios: []ratioRow{{"s", "faster", 4, "≥ 4.00", true}, {"s", "sooner", 2, "≤ 1.00", false}},
		losses: []string{"s, time: 200 ms, River 100"},
	}
	var out strings.Builder
	r.markdown(&out, "Machine: mine\n", "go run ./bench")
	require.Equal(t, "```sh\ngo run ./bench\n```\n\n```text\nMachine: mine\n```\n\n"+
		"| scenario | ratio | value | bar | |\n|---|---|---|---|---|\n"+
		"| s | faster | 4.00 | ≥ 4.00 | met |\n| s | sooner | 2.00 | ≤ 1.00 | **not met** |\n"+
		"\n| scenario | subject | metric | median | unit |\n|---|---|---|---|---|\n| s | pawl | rate | 200 | jobs/s |\n"+
		"\nWhere Pawl is behind River:\n\n- s, time: 200 ms, River 100\n", out.String())
}

func TestShort(t *testing.T) {
	t.Parallel()
	for v, want := range map[float64]string{0: "0.00", 12345.6: "12346", 99.96: "100.0", 1.234: "1.23", 0.01234: "0.0123"} {
		require.Equal(t, want, short(v))
	}
}
