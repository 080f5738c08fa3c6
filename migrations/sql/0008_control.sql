-- Control: cancel, pause, resume. Anybody may call these, in any transaction.

-- Cancels a job. Answers where it stands: cancelled; leased, when a worker has
-- it, which is asked to end it and gives it no other attempt; how it had ended
-- before; or NULL for a job that there is no trace of.
CREATE FUNCTION {schema}.cancel(id uuid) RETURNS text
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = {schema}, pg_temp
{pinned}
AS $$
#variable_conflict use_column
DECLARE
	p_id       ALIAS FOR id;
	v_job      record;
	v_times    timestamptz[];
	v_attempts integer;
	v_found    boolean;
	v_state    text;
BEGIN
	SELECT j.* INTO v_job FROM jobs j WHERE j.id = p_id LIMIT 1;
	IF NOT FOUND THEN
		SELECT CASE o.outcome WHEN 1 THEN 'completed' WHEN 3 THEN 'dead' ELSE 'cancelled' END INTO v_state
		FROM outcomes o WHERE o.job_id = p_id LIMIT 1;
		IF NOT FOUND THEN
			SELECT 'dead' INTO v_state FROM dead_letters d WHERE d.job_id = p_id;
		END IF;
		RETURN v_state;
	END IF;
	-- A claim or a settlement may be moving the job, so that each place is empty
	-- when it is looked at; each statement here sees what has committed by then.
	FOR n IN 1 .. 3 LOOP
		-- The times that history knows save a walk along the whole queue.
		SELECT array_agg(e.retry_at) || v_job.run_at INTO v_times FROM job_errors e WHERE e.job_id = p_id AND e.retry_at IS NOT NULL;
		IF v_job.order_key IS NOT NULL THEN
			v_times := v_times || (SELECT o.ready_at FROM ordered o WHERE o.job_id = p_id);
		END IF;
		DELETE FROM ready r WHERE r.queue = v_job.queue AND r.priority = v_job.priority AND NOT r.suspect
			AND r.run_at = ANY (v_times) AND r.id = p_id RETURNING r.attempts INTO v_attempts;
		v_found := FOUND;
		IF NOT v_found THEN
			DELETE FROM ready r WHERE r.queue = v_job.queue AND r.priority = v_job.priority AND r.suspect
				AND r.id = p_id RETURNING r.attempts INTO v_attempts;
			v_found := FOUND;
		END IF;
		IF NOT v_found AND v_job.order_key IS NOT NULL THEN
			-- Where its turn comes just now, the wait ends with a lock on the head,
			-- which its end must not wait for: the savepoint takes that back.
			BEGIN
				PERFORM FROM ordered o WHERE o.job_id = p_id AND NOT o.head FOR UPDATE;
				v_found := FOUND;
				v_attempts := 0;
				IF NOT v_found THEN
					RAISE EXCEPTION USING ERRCODE = 'PW098';
				END IF;
			EXCEPTION WHEN SQLSTATE 'PW098' THEN
				NULL;
			END;
		END IF;
		IF NOT v_found THEN
			SELECT CASE o.outcome WHEN 1 THEN 'completed' WHEN 3 THEN 'dead' ELSE 'cancelled' END INTO v_state
			FROM outcomes o WHERE o.job_id = p_id LIMIT 1;
			IF FOUND THEN
				RETURN v_state;
			END IF;
			EXIT WHEN EXISTS (SELECT FROM leases l WHERE p_id = ANY (l.job_ids) AND get_bit(l.open, array_position(l.job_ids, p_id) - 1) = 1);
			DELETE FROM ready r WHERE r.queue = v_job.queue AND r.priority = v_job.priority AND NOT r.suspect
				AND r.id = p_id RETURNING r.attempts INTO v_attempts;
			v_found := FOUND;
		END IF;
		IF v_found THEN
			PERFORM record_cancelled(ARRAY[p_id], ARRAY[v_job.day], ARRAY[v_attempts], ARRAY[v_job.queue]);
			PERFORM audited('cancel job', jsonb_build_object('job', p_id), 1, true);
			IF v_job.order_key IS NOT NULL THEN -- it may have been in others' way
				PERFORM pg_notify({channel}, v_job.queue);
			END IF;
			RETURN 'cancelled';
		END IF;
	END LOOP;
	INSERT INTO cancel_requests (job_id, requested_at) VALUES (p_id, clock_timestamp()) ON CONFLICT DO NOTHING;
	IF FOUND THEN
		PERFORM pg_notify({channel}, '!cancel');
		PERFORM audited('cancel job', jsonb_build_object('job', p_id), 1, true);
	END IF;
	RETURN 'leased';
