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
	v_homeless bytea[]; -- keys whose first job has no row
BEGIN
	LOOP
		WITH first AS (
			SELECT x.* FROM (SELECT DISTINCT k FROM unnest(p_keys) k) keys
			CROSS JOIN LATERAL (SELECT o.order_key, o.seq, o.queue FROM ordered o WHERE o.order_key = keys.k ORDER BY o.seq LIMIT 1) x
		), free AS (
			SELECT x.* FROM first f
			CROSS JOIN LATERAL (
				SELECT o.order_key, o.seq, o.job_id, o.day FROM ordered o
				WHERE o.order_key = f.order_key AND o.seq = f.seq FOR UPDATE SKIP LOCKED) x
		), turn AS (
			SELECT f.order_key, f.seq, j.* FROM free f
			LEFT JOIN LATERAL (
				SELECT j.id, j.queue, j.priority, j.capability, GREATEST(j.run_at, clock_timestamp()) AS run_at
				FROM jobs j WHERE j.day = f.day AND j.id = f.job_id OFFSET 0) j ON true
		), head AS (
			UPDATE ordered o SET head = true, ready_at = t.run_at FROM turn t
			WHERE o.order_key = t.order_key AND o.seq = t.seq AND NOT o.head AND t.id IS NOT NULL
			RETURNING o.day, t.id, t.queue, t.priority, t.capability, t.run_at
		), waiting AS (
			INSERT INTO ready (queue, priority, run_at, id, day, capability, attempts, suspect)
			SELECT h.queue, h.priority, h.run_at, h.id, h.day, h.capability, 0, false FROM head h
		), put_off AS (
			INSERT INTO order_turns (queue, order_key)
			SELECT f.queue, f.order_key FROM first f WHERE NOT EXISTS (SELECT FROM free x WHERE x.order_key = f.order_key)
		)
		SELECT array_agg(t.order_key) INTO v_homeless FROM turn t WHERE t.id IS NULL;
		EXIT WHEN v_homeless IS NULL;
		-- Where one has lost its row others may have, so all of them go at once.
		WITH homeless AS (
			SELECT o.ctid AS at FROM ordered o
			LEFT JOIN LATERAL (SELECT j.id FROM jobs j WHERE j.day = o.day AND j.id = o.job_id OFFSET 0) j ON true
			WHERE o.order_key = ANY (v_homeless) AND j.id IS NULL FOR UPDATE OF o SKIP LOCKED
		), gone AS (
			DELETE FROM ordered o USING homeless h WHERE o.ctid = h.at RETURNING o.job_id, o.day, o.queue
		)
		INSERT INTO quarantine (job_id, job_day, queue, attempts, found_at, reason)
		SELECT g.job_id, g.day, g.queue, 0, clock_timestamp(), 'its turn has come, but the job has no row' FROM gone g;
		p_keys := v_homeless;
	END LOOP;
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

-- Looks after the keys of a queue whose turn may have come: about as many as a
-- claim takes jobs. Answers whether some are left that nobody looks after.
CREATE FUNCTION {schema}.take_turns(p_queue text) RETURNS boolean
LANGUAGE plpgsql VOLATILE
SET search_path = {schema}, pg_temp
{pinned}
AS $$
DECLARE
	v_from  bytea   := '';
	v_left  boolean := false;
	v_done  integer := 0;
	v_keys  bytea[];
	v_mine  bytea[]; -- of those, what this transaction looks after
	v_turns tid[];   -- of mine
	v_held  bytea[]; -- of mine, those that have a head
	v_free  bytea[]; -- and those that have none
BEGIN
	WHILE v_done < 100 LOOP
		WITH RECURSIVE turn (key) AS (
			(SELECT t.order_key FROM order_turns t WHERE t.queue = p_queue AND t.order_key > v_from ORDER BY t.order_key LIMIT 1)
			UNION ALL
			SELECT x.order_key FROM turn
			CROSS JOIN LATERAL (
				SELECT t.order_key FROM order_turns t WHERE t.queue = p_queue AND t.order_key > turn.key ORDER BY t.order_key LIMIT 1) x
		)
		SELECT array_agg(n.key) INTO v_keys FROM (SELECT turn.key FROM turn LIMIT 100) n;
		IF v_keys IS NULL THEN
			RETURN v_left;
		END IF;
		v_from := v_keys[cardinality(v_keys)];
		-- One at a time looks after a key, so that it gets no second head. A lock
		-- is for many keys: the server has room for some thousands of them in all.
		-- Whoever has this one may be past this key, or past this turn of it.
		SELECT array_agg(l.key) FILTER (WHERE l.mine) INTO v_mine FROM (
			SELECT k AS key, pg_try_advisory_xact_lock({lock_order}, (hashtext(p_queue) & -128) | (get_byte(k, 0) & 127)) AS mine
			FROM unnest(v_keys) k OFFSET 0) l;
		v_left := v_left OR v_mine IS DISTINCT FROM v_keys;
		CONTINUE WHEN v_mine IS NULL;
		SELECT array_agg(t.ctid) INTO v_turns FROM order_turns t WHERE t.queue = p_queue AND t.order_key = ANY (v_mine);
		-- A head that is just ending passes its turn on, yet may not have seen
		-- whom to; one that is locked here has not begun to. So either the turn
		-- stays, or whoever ends the head sees what this turn was for.
		SELECT COALESCE(array_agg(h.order_key), '{}') INTO v_held FROM (
			SELECT o.order_key FROM ordered o WHERE o.order_key = ANY (v_mine) AND o.head FOR UPDATE SKIP LOCKED) h;
		SELECT COALESCE(array_agg(k), '{}') INTO v_free FROM unnest(v_mine) k
		WHERE NOT EXISTS (SELECT FROM ordered o WHERE o.order_key = k AND o.head);
		DELETE FROM order_turns t WHERE t.ctid = ANY (v_turns) AND t.order_key = ANY (v_held || v_free);
		IF cardinality(v_free) > 0 THEN
			PERFORM give_turns(v_free);
		END IF;
		v_done := v_done + cardinality(v_held) + cardinality(v_free);
	END LOOP;
	RETURN true;
END $$;
