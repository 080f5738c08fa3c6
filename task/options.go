package task

import (
	"time"

	"github.com/pawlgo/pawl/internal/enqueue"
)

// EnqueueOption changes one enqueue. The options of this package are all there
// are.
type EnqueueOption interface {
	ApplyEnqueue(*enqueue.Options)
}

type option func(*enqueue.Options)

func (o option) ApplyEnqueue(opts *enqueue.Options) { o(opts) }

// At makes the job due at t instead of at once. A time in the past means now,
// by the database's clock. The zero time and years after 9999 are refused with
// [ErrInvalidOption].
func At(t time.Time) EnqueueOption {
	return option(func(o *enqueue.Options) { o.At, o.HasAt = t, true })
}

// In makes the job due after d, counted by the database's clock. Zero and less
// mean now. The last of At and In counts.
func In(d time.Duration) EnqueueOption {
	return option(func(o *enqueue.Options) { o.In, o.HasAt = d, false })
}

// Priority overrides the declared level.
func Priority(level PriorityLevel) EnqueueOption {
	return option(func(o *enqueue.Options) { o.Priority, o.HasPriority = int16(level), true })
}

// Attempts overrides how many attempts the job has in all, 1 to 32766.
func Attempts(n int) EnqueueOption {
	return option(func(o *enqueue.Options) { o.Attempts, o.HasAttempts = n, true })
}

// Key sets the idempotency key in place of the declared fields: while a job of
// the same organization and kind holds it, an enqueue stores nothing and its
// receipt says duplicate. It is held while that job is unfinished, and at
// least for keep from its enqueue. It does not fit a call with several jobs.
func Key(key string, keep time.Duration) EnqueueOption {
	return option(func(o *enqueue.Options) { o.Key, o.Keep, o.HasKey = key, keep, true })
}

// NoWake stores the job, or the event, without waking idle workers; they find it
// within their poll interval. It makes large batches cheaper for everybody else.
func NoWake() WakeOption { return noWake{} }
