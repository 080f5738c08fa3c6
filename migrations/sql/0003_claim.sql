-- Claim: waiting jobs become leases of the caller's in one statement.

-- Takes due jobs of each of p_queues, at most as many as p_limits says, under the
-- queue's part of p_tokens, which has the same number of them for each, one for every
-- 128 jobs. p_capabilities are those of the first queue, then those of the next one
-- and so on, and p_ends says where the part of each ends. p_floors are four for each
-- queue, run_at bounds below which nothing is looked for, one a priority from the
-- highest down: hints that spare the walk over dead index entries. p_sleep says
-- whether the process wants to be woken for a queue from now on, if the claim does
-- not fill up; NULL where it did not and does not. It has to look once more after that.
--
-- Of the first queue one suspect is taken before anything else, under p_suspect_token,
-- where that is given. What follows is for a claim of one queue: jobs of the
-- capabilities in p_alone get a lease each, under tokens of p_alone_tokens, of which
-- there are as many as the limit; and p_ordered says that some of its jobs have order
-- keys.
--
-- Answers a row a job, and then for each queue a row without a job: in attempt, which
-- queue it is for; the time of the claim; in pos, 1 if suspects are due still, plus 2
-- if order keys are left whose turn may have come, plus 4 if the queue is paused;
-- and, where the claim may not have filled up, when the next job becomes due.
-- A claimer that is not registered gets SQLSTATE PW001.
CREATE FUNCTION {schema}.claim(
	p_owner uuid, p_queues text[], p_limits integer[], p_tokens uuid[], p_capabilities bigint[], p_ends integer[], p_floors timestamptz[],
	p_sleep boolean[] DEFAULT NULL, p_suspect_token uuid DEFAULT NULL, p_alone bigint[] DEFAULT NULL, p_alone_tokens uuid[] DEFAULT NULL,
	p_ordered boolean DEFAULT false)
RETURNS TABLE (
	token uuid, pos integer, id uuid, attempt integer, priority smallint, run_at timestamptz,
	kind text, version integer, organization_id text, max_attempts integer, enqueued_at timestamptz, trace_context text,
	ordered boolean, cancelled boolean, args text)
LANGUAGE plpgsql VOLATILE
SET search_path = {schema}, pg_temp
{pinned}
SET enable_memoize = off -- no job is looked up twice
SET lock_timeout = '5s'
AS $$
#variable_conflict use_column
DECLARE
	v_now      timestamptz := clock_timestamp();
	v_limits   integer[]   := p_limits;
	v_tokens   integer     := cardinality(p_tokens) / cardinality(p_queues); -- of each queue
	v_turns    boolean     := false;
	v_paused   text[];
	v_cancel   boolean;
	v_suspects boolean;   -- there may be some, of whatever queue
	v_count    integer;
	v_short    boolean[]; -- whose claim has not filled up
