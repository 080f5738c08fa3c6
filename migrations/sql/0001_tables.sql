-- Tables. Every value that orders or expires is the database's clock.

-- One immutable row a job, payload included. Written once, never updated: it
-- is its own history, and leaves by emptying a whole day.
CREATE TABLE {schema}.jobs (
	day             integer     NOT NULL, -- days since 1970-01-01 UTC, the server's, at enqueue
	id              uuid        NOT NULL,
	kind            text        NOT NULL,
	queue           text        NOT NULL,
	version         integer     NOT NULL,
	capability      bigint      NOT NULL,
	priority        smallint    NOT NULL,
	max_attempts    smallint    NOT NULL,
	organization_id text        NOT NULL, -- empty for none
	run_at          timestamptz NOT NULL, -- when it first became due
	enqueued_at     timestamptz NOT NULL,
	idempotency_key bytea,
	order_key       bytea,
	trace_context   text,
	args            jsonb       NOT NULL,
	PRIMARY KEY (id, day) -- in this order, for who knows the id alone
) PARTITION BY LIST (day);

-- One narrow row a waiting job: due, scheduled or in backoff. A claim deletes
-- it, a retry inserts it again; the payload is never rewritten.
CREATE TABLE {schema}.ready (
	queue      text        NOT NULL,
	priority   smallint    NOT NULL,
	run_at     timestamptz NOT NULL,
	id         uuid        NOT NULL,
	day        integer     NOT NULL,
	capability bigint      NOT NULL,
	attempts   smallint    NOT NULL, -- used up so far
	suspect    boolean     NOT NULL, -- may kill its worker, so it runs alone
	-- For hands: claims look for no other priority, and one attempt more must
	-- fit. One constraint, since each is parsed in every insert.
	CONSTRAINT ready_in_range CHECK (priority BETWEEN 1 AND 4 AND attempts BETWEEN 0 AND 32766)
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX ready_due ON {schema}.ready (queue, priority DESC, run_at, id) WHERE NOT suspect;
CREATE INDEX ready_suspect ON {schema}.ready (queue, priority DESC, run_at, id) WHERE suspect;

-- Jobs with an order key, until they end. Of a key only the head is waiting in
-- ready or leased; the others are in no other place, so claims never meet them.
CREATE TABLE {schema}.ordered (
	order_key bytea   NOT NULL, -- a digest
	seq       bigint  NOT NULL GENERATED ALWAYS AS IDENTITY,
	job_id    uuid    NOT NULL,
	day       integer NOT NULL,
	queue     text    NOT NULL,
	head      boolean NOT NULL,
	ready_at  timestamptz, -- a head's first due time: where to find it in ready
	PRIMARY KEY (order_key, seq)
) WITH (fillfactor = 90, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
CREATE UNIQUE INDEX ordered_head ON {schema}.ordered (order_key) WHERE head; -- one at a time
CREATE UNIQUE INDEX ordered_job ON {schema}.ordered (job_id);

-- Order keys that may lack a head. Who adds a job cannot see whether those
-- before it are just ending, nor who ends one whether another is just being
-- added; whoever looks at this table later sees both.
CREATE TABLE {schema}.order_turns (
	queue     text  NOT NULL,
	order_key bytea NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX order_turns_queue ON {schema}.order_turns (queue, order_key);

-- Jobs that shall not have another attempt, while a worker may have them.
CREATE TABLE {schema}.cancel_requests (
	job_id       uuid        PRIMARY KEY,
	requested_at timestamptz NOT NULL
);

-- Queues that nothing is claimed from.
CREATE TABLE {schema}.paused_queues (
	queue     text        PRIMARY KEY,
	paused_at timestamptz NOT NULL
);

-- Which queues have a process that sleeps until it is woken. An enqueue tells
-- only those: commits that notify go one by one through the whole server.
CREATE TABLE {schema}.sleepers (
	queue   text NOT NULL,
	process uuid NOT NULL,
	PRIMARY KEY (queue, process)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

-- One row per worker process. Liveness lives here alone: leases have no expiry
-- of their own, and a renewal touches this row only.
CREATE TABLE {schema}.processes (
	id           uuid        PRIMARY KEY,
	name         text        NOT NULL,
	queues       text[]      NOT NULL,
	capabilities bigint[]    NOT NULL,
	lease        interval    NOT NULL,
	started_at   timestamptz NOT NULL,
	steady_since timestamptz NOT NULL, -- unbroken contact since
	expires_at   timestamptz NOT NULL
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

-- One row per claimed batch. While the row exists and its owner lives, the
-- owner has those of its jobs whose bit is open. The arrays never change, so
-- that settling a job rewrites a few bytes; the token is the fence.
CREATE TABLE {schema}.leases (
	token      uuid        PRIMARY KEY, -- the claimer's own, one per claim
	owner      uuid        NOT NULL,
	queue      text        NOT NULL,
	claimed_at timestamptz NOT NULL,
	job_ids    uuid[]      NOT NULL,
	days       integer[]   NOT NULL,
	attempts   smallint[]  NOT NULL, -- the attempt that each job is in
	open       bit(128)    NOT NULL  -- from the left: not settled yet
) WITH (fillfactor = 50, toast_tuple_target = 8160, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);
CREATE INDEX leases_owner ON {schema}.leases (owner);

-- One narrow append-only row per finished job.
CREATE TABLE {schema}.outcomes (
	day         integer     NOT NULL, -- of the end
	job_id      uuid        NOT NULL,
	job_day     integer     NOT NULL,
	outcome     smallint    NOT NULL CHECK (outcome IN (1, 3, 5)), -- completed, dead, cancelled
	attempts    smallint    NOT NULL,
	queue       text        NOT NULL,
	claimed_at  timestamptz NOT NULL,
	finished_at timestamptz NOT NULL
) PARTITION BY LIST (day);
CREATE INDEX outcomes_job ON {schema}.outcomes (job_id);

-- Rows that exist only when something went wrong.
CREATE TABLE {schema}.job_errors (
	day      integer     NOT NULL, -- of the error
	job_id   uuid        NOT NULL,
	attempt  smallint    NOT NULL,
	at       timestamptz NOT NULL,
	code     text        NOT NULL,
	summary  text        NOT NULL,
	retry_at timestamptz, -- when the next attempt became due; NULL for none
	-- An attempt that was given back may fail again on another day: the latest
	-- of its rows is how it ended.
	PRIMARY KEY (job_id, attempt, day)
) PARTITION BY LIST (day);

-- Dead letters hold their own copy of the payload, so that they outlive the
-- day of their job.
CREATE TABLE {schema}.dead_letters (
	job_id          uuid        PRIMARY KEY,
	kind            text        NOT NULL,
	queue           text        NOT NULL,
	version         integer     NOT NULL,
	capability      bigint      NOT NULL,
	priority        smallint    NOT NULL,
	organization_id text        NOT NULL,
	attempts        smallint    NOT NULL,
	max_attempts    smallint    NOT NULL,
	code            text        NOT NULL,
	summary         text        NOT NULL,
	enqueued_at     timestamptz NOT NULL,
	died_at         timestamptz NOT NULL,
	args            jsonb       NOT NULL,
	-- What its job was enqueued with, for the day that it becomes one again.
	idempotency_key bytea,
	order_key       bytea,
	trace_context   text
);
CREATE INDEX dead_letters_died ON {schema}.dead_letters (died_at);

-- The ledger of idempotency keys, apart from the jobs: a key is held while its
-- job is unfinished, and at least until expires_at.
CREATE TABLE {schema}.idempotency_keys (
	organization_id text        NOT NULL,
	kind            text        NOT NULL,
	key             bytea       NOT NULL, -- a digest
	job_id          uuid        NOT NULL,
	job_day         integer     NOT NULL,
	expires_at      timestamptz NOT NULL,
	args_digest     bytea       NOT NULL, -- of the stored JSON value
	PRIMARY KEY (organization_id, kind, key)
) WITH (autovacuum_vacuum_scale_factor = 0.05);

-- What the invariants say cannot be: a waiting or leased job without its row.
-- Set aside so that nothing is lost and nothing else is held up.
CREATE TABLE {schema}.quarantine (
	job_id   uuid        NOT NULL,
	job_day  integer     NOT NULL,
	queue    text        NOT NULL,
	attempts smallint    NOT NULL,
	found_at timestamptz NOT NULL,
	reason   text        NOT NULL
);

-- Day partitions. CREATE and ATTACH, since CREATE TABLE ... PARTITION OF would
-- wait for every open enqueue. Rows are only added to them until they are
-- emptied, long before they need freezing, so a vacuum after inserts would be in
-- vain; and it would hold a lock that emptying does not wait for.
--
-- Only the owner of a table may do that, and the caller need not be: this, like
-- every function that runs with the rights of its owner, does so for known tables
-- of the schema alone, whatever else of their names the caller may have.
CREATE FUNCTION {schema}.ensure_day(p_day integer, p_parents text[] DEFAULT '{jobs,outcomes,job_errors}') RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = {schema}, pg_temp
AS $$
DECLARE
	v_parent text;
	v_leaf   text;
BEGIN
	IF NOT p_parents <@ '{jobs,outcomes,job_errors,archive,events,event_outcomes,event_errors}' THEN
		RAISE EXCEPTION 'some of these tables have no days: %', p_parents;
	END IF;
	FOREACH v_parent IN ARRAY p_parents LOOP
		v_leaf := v_parent || '_d' || p_day;
		CONTINUE WHEN to_regclass(v_leaf) IS NOT NULL;
		PERFORM pg_advisory_xact_lock({lock_day});
		CONTINUE WHEN to_regclass(v_leaf) IS NOT NULL;
		BEGIN
			EXECUTE format('CREATE TABLE %I (LIKE %I INCLUDING ALL, CONSTRAINT %I CHECK (day = %s)) WITH (autovacuum_vacuum_insert_threshold = -1)',
				v_leaf, v_parent, v_leaf || '_day', p_day);
			EXECUTE format('ALTER TABLE %I ATTACH PARTITION %I FOR VALUES IN (%s)', v_parent, v_leaf, p_day);
		EXCEPTION WHEN duplicate_table THEN
			-- Whoever held the lock made it. to_regclass may still answer from
			-- this session's cache, which a wait for the lock does not refresh.
			NULL;
		END;
	END LOOP;
END $$;

CREATE FUNCTION {schema}.day_of(p_at timestamptz) RETURNS integer
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN (p_at AT TIME ZONE 'UTC')::date - DATE '1970-01-01';

SELECT {schema}.ensure_day({schema}.day_of(clock_timestamp()) + n) FROM generate_series(0, 2) n;
