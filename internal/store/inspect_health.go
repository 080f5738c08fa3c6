package store

import (
	"context"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/pawlgo/pawl/internal/rights"
)

// HolderRow is something that keeps vacuum from removing what is dead.
type HolderRow struct {
	What   string  `json:"what"` // session, slot, prepared or standby
	Name   string  `json:"name"` // the pid, or the name
	Role   string  `json:"role"`
	App    string  `json:"app"`
	State  string  `json:"state"`
	Age    int64   `json:"age"`    // in transactions
	Since  float64 `json:"since"`  // seconds; zero where that is not known
	Hidden bool    `json:"hidden"` // a session whose state and beginning this role may not see
}

// Holders returns what holds back vacuum, what holds back most first. The
// question itself is left out. Of a session that the role may not look into, the server
// tells who it is and its transactions, and nothing else; a user it has, unlike
// processes of the server's own.
func (r *Reading) Holders(ctx context.Context) ([]HolderRow, error) {
	return documents[HolderRow](ctx, r.tx, `SELECT to_jsonb(x)::text FROM (
		SELECT 'session' AS what, a.pid::text AS name, COALESCE(a.usename, '') AS role, COALESCE(a.application_name, '') AS app, COALESCE(a.state, '') AS state,
			GREATEST(age(a.backend_xmin), age(a.backend_xid), 0)::bigint AS age, COALESCE(extract(epoch FROM clock_timestamp() - a.xact_start), 0) AS since,
			a.backend_type IS NULL AS hidden
		FROM pg_stat_activity a WHERE a.pid <> pg_backend_pid() AND a.datname = current_database() AND (a.backend_xmin IS NOT NULL OR a.backend_xid IS NOT NULL)
			AND COALESCE(a.backend_type, 'client backend') = 'client backend' AND a.usesysid IS NOT NULL
		UNION ALL
		SELECT 'slot', s.slot_name::text, '', COALESCE(s.plugin::text, s.slot_type), CASE WHEN s.active THEN 'active' ELSE 'inactive' END,
			GREATEST(age(s.xmin), 0)::bigint, 0, false
		FROM pg_replication_slots s WHERE s.xmin IS NOT NULL
		UNION ALL
		SELECT 'prepared', p.gid, p.owner::text, '', '', age(p.transaction)::bigint, extract(epoch FROM clock_timestamp() - p.prepared), false
		FROM pg_prepared_xacts p WHERE p.database = current_database()
		UNION ALL
		SELECT 'standby', COALESCE(NULLIF(s.application_name, ''), s.pid::text), COALESCE(s.usename, ''), COALESCE(s.client_addr::text, ''), COALESCE(s.state, ''),
			age(s.backend_xmin)::bigint, 0, false
		FROM pg_stat_replication s WHERE s.backend_xmin IS NOT NULL) x ORDER BY x.since DESC, x.age DESC`)
}

// RightsRow is what the role of the connection may do with an object of the schema,
// or with the schema.
type RightsRow struct {
	Class  rights.Class `json:"class"`
	Name   string       `json:"name"`
	Owned  bool         `json:"owned"` // by the role, or by one that it may act as
	Rights []string     `json:"rights"`
}

// Rights returns the name of the connection's role and what that may do with the
// schema and each object in it, however it has come by that.
func (r *Reading) Rights(ctx context.Context) (role string, all []RightsRow, err error) {
	if err := r.tx.QueryRow(ctx, `SELECT current_user::text`).Scan(&role); err != nil {
		return "", nil, err
	}
	class := func(c rights.Class) string { return strconv.Itoa(int(c)) }
	all, err = documents[RightsRow](ctx, r.tx, `
		WITH home AS MATERIALIZED (
			SELECT n.oid, n.nspowner FROM pg_namespace n WHERE n.oid = to_regnamespace($1::text)
		)
		SELECT jsonb_build_object('class', `+class(rights.Schema)+`, 'name', $1::text, 'owned', pg_has_role(h.nspowner, 'USAGE'), 'rights', ARRAY(
			SELECT p FROM unnest('{USAGE,CREATE}'::text[]) p WHERE has_schema_privilege(h.oid, p)))::text
		FROM home h
		UNION ALL
		SELECT jsonb_build_object('class', `+class(rights.Table)+`, 'name', c.relname, 'owned', pg_has_role(c.relowner, 'USAGE'), 'rights', ARRAY(
			SELECT p FROM unnest('{SELECT,INSERT,UPDATE,DELETE,TRUNCATE,REFERENCES,TRIGGER}'::text[]
				|| CASE WHEN current_setting('server_version_num')::integer >= 170000 THEN '{MAINTAIN}' ELSE '{}' END::text[]) p WHERE has_table_privilege(c.oid, p)
			UNION ALL
			SELECT p || ' (' || a.attname || ')' FROM pg_attribute a CROSS JOIN unnest('{SELECT,INSERT,UPDATE,REFERENCES}'::text[]) p
			WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
				AND has_column_privilege(c.oid, a.attnum, p) AND NOT has_table_privilege(c.oid, p)))::text
		FROM home h JOIN pg_class c ON c.relnamespace = h.oid WHERE c.relkind IN ('r', 'p', 'v') AND NOT c.relispartition
		UNION ALL
		SELECT jsonb_build_object('class', `+class(rights.Sequence)+`, 'name', c.relname, 'owned', pg_has_role(c.relowner, 'USAGE'), 'rights', ARRAY(
			SELECT p FROM unnest('{USAGE,SELECT,UPDATE}'::text[]) p WHERE has_sequence_privilege(c.oid, p)))::text
		FROM home h JOIN pg_class c ON c.relnamespace = h.oid WHERE c.relkind = 'S'
		UNION ALL
		SELECT jsonb_build_object('class', `+class(rights.Function)+`, 'name', f.proname, 'owned', bool_and(pg_has_role(f.proowner, 'USAGE')), 'rights',
			CASE WHEN bool_and(has_function_privilege(f.oid, 'EXECUTE')) THEN ARRAY['EXECUTE'] ELSE '{}' END)::text
		FROM home h JOIN pg_proc f ON f.pronamespace = h.oid GROUP BY f.proname`, r.schema)
	return role, all, err
}

