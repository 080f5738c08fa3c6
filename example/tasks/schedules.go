package tasks

import (
	"time"

	"github.com/pawlgo/pawl/task"
)

// EvaluateDevices looks for devices that were silent for too long.
//
//task:queue location_derivation
//task:retry attempts=10 base=100ms max=2s
//task:timeout 1m
//task:schedule "@every 1s" missed=skip
type EvaluateDevices struct {
	task.Task[EvaluateDevicesArgs]
}

// EvaluateDevicesArgs is the payload of EvaluateDevices.
type EvaluateDevicesArgs struct {
	Tick time.Time `json:"tick"`
}

// ScheduledArgs makes the payload of a tick.
func (EvaluateDevices) ScheduledArgs(at time.Time) EvaluateDevicesArgs {
	return EvaluateDevicesArgs{Tick: at}
}

// RevokeLinks revokes the public links to trips that have expired.
//
//task:queue maintenance
//task:retry attempts=10 base=100ms max=2s
//task:timeout 10s
//task:schedule "@every 2s" missed=one
type RevokeLinks struct {
	task.Task[RevokeLinksArgs]
}

// RevokeLinksArgs is the payload of RevokeLinks.
type RevokeLinksArgs struct {
	Tick time.Time `json:"tick"`
}

// ScheduledArgs makes the payload of a tick.
func (RevokeLinks) ScheduledArgs(at time.Time) RevokeLinksArgs { return RevokeLinksArgs{Tick: at} }

// SummarizeFleet writes down what the whole fleet has driven so far. Each tick is
// a summary of its own, so those that are missed are made up for.
//
//task:queue reports
//task:priority high
//task:retry attempts=10 base=100ms max=2s
//task:timeout 10s
//task:schedule "@every 5s" missed=all
type SummarizeFleet struct {
	task.Task[SummarizeFleetArgs]
}

// SummarizeFleetArgs is the payload of SummarizeFleet.
type SummarizeFleetArgs struct {
	Tick time.Time `json:"tick"`
}

// ScheduledArgs makes the payload of a tick.
func (SummarizeFleet) ScheduledArgs(at time.Time) SummarizeFleetArgs {
	return SummarizeFleetArgs{Tick: at}
}
