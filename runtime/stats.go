package runtime

import "sync/atomic"

// Stats is a snapshot of a worker's counters and gauges. Counters count from
// the start of the worker.
type Stats struct {
	Claims      int64 // claims that were answered; those of several queues can share a statement
	ClaimErrors int64
	Claimed     int64 // jobs

	Completed   int64
	Retried     int64
	Dead        int64 // dead letters
	Cancelled   int64
	GivenBack   int64 // snoozed, or returned unfinished at shutdown
	Quarantined int64 // jobs without a row of their own
	Refused     int64 // settlements that came after the lease was lost

	Panics   int64
	Timeouts int64 // attempts whose context ended by their timeout

	LeasesLost   int64 // times that this process lost all its leases
	Expirations  int64 // dead processes that this one found
	Recovered    int64 // jobs of theirs that wait again
	Buried       int64 // jobs of theirs that became dead letters
	SettleErrors int64

	// Stranded is how many waiting jobs no live process could decode, when this
	// one last looked: at most a minute ago, or longer where looking takes long.
	Stranded int64

	Wakeups        int64 // notifications
	WakeupFailures int64 // times that the listener lost its connection, found that it does not hear, or could not connect
	Reconnects     int64 // of the listener
	Listening      bool

	LogPanics int64 // panics of the logger's handler, whose records are lost

	Running int64 // handlers, now
	Stuck   int64 // handlers that ignore the end of their context, now

	Events    EventStats
	Schedules ScheduleStats
	Retention RetentionStats
	Database  DatabaseStats

	Queues map[string]QueueStats
}

// QueueStats is a snapshot of one queue of a worker.
type QueueStats struct {
	Concurrency int
	Running     int
	Claimed     int64
	Paused      bool // as this worker's last claim was told
}

// counters are the live side of [Stats].
type counters struct {
	claims, claimErrors, claimed                                         atomic.Int64
	completed, retried, dead, cancelled, givenBack, quarantined, refused atomic.Int64
	panics, timeouts                                                     atomic.Int64
	leasesLost, expirations, recovered, buried, settleErrors             atomic.Int64
	stranded, wakeups, wakeupFailures, reconnects                        atomic.Int64
	listening                                                            atomic.Bool
	logPanics, running, stuck                                            atomic.Int64

	events    eventCounters
	schedule  scheduleCounters
	database  samples
	retention struct {
		passes, moved, archived, deadLetters, keys, redrives, audit, emptied, dropped, putOff, errors atomic.Int64
	}
}

// Stats returns what the worker has counted so far. It is cheap and safe to
// call at any time, also before and after [Worker.Run].
func (w *Worker) Stats() Stats {
	c := &w.counters
	s := Stats{
		Claims: c.claims.Load(), ClaimErrors: c.claimErrors.Load(), Claimed: c.claimed.Load(),
		Completed: c.completed.Load(), Retried: c.retried.Load(), Dead: c.dead.Load(), Cancelled: c.cancelled.Load(),
		GivenBack: c.givenBack.Load(), Quarantined: c.quarantined.Load(), Refused: c.refused.Load(),
		Panics: c.panics.Load(), Timeouts: c.timeouts.Load(),
		LeasesLost: c.leasesLost.Load(), Expirations: c.expirations.Load(), Recovered: c.recovered.Load(), Buried: c.buried.Load(),
		SettleErrors: c.settleErrors.Load(),
		Stranded:     c.stranded.Load(),
		Wakeups:      c.wakeups.Load(), WakeupFailures: c.wakeupFailures.Load(), Reconnects: c.reconnects.Load(), Listening: c.listening.Load(),
		LogPanics: c.logPanics.Load(),
		Running:   c.running.Load(), Stuck: c.stuck.Load(),
		Events:    c.events.snapshot(),
		Schedules: c.schedule.snapshot(),
		Database:  c.database.snapshot(),
		Retention: RetentionStats{
			Passes: c.retention.passes.Load(), Moved: c.retention.moved.Load(), Archived: c.retention.archived.Load(),
			DeadLetters: c.retention.deadLetters.Load(), Keys: c.retention.keys.Load(), Redrives: c.retention.redrives.Load(), Audit: c.retention.audit.Load(),
			Emptied: c.retention.emptied.Load(), Dropped: c.retention.dropped.Load(), PutOff: c.retention.putOff.Load(), Errors: c.retention.errors.Load(),
		},
		Queues: make(map[string]QueueStats, len(w.queues)),
	}
	for _, q := range w.queues {
		s.Queues[q.name] = QueueStats{Concurrency: q.concurrency, Running: int(q.running.Load()), Claimed: q.claimed.Load(), Paused: q.paused.Load()}
	}
	return s
}
