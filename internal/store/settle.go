package store

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// Outcome says how an attempt ended. The numbers are those of the schema.
type Outcome int16

// The outcomes that a worker can report.
const (
	Refused    Outcome = 0 // never reported: what became of a late report
	Completed  Outcome = 1
	Retry      Outcome = 2 // wait for Delay, then another attempt
	Dead       Outcome = 3 // a dead letter
	GiveBack   Outcome = 4 // wait for Delay; the attempt does not count
	Cancelled  Outcome = 5
	Quarantine Outcome = 6 // the job has no row
)

// Settlement is the end of one attempt.
type Settlement struct {
	Token    uuid.UUID
	Position int
	ID       uuid.UUID
	Outcome  Outcome
	Ordered  bool          // the job has an order key
	Delay    time.Duration // of Retry and GiveBack
	Code     string        // why; empty for nothing to record
	Summary  string
}

// Settle writes settlements, each behind its fence, and tells for each the
// outcome that was recorded: its own, or [Cancelled] where somebody asked for
// that and the job would have been tried again or died, [Quarantine] where it
// would have and has no row. [Refused] is what is no longer the caller's to
// write: the lease was lost. Of several settlements of one attempt in a call the
// first counts.
func (s *Store) Settle(ctx context.Context, owner uuid.UUID, settlements []Settlement) (recorded []Outcome, err error) {
	type attempt struct {
		token    uuid.UUID
		position int32
	}
	n := len(settlements)
	var (
		index     = make(map[attempt]int, n)
		tokens    = make([][16]byte, 0, n) // which pgx encodes without asking each for its text
		positions = make([]int32, 0, n)
		ids       = make([][16]byte, 0, n)
		outcomes  = make([]int16, 0, n)
		delays    []int64 // shorter arrays than the rest read as NULL
		codes     []*string
		summaries []*string
		ordered   bool
	)
	for i := range settlements {
		x := &settlements[i]
		a := attempt{x.Token, int32(x.Position)}
		if _, ok := index[a]; ok {
			continue
		}
		index[a] = i
		at := len(ids)
		tokens, positions = append(tokens, x.Token), append(positions, a.position)
		ids, outcomes = append(ids, x.ID), append(outcomes, int16(x.Outcome))
		ordered = ordered || x.Ordered
		if x.Delay != 0 && delays == nil {
			delays = make([]int64, n)
		}
		if delays != nil {
			delays[at] = x.Delay.Microseconds()
		}
		if x.Code != "" {
			if codes == nil {
				codes, summaries = make([]*string, n), make([]*string, n)
			}
			codes[at], summaries[at] = &x.Code, &x.Summary
		}
	}
	recorded = make([]Outcome, n)
	err = s.call(ctx, `SELECT token, pos, outcome FROM `+s.schema+`.settle($1, $2, $3, $4, $5, $6, $7, $8, $9)`,
		[]any{owner, tokens, positions, ids, outcomes, delays, codes, summaries, ordered}, func(rows pgx.Rows) error {
			var (
				a       attempt
				outcome int16
			)
			_, err := pgx.ForEachRow(rows, []any{&a.token, &a.position, &outcome}, func() error {
				if i, ok := index[a]; ok {
					recorded[i] = Outcome(outcome)
				}
				return nil
			})
			return err
		})
	if err != nil {
		return nil, err
	}
	return recorded, nil
}

// ReleaseLeases gives back the jobs of claims whose answer was lost, without
// counting their attempts, and returns how many. It is no error if there are no
// such leases.
func (s *Store) ReleaseLeases(ctx context.Context, owner uuid.UUID, tokens ...uuid.UUID) (jobs int, err error) {
	err = s.callRow(ctx, `SELECT `+s.schema+`.release_leases($1, $2)`, []any{owner, tokens}, &jobs)
	return jobs, err
}
