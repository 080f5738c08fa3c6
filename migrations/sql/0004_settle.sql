-- Settlement: the end of attempts, fenced by token, position and job id.

-- The settlements of a call that the fence accepts: the lease is the owner's,
-- the job is still open in it, and the outcome is one that there is, since any
-- other would take the job out of its lease into nowhere.
--
-- The owner stands inside the CASE to keep it from the index on owners, which
-- costs the planner as little as the primary key while there are no statistics.
-- By that index each job would read all leases of its worker, and those of
-- serializable transactions would then end one another.
CREATE FUNCTION {schema}.acceptable(p_owner uuid, p_tokens uuid[], p_positions integer[], p_ids uuid[], p_outcomes smallint[],
	p_delays_us bigint[], p_codes text[], p_summaries text[])
RETURNS TABLE (token uuid, pos integer, id uuid, outcome smallint, delay_us bigint, code text, summary text,
	day integer, attempt smallint, queue text, claimed_at timestamptz)
LANGUAGE sql STABLE
AS $$
	SELECT u.token, u.pos, u.id, u.outcome, u.delay_us, u.code, u.summary, l.days[u.pos], l.attempts[u.pos], l.queue, l.claimed_at
	FROM unnest(p_tokens, p_positions, p_ids, p_outcomes, p_delays_us, p_codes, p_summaries) u(token, pos, id, outcome, delay_us, code, summary)
	JOIN {schema}.leases l ON l.token = u.token
	WHERE l.job_ids[u.pos] = u.id AND u.outcome BETWEEN 1 AND 7
		AND CASE WHEN l.owner = p_owner AND u.pos BETWEEN 1 AND 128 THEN get_bit(l.open, u.pos - 1) = 1 ELSE false END
$$;

-- Outcomes: 1 completed, 2 retry after the delay, 3 dead letter, 4 give back
-- after the delay with its attempt, 5 cancelled, 6 set aside, 7 give back at
-- once, since its lease was lost. A position may be named once a call.
-- p_ordered says that some of the jobs may have order keys.
--
-- Answers the tokens and positions that were accepted, with the outcome that
-- was recorded: of a job that somebody asked to cancel, what would have led to
-- another attempt or to a dead letter is a cancellation, and of one without its
-- row that it is set aside. What is missing was refused, since the lease is
-- somebody else's by now.
CREATE FUNCTION {schema}.settle(p_owner uuid, p_tokens uuid[], p_positions integer[], p_ids uuid[], p_outcomes smallint[],
	p_delays_us bigint[], p_codes text[], p_summaries text[], p_ordered boolean DEFAULT false)
RETURNS TABLE (token uuid, pos integer, outcome smallint)
LANGUAGE plpgsql VOLATILE
SET search_path = {schema}, pg_temp
{pinned}
SET lock_timeout = '5s'
AS $$
#variable_conflict use_column
DECLARE
	v_now  timestamptz;
	v_day  integer;
	v_kept uuid[]; -- those that wait again or are dead letters: they had their row
	v_lost uuid[]; -- those that are set aside
