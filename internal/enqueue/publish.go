package enqueue

import "time"

// PublishOptions is what the options of one publishing add up to. The zero
// value changes nothing.
type PublishOptions struct {
	OccurredAt    time.Time // only where HasOccurredAt is set
	HasOccurredAt bool

	NoWake bool
}
