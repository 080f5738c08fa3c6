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
-- them, so that ids of both sides sort by time.
CREATE FUNCTION {schema}.new_id() RETURNS uuid
LANGUAGE sql VOLATILE
RETURN (
	SELECT encode(int8send(((t.us / 1000) << 16) | 28672 | ((t.us % 1000 * 1000) >> 8)) || substring(uuid_send(gen_random_uuid()) FROM 9), 'hex')::uuid
	FROM (SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS us) t
);

-- Where a value does not fit one node of a wire shape, its parts apart: what was
-- expected and what is there. NULL where it fits.
--
-- It is stricter than encoding/json where that loses something in silence: null
-- for what cannot be null, arrays of another length, numbers and UUIDs in a
-- spelling that Go would not write, which keys and orders would tell apart.
CREATE FUNCTION {schema}.misfit_here(value jsonb, node jsonb, quoted boolean) RETURNS text
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
AS $$
DECLARE
	v_kind  text := node ->> 'kind';
	v_ref   text := node ->> 'ref';
	v_type  text := jsonb_typeof(value);
	v_text  text := CASE WHEN v_type IN ('string', 'number', 'boolean') THEN value #>> '{}' END;
	v_want  text;             -- a phrase
	v_is    text := 'string'; -- the type in JSON that it has
	v_fits  boolean := true;  -- where the type is right
	v_low   numeric;
	v_high  numeric;
