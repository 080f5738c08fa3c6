package check_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/pawlgo/pawl/example/check"
	"github.com/pawlgo/pawl/example/fleet"
	"github.com/pawlgo/pawl/example/reference"
	"github.com/pawlgo/pawl/example/trace"
)

var noon = time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)

func at(seconds float64) time.Time { return noon.Add(time.Duration(seconds * float64(time.Second))) }

// job derives the id of a made-up job from its name.
func job(name string) uuid.UUID { return uuid.NewSHA1(uuid.NameSpaceOID, []byte(name)) }

// run is an execution, without an end where to is 0.
func run(name string, attempt int, queue, worker string, due, from, to float64) check.Execution {
	e := check.Execution{
		JobID: job(name), Attempt: attempt, Kind: queue + "_task", Queue: queue, Worker: worker,
		DueAt: at(due), StartedAt: at(from), Outcome: "completed",
	}
	if to > 0 {
		end := at(to)
		e.FinishedAt = &end
	} else {
		e.Outcome = ""
	}
	return e
}

// good are facts of a run in which all is well.
func good(t *testing.T) *check.Facts {
	t.Helper()
	positions := trace.Record(trace.Plan{Seed: 2, Vehicles: 2, Hours: 2})
	f := &check.Facts{
		Reference: reference.Of(positions, fleet.Geofences()),
		Kills:     map[string]time.Time{"b": at(10)}, Files: map[string][]byte{},
		Drill: &check.Drill{Worker: "b", Slots: map[string]int{"reports": 2}},
	}
	publish := func(kind string, subject uuid.UUID) {
		fact := check.Fact{ID: uuid.NewSHA1(uuid.NameSpaceOID, subject[:]), Type: kind, Subject: subject, Status: "projected"}
		f.Published = append(f.Published, fact)
		f.Projections = append(f.Projections, check.Projection{FactID: fact.ID, Subject: subject, Worker: "a"})
	}
	for i, trip := range f.Reference.Trips {
		trip.ID = job(fmt.Sprint("trip", i))
		f.Trips = append(f.Trips, trip)
		publish("trip.completed", trip.ID)
		f.Links = append(f.Links, check.Link{TripID: trip.ID, ExpiresAt: at(30 + float64(i))})
		name, text := fleet.ReportFile(trip), []byte(reference.Report(trip, trip.ID.String()))
		sum := sha256.Sum256(text)
		f.Files[name] = text
		f.Reports = append(f.Reports, check.Report{TripID: trip.ID, File: name, SHA256: sum[:]})
		f.Notifications = append(f.Notifications, trip.ID)
		f.Webhooks = append(f.Webhooks, check.Webhook{Subscriber: "billing", EventID: trip.ID, JobID: job(fmt.Sprint("hook", i)), Answers: []int{500, 200}})
	}
	for i, c := range f.Reference.Crossings {
		c.ID = job(fmt.Sprint("crossing", i))
		f.Crossings = append(f.Crossings, c)
		publish(map[bool]string{true: "geofence.entered", false: "geofence.left"}[c.Entered], c.ID)
		f.Notifications = append(f.Notifications, c.ID)
		hook := job(fmt.Sprint("gone", i))
		f.Webhooks = append(f.Webhooks, check.Webhook{Subscriber: "legacy", EventID: c.ID, JobID: hook, Answers: []int{410}})
		dead := run("", 1, "webhooks", "a", 0, 1, 2)
		dead.JobID, dead.Outcome = hook, "permanent"
		f.Executions = append(f.Executions, dead)
	}
	// The trace has no silence of its own that one could count on.
	f.Reference.Silences = []fleet.Silence{{Vehicle: "van-01", Since: at(-5000), Until: at(-4000)}, {Vehicle: "van-01", Since: at(-900)}}
	for i, s := range f.Reference.Silences {
		s.ID = job(fmt.Sprint("silence", i))
		f.Silences = append(f.Silences, s)
		f.Notifications = append(f.Notifications, s.ID)
		publish("device.offline", s.ID)
	}
	for vehicle, o := range f.Reference.Overview() {
		row := check.Vehicle{Vehicle: vehicle, Trips: o.Trips, DistanceM: o.DistanceM, Entered: o.Entered, Inside: o.Inside, Silences: o.Silences}
		if !o.OfflineSince.IsZero() {
			row.OfflineSince = &o.OfflineSince
		}
		f.Overview = append(f.Overview, row)
	}
	// Every link that had expired by the last look, at second 31.5, was revoked.
	look := run("look", 1, "maintenance", "a", 31, 31.5, 31.6)
	look.Kind = "revoke_links"
	f.Executions = append(f.Executions, look)
	for i := range f.Links {
		if l := &f.Links[i]; l.ExpiresAt.Before(look.StartedAt) {
			revoked := l.ExpiresAt.Add(time.Second / 10)
			l.RevokedAt = &revoked
		}
	}
	for kind, seconds := range map[string]float64{"evaluate_devices": 1, "revoke_links": 2, "summarize_fleet": 5} {
		f.Schedules = append(f.Schedules, check.Schedule{Kind: kind, Spec: fmt.Sprintf("@every %vs", seconds), Ticks: 4})
		for i := range 4 {
			tick := check.Tick{JobID: job(fmt.Sprint(kind, i)), Kind: kind, At: at(seconds * float64(i))}
			f.Ticks = append(f.Ticks, tick)
			if kind == "summarize_fleet" {
				f.Summaries = append(f.Summaries, tick.At)
			}
		}
	}
	for vehicle := range f.Reference.Vehicles {
		var text bytes.Buffer
		text.WriteString("header\n")
		trips := 0
		for _, trip := range f.Trips {
			if trip.Vehicle == vehicle {
				fmt.Fprintln(&text, trip.ID)
				trips++
			}
		}
		f.Files["trips-"+vehicle+".csv"] = text.Bytes()
		f.Exports = append(f.Exports, check.Export{Vehicle: vehicle, File: "trips-" + vehicle + ".csv", Trips: trips})
	}
	// The killed worker held five jobs, which came back after the lease.
	for i := range 5 {
		name := fmt.Sprint("held", i)
		f.Executions = append(f.Executions,
			run(name, 1, "webhooks", "b", 9, 9.5, 0),
			run(name, 2, "webhooks", "a", 25, 25.5+float64(i)/10, 26+float64(i)/10))
	}
	// Twenty reports of one second in line for the two slots of worker a, and an
	// alert every half a second.
	for i := range 20 {
		from := 30 + float64(i/2)
		f.Executions = append(f.Executions, run(fmt.Sprint("report", i), 1, "reports", "a", 29, from, from+0.99))
	}
	for i := range 30 {
		due := 29 + float64(i)/3
		f.Executions = append(f.Executions, run(fmt.Sprint("alert", i), 1, "critical_alerts", "a", due, due+0.01, due+0.02))
	}
	return f
}

