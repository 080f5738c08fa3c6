package main

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pawlgo/pawl/example/fleet"
	"github.com/pawlgo/pawl/example/reference"
	"github.com/pawlgo/pawl/example/tasks"
	"github.com/pawlgo/pawl/example/trace"
)

// wholeRun are the options of a run with real worker processes, on the server of
// the tests.
func wholeRun(positions []fleet.Position, drill bool) (o *options, stdout, stderr *output) {
	stdout, stderr = &output{}, &output{}
	o = &options{
		traceName: "a test", trace: positions, reference: reference.Of(positions, fleet.Geofences()),
		drill: drill, startServer: sharedServer, stdout: stdout, stderr: stderr,
	}
	o.settings = settingsFor(o)
	return o, stdout, stderr
}

// spoilers each spoil one checked fact in the database.
var spoilers = map[string]struct{ sql, noticed string }{
	"a report deleted": {`DELETE FROM fleet.reports WHERE trip_id = (SELECT id FROM fleet.trips LIMIT 1)`, "reports"},
	"a trip doubled": {`INSERT INTO fleet.trips SELECT gen_random_uuid(), vehicle, started_at, ended_at, positions, distance_m, max_speed_kmh
		FROM fleet.trips LIMIT 1`, "reference"},
	"a trip deleted":     {`DELETE FROM fleet.trips WHERE id = (SELECT id FROM fleet.trips LIMIT 1)`, "reference"},
	"a crossing deleted": {`DELETE FROM fleet.crossings WHERE id = (SELECT id FROM fleet.crossings LIMIT 1)`, "reference"},
	"a silence deleted":  {`DELETE FROM fleet.silences WHERE id = (SELECT id FROM fleet.silences LIMIT 1)`, "reference"},
	"a fact deleted":     {`DELETE FROM pawl.events WHERE id = (SELECT id FROM pawl.events WHERE type = 'trip.completed' LIMIT 1)`, "facts"},
	"a fact published again": {`SELECT pawl.publish_event(type, aggregate_type, aggregate_id, '', version, capability, gen_random_uuid(), payload::text, NULL, NULL, false)
		FROM pawl.events WHERE type = 'geofence.entered' LIMIT 1`, "facts"},
	"a projection deleted": {`DELETE FROM fleet.projections WHERE fact_id = (SELECT fact_id FROM fleet.projections LIMIT 1)`, "facts"},
	"a projection doubled": {`INSERT INTO fleet.projections SELECT * FROM fleet.projections LIMIT 1`, "facts"},
	"a trip added twice":   {`UPDATE fleet.overview SET trips = trips + 1 WHERE vehicle = (SELECT vehicle FROM fleet.overview LIMIT 1)`, "overview"},
	"a geofence not left":  {`UPDATE fleet.overview SET inside = inside || 'old-town'::text WHERE vehicle = (SELECT vehicle FROM fleet.overview LIMIT 1)`, "overview"},
	"a tick without a job": {`DELETE FROM fleet.ticks WHERE tick = (SELECT max(tick) FROM fleet.ticks)`, "schedules"},
	"a tick with two jobs": {`INSERT INTO fleet.ticks SELECT gen_random_uuid(), kind, tick FROM fleet.ticks LIMIT 1`, "schedules"},
	"a summary deleted":    {`DELETE FROM fleet.summaries WHERE tick = (SELECT max(tick) FROM fleet.summaries)`, "schedules"},
	"a link not revoked":   {`UPDATE fleet.links SET revoked_at = NULL WHERE trip_id = (SELECT trip_id FROM fleet.links WHERE revoked_at IS NOT NULL LIMIT 1)`, "links"},
	"executions overlapped": {`UPDATE fleet.executions SET started_at = started_at - interval '1 minute'
		WHERE id = (SELECT id FROM fleet.executions WHERE attempt = 2 LIMIT 1)`, "overlap"},
	"an export deleted": {`DELETE FROM fleet.exports WHERE vehicle = (SELECT vehicle FROM fleet.vehicles LIMIT 1)`, "exports"},
	"a webhook never delivered": {`INSERT INTO fleet.webhooks SELECT id, gen_random_uuid(), gen_random_uuid()
		FROM fleet.endpoints WHERE name = 'dispatch'`, "webhooks"},
	"a dead letter missing":     {`DELETE FROM fleet.executions WHERE outcome = 'permanent'`, "webhooks"},
	"a notification deleted":    {`DELETE FROM fleet.notifications WHERE event_id = (SELECT id FROM fleet.trips LIMIT 1)`, "webhooks"},
	"an execution without end":  {`UPDATE fleet.executions SET finished_at = NULL WHERE id = (SELECT max(id) FROM fleet.executions)`, "nothing left"},
	"old positions left":        {`UPDATE fleet.vehicles SET newest_at = newest_at + interval '1 day'`, "nothing left"},
	"nobody killed":             {`DELETE FROM fleet.kills`, "crash"},
	"too little held":           {`DELETE FROM fleet.executions WHERE worker = 'b' AND finished_at IS NULL`, "crash"},
	"held jobs never back":      {`DELETE FROM fleet.executions WHERE worker <> 'b' AND attempt > 1`, "crash"},
	"alerts held up by reports": {`UPDATE fleet.executions SET started_at = started_at + interval '5 s', finished_at = finished_at + interval '5 s' WHERE queue = 'critical_alerts'`, "isolation"},
	"reports never in line":     {`UPDATE fleet.executions SET due_at = started_at WHERE queue = 'reports'`, "isolation"},
}