BEGIN
	PERFORM FROM leases l WHERE l.token = ANY (p_tokens) AND l.owner = p_owner ORDER BY l.token FOR UPDATE;
	v_now := clock_timestamp();
	v_day := day_of(v_now);
	IF to_regclass('outcomes_d' || v_day) IS NULL THEN
		PERFORM ensure_day(v_day);
	END IF;

	IF p_outcomes && '{2,3,4,7}'::smallint[] AND EXISTS (SELECT FROM cancel_requests) THEN
		p_outcomes := ARRAY(
			SELECT CASE WHEN u.outcome IN (2, 3, 4, 7) AND EXISTS (SELECT FROM cancel_requests c WHERE c.job_id = u.id) THEN 5 ELSE u.outcome END
			FROM unnest(p_ids, p_outcomes) WITH ORDINALITY u(id, outcome, n) ORDER BY u.n);
	END IF;

	IF p_outcomes && '{2,4,7}'::smallint[] THEN
		-- Of jobs whose lease was lost, one may have been the reason. Twice in a
		-- row, or with one attempt left, and it runs alone from now on, so that it
		-- takes no others with it when it ends its process again.
		WITH back AS (
			INSERT INTO ready (queue, priority, run_at, id, day, capability, attempts, suspect)
			SELECT j.queue, j.priority, v_now + COALESCE(a.delay_us, 0) * interval '1 microsecond', a.id, a.day, j.capability,
				CASE a.outcome WHEN 4 THEN GREATEST(a.attempt - 1, 0) ELSE LEAST(a.attempt, 32766) END,
				a.outcome = 7 AND (a.attempt + 1 >= j.max_attempts
					OR EXISTS (SELECT FROM job_errors e WHERE e.job_id = a.id AND e.attempt = a.attempt - 1 AND e.code = 'lease_lost'))
			FROM acceptable(p_owner, p_tokens, p_positions, p_ids, p_outcomes, p_delays_us, p_codes, p_summaries) a
			CROSS JOIN LATERAL (SELECT * FROM jobs j WHERE j.day = a.day AND j.id = a.id OFFSET 0) j
			WHERE a.outcome IN (2, 4, 7)
			RETURNING id
		)
		SELECT array_agg(b.id) INTO v_kept FROM back b;
	END IF;

	IF 3 = ANY (p_outcomes) THEN
		WITH died AS MATERIALIZED (
			SELECT a.id, j.kind, j.queue, j.version, j.capability, j.priority, j.organization_id, a.attempt, j.max_attempts,
				COALESCE(a.code, 'unknown') AS code, COALESCE(a.summary, '') AS summary, j.enqueued_at, j.args,
				j.idempotency_key, j.order_key, j.trace_context
			FROM acceptable(p_owner, p_tokens, p_positions, p_ids, p_outcomes, p_delays_us, p_codes, p_summaries) a
			CROSS JOIN LATERAL (SELECT * FROM jobs j WHERE j.day = a.day AND j.id = a.id OFFSET 0) j
			WHERE a.outcome = 3
		), letters AS (
			INSERT INTO dead_letters (job_id, kind, queue, version, capability, priority, organization_id, attempts, max_attempts,
				code, summary, enqueued_at, died_at, args, idempotency_key, order_key, trace_context)
			SELECT d.id, d.kind, d.queue, d.version, d.capability, d.priority, d.organization_id, d.attempt, d.max_attempts,
				d.code, d.summary, d.enqueued_at, v_now, d.args, d.idempotency_key, d.order_key, d.trace_context
			FROM died d
			ON CONFLICT DO NOTHING
		)
		SELECT v_kept || array_agg(d.id) INTO v_kept FROM died d;
	END IF;

	-- Not by another look for the row, which somebody may have deleted since.
	IF p_outcomes && '{2,3,4,6,7}'::smallint[] THEN
		WITH lost AS (
			INSERT INTO quarantine (job_id, job_day, queue, attempts, found_at, reason)
			SELECT a.id, a.day, a.queue, a.attempt, v_now, COALESCE(a.summary, 'the job has no row')
			FROM acceptable(p_owner, p_tokens, p_positions, p_ids, p_outcomes, p_delays_us, p_codes, p_summaries) a
			LEFT JOIN unnest(v_kept) k(id) ON k.id = a.id
			WHERE a.outcome = 6 OR (a.outcome IN (2, 3, 4, 7) AND k.id IS NULL)
			RETURNING job_id
		)
		SELECT array_agg(l.job_id) INTO v_lost FROM lost l;
	END IF;

	IF cardinality(p_codes) > 0 THEN
		INSERT INTO job_errors (day, job_id, attempt, at, code, summary, retry_at)
		SELECT DISTINCT ON (a.id, a.attempt) v_day, a.id, a.attempt, v_now, a.code, COALESCE(a.summary, ''),
			CASE WHEN a.outcome IN (2, 7) THEN v_now + COALESCE(a.delay_us, 0) * interval '1 microsecond' END
		FROM acceptable(p_owner, p_tokens, p_positions, p_ids, p_outcomes, p_delays_us, p_codes, p_summaries) a
		WHERE a.code IS NOT NULL AND a.outcome <> 6
		ON CONFLICT (job_id, attempt, day) DO UPDATE
		SET at = excluded.at, code = excluded.code, summary = excluded.summary, retry_at = excluded.retry_at;
	END IF;

	IF (p_ordered AND p_outcomes && '{1,3,5}'::smallint[]) OR v_lost IS NOT NULL THEN
		PERFORM pass_on(v_lost || ARRAY(
			SELECT a.id FROM acceptable(p_owner, p_tokens, p_positions, p_ids, p_outcomes, p_delays_us, p_codes, p_summaries) a
			WHERE a.outcome IN (1, 3, 5)));
	END IF;

	RETURN QUERY
	WITH accepted AS MATERIALIZED (
		SELECT a.*, COALESCE(a.id = ANY (v_lost), false) AS lost
		FROM acceptable(p_owner, p_tokens, p_positions, p_ids, p_outcomes, p_delays_us, p_codes, p_summaries) a
	), finished AS (
		INSERT INTO outcomes (day, job_id, job_day, outcome, attempts, queue, claimed_at, finished_at)
		SELECT v_day, a.id, a.day, a.outcome, a.attempt, a.queue, a.claimed_at, v_now
		FROM accepted a WHERE a.outcome IN (1, 3, 5) AND NOT a.lost
	), closing AS (
		SELECT a.token, ~ bit_or(set_bit(0::bit(128), a.pos - 1, 1)) AS keep FROM accepted a GROUP BY a.token
	), shrunk AS (
		UPDATE leases l SET open = l.open & c.keep FROM closing c
		WHERE l.token = c.token AND l.open & c.keep <> 0::bit(128)
	), ended AS (
		DELETE FROM leases l USING closing c
		WHERE l.token = c.token AND l.open & c.keep = 0::bit(128)
	)
	SELECT a.token, a.pos, CASE WHEN a.lost THEN 6 ELSE a.outcome END::smallint FROM accepted a;
