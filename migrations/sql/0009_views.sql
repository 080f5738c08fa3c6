-- Stable views, for people and for other languages.

-- One row a job that still has its history.
CREATE VIEW {schema}.job_status AS
WITH leased AS (
	SELECT u.id, u.attempt, l.claimed_at, p.name AS locked_by, p.expires_at AS locked_until
	FROM {schema}.leases l
	CROSS JOIN LATERAL unnest(l.job_ids, l.attempts) WITH ORDINALITY u(id, attempt, pos)
	LEFT JOIN {schema}.processes p ON p.id = l.owner
	WHERE get_bit(l.open, u.pos::integer - 1) = 1
), live AS (
	SELECT p.capabilities FROM {schema}.processes p WHERE p.expires_at > clock_timestamp()
)
SELECT j.id, NULLIF(j.organization_id, '') AS organization_id, j.queue, j.kind, j.version,
	CASE
		WHEN o.outcome = 1 THEN 'completed'
		WHEN o.outcome = 3 THEN 'dead'
		WHEN o.outcome = 5 THEN 'cancelled'
		WHEN l.id IS NOT NULL THEN 'leased'
		WHEN r.id IS NULL AND b.job_id IS NULL THEN 'lost'
		WHEN r.id IS NULL AND EXISTS (SELECT FROM {schema}.ordered x WHERE x.order_key = b.order_key AND x.seq < b.seq) THEN 'blocked'
		-- Without any live worker nothing can be said of what workers know.
		WHEN EXISTS (SELECT FROM live) AND j.capability NOT IN (SELECT unnest(live.capabilities) FROM live) THEN 'stranded'
		WHEN r.attempts > 0 THEN 'retrying'
		WHEN COALESCE(r.run_at, j.run_at) > clock_timestamp() THEN 'scheduled'
		ELSE 'pending'
	END AS status,
	j.priority, COALESCE(r.run_at, j.run_at) AS run_at,
	COALESCE(o.attempts, l.attempt, r.attempts, 0)::integer AS attempts, j.max_attempts::integer AS max_attempts,
	l.locked_by, l.locked_until,
	e.code AS last_error_code, e.summary AS last_error_summary,
	j.enqueued_at AS created_at, o.finished_at AS completed_at
FROM {schema}.jobs j
LEFT JOIN {schema}.outcomes o ON o.job_id = j.id
LEFT JOIN leased l ON l.id = j.id
LEFT JOIN {schema}.ready r ON r.id = j.id
LEFT JOIN {schema}.ordered b ON b.job_id = j.id AND NOT b.head
LEFT JOIN LATERAL (
	SELECT x.code, x.summary FROM {schema}.job_errors x WHERE x.job_id = j.id ORDER BY x.attempt DESC, x.at DESC LIMIT 1
) e ON true;
