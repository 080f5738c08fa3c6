-- Retention: what is over leaves by emptying whole days, or moves to an archive.
-- Each step is a transaction of its own that is safe beside any other, of
-- another process too, and never waits for a lock that live traffic holds.

-- When the last pass began: the processes of a database make one between them.
CREATE TABLE {schema}.retention (
	one      boolean     PRIMARY KEY CHECK (one),
	began_at timestamptz NOT NULL
);
INSERT INTO {schema}.retention (one, began_at) VALUES (true, '-infinity');

-- Finished jobs whose history was to be kept for longer, with how they ended.
CREATE TABLE {schema}.archive (
	day             integer     NOT NULL, -- of the move
	id              uuid        NOT NULL,
	kind            text        NOT NULL,
	queue           text        NOT NULL,
	version         integer     NOT NULL,
	capability      bigint      NOT NULL,
	priority        smallint    NOT NULL,
	organization_id text        NOT NULL, -- empty for none
	status          text        NOT NULL CHECK (status IN ('completed', 'dead', 'cancelled')),
	attempts        smallint    NOT NULL,
	max_attempts    smallint    NOT NULL,
	run_at          timestamptz NOT NULL,
	enqueued_at     timestamptz NOT NULL,
	claimed_at      timestamptz NOT NULL,
	finished_at     timestamptz NOT NULL,
	archived_at     timestamptz NOT NULL,
	idempotency_key bytea,
	order_key       bytea,
	trace_context   text,
	args            jsonb       NOT NULL,
	PRIMARY KEY (id, day)
) PARTITION BY LIST (day);

-- Every unfinished job in its one place.
CREATE VIEW {schema}.unfinished AS
SELECT 'ready' AS place, r.id, r.day, r.queue FROM {schema}.ready r
UNION ALL
SELECT 'leased', u.id, u.day, l.queue FROM {schema}.leases l
CROSS JOIN LATERAL unnest(l.job_ids, l.days) WITH ORDINALITY u(id, day, pos) WHERE get_bit(l.open, u.pos::integer - 1) = 1
UNION ALL
SELECT 'blocked', o.job_id, o.day, o.queue FROM {schema}.ordered o WHERE NOT o.head;

-- Whether it is the caller's turn to make a pass.
CREATE FUNCTION {schema}.begin_retention(p_every_us bigint) RETURNS boolean
LANGUAGE plpgsql VOLATILE
SET search_path = {schema}, pg_temp
SET lock_timeout = '1s'
AS $$
DECLARE
	v_now timestamptz := clock_timestamp();
BEGIN
	UPDATE retention r SET began_at = v_now
	WHERE r.began_at <= v_now - p_every_us * interval '1 microsecond' OR r.began_at > v_now; -- the clock was set back
	RETURN FOUND;
END $$;

-- The partitions of days: whether each is attached, on its way out, or left
-- over from that; whether it takes up space, as only an empty one does not; and
-- for how long its day has been over, below zero while it is not.
CREATE FUNCTION {schema}.leaves() RETURNS TABLE (parent text, day integer, state text, used boolean, over_us bigint)
LANGUAGE sql VOLATILE
SET search_path = {schema}, pg_temp
AS $$
	SELECT p.name, d.day, CASE WHEN i.inhrelid IS NULL THEN 'detached' WHEN i.inhdetachpending THEN 'pending' ELSE 'attached' END,
		COALESCE(pg_relation_size(c.oid), 0) > 0, -- NULL where it is just being dropped
		(extract(epoch FROM clock_timestamp() - to_timestamp((d.day + 1) * 86400::double precision)) * 1000000)::bigint
	FROM (VALUES ('jobs'), ('outcomes'), ('job_errors'), ('archive')) p(name)
	JOIN pg_class t ON t.oid = to_regclass(p.name)
	JOIN pg_class c ON c.relnamespace = t.relnamespace AND c.relkind = 'r' AND c.relname ~ ('^' || p.name || '_d[0-9]+$')
	LEFT JOIN pg_inherits i ON i.inhrelid = c.oid AND i.inhparent = t.oid
	CROSS JOIN LATERAL (SELECT substr(c.relname, length(p.name) + 3)::integer AS day) d
	ORDER BY p.name, d.day
