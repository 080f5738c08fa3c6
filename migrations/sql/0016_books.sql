-- The books: what the invariants say cannot be, found by holding everything against
-- everything. They read every row of some days, so they are for tests and for people.
-- Who asks may be somebody who reads no payload and no key, so they run as the owner.
--
-- Both take a lock that keeps days from being emptied, and look afterwards, in one
-- statement and so in one snapshot: at READ COMMITTED one that is younger than the lock.

-- Counts of unfinished jobs, and the jobs of which something is true that cannot be:
-- how many, and p_most of their ids. Of what is over, the last p_days are read, today
-- being one; below one all are. What has been set aside in quarantine is counted there
-- alone.
CREATE FUNCTION {schema}.job_books(p_days integer, p_most integer) RETURNS TABLE (what text, found bigint, ids uuid[])
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = {schema}, pg_temp
SET plan_cache_mode = force_custom_plan
SET jit = off
SET max_parallel_workers_per_gather = 0
SET work_mem = '64MB'
AS $$
DECLARE
	v_since integer := CASE WHEN p_days < 1 THEN 0 ELSE day_of(clock_timestamp()) - p_days + 1 END;
BEGIN
	LOCK TABLE jobs, outcomes IN ACCESS SHARE MODE;
	RETURN QUERY
	WITH place AS (
		SELECT u.place, count(*) AS n FROM unfinished u GROUP BY u.place
	), lost AS MATERIALIZED ( -- in no place, neither finished nor unfinished
		SELECT j.id FROM jobs j WHERE j.day >= v_since
			AND NOT EXISTS (SELECT FROM outcomes o WHERE o.job_id = j.id AND o.day >= v_since)
			AND NOT EXISTS (SELECT FROM unfinished u WHERE u.id = j.id)
			AND NOT EXISTS (SELECT FROM quarantine q WHERE q.job_id = j.id)
	), doubled AS MATERIALIZED ( -- in two places, or with two rows
		SELECT x.id FROM (
			SELECT u.id FROM unfinished u
			UNION ALL
			SELECT o.job_id FROM outcomes o WHERE o.day >= v_since
		) x GROUP BY x.id HAVING count(*) > 1
		UNION
		SELECT u.id FROM unfinished u JOIN jobs j ON j.id = u.id AND j.day <> u.day AND j.day >= v_since
	), homeless AS MATERIALIZED ( -- unfinished, without a row
		SELECT u.id FROM unfinished u
		WHERE NOT EXISTS (SELECT FROM jobs j WHERE j.id = u.id AND j.day = u.day)
			AND NOT EXISTS (SELECT FROM quarantine q WHERE q.job_id = u.id)
	), headless AS MATERIALIZED ( -- first of their order key, and neither waiting nor leased
		SELECT o.job_id AS id FROM ordered o
		WHERE o.head AND NOT EXISTS (SELECT FROM unfinished u WHERE u.id = o.job_id AND u.place <> 'blocked')
	), out_of_turn AS MATERIALIZED ( -- waiting or leased, although the head of their order key is another
		SELECT u.id FROM unfinished u JOIN jobs j ON j.day = u.day AND j.id = u.id
		WHERE u.place <> 'blocked' AND j.order_key IS NOT NULL
			AND NOT EXISTS (SELECT FROM ordered o WHERE o.job_id = u.id AND o.head)
	), stuck AS MATERIALIZED ( -- of order keys that nobody would give a turn
		SELECT o.job_id AS id FROM ordered o
		WHERE NOT EXISTS (SELECT FROM ordered h WHERE h.order_key = o.order_key AND h.head)
			AND NOT EXISTS (SELECT FROM order_turns t WHERE t.order_key = o.order_key)
	)
	SELECT p.place, p.n, '{}'::uuid[] FROM place p
	UNION ALL SELECT 'quarantined', (SELECT count(*) FROM quarantine), '{}'
	UNION ALL SELECT 'lost', (SELECT count(*) FROM lost), ARRAY(SELECT x.id FROM lost x LIMIT p_most)
	UNION ALL SELECT 'doubled', (SELECT count(*) FROM doubled), ARRAY(SELECT x.id FROM doubled x LIMIT p_most)
	UNION ALL SELECT 'homeless', (SELECT count(*) FROM homeless), ARRAY(SELECT x.id FROM homeless x LIMIT p_most)
	UNION ALL SELECT 'headless', (SELECT count(*) FROM headless), ARRAY(SELECT x.id FROM headless x LIMIT p_most)
	UNION ALL SELECT 'out of turn', (SELECT count(*) FROM out_of_turn), ARRAY(SELECT x.id FROM out_of_turn x LIMIT p_most)
	UNION ALL SELECT 'stuck', (SELECT count(*) FROM stuck), ARRAY(SELECT x.id FROM stuck x LIMIT p_most);
