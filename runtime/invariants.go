package runtime

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlgo/pawl/internal/store"
)

const (
	// defaultInvariantDays of jobs are those that incidents of now have touched.
	defaultInvariantDays = 2
	// maxViolations bounds how many jobs a [Violation] names.
	maxViolations = 10
)

// ErrInvariant is in the chain of what [Invariants.Err] returns.
var ErrInvariant = errors.New("the books do not add up")

// InvariantOptions say what [CheckInvariants] looks at.
type InvariantOptions struct {
	// Schema is where Pawl's tables are; "pawl" where empty.
	Schema string
	// Days is how many days of jobs, events and outcomes are read through, today's being
	// the first; two where zero, all that there are below zero. Unfinished jobs
	// and pending events are looked at however old they are.
	Days int
}

// Invariants is the answer of [CheckInvariants].
type Invariants struct {
	Ready   int // jobs that wait for their time, for a retry or for a worker
	Leased  int // jobs that workers have
	Blocked int // jobs behind another one of their order key
	// Quarantined are jobs that were found to be without a row, and set aside.
	// They are in no other count. They stay until somebody removes them.
	Quarantined int

	Lost      Violation // neither finished nor unfinished: nobody would ever run them
	Doubled   Violation // in two places at once, finished twice, or stored twice
	Homeless  Violation // unfinished, without the row that holds their payload
	Headless  Violation // first of their order key, yet neither waiting nor leased: the key stands still
	OutOfTurn Violation // waiting or leased, although not the first of their order key
	Stuck     Violation // of order keys whose turn nobody would give

	Events EventInvariants
}

// EventInvariants is what [CheckInvariants] finds of the outbox.
type EventInvariants struct {
	Pending int // events that are not projected yet
	Blocked int // aggregates whose later events wait for a decision about a dead one

	Lost     Violation // neither over nor pending: nobody would ever project them
	Doubled  Violation // in two states at once, over twice, or stored twice
	Homeless Violation // pending, without the row that holds their payload
	Misfiled Violation // pending for another aggregate, or at another place in its order, than they were published
	Stray    Violation // blocking an aggregate although they are not dead, or of another one
}

// Violation is jobs, or events, of which something is true that cannot be.
type Violation struct {
	Jobs int         // or events
	IDs  []uuid.UUID // the first ten
}

// Err is nil where everything is in order, and otherwise an [ErrInvariant] that
// names the violations.
func (i *Invariants) Err() error {
	var errs []error
	for _, v := range []struct {
		what string
		Violation
	}{
		{"events are lost: they are in no state", i.Events.Lost},
		{"events are doubled: they are in more than one state", i.Events.Doubled},
		{"events are pending and have no row", i.Events.Homeless},
		{"events are pending for another aggregate or out of their order", i.Events.Misfiled},
		{"events block an aggregate and are not its dead one", i.Events.Stray},
		{"jobs are lost: they are in no place", i.Lost},
		{"jobs are doubled: they are in more than one place", i.Doubled},
		{"jobs are unfinished and have no row", i.Homeless},
		{"jobs are first of their order key, and neither wait nor run", i.Headless},
		{"jobs wait or run before it is their turn", i.OutOfTurn},
		{"jobs are behind an order key that nobody would give a turn", i.Stuck},
	} {
		if v.Jobs > 0 {
			errs = append(errs, fmt.Errorf("%w: %d %s, such as %v", ErrInvariant, v.Jobs, v.what, v.IDs))
		}
	}
	return errors.Join(errs...)
}

// CheckInvariants holds the books against one another: every unfinished job is
// in exactly one place, every job of the last days is finished once or
// unfinished, and every order key has its one head; every event of the last days
// is over once or pending, and every aggregate that is blocked has its dead event.
// A violation means that somebody has changed rows by hand, that the database has
// lost some, or a bug.
//
// It reads one snapshot for jobs and one for events, and changes nothing. The locks that
// it takes keep nothing waiting but the emptying of old days, so it may run in
// production, such as every hour or after a restore: beside a million finished
// jobs and a hundred thousand waiting ones it takes a few seconds.
//
//	found, err := pawlrt.CheckInvariants(ctx, pool, pawlrt.InvariantOptions{})
//	if err != nil {
//		return err
//	}
//	return found.Err()
func CheckInvariants(ctx context.Context, pool *pgxpool.Pool, opts InvariantOptions) (*Invariants, error) {
	st, err := store.Open(ctx, pool, cmp.Or(opts.Schema, store.DefaultSchema), 1)
	if err != nil {
		return nil, err
	}
	defer st.Close()
	v, err := st.Invariants(ctx, cmp.Or(opts.Days, defaultInvariantDays), maxViolations)
	if err != nil {
		return nil, fmt.Errorf("check the invariants: %w", err)
	}
	e, err := st.EventInvariants(ctx, cmp.Or(opts.Days, defaultInvariantDays), maxViolations)
	if err != nil {
		return nil, fmt.Errorf("check the invariants of events: %w", err)
	}
	return &Invariants{
		Ready: v.Ready, Leased: v.Leased, Blocked: v.Blocked, Quarantined: v.Quarantined,
		Lost: Violation(v.Lost), Doubled: Violation(v.Doubled), Homeless: Violation(v.Homeless),
		Headless: Violation(v.Headless), OutOfTurn: Violation(v.OutOfTurn), Stuck: Violation(v.Stuck),
		Events: EventInvariants{
			Pending: e.Pending, Blocked: e.Blocked, Lost: Violation(e.Lost), Doubled: Violation(e.Doubled),
			Homeless: Violation(e.Homeless), Misfiled: Violation(e.Misfiled), Stray: Violation(e.Stray),
		},
	}, nil
}
