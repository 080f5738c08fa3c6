// Package trips declares an event and a task, for the runnable examples of
// events.
package trips

import "github.com/pawlgo/pawl/task"

//go:generate go tool taskgen

// TripCompleted is the fact that a trip ended.
//
//task:event trip.completed aggregate=trip
type TripCompleted struct {
	task.Event[TripCompletedPayload]
}

// TripCompletedPayload is the payload of TripCompleted.
type TripCompletedPayload struct {
	Driver string `json:"driver"`
	Meters int64  `json:"meters"`
}

// SendSummary mails a driver the summary of a trip.
//
//task:queue mail
type SendSummary struct{ task.Task[SendSummaryArgs] }

// SendSummaryArgs is the payload of SendSummary.
type SendSummaryArgs struct {
	Trip   string `json:"trip"`
	Driver string `json:"driver"`
}
