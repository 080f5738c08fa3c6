-- Enqueue: one call in the caller's transaction, at the caller's isolation.

-- Where a job stands, by what is known of it: nothing else decides that. What is
-- NULL has not been asked for, or cannot be known.
CREATE FUNCTION {schema}.standing(
	p_outcome     smallint, -- of its row in outcomes
	p_leased      boolean,
	p_quarantined boolean,
	p_buried      boolean,  -- there is a dead letter of it
	p_behind      boolean,  -- another job of its order key is before it
	p_waits       boolean,  -- in ready, or for its turn in ordered
	p_decodable   boolean,  -- by a live worker
	p_tried       boolean,  -- an attempt has been used up
	p_later       boolean)  -- its time is to come
RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE
	WHEN p_outcome = 1 THEN 'completed'
	WHEN p_outcome = 3 THEN 'dead'
	WHEN p_outcome = 5 THEN 'cancelled'
	WHEN p_leased THEN 'leased'
	WHEN p_quarantined THEN 'quarantined'
	WHEN p_buried THEN 'dead'
	WHEN p_behind THEN 'blocked'
	WHEN NOT p_waits THEN 'lost'
	WHEN NOT p_decodable THEN 'stranded'
	WHEN p_tried THEN 'retrying'
	WHEN p_later THEN 'scheduled'
	ELSE 'pending'
END;

-- The payload versions that live workers know. NULL where none lives: then nothing
-- can be said of what workers know.
CREATE FUNCTION {schema}.live_capabilities() RETURNS bigint[]
LANGUAGE sql VOLATILE
RETURN (
	SELECT CASE WHEN count(*) > 0 THEN COALESCE(array_agg(DISTINCT c) FILTER (WHERE c IS NOT NULL), '{}') END
	FROM {schema}.processes p LEFT JOIN LATERAL unnest(p.capabilities) c ON true WHERE p.expires_at > clock_timestamp());

-- Jobs with an order key and their places, without the key: what is before a job is
-- for everybody to see, and its digest is not.
CREATE VIEW {schema}.order_places AS
SELECT o.job_id, o.day, o.queue, o.seq, o.head, o.ready_at,
	NOT o.head AND EXISTS (SELECT FROM {schema}.ordered x WHERE x.order_key = o.order_key AND x.seq < o.seq) AS behind,
	-- How many are before it, up to 1000, and the first of all.
	(SELECT count(*) FROM (SELECT FROM {schema}.ordered x WHERE x.order_key = o.order_key AND x.seq < o.seq LIMIT 1000) x) AS ahead,
	(SELECT x.job_id FROM {schema}.ordered x WHERE x.order_key = o.order_key ORDER BY x.seq LIMIT 1) AS first
FROM {schema}.ordered o;

-- Where a job stands, in the terms of a receipt. By the invariant that a job
-- is in exactly one place, what is neither finished nor leased nor still at
-- its first due time waits for another attempt. Its row may have been moved to
-- a later day; that is a look-up a day, where a range of days would read all
-- the jobs of each.
CREATE FUNCTION {schema}.state_of(p_day integer, p_id uuid) RETURNS text
LANGUAGE plpgsql STABLE
SET search_path = {schema}, pg_temp
{pinned}
AS $$
DECLARE
	v_outcome smallint;
	v_job     record;
	v_first   boolean;
