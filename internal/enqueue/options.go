// Package enqueue holds the options of one enqueue, between the public
// constructors that set them and the generated code's generics that read them.
package enqueue

import "time"

// Options is what the options of one call add up to. The zero value changes
// nothing.
type Options struct {
	At    time.Time // due at this instant; only where HasAt is set
	HasAt bool
	In    time.Duration // due after this, where HasAt is not set

	Priority    int16
	HasPriority bool

	Attempts    int
	HasAttempts bool

	Key    string // an explicit idempotency key
	Keep   time.Duration
	HasKey bool

	NoWake bool
}
