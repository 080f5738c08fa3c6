-- Samples: what gauges show of the database, read by one process at a time.

-- One row. Who finds it due and puts that off has its turn to take the next
-- sample; the others read the last one, and wait for nobody.
CREATE TABLE {schema}.samples (
	one        boolean     PRIMARY KEY DEFAULT true CHECK (one),
	due_at     timestamptz NOT NULL DEFAULT '-infinity', -- when the next one may be taken
	sampled_at timestamptz,                              -- NULL: never
	took       interval    NOT NULL DEFAULT '0',
	taken      bigint      NOT NULL DEFAULT 0,           -- how many there have been
	failed     integer     NOT NULL DEFAULT 0,           -- turns since the last one that came to nothing, or are under way
	sample     jsonb
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
INSERT INTO {schema}.samples DEFAULT VALUES;

-- The part of a table, in percent, that makes about so many pages: 100 of one
-- that has no more.
CREATE FUNCTION {schema}.sample_percent(p_table text, p_pages integer) RETURNS real
LANGUAGE sql STABLE
SET search_path = {schema}, pg_temp
AS $$
	SELECT LEAST(100, 100.0 * p_pages / GREATEST(pg_relation_size(p_table::regclass) / current_setting('block_size')::integer, 1))::real
$$;

-- Looks at what waits, runs and is dead. The cost has a bound that the size of
-- the tables is no part of: of each queue, what is due and what is not is counted
-- along the index up to p_bound jobs. Where there are more, what was found in
-- p_pages pages of the table stands for the rest. So does it where no index has
-- the queue, in tables of more pages than that.
CREATE FUNCTION {schema}.sample_jobs(p_bound integer, p_pages integer) RETURNS jsonb
LANGUAGE plpgsql VOLATILE
SET search_path = {schema}, pg_temp
{pinned}
AS $$
#variable_conflict use_column
DECLARE
	v_now     timestamptz := clock_timestamp();
	v_known   bigint[]    := ARRAY(SELECT DISTINCT c FROM processes p CROSS JOIN LATERAL unnest(p.capabilities) c WHERE p.expires_at > v_now);
	v_ready   real        := sample_percent('ready', p_pages);
	v_dead    real        := sample_percent('dead_letters', p_pages);
	v_ordered real        := sample_percent('ordered', p_pages);
	v_answer  jsonb;
BEGIN
	WITH RECURSIVE steps (queue) AS (
		(SELECT r.queue FROM ready r WHERE NOT r.suspect ORDER BY r.queue LIMIT 1)
		UNION ALL
		SELECT (SELECT r.queue FROM ready r WHERE NOT r.suspect AND r.queue > s.queue ORDER BY r.queue LIMIT 1)
		FROM steps s WHERE s.queue IS NOT NULL
	), queues AS MATERIALIZED (
		SELECT s.queue FROM (SELECT s.queue FROM steps s LIMIT 1000) s WHERE s.queue IS NOT NULL
	), suspects AS MATERIALIZED (
		SELECT r.queue, r.run_at, r.capability, r.attempts, r.ctid AS at FROM ready r WHERE r.suspect
		ORDER BY r.queue, r.priority DESC, r.run_at, r.id LIMIT p_bound
	), walked AS MATERIALIZED (
		SELECT x.queue, x.due, x.capability, x.tried, count(*) AS jobs, min(x.run_at) AS oldest, min(x.at) AS one FROM (
			SELECT q.queue, d.due, w.* FROM queues q
			CROSS JOIN (VALUES (true, '-infinity'::timestamptz, v_now), (false, v_now, 'infinity'::timestamptz)) d(due, after, until)
			CROSS JOIN LATERAL (
				SELECT f.* FROM generate_series(4, 1, -1) p(priority)
				CROSS JOIN LATERAL (
					SELECT r.capability, r.attempts > 0 AS tried, r.run_at, r.ctid AS at FROM ready r
					WHERE r.queue = q.queue AND r.priority = p.priority::smallint AND NOT r.suspect AND r.run_at > d.after AND r.run_at <= d.until
					ORDER BY r.run_at LIMIT p_bound) f
				LIMIT p_bound) w
			UNION ALL
			SELECT s.queue, s.run_at <= v_now, s.capability, s.attempts > 0, s.run_at, s.at FROM suspects s) x
		GROUP BY x.queue, x.due, x.capability, x.tried
	), full_sides AS MATERIALIZED (
		SELECT w.queue, w.due FROM walked w GROUP BY w.queue, w.due HAVING sum(w.jobs) >= p_bound
	), oldest AS (
		SELECT x.queue, min(x.run_at) AS run_at FROM (
			SELECT w.queue, w.oldest AS run_at FROM walked w WHERE w.due
			UNION ALL
			-- A walk that ended at the bound may not have come to every priority.
			SELECT f.queue, r.run_at FROM full_sides f CROSS JOIN generate_series(1, 4) p(priority)
			CROSS JOIN LATERAL (
				SELECT r.run_at FROM ready r
				WHERE r.queue = f.queue AND r.priority = p.priority::smallint AND NOT r.suspect AND r.run_at <= v_now
				ORDER BY r.run_at LIMIT 1) r
			WHERE f.due) x
		GROUP BY x.queue
	), sampled AS MATERIALIZED (
		SELECT r.queue, r.run_at <= v_now AS due, r.capability, r.attempts > 0 AS tried,
			round(count(*) * 100 / v_ready::numeric)::bigint AS jobs, min(r.ctid) AS one
		FROM ready r TABLESAMPLE SYSTEM (v_ready)
		WHERE EXISTS (SELECT FROM full_sides)
		GROUP BY r.queue, r.run_at <= v_now, r.capability, r.attempts > 0
	), estimated AS MATERIALIZED (
		SELECT f.queue, f.due FROM full_sides f
		WHERE (SELECT sum(s.jobs) FROM sampled s WHERE s.queue = f.queue AND s.due = f.due) >= p_bound
	), waiting AS (
		SELECT w.queue, w.due, w.tried, w.jobs FROM walked w
		WHERE NOT EXISTS (SELECT FROM estimated e WHERE e.queue = w.queue AND e.due = w.due)
		UNION ALL
		SELECT s.queue, s.due, s.tried, s.jobs FROM sampled s
		WHERE EXISTS (SELECT FROM estimated e WHERE e.queue = s.queue AND e.due = s.due)
	), leased AS (
		SELECT l.queue, sum(bit_count(l.open)) AS jobs FROM leases l GROUP BY l.queue
	), dead AS (
		SELECT d.queue, round(count(*) * 100 / v_dead::numeric) AS jobs FROM dead_letters d TABLESAMPLE SYSTEM (v_dead) GROUP BY d.queue
	), blocked AS (
		SELECT o.queue, round(count(*) * 100 / v_ordered::numeric) AS jobs FROM ordered o TABLESAMPLE SYSTEM (v_ordered) WHERE NOT o.head GROUP BY o.queue
	), counts AS (
		SELECT x.queue, sum(x.pending) AS pending, sum(x.scheduled) AS scheduled, sum(x.retrying) AS retrying, sum(x.leased) AS leased,
			sum(x.blocked) AS blocked, sum(x.dead) AS dead
		FROM (
			SELECT w.queue, CASE WHEN w.due THEN w.jobs ELSE 0 END, CASE WHEN w.due OR w.tried THEN 0 ELSE w.jobs END,
				CASE WHEN NOT w.due AND w.tried THEN w.jobs ELSE 0 END, 0, 0, 0 FROM waiting w
			UNION ALL SELECT l.queue, 0, 0, 0, l.jobs, 0, 0 FROM leased l
			UNION ALL SELECT b.queue, 0, 0, 0, 0, b.jobs, 0 FROM blocked b
			UNION ALL SELECT d.queue, 0, 0, 0, 0, 0, d.jobs FROM dead d
			-- Those that have nothing show that they have nothing.
			UNION ALL SELECT q.queue, 0, 0, 0, 0, 0, 0 FROM processes p CROSS JOIN LATERAL unnest(p.queues) q(queue) WHERE p.expires_at > v_now
		) x (queue, pending, scheduled, retrying, leased, blocked, dead)
		GROUP BY x.queue
	), stranded AS (
		-- The walk sees the oldest ones, among which they gather; the sample sees how many there may be.
		SELECT x.queue, x.due, x.capability, max(x.jobs) AS jobs, min(x.one) AS one FROM (
			SELECT w.queue, w.due, w.capability, sum(w.jobs) AS jobs, min(w.one) AS one
			FROM walked w GROUP BY w.queue, w.due, w.capability
			UNION ALL
			SELECT s.queue, s.due, s.capability, sum(s.jobs), min(s.one)
			FROM sampled s WHERE EXISTS (SELECT FROM estimated e WHERE e.queue = s.queue AND e.due = s.due) GROUP BY s.queue, s.due, s.capability) x
		WHERE x.capability <> ALL (v_known)
		GROUP BY x.queue, x.due, x.capability
	)
	SELECT jsonb_build_object(
		'queues', COALESCE((
			SELECT jsonb_agg(jsonb_build_object('queue', c.queue, 'pending', c.pending, 'scheduled', c.scheduled, 'retrying', c.retrying,
				'leased', c.leased, 'blocked', c.blocked, 'dead', c.dead,
				'oldest_us', COALESCE((extract(epoch FROM v_now - o.run_at) * 1000000)::bigint, 0),
				'estimated', EXISTS (SELECT FROM estimated e WHERE e.queue = c.queue) OR (c.dead > 0 AND v_dead < 100) OR (c.blocked > 0 AND v_ordered < 100))
				ORDER BY c.queue)
			FROM counts c LEFT JOIN oldest o ON o.queue = c.queue), '[]'),
		'stranded', COALESCE((
			SELECT jsonb_agg(jsonb_build_object('queue', x.queue, 'kind', COALESCE(x.kind, ''), 'jobs', x.jobs) ORDER BY x.queue, x.kind)
			FROM (
				SELECT s.queue, j.kind, sum(s.jobs) AS jobs FROM stranded s
				LEFT JOIN LATERAL (
					SELECT k.kind FROM ready r JOIN jobs j ON j.day = r.day AND j.id = r.id JOIN kinds k ON k.kind = j.kind WHERE r.ctid = s.one) j ON true
				GROUP BY s.queue, j.kind) x), '[]'))
	INTO v_answer;
	RETURN v_answer;
END $$;

-- Looks at what is published and not projected, likewise.
CREATE FUNCTION {schema}.sample_events(p_bound integer, p_pages integer) RETURNS jsonb
LANGUAGE plpgsql VOLATILE
SET search_path = {schema}, pg_temp
{pinned}
AS $$
#variable_conflict use_column
DECLARE
	v_now     timestamptz := clock_timestamp();
	v_known   bigint[]    := ARRAY(SELECT DISTINCT c FROM processes p CROSS JOIN LATERAL unnest(p.capabilities) c WHERE p.expires_at > v_now);
	v_pending real        := sample_percent('pending_events', p_pages);
	v_answer  jsonb;
BEGIN
	WITH walked AS MATERIALIZED (
		SELECT x.capability, count(*) AS events, min(x.published_at) AS oldest, min(x.at) AS one
		FROM (SELECT p.capability, p.published_at, p.ctid AS at FROM pending_events p ORDER BY p.available_at LIMIT p_bound) x GROUP BY x.capability
	), put_off AS MATERIALIZED (
		-- The walk may end before it comes to those that wait for another attempt.
		SELECT x.capability, count(*) AS events, min(x.published_at) AS oldest, min(x.at) AS one
		FROM (SELECT p.capability, p.published_at, p.ctid AS at FROM pending_events p WHERE p.available_at > p.published_at
			ORDER BY p.published_at LIMIT p_bound) x GROUP BY x.capability
	), sampled AS MATERIALIZED (
		SELECT p.capability, round(count(*) * 100 / v_pending::numeric) AS events, min(p.published_at) AS oldest, min(p.ctid) AS one
		FROM pending_events p TABLESAMPLE SYSTEM (v_pending)
		WHERE (SELECT sum(w.events) FROM walked w) >= p_bound GROUP BY p.capability
	), types AS (
		SELECT x.capability, max(x.events) AS events, min(x.oldest) AS oldest, min(x.one) AS one
		FROM (SELECT * FROM walked UNION ALL SELECT * FROM put_off UNION ALL SELECT * FROM sampled) x GROUP BY x.capability
	)
	SELECT jsonb_build_object(
		'blocked', (SELECT count(*) FROM blocked_aggregates),
		'estimated', EXISTS (SELECT FROM sampled),
		'events', COALESCE((
			SELECT jsonb_agg(jsonb_build_object('type', COALESCE(e.type, ''), 'events', t.events,
				'oldest_us', (extract(epoch FROM v_now - t.oldest) * 1000000)::bigint, 'known', t.capability = ANY (v_known)) ORDER BY e.type)
			FROM types t
			LEFT JOIN LATERAL (
				SELECT e.type FROM pending_events p JOIN events e ON e.day = p.day AND e.id = p.id WHERE p.ctid = t.one) e ON true), '[]'))
	INTO v_answer;
	RETURN v_answer;
END $$;

-- Looks at the server: what keeps vacuum from removing dead rows, how many of
-- those there are, and how full the queue of notifications is. Since when the
-- sessions of other roles are in a transaction is for members of pg_read_all_stats to
-- see; horizon_us is NULL where it would be about such a session alone.
CREATE FUNCTION {schema}.sample_server() RETURNS jsonb
LANGUAGE sql VOLATILE
SET search_path = {schema}, pg_temp
SET jit = off
AS $$
	WITH holders AS (
		SELECT a.xact_start AS since, GREATEST(age(a.backend_xmin), age(a.backend_xid)) AS behind, a.backend_type IS NULL AS hidden FROM pg_stat_activity a
		WHERE a.pid <> pg_backend_pid() AND (a.datname = current_database() OR a.datname IS NULL)
			AND a.backend_type IS DISTINCT FROM 'autovacuum worker' AND (a.backend_type IS NOT NULL OR a.usesysid IS NOT NULL)
			AND (a.backend_xmin IS NOT NULL OR a.backend_xid IS NOT NULL)
		UNION ALL
		SELECT p.prepared, age(p.transaction), false FROM pg_prepared_xacts p WHERE p.database = current_database()
		UNION ALL
		SELECT NULL, age(s.xmin), false FROM pg_replication_slots s WHERE s.xmin IS NOT NULL
	)
	SELECT jsonb_build_object(
		'horizon_us', (
			SELECT CASE WHEN max(h.behind) FILTER (WHERE h.hidden) >= COALESCE(max(h.behind) FILTER (WHERE NOT h.hidden), 0) THEN NULL
				ELSE COALESCE((extract(epoch FROM max(clock_timestamp() - h.since)) * 1000000)::bigint, 0) END
			FROM holders h),
		'horizon_transactions', (SELECT COALESCE(max(h.behind), 0) FROM holders h),
		'notifications', pg_notification_queue_usage(),
		'dead_rows', (
			SELECT jsonb_object_agg(t.name, COALESCE(pg_stat_get_dead_tuples(to_regclass(t.name)), 0))
			FROM unnest('{ready,leases,processes,ordered,order_turns,sleepers,idempotency_keys,pending_events}'::text[]) t(name)))
$$;

-- Answers the last sample, its age, and whether the caller has its turn to take
-- the next one, for which it has the time p_limit_us. If nothing comes of that,
-- another has its turn after twice that time; each time that happens in a row the
-- pause doubles, so that what takes too long is tried for one part in p_share of
-- the time at last.
CREATE FUNCTION {schema}.sample(p_limit_us bigint, p_share integer, OUT sample text, OUT age_us bigint, OUT turn boolean)
LANGUAGE plpgsql VOLATILE
SET search_path = {schema}, pg_temp
AS $$
#variable_conflict use_column
BEGIN
	UPDATE samples s SET failed = LEAST(s.failed + 1, 20),
		due_at = clock_timestamp() + LEAST(2 * 2 ^ s.failed, p_share) * p_limit_us * interval '1 microsecond'
	FROM (SELECT x.one FROM samples x WHERE x.due_at <= clock_timestamp() FOR UPDATE SKIP LOCKED) due
	WHERE s.one = due.one;
	turn := FOUND;
	SELECT s.sample::text, (extract(epoch FROM clock_timestamp() - s.sampled_at) * 1000000)::bigint INTO sample, age_us FROM samples s;
	IF NOT FOUND THEN -- restored without its data, say
		INSERT INTO samples DEFAULT VALUES ON CONFLICT DO NOTHING;
	END IF;
END $$;

-- Takes a sample, for who has its turn. The next one may be taken when p_every_us
-- have passed, and so much later that samples have one part in p_share of the
-- time.
CREATE FUNCTION {schema}.take_sample(p_every_us bigint, p_share integer, p_bound integer, p_pages integer) RETURNS text
LANGUAGE plpgsql VOLATILE
SET search_path = {schema}, pg_temp
AS $$
DECLARE
	v_began  timestamptz := clock_timestamp();
	v_sample jsonb       := sample_jobs(p_bound, p_pages) || jsonb_build_object('outbox', sample_events(p_bound, p_pages), 'server', sample_server());
	v_took   interval    := clock_timestamp() - v_began;
BEGIN
	UPDATE samples s SET sampled_at = v_began, took = v_took, taken = s.taken + 1, failed = 0, sample = v_sample,
		due_at = v_began + GREATEST(p_every_us * interval '1 microsecond', p_share * v_took);
	RETURN v_sample::text;
END $$;
