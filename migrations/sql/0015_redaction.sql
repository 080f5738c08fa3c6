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
-- all where another version of its kind has something to hide; nor is a kind that
-- no worker has registered, where any kind has.
CREATE FUNCTION {schema}.shown(p_event boolean, p_kind text, p_version integer, p_payload jsonb) RETURNS jsonb
LANGUAGE plpgsql STABLE
SET search_path = {schema}, pg_temp
AS $$
DECLARE
	v_paths jsonb;
	v_path  jsonb;
BEGIN
	SELECT r.paths INTO v_paths FROM redactions r WHERE r.event = p_event AND r.kind = p_kind AND r.version = p_version;
	IF NOT FOUND THEN
		IF EXISTS (SELECT FROM redactions r WHERE r.event = p_event AND r.kind = p_kind AND r.paths <> '[]')
			OR (EXISTS (SELECT FROM redactions r WHERE r.paths <> '[]')
				AND NOT EXISTS (SELECT FROM redactions r WHERE r.event = p_event AND r.kind = p_kind)
				AND CASE WHEN p_event THEN NOT EXISTS (SELECT FROM event_types t WHERE t.type = p_kind)
					ELSE NOT EXISTS (SELECT FROM kinds k WHERE k.kind = p_kind) END) THEN
			RETURN '"[redacted]"';
		END IF;
		RETURN p_payload;
	END IF;
	FOR v_path IN SELECT p.value FROM jsonb_array_elements(v_paths) p(value) LOOP
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
		AND NOT EXISTS (SELECT FROM kinds k WHERE p_kind IN ('', k.kind))
$$;

-- What the caller may see of the payload in a row of jobs, archive, dead_letters,
-- events or dead_events: at most p_most characters, and how many bytes it has in
-- all. Where it may see none, nothing is read.
CREATE FUNCTION {schema}.shown_payload(p_table text, p_day integer, p_id uuid, p_most integer, OUT payload text, OUT size integer)
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
	payload := left(shown(p_table IN ('events', 'dead_events'), v_row.kind, v_row.version, v_row.payload)::text, p_most);
	size := COALESCE(octet_length(v_row.payload::text), 0);
END $$;
