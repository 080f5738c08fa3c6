// Package check judges a run of the platform.
//
// The checks are pure functions over [Facts]: rows that the platform's own
// handlers and projections wrote, files, and what the receiver of the webhooks saw.
// Pawl's tables are asked only what has left no trace anywhere else: which jobs are
// not finished, which facts were published, and how many jobs the schedules made.
package check

import (
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/pawlgo/pawl/example/fleet"
	"github.com/pawlgo/pawl/example/reference"
)

// Facts are what is known of a run after its end.
type Facts struct {
	Reference reference.Result

	Trips         []fleet.Trip
	Crossings     []fleet.Crossing
	Silences      []fleet.Silence
	Reports       []Report
	Exports       []Export
	Webhooks      []Webhook
	Notifications []uuid.UUID // of trips, crossings and silences
	Executions    []Execution
	Published     []Fact
	Projections   []Projection
	Overview      []Vehicle
	Links         []Link
	Schedules     []Schedule
	Ticks         []Tick
	Summaries     []time.Time          // ticks
	Kills         map[string]time.Time // by worker
	Files         map[string][]byte    // the output directory, by name

	Unfinished []Unfinished
	Workers    []string // worker processes that still run
	Overdue    int      // raw positions that retention should have removed

	// Drill is the crash that was staged, nil where none was.
	Drill *Drill
}

// Fact is a fact that was published.
type Fact struct {
	ID      uuid.UUID
	Type    string
	Subject uuid.UUID // the trip, the crossing or the silence
	Status  string    // in the outbox
}

// Projection is one time that a fact was projected.
type Projection struct {
	FactID  uuid.UUID
	Subject uuid.UUID
	Worker  string
}

// Vehicle is the row of a vehicle in the overview.
type Vehicle struct {
	Vehicle      string
	Trips        int
	DistanceM    float64
	Entered      int
	Inside       []string
	Silences     int
	OfflineSince *time.Time
}

// Link is the public link to a trip.
type Link struct {
	TripID    uuid.UUID
	ExpiresAt time.Time
	RevokedAt *time.Time
}

// Schedule is what Pawl says of a schedule.
type Schedule struct {
	Kind    string
	Spec    string
	Ticks   int // that have jobs
	Skipped int // that have none, by the policy for missed ones
}

// Tick is a job of a schedule that ran.
type Tick struct {
	JobID uuid.UUID
	Kind  string
	At    time.Time
}

// Report is the row of a trip's report.
type Report struct {
	TripID uuid.UUID
	File   string
	SHA256 []byte
}

// Export is the row of a vehicle's export.
type Export struct {
	Vehicle string
	File    string
	Trips   int
}

// Webhook is an event that a subscriber was to be told of, and the answers that
// the subscriber gave, in their order.
type Webhook struct {
	Subscriber string
	EventID    uuid.UUID
	JobID      uuid.UUID
	Answers    []int
}

// Execution is one call of a handler.
type Execution struct {
	JobID      uuid.UUID
	Attempt    int
	Kind       string
	Queue      string
	Worker     string
	DueAt      time.Time
	StartedAt  time.Time
	FinishedAt *time.Time // nil where the process died first
	Outcome    string
	Detail     string
}

// Unfinished counts the jobs of a queue that are not at their end.
type Unfinished struct {
	Queue  string
	Status string
	Jobs   int
}

// Drill is the crash that was staged: which worker was killed, and how many
// handlers of each queue a worker runs at once.
type Drill struct {
	Worker string
	Slots  map[string]int
}

// Verdict is the answer of one check.
type Verdict struct {
	Name string
	// Says is what holds, in a sentence with the numbers.
	Says string
	// Problems are what does not hold, none where all is well.
	Problems []string
}

// OK says whether the check holds.
func (v Verdict) OK() bool { return len(v.Problems) == 0 }

func (v *Verdict) problem(format string, args ...any) {
	v.Problems = append(v.Problems, fmt.Sprintf(format, args...))
}

// All runs every check that the facts allow. Those of the drill need a drill.
func All(f *Facts) []Verdict {
	verdicts := []Verdict{
		sameAsReference(f), projectedOnce(f), sameOverview(f), oneJobATick(f), linksRevoked(f), oneReportEach(f), oneExportEach(f), announced(f), neverTwiceAtOnce(f), nothingLeft(f),
	}
	if f.Drill != nil {
		verdicts = append(verdicts, cameBack(f), alertsDuringReports(f))
	}
	return verdicts
}

// sameAsReference: the jobs found what the reference finds in the trace.
func sameAsReference(f *Facts) Verdict {
	v := Verdict{
		Name: "reference",
		Says: fmt.Sprintf("%d trips, %d crossings and %d silences, the same as in memory", len(f.Trips), len(f.Crossings), len(f.Silences)),
	}
	v.Problems = f.Reference.Differences(f.Trips, f.Crossings, f.Silences)
	return v
}

// end is when an execution ended: where its process was killed, then.
func (f *Facts) end(e *Execution) (time.Time, bool) {
	if e.FinishedAt != nil {
		return *e.FinishedAt, true
	}
	killed, ok := f.Kills[e.Worker]
	return killed, ok
}
