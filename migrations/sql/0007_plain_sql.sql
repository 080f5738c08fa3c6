-- Enqueue by plain SQL: for triggers, psql and other languages.

-- What an enqueue has to know of a kind, as the workers that handle it declared
-- it when they started. The newest payload version stays, whoever starts last.
CREATE TABLE {schema}.kinds (
	kind               text        PRIMARY KEY,
	queue              text        NOT NULL,
	version            integer     NOT NULL CHECK (version >= 1),
	capability         bigint      NOT NULL,
	priority           smallint    NOT NULL CHECK (priority BETWEEN 1 AND 4),
	max_attempts       smallint    NOT NULL CHECK (max_attempts BETWEEN 1 AND 32766),
	keyed              boolean     NOT NULL, -- it declares idempotency
	keep               interval,             -- of keys; NULL where it does not
	organization_field text,                 -- members of the arguments
	order_fields       text[],
	shape              jsonb,                -- of the arguments; NULL takes any
	updated_at         timestamptz NOT NULL
);

-- A version 7 UUID: milliseconds, then the microseconds in 12 bits as Go writes
-- them, so that ids of both sides sort by time. The seven is the 28672.
CREATE FUNCTION {schema}.new_id() RETURNS uuid
LANGUAGE sql VOLATILE
RETURN (
	SELECT encode(int8send(((t.us / 1000) << 16) | 28672 | ((t.us % 1000 * 1000) >> 8)) || substring(uuid_send(gen_random_uuid()) FROM 9), 'hex')::uuid
	FROM (SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS us) t
);

-- The kind of a node of a wire shape. Of types that encode themselves a few are
-- well known; what the others take is known only in Go.
CREATE FUNCTION {schema}.kind_of(node jsonb) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN node ->> 'kind' <> 'opaque' THEN node ->> 'kind' ELSE
	CASE node ->> 'ref' WHEN 'github.com/google/uuid.UUID' THEN 'uuid' WHEN 'time.Time' THEN 'time' WHEN 'encoding/json.Number' THEN 'number' ELSE 'raw' END END;

-- The integers of a kind; NULL for a kind of something else.
CREATE FUNCTION {schema}.integers_of(p_kind text) RETURNS numrange
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE p_kind
	WHEN 'int' THEN '[-9223372036854775808,9223372036854775807]'::numrange
	WHEN 'int64' THEN '[-9223372036854775808,9223372036854775807]'::numrange
	WHEN 'int32' THEN '[-2147483648,2147483647]'::numrange
	WHEN 'int16' THEN '[-32768,32767]'::numrange
	WHEN 'int8' THEN '[-128,127]'::numrange
	WHEN 'uint' THEN '[0,18446744073709551615]'::numrange
	WHEN 'uintptr' THEN '[0,18446744073709551615]'::numrange
	WHEN 'uint64' THEN '[0,18446744073709551615]'::numrange
	WHEN 'uint32' THEN '[0,4294967295]'::numrange
	WHEN 'uint16' THEN '[0,65535]'::numrange
	WHEN 'uint8' THEN '[0,255]'::numrange END;

-- Whether text is a time as Go writes and reads it.
CREATE FUNCTION {schema}.is_time(p_text text) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN p_text ~ ('^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]([.][0-9]+)?'
		|| '(Z|[-+]([01][0-9]|2[0-3]):[0-5][0-9])$')
	THEN substr(p_text, 9, 2)::integer <= CASE
		WHEN substr(p_text, 6, 2) IN ('04', '06', '09', '11') THEN 30
		WHEN substr(p_text, 6, 2) <> '02' THEN 31
		WHEN substr(p_text, 1, 4)::integer % 400 = 0 OR substr(p_text, 1, 4)::integer % 4 = 0 AND substr(p_text, 1, 4)::integer % 100 <> 0 THEN 29
		ELSE 28 END
	ELSE false END;

