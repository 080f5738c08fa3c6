package store

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

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
	err = s.inSnapshot(ctx, s.schema+`.events, `+s.schema+`.event_outcomes`, func(tx pgx.Tx) error {
		first := 0
		if err := tx.QueryRow(ctx, `SELECT `+s.schema+`.day_of(clock_timestamp()) - $1::integer + 1,
			(SELECT count(*) FROM `+s.schema+`.pending_events), (SELECT count(*) FROM `+s.schema+`.blocked_aggregates)`,
			days).Scan(&first, &v.Pending, &v.Blocked); err != nil {
			return err
		}
		if days < 1 {
			first = 0
		}
		for _, l := range []look{
			{&v.Lost, fmt.Sprintf(`SELECT e.id FROM %[1]s.events e WHERE e.day >= %[2]d
				AND NOT EXISTS (SELECT FROM %[1]s.event_outcomes o WHERE o.event_id = e.id AND o.day >= %[2]d)
				AND NOT EXISTS (SELECT FROM %[1]s.pending_events p WHERE p.id = e.id)
				AND NOT EXISTS (SELECT FROM %[1]s.quarantine q WHERE q.job_id = e.id)`, s.schema, first)},
			{&v.Doubled, fmt.Sprintf(`SELECT x.id FROM (
					SELECT p.id FROM %[1]s.pending_events p
					UNION ALL
					SELECT o.event_id FROM %[1]s.event_outcomes o WHERE o.day >= %[2]d
				) x GROUP BY x.id HAVING count(*) > 1
				UNION
				SELECT e.id FROM %[1]s.events e WHERE e.day >= %[2]d GROUP BY e.id HAVING count(*) > 1`, s.schema, first)},
			{&v.Homeless, fmt.Sprintf(`SELECT p.id FROM %[1]s.pending_events p
				WHERE NOT EXISTS (SELECT FROM %[1]s.events e WHERE e.day = p.day AND e.id = p.id)
				AND NOT EXISTS (SELECT FROM %[1]s.quarantine q WHERE q.job_id = p.id)`, s.schema)},
			{&v.Misfiled, fmt.Sprintf(`SELECT p.id FROM %[1]s.pending_events p JOIN %[1]s.events e ON e.day = p.day AND e.id = p.id
				WHERE p.seq <> e.seq OR p.capability <> e.capability OR p.aggregate <> %[1]s.aggregate_of(e.aggregate_type, e.aggregate_id)`, s.schema)},
			{&v.Stray, fmt.Sprintf(`SELECT b.event_id FROM %[1]s.blocked_aggregates b LEFT JOIN %[1]s.dead_events d ON d.event_id = b.event_id
				WHERE d.event_id IS NULL OR b.aggregate <> %[1]s.aggregate_of(d.aggregate_type, d.aggregate_id)`, s.schema)},
		} {
			if err := l.find(ctx, tx, most); err != nil {
				return err
			}
		}
		return nil
	})
	return v, err
}