func TestAllIsWell(t *testing.T) {
	t.Parallel()
	f := good(t)
	require.NotEmpty(t, f.Trips)
	require.NotEmpty(t, f.Crossings)
	for _, v := range check.All(f) {
		require.Empty(t, v.Problems, v.Name)
		require.NotEmpty(t, v.Says, v.Name)
	}
}

// Each fact, spoiled, is noticed by the check of that fact.
func TestSpoiled(t *testing.T) {
	t.Parallel()
	move := func(f *check.Facts, name string, attempt int, by time.Duration) {
		for i := range f.Executions {
			if e := &f.Executions[i]; e.JobID == job(name) && e.Attempt == attempt {
				e.StartedAt = e.StartedAt.Add(by)
				end := e.FinishedAt.Add(by)
				e.FinishedAt = &end
			}
		}
	}
	drop := func(f *check.Facts, name string, attempt int) {
		f.Executions = slices.DeleteFunc(f.Executions, func(e check.Execution) bool { return e.JobID == job(name) && e.Attempt == attempt })
	}
	for name, tt := range map[string]struct {
		noticed string
		spoil   func(f *check.Facts)
	}{
		"a trip is missing":             {"reference", func(f *check.Facts) { f.Trips = f.Trips[1:] }},
		"a trip is doubled":             {"reference", func(f *check.Facts) { f.Trips = append(f.Trips, f.Trips[0]) }},
		"a trip is doubled as another":  {"reports", func(f *check.Facts) { f.Trips = append(f.Trips, f.Trips[0]); f.Trips[0].ID = job("other") }},
		"a trip is invented":            {"reference", func(f *check.Facts) { f.Trips[0].EndedAt = f.Trips[0].EndedAt.Add(time.Second) }},
		"a trip has another length":     {"reference", func(f *check.Facts) { f.Trips[0].DistanceM += 2 }},
		"a crossing is missing":         {"reference", func(f *check.Facts) { f.Crossings = f.Crossings[1:] }},
		"a crossing goes the wrong way": {"reference", func(f *check.Facts) { f.Crossings[0].Entered = !f.Crossings[0].Entered }},
		"a silence is missing":          {"reference", func(f *check.Facts) { f.Silences = f.Silences[1:] }},
		"a silence has no end":          {"reference", func(f *check.Facts) { f.Silences[0].Until = time.Time{} }},
		"a fact is missing":             {"facts", func(f *check.Facts) { f.Published = f.Published[1:] }},
		"a fact is doubled":             {"facts", func(f *check.Facts) { f.Published = append(f.Published, f.Published[0]) }},
		"a fact is of another type":     {"facts", func(f *check.Facts) { f.Published[0].Type = "geofence.left" }},
		"a fact is of nothing":          {"facts", func(f *check.Facts) { f.Published = append(f.Published, check.Fact{Subject: job("nothing")}) }},
		"a fact is dead":                {"facts", func(f *check.Facts) { f.Published[0].Status = "dead" }},
		"a projection is missing":       {"facts", func(f *check.Facts) { f.Projections = f.Projections[1:] }},
		"a projection is doubled":       {"facts", func(f *check.Facts) { f.Projections = append(f.Projections, f.Projections[0]) }},
		"a projection is of nothing":    {"facts", func(f *check.Facts) { f.Projections = append(f.Projections, check.Projection{}) }},
		"a vehicle is missing":          {"overview", func(f *check.Facts) { f.Overview = f.Overview[1:] }},
		"a vehicle is doubled":          {"overview", func(f *check.Facts) { f.Overview = append(f.Overview, f.Overview[0]) }},
		"a trip was added twice":        {"overview", func(f *check.Facts) { f.Overview[0].Trips++ }},
		"a distance is wrong":           {"overview", func(f *check.Facts) { f.Overview[0].DistanceM += 1000 }},
		"a geofence was never left":     {"overview", func(f *check.Facts) { f.Overview[0].Inside = append(f.Overview[0].Inside, "x") }},
		"a vehicle is offline":          {"overview", func(f *check.Facts) { f.Overview[0].OfflineSince = &noon }},
		"a tick is missing":             {"schedules", func(f *check.Facts) { f.Ticks = slices.Delete(f.Ticks, 1, 2) }},
		"a tick never had a job":        {"schedules", func(f *check.Facts) { f.Ticks, f.Schedules[0].Ticks = slices.Delete(f.Ticks, 1, 2), 3 }},
		"a tick has two jobs": {"schedules", func(f *check.Facts) {
			again := f.Ticks[0]
			again.JobID = job("again")
			f.Ticks, f.Schedules[0].Ticks = append(f.Ticks, again), 5
		}},
		"a tick is beside":             {"schedules", func(f *check.Facts) { f.Ticks[0].At = f.Ticks[0].At.Add(-time.Millisecond) }},
		"a schedule never ticked":      {"schedules", func(f *check.Facts) { f.Ticks, f.Schedules[0].Ticks = f.Ticks[4:], 0 }},
		"a schedule is unknown":        {"schedules", func(f *check.Facts) { f.Schedules = f.Schedules[1:] }},
		"a summary is missing":         {"schedules", func(f *check.Facts) { f.Summaries = f.Summaries[1:] }},
		"a link is missing":            {"links", func(f *check.Facts) { f.Links = f.Links[1:] }},
		"a link is open":               {"links", func(f *check.Facts) { f.Links[0].RevokedAt = nil }},
		"a link was revoked early":     {"links", func(f *check.Facts) { f.Links[0].ExpiresAt = f.Links[0].ExpiresAt.Add(time.Minute) }},
		"a silence was not told of":    {"webhooks", func(f *check.Facts) { f.Notifications = f.Notifications[:len(f.Notifications)-1] }},
		"a report's row is missing":    {"reports", func(f *check.Facts) { f.Reports = f.Reports[1:] }},
		"a report's row is doubled":    {"reports", func(f *check.Facts) { f.Reports = append(f.Reports, f.Reports[0]) }},
		"a report's file is missing":   {"reports", func(f *check.Facts) { delete(f.Files, f.Reports[0].File) }},
		"a report's file is cut":       {"reports", func(f *check.Facts) { f.Files[f.Reports[0].File] = f.Files[f.Reports[0].File][:20] }},
		"a report is of no trip":       {"reports", func(f *check.Facts) { f.Reports[0].TripID = job("nothing") }},
		"a report has a stray file":    {"reports", func(f *check.Facts) { f.Files[".unfinished-1"] = nil }},
		"a report has another file":    {"reports", func(f *check.Facts) { f.Reports[0].File = "x.md" }},
		"a report says something else": {"reports", func(f *check.Facts) { f.Trips[0].MaxSpeedKMH++ }},
		"an export is missing":         {"exports", func(f *check.Facts) { f.Exports = f.Exports[1:] }},
		"an export is doubled":         {"exports", func(f *check.Facts) { f.Exports = append(f.Exports, f.Exports[0]) }},
		"an export's file is missing":  {"exports", func(f *check.Facts) { delete(f.Files, f.Exports[0].File) }},
		"an export lacks trips":        {"exports", func(f *check.Facts) { f.Files[f.Exports[0].File] = []byte("header\n") }},
		"an export has wrong trips": {"exports", func(f *check.Facts) {
			e := f.Exports
			f.Files[e[0].File] = bytes.Replace(f.Files[e[0].File], []byte("-"), []byte("+"), 1)
		}},
		"an export is of nobody":        {"exports", func(f *check.Facts) { f.Exports[0].Vehicle = "nobody" }},
		"a webhook was never answered":  {"webhooks", func(f *check.Facts) { f.Webhooks[0].Answers = nil }},
		"a webhook only failed":         {"webhooks", func(f *check.Facts) { f.Webhooks[0].Answers = []int{500, 500} }},
		"a webhook was never asked for": {"webhooks", func(f *check.Facts) { f.Webhooks = f.Webhooks[1:] }},
		"a 410 is no dead letter":       {"webhooks", func(f *check.Facts) { f.Executions[0].Outcome = "transient" }},
		"a trip was not notified":       {"webhooks", func(f *check.Facts) { f.Notifications = f.Notifications[1:] }},
		"two executions overlap": {"overlap", func(f *check.Facts) {
			f.Executions = append(f.Executions, run("report3", 2, "reports", "c", 31, 31.5, 40))
		}},
		"an execution overlaps the kill": {"overlap", func(f *check.Facts) { move(f, "held0", 2, -16*time.Second) }},
		"an execution follows an open one": {"overlap", func(f *check.Facts) {
			f.Executions = append(f.Executions, run("o", 1, "exports", "a", 1, 2, 0), run("o", 2, "exports", "a", 1, 3, 4))
		}},
		"a job waits": {"nothing left", func(f *check.Facts) {
			f.Unfinished = []check.Unfinished{{Queue: "exports", Status: "pending", Jobs: 1}}
		}},
		"an execution has no end":    {"nothing left", func(f *check.Facts) { f.Executions = append(f.Executions, run("open", 1, "exports", "a", 1, 2, 0)) }},
		"a worker runs":              {"nothing left", func(f *check.Facts) { f.Workers = []string{"a"} }},
		"a position is overdue":      {"nothing left", func(f *check.Facts) { f.Overdue = 1 }},
		"nobody was killed":          {"crash", func(f *check.Facts) { f.Kills = nil }},
		"the killed one held four":   {"crash", func(f *check.Facts) { drop(f, "held0", 1) }},
		"a held job never came back": {"crash", func(f *check.Facts) { drop(f, "held0", 2) }},
		"held jobs came back too late": {"crash", func(f *check.Facts) {
			for i := range 5 {
				move(f, fmt.Sprint("held", i), 2, 10*time.Second)
			}
		}},
		"no report was in line": {"isolation", func(f *check.Facts) {
			for i := range 20 {
				drop(f, fmt.Sprint("report", i), 1)
			}
		}},
		"the slots of reports idled": {"isolation", func(f *check.Facts) {
			for i := range 10 {
				drop(f, fmt.Sprint("report", 2*i+1), 1)
			}
		}},
		"alerts did not start": {"isolation", func(f *check.Facts) {
			for i := range 20 {
				drop(f, fmt.Sprint("alert", i), 1)
			}
		}},
		"an alert waited": {"isolation", func(f *check.Facts) { move(f, "alert5", 1, 3*time.Second) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := good(t)
			tt.spoil(f)
			verdicts := check.All(f)
			i := slices.IndexFunc(verdicts, func(v check.Verdict) bool { return v.Name == tt.noticed })
			require.False(t, verdicts[i].OK())
		})
	}
}

func TestReturnsAreSorted(t *testing.T) {
	t.Parallel()
	f := good(t)
	f.Executions = append(f.Executions, run("lost", 1, "webhooks", "b", 9, 9.5, 0))
	returns := check.Returns(f)
	require.Len(t, returns, 6)
	require.Equal(t, 15500*time.Millisecond, returns[0].After)
	require.Equal(t, job("lost"), returns[5].Held.JobID)
	require.Zero(t, returns[5].After)
}

func TestNoDrillNoChecksOfIt(t *testing.T) {
	t.Parallel()
	f := good(t)
	f.Drill = nil
	for _, v := range check.All(f) {
		require.NotContains(t, []string{"crash", "isolation"}, v.Name)
	}
	require.Empty(t, check.Returns(f))
}
