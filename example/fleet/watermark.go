package fleet

import "time"

// Forever is the watermark of a vehicle whose trace has ended: nothing more
// comes.
var Forever = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)

// Accept says whether a position of the given time is taken, after newest, the
// latest time that was accepted for its vehicle. The zero newest accepts all.
func Accept(newest, at time.Time) bool {
	return newest.IsZero() || !at.Before(newest.Add(-Lateness))
}

// Watermark is the time before which no more positions of a vehicle are
// accepted, so that everything before it is settled.
func Watermark(newest time.Time, ended bool) time.Time {
	if ended {
		return Forever
	}
	return newest.Add(-Lateness)
}