END $$;

-- The last statement of a transactional handler's transaction: its job is
-- completed, or an error keeps the transaction from committing: PW002 where
-- the lease is lost, PW003 where this is not the transaction p_xid, so that the
-- handler has ended that one by itself.
CREATE FUNCTION {schema}.complete(p_owner uuid, p_token uuid, p_id uuid, p_xid text) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = {schema}, pg_temp
AS $$
BEGIN
	IF pg_current_xact_id()::text IS DISTINCT FROM p_xid THEN
		RAISE EXCEPTION 'the handler has ended the transaction that it was given' USING ERRCODE = 'PW003';
	END IF;
	PERFORM settle(p_owner, ARRAY[p_token], '{1}', ARRAY[p_id], '{1}', '{}', '{}', '{}', true);
	IF NOT FOUND THEN
		RAISE EXCEPTION 'the lease on job % is lost', p_id USING ERRCODE = 'PW002';
	END IF;
END $$;

-- Gives back every open job of the leases with its attempt: of claims whose
-- answer was lost, so that their owner does not know what it holds. Answers how
-- many there were.
CREATE FUNCTION {schema}.release_leases(p_owner uuid, p_tokens uuid[]) RETURNS bigint
LANGUAGE sql VOLATILE
SET search_path = {schema}, pg_temp
AS $$
	SELECT count(*) FROM (
		SELECT array_agg(l.token) AS tokens, array_agg(u.pos::integer) AS positions, array_agg(u.id) AS ids, array_agg(4::smallint) AS outcomes
		FROM leases l CROSS JOIN LATERAL unnest(l.job_ids) WITH ORDINALITY u(id, pos)
		WHERE l.token = ANY (p_tokens) AND l.owner = p_owner AND get_bit(l.open, u.pos::integer - 1) = 1
		HAVING count(*) > 0
	) held CROSS JOIN LATERAL settle(p_owner, held.tokens, held.positions, held.ids, held.outcomes, '{}', '{}', '{}')
$$;
