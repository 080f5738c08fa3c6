-- The outbox: facts that are published in the transaction of a change, and
-- projected once, in order within their aggregate.

-- One immutable row an event, payload included; it leaves by emptying a whole
-- day. Seq orders the events of an aggregate: it is drawn under the aggregate's
-- lock, so that its order is the order of commits.
CREATE TABLE {schema}.events (
	day             integer     NOT NULL, -- of its publishing
	id              uuid        NOT NULL,
	seq             bigint      NOT NULL,
	type            text        NOT NULL,
	aggregate_type  text        NOT NULL,
	aggregate_id    text        NOT NULL,
	organization_id text        NOT NULL, -- empty for none
	version         integer     NOT NULL CHECK (version >= 1),
	capability      bigint      NOT NULL,
	occurred_at     timestamptz NOT NULL,
	published_at    timestamptz NOT NULL,
	trace_context   text,
	payload         jsonb       NOT NULL,
	PRIMARY KEY (id, day) -- in this order, for who knows the id alone
) PARTITION BY LIST (day);

CREATE SEQUENCE {schema}.event_seq AS bigint CACHE 1; -- a cache would break the order

-- One narrow row an event that is not projected yet, which the projection
-- deletes. Only the first of an aggregate is ever tried, so only that changes.
--
-- An event that ends the process which projects it leaves a row that a transaction
-- had locked and not deleted: whoever comes next sees that by its xmax. From then on
-- it is a suspect, and each attempt at it is written down before it begins.
CREATE TABLE {schema}.pending_events (
	aggregate    uuid        NOT NULL, -- a digest of its type and id
	seq          bigint      NOT NULL,
	id           uuid        NOT NULL,
	day          integer     NOT NULL,
	capability   bigint      NOT NULL,
	attempts     smallint    NOT NULL CHECK (attempts BETWEEN 0 AND 32766), -- used up so far
	available_at timestamptz NOT NULL,
	published_at timestamptz NOT NULL,
	suspect      boolean     NOT NULL DEFAULT false, -- a transaction that had it came to nothing
	claimed_at   timestamptz, -- of a suspect: an attempt has begun, and nobody has said how it ended
	claimed_by   text,        -- informative
	claim        uuid,        -- which attempt
	PRIMARY KEY (aggregate, seq)
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX pending_events_due ON {schema}.pending_events (available_at);
-- How old the oldest one is. One that has never been put off is found by when it
-- became available, which is when it was published; the others are few.
CREATE INDEX pending_events_put_off ON {schema}.pending_events (published_at) WHERE available_at > published_at;

-- One narrow append-only row an event that is over.
CREATE TABLE {schema}.event_outcomes (
	day          integer     NOT NULL, -- of the end
	event_id     uuid        NOT NULL,
	event_day    integer     NOT NULL,
	outcome      smallint    NOT NULL CHECK (outcome IN (1, 3, 5)), -- projected, dead, discarded
	attempts     smallint    NOT NULL,
	claimed_at   timestamptz NOT NULL,
	claimed_by   text        NOT NULL,
	processed_at timestamptz NOT NULL
) PARTITION BY LIST (day);
CREATE INDEX event_outcomes_event ON {schema}.event_outcomes (event_id);

CREATE TABLE {schema}.event_errors (
	day      integer     NOT NULL, -- of the error
	event_id uuid        NOT NULL,
	attempt  smallint    NOT NULL,
	at       timestamptz NOT NULL,
	code     text        NOT NULL,
	summary  text        NOT NULL,
	retry_at timestamptz, -- when the next attempt became due; NULL for none
	PRIMARY KEY (event_id, attempt, day)
) PARTITION BY LIST (day);

-- Events whose attempts are spent hold their own copy of everything, so that
-- they outlive the day of their event.
CREATE TABLE {schema}.dead_events (
	event_id        uuid        PRIMARY KEY,
	seq             bigint      NOT NULL,
	type            text        NOT NULL,
	aggregate_type  text        NOT NULL,
	aggregate_id    text        NOT NULL,
	organization_id text        NOT NULL,
	version         integer     NOT NULL,
	capability      bigint      NOT NULL,
	attempts        smallint    NOT NULL,
	code            text        NOT NULL,
	summary         text        NOT NULL,
	occurred_at     timestamptz NOT NULL,
	published_at    timestamptz NOT NULL,
	died_at         timestamptz NOT NULL,
	trace_context   text,
	payload         jsonb       NOT NULL
);
CREATE INDEX dead_events_died ON {schema}.dead_events (died_at);

-- Aggregates whose later events wait until somebody decides about the dead one.
CREATE TABLE {schema}.blocked_aggregates (
	aggregate  uuid        PRIMARY KEY,
	event_id   uuid        NOT NULL UNIQUE,
	blocked_at timestamptz NOT NULL
);

SELECT {schema}.ensure_day({schema}.day_of(clock_timestamp()) + n, '{events,event_outcomes,event_errors}') FROM generate_series(0, 2) n;

-- What stands for an aggregate: a digest, so that its rows are narrow.
CREATE FUNCTION {schema}.aggregate_of(p_type text, p_id text) RETURNS uuid
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN encode(substr(sha256(convert_to(jsonb_build_array(p_type, p_id)::text, 'UTF8')), 1, 16), 'hex')::uuid;

-- The lock of an aggregate: one of 1,024, since the server has room for some
-- thousands of locks in all. Aggregates that share one may wait for each other
-- in vain, and that is all.
CREATE FUNCTION {schema}.aggregate_lock(p_aggregate uuid) RETURNS integer
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN get_byte(uuid_send(p_aggregate), 0) + 256 * (get_byte(uuid_send(p_aggregate), 1) & 3);

-- Stores an event in the caller's transaction, at the caller's isolation. From
-- here to the end of that transaction nobody else publishes for the aggregate:
-- a later number must not be visible before an earlier one. The relay has locks
-- of its own, so that nobody waits for a projection here.
CREATE FUNCTION {schema}.publish_event(
	p_type text, p_aggregate_type text, p_aggregate_id text, p_organization text, p_version integer, p_capability bigint,
	p_id uuid, p_payload text, p_occurred_at timestamptz, -- NULL: now
	p_trace text, p_wake boolean) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = {schema}, pg_temp
{pinned}
AS $$
DECLARE
	v_aggregate uuid := aggregate_of(p_aggregate_type, p_aggregate_id);
	v_now       timestamptz;
	v_day       integer;
	v_seq       bigint;
BEGIN
	PERFORM pg_advisory_xact_lock({lock_publish}, aggregate_lock(v_aggregate));
	v_seq := nextval('event_seq');
	v_now := clock_timestamp();
	v_day := day_of(v_now);
	IF to_regclass('events_d' || v_day) IS NULL THEN
		PERFORM ensure_day(v_day, '{events,event_outcomes,event_errors}');
	END IF;
	INSERT INTO events (day, id, seq, type, aggregate_type, aggregate_id, organization_id, version, capability, occurred_at, published_at,
		trace_context, payload)
	VALUES (v_day, p_id, v_seq, p_type, p_aggregate_type, p_aggregate_id, p_organization, p_version, p_capability,
		COALESCE(p_occurred_at, v_now), v_now, p_trace, p_payload::jsonb);
	INSERT INTO pending_events (aggregate, seq, id, day, capability, attempts, available_at, published_at)
	VALUES (v_aggregate, v_seq, p_id, v_day, p_capability, 0, v_now, v_now);
	IF p_wake AND EXISTS (SELECT FROM sleepers s WHERE s.queue = '!outbox') THEN
		PERFORM pg_notify({channel}, '!outbox');
	END IF;
END $$;

-- What a publishing by plain SQL has to know of a type of event, as the workers
-- that project it declared it when they started. The newest payload version stays,
-- whoever starts last.
CREATE TABLE {schema}.event_types (
	type               text        PRIMARY KEY,
	aggregate_type     text        NOT NULL,
	version            integer     NOT NULL CHECK (version >= 1),
	capability         bigint      NOT NULL,
	organization_field text,       -- a member of the payload
	shape              jsonb,      -- of the payload; NULL takes any
	updated_at         timestamptz NOT NULL
);

-- Publishes one event of a type that a worker has registered, in the transaction
-- of the caller, and wakes a worker when that commits.
--
--   SELECT publish('trip.completed', 'trip 7', '{"driver": "ada", "meters": 1200}');
--
-- Answers the id of the event. Refusals have the codes PW010 (an unknown type),
-- PW011 (a payload that does not fit) and PW013 (another argument that cannot be).
CREATE FUNCTION {schema}.publish(event_type text, aggregate_id text, payload jsonb,
	occurred_at timestamptz DEFAULT NULL, -- when it happened; now where NULL
	organization_id text DEFAULT NULL)    -- where the payload does not name it
RETURNS uuid
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = {schema}, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
	v_type         event_types%ROWTYPE;
	v_wrong        text[];
	v_text         text := payload::text;
	v_misfit       text;
	v_organization text := COALESCE(organization_id, '');
	v_id           uuid := new_id();
BEGIN
	SELECT t.* INTO v_type FROM event_types t WHERE t.type = event_type;
	IF NOT FOUND THEN
		RAISE EXCEPTION 'there is no event %', COALESCE(quote_literal(left(event_type, 100)), 'NULL') USING ERRCODE = 'PW010',
			DETAIL = COALESCE('The nearest that there are: ' || nearest_of(event_type, ARRAY(SELECT t.type FROM event_types t)) || '.',
				'No worker has registered any event.'),
			HINT = 'An event is known when a worker that projects it has started once.';
	END IF;
	v_wrong := CASE
		WHEN COALESCE(aggregate_id, '') = '' THEN ARRAY['aggregate_id is empty', 'Name the ' || v_type.aggregate_type || ' that the event happened to.']
		WHEN octet_length(aggregate_id) > 1000 THEN ARRAY['aggregate_id has ' || octet_length(aggregate_id) || ' bytes', 'Use an id of at most 1000 bytes.']
		WHEN NOT isfinite(occurred_at) OR occurred_at < '0001-01-01 00:00:00Z' OR occurred_at >= '10000-01-01 00:00:00Z' THEN
			ARRAY['occurred_at is ' || occurred_at, 'Give a time of the years 1 to 9999.']
	END;
	IF v_wrong IS NOT NULL THEN
		RAISE EXCEPTION 'cannot publish %: %', event_type, v_wrong[1] USING ERRCODE = 'PW013', HINT = v_wrong[2];
	END IF;
	v_misfit := regexp_replace(unfit(payload, v_text, v_type.shape), '^args', 'payload');
	IF v_misfit IS NOT NULL THEN
		RAISE EXCEPTION 'the payload does not fit %', event_type USING ERRCODE = 'PW011', DETAIL = v_misfit,
			HINT = format('It is held against version %s. Names of members are case-sensitive.', v_type.version);
	END IF;
	IF v_type.organization_field IS NOT NULL THEN
		v_organization := organization_of(payload, v_type.organization_field, v_type.shape);
		IF organization_id <> v_organization THEN
			RAISE EXCEPTION 'cannot publish %: organization_id is not that of the payload', event_type USING ERRCODE = 'PW013',
				DETAIL = format('The event takes its organization from payload%s.', path_step(v_type.organization_field)), HINT = 'Leave organization_id out.';
		END IF;
	END IF;
	IF octet_length(v_organization) > 1000 THEN
		RAISE EXCEPTION 'cannot publish %: the organization has % bytes', event_type, octet_length(v_organization) USING ERRCODE = 'PW013',
			HINT = 'Use its id, of at most 1000 bytes.';
	END IF;
	PERFORM publish_event(v_type.type, v_type.aggregate_type, aggregate_id, v_organization, v_type.version, v_type.capability,
		v_id, v_text, occurred_at, NULL, true);
	RETURN v_id;
END $$;

-- Picks aggregates whose first event is due, about p_limit at most: of those that
-- have an event which became due since p_floor; and where p_visits is above zero,
-- also of those after p_after in the order of their digests, of which it looks at
-- p_visits: one step through the index an aggregate, however many events that has.
-- Aggregates that are blocked, or whose first event is of no capability in
-- p_capabilities, are passed over. p_sleep says whether p_process wants to be woken
-- from now on, if this look finds nothing; NULL where it did not and does not.
--
-- Answers the aggregates; up to when it has seen what became due, and whether
-- there is more after that; the last one that it looked at (NULL: there are no
-- more); and after how many microseconds the next event becomes due.
CREATE FUNCTION {schema}.pick_aggregates(p_floor timestamptz, p_after uuid, p_visits integer, p_limit integer, p_capabilities bigint[],
	p_process uuid, p_sleep boolean,
	OUT aggregates uuid[], OUT seen timestamptz, OUT more boolean, OUT reached uuid, OUT next_us bigint)
LANGUAGE plpgsql VOLATILE
SET search_path = {schema}, pg_temp
{pinned}
AS $$
DECLARE
	v_now   timestamptz := clock_timestamp();
	v_count integer;
	v_head  record;
BEGIN
	-- Fresh ones are few, and found whatever else is pending.
	WITH fresh AS MATERIALIZED (
		SELECT p.aggregate, p.available_at FROM pending_events p
		WHERE p.available_at >= p_floor AND p.available_at <= v_now ORDER BY p.available_at LIMIT 1000
	)
	SELECT (SELECT count(*) FROM fresh), (SELECT max(f.available_at) FROM fresh f), array_agg(a.aggregate)
	INTO v_count, seen, aggregates
	FROM (SELECT DISTINCT f.aggregate FROM fresh f) a
	CROSS JOIN LATERAL (
		SELECT p.capability, p.available_at FROM pending_events p WHERE p.aggregate = a.aggregate ORDER BY p.seq LIMIT 1) h
	WHERE h.capability = ANY (p_capabilities) AND h.available_at <= v_now
		AND NOT EXISTS (SELECT FROM blocked_aggregates b WHERE b.aggregate = a.aggregate);
	aggregates := COALESCE(aggregates, '{}');
	more := v_count >= 1000;
	IF NOT more THEN
		seen := v_now;
	END IF;

	reached := p_after;
	FOR n IN 1 .. p_visits LOOP
		EXIT WHEN cardinality(aggregates) >= p_limit;
		SELECT p.aggregate, p.capability = ANY (p_capabilities) AND p.available_at <= v_now
			AND NOT EXISTS (SELECT FROM blocked_aggregates b WHERE b.aggregate = p.aggregate) AS due INTO v_head
		FROM pending_events p WHERE p.aggregate > reached ORDER BY p.aggregate, p.seq LIMIT 1;
		IF NOT FOUND THEN
			reached := NULL;
			EXIT;
		END IF;
		reached := v_head.aggregate;
		IF v_head.due AND v_head.aggregate <> ALL (aggregates) THEN
			aggregates := aggregates || v_head.aggregate;
		END IF;
	END LOOP;

	SELECT (extract(epoch FROM p.available_at - v_now) * 1000000)::bigint INTO next_us
	FROM pending_events p WHERE p.available_at > v_now ORDER BY p.available_at LIMIT 1;
	IF p_sleep AND cardinality(aggregates) = 0 THEN
		INSERT INTO sleepers (queue, process) VALUES ('!outbox', p_process) ON CONFLICT DO NOTHING;
	ELSIF p_sleep IS NOT NULL THEN
		DELETE FROM sleepers s WHERE s.queue = '!outbox' AND s.process = p_process;
	END IF;
END $$;

-- Whether a transaction that had a row is known to have been rolled back, or to
-- have ended with its session: a row's xmax is that of the last one which locked or
-- tried to delete it.
CREATE FUNCTION {schema}.came_to_nothing(p_xmax xid) RETURNS boolean
LANGUAGE sql STABLE
RETURN (
	SELECT COALESCE(pg_xact_status(CASE WHEN x.full < n.next THEN x.full ELSE x.full - 4294967296 END::text::xid8) = 'aborted', false)
	FROM (SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint AS next) n
	CROSS JOIN LATERAL (SELECT ((n.next >> 32) << 32) + p_xmax::text::bigint AS full) x
	WHERE p_xmax::text <> '0' AND (x.full < n.next OR x.full >= 4294967296) -- one of no epoch is none
);

-- Locks aggregates for the rest of the transaction, those that nobody else has,
-- and answers the first events of each that is locked, in order: as many as make
-- p_limit in all, and one more of each, the aggregates as they are given. The lock
-- is taken in a statement before the one that reads, which therefore sees everything
-- that the last holder has done. An event whose row is missing has no type.
--
-- The rows are locked too, in the weakest way, so that they tell of it should the
-- transaction come to nothing; but not where p_claim says that the attempt is
-- written down. Mine are those that it is written down for. Claimed are those whose
-- attempt never ended: whoever has the lock of an aggregate is alone with it, but
-- the claim of another is left alone for five seconds, in which that takes the lock.
--
-- Answers one row more, without an aggregate: the number of those locked in seq,
-- and the time in published_at.
CREATE FUNCTION {schema}.take_events(p_aggregates uuid[], p_limit integer, p_claim uuid)
RETURNS TABLE (aggregate uuid, seq bigint, id uuid, attempts smallint, due boolean, suspect boolean, claimed boolean, mine boolean, capability bigint,
	type text, aggregate_type text, aggregate_id text, organization_id text, version integer,
	occurred_at timestamptz, published_at timestamptz, trace_context text, payload text)
LANGUAGE plpgsql VOLATILE
SET search_path = {schema}, pg_temp
{pinned}
AS $$
#variable_conflict use_column
DECLARE
	v_now    timestamptz;
	v_try    record;
	v_locked uuid[] := '{}';
	v_each   integer;
BEGIN
	FOR v_try IN
		SELECT aggregate_lock(a) AS lock, array_agg(a) AS aggregates FROM unnest(p_aggregates) a GROUP BY 1 ORDER BY 1
	LOOP
		IF pg_try_advisory_xact_lock({lock_relay}, v_try.lock) THEN
			v_locked := v_locked || v_try.aggregates;
		END IF;
	END LOOP;
	v_now := clock_timestamp();
	v_each := p_limit / NULLIF(cardinality(v_locked), 0) + 1;
	IF p_claim IS NULL THEN
		UPDATE pending_events p SET suspect = true
		FROM unnest(v_locked) l(aggregate)
		CROSS JOIN LATERAL (
			SELECT h.seq, h.suspect, h.xmax AS had FROM pending_events h WHERE h.aggregate = l.aggregate ORDER BY h.seq LIMIT v_each) x
		WHERE p.aggregate = l.aggregate AND p.seq = x.seq AND NOT x.suspect AND came_to_nothing(x.had);
		PERFORM FROM unnest(v_locked) l(aggregate)
		CROSS JOIN LATERAL (
			SELECT FROM pending_events h WHERE h.aggregate = l.aggregate ORDER BY h.seq LIMIT v_each FOR KEY SHARE) x;
	END IF;
	RETURN QUERY
	SELECT p.aggregate, p.seq, p.id, p.attempts,
		p.available_at <= v_now AND (p.claim IS NULL OR p.claim IS NOT DISTINCT FROM p_claim OR p.claimed_at <= v_now - interval '5 seconds'),
		p.suspect, p.claim IS NOT NULL AND p.claim IS DISTINCT FROM p_claim, COALESCE(p.claim = p_claim, false), p.capability,
		e.type, e.aggregate_type, e.aggregate_id, e.organization_id, e.version, e.occurred_at, p.published_at, e.trace_context, e.payload::text
	FROM unnest(p_aggregates) WITH ORDINALITY l(aggregate, n)
	CROSS JOIN LATERAL (
		SELECT p.* FROM pending_events p WHERE p.aggregate = l.aggregate
		ORDER BY p.seq LIMIT v_each) p
	LEFT JOIN LATERAL (SELECT e.* FROM events e WHERE e.day = p.day AND e.id = p.id OFFSET 0) e ON true
	WHERE l.aggregate = ANY (v_locked) AND NOT EXISTS (SELECT FROM blocked_aggregates b WHERE b.aggregate = l.aggregate)
	ORDER BY l.n, p.seq;
	RETURN QUERY SELECT NULL::uuid, cardinality(v_locked)::bigint, NULL::uuid, NULL::smallint, NULL::boolean, NULL::boolean, NULL::boolean, NULL::boolean, NULL::bigint,
		NULL::text, NULL::text, NULL::text, NULL::text, NULL::integer, NULL::timestamptz, v_now, NULL::text, NULL::text;
END $$;

-- Writes down that an attempt at the first event of an aggregate begins, where it
-- is due and of one of the capabilities, and nobody else is at the aggregate. It is
-- to be called in a transaction of its own, just before the one of the attempt.
CREATE FUNCTION {schema}.claim_event(p_aggregate uuid, p_capabilities bigint[], p_claim uuid, p_by text) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = {schema}, pg_temp
{pinned}
SET lock_timeout = '5s'
AS $$
BEGIN
	IF NOT pg_try_advisory_xact_lock({lock_relay}, aggregate_lock(p_aggregate)) THEN
		RETURN;
	END IF;
	UPDATE pending_events p SET suspect = true, claimed_at = clock_timestamp(), claimed_by = p_by, claim = p_claim
	WHERE p.aggregate = p_aggregate AND p.seq = (SELECT min(x.seq) FROM pending_events x WHERE x.aggregate = p_aggregate)
		AND p.claim IS NULL AND p.capability = ANY (p_capabilities) AND p.available_at <= clock_timestamp()
		AND NOT EXISTS (SELECT FROM blocked_aggregates b WHERE b.aggregate = p_aggregate);
END $$;

-- Takes back what claim_event wrote down, where the attempt did not begin: somebody
-- else had the lock of the aggregate. It would count as one that ended a process.
CREATE FUNCTION {schema}.unclaim_event(p_aggregate uuid, p_claim uuid) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = {schema}, pg_temp
{pinned}
SET lock_timeout = '5s'
AS $$
BEGIN
	UPDATE pending_events p SET claimed_at = NULL, claimed_by = NULL, claim = NULL
	WHERE p.aggregate = p_aggregate AND p.claim = p_claim;
END $$;

-- Marks an event as projected, in the transaction that has done so: PW003 where
-- this is not the transaction that p_mark was set in, so that a projection has
-- ended that one by itself; PW002 where the event is not pending any more.
CREATE FUNCTION {schema}.event_projected(p_mark text, p_aggregate uuid, p_seq bigint, p_claimed_at timestamptz, p_by text) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = {schema}, pg_temp
{pinned}
AS $$
DECLARE
	v_now timestamptz := clock_timestamp();
	v_day integer     := day_of(v_now);
BEGIN
	IF current_setting('pawl.relay', true) IS DISTINCT FROM p_mark THEN
		RAISE EXCEPTION 'the projection has ended the transaction that it was given' USING ERRCODE = 'PW003';
	END IF;
	IF to_regclass('event_outcomes_d' || v_day) IS NULL THEN
		PERFORM ensure_day(v_day, '{events,event_outcomes,event_errors}');
	END IF;
	WITH gone AS (
		DELETE FROM pending_events p WHERE p.aggregate = p_aggregate AND p.seq = p_seq RETURNING p.*
	)
	INSERT INTO event_outcomes (day, event_id, event_day, outcome, attempts, claimed_at, claimed_by, processed_at)
	SELECT v_day, g.id, g.day, 1, LEAST(g.attempts + 1, 32767), p_claimed_at, p_by, v_now FROM gone g;
	IF NOT FOUND THEN
		RAISE EXCEPTION 'event % of aggregate % is not pending any more', p_seq, p_aggregate USING ERRCODE = 'PW002';
	END IF;
END $$;

-- Records an attempt at an event that did not project it: 2 it is tried again
-- after the delay, 3 it is dead, 4 it is tried again after the delay and the
-- attempt does not count, 5 it is discarded, 6 it has no row and is set aside.
-- p_block says that a dead one holds up its aggregate. Answers false where the
-- event is not pending with these attempts any more: somebody else was there.
CREATE FUNCTION {schema}.event_failed(p_aggregate uuid, p_seq bigint, p_attempts smallint, p_outcome smallint, p_delay_us bigint,
	p_code text, p_summary text, p_block boolean, p_claimed_at timestamptz, p_by text) RETURNS boolean
LANGUAGE plpgsql VOLATILE
SET search_path = {schema}, pg_temp
{pinned}
SET lock_timeout = '5s'
AS $$
DECLARE
	v_now   timestamptz := clock_timestamp();
	v_day   integer     := day_of(v_now);
	v_retry timestamptz := v_now + COALESCE(p_delay_us, 0) * interval '1 microsecond';
	v_event record;
BEGIN
	IF to_regclass('event_outcomes_d' || v_day) IS NULL THEN
		PERFORM ensure_day(v_day, '{events,event_outcomes,event_errors}');
	END IF;
	IF p_outcome IN (2, 4) THEN
		-- One that has failed in order is not what ended a process.
		UPDATE pending_events p SET available_at = v_retry, claimed_at = NULL, claimed_by = NULL, claim = NULL,
			suspect = p.suspect AND p_code IS NOT DISTINCT FROM 'process_lost', attempts = CASE p_outcome WHEN 2 THEN LEAST(p.attempts + 1, 32766) ELSE p.attempts END
		WHERE p.aggregate = p_aggregate AND p.seq = p_seq AND p.attempts = p_attempts
		RETURNING p.* INTO v_event;
	ELSE
		DELETE FROM pending_events p WHERE p.aggregate = p_aggregate AND p.seq = p_seq AND p.attempts = p_attempts
		RETURNING p.* INTO v_event;
	END IF;
	IF NOT FOUND THEN
		RETURN false;
	END IF;
	IF p_outcome = 3 THEN
		INSERT INTO dead_events (event_id, seq, type, aggregate_type, aggregate_id, organization_id, version, capability, attempts,
			code, summary, occurred_at, published_at, died_at, trace_context, payload)
		SELECT e.id, e.seq, e.type, e.aggregate_type, e.aggregate_id, e.organization_id, e.version, e.capability, LEAST(p_attempts + 1, 32767),
			COALESCE(p_code, 'unknown'), COALESCE(p_summary, ''), e.occurred_at, e.published_at, v_now, e.trace_context, e.payload
		FROM events e WHERE e.day = v_event.day AND e.id = v_event.id
		ON CONFLICT DO NOTHING;
		IF p_block THEN
			INSERT INTO blocked_aggregates (aggregate, event_id, blocked_at) VALUES (p_aggregate, v_event.id, v_now) ON CONFLICT DO NOTHING;
		END IF;
	END IF;
	IF p_outcome IN (3, 5) THEN
		INSERT INTO event_outcomes (day, event_id, event_day, outcome, attempts, claimed_at, claimed_by, processed_at)
		VALUES (v_day, v_event.id, v_event.day, p_outcome, LEAST(p_attempts + 1, 32767), p_claimed_at, p_by, v_now);
	ELSIF p_outcome = 6 THEN
		INSERT INTO quarantine (job_id, job_day, queue, attempts, found_at, reason)
		VALUES (v_event.id, v_event.day, '!outbox', p_attempts, v_now, COALESCE(p_summary, 'the event has no row'));
	END IF;
	IF p_code IS NOT NULL AND p_outcome <> 6 THEN
		INSERT INTO event_errors (day, event_id, attempt, at, code, summary, retry_at)
		VALUES (v_day, v_event.id, LEAST(p_attempts + 1, 32767), v_now, p_code, COALESCE(p_summary, ''), CASE p_outcome WHEN 2 THEN v_retry END)
		ON CONFLICT (event_id, attempt, day) DO UPDATE
		SET at = excluded.at, code = excluded.code, summary = excluded.summary, retry_at = excluded.retry_at;
	END IF;
	RETURN true;
END $$;

-- A dead event is to be projected after all, with all its attempts: before the
-- later ones of its aggregate, where it has held those up, and otherwise after
-- what has been projected meanwhile. False: there is no such dead event.
CREATE FUNCTION {schema}.retry_event(p_id uuid) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = {schema}, pg_temp
AS $$
DECLARE
	v_now  timestamptz := clock_timestamp();
	v_day  integer     := day_of(v_now);
	v_dead record;
BEGIN
	DELETE FROM dead_events d WHERE d.event_id = p_id RETURNING d.* INTO v_dead;
	IF NOT FOUND THEN
		RETURN false;
	END IF;
	IF to_regclass('events_d' || v_day) IS NULL THEN
		PERFORM ensure_day(v_day, '{events,event_outcomes,event_errors}');
	END IF;
	-- Today is its day from now on, since its own may be emptied any time.
	DELETE FROM events e WHERE e.id = p_id;
	DELETE FROM event_outcomes o WHERE o.event_id = p_id;
	INSERT INTO events (day, id, seq, type, aggregate_type, aggregate_id, organization_id, version, capability, occurred_at, published_at, trace_context, payload)
	VALUES (v_day, p_id, v_dead.seq, v_dead.type, v_dead.aggregate_type, v_dead.aggregate_id, v_dead.organization_id, v_dead.version,
		v_dead.capability, v_dead.occurred_at, v_dead.published_at, v_dead.trace_context, v_dead.payload);
	INSERT INTO pending_events (aggregate, seq, id, day, capability, attempts, available_at, published_at)
	VALUES (aggregate_of(v_dead.aggregate_type, v_dead.aggregate_id), v_dead.seq, p_id, v_day, v_dead.capability, 0, v_now, v_dead.published_at);
	DELETE FROM blocked_aggregates b WHERE b.event_id = p_id;
	PERFORM pg_notify({channel}, '!outbox');
	PERFORM audited('retry event', jsonb_build_object('event', p_id), 1, true);
	RETURN true;
END $$;

-- The aggregate that a dead event holds up goes on without it. The event stays
-- among the dead. False: it holds up none.
CREATE FUNCTION {schema}.skip_event(p_id uuid) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = {schema}, pg_temp
AS $$
BEGIN
	DELETE FROM blocked_aggregates b WHERE b.event_id = p_id;
	IF NOT FOUND THEN
		RETURN false;
	END IF;
	PERFORM pg_notify({channel}, '!outbox');
	PERFORM audited('skip event', jsonb_build_object('event', p_id), 1, true);
	RETURN true;
END $$;

-- Moves pending events that are older than p_age to today, so that their days
-- can be emptied. It leaves alone aggregates that a relay is just working on.
-- Answers how many moved, and out of which days; another call goes on where that
-- is p_limit.
CREATE FUNCTION {schema}.rekey_events(p_age_us bigint, p_limit integer, OUT moved bigint, OUT days integer[])
LANGUAGE plpgsql VOLATILE
SET search_path = {schema}, pg_temp
SET jit = off
SET lock_timeout = '1s'
AS $$
DECLARE
	v_day    integer := day_of(clock_timestamp());
	v_before integer := day_of(clock_timestamp() - p_age_us * interval '1 microsecond' + interval '1 day');
	v_locked uuid[];
BEGIN
	moved := 0; days := '{}';
	IF to_regclass('events_d' || v_day) IS NULL THEN
		PERFORM ensure_day(v_day, '{events,event_outcomes,event_errors}');
	END IF;
	SELECT array_agg(l.aggregate) FILTER (WHERE l.mine) INTO v_locked FROM (
		SELECT a.aggregate, pg_try_advisory_xact_lock({lock_relay}, aggregate_lock(a.aggregate)) AS mine FROM (
			SELECT DISTINCT p.aggregate FROM (
				SELECT p.aggregate FROM pending_events p WHERE p.day < LEAST(v_before, v_day) LIMIT p_limit) p
			ORDER BY p.aggregate OFFSET 0) a OFFSET 0) l;
	IF v_locked IS NULL THEN
		RETURN;
	END IF;
	WITH mine AS MATERIALIZED (
		SELECT p.aggregate, p.seq, p.id, p.day FROM pending_events p
		WHERE p.aggregate = ANY (v_locked) AND p.day < LEAST(v_before, v_day) LIMIT p_limit
	), gone AS (
		DELETE FROM events e USING mine m WHERE e.day = m.day AND e.id = m.id RETURNING e.*
	), put AS (
		INSERT INTO events (day, id, seq, type, aggregate_type, aggregate_id, organization_id, version, capability, occurred_at, published_at, trace_context, payload)
		SELECT v_day, g.id, g.seq, g.type, g.aggregate_type, g.aggregate_id, g.organization_id, g.version, g.capability, g.occurred_at, g.published_at, g.trace_context, g.payload
		FROM gone g
	), rekeyed AS (
		UPDATE pending_events p SET day = v_day FROM mine m WHERE p.aggregate = m.aggregate AND p.seq = m.seq RETURNING m.day AS was
	)
	SELECT count(*), COALESCE(array_agg(DISTINCT r.was), '{}') INTO moved, days FROM rekeyed r;
END $$;

-- Partitions of days of the outbox, as leaves() has them of the jobs'.
CREATE FUNCTION {schema}.event_leaves() RETURNS TABLE (parent text, day integer, state text, used boolean, over_us bigint)
LANGUAGE sql VOLATILE
SET search_path = {schema}, pg_temp
AS $$
	SELECT p.name, d.day, CASE WHEN i.inhrelid IS NULL THEN 'detached' WHEN i.inhdetachpending THEN 'pending' ELSE 'attached' END,
		COALESCE(pg_relation_size(c.oid), 0) > 0, -- NULL where it is just being dropped
		(extract(epoch FROM clock_timestamp() - to_timestamp((d.day + 1) * 86400::double precision)) * 1000000)::bigint
	FROM (VALUES ('events'), ('event_outcomes'), ('event_errors')) p(name)
	JOIN pg_class t ON t.oid = to_regclass(p.name)
	JOIN pg_class c ON c.relnamespace = t.relnamespace AND c.relkind = 'r' AND c.relname ~ ('^' || p.name || '_d[0-9]+$')
	LEFT JOIN pg_inherits i ON i.inhrelid = c.oid AND i.inhparent = t.oid
	CROSS JOIN LATERAL (SELECT substr(c.relname, length(p.name) + 3)::integer AS day) d
	ORDER BY p.name, d.day
$$;

-- Empties a day of the outbox, as empty_leaf does one of the jobs'.
CREATE FUNCTION {schema}.empty_event_leaf(p_parent text, p_day integer, p_tries integer) RETURNS text
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = {schema}, pg_temp
SET jit = off
AS $$
DECLARE
	v_leaf text := leaf(p_parent, p_day);
BEGIN
	IF p_day >= day_of(clock_timestamp()) OR p_parent NOT IN ('events', 'event_outcomes', 'event_errors') OR to_regclass(v_leaf) IS NULL THEN
		RETURN 'needed';
	END IF;
	IF p_parent = 'events' THEN
		BEGIN
			EXECUTE format('LOCK TABLE ONLY %s IN SHARE MODE NOWAIT', v_leaf);
		EXCEPTION WHEN lock_not_available THEN
			RETURN 'locked';
		END;
		-- Nobody adds to the day from here on, and who has has committed.
		IF EXISTS (SELECT FROM pending_events p WHERE p.day = p_day) THEN
			RETURN 'needed';
		END IF;
	END IF;
	-- An event without its outcome would be taken for a lost one.
	IF p_parent = 'event_outcomes' AND EXISTS (SELECT FROM event_leaves() l WHERE l.parent = 'events' AND l.day <= p_day AND l.used) THEN
		RETURN 'needed';
	END IF;
	RETURN truncate_leaf(v_leaf, p_tries);
END $$;

-- Removes dead events that are older than p_age, p_limit at most, but for those
-- that hold up their aggregate: somebody has to decide about them.
CREATE FUNCTION {schema}.purge_dead_events(p_age_us bigint, p_limit integer) RETURNS bigint
LANGUAGE sql VOLATILE
SET search_path = {schema}, pg_temp
{pinned}
SET lock_timeout = '1s'
AS $$
	WITH old AS MATERIALIZED (
		SELECT d.event_id FROM dead_events d WHERE d.died_at < clock_timestamp() - p_age_us * interval '1 microsecond'
			AND NOT EXISTS (SELECT FROM blocked_aggregates b WHERE b.event_id = d.event_id)
		ORDER BY d.died_at LIMIT p_limit FOR UPDATE SKIP LOCKED
	), gone AS (
		DELETE FROM dead_events d USING old o WHERE d.event_id = o.event_id RETURNING d.event_id
	)
	SELECT count(*) FROM gone
$$;

-- Where an event stands, by what is known of it, as standing decides it for a job.
CREATE FUNCTION {schema}.event_standing(
	p_outcome   smallint, -- of its row in event_outcomes
	p_buried    boolean,  -- it is among the dead
	p_pending   boolean,
	p_blocked   boolean,  -- a dead one holds up its aggregate
	p_decodable boolean,  -- by a live worker
	p_behind    boolean,  -- another one of its aggregate is before it
	p_tried     boolean)  -- an attempt has been used up
RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE
	WHEN p_buried THEN 'dead'
	WHEN p_outcome = 1 THEN 'projected'
	WHEN p_outcome = 3 THEN 'dead'
	WHEN p_outcome = 5 THEN 'discarded'
	WHEN NOT p_pending THEN 'lost'
	WHEN p_blocked THEN 'blocked'
	WHEN NOT p_decodable THEN 'stranded'
	WHEN p_behind THEN 'waiting'
	WHEN p_tried THEN 'retrying'
	ELSE 'pending'
END;

-- One row an event that still has its history, for people and for other
-- languages.
CREATE VIEW {schema}.outbox_events AS
SELECT e.id, NULLIF(e.organization_id, '') AS organization_id, e.aggregate_type, e.aggregate_id, e.type AS event_type,
	e.version AS schema_version, e.capability, e.payload, e.occurred_at, e.published_at, p.available_at,
	{schema}.event_standing(o.outcome, false, p.id IS NOT NULL, b.aggregate IS NOT NULL, e.capability = ANY ((SELECT {schema}.live_capabilities())::bigint[]),
		EXISTS (SELECT FROM {schema}.pending_events x WHERE x.aggregate = p.aggregate AND x.seq < p.seq), p.attempts > 0) AS status,
	COALESCE(o.claimed_at, p.claimed_at) AS claimed_at, COALESCE(o.claimed_by, p.claimed_by) AS claimed_by,
	CASE o.outcome WHEN 1 THEN o.processed_at END AS processed_at,
	COALESCE(o.attempts, p.attempts, 0)::integer AS attempts,
	x.code AS last_error_code, x.summary AS last_error, e.seq
FROM {schema}.events e
LEFT JOIN {schema}.event_outcomes o ON o.event_id = e.id
LEFT JOIN {schema}.pending_events p ON p.aggregate = {schema}.aggregate_of(e.aggregate_type, e.aggregate_id) AND p.seq = e.seq
LEFT JOIN {schema}.blocked_aggregates b ON b.aggregate = p.aggregate
LEFT JOIN LATERAL (
	SELECT r.code, r.summary FROM {schema}.event_errors r WHERE r.event_id = e.id ORDER BY r.attempt DESC, r.at DESC LIMIT 1
) x ON true;
