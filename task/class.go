package task

import "time"

// Class says what a handler's failure means for its job.
type Class string

// The classes of failure.
const (
	// ClassTransient is a failure that is likely to pass: the job is retried
	// with backoff until its attempts are spent.
	ClassTransient Class = "transient"
	// ClassRateLimited is a refusal by a server that named, or implied, a time
	// to come again. It costs an attempt.
	ClassRateLimited Class = "rate_limited"
	// ClassPermanent is a failure that no retry can mend: a dead letter at once.
	ClassPermanent Class = "permanent"
	// ClassRevoked is work that is no longer wanted or allowed: the job is
	// cancelled.
	ClassRevoked Class = "revoked"
	// ClassSnooze is not a failure: the job runs again later, and the attempt
	// does not count.
	ClassSnooze Class = "snooze"
	// ClassTimeout is an attempt that took too long; retried like a transient
	// failure.
	ClassTimeout Class = "timeout"
	// ClassUnknown is a failure that nobody classified: retried a few times,
	// as the declaration's retry unknown= says, then a dead letter.
	ClassUnknown Class = "unknown"
)

// Failure is an error with a class. The constructors make one; a handler
// returns it, wrapped or not.
type Failure struct {
	Class Class
	// After is how long to wait before the next attempt: of a rate limit or a
	// snooze. Zero leaves it to the kind's backoff.
	After time.Duration
	Err   error
}

func (f *Failure) Error() string {
	if f.Err == nil {
		return string(f.Class)
	}
	return f.Err.Error()
}

func (f *Failure) Unwrap() error { return f.Err }

// Transient marks err as likely to pass. A nil err stays nil.
func Transient(err error) error { return classed(ClassTransient, 0, err) }

// RateLimited marks err as a refusal after which the job waits for the given
// time, bounded by the kind's longest backoff. Zero or less leaves the wait to the
// backoff. A nil err stays nil.
func RateLimited(err error, after time.Duration) error {
	return classed(ClassRateLimited, max(after, 0), err)
}

// Permanent marks err as one that no retry can mend. A nil err stays nil.
func Permanent(err error) error { return classed(ClassPermanent, 0, err) }

// Revoked marks err as the end of the job's right to run: it is cancelled, not
// a dead letter. A nil err stays nil.
func Revoked(err error) error { return classed(ClassRevoked, 0, err) }

// Snooze asks for the job to run again after the given time without counting
// this attempt. A negative time counts as zero.
func Snooze(after time.Duration) error {
	return &Failure{Class: ClassSnooze, After: max(after, 0)}
}

func classed(class Class, after time.Duration, err error) error {
	if err == nil {
		return nil
	}
	return &Failure{Class: class, After: after, Err: err}
}
