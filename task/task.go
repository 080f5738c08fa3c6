package task

import (
	"time"

	"github.com/google/uuid"
	"github.com/pawlgo/pawl/internal/dispatch"
)

// Task declares a kind of work whose payload is Args. It is embedded in an
// exported struct whose doc comment carries the annotations; it holds nothing
// and is never instantiated.
//
//	// SendReceipt mails the receipt of one order.
//	//
//	//task:queue mail
//	type SendReceipt struct{ task.Task[SendReceiptArgs] }
type Task[Args any] struct{}

// Job is one attempt at a job, as its handler sees it.
type Job[Args any] struct {
	// ID is the job's identity for its whole life, a version 7 UUID.
	ID uuid.UUID
	// Kind is the stable wire name of the declaration.
	Kind string
	// Queue is the queue that the job was claimed from.
	Queue string
	// OrganizationID is the tenant, or empty where the kind declares none.
	OrganizationID string
	// Version is the payload version that was stored; Args is always of the
	// current version.
	Version int
	// Attempt counts from 1. A snoozed attempt is not counted.
	Attempt int
	// MaxAttempts is how many attempts the job has in all.
	MaxAttempts int
	// EnqueuedAt and RunAt are the database's clock: when the job was
	// enqueued, and when this attempt became due. Compare them with one
	// another, not with the worker's clock.
	EnqueuedAt, RunAt time.Time
	// Args is the payload.
	Args Args
}

// PriorityLevel orders the jobs of one queue. Between queues it means nothing.
type PriorityLevel int16

// The four levels. All due jobs of a higher level start before those of a lower.
const (
	Low PriorityLevel = iota + 1
	Normal
	High
	Urgent
)

// State is where a job stands.
type State string

// The states that a [Receipt] or [Cancel] can name.
const (
	StatePending   State = "pending"   // due, waiting for a worker
	StateScheduled State = "scheduled" // due in the future
	StateBlocked   State = "blocked"   // waiting for an earlier job of its order key
	StateRetrying  State = "retrying"  // waiting for another attempt
	StateLeased    State = "leased"    // a worker has it
	StateCompleted State = "completed"
	StateDead      State = "dead" // a dead letter
	StateCancelled State = "cancelled"
	StateGone      State = "gone" // finished, and its history has been removed
)

// Receipt is the answer to an enqueue.
type Receipt struct {
	// ID is the job's id: the new one, or where Duplicate is set the one that
	// holds the idempotency key.
	ID uuid.UUID
	// Duplicate says that nothing was stored, since another job holds the key.
	Duplicate bool
	// SameArgs says, of a duplicate, whether it has the same arguments as the
	// job that holds the key. Of a new job it is true.
	SameArgs bool
	// State is where the job stood as the enqueue ran.
	State State
}

// Table connects kinds to handlers. Generated code makes it, the runtime takes
// it; to an application it is opaque.
type Table = dispatch.Table
