-- Redaction: what people are shown of payloads. It is for display: what is stored
-- is stored as it is.

-- The fields of a payload version that are not to be shown, as workers declared
-- them when they started. A path is an array of steps: the name of a member, or an
-- empty text for every element of an array or value of an object. A path that was
-- once declared stays, so that a binary which does not know of it takes none away.
CREATE TABLE {schema}.redactions (
	event      boolean     NOT NULL, -- the kind is a type of event
	kind       text        NOT NULL,
	version    integer     NOT NULL,
	paths      jsonb       NOT NULL CHECK (jsonb_typeof(paths) = 'array'),
	updated_at timestamptz NOT NULL,
	PRIMARY KEY (event, kind, version)
);

-- A value without what a path leads to. Names are compared as encoding/json reads
-- them, whatever their case. What is not made as the path says, so that it leads
-- nowhere, is not shown at all; but NULL is where something could have been.
CREATE FUNCTION {schema}.masked(p_value jsonb, p_path jsonb, p_step integer) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
AS $$
DECLARE
	v_step text := p_path ->> p_step;
	v_type text := jsonb_typeof(p_value);
BEGIN
	IF v_step IS NOT NULL AND v_type = 'null' THEN
		RETURN p_value;
	ELSIF v_step <> '' AND v_type = 'object' THEN
		RETURN COALESCE((
			SELECT jsonb_object_agg(e.key, CASE WHEN lower(e.key) = lower(v_step) THEN {schema}.masked(e.value, p_path, p_step + 1) ELSE e.value END)
			FROM jsonb_each(p_value) e), '{}');
	ELSIF v_step = '' AND v_type = 'object' THEN
		RETURN COALESCE((SELECT jsonb_object_agg(e.key, {schema}.masked(e.value, p_path, p_step + 1)) FROM jsonb_each(p_value) e), '{}');
	ELSIF v_step = '' AND v_type = 'array' THEN
		RETURN COALESCE((
			SELECT jsonb_agg({schema}.masked(e.value, p_path, p_step + 1) ORDER BY e.n) FROM jsonb_array_elements(p_value) WITH ORDINALITY e(value, n)), '[]');
	END IF;
	RETURN '"[redacted]"';
END $$;

-- What is shown of a payload. A version that nobody has declared is not shown at
-- all, unless its kind has nothing to hide, as far as that is declared, and the
-- version is none of later. p_known is what the caller knows besides the table: an
-- array of objects like its rows.
CREATE FUNCTION {schema}.shown(p_event boolean, p_kind text, p_version integer, p_payload jsonb, p_known jsonb) RETURNS jsonb
LANGUAGE plpgsql STABLE
SET search_path = {schema}, pg_temp
AS $$
DECLARE
	v_declared record;
	v_path     jsonb;
BEGIN
	SELECT COALESCE(bool_or(d.version = p_version), false) AS version, COALESCE(bool_and(d.paths = '[]') AND max(d.version) > p_version, false) AS harmless,
		array_agg(d.paths) FILTER (WHERE d.version = p_version) AS paths
	INTO v_declared
	FROM (
		SELECT r.version, r.paths FROM redactions r WHERE r.event = p_event AND r.kind = p_kind
		UNION ALL
		SELECT k.version, k.paths FROM jsonb_to_recordset(p_known) k(event boolean, kind text, version integer, paths jsonb)
		WHERE k.event = p_event AND k.kind = p_kind) d;
	IF NOT v_declared.version AND NOT v_declared.harmless THEN
		RETURN '"[not declared]"';
	END IF;
	FOR v_path IN SELECT p.value FROM unnest(v_declared.paths) d(paths) CROSS JOIN LATERAL jsonb_array_elements(d.paths) p(value) LOOP
		p_payload := masked(p_payload, v_path, 0);
	END LOOP;
	RETURN p_payload;
END $$;