// TableRow is the state of a table that changes all the time.
type TableRow struct {
	Table      string     `json:"table"`
	Live       int64      `json:"live"`
	Dead       int64      `json:"dead"`
	Size       int64      `json:"size"` // bytes, indexes included
	VacuumedAt *time.Time `json:"vacuumed_at"`
	Off        bool       `json:"off"` // autovacuum is off for it
}

// ServerRow is what of the server's own matters.
type ServerRow struct {
	Now        time.Time `json:"now"`
	Version    int       `json:"version"`
	Recovery   bool      `json:"recovery"`
	QueueUsage float64   `json:"queue_usage"` // of notifications, 0 to 1
	Autovacuum bool      `json:"autovacuum"`
	Tracking   bool      `json:"tracking"`
	Sessions   int       `json:"sessions"` // of clients; with Hidden, at most so many
	Hidden     bool      `json:"hidden"`   // what some sessions are, this role may not see
	Most       int       `json:"most"`
	Invalid    []string  `json:"invalid"` // indexes
	Ahead      int       `json:"ahead"`   // days after today whose partitions are there
	Today      bool      `json:"today"`
}

// Server returns what of the server's own matters.
func (r *Reading) Server(ctx context.Context) (ServerRow, error) {
	return document[ServerRow](ctx, r.tx, `
		WITH today AS (SELECT `+r.schema+`.day_of(clock_timestamp()) AS day)
		SELECT jsonb_build_object('now', clock_timestamp(), 'version', current_setting('server_version_num')::integer, 'recovery', pg_is_in_recovery(),
			'queue_usage', pg_notification_queue_usage(), 'autovacuum', current_setting('autovacuum')::boolean, 'tracking', current_setting('track_counts')::boolean,
			'sessions', (SELECT count(*) FROM pg_stat_activity a WHERE COALESCE(a.backend_type, 'client backend') = 'client backend' AND a.usesysid IS NOT NULL),
			'hidden', EXISTS (SELECT FROM pg_stat_activity a WHERE a.backend_type IS NULL AND a.usesysid IS NOT NULL), 'most', current_setting('max_connections')::integer,
			'invalid', (SELECT COALESCE(jsonb_agg(c.relname ORDER BY c.relname), '[]') FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
				WHERE c.relnamespace = to_regnamespace($1::text) AND NOT (i.indisvalid AND i.indisready)),
			'today', to_regclass($1::text || '.jobs_d' || t.day) IS NOT NULL,
			'ahead', (SELECT count(*) FROM generate_series(1, 7) n WHERE to_regclass($1::text || '.jobs_d' || (t.day + n)) IS NOT NULL))::text
		FROM today t`, r.schema)
}

// HotTables returns the tables that change all the time.
func (r *Reading) HotTables(ctx context.Context) ([]TableRow, error) {
	return documents[TableRow](ctx, r.tx, `
		SELECT jsonb_build_object('table', s.relname, 'live', s.n_live_tup, 'dead', s.n_dead_tup, 'size', pg_total_relation_size(s.relid),
			'vacuumed_at', GREATEST(s.last_autovacuum, s.last_vacuum),
			'off', COALESCE(array_to_string(c.reloptions, ',') ~ 'autovacuum_enabled=(false|off|no|0)', false))::text
		FROM pg_stat_user_tables s JOIN pg_class c ON c.oid = s.relid
		WHERE c.relnamespace = to_regnamespace($1::text) AND s.relname IN ('ready', 'leases', 'ordered', 'processes', 'sleepers', 'order_turns', 'idempotency_keys', 'pending_events')
		ORDER BY s.relname`, r.schema)
}

// VersionRow is what is stored of one payload version.
type VersionRow struct {
	Kind       string      `json:"kind"`
	Version    int         `json:"version"`
	Capability int64       `json:"capability"`
	Unfinished int         `json:"unfinished"`
	Dead       int         `json:"dead"`
	Current    bool        `json:"current"` // it is the newest that was registered
	Workers    int         `json:"workers"` // live ones that know it
	Checked    int         `json:"checked"` // payloads that were held against the registered shape
	Misfits    int         `json:"misfits"`
	Examples   []MisfitRow `json:"examples"`
}

