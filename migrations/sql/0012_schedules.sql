-- Schedules: which kinds have one, and how far their ticks have been dealt with.

-- One row a kind. The cursor is what makes a tick happen once: who moves it
-- enqueues in the same transaction.
CREATE TABLE {schema}.schedules (
	kind          text        PRIMARY KEY,
	spec          text        NOT NULL, -- a cron expression
	zone          text        NOT NULL,
	missed        text        NOT NULL CHECK (missed IN ('skip', 'one', 'all')),
	cursor        timestamptz NOT NULL CHECK (isfinite(cursor)), -- every tick up to here has been dealt with
	next_tick     timestamptz NOT NULL, -- the first one after that
	registered_at timestamptz NOT NULL, -- when it came to be declared as it is
	registered_by text        NOT NULL, -- the name of the process
	removed_at    timestamptz,          -- a later process has the kind without a schedule
	last_tick     timestamptz,          -- the last one that has a job
	last_job      uuid,
	ticks         bigint      NOT NULL DEFAULT 0, -- that have jobs
	missed_ticks  bigint      NOT NULL DEFAULT 0, -- that were found too late
	skipped_ticks bigint      NOT NULL DEFAULT 0  -- of those, without a job
) WITH (fillfactor = 50);

-- What follows is apart from the schedules, so that a caller's open transaction
-- does not hold up ticks.
CREATE TABLE {schema}.paused_schedules (
	kind      text        PRIMARY KEY,
	paused_at timestamptz NOT NULL
);

-- Jobs that somebody wants besides those of the ticks. A worker turns each row
-- into one.
CREATE TABLE {schema}.schedule_requests (
	kind         text        NOT NULL,
	requested_at timestamptz NOT NULL
);

-- Anybody may call these, in any transaction. Each answers NULL for a kind that
-- has no schedule, or whose schedule was removed.

-- Asks for one job, as if there were a tick now.
CREATE FUNCTION {schema}.run_schedule(kind text) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = {schema}, pg_temp
AS $$
BEGIN
	IF NOT EXISTS (SELECT FROM schedules s WHERE s.kind = $1 AND s.removed_at IS NULL) THEN
		RETURN NULL;
	END IF;
	INSERT INTO schedule_requests (kind, requested_at) VALUES ($1, clock_timestamp());
	PERFORM audited('run schedule now', jsonb_build_object('kind', $1), 1, true);
	RETURN true;
END $$;

-- Answers whether that was a change.
CREATE FUNCTION {schema}.pause_schedule(kind text) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = {schema}, pg_temp
AS $$
BEGIN
	IF NOT EXISTS (SELECT FROM schedules s WHERE s.kind = $1 AND s.removed_at IS NULL) THEN
		RETURN NULL;
	END IF;
	INSERT INTO paused_schedules (kind, paused_at) VALUES ($1, clock_timestamp()) ON CONFLICT DO NOTHING;
	IF NOT FOUND THEN
		RETURN false;
	END IF;
	PERFORM audited('pause schedule', jsonb_build_object('kind', $1), 1, true);
	RETURN true;
END $$;

CREATE FUNCTION {schema}.resume_schedule(kind text) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = {schema}, pg_temp
AS $$
BEGIN
	IF NOT EXISTS (SELECT FROM schedules s WHERE s.kind = $1 AND s.removed_at IS NULL) THEN
		RETURN NULL;
	END IF;
	DELETE FROM paused_schedules p WHERE p.kind = $1;
	IF NOT FOUND THEN
		RETURN false;
	END IF;
	PERFORM audited('resume schedule', jsonb_build_object('kind', $1), 1, true);
	RETURN true;
END $$;

-- One row a schedule that there is or was. One whose kind no live process has is
-- unserved: its ticks wait for one that does.
CREATE VIEW {schema}.schedule_status AS
SELECT s.kind, s.spec, s.zone, s.missed,
	CASE
		WHEN s.removed_at IS NOT NULL THEN 'removed'
		WHEN NOT EXISTS (
			SELECT FROM {schema}.processes p JOIN {schema}.kinds k ON k.capability = ANY (p.capabilities)
			WHERE k.kind = s.kind AND p.expires_at > clock_timestamp()) THEN 'unserved'
		WHEN q.kind IS NOT NULL THEN 'paused'
		ELSE 'active'
	END AS status,
	CASE WHEN s.removed_at IS NULL THEN s.next_tick END AS next_tick,
	s.last_tick, s.last_job, s.ticks, s.missed_ticks, s.skipped_ticks, s.registered_at, s.registered_by, s.removed_at
FROM {schema}.schedules s
LEFT JOIN {schema}.paused_schedules q ON q.kind = s.kind;