BEGIN
	-- What only Go knows: types that encode themselves, and kinds that a later
	-- release may have.
	IF v_kind = 'opaque' THEN
		v_kind := CASE v_ref
			WHEN 'github.com/google/uuid.UUID' THEN 'uuid'
			WHEN 'time.Time' THEN 'time'
			WHEN 'encoding/json.Number' THEN 'number' END;
	END IF;
	IF v_kind IS NULL OR v_kind = 'raw' THEN
		RETURN NULL;
	END IF;
	IF v_type = 'null' THEN
		IF v_kind IN ('pointer', 'slice', 'map', 'bytes') THEN
			RETURN NULL;
		END IF;
	ELSIF v_kind = 'pointer' THEN
		RETURN NULL;
	END IF;

	CASE v_kind
	WHEN 'struct', 'map' THEN
		v_want := 'an object';
		v_is := 'object';
	WHEN 'slice' THEN
		v_want := 'an array';
		v_is := 'array';
	WHEN 'array' THEN
		v_want := format('an array of %s', COALESCE(node ->> 'len', '0'));
		v_is := 'array';
		v_fits := v_type <> 'array' OR jsonb_array_length(value) = COALESCE((node ->> 'len')::integer, 0);
	WHEN 'bool' THEN
		v_want := 'true or false';
		v_is := 'boolean';
		v_fits := v_text IN ('true', 'false');
	WHEN 'int', 'int8', 'int16', 'int32', 'int64', 'uint', 'uint8', 'uint16', 'uint32', 'uint64', 'uintptr' THEN
		v_low := CASE v_kind WHEN 'int8' THEN -128 WHEN 'int16' THEN -32768 WHEN 'int32' THEN -2147483648
			WHEN 'int' THEN -9223372036854775808 WHEN 'int64' THEN -9223372036854775808 ELSE 0 END;
		v_high := CASE v_kind WHEN 'uint8' THEN 255 WHEN 'uint16' THEN 65535 WHEN 'uint32' THEN 4294967295
			WHEN 'uint' THEN 18446744073709551615 WHEN 'uint64' THEN 18446744073709551615 WHEN 'uintptr' THEN 18446744073709551615
			ELSE -1 - v_low END;
		v_want := format('a whole number without a decimal point, from %s to %s', v_low, v_high);
		v_is := 'number';
		v_fits := CASE WHEN v_text ~ '^(0|-?[1-9][0-9]{0,19})$' THEN v_text::numeric BETWEEN v_low AND v_high ELSE false END;
	WHEN 'float32', 'float64', 'number' THEN
		v_want := 'a number';
		v_is := 'number';
		IF quoted THEN -- a number of JSON has been looked at already
			v_fits := length(v_text) <= 1000 AND v_text ~ '^-?(0|[1-9][0-9]*)([.][0-9]+)?([eE][-+]?[0-9]{1,3})?$';
		END IF;
		IF v_kind <> 'number' THEN
			v_want := format('a number that fits into a %s', v_kind);
			-- From here on it would be rounded to infinity.
			v_high := CASE v_kind WHEN 'float32' THEN 340282356779733661637539395458142568448 ELSE
				179769313486231580793728971405303415079934132710037826936173778980444968292764750946649017977587207096330286416692887910946555547851940402630657488671505820681908902000708383676273854845817711531764475730270069855571366959622842914819860834936475292719074168444365510704342711559699508093042880177904174497792 END;
			v_fits := CASE WHEN v_fits AND (quoted OR v_type = 'number') THEN abs(v_text::numeric) < v_high ELSE false END;
		END IF;
	WHEN 'string' THEN
		v_want := 'a string';
		IF quoted THEN
			v_fits := v_text ~ ('^"([^"[.backslash.]' || chr(1) || '-' || chr(31) || ']|[[.backslash.]](["/bfnrt[.backslash.]]|u[0-9a-fA-F]{4}))*"$');
		END IF;
	WHEN 'bytes' THEN
		v_want := 'base64 text';
		v_fits := translate(v_text, chr(10) || chr(13), '') ~ '^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$';
	WHEN 'uuid' THEN
		v_want := 'a UUID with hyphens and in lower case';
		v_fits := v_text ~ '^[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}$';
	WHEN 'time' THEN
		v_want := 'a time such as 2026-01-31T23:59:59.5Z, with Z or an offset';
		v_fits := CASE WHEN v_text ~ ('^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]([.][0-9]+)?'
				|| '(Z|[-+]([01][0-9]|2[0-3]):[0-5][0-9])$')
			THEN substr(v_text, 9, 2)::integer <= CASE substr(v_text, 6, 2)
				WHEN '02' THEN CASE WHEN substr(v_text, 1, 4)::integer % 400 = 0
					OR substr(v_text, 1, 4)::integer % 4 = 0 AND substr(v_text, 1, 4)::integer % 100 <> 0 THEN 29 ELSE 28 END
				WHEN '04' THEN 30 WHEN '06' THEN 30 WHEN '09' THEN 30 WHEN '11' THEN 30 ELSE 31 END
			ELSE false END;
	ELSE
		RETURN NULL;
	END CASE;

	IF quoted AND v_is IN ('number', 'boolean', 'string') AND v_kind NOT IN ('bytes', 'uuid', 'time') THEN
		v_want := v_want || ', as text in a string';
		v_is := 'string';
	END IF;
	IF v_type = v_is AND v_fits THEN
		RETURN NULL;
	END IF;
	RETURN format('expected %s, got %s', v_want, CASE
		WHEN v_type = 'array' AND v_is = 'array' THEN format('one of %s', jsonb_array_length(value))
		WHEN v_type = v_is THEN format('another %s', v_type)
		WHEN v_type = 'null' THEN 'null'
		WHEN v_type IN ('object', 'array') THEN format('an %s', v_type)
		ELSE format('a %s', v_type) END);
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
-- calls itself.
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
		SELECT 'args', args, shape -> 'root', false, misfit_here(args, shape -> 'root', false)
		UNION ALL
		SELECT part.path, part.value, part.node, part.quoted,
			COALESCE(part.wrong, misfit_here(part.value, part.node, part.quoted))
		FROM walk w
		CROSS JOIN LATERAL (
			SELECT w.path AS path, w.value AS value, w.node -> 'elem' AS node, w.quoted AS quoted, NULL AS wrong
			WHERE w.node ->> 'kind' = 'pointer' AND jsonb_typeof(w.value) <> 'null'
			UNION ALL
			SELECT w.path || '[' || e.n - 1 || ']', e.value, w.node -> 'elem', false, NULL
			FROM jsonb_array_elements(w.value) WITH ORDINALITY e(value, n)
			WHERE w.node ->> 'kind' IN ('slice', 'array') AND jsonb_typeof(w.value) = 'array'
			UNION ALL
			SELECT w.path || path_step(e.key), e.value, w.node -> 'elem', false,
				'of the key: ' || misfit_here(to_jsonb(e.key), w.node -> 'key', w.node #>> '{key,kind}' NOT IN ('string', 'opaque'))
			FROM jsonb_each(w.value) e(key, value)
			WHERE w.node ->> 'kind' = 'map' AND jsonb_typeof(w.value) = 'object'
			UNION ALL
			SELECT w.path || path_step(m.name), NULL, NULL, false, 'there is no such member' || COALESCE((
				SELECT ', but ' || string_agg(f.value ->> 'json', ', ' ORDER BY f.n)
				FROM jsonb_array_elements(shape -> 'structs' -> (w.node ->> 'ref')) WITH ORDINALITY f(value, n)
				WHERE f.n <= 20), '')
			FROM jsonb_object_keys(w.value) m(name)
			WHERE w.node ->> 'kind' = 'struct' AND jsonb_typeof(w.value) = 'object'
				AND NOT shape -> 'structs' -> (w.node ->> 'ref') @> jsonb_build_array(jsonb_build_object('json', m.name))
			UNION ALL
			SELECT w.path || path_step(f ->> 'json'), w.value -> (f ->> 'json'), f -> 'type', COALESCE((f ->> 'quoted')::boolean, false),
				CASE WHEN NOT w.value ? (f ->> 'json') THEN 'the member is missing' END
			FROM jsonb_array_elements(shape -> 'structs' -> (w.node ->> 'ref')) f
			WHERE w.node ->> 'kind' = 'struct' AND jsonb_typeof(w.value) = 'object'
				AND (w.value ? (f ->> 'json') OR NOT (f ? 'omitempty' OR f ? 'omitzero' OR f #>> '{type,kind}' = 'pointer'))
		) part
		WHERE w.wrong IS NULL
	)
	SELECT w.path || ': ' || w.wrong INTO v_misfit FROM walk w WHERE w.wrong IS NOT NULL LIMIT 1;
	RETURN v_misfit;
END $$;

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
LANGUAGE plpgsql VOLATILE
SET search_path = {schema}, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
	c_longest      CONSTANT interval := '292 years'; -- what a duration of Go holds
	v_kind         kinds%ROWTYPE;
	v_known        text;
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
		-- Those that share the most pairs of letters come first.
		SELECT string_agg(s.kind, ', ' ORDER BY s.n) INTO v_known FROM (
			SELECT k.kind, row_number() OVER (ORDER BY (
				SELECT count(*) FROM generate_series(1, length(enqueue.kind) - 1) i WHERE position(substr(enqueue.kind, i, 2) IN k.kind) > 0
			) DESC, k.kind) AS n
			FROM kinds k) s
		WHERE s.n <= 5;
		RAISE EXCEPTION 'there is no kind %', COALESCE(quote_literal(left(kind, 100)), 'NULL') USING ERRCODE = 'PW010',
			DETAIL = COALESCE('The nearest that there are: ' || v_known || '.', 'No worker has registered any kind.'),
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
	v_misfit := misfit(args, v_kind.shape);
	IF v_misfit IS NULL AND octet_length(v_text) > 67108864 THEN
		v_misfit := format('args: they have %s bytes as text, of at most 67108864', octet_length(v_text));
	END IF;
	-- What cannot be decoded for its depth has so many brackets at least.
	IF v_misfit IS NULL AND length(v_text) - length(translate(v_text, '[{', '')) > 10000
			AND jsonb_path_exists(args, 'strict $.**{10000} ? (@.type() == "object" || @.type() == "array")') THEN
		v_misfit := 'args: they nest deeper than 10000 levels';
	END IF;
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
		(extract(epoch FROM COALESCE(keep, v_kind.keep)) * 1000000)::bigint, true) e;
	duplicate := v_held IS NOT NULL;
	same_args := COALESCE((v_held ->> 'same')::boolean, true);
	state := COALESCE(v_held ->> 'state', CASE WHEN v_scheduled THEN 'scheduled' ELSE 'pending' END);
	id := COALESCE((v_held ->> 'id')::uuid, id);
END $$;
