package main

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawlgo/pawl/example/check"
	"github.com/pawlgo/pawl/example/fleet"
	"github.com/pawlgo/pawl/example/fleetdb"
	"github.com/pawlgo/pawl/example/receiver"
	"github.com/pawlgo/pawl/example/reference"
	"github.com/pawlgo/pawl/example/tasks"
	"github.com/pawlgo/pawl/example/trace"
	"github.com/pawlgo/pawl/example/work"
	"github.com/pawlgo/pawl/internal/testdb"
	pawlrt "github.com/pawlgo/pawl/runtime"
	"github.com/pawlgo/pawl/task"
)

// smallPlatform is a platform within the test process: a database, a receiver,
// a worker whose handlers wait nowhere.
func smallPlatform(t *testing.T, positions []fleet.Position) *platform {
	t.Helper()
	p := &platform{
		options: &options{
			trace: positions, reference: reference.Of(positions, fleet.Geofences()), stdout: io.Discard, stderr: io.Discard,
		},
		began: time.Now(), outDir: t.TempDir(),
	}
	p.pool = testdb.Migrated(t, testdb.MaxConns(12))
	require.NoError(t, fleetdb.Create(t.Context(), p.pool))
	var err error
	behaviours := subscribers()
	behaviours["partner"] = receiver.LimitsFirst(0)
	p.receiver, err = receiver.Start(behaviours, 0)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.receiver.Close()) })
	require.NoError(t, p.addEndpoints(t.Context()))

	out, err := os.OpenRoot(p.outDir)
	require.NoError(t, err)
	queues := map[string]pawlrt.Queue{}
	for name := range settingsFor(p.options).Slots {
		queues[name] = pawlrt.Queue{Concurrency: 2}
	}
	handlers := work.New(p.pool, out, "test", work.Pace{Link: 4 * time.Second})
	worker, err := pawlrt.New(p.pool, pawlrt.Config{
		Tables: tasks.Tables(handlers), Events: []task.EventTable{tasks.Events(handlers)}, Queues: queues, Poll: 100 * time.Millisecond, Logger: slog.New(slog.DiscardHandler),
	})
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- worker.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		require.NoError(t, <-ended)
		require.NoError(t, out.Close())
	})
	return p
}

func (p *platform) settle(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 45*time.Second)
	defer cancel()
	require.NoError(t, p.waitForTheEnd(ctx), "the end of the work")
}

// facts are what the judge sees.
func (p *platform) facts(t *testing.T) *check.Facts {
	t.Helper()
	tx, err := p.pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { require.NoError(t, tx.Rollback(t.Context())) }()
	facts, err := (&judge{p}).facts(t.Context(), tx)
	require.NoError(t, err)
	return facts
}

func requireAllHold(t *testing.T, facts *check.Facts) {
	t.Helper()
	for _, v := range check.All(facts) {
		require.Empty(t, v.Problems, v.Name)
	}
}

// Random traces, taken in random batches while the jobs of the former ones run,
// give the trips, crossings and reports of the reference.
func TestRandomTracesGiveTheReference(t *testing.T) {
	t.Parallel()
	for seed := range uint64(5) {
		t.Run("", func(t *testing.T) {
			t.Parallel()
			positions := trace.Record(trace.Plan{Seed: 100 + seed, Vehicles: 3, Hours: 3})
			p := smallPlatform(t, positions)
			random := rand.New(rand.NewPCG(seed, 3))
			var taken fleetdb.Taken
			for rest := positions; len(rest) > 0; {
				n := min(1+random.IntN(80), len(rest))
				got, err := fleetdb.Ingest(t.Context(), p.pool, rest[:n])
				require.NoError(t, err)
				taken.Accepted += got.Accepted
				taken.Late += got.Late
				taken.Repeated += got.Repeated
				rest = rest[n:]
			}
			vehicles, err := fleetdb.End(t.Context(), p.pool)
			require.NoError(t, err)
			require.Equal(t, 3, vehicles)
			p.settle(t)

			facts := p.facts(t)
			requireAllHold(t, facts)
			require.NotEmpty(t, facts.Trips)
			require.Equal(t, fleetdb.Taken{Accepted: p.reference.Accepted, Late: p.reference.Late, Repeated: p.reference.Repeated}, taken)
		})
	}
}

