-- Claim: waiting jobs become a lease of the caller's in one statement.

-- Takes at most p_limit due jobs: where p_suspect_token is given, one suspect
-- under that, and the rest under p_token, or where they are more than 128 under
-- that and those of p_more_tokens. p_floors are run_at bounds below
-- which nothing is looked for, one a priority from the highest down: hints that
-- spare the walk over dead index entries. Jobs of the capabilities in p_alone
-- get a lease each, under tokens of p_alone_tokens, of which there are p_limit.
-- p_ordered says that some of the queue's jobs have order keys. p_sleep says
-- whether the process wants to be woken from now on, if this claim does not fill
-- up; NULL where it did not and does not. It has to look once more after that.
--
-- Answers a row a job, and last a row without a job: the time of the claim;
-- in pos, 1 if suspects are due still, plus 2 if order keys are left whose turn
-- may have come, plus 4 if the queue is paused; and, of a claim that did not
-- fill up, when the next job becomes due.
-- A claimer that is not registered gets SQLSTATE PW001.
CREATE FUNCTION {schema}.claim(
	p_owner uuid, p_token uuid, p_suspect_token uuid, p_queue text, p_limit integer, p_capabilities bigint[], p_floors timestamptz[],
	p_ordered boolean DEFAULT false, p_alone bigint[] DEFAULT NULL, p_alone_tokens uuid[] DEFAULT NULL,
	p_sleep boolean DEFAULT NULL, p_more_tokens uuid[] DEFAULT '{}')
RETURNS TABLE (
	token uuid, pos integer, id uuid, attempt integer, priority smallint, run_at timestamptz,
	kind text, version integer, organization_id text, max_attempts integer, enqueued_at timestamptz, trace_context text,
	ordered boolean, cancelled boolean, args text)
LANGUAGE plpgsql VOLATILE
SET search_path = {schema}, pg_temp
{pinned}
SET lock_timeout = '5s'
AS $$
#variable_conflict use_column
DECLARE
	v_now    timestamptz := clock_timestamp();
	v_tokens uuid[]      := p_token || p_more_tokens;
	v_left   integer     := p_limit;
	v_turns  boolean     := false;
	v_cancel boolean;
	v_count  integer;
	v_next   timestamptz;
