package store

import "context"

// EventInvariants is the answer of [Store.EventInvariants]. What has been set
// aside in quarantine is left out.
type EventInvariants struct {
	Pending, Blocked int // events that are not projected, and aggregates that wait for a decision

	Lost     Violation // neither over nor pending
	Doubled  Violation // pending and over, pending twice, over twice, or with two rows
	Homeless Violation // pending, without a row
	Misfiled Violation // pending under another aggregate, or another number, than their row says
	Stray    Violation // held to block an aggregate, and not dead, or of another one
}

// EventInvariants is [Store.Invariants] of the outbox.
func (s *Store) EventInvariants(ctx context.Context, days, most int) (v EventInvariants, err error) {
	err = s.books(ctx, "event_books", days, most, map[string]any{
		"pending": &v.Pending, "blocked": &v.Blocked,
		"lost": &v.Lost, "doubled": &v.Doubled, "homeless": &v.Homeless, "misfiled": &v.Misfiled, "stray": &v.Stray,
	})
	return v, err
}
