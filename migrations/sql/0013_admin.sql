-- What operators do: the audit of it, dead letters by their error, redrives.

-- One row a change that somebody asked for, written in the transaction of the
-- change, by the function that makes it; where that takes many transactions, each
-- adds to the row.
CREATE TABLE {schema}.audit (
	id       uuid        PRIMARY KEY,
	began_at timestamptz NOT NULL,
	last_at  timestamptz NOT NULL,
	made_by  text        NOT NULL, -- who says so
	role     text        NOT NULL, -- of the database
	verb     text        NOT NULL,
	target   jsonb       NOT NULL, -- what was named, or the filter
	things   bigint      NOT NULL, -- how many jobs, queues and so on it changed
	reason   text        NOT NULL
);
CREATE INDEX audit_began ON {schema}.audit (began_at, id);

-- Writes the row of a change. Not for anybody else: the functions that change
-- something call it as the owner, so that nobody writes what did not happen. The
-- setting pawl.audit of the transaction, an object, has what only the caller knows:
-- by, reason, the id of the row that it adds to, and the filter that it went by.
--
-- p_handlers says that handlers do this too, in the course of their work: from the
-- role of a worker, which the owner's is as well, it is written down where the
-- setting says that an operator is at work.
--
-- Nothing is added to a row of somebody else, or about something else: p_run or the
-- id in the setting may name any.
CREATE FUNCTION {schema}.audited(p_verb text, p_target jsonb, p_things bigint, p_handlers boolean, p_run uuid DEFAULT NULL) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = {schema}, pg_temp
AS $$
DECLARE
	v_note jsonb       := NULLIF(current_setting('pawl.audit', true), '')::jsonb;
	v_now  timestamptz := clock_timestamp();
	v_id   uuid;
BEGIN
	IF p_things <= 0 OR p_handlers AND v_note IS NULL
			AND has_table_privilege(COALESCE(NULLIF(current_setting('role'), 'none'), session_user), 'leases', 'INSERT') THEN
		RETURN;
	END IF;
	FOREACH v_id IN ARRAY ARRAY[p_run, (v_note ->> 'id')::uuid, new_id()] LOOP
		CONTINUE WHEN v_id IS NULL;
		INSERT INTO audit AS a (id, began_at, last_at, made_by, role, verb, target, things, reason)
		VALUES (v_id, v_now, v_now, COALESCE(v_note ->> 'by', session_user), session_user, p_verb, p_target, p_things, COALESCE(v_note ->> 'reason', ''))
		ON CONFLICT (id) DO UPDATE SET last_at = excluded.last_at, things = a.things + excluded.things
		WHERE (a.made_by, a.role, a.verb, a.target, a.reason) = (excluded.made_by, excluded.role, excluded.verb, excluded.target, excluded.reason);
		EXIT WHEN FOUND;
	END LOOP;
END $$;