BEGIN
	IF NOT EXISTS (SELECT FROM processes p WHERE p.id = p_owner) THEN
		RAISE EXCEPTION 'process % is not registered', p_owner USING ERRCODE = 'PW001';
	END IF;
	IF p_ordered AND NOT EXISTS (SELECT FROM paused_queues q WHERE q.queue = p_queue) THEN
		v_turns := take_turns(p_queue);
		v_now := clock_timestamp();
	END IF;
	-- After the time of the claim is taken, so that no claim has a later one than
	-- the commit of a pause.
	IF EXISTS (SELECT FROM paused_queues q WHERE q.queue = p_queue) THEN
		RETURN QUERY SELECT NULL::uuid, 4, NULL::uuid, NULL::integer, NULL::smallint, NULL::timestamptz,
			NULL::text, NULL::integer, NULL::text, NULL::integer, v_now, NULL::text, NULL::boolean, NULL::boolean, NULL::text;
		RETURN;
	END IF;
	v_cancel := EXISTS (SELECT FROM cancel_requests);

	IF p_suspect_token IS NOT NULL THEN
		RETURN QUERY
		WITH candidate AS (
			SELECT x.ctid FROM generate_series(4, 1, -1) p(priority)
			CROSS JOIN LATERAL (
				SELECT r.ctid FROM ready r
				WHERE r.queue = p_queue AND r.priority = p.priority::smallint AND r.suspect
					AND r.run_at <= v_now AND r.capability = ANY (p_capabilities)
				ORDER BY r.run_at, r.id LIMIT 1 FOR UPDATE SKIP LOCKED) x
			LIMIT 1
		), taken AS (
			DELETE FROM ready r USING candidate c WHERE r.ctid = c.ctid
			RETURNING r.id, r.day, r.attempts + 1 AS attempt, r.priority, r.run_at
		), lease AS (
			INSERT INTO leases (token, owner, queue, claimed_at, job_ids, days, attempts, open)
			SELECT p_suspect_token, p_owner, p_queue, v_now, ARRAY[t.id], ARRAY[t.day], ARRAY[t.attempt::smallint], (~ 0::bit(128)) << 127
			FROM taken t
		)
		SELECT p_suspect_token, 1, t.id, t.attempt, t.priority, t.run_at,
			j.kind, j.version, j.organization_id, j.max_attempts::integer, j.enqueued_at, j.trace_context,
			j.order_key IS NOT NULL, v_cancel AND EXISTS (SELECT FROM cancel_requests c WHERE c.job_id = t.id), j.args::text
		FROM taken t
		LEFT JOIN LATERAL (SELECT * FROM jobs j WHERE j.day = t.day AND j.id = t.id OFFSET 0) j ON true;
		GET DIAGNOSTICS v_count = ROW_COUNT;
		v_left := v_left - v_count;
	END IF;

	IF v_left > 0 THEN
		RETURN QUERY
		WITH candidate AS (
			SELECT x.ctid FROM unnest(p_floors) WITH ORDINALITY f(floor, n)
			CROSS JOIN LATERAL (
				SELECT r.ctid FROM ready r
				WHERE r.queue = p_queue AND r.priority = (5 - f.n)::smallint AND NOT r.suspect
					AND r.run_at >= f.floor AND r.run_at <= v_now AND r.capability = ANY (p_capabilities)
				ORDER BY r.run_at, r.id LIMIT v_left FOR UPDATE SKIP LOCKED) x
			LIMIT v_left
		), taken AS (
			DELETE FROM ready r USING candidate c WHERE r.ctid = c.ctid
			RETURNING r.id, r.day, (r.attempts + 1)::smallint AS attempt, r.priority, r.run_at,
				COALESCE(r.capability = ANY (p_alone), false) AS alone
		), numbered AS ( -- in the order of the candidates
			SELECT t.*, row_number() OVER ()::integer AS n FROM taken t
		), batch AS MATERIALIZED ( -- each array has the jobs of a lease in the same order
			SELECT CASE WHEN n.alone THEN p_alone_tokens[n.n] ELSE v_tokens[1 + (n.n - 1) / 128] END AS token, min(n.n) AS first,
				array_agg(n.id) AS ids, array_agg(n.day) AS days, array_agg(n.attempt) AS attempts,
				array_agg(n.priority) AS priorities, array_agg(n.run_at) AS run_ats
			FROM numbered n GROUP BY 1 ORDER BY 2
		), lease AS (
			INSERT INTO leases (token, owner, queue, claimed_at, job_ids, days, attempts, open)
			SELECT b.token, p_owner, p_queue, v_now, b.ids, b.days, b.attempts, (~ 0::bit(128)) << (128 - cardinality(b.ids)) FROM batch b
		)
		SELECT b.token, u.pos::integer, u.id, u.attempt::integer, u.priority, u.run_at,
			j.kind, j.version, j.organization_id, j.max_attempts::integer, j.enqueued_at, j.trace_context,
			j.order_key IS NOT NULL, v_cancel AND EXISTS (SELECT FROM cancel_requests c WHERE c.job_id = u.id), j.args::text
		FROM batch b
		CROSS JOIN LATERAL unnest(b.ids, b.days, b.attempts, b.priorities, b.run_ats) WITH ORDINALITY u(id, day, attempt, priority, run_at, pos)
		LEFT JOIN LATERAL (SELECT * FROM jobs j WHERE j.day = u.day AND j.id = u.id OFFSET 0) j ON true;
		GET DIAGNOSTICS v_count = ROW_COUNT;
		v_left := v_left - v_count;
	END IF;

	IF p_sleep AND v_left > 0 THEN
		INSERT INTO sleepers (queue, process) VALUES (p_queue, p_owner) ON CONFLICT DO NOTHING;
	ELSIF p_sleep IS NOT NULL THEN
		DELETE FROM sleepers s WHERE s.queue = p_queue AND s.process = p_owner;
	END IF;
	IF v_left > 0 THEN
		SELECT min(x.run_at) INTO v_next FROM generate_series(1, 4) p(priority)
		CROSS JOIN LATERAL (
			SELECT r.run_at FROM ready r
			WHERE r.queue = p_queue AND r.priority = p.priority::smallint AND NOT r.suspect AND r.run_at > v_now
			ORDER BY r.run_at LIMIT 1) x;
	END IF;
	RETURN QUERY SELECT NULL::uuid, EXISTS (
			SELECT FROM generate_series(1, 4) p(priority) CROSS JOIN LATERAL (
				SELECT FROM ready r
				WHERE r.queue = p_queue AND r.priority = p.priority::smallint AND r.suspect
					AND r.run_at <= v_now AND r.capability = ANY (p_capabilities)
				LIMIT 1) x)::integer + 2 * v_turns::integer,
		NULL::uuid, NULL::integer, NULL::smallint, v_next,
		NULL::text, NULL::integer, NULL::text, NULL::integer, v_now, NULL::text, NULL::boolean, NULL::boolean, NULL::text;
END $$;