BEGIN
	IF NOT EXISTS (SELECT FROM processes p WHERE p.id = p_owner) THEN
		RAISE EXCEPTION 'process % is not registered', p_owner USING ERRCODE = 'PW001';
	END IF;
	IF p_ordered AND NOT EXISTS (SELECT FROM paused_queues q WHERE q.queue = p_queues[1]) THEN
		v_turns := take_turns(p_queues[1]);
		v_now := clock_timestamp();
	END IF;
	-- After the time of the claim is taken, so that no claim has a later one than
	-- the commit of a pause.
	IF EXISTS (SELECT FROM paused_queues q WHERE q.queue = ANY (p_queues)) THEN
		SELECT array_agg(q.queue) INTO v_paused FROM paused_queues q WHERE q.queue = ANY (p_queues);
		v_limits := ARRAY(SELECT CASE WHEN u.queue = ANY (v_paused) THEN 0 ELSE u.most END FROM unnest(p_queues, p_limits) u(queue, most));
	END IF;
	v_cancel := EXISTS (SELECT FROM cancel_requests);
	v_suspects := cardinality(p_queues) = 1 OR EXISTS (SELECT FROM ready r WHERE r.suspect);

	IF p_suspect_token IS NOT NULL AND v_limits[1] > 0 THEN
		RETURN QUERY
		WITH candidate AS (
			SELECT x.ctid FROM generate_series(4, 1, -1) p(priority)
			CROSS JOIN LATERAL (
				SELECT r.ctid FROM ready r
				WHERE r.queue = p_queues[1] AND r.priority = p.priority::smallint AND r.suspect
					AND r.run_at <= v_now AND r.capability = ANY (p_capabilities[1 : p_ends[1]])
				ORDER BY r.run_at, r.id LIMIT 1 FOR UPDATE SKIP LOCKED) x
			LIMIT 1
		), taken AS (
			DELETE FROM ready r USING candidate c WHERE r.ctid = c.ctid
			RETURNING r.id, r.day, r.attempts + 1 AS attempt, r.priority, r.run_at
		), lease AS (
			INSERT INTO leases (token, owner, queue, claimed_at, job_ids, days, attempts, open)
			SELECT p_suspect_token, p_owner, p_queues[1], v_now, ARRAY[t.id], ARRAY[t.day], ARRAY[t.attempt::smallint], (~ 0::bit(128)) << 127
			FROM taken t
		)
		SELECT p_suspect_token, 1, t.id, t.attempt, t.priority, t.run_at,
			j.kind, j.version, j.organization_id, j.max_attempts::integer, j.enqueued_at, j.trace_context,
			j.order_key IS NOT NULL, v_cancel AND EXISTS (SELECT FROM cancel_requests c WHERE c.job_id = t.id), j.args::text
		FROM taken t
		LEFT JOIN LATERAL (SELECT * FROM jobs j WHERE j.day = t.day AND j.id = t.id OFFSET 0) j ON true;
		GET DIAGNOSTICS v_count = ROW_COUNT;
		v_limits[1] := v_limits[1] - v_count;
	END IF;

	RETURN QUERY
	WITH candidate AS ( -- i numbers those of a queue in their order
		SELECT w.n::integer AS n, x.i::integer AS i, x.ctid
		FROM unnest(p_queues, v_limits) WITH ORDINALITY w(queue, most, n)
		CROSS JOIN LATERAL (SELECT p_capabilities[COALESCE(p_ends[w.n - 1], 0) + 1 : p_ends[w.n]] AS capabilities OFFSET 0) k
		CROSS JOIN LATERAL (
			SELECT row_number() OVER () AS i, y.ctid FROM unnest(p_floors[4 * w.n - 3 : 4 * w.n]) WITH ORDINALITY f(floor, n)
			CROSS JOIN LATERAL (
				SELECT r.ctid FROM ready r
				WHERE r.queue = w.queue AND r.priority = (5 - f.n)::smallint AND NOT r.suspect
					AND r.run_at >= f.floor AND r.run_at <= v_now
					AND r.capability = ANY (k.capabilities)
				ORDER BY r.run_at, r.id LIMIT w.most FOR UPDATE SKIP LOCKED) y
			LIMIT w.most) x
	), taken AS (
		DELETE FROM ready r USING candidate c WHERE r.ctid = c.ctid
		RETURNING r.id, r.day, (r.attempts + 1)::smallint AS attempt, r.priority, r.run_at, c.n, c.i,
			COALESCE(r.capability = ANY (p_alone), false) AS alone
	), batch AS MATERIALIZED ( -- each array has the jobs of a lease in the same order
		SELECT CASE WHEN t.alone THEN p_alone_tokens[t.i] ELSE p_tokens[v_tokens * (t.n - 1) + 1 + (t.i - 1) / 128] END AS token,
			min(t.n) AS n, min(t.i) AS first,
			array_agg(t.id) AS ids, array_agg(t.day) AS days, array_agg(t.attempt) AS attempts,
			array_agg(t.priority) AS priorities, array_agg(t.run_at) AS run_ats
		FROM taken t GROUP BY 1 ORDER BY 2, 3
	), lease AS (
		INSERT INTO leases (token, owner, queue, claimed_at, job_ids, days, attempts, open)
		SELECT b.token, p_owner, p_queues[b.n], v_now, b.ids, b.days, b.attempts, (~ 0::bit(128)) << (128 - cardinality(b.ids)) FROM batch b
	)
	SELECT b.token, u.pos::integer, u.id, u.attempt::integer, u.priority, u.run_at,
		j.kind, j.version, j.organization_id, j.max_attempts::integer, j.enqueued_at, j.trace_context,
		j.order_key IS NOT NULL, v_cancel AND EXISTS (SELECT FROM cancel_requests c WHERE c.job_id = u.id), j.args::text
	FROM batch b
	CROSS JOIN LATERAL unnest(b.ids, b.days, b.attempts, b.priorities, b.run_ats) WITH ORDINALITY u(id, day, attempt, priority, run_at, pos)
	LEFT JOIN LATERAL (SELECT * FROM jobs j WHERE j.day = u.day AND j.id = u.id OFFSET 0) j ON true;

	GET DIAGNOSTICS v_count = ROW_COUNT;
	IF cardinality(p_queues) = 1 THEN
		v_short := ARRAY[v_limits[1] > v_count];
	ELSE
		v_short := ARRAY(
			SELECT w.most > (
				SELECT COALESCE(sum(cardinality(l.job_ids)), 0) FROM leases l
				WHERE l.token = ANY (p_tokens[v_tokens * (w.n - 1) + 1 : v_tokens * w.n]))
			FROM unnest(v_limits) WITH ORDINALITY w(most, n));
	END IF;
	IF p_sleep IS NOT NULL THEN
		DELETE FROM sleepers s USING unnest(p_queues, p_sleep, v_short) w(queue, sleep, short)
		WHERE s.queue = w.queue AND s.process = p_owner AND w.sleep IS NOT NULL AND NOT (w.sleep AND w.short);
		INSERT INTO sleepers (queue, process)
		SELECT w.queue, p_owner FROM unnest(p_queues, p_sleep, v_short) w(queue, sleep, short) WHERE w.sleep AND w.short
		ON CONFLICT DO NOTHING;
	END IF;
	RETURN QUERY
	SELECT NULL::uuid,
		CASE WHEN w.queue = ANY (v_paused) THEN 4 ELSE 2 * v_turns::integer + (v_suspects AND EXISTS (
			SELECT FROM generate_series(1, 4) p(priority) CROSS JOIN LATERAL (
				SELECT FROM ready r
				WHERE r.queue = w.queue AND r.priority = p.priority::smallint AND r.suspect
					AND r.run_at <= v_now AND r.capability = ANY (p_capabilities[COALESCE(p_ends[w.n - 1], 0) + 1 : p_ends[w.n]])
				LIMIT 1) x))::integer END,
		NULL::uuid, w.n::integer, NULL::smallint,
		CASE WHEN w.short THEN (
			SELECT min(x.run_at) FROM generate_series(1, 4) p(priority) CROSS JOIN LATERAL (
				SELECT r.run_at FROM ready r
				WHERE r.queue = w.queue AND r.priority = p.priority::smallint AND NOT r.suspect AND r.run_at > v_now
				ORDER BY r.run_at LIMIT 1) x) END,
		NULL::text, NULL::integer, NULL::text, NULL::integer, v_now, NULL::text, NULL::boolean, NULL::boolean, NULL::text
	FROM unnest(p_queues, v_short) WITH ORDINALITY w(queue, short, n);
END $$;
