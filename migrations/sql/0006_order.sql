-- Order: jobs of one key, one at a time.

-- Makes the first job of each key its head, unless it is: such a job waits in
-- ready from now on. Nobody may be about to add, end or take away the head of
-- these keys. A job that somebody's open transaction takes away keeps its
-- place until that has ended, so its key's turn is put off.
CREATE FUNCTION {schema}.give_turns(p_keys bytea[]) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = {schema}, pg_temp
{pinned}
AS $$
DECLARE
	v_missing uuid[];
BEGIN
	WITH first AS (
		SELECT x.* FROM (SELECT DISTINCT k FROM unnest(p_keys) k) keys
		CROSS JOIN LATERAL (SELECT o.order_key, o.seq, o.queue FROM ordered o WHERE o.order_key = keys.k ORDER BY o.seq LIMIT 1) x
	), free AS (
		SELECT x.* FROM first f
		CROSS JOIN LATERAL (
			SELECT o.order_key, o.seq FROM ordered o WHERE o.order_key = f.order_key AND o.seq = f.seq FOR UPDATE SKIP LOCKED) x
	), head AS (
		UPDATE ordered o SET head = true FROM free f
		WHERE o.order_key = f.order_key AND o.seq = f.seq AND NOT o.head
		RETURNING o.job_id, o.day, o.queue
	), put_off AS (
		INSERT INTO order_turns (queue, order_key)
		SELECT f.queue, f.order_key FROM first f WHERE NOT EXISTS (SELECT FROM free x WHERE x.order_key = f.order_key)
	), waiting AS (
		INSERT INTO ready (queue, priority, run_at, id, day, capability, attempts, suspect)
		SELECT j.queue, j.priority, GREATEST(j.run_at, clock_timestamp()), h.job_id, h.day, j.capability, 0, false
		FROM head h CROSS JOIN LATERAL (SELECT * FROM jobs j WHERE j.day = h.day AND j.id = h.job_id OFFSET 0) j
	), missing AS (
		INSERT INTO quarantine (job_id, job_day, queue, attempts, found_at, reason)
		SELECT h.job_id, h.day, h.queue, 0, clock_timestamp(), 'its turn has come, but the job has no row'
		FROM head h LEFT JOIN LATERAL (SELECT j.id FROM jobs j WHERE j.day = h.day AND j.id = h.job_id OFFSET 0) j ON true
		WHERE j.id IS NULL
		RETURNING job_id
	)
	SELECT array_agg(m.job_id) INTO v_missing FROM missing m;
	IF v_missing IS NOT NULL THEN
		PERFORM pass_on(v_missing);
	END IF;
END $$;

-- Ends the part of finished jobs in the order of their keys, and gives their
-- turns to the next ones.
CREATE FUNCTION {schema}.pass_on(p_ids uuid[]) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = {schema}, pg_temp
{pinned}
AS $$
DECLARE
	v_keys   bytea[];
	v_queues text[];
BEGIN
	WITH gone AS (
		DELETE FROM ordered o USING unnest(p_ids) u(id) WHERE o.job_id = u.id RETURNING o.order_key, o.queue, o.head
	)
	SELECT array_agg(g.order_key), array_agg(g.queue) INTO v_keys, v_queues FROM gone g WHERE g.head;
	IF v_keys IS NULL THEN
		RETURN;
	ELSIF current_setting('transaction_isolation') = 'read committed' THEN
		PERFORM give_turns(v_keys);
	ELSE
		-- What was added since this transaction's snapshot is not seen here.
		INSERT INTO order_turns (queue, order_key) SELECT DISTINCT u.queue, u.key FROM unnest(v_queues, v_keys) u(queue, key);
	END IF;
END $$;

-- Looks after the keys of a queue whose turn may have come. Answers whether
-- some are left.
CREATE FUNCTION {schema}.take_turns(p_queue text) RETURNS boolean
LANGUAGE plpgsql VOLATILE
SET search_path = {schema}, pg_temp
{pinned}
AS $$
DECLARE
	v_key   bytea := '';
	v_turns tid[];
	v_seq   bigint;
BEGIN
	FOR n IN 1 .. 500 LOOP
		SELECT t.order_key INTO v_key FROM order_turns t
		WHERE t.queue = p_queue AND t.order_key > v_key ORDER BY t.order_key LIMIT 1;
		IF NOT FOUND THEN
			RETURN false;
		END IF;
		-- One at a time looks after a key, so that it gets no second head.
		CONTINUE WHEN NOT pg_try_advisory_xact_lock({lock_order}, hashtext(encode(v_key, 'hex')));
		SELECT array_agg(t.ctid) INTO v_turns FROM order_turns t WHERE t.queue = p_queue AND t.order_key = v_key;
		-- A head that is just ending passes its turn on, yet may not have seen
		-- whom to; one that is locked here has not begun to. So either the turn
		-- stays, or whoever ends the head sees what this turn was for.
		SELECT o.seq INTO v_seq FROM ordered o WHERE o.order_key = v_key AND o.head;
		IF FOUND THEN
			PERFORM FROM ordered o WHERE o.order_key = v_key AND o.seq = v_seq AND o.head FOR UPDATE SKIP LOCKED;
			CONTINUE WHEN NOT FOUND;
		END IF;
		DELETE FROM order_turns t WHERE t.ctid = ANY (v_turns);
		IF v_seq IS NULL THEN
			PERFORM give_turns(ARRAY[v_key]);
		END IF;
	END LOOP;
	RETURN true;
END $$;