// What follows from a change exists if and only if the change does.
func TestWorkIsEnqueuedWithTheChange(t *testing.T) {
	t.Parallel()
	pool := testdb.Migrated(t)
	require.NoError(t, fleetdb.Create(t.Context(), pool))
	positions, err := trace.Read(bytes.NewReader([]byte(line)))
	require.NoError(t, err)
	jobs := func() (n int) {
		require.NoError(t, pool.QueryRow(t.Context(), `SELECT count(*) FROM pawl.job_status`).Scan(&n))
		return n
	}

	// The second statement of the batch fails, after the first vehicle is done.
	_, err = pool.Exec(t.Context(), `ALTER TABLE fleet.vehicles ADD CONSTRAINT no_zebra CHECK (vehicle <> 'zebra')`)
	require.NoError(t, err)
	zebra := positions[0]
	zebra.Vehicle = "zebra"
	_, err = fleetdb.Ingest(t.Context(), pool, append(positions, zebra))
	require.ErrorContains(t, err, "zebra")
	require.Zero(t, jobs())

	_, err = fleetdb.Ingest(t.Context(), pool, positions)
	require.NoError(t, err)
	require.Equal(t, 2, jobs())
	_, err = fleetdb.End(t.Context(), pool)
	require.NoError(t, err)
	require.Equal(t, 4, jobs())
	_, err = fleetdb.Ingest(t.Context(), pool, positions)
	require.ErrorContains(t, err, "has ended")
}

// Every handler can be repeated: all jobs again change nothing.
func TestRepeatedJobsChangeNothing(t *testing.T) {
	t.Parallel()
	positions := trace.Record(trace.Plan{Seed: 77, Vehicles: 2, Hours: 3})
	p := smallPlatform(t, positions)
	_, err := fleetdb.Ingest(t.Context(), p.pool, positions)
	require.NoError(t, err)
	_, err = fleetdb.End(t.Context(), p.pool)
	require.NoError(t, err)
	p.settle(t)
	before := p.facts(t)

	again := time.Hour
	tx, err := p.pool.Begin(t.Context())
	require.NoError(t, err)
	key := keys(t)
	for name := range p.reference.Vehicles {
		_, err = tasks.EnqueueReconcileTrips(t.Context(), tx, tasks.ReconcileTripsArgs{Vehicle: name})
		require.NoError(t, err)
		_, err = tasks.EnqueueEvaluateGeofences(t.Context(), tx, tasks.EvaluateGeofencesArgs{Vehicle: name})
		require.NoError(t, err)
		_, err = tasks.EnqueueExportTrips(t.Context(), tx, tasks.ExportTripsArgs{Vehicle: name}, key(again))
		require.NoError(t, err)
		_, err = tasks.EnqueuePurgePositions(t.Context(), tx, tasks.PurgePositionsArgs{Vehicle: name}, key(again))
		require.NoError(t, err)
	}
	for _, trip := range before.Trips {
		_, err = tasks.EnqueueRenderTripReport(t.Context(), tx, tasks.RenderTripReportArgs{TripID: trip.ID}, key(again))
		require.NoError(t, err)
		_, err = tasks.EnqueueNotify(t.Context(), tx, tasks.NotifyArgs{EventID: trip.ID, Text: "again"}, key(again))
		require.NoError(t, err)
	}
	require.NoError(t, tx.Commit(t.Context()))
	p.settle(t)

	after := p.facts(t)
	requireAllHold(t, after)
	require.Greater(t, len(after.Executions), len(before.Executions))
	require.Equal(t, before.Trips, after.Trips)
	require.Equal(t, before.Crossings, after.Crossings)
	require.Equal(t, before.Files, after.Files)
	require.Equal(t, before.Webhooks, after.Webhooks)
	require.Len(t, after.Notifications, len(before.Notifications))
}

// One trip of two vehicles that stood at their end, and one that was never seen
// to move.
func TestSmallestTraces(t *testing.T) {
	t.Parallel()
	p := smallPlatform(t, []fleet.Position{{Vehicle: "a", At: time.Date(2026, 3, 2, 6, 0, 0, 0, time.UTC)}})
	_, err := fleetdb.Ingest(t.Context(), p.pool, p.trace)
	require.NoError(t, err)
	_, err = fleetdb.End(t.Context(), p.pool)
	require.NoError(t, err)
	p.settle(t)
	facts := p.facts(t)
	requireAllHold(t, facts)
	require.Empty(t, facts.Trips)
	require.Len(t, facts.Exports, 1)
}

// A subscriber that cannot be reached for a while is tried again.
func TestUnreachableSubscriberIsTriedAgain(t *testing.T) {
	t.Parallel()
	positions := trace.Record(trace.Plan{Seed: 5, Vehicles: 1, Hours: 1})
	p := smallPlatform(t, positions)
	var once sync.Once
	server := http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		once.Do(func() { panic(http.ErrAbortHandler) })
		w.WriteHeader(http.StatusNoContent)
	})}
	url := serve(t, &server)
	_, err := p.pool.Exec(t.Context(), `UPDATE fleet.endpoints SET url = $1 WHERE name = 'dispatch'`, url)
	require.NoError(t, err)
	_, err = fleetdb.Ingest(t.Context(), p.pool, positions)
	require.NoError(t, err)
	_, err = fleetdb.End(t.Context(), p.pool)
	require.NoError(t, err)
	p.settle(t)

	failed := 0
	for _, e := range p.facts(t).Executions {
		if e.Queue == "webhooks" && e.Outcome == "transient" && !bytes.Contains([]byte(e.Detail), []byte("billing")) {
			failed++
		}
	}
	require.Equal(t, 1, failed)
}
