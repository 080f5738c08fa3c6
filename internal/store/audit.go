package store

import "context"

// Audit is what the books say: where the jobs are that still have their
// history, and what cannot be.
type Audit struct {
	Ready, Leased, Blocked, Completed, Dead, Cancelled int

	Lost        int // in no place at all
	Doubled     int // in more than one place
	Homeless    int // waiting or leased, without a row of their own
	Quarantined int
}

// Audit counts. It reads every row, so it is for tests and for tools, not for
// a metric.
func (s *Store) Audit(ctx context.Context) (Audit, error) {
	var a Audit
	err := s.callRow(ctx, `
		WITH place AS (
			SELECT r.id, 'ready' AS place FROM `+s.schema+`.ready r
			UNION ALL
			SELECT u.id, 'leased' FROM `+s.schema+`.leases l
			CROSS JOIN LATERAL unnest(l.job_ids) WITH ORDINALITY u(id, pos) WHERE get_bit(l.open, u.pos::integer - 1) = 1
			UNION ALL
			SELECT o.job_id, 'blocked' FROM `+s.schema+`.ordered o WHERE NOT o.head
			UNION ALL
			SELECT o.job_id, CASE o.outcome WHEN 1 THEN 'completed' WHEN 3 THEN 'dead' ELSE 'cancelled' END FROM `+s.schema+`.outcomes o
		), placed AS (
			SELECT p.id, count(*) AS n, min(p.place) AS place FROM place p GROUP BY p.id
		)
		SELECT count(*) FILTER (WHERE place = 'ready'), count(*) FILTER (WHERE place = 'leased'), count(*) FILTER (WHERE place = 'blocked'),
			count(*) FILTER (WHERE place = 'completed'), count(*) FILTER (WHERE place = 'dead'), count(*) FILTER (WHERE place = 'cancelled'),
			count(*) FILTER (WHERE p.id IS NULL), count(*) FILTER (WHERE n > 1),
			count(*) FILTER (WHERE j.id IS NULL AND place IN ('ready', 'leased', 'blocked')),
			(SELECT count(*) FROM `+s.schema+`.quarantine)
		FROM `+s.schema+`.jobs j FULL JOIN placed p ON p.id = j.id
		WHERE NOT EXISTS (SELECT FROM `+s.schema+`.quarantine q WHERE q.job_id = COALESCE(j.id, p.id))`,
		nil, &a.Ready, &a.Leased, &a.Blocked, &a.Completed, &a.Dead, &a.Cancelled, &a.Lost, &a.Doubled, &a.Homeless, &a.Quarantined)
	return a, err
}
