package main

import (
	"bytes"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/pawlgo/pawl/example/check"
)

// returned are the facts of a run in which worker b was killed with jobs that
// came back after so many seconds, or never where that is 0.
func returned(seconds ...float64) *check.Facts {
	killed := time.Date(2026, 3, 2, 6, 0, 0, 0, time.UTC)
	f := &check.Facts{Drill: &check.Drill{Worker: "b"}, Kills: map[string]time.Time{"b": killed}}
	for i, s := range seconds {
		held := check.Execution{JobID: uuid.UUID{15: byte(i)}, Attempt: 1, Kind: "send_webhook", Worker: "b", StartedAt: killed.Add(-time.Second)}
		f.Executions = append(f.Executions, held)
		if s > 0 {
			again := held
			again.Attempt, again.Worker, again.StartedAt = 2, "c", killed.Add(time.Duration(s*float64(time.Second)))
			f.Executions = append(f.Executions, again)
		}
	}
	return f
}

func TestReturnsArePrintedInAFewLines(t *testing.T) {
	t.Parallel()
	printed := func(f *check.Facts) string {
		var stdout bytes.Buffer
		(&judge{&platform{options: &options{stdout: &stdout}}}).printReturns(f)
		return stdout.String()
	}
	require.Empty(t, printed(returned()))
	require.Equal(t, `
Started jobs that the killed worker held, and how long they took to come back
  in all 7: min 11.0 s, median 14.0 s, max never; the slowest:
  send_webhook 00000000-0000-0000-0000-000000000006, killed after 1s: never
  send_webhook 00000000-0000-0000-0000-000000000005, killed after 1s: 16.0 s
  send_webhook 00000000-0000-0000-0000-000000000004, killed after 1s: 15.0 s
  send_webhook 00000000-0000-0000-0000-000000000003, killed after 1s: 14.0 s
  send_webhook 00000000-0000-0000-0000-000000000002, killed after 1s: 13.0 s
  … and 2 more
`, printed(returned(11, 12, 13, 14, 15, 16, 0)))
	require.Equal(t, `
Started jobs that the killed worker held, and how long they took to come back
  in all 1: min 2.0 s, median 2.0 s, max 2.0 s; the slowest:
  send_webhook 00000000-0000-0000-0000-000000000000, killed after 1s: 2.0 s
`, printed(returned(2)))
}