-- Whether a value at a path of payloads of a kind, which is empty for any kind, is
-- one that is not to be shown, or has such a one inside. So is any value of a kind
-- that nobody has declared.
CREATE FUNCTION {schema}.hidden(p_kind text, p_path jsonb) RETURNS boolean
LANGUAGE sql STABLE
SET search_path = {schema}, pg_temp
AS $$
	SELECT EXISTS (
		SELECT FROM redactions r CROSS JOIN LATERAL jsonb_array_elements(r.paths) p(steps)
		WHERE NOT r.event AND p_kind IN ('', r.kind) AND NOT EXISTS (
			SELECT FROM jsonb_array_elements_text(p.steps) WITH ORDINALITY s(step, n)
			JOIN jsonb_array_elements_text(p_path) WITH ORDINALITY f(step, n) ON f.n = s.n
			WHERE s.step <> '' AND lower(s.step) <> lower(f.step))
	) OR NOT EXISTS (SELECT FROM redactions r WHERE NOT r.event AND p_kind IN ('', r.kind))
$$;

-- What the caller may see of the payload in a row of jobs, archive, dead_letters,
-- events or dead_events: at most p_most characters, and how many bytes it has in
-- all. Where it may see none, nothing is read.
CREATE FUNCTION {schema}.shown_payload(p_table text, p_day integer, p_id uuid, p_most integer, p_known jsonb,
	OUT payload text, OUT size integer)
LANGUAGE plpgsql STABLE
SET search_path = {schema}, pg_temp
AS $$
DECLARE
	v_row record;
BEGIN
	size := 0;
	IF NOT has_column_privilege(p_table, CASE WHEN p_table IN ('events', 'dead_events') THEN 'payload' ELSE 'args' END, 'SELECT') THEN
		payload := '[not granted]';
		RETURN;
	END IF;
	CASE p_table
		WHEN 'jobs' THEN SELECT j.kind, j.version, j.args AS payload INTO v_row FROM jobs j WHERE j.day = p_day AND j.id = p_id;
		WHEN 'archive' THEN SELECT x.kind, x.version, x.args AS payload INTO v_row FROM archive x WHERE x.day = p_day AND x.id = p_id;
		WHEN 'dead_letters' THEN SELECT d.kind, d.version, d.args AS payload INTO v_row FROM dead_letters d WHERE d.job_id = p_id;
		WHEN 'events' THEN SELECT e.type AS kind, e.version, e.payload INTO v_row FROM events e WHERE e.day = p_day AND e.id = p_id;
		WHEN 'dead_events' THEN SELECT d.type AS kind, d.version, d.payload INTO v_row FROM dead_events d WHERE d.event_id = p_id;
	END CASE;
	payload := left(shown(p_table IN ('events', 'dead_events'), v_row.kind, v_row.version, v_row.payload, p_known)::text, p_most);
	size := COALESCE(octet_length(v_row.payload::text), 0);
END $$;

-- What the caller may see of the keys in a row of jobs or archive, which are digests
-- of a part of the payload: one that can be guessed is found by them.
CREATE FUNCTION {schema}.shown_keys(p_table text, p_day integer, p_id uuid, OUT idempotency_key text, OUT order_key text)
LANGUAGE plpgsql STABLE
SET search_path = {schema}, pg_temp
AS $$
#variable_conflict use_column
BEGIN
	CASE
		WHEN NOT has_column_privilege(p_table, 'idempotency_key', 'SELECT') OR NOT has_column_privilege(p_table, 'order_key', 'SELECT') THEN
			RETURN;
		WHEN p_table = 'jobs' THEN
			SELECT encode(j.idempotency_key, 'hex'), encode(j.order_key, 'hex') INTO shown_keys.idempotency_key, shown_keys.order_key
			FROM jobs j WHERE j.day = p_day AND j.id = p_id;
		WHEN p_table = 'archive' THEN
			SELECT encode(x.idempotency_key, 'hex'), encode(x.order_key, 'hex') INTO shown_keys.idempotency_key, shown_keys.order_key
			FROM archive x WHERE x.day = p_day AND x.id = p_id;
	END CASE;
END $$;