-- Whether a value is the text of a number in a string.
CREATE FUNCTION {schema}.is_number(value jsonb) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN jsonb_typeof(value) = 'string' AND length(value #>> '{}') <= 1000
	AND value #>> '{}' ~ '^-?(0|[1-9][0-9]*)([.][0-9]+)?([eE][-+]?[0-9]{1,3})?$';

-- Whether a value fits one node of a wire shape, its parts apart. Quoted is the
-- option ",string" of a field, and the way that numbers are keys.
--
-- It is stricter than encoding/json where that loses something in silence: null
-- for what cannot be null, arrays of another length, numbers and UUIDs in a
-- spelling that Go would not write, which keys and orders would tell apart. A
-- kind that a later release may have takes anything.
CREATE FUNCTION {schema}.fits(value jsonb, node jsonb, quoted boolean) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE {schema}.kind_of(node)
	WHEN 'raw' THEN true
	WHEN 'pointer' THEN true
	WHEN 'struct' THEN jsonb_typeof(value) = 'object'
	WHEN 'map' THEN jsonb_typeof(value) IN ('object', 'null')
	WHEN 'slice' THEN jsonb_typeof(value) IN ('array', 'null')
	WHEN 'array' THEN CASE WHEN jsonb_typeof(value) = 'array' THEN jsonb_array_length(value) = COALESCE((node ->> 'len')::integer, 0) ELSE false END
	WHEN 'bool' THEN CASE WHEN quoted THEN value IN ('"true"', '"false"') ELSE jsonb_typeof(value) = 'boolean' END
	WHEN 'string' THEN jsonb_typeof(value) = 'string' AND (NOT quoted
		OR value #>> '{}' ~ ('^"([^"[.backslash.]' || chr(1) || '-' || chr(31) || ']|[[.backslash.]](["/bfnrt[.backslash.]]|u[0-9a-fA-F]{4}))*"$'))
	WHEN 'bytes' THEN jsonb_typeof(value) = 'null' OR jsonb_typeof(value) = 'string'
		AND translate(value #>> '{}', chr(10) || chr(13), '') ~ '^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$'
	WHEN 'uuid' THEN jsonb_typeof(value) = 'string' AND value #>> '{}' ~ '^[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}$'
	WHEN 'time' THEN jsonb_typeof(value) = 'string' AND {schema}.is_time(value #>> '{}')
	WHEN 'number' THEN CASE WHEN quoted THEN {schema}.is_number(value) ELSE jsonb_typeof(value) = 'number' END
	-- From there on it would be rounded to infinity.
	WHEN 'float32' THEN CASE WHEN CASE WHEN quoted THEN {schema}.is_number(value) ELSE jsonb_typeof(value) = 'number' END
		THEN abs((value #>> '{}')::numeric) < 340282356779733661637539395458142568448 ELSE false END
	WHEN 'float64' THEN CASE WHEN CASE WHEN quoted THEN {schema}.is_number(value) ELSE jsonb_typeof(value) = 'number' END
		THEN abs((value #>> '{}')::numeric) < 179769313486231580793728971405303415079934132710037826936173778980444968292764750946649017977587207096330286416692887910946555547851940402630657488671505820681908902000708383676273854845817711531764475730270069855571366959622842914819860834936475292719074168444365510704342711559699508093042880177904174497792 ELSE false END
	ELSE CASE
		WHEN {schema}.integers_of(node ->> 'kind') IS NULL THEN true
		WHEN jsonb_typeof(value) = CASE WHEN quoted THEN 'string' ELSE 'number' END AND value #>> '{}' ~ '^(0|-?[1-9][0-9]{0,19})$'
		THEN (value #>> '{}')::numeric <@ {schema}.integers_of(node ->> 'kind')
		ELSE false END
	END;

-- What a value that does not fit should be, and what it is.
CREATE FUNCTION {schema}.describe_misfit(value jsonb, node jsonb, quoted boolean) RETURNS text
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
SET search_path = {schema}, pg_temp
AS $$
DECLARE
	v_kind text := kind_of(node);
	v_is   text := jsonb_typeof(value);
	v_type text := CASE v_kind -- in JSON
		WHEN 'struct' THEN 'object' WHEN 'map' THEN 'object' WHEN 'slice' THEN 'array' WHEN 'array' THEN 'array' WHEN 'bool' THEN 'boolean'
		WHEN 'string' THEN 'string' WHEN 'bytes' THEN 'string' WHEN 'uuid' THEN 'string' WHEN 'time' THEN 'string' ELSE 'number' END;
	v_want text := CASE v_kind
		WHEN 'struct' THEN 'an object'
		WHEN 'map' THEN 'an object'
		WHEN 'slice' THEN 'an array'
		WHEN 'array' THEN 'an array of ' || COALESCE(node ->> 'len', '0')
		WHEN 'bool' THEN 'true or false'
		WHEN 'string' THEN 'a string'
		WHEN 'bytes' THEN 'base64 text'
		WHEN 'uuid' THEN 'a UUID with hyphens and in lower case'
		WHEN 'time' THEN 'a time such as 2026-01-31T23:59:59.5Z, with Z or an offset'
		WHEN 'number' THEN 'a number'
		WHEN 'float32' THEN 'a number that fits into a float32'
		WHEN 'float64' THEN 'a number that fits into a float64'
		ELSE format('a whole number without a decimal point, from %s to %s', lower(integers_of(v_kind)), upper(integers_of(v_kind))) END;
BEGIN
	IF quoted THEN
		v_want := v_want || ', as text in a string';
		v_type := 'string';
	END IF;
	RETURN format('expected %s, got %s', v_want, CASE
		WHEN v_is = v_type AND v_type = 'array' THEN format('one of %s', jsonb_array_length(value))
		WHEN v_is = v_type THEN 'another ' || v_is
		WHEN v_is = 'null' THEN v_is
		WHEN v_is IN ('object', 'array') THEN 'an ' || v_is
		ELSE 'a ' || v_is END);
END $$;

-- How one more member stands in a path.
CREATE FUNCTION {schema}.path_step(p_name text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE
	WHEN p_name ~ '^[A-Za-z_][A-Za-z0-9_]*$' AND length(p_name) <= 100 THEN '.' || p_name
	WHEN length(p_name) <= 100 THEN '[' || to_json(p_name)::text || ']'
	ELSE '[' || to_json(left(p_name, 100) || '...')::text || ']' END;

-- The first place where arguments do not fit a wire shape, which is written as
-- in a lock; NULL where they fit. It walks level by level, in one statement:
-- what nests as deep as a payload may would exhaust the stack of a function that
-- calls itself. A CASE, unlike a WHERE, keeps each part to the values that it is
-- for, whatever the plan.
CREATE FUNCTION {schema}.misfit(args jsonb, shape jsonb) RETURNS text
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
SET search_path = {schema}, pg_temp
SET plan_cache_mode = force_generic_plan
SET jit = off
AS $$
#variable_conflict use_variable
DECLARE
	v_misfit text;
BEGIN
	IF args IS NULL THEN
		RETURN 'args: expected a JSON value, got NULL of SQL';
	ELSIF shape IS NULL THEN
		RETURN NULL;
	END IF;
	WITH RECURSIVE walk (path, value, node, quoted, wrong) AS (
		SELECT 'args', args, shape -> 'root', false,
			CASE WHEN NOT fits(args, shape -> 'root', false) THEN describe_misfit(args, shape -> 'root', false) END
		UNION ALL
		SELECT part.path, part.value, part.node, part.quoted,
			CASE WHEN part.wrong IS NOT NULL THEN part.wrong
				WHEN NOT fits(part.value, part.node, part.quoted) THEN describe_misfit(part.value, part.node, part.quoted) END
		FROM walk w
		CROSS JOIN LATERAL (
			SELECT w.path AS path, w.value AS value, w.node -> 'elem' AS node, w.quoted AS quoted, NULL AS wrong
			WHERE w.node ->> 'kind' = 'pointer' AND jsonb_typeof(w.value) <> 'null'
			UNION ALL
			SELECT w.path || '[' || e.n - 1 || ']', e.value, w.node -> 'elem', false, NULL
			FROM jsonb_array_elements(CASE WHEN w.node ->> 'kind' IN ('slice', 'array') AND jsonb_typeof(w.value) = 'array' THEN w.value END)
				WITH ORDINALITY e(value, n)
			UNION ALL
			SELECT w.path || path_step(e.key), e.value, w.node -> 'elem', false,
				CASE WHEN NOT fits(to_jsonb(e.key), w.node -> 'key', w.node #>> '{key,kind}' NOT IN ('string', 'opaque'))
				THEN 'of the key: ' || describe_misfit(to_jsonb(e.key), w.node -> 'key', w.node #>> '{key,kind}' NOT IN ('string', 'opaque')) END
			FROM jsonb_each(CASE WHEN w.node ->> 'kind' = 'map' AND jsonb_typeof(w.value) = 'object' THEN w.value END) e(key, value)
			UNION ALL
			SELECT w.path || path_step(m.name), NULL, NULL, false, 'there is no such member' || COALESCE((
				SELECT '; there are ' || string_agg(f.value ->> 'json', ', ' ORDER BY f.n)
				FROM jsonb_array_elements(shape -> 'structs' -> (w.node ->> 'ref')) WITH ORDINALITY f(value, n)
				WHERE f.n <= 20), '')
			FROM jsonb_object_keys(CASE WHEN w.node ->> 'kind' = 'struct' AND jsonb_typeof(w.value) = 'object' THEN w.value END) m(name)
			WHERE NOT shape -> 'structs' -> (w.node ->> 'ref') @> jsonb_build_array(jsonb_build_object('json', m.name))
			UNION ALL
			SELECT w.path || path_step(f ->> 'json'), w.value -> (f ->> 'json'), f -> 'type', COALESCE((f ->> 'quoted')::boolean, false),
				CASE WHEN NOT w.value ? (f ->> 'json') THEN 'the member is missing' END
			FROM jsonb_array_elements(CASE WHEN w.node ->> 'kind' = 'struct' AND jsonb_typeof(w.value) = 'object'
				THEN shape -> 'structs' -> (w.node ->> 'ref') END) f
			WHERE (w.value ? (f ->> 'json') OR NOT (f ? 'omitempty' OR f ? 'omitzero' OR f #>> '{type,kind}' = 'pointer'))
		) part
		WHERE w.wrong IS NULL
	)
	SELECT w.path || ': ' || w.wrong INTO v_misfit FROM walk w WHERE w.wrong IS NOT NULL LIMIT 1;
	RETURN v_misfit;
END $$;

-- The same, and where they could not be stored or decoded by Go: p_text is what
-- they are as text.
CREATE FUNCTION {schema}.unfit(args jsonb, p_text text, shape jsonb) RETURNS text
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
SET search_path = {schema}, pg_temp
AS $$
DECLARE
	v_misfit text := misfit(args, shape);
BEGIN
	IF v_misfit IS NOT NULL THEN
		RETURN v_misfit;
	ELSIF octet_length(p_text) > 67108864 THEN
		RETURN format('args: %s bytes as text, of at most 67108864', octet_length(p_text));
	-- What cannot be decoded for its depth has so many brackets at least.
	ELSIF length(p_text) - length(translate(p_text, '[{', '')) > 10000
			AND jsonb_path_exists(args, 'strict $.**{10000} ? (@.type() == "object" || @.type() == "array")') THEN
		RETURN 'args: nested deeper than 10000 levels';
	END IF;
	RETURN NULL;
END $$;

-- Those names that are most like one that is not among them: they share the most
-- pairs of letters. NULL where there are none.
CREATE FUNCTION {schema}.nearest_of(p_name text, p_names text[]) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN (
	SELECT string_agg(s.name, ', ' ORDER BY s.n) FROM (
		SELECT x.name, row_number() OVER (ORDER BY (
			SELECT count(*) FROM generate_series(1, least(length(p_name), 100) - 1) i WHERE position(substr(p_name, i, 2) IN x.name) > 0
		) DESC, x.name) AS n
		FROM unnest(p_names) x(name)) s
	WHERE s.n <= 5
);

-- The text of the member of a payload that names its organization: what Go makes
-- of it, for which the zero UUID is none, and a number that is left out is 0.
CREATE FUNCTION {schema}.organization_of(p_args jsonb, p_field text, p_shape jsonb) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN (
	SELECT CASE
		WHEN t.kind ~ '^u?int' THEN COALESCE(p_args ->> p_field, '0')
		WHEN t.ref ~ '[.]UUID$' AND p_args ->> p_field = '00000000-0000-0000-0000-000000000000' THEN ''
		ELSE COALESCE(p_args ->> p_field, '') END
	FROM (
		SELECT max(f #>> '{type,kind}') AS kind, max(f #>> '{type,ref}') AS ref
		FROM jsonb_array_elements(p_shape -> 'structs' -> (p_shape #>> '{root,ref}')) f
		WHERE f ->> 'json' = p_field
	) t
);

-- Enqueues one job of a kind that a worker has registered, in the transaction of
-- the caller, and wakes a worker when that commits.
--
--   SELECT * FROM enqueue('send_receipt', '{"order_id": 7, "to": "a@example.com"}', key => 'order 7');
--
-- Answers the id of the job, or where duplicate is true of the one that holds the
-- key, whether that has the same arguments, and where it stands. Refusals have
-- the codes PW010 (an unknown kind), PW011 (arguments that do not fit), PW012 (a
-- key is missing) and PW013 (an option that cannot be).
CREATE FUNCTION {schema}.enqueue(kind text, args jsonb,
	key text DEFAULT NULL,             -- of idempotency
	keep interval DEFAULT NULL,        -- how long the key is held at least; as declared where NULL
	run_at timestamptz DEFAULT NULL,   -- due at this time, or after the delay, or else at once
	delay interval DEFAULT NULL,
	priority text DEFAULT NULL,        -- low, normal, high or urgent; as declared where NULL
	attempts integer DEFAULT NULL,     -- in all; as declared where NULL
	organization_id text DEFAULT NULL, -- where the arguments do not name it
	OUT id uuid, OUT duplicate boolean, OUT same_args boolean, OUT state text)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = {schema}, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
	c_longest      CONSTANT interval := '292 years'; -- what a duration of Go holds
	v_kind         kinds%ROWTYPE;
	v_priority     integer;
	v_wrong        text[];
	v_text         text;
	v_misfit       text;
	v_organization text;
	v_scheduled    boolean;
	v_held         jsonb;
BEGIN
	SELECT k.* INTO v_kind FROM kinds k WHERE k.kind = enqueue.kind;
	IF NOT FOUND THEN
		RAISE EXCEPTION 'there is no kind %', COALESCE(quote_literal(left(kind, 100)), 'NULL') USING ERRCODE = 'PW010',
			DETAIL = COALESCE('The nearest that there are: ' || nearest_of(kind, ARRAY(SELECT k.kind FROM kinds k)) || '.', 'No worker has registered any kind.'),
			HINT = 'A kind is known when a worker that handles it has started once.';
	END IF;

	v_priority := CASE WHEN priority IS NULL THEN v_kind.priority ELSE array_position(ARRAY['low', 'normal', 'high', 'urgent'], priority) END;
	v_wrong := CASE
		WHEN key = '' THEN ARRAY['key is empty', 'Name the work that is to happen once, or leave the key out.']
		WHEN keep IS NOT NULL AND key IS NULL THEN ARRAY['keep is given without a key', 'Give both, or neither.']
		WHEN key IS NOT NULL AND keep IS NULL AND v_kind.keep IS NULL THEN
			ARRAY['key is given without keep', 'This kind declares no idempotency: say for how long the key is held at least, such as keep => ''72h''.']
		WHEN keep <= '0' OR keep > c_longest THEN ARRAY['keep is ' || keep, 'Give a time above zero and up to ' || c_longest || '.']
		WHEN run_at IS NOT NULL AND delay IS NOT NULL THEN ARRAY['run_at and delay are both given', 'Give one of them.']
		WHEN NOT isfinite(run_at) OR run_at < '0001-01-01 00:00:00Z' OR run_at >= '10000-01-01 00:00:00Z' THEN
			ARRAY['run_at is ' || run_at, 'Give a time of the years 1 to 9999.']
		WHEN delay > c_longest THEN ARRAY['delay is ' || delay, 'Give a time of up to ' || c_longest || '.']
		WHEN v_priority IS NULL THEN ARRAY['priority is ' || quote_literal(left(priority, 100)), 'Give low, normal, high or urgent.']
		WHEN attempts NOT BETWEEN 1 AND 32766 THEN ARRAY['attempts is ' || attempts, 'Give 1 to 32766.']
	END;
	IF v_wrong IS NOT NULL THEN
		RAISE EXCEPTION 'cannot enqueue %: %', kind, v_wrong[1] USING ERRCODE = 'PW013', HINT = v_wrong[2];
	END IF;
	IF v_kind.keyed AND key IS NULL THEN
		RAISE EXCEPTION 'cannot enqueue %: it wants a key', kind USING ERRCODE = 'PW012',
			DETAIL = 'The kind declares idempotency, and its key is made in Go.',
			HINT = 'Give one that is the same whenever the work is, such as key => ''order 7''.';
	END IF;

	v_text := args::text;
	v_misfit := unfit(args, v_text, v_kind.shape);
	IF v_misfit IS NOT NULL THEN
		RAISE EXCEPTION 'the arguments do not fit %', kind USING ERRCODE = 'PW011', DETAIL = v_misfit,
			HINT = format('They are held against version %s of its payload. Names of members are case-sensitive.', v_kind.version);
	END IF;

	v_organization := COALESCE(organization_id, '');
	IF v_kind.organization_field IS NOT NULL THEN
		v_organization := organization_of(args, v_kind.organization_field, v_kind.shape);
		IF organization_id <> v_organization THEN
			RAISE EXCEPTION 'cannot enqueue %: organization_id is not that of the arguments', kind USING ERRCODE = 'PW013',
				DETAIL = format('The kind takes its organization from args%s.', path_step(v_kind.organization_field)), HINT = 'Leave organization_id out.';
		END IF;
	END IF;
	IF octet_length(v_organization) > 1000 THEN
		RAISE EXCEPTION 'cannot enqueue %: the organization has % bytes', kind, octet_length(v_organization) USING ERRCODE = 'PW013',
			HINT = 'Use its id, of at most 1000 bytes.';
	END IF;

	id := new_id();
	SELECT e.scheduled, e.duplicates::jsonb -> 0 INTO v_scheduled, v_held FROM enqueue_jobs(
		v_kind.kind, v_kind.queue, v_kind.version, v_kind.capability, v_priority::smallint, COALESCE(attempts, v_kind.max_attempts)::smallint,
		run_at, (extract(epoch FROM GREATEST(delay, '0')) * 1000000)::bigint,
		ARRAY[id], ARRAY[v_text], ARRAY[v_organization], CASE WHEN key IS NOT NULL THEN ARRAY[sha256(convert_to('key:' || key, 'UTF8'))] END,
		(extract(epoch FROM COALESCE(keep, v_kind.keep)) * 1000000)::bigint, true, v_kind.order_fields, NULL) e;
	duplicate := v_held IS NOT NULL;
	same_args := COALESCE((v_held ->> 'same')::boolean, true);
	state := COALESCE(v_held ->> 'state', CASE WHEN v_scheduled THEN 'scheduled' ELSE 'pending' END);
	id := COALESCE((v_held ->> 'id')::uuid, id);
END $$;
