-- The platform's own tables. Pawl's are in the schema pawl of the same database,
-- so that one transaction covers both.
CREATE SCHEMA fleet;

-- One row a vehicle. Whoever reads or changes what follows from the positions
-- of a vehicle locks its row first.
CREATE TABLE fleet.vehicles (
	vehicle      text        PRIMARY KEY,
	newest_at    timestamptz,                     -- of the accepted positions
	ended        boolean     NOT NULL DEFAULT false,
	trips_after  timestamptz NOT NULL DEFAULT '-infinity', -- trips are settled up to here, exclusive
	fences_after timestamptz NOT NULL DEFAULT '-infinity', -- the last position that was held against the geofences
	heard_after  timestamptz NOT NULL DEFAULT '-infinity'  -- the last position after which silences were looked for
);

CREATE TABLE fleet.positions (
	vehicle   text             NOT NULL REFERENCES fleet.vehicles,
	at        timestamptz      NOT NULL,
	lat       double precision NOT NULL,
	lon       double precision NOT NULL,
	speed_kmh double precision NOT NULL,
	PRIMARY KEY (vehicle, at)
);

CREATE TABLE fleet.trips (
	id            uuid             PRIMARY KEY,
	vehicle       text             NOT NULL REFERENCES fleet.vehicles,
	started_at    timestamptz      NOT NULL,
	ended_at      timestamptz      NOT NULL,
	positions     integer          NOT NULL,
	distance_m    double precision NOT NULL,
	max_speed_kmh double precision NOT NULL
);

CREATE TABLE fleet.crossings (
	id      uuid        PRIMARY KEY,
	vehicle text        NOT NULL REFERENCES fleet.vehicles,
	fence   text        NOT NULL,
	entered boolean     NOT NULL,
	at      timestamptz NOT NULL
);

CREATE TABLE fleet.silences (
	id      uuid        PRIMARY KEY,
	vehicle text        NOT NULL REFERENCES fleet.vehicles,
	since   timestamptz NOT NULL,
	until   timestamptz -- NULL where it was not heard of again
);

-- The view of the fleet: what the facts of each vehicle add up to, in their
-- order. Only projections write it. It has no reference to the vehicles, so that
-- they never wait for a handler that has one locked.
CREATE TABLE fleet.overview (
	vehicle       text             PRIMARY KEY,
	trips         integer          NOT NULL DEFAULT 0,
	distance_m    double precision NOT NULL DEFAULT 0,
	entered       integer          NOT NULL DEFAULT 0,
	inside        text[]           NOT NULL DEFAULT '{}', -- of which geofences it is known to be
	silences      integer          NOT NULL DEFAULT 0,
	offline_since timestamptz
);

-- One row for each time that a fact was projected. Nothing keeps one from being
-- there twice, so that it would be seen.
CREATE TABLE fleet.projections (
	fact_id uuid NOT NULL,
	subject uuid NOT NULL, -- the trip, the crossing or the silence
	worker  text NOT NULL
);

-- Who wants to be told of which facts.
CREATE TABLE fleet.endpoints (
	id    uuid   PRIMARY KEY,
	name  text   NOT NULL UNIQUE,
	facts text[] NOT NULL,
	url   text   NOT NULL
);

-- What was promised to them, written by the projection of the fact.
CREATE TABLE fleet.webhooks (
	endpoint_id uuid NOT NULL REFERENCES fleet.endpoints,
	event_id    uuid NOT NULL,
	job_id      uuid NOT NULL,
	PRIMARY KEY (endpoint_id, event_id)
);

CREATE TABLE fleet.notifications (
	event_id uuid        PRIMARY KEY,
	text     text        NOT NULL,
	sent_at  timestamptz NOT NULL DEFAULT clock_timestamp()
);

CREATE TABLE fleet.reports (
	trip_id     uuid        PRIMARY KEY,
	file        text        NOT NULL,
	sha256      bytea       NOT NULL,
	rendered_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

CREATE TABLE fleet.exports (
	vehicle text    PRIMARY KEY,
	file    text    NOT NULL,
	trips   integer NOT NULL
);

-- A public link to each trip, for a while.
CREATE TABLE fleet.links (
	trip_id    uuid        PRIMARY KEY,
	expires_at timestamptz NOT NULL,
	revoked_at timestamptz
);
CREATE INDEX links_open ON fleet.links (expires_at) WHERE revoked_at IS NULL;

CREATE TABLE fleet.summaries (
	tick       timestamptz      PRIMARY KEY,
	trips      integer          NOT NULL,
	distance_m double precision NOT NULL
);

-- One row for each job that a tick of a schedule has made.
CREATE TABLE fleet.ticks (
	job_id uuid        PRIMARY KEY,
	kind   text        NOT NULL,
	tick   timestamptz NOT NULL
);

-- One row for each time that a handler was called, written by the handler. The
-- clock is the database's.
CREATE TABLE fleet.executions (
	id          bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	job_id      uuid        NOT NULL,
	attempt     integer     NOT NULL,
	kind        text        NOT NULL,
	queue       text        NOT NULL,
	worker      text        NOT NULL,
	due_at      timestamptz NOT NULL,
	started_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
	finished_at timestamptz,               -- NULL while it runs, and for good where its process was killed
	outcome     text,
	detail      text
);
CREATE INDEX executions_unfinished ON fleet.executions (worker) WHERE finished_at IS NULL;

-- The processes that were killed, and when they were known to be dead.
CREATE TABLE fleet.kills (
	worker    text        PRIMARY KEY,
	killed_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
