// Package nightly declares the task of the runnable example of schedules.
package nightly

import (
	"time"

	"github.com/pawlgo/pawl/task"
)

//go:generate go tool taskgen

// Report sums up a day, in the night after it.
//
//task:queue reports
//task:schedule "30 2 * * *" zone=America/Los_Angeles missed=all
type Report struct{ task.Task[ReportArgs] }

// ReportArgs is the payload of Report.
type ReportArgs struct {
	Day string `json:"day"`
}

// ScheduledArgs makes the payload of a tick, whose time is one of the schedule's
// zone.
func (Report) ScheduledArgs(at time.Time) ReportArgs {
	return ReportArgs{Day: at.AddDate(0, 0, -1).Format(time.DateOnly)}
}