END $$;

-- Records the end of waiting jobs that have been taken away.
CREATE FUNCTION {schema}.record_cancelled(p_ids uuid[], p_days integer[], p_attempts integer[], p_queues text[]) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = {schema}, pg_temp
AS $$
DECLARE
	v_now timestamptz := clock_timestamp();
	v_day integer     := day_of(v_now);
BEGIN
	IF to_regclass('outcomes_d' || v_day) IS NULL THEN
		PERFORM ensure_day(v_day);
	END IF;
	INSERT INTO outcomes (day, job_id, job_day, outcome, attempts, queue, claimed_at, finished_at)
	SELECT v_day, u.id, u.day, 5, u.attempts, u.queue, v_now, v_now
	FROM unnest(p_ids, p_days, p_attempts, p_queues) u(id, day, attempts, queue);
	PERFORM pass_on(p_ids);
END $$;

-- Cancels all jobs of an organization: those that wait at once, and those that
-- workers have by asking them. Reads every waiting job.
CREATE FUNCTION {schema}.cancel_organization(organization_id text, OUT cancelled bigint, OUT requested bigint)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = {schema}, pg_temp
SET jit = off
AS $$
#variable_conflict use_column
DECLARE
	p_organization ALIAS FOR organization_id;
	v_jobs         record;
BEGIN
	IF COALESCE(p_organization, '') = '' THEN
		RAISE EXCEPTION 'no organization is named' USING ERRCODE = 'PW013', HINT = 'Jobs without an organization are cancelled one by one.';
	END IF;
	-- One at a time, since two would wait for each other's locks.
	PERFORM pg_advisory_xact_lock(hashtextextended('cancel ' || p_organization, {lock_day}));
	-- One snapshot sees each job in its one place. What has moved on when its
	-- place is locked is asked for like what a worker has. Where the turn of some
	-- has come just now, their heads got locked, which their ends must not wait
	-- for: the savepoint takes that back.
	FOR n IN 1 .. 5 LOOP
		BEGIN
			WITH waiting AS MATERIALIZED (
				SELECT r.ctid AS at, r.id FROM ready r JOIN jobs j ON j.day = r.day AND j.id = r.id
				WHERE j.organization_id = p_organization
			), blocked AS MATERIALIZED (
				SELECT o.ctid AS at, o.job_id AS id FROM ordered o JOIN jobs j ON j.day = o.day AND j.id = o.job_id
				WHERE NOT o.head AND j.organization_id = p_organization
			), leased AS MATERIALIZED (
				SELECT u.id FROM leases l CROSS JOIN LATERAL unnest(l.job_ids, l.days) WITH ORDINALITY u(id, day, pos)
				JOIN jobs j ON j.day = u.day AND j.id = u.id
				WHERE get_bit(l.open, u.pos::integer - 1) = 1 AND j.organization_id = p_organization
			), locked AS MATERIALIZED (
				SELECT r.ctid AS at FROM waiting w JOIN ready r ON r.ctid = w.at ORDER BY r.id FOR UPDATE OF r
			), taken AS (
				DELETE FROM ready r USING locked l WHERE r.ctid = l.at RETURNING r.id, r.day, r.attempts::integer, r.queue
			), held AS MATERIALIZED (
				SELECT o.job_id AS id, o.day, 0 AS attempts, o.queue FROM blocked b JOIN ordered o ON o.ctid = b.at
				WHERE NOT o.head ORDER BY o.job_id FOR UPDATE OF o
			), ended AS MATERIALIZED (
				SELECT * FROM taken UNION ALL SELECT * FROM held
			), running AS MATERIALIZED (
				SELECT w.id FROM waiting w UNION SELECT b.id FROM blocked b UNION SELECT l.id FROM leased l
				EXCEPT SELECT e.id FROM ended e
			), asked AS (
				INSERT INTO cancel_requests (job_id, requested_at)
				SELECT r.id, clock_timestamp() FROM running r ORDER BY r.id ON CONFLICT DO NOTHING
			)
			SELECT array_agg(e.id) AS ids, array_agg(e.day) AS days, array_agg(e.attempts) AS attempts, array_agg(e.queue) AS queues,
				(SELECT count(*) FROM running) AS running, (SELECT count(*) FROM blocked) - (SELECT count(*) FROM held) AS moved
			INTO v_jobs FROM ended e;
			IF v_jobs.moved > 0 AND n < 5 THEN
				RAISE EXCEPTION USING ERRCODE = 'PW098';
			END IF;
			EXIT;
		EXCEPTION WHEN SQLSTATE 'PW098' THEN
			NULL;
		END;
	END LOOP;
	cancelled := COALESCE(cardinality(v_jobs.ids), 0);
	requested := v_jobs.running;
	IF cancelled > 0 THEN
		PERFORM record_cancelled(v_jobs.ids, v_jobs.days, v_jobs.attempts, v_jobs.queues);
		PERFORM pg_notify({channel}, ''); -- they may have been in others' way
	END IF;
	IF requested > 0 THEN
		PERFORM pg_notify({channel}, '!cancel');
	END IF;
	PERFORM audited('cancel organization', jsonb_build_object('organization_id', p_organization), cancelled + requested, true);