END $$;

-- The same of events. What has been set aside in quarantine is left out.
CREATE FUNCTION {schema}.event_books(p_days integer, p_most integer) RETURNS TABLE (what text, found bigint, ids uuid[])
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = {schema}, pg_temp
SET plan_cache_mode = force_custom_plan
SET jit = off
SET max_parallel_workers_per_gather = 0
SET work_mem = '64MB'
AS $$
DECLARE
	v_since integer := CASE WHEN p_days < 1 THEN 0 ELSE day_of(clock_timestamp()) - p_days + 1 END;
BEGIN
	LOCK TABLE events, event_outcomes IN ACCESS SHARE MODE;
	RETURN QUERY
	WITH lost AS MATERIALIZED ( -- neither over nor pending
		SELECT e.id FROM events e WHERE e.day >= v_since
			AND NOT EXISTS (SELECT FROM event_outcomes o WHERE o.event_id = e.id AND o.day >= v_since)
			AND NOT EXISTS (SELECT FROM pending_events p WHERE p.id = e.id)
			AND NOT EXISTS (SELECT FROM quarantine q WHERE q.job_id = e.id)
	), doubled AS MATERIALIZED ( -- pending and over, pending twice, over twice, or with two rows
		SELECT x.id FROM (
			SELECT p.id FROM pending_events p
			UNION ALL
			SELECT o.event_id FROM event_outcomes o WHERE o.day >= v_since
		) x GROUP BY x.id HAVING count(*) > 1
		UNION
		SELECT e.id FROM events e WHERE e.day >= v_since GROUP BY e.id HAVING count(*) > 1
	), homeless AS MATERIALIZED ( -- pending, without a row
		SELECT p.id FROM pending_events p
		WHERE NOT EXISTS (SELECT FROM events e WHERE e.day = p.day AND e.id = p.id)
			AND NOT EXISTS (SELECT FROM quarantine q WHERE q.job_id = p.id)
	), misfiled AS MATERIALIZED ( -- pending under another aggregate, or another number, than their row says
		SELECT p.id FROM pending_events p JOIN events e ON e.day = p.day AND e.id = p.id
		WHERE p.seq <> e.seq OR p.capability <> e.capability OR p.aggregate <> aggregate_of(e.aggregate_type, e.aggregate_id)
	), stray AS MATERIALIZED ( -- held to block an aggregate, and not dead, or of another one
		SELECT b.event_id AS id FROM blocked_aggregates b LEFT JOIN dead_events d ON d.event_id = b.event_id
		WHERE d.event_id IS NULL OR b.aggregate <> aggregate_of(d.aggregate_type, d.aggregate_id)
	)
	SELECT 'pending', (SELECT count(*) FROM pending_events), '{}'::uuid[]
	UNION ALL SELECT 'blocked', (SELECT count(*) FROM blocked_aggregates), '{}'
	UNION ALL SELECT 'lost', (SELECT count(*) FROM lost), ARRAY(SELECT x.id FROM lost x LIMIT p_most)
	UNION ALL SELECT 'doubled', (SELECT count(*) FROM doubled), ARRAY(SELECT x.id FROM doubled x LIMIT p_most)
	UNION ALL SELECT 'homeless', (SELECT count(*) FROM homeless), ARRAY(SELECT x.id FROM homeless x LIMIT p_most)
	UNION ALL SELECT 'misfiled', (SELECT count(*) FROM misfiled), ARRAY(SELECT x.id FROM misfiled x LIMIT p_most)
	UNION ALL SELECT 'stray', (SELECT count(*) FROM stray), ARRAY(SELECT x.id FROM stray x LIMIT p_most);
END $$;