// A run with a crash in it ends with 0, and with 1 for each checked fact that is
// spoiled.
func TestRunWithACrash(t *testing.T) {
	t.Parallel()
	o, stdout, stderr := wholeRun(trace.Record(trace.Plan{Seed: 21, Vehicles: 10, Hours: 2.5}), true)
	o.settings.Lease = 3 * time.Second
	o.settings.Ingest = 6 * time.Second
	o.out = t.TempDir() + "/out"
	codes, outputs := map[string]int{}, map[string]string{}
	o.judged = func(ctx context.Context, j *judge) error {
		attempt := func(name string, spoil func(ctx context.Context, tx pgx.Tx) error) {
			before := len(stdout.String())
			codes[name] = o.finish(ctx, j.run(ctx, spoil))
			outputs[name] = stdout.String()[before:]
		}
		attempt("nothing spoiled", nil)
		for name, s := range spoilers {
			attempt(name, func(ctx context.Context, tx pgx.Tx) error {
				tag, err := tx.Exec(ctx, s.sql)
				require.NoError(t, err, name)
				require.Positive(t, tag.RowsAffected(), name)
				return nil
			})
		}
		attempt("a job left", func(ctx context.Context, tx pgx.Tx) error {
			_, err := tasks.EnqueueReconcileTrips(ctx, tx, tasks.ReconcileTripsArgs{Vehicle: "van-01"})
			return err
		})
		report := o.out + "/" + anyReport(t, o.out)
		text, err := os.ReadFile(report)
		require.NoError(t, err)
		require.NoError(t, os.Remove(report))
		attempt("a report's file deleted", nil)
		require.NoError(t, os.WriteFile(report, text, 0o644))
		attempt("nothing spoiled any more", nil)
		return nil
	}

	code := o.finish(t.Context(), o.run(t.Context()))
	require.Equal(t, exitOK, code, "%s%s", stdout, stderr)
	require.Contains(t, stdout.String(), "worker b is killed in the middle of its jobs")
	require.Equal(t, 1, strings.Count(outputs["nothing spoiled"], "median"))
	require.NotContains(t, stdout.String(), "\x1b")
	require.Equal(t, exitOK, codes["nothing spoiled"])
	require.Equal(t, exitOK, codes["nothing spoiled any more"])
	require.NotContains(t, outputs["nothing spoiled"], "✗")
	for name, s := range spoilers {
		require.Equal(t, exitFailed, codes[name], name)
		require.Contains(t, outputs[name], "✗ "+s.noticed, name)
	}
	require.Equal(t, exitFailed, codes["a job left"])
	require.Contains(t, outputs["a job left"], "✗ nothing left")
	require.Equal(t, exitFailed, codes["a report's file deleted"])
	require.Contains(t, outputs["a report's file deleted"], "✗ reports")

	entries, err := os.ReadDir(o.out)
	require.NoError(t, err)
	require.Len(t, entries, len(o.reference.Trips)+len(o.reference.Vehicles), "a directory of the user's stays, with what was written to it")
}

func anyReport(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".md") {
			return e.Name()
		}
	}
	require.Fail(t, "no report")
	return ""
}

// A trace that gives little work ends well, without the crash.
func TestRunOfASmallTrace(t *testing.T) {
	t.Parallel()
	o, stdout, stderr := wholeRun(trace.Record(trace.Plan{Seed: 22, Vehicles: 1, Hours: 1}), false)
	require.Equal(t, exitOK, o.finish(t.Context(), o.run(t.Context())), "%s%s", stdout, stderr)
	require.Contains(t, stdout.String(), "too little work to kill a worker")
	require.NoDirExists(t, outputOf(t, stdout.String()))
}

// The crash fails where it is asked for and there is too little work for it.
func TestRunFailsWithoutTheCrashThatWasAskedFor(t *testing.T) {
	t.Parallel()
	o, stdout, stderr := wholeRun([]fleet.Position{{Vehicle: "a", At: time.Date(2026, 3, 2, 6, 0, 0, 0, time.UTC)}}, true)
	o.settings.Ingest = 100 * time.Millisecond
	require.Equal(t, exitFailed, o.finish(t.Context(), o.run(t.Context())), "%s%s", stdout, stderr)
	require.Contains(t, stdout.String(), "worker b was not killed")
}

// outputOf finds the temporary directory of a run in what it printed.
func outputOf(t *testing.T, stdout string) string {
	t.Helper()
	_, rest, ok := strings.Cut(stdout, "reports and exports go to ")
	require.True(t, ok, stdout)
	dir, _, ok := strings.Cut(rest, ", which is removed")
	require.True(t, ok, stdout)
	return dir
}
