package store

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgtype"
)

const (
	// SampleBound is up to how many jobs of a queue a sample counts, of those that
	// are due and of those that are not; of more it makes an estimate.
	SampleBound = 5_000
	// SamplePages is of how many pages of a table an estimate is made. Tables that
	// have no more are counted.
	SamplePages = 200
	// SampleTimeout is how long taking a sample may take.
	SampleTimeout = 10 * time.Second
	// sampleShare is the part of the time that taking samples may take. Together
	// with the reading it is below a hundredth.
	sampleShare = 125 // one in
)

// Sample is what one process has seen of the whole database, for all of them.
type Sample struct {
	Queues   []QueueSample    `json:"queues"` // by name
	Stranded []StrandedSample `json:"stranded"`
	Outbox   OutboxSample     `json:"outbox"`
	Server   ServerSample     `json:"server"`

	Age   time.Duration `json:"-"` // by the database's clock
	Taken bool          `json:"-"` // by this very call
}

// QueueSample is the unfinished jobs and the dead letters of one queue. A job
// is counted once.
type QueueSample struct {
	Queue     string       `json:"queue"`
	Pending   int64        `json:"pending"`   // due, whether for the first time or another
	Scheduled int64        `json:"scheduled"` // due later, for the first time
	Retrying  int64        `json:"retrying"`  // due later, having been tried
	Leased    int64        `json:"leased"`
	Blocked   int64        `json:"blocked"` // behind another of their order key
	Dead      int64        `json:"dead"`
	Oldest    microseconds `json:"oldest_us"` // since the first pending one became due
	Estimated bool         `json:"estimated"` // some of the counts are estimates
}

// StrandedSample is waiting jobs of one kind that no live process can decode.
type StrandedSample struct {
	Queue string `json:"queue"`
	Kind  string `json:"kind"` // empty of one that no worker has ever registered
	Jobs  int64  `json:"jobs"`
}

// OutboxSample is what is published and not projected.
type OutboxSample struct {
	Events    []EventSample `json:"events"`  // by type
	Blocked   int64         `json:"blocked"` // aggregates that a dead event holds up
	Estimated bool          `json:"estimated"`
}

// EventSample is the pending events of one payload version.
type EventSample struct {
	Type   string       `json:"type"`
	Events int64        `json:"events"`
	Oldest microseconds `json:"oldest_us"` // since the first of them was published
	Known  bool         `json:"known"`     // a live process can decode them
}

// ServerSample is what a server has that is no queue's.
type ServerSample struct {
	// Horizon is since when the oldest transaction runs that keeps vacuum from
	// removing dead rows, and HorizonTransactions how many have begun after it. Horizon
	// is nil where only such sessions do that whose beginning the role may not see.
	Horizon             *microseconds    `json:"horizon_us"`
	HorizonTransactions int64            `json:"horizon_transactions"`
	Notifications       float64          `json:"notifications"` // the part of their queue that is full
	DeadRows            map[string]int64 `json:"dead_rows"`     // by table, as the statistics have it
}

// microseconds is a duration as the schema's functions answer it.
type microseconds time.Duration

func (m *microseconds) UnmarshalJSON(text []byte) error {
	var n int64
	if err := json.Unmarshal(text, &n); err != nil {
		return err
	}
	*m = microseconds(max(time.Duration(n)*time.Microsecond, 0))
	return nil
}

// Duration is how long it is, never below zero.
func (m microseconds) Duration() time.Duration { return time.Duration(m) }

// Sample returns what was last seen of the database. It looks anew where that is
// older than every and nobody else is looking; whoever does not look waits for
// nobody. It returns nil where nobody has looked yet. Ctx should end after
// [SampleTimeout] at the latest, when another process may begin to look.
func (s *Store) Sample(ctx context.Context, every time.Duration) (*Sample, error) {
	var (
		text pgtype.Text
		age  pgtype.Int8
		turn bool
	)
	err := s.callRow(ctx, `SELECT sample, age_us, turn FROM `+s.schema+`.sample($1, $2)`,
		[]any{SampleTimeout.Microseconds(), sampleShare}, &text, &age, &turn)
	if err != nil {
		return nil, err
	}
	if turn {
		// Apart from the turn, which stays taken if this comes to nothing.
		age.Int64 = 0
		if err := s.callRow(ctx, `SELECT `+s.schema+`.take_sample($1, $2, $3, $4)`,
			[]any{every.Microseconds(), sampleShare, SampleBound, SamplePages}, &text); err != nil {
			return nil, err
		}
	}
	if !text.Valid {
		return nil, nil
	}
	sample := &Sample{Age: max(time.Duration(age.Int64)*time.Microsecond, 0), Taken: turn}
	if err := json.Unmarshal([]byte(text.String), sample); err != nil {
		return nil, fmt.Errorf("read the sample: %w", err)
	}
	return sample, nil
}