BEGIN
	SELECT o.outcome INTO v_outcome FROM outcomes o WHERE o.job_id = p_id AND o.day >= p_day LIMIT 1;
	IF FOUND THEN
		RETURN standing(v_outcome, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
	END IF;
	SELECT j.* INTO v_job FROM generate_series(p_day, day_of(clock_timestamp())) d
	CROSS JOIN LATERAL (SELECT j.queue, j.priority, j.run_at, j.order_key FROM jobs j WHERE j.day = d AND j.id = p_id OFFSET 0) j
	LIMIT 1;
	IF FOUND THEN
		IF v_job.order_key IS NOT NULL AND EXISTS (SELECT FROM ordered o WHERE o.job_id = p_id AND NOT o.head) THEN
			RETURN standing(NULL, NULL, NULL, NULL, (SELECT p.behind FROM order_places p WHERE p.job_id = p_id), true, NULL, false,
				v_job.run_at > clock_timestamp());
		END IF;
		v_first := EXISTS (SELECT FROM ready r
			WHERE r.queue = v_job.queue AND r.priority = v_job.priority AND r.id = p_id AND NOT r.suspect
				-- Of a job with an order key, the turn may have come after its time.
				AND r.run_at = CASE WHEN v_job.order_key IS NULL THEN v_job.run_at ELSE (SELECT o.ready_at FROM ordered o WHERE o.job_id = p_id) END);
		IF v_first THEN
			RETURN standing(NULL, NULL, NULL, NULL, NULL, true, NULL, false, v_job.run_at > clock_timestamp());
		END IF;
	END IF;
	IF EXISTS (SELECT FROM leases l WHERE p_id = ANY (l.job_ids) AND get_bit(l.open, array_position(l.job_ids, p_id) - 1) = 1) THEN
		RETURN standing(NULL, true, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
	END IF;
	IF v_first IS NULL THEN
		RETURN 'gone';
	END IF;
	RETURN standing(NULL, NULL, NULL, NULL, NULL, true, NULL, true, NULL);
END $$;

-- state_of, in a caller's transaction that may stay open for long. It would keep
-- every day locked that was looked at, so that none of them could be emptied;
-- the locks of a part of a transaction that is rolled back are given up at once.
CREATE FUNCTION {schema}.job_state(p_day integer, p_id uuid) RETURNS text
LANGUAGE plpgsql STABLE
SET search_path = {schema}, pg_temp
AS $$
DECLARE
	v_state text;
BEGIN
	v_state := state_of(p_day, p_id);
	RAISE EXCEPTION 'v_state outlives this' USING ERRCODE = 'PW020';
EXCEPTION WHEN SQLSTATE 'PW020' THEN
	RETURN v_state;
END $$;

-- The key of jobs that run one at a time: the members' values in the payload.
CREATE FUNCTION {schema}.order_key(p_kind text, p_organization text, p_args jsonb, p_members text[]) RETURNS bytea
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN sha256(convert_to(jsonb_build_array(p_kind, p_organization,
	-- 1.0 and 1 are one number, however a caller writes it.
	(SELECT jsonb_agg(CASE jsonb_typeof(v.value) WHEN 'number' THEN to_jsonb(trim_scale((v.value #>> '{}')::numeric)) ELSE v.value END ORDER BY m.n)
		FROM unnest(p_members) WITH ORDINALITY m(name, n) CROSS JOIN LATERAL (SELECT p_args -> m.name AS value) v))::text, 'UTF8'));

-- Refuses what callers of the two functions below cannot mean. It is no constraint
-- of jobs, since PostgreSQL parses each of those in every insert.
CREATE FUNCTION {schema}.out_of_range(p_version integer, p_priority smallint, p_max_attempts smallint) RETURNS void
LANGUAGE plpgsql VOLATILE
AS $$
BEGIN
	RAISE EXCEPTION 'version %, priority %, % attempts: a version is 1 or more, a priority 1 to 4, and there are 1 to 32766 attempts',
		p_version, p_priority, p_max_attempts USING ERRCODE = 'check_violation';
END $$;

-- Stores one job without keys: what most calls are, so it does nothing that is
-- not needed, not even SET, whose settings cost as much as a row. Instead every
-- name is qualified, operators too; of its one statement there is one plan.
-- Answers whether the job is due in the future.
CREATE FUNCTION {schema}.enqueue_job(
	p_kind text, p_queue text, p_version integer, p_capability bigint, p_priority smallint, p_max_attempts smallint,
	p_run_at timestamp with time zone, p_delay_us bigint, -- due at p_run_at, or where that is NULL after the delay
	p_id uuid, p_args jsonb, p_organization text, p_trace text, p_wake boolean)
RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
AS $$
DECLARE
	v_now    timestamp with time zone := pg_catalog.clock_timestamp();
	v_day    integer := {schema}.day_of(v_now);
	-- Never before now: claims move forward in time and would pass it over.
	v_run_at timestamp with time zone := GREATEST(v_now, COALESCE(p_run_at,
		v_now OPERATOR(pg_catalog.+) (p_delay_us OPERATOR(pg_catalog.*) INTERVAL '1 microsecond')));
	v_slept  boolean;
BEGIN
	IF p_version OPERATOR(pg_catalog.<) 1 OR p_priority OPERATOR(pg_catalog.<) 1 OR p_priority OPERATOR(pg_catalog.>) 4
			OR p_max_attempts OPERATOR(pg_catalog.<) 1 OR p_max_attempts OPERATOR(pg_catalog.>) 32766 THEN
		PERFORM {schema}.out_of_range(p_version, p_priority, p_max_attempts);
	END IF;
	IF pg_catalog.to_regclass(pg_catalog.concat({schema_text}, '.jobs_d', v_day)) IS NULL THEN
		PERFORM {schema}.ensure_day(v_day);
	END IF;
	WITH job AS (
		INSERT INTO {schema}.jobs (day, id, kind, queue, version, capability, priority, max_attempts, organization_id, run_at, enqueued_at,
			trace_context, args)
		VALUES (v_day, p_id, p_kind, p_queue, p_version, p_capability, p_priority, p_max_attempts, p_organization, v_run_at, v_now,
			p_trace, p_args)
	)
	INSERT INTO {schema}.ready (queue, priority, run_at, id, day, capability, attempts, suspect)
	VALUES (p_queue, p_priority, v_run_at, p_id, v_day, p_capability, 0, false)
	RETURNING p_wake AND EXISTS (SELECT FROM {schema}.sleepers s WHERE s.queue OPERATOR(pg_catalog.=) p_queue) INTO v_slept;
	IF v_slept AND v_run_at OPERATOR(pg_catalog.<=) (v_now OPERATOR(pg_catalog.+) INTERVAL '1 minute') THEN
		PERFORM pg_catalog.pg_notify({channel}, p_queue);
	END IF;
	RETURN v_run_at OPERATOR(pg_catalog.>) v_now;
END $$;

-- Stores the jobs of one kind. Answers whether they are due in the future, and
-- a JSON array of those that were duplicates, NULL for none.
CREATE FUNCTION {schema}.enqueue_jobs(
	p_kind text, p_queue text, p_version integer, p_capability bigint, p_priority smallint, p_max_attempts smallint,
	p_run_at timestamptz, p_delay_us bigint, -- due at p_run_at, or where that is NULL after the delay
	p_ids uuid[], p_args text[], p_organizations text[], p_keys bytea[], -- p_keys NULL: no idempotency
	p_keep_us bigint, p_wake boolean, p_order text[], -- members of the payload; NULL: no order
	p_trace text,
	OUT scheduled boolean, OUT duplicates text)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = {schema}, pg_temp
{pinned}
AS $$
DECLARE
	v_now     timestamptz := clock_timestamp();
	v_day     integer     := day_of(v_now);
	-- Never before now: claims move forward in time and would pass it over.
	v_run_at  timestamptz := GREATEST(v_now, COALESCE(p_run_at, v_now + p_delay_us * interval '1 microsecond'));
	v_new     boolean[]; -- those whose key was free
	v_held    json[]      := '{}';
	v_job     record;
	v_key     record;
	v_state   text;
	v_mine    uuid; -- the last one that this call put down a key for
BEGIN
	IF p_version < 1 OR p_priority NOT BETWEEN 1 AND 4 OR p_max_attempts NOT BETWEEN 1 AND 32766 THEN
		PERFORM out_of_range(p_version, p_priority, p_max_attempts);
	END IF;
	IF to_regclass('jobs_d' || v_day) IS NULL OR to_regclass('outcomes_d' || v_day) IS NULL THEN
		PERFORM ensure_day(v_day);
	END IF;

	IF p_keys IS NOT NULL THEN
		v_new := array_fill(false, ARRAY[cardinality(p_ids)]);
		-- One key at a time in sorted order, so that callers with the same keys
		-- wait for one another and never in a circle. ON CONFLICT DO NOTHING
		-- takes no lock on a key that exists; who holds it is read in a new
		-- statement, whose snapshot sees a holder that committed meanwhile.
		FOR v_job IN
			SELECT u.n, u.id, u.organization, u.key, sha256(convert_to(u.args::jsonb::text, 'UTF8')) AS digest
			FROM unnest(p_ids, p_args, p_organizations, p_keys) WITH ORDINALITY u(id, args, organization, key, n)
			ORDER BY u.organization, u.key, u.n
		LOOP
			LOOP
				INSERT INTO idempotency_keys (organization_id, kind, key, job_id, job_day, expires_at, args_digest)
				VALUES (v_job.organization, p_kind, v_job.key, v_job.id, v_day, v_now + p_keep_us * interval '1 microsecond', v_job.digest)
				ON CONFLICT DO NOTHING;
				IF FOUND THEN
					v_new[v_job.n] := true;
					v_mine := v_job.id;
					EXIT;
				END IF;
				SELECT * INTO v_key FROM idempotency_keys k
				WHERE k.organization_id = v_job.organization AND k.kind = p_kind AND k.key = v_job.key;
				CONTINUE WHEN NOT FOUND; -- its holder went away: try again
				v_state := CASE WHEN v_key.job_id IS DISTINCT FROM v_mine THEN job_state(v_key.job_day, v_key.job_id)
					WHEN v_run_at > v_now THEN 'scheduled' ELSE 'pending' END;
				IF v_key.expires_at > clock_timestamp() OR v_state NOT IN ('completed', 'dead', 'cancelled', 'gone') THEN
					-- Told now: the key may be gone when the last one is through.
					v_held := v_held || json_build_object('n', v_job.n, 'id', v_key.job_id, 'state', v_state, 'same', v_key.args_digest = v_job.digest);
					EXIT;
				END IF;
				DELETE FROM idempotency_keys k
				WHERE k.organization_id = v_job.organization AND k.kind = p_kind AND k.key = v_job.key AND k.job_id = v_key.job_id;
			END LOOP;
		END LOOP;
		IF cardinality(v_held) > 0 THEN
			duplicates := array_to_json(v_held)::text;
		END IF;
	END IF;

	IF p_keys IS NULL AND p_order IS NULL THEN
		INSERT INTO jobs (day, id, kind, queue, version, capability, priority, max_attempts, organization_id, run_at, enqueued_at,
			trace_context, args)
		SELECT v_day, u.id, p_kind, p_queue, p_version, p_capability, p_priority, p_max_attempts, u.organization, v_run_at, v_now,
			p_trace, u.args::jsonb
		FROM unnest(p_ids, p_args, p_organizations) u(id, args, organization);
	ELSE
		INSERT INTO jobs (day, id, kind, queue, version, capability, priority, max_attempts, organization_id, run_at, enqueued_at,
			idempotency_key, order_key, trace_context, args)
		SELECT v_day, u.id, p_kind, p_queue, p_version, p_capability, p_priority, p_max_attempts, u.organization, v_run_at, v_now,
			u.key, CASE WHEN p_order IS NOT NULL THEN order_key(p_kind, u.organization, u.args::jsonb, p_order) END, p_trace, u.args::jsonb
		FROM unnest(p_ids, p_args, p_organizations, p_keys, v_new) u(id, args, organization, key, new)
		WHERE v_new IS NULL OR u.new;
	END IF;

	IF p_order IS NULL THEN
		INSERT INTO ready (queue, priority, run_at, id, day, capability, attempts, suspect)
		SELECT p_queue, p_priority, v_run_at, u.id, v_day, p_capability, 0, false
		FROM unnest(p_ids, v_new) u(id, new)
		WHERE v_new IS NULL OR u.new;
	ELSE
		-- Whether it is a job's turn is decided by whoever claims next: here it
		-- would need a lock on the key for as long as the caller's transaction.
		WITH job AS (
			SELECT order_key(p_kind, u.organization, u.args::jsonb, p_order) AS key, u.id, u.n
			FROM unnest(p_ids, p_args, p_organizations, v_new) WITH ORDINALITY u(id, args, organization, new, n)
			WHERE v_new IS NULL OR u.new
		), queued AS (
			INSERT INTO ordered (order_key, job_id, day, queue, head)
			SELECT j.key, j.id, v_day, p_queue, false FROM job j ORDER BY j.n
		)
		INSERT INTO order_turns (queue, order_key) SELECT DISTINCT p_queue, j.key FROM job j;
	END IF;

	scheduled := v_run_at > v_now;
	-- A worker that sleeps longer than that knows nothing of a job that becomes
	-- due meanwhile; one that is woken does.
	IF p_wake AND v_run_at <= v_now + interval '1 minute' AND EXISTS (SELECT FROM sleepers s WHERE s.queue = p_queue) THEN
		PERFORM pg_notify({channel}, p_queue);
	END IF;
END $$;
