-- Claim: waiting jobs become a lease of the caller's in one statement.

-- Takes at most p_limit due jobs: where p_suspect_token is given, one suspect
-- under that, and the rest under p_token. p_floors are run_at bounds below
-- which nothing is looked for, one a priority from the highest down: hints that
-- spare the walk over dead index entries.
--
-- Answers a row a job, and last a row without a job: the time of the claim;
-- in pos 1 or 0, whether suspects are due still; and, of a claim that did not
-- fill up, when the next job becomes due.
-- A claimer that is not registered gets SQLSTATE PW001.
CREATE FUNCTION {schema}.claim(
	p_owner uuid, p_token uuid, p_suspect_token uuid, p_queue text, p_limit integer, p_capabilities bigint[], p_floors timestamptz[])
RETURNS TABLE (
	token uuid, pos integer, id uuid, attempt integer, priority smallint, run_at timestamptz,
	kind text, version integer, organization_id text, max_attempts integer, enqueued_at timestamptz, trace_context text, args text)
LANGUAGE plpgsql VOLATILE
SET search_path = {schema}, pg_temp
{pinned}
SET lock_timeout = '5s'
AS $$
#variable_conflict use_column
DECLARE
	v_now   timestamptz := clock_timestamp();
	v_left  integer     := p_limit;
	v_count integer;
	v_next  timestamptz;
BEGIN
	IF NOT EXISTS (SELECT FROM processes p WHERE p.id = p_owner) THEN
		RAISE EXCEPTION 'process % is not registered', p_owner USING ERRCODE = 'PW001';
	END IF;

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
			j.kind, j.version, j.organization_id, j.max_attempts::integer, j.enqueued_at, j.trace_context, j.args::text
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
			RETURNING r.id, r.day, r.attempts + 1 AS attempt, r.priority, r.run_at
		), numbered AS (
			SELECT t.*, row_number() OVER (ORDER BY t.priority DESC, t.run_at, t.id)::integer AS pos FROM taken t
		), lease AS (
			INSERT INTO leases (token, owner, queue, claimed_at, job_ids, days, attempts, open)
			SELECT p_token, p_owner, p_queue, v_now, array_agg(n.id ORDER BY n.pos), array_agg(n.day ORDER BY n.pos),
				array_agg(n.attempt::smallint ORDER BY n.pos), (~ 0::bit(128)) << (128 - count(*)::integer)
			FROM numbered n HAVING count(*) > 0
		)
		SELECT p_token, n.pos, n.id, n.attempt, n.priority, n.run_at,
			j.kind, j.version, j.organization_id, j.max_attempts::integer, j.enqueued_at, j.trace_context, j.args::text
		FROM numbered n
		LEFT JOIN LATERAL (SELECT * FROM jobs j WHERE j.day = n.day AND j.id = n.id OFFSET 0) j ON true
		ORDER BY n.pos;
		GET DIAGNOSTICS v_count = ROW_COUNT;
		v_left := v_left - v_count;
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
				LIMIT 1) x)::integer,
		NULL::uuid, NULL::integer, NULL::smallint, v_next,
		NULL::text, NULL::integer, NULL::text, NULL::integer, v_now, NULL::text, NULL::text;
END $$;