-- A summary without what differs from one failure to the next: UUIDs, numbers
-- and long hexadecimal words become #, quoted texts "#". A quote that the bound
-- of summaries has cut off ends with them.
CREATE FUNCTION {schema}.error_shape(p_summary text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN left(regexp_replace(regexp_replace(regexp_replace(regexp_replace(regexp_replace(
	left(p_summary, 1000),
	'"[^"]*("|$)|`[^`]*(`|$)', '"#"', 'g'),
	'(^|[^[:alnum:]])''[^'']*''', chr(92) || '1"#"', 'g'), -- not an apostrophe
	'[0-9a-fA-F]{8}-([0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}|0[xX][0-9a-fA-F]+|[[:<:]](?=[0-9]*[a-fA-F])(?=[a-fA-F]*[0-9])[0-9a-fA-F]{8,}[[:>:]]', '#', 'g'),
	'[0-9]+([.,:][0-9]+)*', '#', 'g'),
	'[[:space:]]+', ' ', 'g'), 300);

-- What failures of one sort have in common.
CREATE FUNCTION {schema}.error_fingerprint(p_code text, p_summary text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN substr(encode(sha256(convert_to(p_code || chr(10) || {schema}.error_shape(p_summary), 'UTF8')), 'hex'), 1, 12);

ALTER TABLE {schema}.dead_letters ADD COLUMN fingerprint text NOT NULL GENERATED ALWAYS AS ({schema}.error_fingerprint(code, summary)) STORED;
CREATE INDEX dead_letters_fingerprint ON {schema}.dead_letters (fingerprint, died_at, job_id);
CREATE INDEX dead_letters_code ON {schema}.dead_letters (code, died_at, job_id);

-- One row a redrive of many dead letters: what it is about, and how far it is.
-- Letters of later than its start are none of its business, so that one that
-- dies again is not redriven by it again.
CREATE TABLE {schema}.redrives (
	id          uuid             PRIMARY KEY,
	filter      jsonb            NOT NULL,
	made_by     text             NOT NULL,
	reason      text             NOT NULL,
	canary      integer          NOT NULL CHECK (canary >= 0),
	rate        double precision NOT NULL CHECK (rate BETWEEN 0 AND 1000000), -- jobs a second, zero without limit
	stop_share  double precision NOT NULL CHECK (stop_share BETWEEN 0 AND 1), -- zero never stops
	attempts    smallint         CHECK (attempts BETWEEN 1 AND 32766), -- of each; NULL: as it had
	state       text             NOT NULL CHECK (state IN ('canary', 'running', 'stopped', 'done')),
	started_at  timestamptz      NOT NULL,
	ended_at    timestamptz,
	last_at     timestamptz      NOT NULL, -- when anything of this changed
	pass        smallint         NOT NULL DEFAULT 1, -- the second one is for what the first one could not have
	after_died  timestamptz      NOT NULL DEFAULT '-infinity', -- the last letter that was looked at
	after_job   uuid             NOT NULL DEFAULT '00000000-0000-0000-0000-000000000000',
	looked      bigint           NOT NULL DEFAULT 0,
	redriven    bigint           NOT NULL DEFAULT 0,
	refused     bigint           NOT NULL DEFAULT 0, -- of this pass: another job has their key
	skipped     bigint           NOT NULL DEFAULT 0, -- of this pass: somebody had them locked, or removed them
	completed   bigint           NOT NULL DEFAULT 0, -- of those redriven
	failed      bigint           NOT NULL DEFAULT 0, -- dead again
	cancelled   bigint           NOT NULL DEFAULT 0, -- or without a trace
	forgiven_failed bigint       NOT NULL DEFAULT 0, -- of failed and of all ended ones: what counts no
	forgiven_ended  bigint       NOT NULL DEFAULT 0  -- more, since somebody went on after it had stopped
) WITH (fillfactor = 50);

-- The former lives of jobs that were dead and are not any more.
CREATE TABLE {schema}.redriven (
	job_id      uuid        NOT NULL,
	redriven_at timestamptz NOT NULL,
	redrive     uuid,
	code        text        NOT NULL,
	summary     text        NOT NULL,
	attempts    smallint    NOT NULL,
	died_at     timestamptz NOT NULL,
	errors      jsonb       NOT NULL, -- the latest
	outcome     smallint, -- of its new life, as far as its redrive has seen it; zero for none
	PRIMARY KEY (job_id, redriven_at)
);
CREATE INDEX redriven_at ON {schema}.redriven (redriven_at);
CREATE INDEX redriven_open ON {schema}.redriven (redrive, job_id) WHERE outcome IS NULL AND redrive IS NOT NULL;

-- Makes dead letters jobs again, with their ids, with all their attempts or
-- p_attempts, due now. One whose idempotency key is held by another job stays
-- dead. What somebody has locked, and what is not a dead letter, is passed over
-- and not in the answer. An order key puts a job behind those that are there.
-- All that a job needs is in its letter: of an old one there is nothing else.
CREATE FUNCTION {schema}.redrive(p_ids uuid[], p_redrive uuid, p_attempts smallint) RETURNS TABLE (id uuid, refused_for uuid)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = {schema}, pg_temp
{pinned}
SET lock_timeout = '5s'
AS $$
#variable_conflict use_column
DECLARE
	v_now    timestamptz;
	v_day    integer;
	v_letter dead_letters%ROWTYPE;
	v_key    idempotency_keys%ROWTYPE;
	v_held   uuid;
	v_queues text[] := '{}';
	v_queue  text;
	v_done   uuid[] := '{}';
BEGIN
	v_day := day_of(clock_timestamp());
	IF to_regclass('jobs_d' || v_day) IS NULL THEN
		PERFORM ensure_day(v_day);
	END IF;
	-- In the order of keys, as an enqueue takes them.
	FOR v_letter IN
		SELECT d.* FROM (
			SELECT d.* FROM unnest(p_ids) u(id) JOIN dead_letters d ON d.job_id = u.id FOR UPDATE OF d SKIP LOCKED) d
		ORDER BY d.organization_id, d.kind, d.idempotency_key, d.job_id
	LOOP
		v_held := NULL;
		WHILE v_letter.idempotency_key IS NOT NULL LOOP
			-- For how long it was to be held is forgotten: until the job ends.
			INSERT INTO idempotency_keys (organization_id, kind, key, job_id, job_day, expires_at, args_digest)
			VALUES (v_letter.organization_id, v_letter.kind, v_letter.idempotency_key, v_letter.job_id, v_day, clock_timestamp(),
				sha256(convert_to(v_letter.args::text, 'UTF8')))
			ON CONFLICT DO NOTHING;
			EXIT WHEN FOUND;
			SELECT k.* INTO v_key FROM idempotency_keys k
			WHERE k.organization_id = v_letter.organization_id AND k.kind = v_letter.kind AND k.key = v_letter.idempotency_key FOR UPDATE;
			CONTINUE WHEN NOT FOUND;
			EXIT WHEN v_key.job_id = v_letter.job_id;
			IF v_key.expires_at > clock_timestamp() OR state_of(v_key.job_day, v_key.job_id) NOT IN ('completed', 'dead', 'cancelled', 'gone') THEN
				v_held := v_key.job_id;
				EXIT;
			END IF;
			DELETE FROM idempotency_keys k
			WHERE k.organization_id = v_letter.organization_id AND k.kind = v_letter.kind AND k.key = v_letter.idempotency_key;
		END LOOP;
		IF v_held IS NOT NULL THEN
			id := v_letter.job_id; refused_for := v_held;
			RETURN NEXT;
			CONTINUE;
		END IF;

		v_now := clock_timestamp();
		INSERT INTO redriven (job_id, redriven_at, redrive, code, summary, attempts, died_at, errors)
		SELECT v_letter.job_id, v_now, p_redrive, v_letter.code, v_letter.summary, v_letter.attempts, v_letter.died_at,
			COALESCE(jsonb_agg(jsonb_build_object('attempt', e.attempt, 'at', e.at, 'code', e.code, 'summary', e.summary, 'retry_at', e.retry_at)
				ORDER BY e.at, e.attempt), '[]')
		FROM (SELECT e.* FROM job_errors e WHERE e.job_id = v_letter.job_id ORDER BY e.at DESC LIMIT 20) e;
		-- Its attempts count from one again, and a job ends once.
		DELETE FROM job_errors e WHERE e.job_id = v_letter.job_id;
		DELETE FROM outcomes o WHERE o.job_id = v_letter.job_id;
		DELETE FROM cancel_requests c WHERE c.job_id = v_letter.job_id;
		DELETE FROM jobs j WHERE j.id = v_letter.job_id;
		DELETE FROM archive a WHERE a.id = v_letter.job_id; -- after jobs: one that was just being moved is there by now
		DELETE FROM dead_letters d WHERE d.job_id = v_letter.job_id;
		INSERT INTO jobs (day, id, kind, queue, version, capability, priority, max_attempts, organization_id, run_at, enqueued_at,
			idempotency_key, order_key, trace_context, args)
		VALUES (v_day, v_letter.job_id, v_letter.kind, v_letter.queue, v_letter.version, v_letter.capability, v_letter.priority,
			COALESCE(p_attempts, v_letter.max_attempts), v_letter.organization_id, v_now, v_letter.enqueued_at,
			v_letter.idempotency_key, v_letter.order_key, v_letter.trace_context, v_letter.args);
		IF v_letter.order_key IS NULL THEN
			INSERT INTO ready (queue, priority, run_at, id, day, capability, attempts, suspect)
			VALUES (v_letter.queue, v_letter.priority, v_now, v_letter.job_id, v_day, v_letter.capability, 0, false);
		ELSE
			INSERT INTO ordered (order_key, job_id, day, queue, head) VALUES (v_letter.order_key, v_letter.job_id, v_day, v_letter.queue, false);
			INSERT INTO order_turns (queue, order_key) VALUES (v_letter.queue, v_letter.order_key);
		END IF;
		IF v_letter.queue <> ALL (v_queues) THEN
			v_queues := v_queues || v_letter.queue;
		END IF;
		v_done := v_done || v_letter.job_id;
		id := v_letter.job_id; refused_for := NULL;
		RETURN NEXT;
	END LOOP;
	FOREACH v_queue IN ARRAY v_queues LOOP
		IF EXISTS (SELECT FROM sleepers s WHERE s.queue = v_queue) THEN
			PERFORM pg_notify({channel}, v_queue);
		END IF;
	END LOOP;
	IF p_redrive IS NOT NULL THEN
		PERFORM audited('redrive dead letters',
			jsonb_build_object('redrive', p_redrive, 'filter', (SELECT r.filter FROM redrives r WHERE r.id = p_redrive)), cardinality(v_done), false, p_redrive);
	ELSE
		PERFORM audited('retry job', CASE WHEN cardinality(v_done) = 1 THEN jsonb_build_object('job', v_done[1])
			ELSE jsonb_build_object('jobs', v_done[1:100]) END, cardinality(v_done), false);
	END IF;
END $$;

-- Removes dead letters, but for those that somebody has locked. Answers how many.
CREATE FUNCTION {schema}.purge_letters(p_ids uuid[]) RETURNS bigint
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = {schema}, pg_temp
SET lock_timeout = '5s'
AS $$
DECLARE
	v_filter jsonb := NULLIF(current_setting('pawl.audit', true), '')::jsonb -> 'filter';
	v_gone   uuid[];
BEGIN
	WITH known AS MATERIALIZED (
		SELECT d.job_id FROM unnest(p_ids) u(id) JOIN dead_letters d ON d.job_id = u.id ORDER BY d.job_id FOR UPDATE OF d SKIP LOCKED
	), gone AS (
		DELETE FROM dead_letters d USING known k WHERE d.job_id = k.job_id RETURNING d.job_id
	)
	SELECT COALESCE(array_agg(g.job_id), '{}') INTO v_gone FROM gone g;
	PERFORM audited('purge dead letters', COALESCE(v_filter, jsonb_build_object('jobs', v_gone[1:100])), cardinality(v_gone), false);
	RETURN cardinality(v_gone);
END $$;

-- Looks at jobs of a redrive that it has not seen the end of, at most p_limit
-- after p_after, counts those that have ended since, and answers the last one
-- that it has looked at, NULL where there are no more.
CREATE FUNCTION {schema}.redrive_ends(p_redrive uuid, p_after uuid, p_limit integer, OUT reached uuid)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = {schema}, pg_temp
{pinned}
SET lock_timeout = '5s'
AS $$
DECLARE
	v_ended record;
	v_count integer;
BEGIN
	-- Who else follows the same redrive waits here, so that each end counts once.
	PERFORM FROM redrives r WHERE r.id = p_redrive FOR UPDATE;
	WITH open AS MATERIALIZED (
		SELECT x.job_id, x.redriven_at FROM redriven x
		WHERE x.redrive = p_redrive AND x.outcome IS NULL AND x.job_id > p_after ORDER BY x.job_id LIMIT p_limit
	), ended AS MATERIALIZED (
		SELECT x.job_id, x.redriven_at, COALESCE(o.outcome, 0) AS outcome FROM open x
		LEFT JOIN LATERAL (SELECT o.outcome FROM outcomes o WHERE o.job_id = x.job_id AND o.day >= day_of(x.redriven_at) LIMIT 1) o ON true
		-- Without a row it has ended, and retention has taken the trace.
		WHERE o.outcome IS NOT NULL OR NOT EXISTS (SELECT FROM jobs j WHERE j.id = x.job_id)
	), seen AS (
		UPDATE redriven x SET outcome = e.outcome FROM ended e WHERE x.job_id = e.job_id AND x.redriven_at = e.redriven_at
	)
	SELECT count(*) FILTER (WHERE e.outcome = 1) AS completed, count(*) FILTER (WHERE e.outcome = 3) AS failed,
		count(*) FILTER (WHERE e.outcome IN (0, 5)) AS cancelled,
		(SELECT count(*) FROM open) AS n, (SELECT o.job_id FROM open o ORDER BY o.job_id DESC LIMIT 1) AS last
	INTO v_ended FROM ended e;
	UPDATE redrives r SET last_at = clock_timestamp(), completed = r.completed + v_ended.completed, failed = r.failed + v_ended.failed, cancelled = r.cancelled + v_ended.cancelled
	WHERE r.id = p_redrive AND v_ended.completed + v_ended.failed + v_ended.cancelled > 0;
	reached := CASE WHEN v_ended.n >= p_limit THEN v_ended.last END;
END $$;

-- Makes a job that waits for its time due now. Answers where it stands: pending,
-- blocked when it has to wait for its turn all the same, any other state where
-- nothing can change, or NULL for a job that there is no trace of; and whether
-- its time was changed, which it is not where it was due already.
CREATE FUNCTION {schema}.run_now(p_id uuid, OUT state text, OUT changed boolean)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = {schema}, pg_temp
{pinned}
SET lock_timeout = '5s'
AS $$
DECLARE
	v_now   timestamptz;
	v_job   jobs%ROWTYPE;
	v_ready ready%ROWTYPE;
BEGIN
	changed := false;
	SELECT j.* INTO v_job FROM jobs j WHERE j.id = p_id LIMIT 1;
	IF NOT FOUND THEN
		SELECT standing(o.outcome, NULL, NULL, d.job_id IS NOT NULL, NULL, NULL, NULL, NULL, NULL) INTO state
		FROM (SELECT o.job_id, o.outcome FROM outcomes o WHERE o.job_id = p_id LIMIT 1) o
		FULL JOIN (SELECT d.job_id FROM dead_letters d WHERE d.job_id = p_id) d ON d.job_id = o.job_id;
		RETURN;
	END IF;
	SELECT r.* INTO v_ready FROM ready r WHERE r.queue = v_job.queue AND r.priority = v_job.priority AND NOT r.suspect
		AND r.run_at = v_job.run_at AND r.id = p_id FOR UPDATE;
	IF NOT FOUND THEN
		SELECT r.* INTO v_ready FROM ready r WHERE r.queue = v_job.queue AND r.priority = v_job.priority AND NOT r.suspect
			AND r.id = p_id FOR UPDATE;
	END IF;
	IF NOT FOUND THEN
		SELECT r.* INTO v_ready FROM ready r WHERE r.queue = v_job.queue AND r.priority = v_job.priority AND r.suspect
			AND r.id = p_id FOR UPDATE;
	END IF;
	v_now := clock_timestamp();
	IF v_ready.id IS NOT NULL THEN
		IF v_ready.run_at > v_now THEN
			UPDATE ready r SET run_at = v_now WHERE r.queue = v_ready.queue AND r.priority = v_ready.priority
				AND r.suspect = v_ready.suspect AND r.run_at = v_ready.run_at AND r.id = p_id;
			-- Those who know the job look for it at its first time, or at that of a retry.
			IF v_ready.attempts > 0 THEN
				UPDATE job_errors e SET retry_at = v_now WHERE e.job_id = p_id AND e.retry_at = v_ready.run_at;
			ELSE
				UPDATE jobs j SET run_at = v_now WHERE j.id = p_id AND j.day = v_ready.day;
				IF v_job.order_key IS NOT NULL THEN
					UPDATE ordered o SET ready_at = v_now WHERE o.job_id = p_id AND o.head;
				END IF;
			END IF;
			PERFORM pg_notify({channel}, v_job.queue);
			PERFORM audited('run job now', jsonb_build_object('job', p_id), 1, false);
			changed := true;
		END IF;
		state := 'pending';
		RETURN;
	END IF;
	IF v_job.order_key IS NOT NULL AND v_job.run_at > v_now THEN
		UPDATE jobs j SET run_at = v_now FROM ordered o WHERE o.job_id = p_id AND NOT o.head AND j.id = p_id AND j.day = o.day;
		IF FOUND THEN
			PERFORM audited('run job now', jsonb_build_object('job', p_id), 1, false);
			state := 'blocked';
			changed := true;
			RETURN;
		END IF;
	END IF;
	state := state_of(v_job.day, p_id);
END $$;

-- Removes redrives of which nothing has changed for p_age, in whatever state they
-- are: what they were about is as old. p_limit at most; answers how many.
CREATE FUNCTION {schema}.purge_redrives(p_age_us bigint, p_limit integer) RETURNS bigint
LANGUAGE sql VOLATILE SECURITY DEFINER
SET search_path = {schema}, pg_temp
{pinned}
SET lock_timeout = '1s'
AS $$
	WITH old AS MATERIALIZED (
		SELECT r.id FROM redrives r WHERE r.last_at < clock_timestamp() - p_age_us * interval '1 microsecond' LIMIT p_limit FOR UPDATE SKIP LOCKED
	), gone AS (
		DELETE FROM redrives r USING old o WHERE r.id = o.id RETURNING r.id
	)
	SELECT count(*) FROM gone
$$;

-- Removes former lives of jobs that were made to run again p_age ago, p_limit at
-- most. Those whose next end is still to be counted stay for as long as their
-- redrive does.
CREATE FUNCTION {schema}.purge_lives(p_age_us bigint, p_limit integer) RETURNS bigint
LANGUAGE sql VOLATILE SECURITY DEFINER
SET search_path = {schema}, pg_temp
{pinned}
SET lock_timeout = '1s'
AS $$
	WITH old AS MATERIALIZED (
		SELECT x.job_id, x.redriven_at FROM redriven x WHERE x.redriven_at < clock_timestamp() - p_age_us * interval '1 microsecond'
			AND (x.redrive IS NULL OR x.outcome IS NOT NULL OR NOT EXISTS (SELECT FROM redrives r WHERE r.id = x.redrive))
		ORDER BY x.redriven_at LIMIT p_limit FOR UPDATE OF x SKIP LOCKED
	), gone AS (
		DELETE FROM redriven x USING old o WHERE x.job_id = o.job_id AND x.redriven_at = o.redriven_at RETURNING x.job_id
	)
	SELECT count(*) FROM gone
$$;

-- Removes rows of the audit that nothing was added to for p_age, p_limit at most.
-- Whoever may call this is not to get rid of what has just been done, so that it
-- leaves alone what is younger than 30 days, whatever p_age.
CREATE FUNCTION {schema}.purge_audit(p_age_us bigint, p_limit integer) RETURNS bigint
LANGUAGE sql VOLATILE SECURITY DEFINER
SET search_path = {schema}, pg_temp
{pinned}
SET lock_timeout = '1s'
AS $$
	WITH bound AS MATERIALIZED (
		SELECT clock_timestamp() - GREATEST(p_age_us, 30 * 86400000000) * interval '1 microsecond' AS at
	), old AS MATERIALIZED (
		SELECT a.id FROM audit a WHERE a.began_at < (SELECT b.at FROM bound b) AND a.last_at < (SELECT b.at FROM bound b)
		ORDER BY a.began_at LIMIT p_limit FOR UPDATE SKIP LOCKED
	), gone AS (
		DELETE FROM audit a USING old o WHERE a.id = o.id RETURNING a.id
	)
	SELECT count(*) FROM gone
$$;