$$;

-- Unfinished jobs that have to move to a later day so that their own can be
-- emptied at p_age: those that wait, by where they are in ready, and those whose
-- turn has not come. They move a day before: by the time that it is emptied, no
-- transaction is left that sees them there.
CREATE FUNCTION {schema}.survivors(p_age_us bigint, p_limit integer) RETURNS TABLE (day integer, waiting text, blocked uuid)
LANGUAGE sql VOLATILE
SET search_path = {schema}, pg_temp
SET jit = off
AS $$
	WITH first AS MATERIALIZED (SELECT day_of(clock_timestamp() - p_age_us * interval '1 microsecond' + interval '1 day') AS day)
	SELECT r.day, r.ctid::text, NULL::uuid FROM ready r WHERE r.day < (SELECT f.day FROM first f)
	UNION ALL
	SELECT o.day, NULL, o.job_id FROM ordered o WHERE NOT o.head AND o.day < (SELECT f.day FROM first f)
	LIMIT p_limit
$$;

-- Moves survivors to today. It skips what somebody has locked, or has taken
-- meanwhile. A claim skips what is locked here; the next look finds it. Answers
-- how many moved.
CREATE FUNCTION {schema}.rekey(p_waiting text[], p_blocked uuid[]) RETURNS bigint
LANGUAGE plpgsql VOLATILE
SET search_path = {schema}, pg_temp
{pinned}
SET lock_timeout = '1s'
AS $$
DECLARE
	v_day      integer := day_of(clock_timestamp());
	v_ready    tid[];
	v_ids      uuid[];
	v_ordered  uuid[];
	v_moved    bigint;
	v_homeless uuid[];
BEGIN
	IF to_regclass('jobs_d' || v_day) IS NULL THEN
		PERFORM ensure_day(v_day);
	END IF;
	SELECT array_agg(x.at), array_agg(x.id) INTO v_ready, v_ids FROM (
		SELECT r.ctid AS at, r.id FROM unnest(p_waiting) u(at) JOIN ready r ON r.ctid = u.at::tid
		WHERE r.day < v_day FOR UPDATE OF r SKIP LOCKED) x;
	SELECT array_agg(x.id) INTO v_ordered FROM (
		SELECT o.job_id AS id FROM unnest(v_ids || p_blocked) u(id) JOIN ordered o ON o.job_id = u.id
		WHERE o.day < v_day FOR UPDATE OF o SKIP LOCKED) x;
	-- What is locked stays as it is, so it is read again as it is now. A head
	-- moves in both of its places or not at all.
	WITH mine AS MATERIALIZED (
		SELECT r.id, r.day, r.ctid AS ready_at, o.ctid AS ordered_at FROM unnest(v_ready) u(at) JOIN ready r ON r.ctid = u.at
		LEFT JOIN ordered o ON o.job_id = r.id
		WHERE r.day < v_day AND (o.job_id IS NULL OR o.job_id = ANY (v_ordered))
		UNION ALL
		SELECT o.job_id, o.day, NULL, o.ctid FROM unnest(v_ordered) u(id) JOIN ordered o ON o.job_id = u.id
		WHERE o.day < v_day AND NOT o.head
	), gone AS (
		DELETE FROM jobs j USING mine m WHERE j.day = m.day AND j.id = m.id RETURNING j.*
	), put AS (
		INSERT INTO jobs (day, id, kind, queue, version, capability, priority, max_attempts, organization_id, run_at, enqueued_at,
			idempotency_key, order_key, trace_context, args)
		SELECT v_day, g.id, g.kind, g.queue, g.version, g.capability, g.priority, g.max_attempts, g.organization_id, g.run_at, g.enqueued_at,
			g.idempotency_key, g.order_key, g.trace_context, g.args
		FROM gone g
	), moved AS MATERIALIZED (
		SELECT m.* FROM mine m WHERE m.id IN (SELECT g.id FROM gone g)
	), waiting AS (
		UPDATE ready r SET day = v_day FROM moved m WHERE r.ctid = m.ready_at
	), turns AS (
		UPDATE ordered o SET day = v_day FROM moved m WHERE o.ctid = m.ordered_at
	)
	SELECT (SELECT count(*) FROM moved), (SELECT array_agg(m.id) FROM mine m WHERE m.id NOT IN (SELECT g.id FROM gone g))
	INTO v_moved, v_homeless;
	IF v_homeless IS NOT NULL THEN
		-- It would keep its day from being emptied for ever.
		INSERT INTO quarantine (job_id, job_day, queue, attempts, found_at, reason)
		SELECT r.id, r.day, r.queue, r.attempts, clock_timestamp(), 'its day is about to be emptied, but the job has no row'
		FROM unnest(v_ready) u(at) JOIN ready r ON r.ctid = u.at WHERE r.id = ANY (v_homeless)
		UNION ALL
		SELECT o.job_id, o.day, o.queue, 0, clock_timestamp(), 'its day is about to be emptied, but the job has no row'
		FROM unnest(v_homeless) u(id) JOIN ordered o ON o.job_id = u.id WHERE NOT o.head;
		DELETE FROM ready r USING unnest(v_ready) u(at) WHERE r.ctid = u.at AND r.id = ANY (v_homeless);
		PERFORM pass_on(v_homeless);
	END IF;
	RETURN v_moved;
