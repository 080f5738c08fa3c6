package main

import (
	"time"

	"github.com/pawlgo/pawl/example/tasks"
	"github.com/pawlgo/pawl/example/work"
)

// drillTrips is how many trips give work enough to kill a worker in its middle,
// and to see whether reports that pile up hold up the alerts.
const drillTrips = 100

// settings are the sizes and speeds of a run.
type settings struct {
	// Slots are how many handlers of each queue a worker process runs at once.
	Slots map[string]int
	// Lease is Pawl's, zero for its default of 15 s.
	Lease time.Duration
	// Pace is how long handlers take, Answer how long the receiver of webhooks
	// takes.
	Pace   work.Pace
	Answer time.Duration
	// The trace is taken in batches over some time, as if it came in live.
	Batch  int
	Ingest time.Duration
	// Limit is when a run is given up.
	Limit time.Duration
}

// settingsFor chooses speeds at which a run of a few thousand positions takes
// half a minute. The more there is to do, the less each job dawdles.
func settingsFor(o *options) settings {
	trips, events := len(o.reference.Trips), len(o.reference.Trips)+len(o.reference.Crossings)
	dawdle := func(jobs int, total, most time.Duration) time.Duration {
		return min(most, total/time.Duration(max(jobs, 1)))
	}
	report := dawdle(trips, time.Minute, 450*time.Millisecond)
	if o.drill {
		// Shorter, and what is between two reports would outweigh them: then no
		// slot looks busy.
		report = max(report, 100*time.Millisecond)
	}
	s := settings{
		Slots: map[string]int{
			tasks.QueueCriticalAlerts: 4, tasks.QueueLocationDerivation: 4, tasks.QueueNotifications: 2, tasks.QueueWebhooks: 6,
			tasks.QueueReports: 2, tasks.QueueExports: 1, tasks.QueueMaintenance: 1,
		},
		Pace: work.Pace{
			Report: report,
			Notify: dawdle(events, 20*time.Second, 100*time.Millisecond),
			Derive: 5 * time.Millisecond,
			Export: 50 * time.Millisecond,
			Link:   4 * time.Second,
		},
		Answer: dawdle(events, 40*time.Second, 160*time.Millisecond),
		Batch:  max(len(o.trace)/100, 100),
		Limit:  45*time.Second + time.Duration(len(o.trace))*time.Millisecond + time.Duration(trips)*60*time.Millisecond,
	}
	if o.drill {
		// Slow enough for alerts to keep up with: that they do is to be shown.
		s.Ingest = max(12*time.Second, time.Duration(len(o.trace)/1500)*time.Second)
	}
	return s
}
