-- Stable views, for people and for other languages.

-- One row a job that still has its history.
CREATE VIEW {schema}.job_status AS
WITH leased AS (
	SELECT u.id, u.attempt, l.claimed_at, p.name AS locked_by, p.expires_at AS locked_until
	FROM {schema}.leases l
	CROSS JOIN LATERAL unnest(l.job_ids, l.attempts) WITH ORDINALITY u(id, attempt, pos)
	LEFT JOIN {schema}.processes p ON p.id = l.owner
	WHERE get_bit(l.open, u.pos::integer - 1) = 1
)
SELECT j.id, NULLIF(j.organization_id, '') AS organization_id, j.queue, j.kind, j.version,
	{schema}.standing(o.outcome, l.id IS NOT NULL, q.job_id IS NOT NULL, false, b.behind, r.id IS NOT NULL OR b.job_id IS NOT NULL,
		j.capability = ANY ((SELECT {schema}.live_capabilities())::bigint[]), r.attempts > 0, COALESCE(r.run_at, j.run_at) > clock_timestamp()) AS status,
	j.priority, COALESCE(r.run_at, j.run_at) AS run_at,
	COALESCE(o.attempts, l.attempt, r.attempts, 0)::integer AS attempts, j.max_attempts::integer AS max_attempts,
	l.locked_by, l.locked_until,
	e.code AS last_error_code, e.summary AS last_error_summary,
	j.enqueued_at AS created_at, o.finished_at AS completed_at
FROM {schema}.jobs j
LEFT JOIN {schema}.outcomes o ON o.job_id = j.id
LEFT JOIN leased l ON l.id = j.id
LEFT JOIN {schema}.ready r ON r.id = j.id
LEFT JOIN {schema}.order_places b ON b.job_id = j.id AND NOT b.head
LEFT JOIN LATERAL (SELECT q.job_id FROM {schema}.quarantine q WHERE q.job_id = j.id LIMIT 1) q ON true
LEFT JOIN LATERAL (
	SELECT x.code, x.summary FROM {schema}.job_errors x WHERE x.job_id = j.id ORDER BY x.attempt DESC, x.at DESC LIMIT 1
) e ON true;