END $$;

-- Moves finished jobs of a day to the archive: of the p_limit ones after p_after
-- those that have ended. Answers how many, and after which the next page begins,
-- NULL for none.
CREATE FUNCTION {schema}.archive_jobs(p_day integer, p_after uuid, p_limit integer, OUT moved bigint, OUT next uuid)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = {schema}, pg_temp
{pinned}
SET lock_timeout = '1s'
AS $$
DECLARE
	v_now timestamptz := clock_timestamp();
	v_day integer     := day_of(v_now);
BEGIN
	IF to_regclass('archive_d' || v_day) IS NULL THEN
		PERFORM ensure_day(v_day, '{archive}');
	END IF;
	EXECUTE format('
		WITH page AS MATERIALIZED (
			SELECT j.id FROM %1$s j WHERE j.id > $1 ORDER BY j.id LIMIT $2
		), finished AS MATERIALIZED (
			SELECT p.id, o.* FROM page p CROSS JOIN LATERAL (
				SELECT o.outcome, o.attempts, o.claimed_at, o.finished_at FROM outcomes o WHERE o.job_id = p.id AND o.day >= $3 LIMIT 1) o
		), gone AS (
			DELETE FROM %1$s j USING finished f WHERE j.id = f.id
			RETURNING j.*, f.outcome, f.attempts, f.claimed_at, f.finished_at
		), moved AS (
			INSERT INTO archive (day, id, kind, queue, version, capability, priority, organization_id, status, attempts, max_attempts,
				run_at, enqueued_at, claimed_at, finished_at, archived_at, idempotency_key, order_key, trace_context, args)
			SELECT $4, g.id, g.kind, g.queue, g.version, g.capability, g.priority, g.organization_id,
				(''{completed,-,dead,-,cancelled}''::text[])[g.outcome], g.attempts, g.max_attempts,
				g.run_at, g.enqueued_at, g.claimed_at, g.finished_at, $5, g.idempotency_key, g.order_key, g.trace_context, g.args
			FROM gone g ON CONFLICT DO NOTHING
		)
		SELECT (SELECT count(*) FROM gone), (SELECT p.id FROM page p ORDER BY p.id DESC LIMIT 1)', {schema_text} || '.jobs_d' || p_day)
	INTO moved, next USING p_after, p_limit, p_day, v_day, v_now;
END $$;

-- The name of a partition with its schema: without, one of the caller's own
-- temporary tables could stand for one that is not there.
CREATE FUNCTION {schema}.leaf(p_parent text, p_day integer) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN {schema_text} || '.' || quote_ident(p_parent || '_d' || p_day);

-- Empties a day of a table, unless something still needs it or somebody has it
-- locked. Every claim holds the partition for a moment, so it is tried p_tries
-- times, some milliseconds apart; it never stands in the queue for the lock,
-- where everybody else would wait behind it.
CREATE FUNCTION {schema}.empty_leaf(p_parent text, p_day integer, p_tries integer) RETURNS text
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = {schema}, pg_temp
SET jit = off
AS $$
DECLARE
	v_leaf text := leaf(p_parent, p_day);
BEGIN
	IF p_day >= day_of(clock_timestamp()) OR p_parent NOT IN ('jobs', 'outcomes', 'job_errors', 'archive') OR to_regclass(v_leaf) IS NULL THEN
		RETURN 'needed';
	END IF;
	BEGIN
		EXECUTE format('LOCK TABLE ONLY %s IN SHARE MODE NOWAIT', v_leaf);
	EXCEPTION WHEN lock_not_available THEN
		RETURN 'locked';
	END;
	-- From here on nobody adds a job to the day, and whoever has added one has
	-- committed, so that a new statement sees it. Places may only let go of the
	-- day: they carry on the one that they have.
	IF p_parent = 'jobs' AND (
			EXISTS (SELECT FROM unfinished u WHERE u.day = p_day)
			OR EXISTS (SELECT FROM ordered o WHERE o.day = p_day)) THEN
		RETURN 'needed';
	END IF;
	-- A job without its outcome would be taken for an unfinished one.
	IF p_parent = 'outcomes' AND EXISTS (SELECT FROM leaves() l WHERE l.parent = 'jobs' AND l.day <= p_day AND l.used) THEN
		RETURN 'needed';
	END IF;
	RETURN truncate_leaf(v_leaf, p_tries);
END $$;

-- Empties a leaf, of which nothing is needed any more, between the statements
-- of others: it never waits in front of them. Answers as empty_leaf does. Not for
-- anybody else, since it takes any table.
CREATE FUNCTION {schema}.truncate_leaf(p_leaf text, p_tries integer) RETURNS text
LANGUAGE plpgsql VOLATILE
SET search_path = {schema}, pg_temp
AS $$
BEGIN
	FOR n IN 1 .. p_tries LOOP
		BEGIN
			EXECUTE format('LOCK TABLE ONLY %s IN ACCESS EXCLUSIVE MODE NOWAIT', p_leaf);
			EXECUTE format('TRUNCATE ONLY %s', p_leaf);
			RETURN 'emptied';
		EXCEPTION WHEN lock_not_available THEN
			PERFORM pg_sleep(0.003 + 0.014 * random());
		END;
	END LOOP;
	RETURN 'locked';
END $$;

-- Detaches an empty day, for callers that do not own the tables: who does, does it
-- CONCURRENTLY, which no function can. This one holds up everybody for a moment, so
-- it looks for one in which nobody uses the table; only at last it waits, and then
-- everybody else does too, for half a second at most. Answers whether it is detached.
CREATE FUNCTION {schema}.detach_leaf(p_parent text, p_day integer, p_tries integer) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = {schema}, pg_temp
SET lock_timeout = '500ms'
AS $$
DECLARE
	v_leaf   text := leaf(p_parent, p_day);
	v_parent text := {schema_text} || '.' || quote_ident(p_parent);
	v_state  boolean;
BEGIN
	IF p_parent NOT IN ('jobs', 'outcomes', 'job_errors', 'archive', 'events', 'event_outcomes', 'event_errors') THEN
		RETURN false;
	END IF;
	FOR n IN 1 .. p_tries LOOP
		SELECT i.inhdetachpending INTO v_state FROM pg_inherits i WHERE i.inhrelid = to_regclass(v_leaf) AND i.inhparent = to_regclass(v_parent);
		IF NOT FOUND THEN
			RETURN to_regclass(v_leaf) IS NOT NULL;
		END IF;
		BEGIN
			IF v_state THEN -- an owner was interrupted; what is older than that may still use it
				EXECUTE format('ALTER TABLE %s DETACH PARTITION %s FINALIZE', v_parent, v_leaf);
				RETURN true;
			END IF;
			EXECUTE format('LOCK TABLE ONLY %s, ONLY %s IN ACCESS EXCLUSIVE MODE', v_parent, v_leaf) || CASE WHEN n < p_tries THEN ' NOWAIT' ELSE '' END;
			IF pg_relation_size(to_regclass(v_leaf)) > 0 THEN
				RAISE EXCEPTION USING ERRCODE = 'PW098'; -- so that the locks go before the caller's transaction does
			END IF;
			EXECUTE format('ALTER TABLE %s DETACH PARTITION %s', v_parent, v_leaf);
			RETURN true;
		EXCEPTION
			WHEN SQLSTATE 'PW098' THEN
				RETURN false;
			WHEN lock_not_available THEN
				IF v_state THEN -- it has waited for as long as it may
					RETURN false;
				END IF;
				PERFORM pg_sleep(0.003 + 0.014 * random());
		END;
	END LOOP;
	RETURN false;
END $$;

-- Drops a day that has been detached. One that somebody has added to before it
-- was detached comes back. Answers whether it is gone.
CREATE FUNCTION {schema}.drop_leaf(p_parent text, p_day integer) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = {schema}, pg_temp
SET lock_timeout = '100ms'
AS $$
DECLARE
	v_leaf text := leaf(p_parent, p_day);
BEGIN
	IF p_parent NOT IN ('jobs', 'outcomes', 'job_errors', 'archive', 'events', 'event_outcomes', 'event_errors') THEN
		RAISE EXCEPTION 'table % has no days', p_parent;
	END IF;
	EXECUTE format('LOCK TABLE ONLY %s IN ACCESS EXCLUSIVE MODE', v_leaf);
	IF pg_relation_size(to_regclass(v_leaf)) > 0 THEN
		EXECUTE format('ALTER TABLE %s.%I ATTACH PARTITION %s FOR VALUES IN (%s)', {schema_text}, p_parent, v_leaf, p_day);
		RETURN false;
	END IF;
	EXECUTE format('DROP TABLE %s', v_leaf);
	RETURN true;
END $$;

-- Removes dead letters that are older than p_age, p_limit at most.
CREATE FUNCTION {schema}.purge_dead_letters(p_age_us bigint, p_limit integer) RETURNS bigint
LANGUAGE sql VOLATILE
SET search_path = {schema}, pg_temp
{pinned}
SET lock_timeout = '1s'
AS $$
	WITH old AS MATERIALIZED (
		SELECT d.job_id FROM dead_letters d WHERE d.died_at < clock_timestamp() - p_age_us * interval '1 microsecond'
		ORDER BY d.died_at LIMIT p_limit FOR UPDATE SKIP LOCKED
	), gone AS (
		DELETE FROM dead_letters d USING old o WHERE d.job_id = o.job_id RETURNING d.job_id
	)
	SELECT count(*) FROM gone
$$;

-- Removes keys whose time is over and whose job is too, of p_blocks blocks from
-- p_block on. The table is read through, so that enqueues need not keep an index
-- of times. Answers how many, and how many blocks there are.
CREATE FUNCTION {schema}.purge_keys(p_block bigint, p_blocks bigint, OUT removed bigint, OUT blocks bigint)
LANGUAGE plpgsql VOLATILE
SET search_path = {schema}, pg_temp
{pinned}
SET lock_timeout = '1s'
AS $$
DECLARE
	v_at  tid[];
	v_ids uuid[];
BEGIN
	blocks := pg_relation_size('idempotency_keys') / current_setting('block_size')::bigint;
	removed := 0;
	-- Without any lock, since whoever enqueues with such a key would wait for it.
	-- A job is over by the rule of state_of: it has an outcome, or no row.
	SELECT array_agg(k.ctid), array_agg(k.job_id) INTO v_at, v_ids FROM idempotency_keys k
	WHERE k.ctid >= format('(%s,0)', p_block)::tid AND k.ctid < format('(%s,0)', p_block + p_blocks)::tid
		AND k.expires_at < clock_timestamp()
		AND (EXISTS (SELECT FROM outcomes o WHERE o.job_id = k.job_id AND o.day >= k.job_day)
			OR NOT EXISTS (SELECT FROM jobs j WHERE j.id = k.job_id AND j.day >= k.job_day));
	IF v_at IS NULL THEN
		RETURN;
	END IF;
	WITH past AS MATERIALIZED (
		SELECT k.ctid AS at FROM unnest(v_at, v_ids) u(at, id) JOIN idempotency_keys k ON k.ctid = u.at
		WHERE k.job_id = u.id FOR UPDATE OF k SKIP LOCKED
	), gone AS (
		DELETE FROM idempotency_keys k USING past p WHERE k.ctid = p.at RETURNING k.job_id
	)
	SELECT count(*) INTO removed FROM gone;
END $$;