END $$;

-- What a worker has to do about requests to cancel: jobs that came back to wait
-- after they were asked for are ended here, requests that have been met are
-- removed, and the answer is those jobs that the process itself is running.
--
-- It waits for nobody, since it holds locks that a caller may wait for who holds
-- others: what is locked is met again by the next look.
CREATE FUNCTION {schema}.cancellations(p_process uuid) RETURNS SETOF uuid
LANGUAGE plpgsql VOLATILE
SET search_path = {schema}, pg_temp
{pinned}
SET lock_timeout = '1ms'
AS $$
DECLARE
	v_id     uuid;
	v_leased uuid[];
	v_mine   uuid[];
	v_locked integer := 0;
BEGIN
	IF NOT EXISTS (SELECT FROM cancel_requests) THEN
		RETURN;
	END IF;
	SELECT array_agg(c.job_id), array_agg(c.job_id) FILTER (WHERE l.owner = p_process) INTO v_leased, v_mine FROM leases l
	CROSS JOIN LATERAL unnest(l.job_ids) WITH ORDINALITY u(id, pos)
	CROSS JOIN LATERAL (SELECT c.job_id FROM cancel_requests c WHERE c.job_id = u.id OFFSET 0) c
	WHERE get_bit(l.open, u.pos::integer - 1) = 1;
	RETURN QUERY SELECT unnest(v_mine);
	FOR v_id IN
		SELECT c.job_id FROM cancel_requests c WHERE v_leased IS NULL OR c.job_id <> ALL (v_leased)
		ORDER BY random() LIMIT 200 FOR UPDATE SKIP LOCKED
	LOOP
		BEGIN
			IF cancel(v_id) IS DISTINCT FROM 'leased' THEN
				DELETE FROM cancel_requests c WHERE c.job_id = v_id;
			END IF;
		EXCEPTION WHEN lock_not_available THEN
			v_locked := v_locked + 1;
			EXIT WHEN v_locked = 20;
		END;
	END LOOP;
END $$;

-- Nothing is claimed from a paused queue, by any process; what is running goes
-- on. Answers whether that was a change.
CREATE FUNCTION {schema}.pause(queue text) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = {schema}, pg_temp
AS $$
BEGIN
	INSERT INTO paused_queues (queue, paused_at) VALUES ($1, clock_timestamp()) ON CONFLICT DO NOTHING;
	IF NOT FOUND THEN
		RETURN false;
	END IF;
	PERFORM audited('pause queue', jsonb_build_object('queue', $1), 1, true);
	RETURN true;
END $$;

CREATE FUNCTION {schema}.resume(queue text) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = {schema}, pg_temp
AS $$
BEGIN
	DELETE FROM paused_queues p WHERE p.queue = $1;
	IF NOT FOUND THEN
		RETURN false;
	END IF;
	PERFORM pg_notify({channel}, '!resume'); -- a worker does not listen for a queue that is paused
	PERFORM audited('resume queue', jsonb_build_object('queue', $1), 1, true);
	RETURN true;
END $$;
