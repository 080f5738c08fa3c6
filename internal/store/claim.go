package store

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
)

const (
	// MaxBatch is how many jobs one lease can hold, the width of its bitmap.
	MaxBatch = 128
	// Priorities is the number of levels, 1 (low) to 4 (urgent).
	Priorities = 4
	// NotRegistered is the SQLSTATE of a claim by a process without a row.
	NotRegistered = "PW001"
)

// Claim asks for waiting jobs of one queue.
type Claim struct {
	Owner        uuid.UUID
	Token        uuid.UUID // the claimer's own, new for each claim
	SuspectToken uuid.UUID // for one job whose last lease was lost; uuid.Nil for none
	Queue        string
	Limit        int // at most MaxBatch for Token and for each of MoreTokens
	Capabilities []int64
	// Ordered says that jobs of the queue may have order keys.
	Ordered bool
	// Alone are those of the capabilities whose jobs get a lease each, under
	// AloneTokens, of which there are Limit.
	Alone       []int64
	AloneTokens []uuid.UUID
	// Sleep says whether enqueues shall wake the process from now on, if the
	// claim does not fill up; nil where they did not and shall not.
	Sleep      *bool
	MoreTokens []uuid.UUID // of further leases, where one does not hold Limit
	// Floors are where to start looking, a priority each, the highest first.
	// The zero time looks from the beginning.
	Floors [Priorities]time.Time
}

// Claimed is what a claim got.
type Claimed struct {
	Jobs []ClaimedJob
	At   time.Time // the database's time of the claim
	Next time.Time // when the next job becomes due; zero for none, or where the claim filled up
	// Suspects says that jobs are due that are claimed with a SuspectToken only.
	Suspects bool
	Turns    bool // order keys are left whose next job may have its turn
	Paused   bool // nothing is claimed from the queue
}

// ClaimedJob is one job and the attempt that its claim began.
type ClaimedJob struct {
	Token    uuid.UUID // of the lease, and
	Position int       // in it, from 1: with ID they are the fence
	ID       uuid.UUID

	Attempt  int
	Priority int16
	RunAt    time.Time

	// Missing says that the job has no row: it cannot run, and what follows is
	// empty.
	Missing        bool
	Kind           string
	Version        int
	OrganizationID string
	MaxAttempts    int
	EnqueuedAt     time.Time
	TraceContext   string
	Ordered        bool // it has an order key
	Cancelled      bool // somebody asked to cancel it: it must not run
	Args           []byte
}

// Together says whether a claim may be sent along with others: what it asks for
// beside jobs is for a claim of one queue.
func (c *Claim) Together() bool {
	return !c.Ordered && c.Alone == nil && c.SuspectToken == uuid.Nil && len(c.MoreTokens) == 0
}

// Claim takes jobs of one queue. An error leaves open whether it did: the caller
// has to give the tokens back with [Store.ReleaseLeases].
func (s *Store) Claim(ctx context.Context, c *Claim) (*Claimed, error) {
	claimed, err := s.ClaimAll(ctx, []*Claim{c})
	if err != nil {
		return nil, err
	}
	return claimed[0], nil
}

// ClaimAll takes jobs of several queues in one statement, as [Store.Claim] does of
// one. The claims are of one owner, and all of them [Claim.Together], unless there
// is only one. It answers in their order.
func (s *Store) ClaimAll(ctx context.Context, claims []*Claim) ([]*Claimed, error) {
	var (
		first        = claims[0]
		queues       = make([]string, len(claims))
		limits       = make([]int, len(claims))
		tokens       = make([]uuid.UUID, 0, len(claims)+len(first.MoreTokens))
		capabilities []int64
		ends         = make([]int, len(claims))
		floors       = make([]pgtype.Timestamptz, 0, Priorities*len(claims))
		sleep        []*bool
		suspect      *uuid.UUID
	)
	answer := answers{claimed: make([]*Claimed, len(claims)), of: make(map[uuid.UUID]*Claimed, len(claims))}
	for i, c := range claims {
		if most := MaxBatch * (1 + len(c.MoreTokens)); c.Limit > most {
			return nil, fmt.Errorf("a claim of %d jobs, of at most %d", c.Limit, most)
		}
		if len(claims) > 1 && (c.Owner != first.Owner || !c.Together()) {
			return nil, fmt.Errorf("a claim of queue %s that cannot be sent along with others", c.Queue)
		}
		queues[i], limits[i] = c.Queue, c.Limit
		tokens = append(append(tokens, c.Token), c.MoreTokens...)
		capabilities = append(capabilities, c.Capabilities...)
		ends[i] = len(capabilities)
		for _, floor := range c.Floors {
			at := pgtype.Timestamptz{Time: floor, Valid: true}
			if floor.IsZero() {
				at.InfinityModifier = pgtype.NegativeInfinity
			}
			floors = append(floors, at)
		}
		if c.Sleep != nil && sleep == nil {
			sleep = make([]*bool, len(claims))
		}
		if sleep != nil {
			sleep[i] = c.Sleep
		}
		answer.claimed[i] = &Claimed{}
		answer.of[c.Token] = answer.claimed[i]
	}
	if first.SuspectToken != uuid.Nil {
		suspect = &first.SuspectToken
	}
	if capabilities == nil {
		capabilities = []int64{}
	}
	err := s.call(ctx, `SELECT token, pos, id, attempt, priority, run_at, kind, version, organization_id, max_attempts, enqueued_at, trace_context,
		ordered, cancelled, args
		FROM `+s.schema+`.claim($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)`,
		[]any{first.Owner, queues, limits, tokens, capabilities, ends, floors, sleep, suspect, first.Alone, first.AloneTokens, first.Ordered}, answer.read)
	if err != nil {
		return nil, err
	}
	return answer.claimed, nil
}

// answers are those to claims that were sent together.
type answers struct {
	claimed []*Claimed
	of      map[uuid.UUID]*Claimed // by token, where there are several
}

func (a *answers) read(rows pgx.Rows) error {
	c := a.claimed[0]
	for rows.Next() {
		var (
			token, id            pgtype.UUID
			pos, attempt         pgtype.Int4
			priority             pgtype.Int2
			runAt, enqueuedAt    pgtype.Timestamptz
			kind, org, trace     pgtype.Text
			version, maxAttempts pgtype.Int4
			ordered, cancelled   pgtype.Bool
			args                 []byte
		)
		if err := rows.Scan(&token, &pos, &id, &attempt, &priority, &runAt, &kind, &version, &org, &maxAttempts, &enqueuedAt, &trace, &ordered, &cancelled, &args); err != nil {
			return err
		}
		if !token.Valid { // the last row of a queue, without a job
			c := a.claimed[attempt.Int32-1]
			c.At, c.Next = enqueuedAt.Time, runAt.Time
			c.Suspects, c.Turns, c.Paused = pos.Int32&1 != 0, pos.Int32&2 != 0, pos.Int32&4 != 0
			continue
		}
		if len(a.claimed) > 1 {
			c = a.of[token.Bytes]
		}
		c.Jobs = append(c.Jobs, ClaimedJob{
			Token: token.Bytes, Position: int(pos.Int32), ID: id.Bytes,
			Attempt: int(attempt.Int32), Priority: priority.Int16, RunAt: runAt.Time,
			Missing: !kind.Valid, Kind: kind.String, Version: int(version.Int32), OrganizationID: org.String,
			MaxAttempts: int(maxAttempts.Int32), EnqueuedAt: enqueuedAt.Time, TraceContext: trace.String,
			Ordered: ordered.Bool, Cancelled: cancelled.Bool, Args: args,
		})
	}
	return rows.Err()
}