// MisfitRow is a payload that does not fit the shape of its version.
type MisfitRow struct {
	ID     uuid.UUID `json:"id"`
	Misfit string    `json:"misfit"`
}

// Versions returns what is stored by payload version, of the first rows of each
// place where unfinished jobs are, and of the newest dead letters; whole says that
// these were all. It holds some payloads of each current version against the shape
// that workers have registered; none where the role may not read payloads, which
// unread says.
func (r *Reading) Versions(ctx context.Context, rows, check int) (all []VersionRow, whole, unread bool, err error) {
	s := r.schema
	readable, err := r.PayloadsReadable(ctx)
	if err != nil {
		return nil, false, false, err
	}
	misfits := `SELECT NULL::text AS kind, NULL::bigint AS capability, NULL::uuid AS id, NULL::text AS misfit WHERE $2::integer < 0`
	if readable {
		misfits = `SELECT n.kind, n.capability, n.id, ` + s + `.misfit(j.args, k.shape) AS misfit FROM numbered n
			JOIN ` + s + `.kinds k ON k.kind = n.kind AND k.capability = n.capability AND k.shape IS NOT NULL
			CROSS JOIN LATERAL (SELECT j.args FROM ` + s + `.jobs j WHERE j.day = n.day AND j.id = n.id OFFSET 0) j
			WHERE n.nth <= $2::integer`
	}
	type answer struct {
		Versions []VersionRow `json:"versions"`
		Whole    bool         `json:"whole"`
	}
	a, err := document[answer](ctx, r.tx, `
		WITH place AS MATERIALIZED (
			SELECT * FROM (SELECT 1 AS place, r.id, r.day FROM `+s+`.ready r LIMIT $1::integer) a
			UNION ALL
			SELECT * FROM (SELECT 2, o.job_id, o.day FROM `+s+`.ordered o WHERE NOT o.head LIMIT $1::integer) b
			UNION ALL
			SELECT * FROM (SELECT 3, u.id, u.day FROM `+s+`.leases l CROSS JOIN LATERAL unnest(l.job_ids, l.days) WITH ORDINALITY u(id, day, pos)
				WHERE get_bit(l.open, u.pos::integer - 1) = 1 LIMIT $1::integer) c
		), letter AS MATERIALIZED (
			SELECT d.job_id, d.kind, d.version, d.capability FROM `+s+`.dead_letters d ORDER BY d.died_at DESC LIMIT $1::integer
		), stored AS MATERIALIZED (
			SELECT p.id, p.day, j.kind, j.version, j.capability FROM place p
			CROSS JOIN LATERAL (SELECT j.kind, j.version, j.capability FROM `+s+`.jobs j WHERE j.day = p.day AND j.id = p.id OFFSET 0) j
		), counted AS (
			SELECT x.kind, x.version, x.capability, sum(x.unfinished) AS unfinished, sum(x.dead) AS dead FROM (
				SELECT t.kind, t.version, t.capability, count(*) AS unfinished, 0 AS dead FROM stored t GROUP BY 1, 2, 3
				UNION ALL
				SELECT l.kind, l.version, l.capability, 0, count(*) FROM letter l GROUP BY 1, 2, 3) x
			GROUP BY 1, 2, 3
		), numbered AS (
			SELECT t.*, row_number() OVER (PARTITION BY t.kind, t.capability ORDER BY t.id DESC) AS nth FROM stored t
		), checked AS MATERIALIZED (
			`+misfits+`
		)
		SELECT jsonb_build_object('whole', (SELECT count(*) FROM letter) < $1::integer AND NOT EXISTS (SELECT FROM place p GROUP BY p.place HAVING count(*) >= $1::integer),
			'versions', COALESCE((SELECT jsonb_agg(jsonb_build_object('kind', c.kind, 'version', c.version, 'capability', c.capability,
				'unfinished', c.unfinished, 'dead', c.dead, 'current', EXISTS (SELECT FROM `+s+`.kinds k WHERE k.kind = c.kind AND k.capability = c.capability),
				'workers', (SELECT count(*) FROM `+s+`.processes p WHERE p.expires_at > clock_timestamp() AND c.capability = ANY (p.capabilities)),
				'checked', (SELECT count(*) FROM checked x WHERE x.kind = c.kind AND x.capability = c.capability),
				'misfits', (SELECT count(*) FROM checked x WHERE x.kind = c.kind AND x.capability = c.capability AND x.misfit IS NOT NULL),
				'examples', (SELECT COALESCE(jsonb_agg(jsonb_build_object('id', x.id, 'misfit', x.misfit)), '[]') FROM (
					SELECT x.id, x.misfit FROM checked x WHERE x.kind = c.kind AND x.capability = c.capability AND x.misfit IS NOT NULL ORDER BY x.id LIMIT 5) x)
				) ORDER BY c.kind, c.version, c.capability) FROM counted c), '[]'))::text`, rows, check)
	return a.Versions, a.Whole, !readable, err
}
