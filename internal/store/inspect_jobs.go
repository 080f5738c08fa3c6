package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// JobRow is a job, wherever it is.
type JobRow struct {
	ID             uuid.UUID  `json:"id"`
	Kind           string     `json:"kind"`
	Queue          string     `json:"queue"`
	Version        int        `json:"version"`
	Capability     int64      `json:"capability"`
	Priority       int        `json:"priority"`
	State          string     `json:"state"`
	OrganizationID string     `json:"organization_id"`
	EnqueuedAt     *time.Time `json:"enqueued_at"`
	RunAt          *time.Time `json:"run_at"` // of the next attempt, where that is known; else of the first
	Attempts       int        `json:"attempts"`
	MaxAttempts    int        `json:"max_attempts"`
	Worker         string     `json:"worker"`
	ClaimedAt      *time.Time `json:"claimed_at"`
	LeasedUntil    *time.Time `json:"leased_until"`
	FinishedAt     *time.Time `json:"finished_at"`
	ErrorCode      string     `json:"error_code"`
	ErrorSummary   string     `json:"error_summary"`
	ErrorAt        *time.Time `json:"error_at"`
	Key            string     `json:"idempotency_key"` // hexadecimal digits of a digest
	OrderKey       string     `json:"order_key"`
	Args           string     `json:"args"` // the text of the JSON value, or its beginning
	ArgsSize       int        `json:"args_size"`
}

// States that the filter of a list can name.
const (
	StatePending     = "pending"
	StateScheduled   = "scheduled"
	StateRetrying    = "retrying"
	StateStranded    = "stranded"
	StateLeased      = "leased"
	StateBlocked     = "blocked"
	StateCompleted   = "completed"
	StateDead        = "dead"
	StateCancelled   = "cancelled"
	StateQuarantined = "quarantined"
	StateLost        = "lost"
)

// ArgFilter asks for a value at a path of a payload.
type ArgFilter struct {
	Path  []string
	Value json.RawMessage
}

// JobFilter says which jobs are meant; what is empty is not asked for.
type JobFilter struct {
	Kind, Queue, State, ErrorCode, Organization string
	Args                                        []ArgFilter
}

// Place is how far a list has got.
type Place struct {
	Source string    `json:"s"`
	Text   string    `json:"t,omitempty"`
	N      int64     `json:"n,omitempty"`
	At     time.Time `json:"a,omitzero"`
	ID     uuid.UUID `json:"i,omitzero"`
	Day    int       `json:"d,omitempty"` // of a failure; among what waits, 1 for a suspect
}

// Scan is one step along a source.
type Scan struct {
	After *Place // nil: from the beginning
	Rows  int    // to look at, at most
	Limit int    // matches, at most
}

// Scanned is the answer of a [Scan].
type Scanned struct {
	IDs    []uuid.UUID // that match
	Places []Place     // of those
	Looked int
	Last   *Place // of what was looked at; nil for nothing
	Next   *Place // the same, or nil: there is nothing more
}

// source is a table in an order that an index has, and what its rows stand for.
type source struct {
	name string
	// rows are the columns id, day, text, n, at and state of the rows after a
	// place, without a limit. They use the parameters $1 to $5: whether there is
	// a place, its text, n, at and id; and $6, its day.
	rows string
	// job finds the row with the payload of a row s.
	job string
	// where is what more there is to ask of a row s and its job j.
	where []string
	// params are the parameters from $7 on.
	params []any
}

// param adds a parameter, and is how the statement names it.
func (s *source) param(value string) string {
	s.params = append(s.params, strings.ReplaceAll(strings.ToValidUTF8(value, "\uFFFD"), "\x00", "\uFFFD"))
	return fmt.Sprintf("$%d::text", 6+len(s.params))
}

// jobOf finds the row of a job by its id, and by its day where that is known.
func jobOf(schema string, args bool) string {
	return `SELECT j.kind, j.queue, j.organization_id` + column("j.args", args) + ` FROM ` + schema + `.jobs j WHERE j.id = s.id AND (s.day IS NULL OR j.day = s.day) LIMIT 1`
}

// column names one more column, where it is needed: not every role may read all.
func column(name string, needed bool) string {
	if needed {
		return ", " + name
	}
	return ""
}

// live are the capabilities of live workers, NULL for no worker.
func live(schema string) string { return `(SELECT ` + schema + `.live_capabilities())` }

// sourceOf chooses where to look for jobs of a filter: the smallest place that
// has all of them.
func sourceOf(schema string, f *JobFilter) (source, error) {
	args := len(f.Args) > 0
	s := source{job: jobOf(schema, args)}
	switch f.State {
	case StatePending, StateScheduled, StateRetrying, StateStranded:
		s.name = "ready"
		columns := `r.id, r.day, r.queue AS text, r.priority::bigint AS n, r.run_at AS at,
			` + schema + `.standing(NULL, NULL, NULL, NULL, NULL, true, r.capability = ANY (l.live), r.attempts > 0, r.run_at > clock_timestamp()) AS state,
			r.suspect::integer AS on_day`
		from := ` FROM ` + schema + `.ready r, LATERAL (SELECT ` + live(schema) + ` AS live) l WHERE NOT r.suspect`
		suspects := ` FROM ` + schema + `.ready r, LATERAL (SELECT ` + live(schema) + ` AS live) l WHERE r.suspect`
		order := ` ORDER BY r.queue, r.priority DESC, r.run_at, r.id`
		queue := ``
		if f.Queue != "" {
			queue = ` AND r.queue = ` + literal(f.Queue)
		}
		// What is after a place is three ranges of the index, one after the other;
		// as one condition it would be read from the beginning. Suspects are few, and
		// come first: after one of them are the others, and then all that are none.
		inSuspects, inOthers := ` AND (NOT $1::boolean OR $6::integer = 1)`, ` AND $1::boolean AND $6::integer <> 1`
		s.rows = `SELECT * FROM (SELECT ` + columns + suspects + queue + inSuspects + ` AND (NOT $1::boolean OR r.queue > $2::text
				OR r.queue = $2::text AND (r.priority < $3::bigint::smallint
					OR r.priority = $3::bigint::smallint AND (r.run_at, r.id) > ($4::timestamptz, $5::text::uuid)))` + order + `) a
			UNION ALL SELECT * FROM (SELECT ` + columns + from + queue + inSuspects + order + `) b
			UNION ALL SELECT * FROM (SELECT ` + columns + from + queue + inOthers + ` AND r.queue = $2::text AND r.priority = $3::bigint::smallint
				AND (r.run_at, r.id) > ($4::timestamptz, $5::text::uuid)` + order + `) c
			UNION ALL SELECT * FROM (SELECT ` + columns + from + queue + inOthers + ` AND r.queue = $2::text AND r.priority < $3::bigint::smallint` + order + `) d
			UNION ALL SELECT * FROM (SELECT ` + columns + from + queue + inOthers + ` AND r.queue > $2::text` + order + `) e`
		s.where = append(s.where, `s.state = `+literal(f.State))
	case StateLeased:
		s.name = "leases"
		s.rows = `SELECT u.id, u.day, l.token::text AS text, u.pos AS n, NULL::timestamptz AS at, 'leased' AS state
			FROM (SELECT l.* FROM ` + schema + `.leases l WHERE NOT $1::boolean OR l.token >= NULLIF($2::text, '')::uuid ORDER BY l.token) l
			CROSS JOIN LATERAL (SELECT u.* FROM unnest(l.job_ids, l.days) WITH ORDINALITY u(id, day, pos)
				WHERE get_bit(l.open, u.pos::integer - 1) = 1 AND (NOT $1::boolean OR l.token > NULLIF($2::text, '')::uuid OR u.pos > $3::bigint) ORDER BY u.pos) u
			WHERE $4::timestamptz IS NULL AND $5::text IS NOT NULL`
		if f.Queue != "" {
			s.where = append(s.where, `j.queue = `+literal(f.Queue))
		}
	case StateBlocked:
		s.name = "ordered"
		s.rows = `SELECT o.job_id AS id, o.day, '' AS text, 0::bigint AS n, NULL::timestamptz AS at, 'blocked' AS state, o.head
			FROM ` + schema + `.ordered o WHERE (NOT $1::boolean OR o.job_id > $5::text::uuid)
			AND $2::text IS NOT NULL AND $3::bigint IS NOT NULL AND $4::timestamptz IS NULL ORDER BY o.job_id`
		s.where = append(s.where, `NOT s.head`)
	case StateDead:
		s.name = "dead"
		s.job = `SELECT d.kind, d.queue, d.organization_id` + column("d.args", args) + ` FROM ` + schema + `.dead_letters d WHERE d.job_id = s.id`
		code := ``
		if f.ErrorCode != "" { // it has an index
			code = ` AND d.code = ` + literal(f.ErrorCode)
		}
		s.rows = `SELECT d.job_id AS id, NULL::integer AS day, d.code AS text, 0::bigint AS n, d.died_at AS at, 'dead' AS state
			FROM ` + schema + `.dead_letters d WHERE (NOT $1::boolean OR (d.died_at, d.job_id) < ($4::timestamptz, $5::text::uuid)) AND $2::text IS NOT NULL AND $3::bigint IS NOT NULL` + code + `
			ORDER BY d.died_at DESC, d.job_id DESC`
	case StateQuarantined:
		s.name = "quarantine"
		s.job = `SELECT q.queue, j.kind, j.organization_id` + column("j.args", args) + ` FROM (SELECT s.text AS queue) q LEFT JOIN LATERAL (` + s.job + `) j ON true`
		s.rows = `SELECT q.job_id AS id, q.job_day AS day, q.queue AS text, 0::bigint AS n, q.found_at AS at, 'quarantined' AS state
			FROM ` + schema + `.quarantine q WHERE q.queue <> '` + OutboxQueue + `' AND (NOT $1::boolean OR (q.found_at, q.job_id) < ($4::timestamptz, $5::text::uuid))
			AND $2::text IS NOT NULL AND $3::bigint IS NOT NULL ORDER BY q.found_at DESC, q.job_id DESC`
	case "", StateCompleted, StateCancelled:
		if f.ErrorCode != "" {
			s.name = "errors"
			s.rows = `SELECT e.job_id AS id, NULL::integer AS day, e.code AS text, e.attempt::bigint AS n, e.at AS at, '' AS state, e.day AS on_day
				FROM ` + schema + `.job_errors e WHERE (NOT $1::boolean OR (e.job_id, e.attempt, e.day) < ($5::text::uuid, $3::bigint::smallint, $6::integer))
				AND $2::text IS NOT NULL AND ($4::timestamptz IS NOT NULL OR NOT $1::boolean) ORDER BY e.job_id DESC, e.attempt DESC, e.day DESC`
			s.where = append(s.where, `s.text = `+literal(f.ErrorCode),
				`NOT EXISTS (SELECT FROM `+schema+`.job_errors x WHERE x.job_id = s.id AND (x.at, x.attempt) > (s.at, s.n))`)
		} else {
			s.name = "jobs"
			s.rows = newestJobs(schema)
		}
		if outcome := map[string]string{StateCompleted: "1", StateCancelled: "5"}[f.State]; outcome != "" {
			s.where = append(s.where, `EXISTS (SELECT FROM `+schema+`.outcomes o WHERE o.job_id = s.id AND (s.day IS NULL OR o.day >= s.day) AND o.outcome = `+outcome+`)`)
		}
	case StateLost:
		s.name = "jobs"
		s.job = `SELECT j.kind, j.queue, j.organization_id, j.priority, j.run_at` + column("j.args", args) + ` FROM ` + schema + `.jobs j WHERE j.id = s.id AND j.day = s.day LIMIT 1`
		s.rows = newestJobs(schema)
		s.where = append(s.where, `NOT EXISTS (SELECT FROM `+schema+`.outcomes o WHERE o.job_id = s.id AND o.day >= s.day)`,
			`s.id NOT IN (SELECT q.job_id FROM `+schema+`.quarantine q)`,
			`s.id NOT IN (SELECT u.id FROM `+schema+`.leases l CROSS JOIN LATERAL unnest(l.job_ids) WITH ORDINALITY u(id, pos) WHERE get_bit(l.open, u.pos::integer - 1) = 1)`,
			`s.id NOT IN (SELECT r.id FROM `+schema+`.ready r WHERE r.suspect)`,
			// A look-up for each job: of NOT EXISTS the planner would make joins.
			`(SELECT o.job_id FROM `+schema+`.ordered o WHERE o.job_id = s.id) IS NULL`,
			`(SELECT r.id FROM `+schema+`.ready r WHERE r.queue = j.queue AND r.priority = j.priority AND NOT r.suspect AND r.id = s.id
				AND r.run_at = ANY (j.run_at || ARRAY(SELECT e.retry_at FROM `+schema+`.job_errors e WHERE e.job_id = s.id)) LIMIT 1) IS NULL`)
	default:
		return s, fmt.Errorf("there is no state %q", f.State)
	}
	if f.Kind != "" {
		s.where = append(s.where, `j.kind = `+literal(f.Kind))
	}
	if f.Queue != "" && s.name != "ready" {
		s.where = append(s.where, `j.queue = `+literal(f.Queue))
	}
	if f.Organization != "" {
		s.where = append(s.where, `j.organization_id = `+literal(f.Organization))
	}
	if f.ErrorCode != "" && s.name != "errors" && s.name != "dead" {
		s.where = append(s.where, `(SELECT e.code FROM `+schema+`.job_errors e WHERE e.job_id = s.id ORDER BY e.at DESC, e.attempt DESC LIMIT 1) = `+literal(f.ErrorCode))
	}
	s.args(f.Args)
	return s, nil
}

// newestJobs are the rows of all jobs from the newest on.
func newestJobs(schema string) string {
	return `SELECT j.id, j.day, '' AS text, 0::bigint AS n, NULL::timestamptz AS at, '' AS state FROM ` + schema + `.jobs j
		WHERE (NOT $1::boolean OR j.id < $5::text::uuid) AND $2::text IS NOT NULL AND $3::bigint IS NOT NULL AND $4::timestamptz IS NULL ORDER BY j.id DESC`
}

// args asks for values in the payload. They are parameters, since the text of a
// statement is there for everybody to see who may look at the server's sessions.
func (s *source) args(filters []ArgFilter) {
	for _, a := range filters {
		path, err := json.Marshal(a.Path)
		if err != nil {
			panic(err) // strings
		}
		s.where = append(s.where, fmt.Sprintf(`j.args #> ARRAY(SELECT p FROM jsonb_array_elements_text(%s::jsonb) p) = %s::jsonb`,
			s.param(string(path)), s.param(string(a.Value))))
	}
}

// literal quotes a value as a string constant that has the same meaning whatever
// the session takes backslashes for. U+0000, which no text of the database has,
// makes a text that is in none.
func literal(text string) string {
	text = strings.ReplaceAll(text, "\x00", "\uFFFD")
	return ` E'` + strings.NewReplacer(`\`, `\\`, `'`, `''`).Replace(strings.ToValidUTF8(text, "\uFFFD")) + `'`
}

// ScanJobs looks at some rows of the place where jobs of a filter are.
func (r *Reading) ScanJobs(ctx context.Context, f *JobFilter, scan Scan) (*Scanned, error) {
	s, err := sourceOf(r.schema, f)
	if err != nil {
		return nil, err
	}
	if err := r.MayFilter(ctx, len(f.Args)); err != nil {
		return nil, err
	}
	return r.scan(ctx, s, scan)
}

// ErrNoPayloads says that the role may not read the payloads that a filter is about.
var ErrNoPayloads = errors.New("the role may not read payloads")

// PayloadsReadable says whether the role may read payloads of jobs.
func (r *Reading) PayloadsReadable(ctx context.Context) (may bool, err error) {
	err = r.tx.QueryRow(ctx, `SELECT bool_and(has_column_privilege($1::text || t.name, 'args', 'SELECT')) FROM unnest('{.jobs,.archive,.dead_letters}'::text[]) t(name)`,
		r.schema).Scan(&may)
	return may, err
}

// MayFilter is the error of a filter with so many arguments that the role may not
// use.
func (r *Reading) MayFilter(ctx context.Context, args int) error {
	if args == 0 {
		return nil
	}
	may, err := r.PayloadsReadable(ctx)
	if err == nil && !may {
		return ErrNoPayloads
	}
	return err
}

// ErrPlace says that a place is of another list.
var ErrPlace = fmt.Errorf("the cursor is of another list: use it with the filter that it was given for")

func (r *Reading) scan(ctx context.Context, s source, scan Scan) (*Scanned, error) {
	var after Place
	if scan.After != nil {
		if after = *scan.After; after.Source != s.name {
			return nil, ErrPlace
		}
	}
	where := "true"
	if len(s.where) > 0 {
		where = strings.Join(s.where, " AND ")
	}
	onDay := "0"
	if s.name == "errors" || s.name == "ready" {
		onDay = "s.on_day"
	}
	rows, err := r.tx.Query(ctx, fmt.Sprintf(`
		WITH scanned AS MATERIALIZED (
			SELECT row_number() OVER () AS nth, s.* FROM (SELECT s.* FROM (%s) s LIMIT %d) s
		), matched AS MATERIALIZED (
			SELECT s.* FROM scanned s CROSS JOIN LATERAL (%s) j WHERE %s ORDER BY s.nth LIMIT %d
		)
		SELECT s.nth, s.id::text, s.text, s.n, s.at, (%s)::integer, true FROM matched s
		UNION ALL
		(SELECT s.nth, s.id::text, s.text, s.n, s.at, (%s)::integer, false FROM scanned s WHERE $6::integer IS NOT NULL ORDER BY s.nth DESC LIMIT 1)
		ORDER BY 7 DESC, 1`, s.rows, scan.Rows, s.job, where, scan.Limit, onDay, onDay),
		append([]any{scan.After != nil, after.Text, after.N, moment(after.At), after.ID.String(), after.Day}, s.params...)...)
	if err != nil {
		return nil, err
	}
	var (
		answer Scanned
		nth    int
		id     string
		text   string
		n      int64
		at     *time.Time
		day    int
		hit    bool
		place  Place
	)
	_, err = pgx.ForEachRow(rows, []any{&nth, &id, &text, &n, &at, &day, &hit}, func() error {
		parsed, err := uuid.Parse(id)
		if err != nil {
			return err
		}
		if !hit && len(answer.IDs) == scan.Limit {
			return nil // the page ends with its last match
		}
		answer.Looked = nth
		place = Place{Source: s.name, Text: text, N: n, ID: parsed, Day: day}
		if at != nil {
			place.At = *at
		}
		if hit {
			answer.IDs, answer.Places = append(answer.IDs, parsed), append(answer.Places, place)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if answer.Looked > 0 {
		answer.Last = &place
		if answer.Looked >= scan.Rows || len(answer.IDs) == scan.Limit {
			answer.Next = &place
		}
	}
	return &answer, nil
}

// Search says how to find the place of a job that waits, but not for a time that its
// history knows: one that was given back without an error has such.
type Search string

// The ways to search.
const (
	SearchNot  Search = "not"  // it is taken for one that waits for another attempt
	SearchWalk Search = "walk" // along its queue, for one job
	SearchDone Search = "done" // somebody has, and it is nowhere
)

// Jobs returns what there is to say of the jobs of some places, in their order; one
// without a trace is left out. Payloads are cut after so many characters. A place
// that is the job's in ready saves looking for it.
func (r *Reading) Jobs(ctx context.Context, places []Place, argsMax int, search Search) ([]JobRow, error) {
	if len(places) == 0 {
		return nil, nil
	}
	ids, times := make([]string, len(places)), make([]string, len(places))
	for i, p := range places {
		ids[i] = p.ID.String()
		if p.Source == "ready" {
			times[i] = p.At.Format(time.RFC3339Nano)
		}
	}
	s := r.schema
	return documents[JobRow](ctx, r.tx, `
		WITH asked AS MATERIALIZED (
			SELECT u.id, NULLIF(u.at, '')::timestamptz AS at, u.n FROM unnest($1::text[]::uuid[], $4::text[]) WITH ORDINALITY u(id, at, n)
		), leased AS MATERIALIZED (
			SELECT u.id, u.attempt, l.claimed_at, l.owner, p.name, p.expires_at FROM `+s+`.leases l
			CROSS JOIN LATERAL unnest(l.job_ids, l.attempts) WITH ORDINALITY u(id, attempt, pos)
			LEFT JOIN `+s+`.processes p ON p.id = l.owner
			WHERE get_bit(l.open, u.pos::integer - 1) = 1 AND l.job_ids && $1::text[]::uuid[] AND u.id = ANY ($1::text[]::uuid[])
		), live AS MATERIALIZED (
			SELECT `+live(s)+` AS live
		)
		SELECT jsonb_build_object(
			'id', a.id, 'kind', COALESCE(j.kind, d.kind, ''), 'queue', COALESCE(j.queue, d.queue, q.queue, o.queue, ''),
			'version', COALESCE(j.version, d.version, 0), 'capability', COALESCE(j.capability, d.capability, 0), 'priority', COALESCE(j.priority, d.priority, 0),
			'state', `+s+`.standing(COALESCE(o.outcome, CASE j.status WHEN 'completed' THEN 1 WHEN 'dead' THEN 3 WHEN 'cancelled' THEN 5 END::smallint),
				l.id IS NOT NULL, q.job_id IS NOT NULL, d.job_id IS NOT NULL, b.behind,
				CASE $3::text WHEN 'walk' THEN r.id IS NOT NULL OR b.job_id IS NOT NULL WHEN 'done' THEN false END,
				j.capability = ANY (v.live), r.attempts > 0 OR (r.id IS NULL AND b.head IS DISTINCT FROM false), COALESCE(r.run_at, j.run_at) > clock_timestamp()),
			'organization_id', COALESCE(j.organization_id, d.organization_id, ''),
			'enqueued_at', COALESCE(j.enqueued_at, d.enqueued_at), 'run_at', COALESCE(r.run_at, e.retry_at, j.run_at),
			'attempts', COALESCE(o.attempts, l.attempt, j.attempts, d.attempts, r.attempts, e.attempt, 0),
			'max_attempts', COALESCE(j.max_attempts, d.max_attempts, 0),
			'worker', COALESCE(l.name, l.owner::text, ''), 'claimed_at', COALESCE(l.claimed_at, o.claimed_at, j.claimed_at), 'leased_until', l.expires_at,
			'finished_at', COALESCE(o.finished_at, j.finished_at, d.died_at),
			'error_code', COALESCE(d.code, e.code, ''), 'error_summary', COALESCE(d.summary, e.summary, ''), 'error_at', COALESCE(d.died_at, e.at),
			'idempotency_key', COALESCE(keys.idempotency_key, ''), 'order_key', COALESCE(keys.order_key, ''),
			'args', shown.payload, 'args_size', COALESCE(shown.size, 0))::text
		FROM asked a
		CROSS JOIN live v
		LEFT JOIN LATERAL (
			SELECT * FROM (
				SELECT j.id, j.kind, j.queue, j.version, j.capability, j.priority, j.organization_id, j.enqueued_at, j.run_at, j.max_attempts, j.day,
					false AS archived, NULL AS status, NULL::smallint AS attempts, NULL::timestamptz AS claimed_at, NULL::timestamptz AS finished_at
				FROM `+s+`.jobs j WHERE j.id = a.id
				UNION ALL
				SELECT x.id, x.kind, x.queue, x.version, x.capability, x.priority, x.organization_id, x.enqueued_at, x.run_at, x.max_attempts, x.day,
					true, x.status, x.attempts, x.claimed_at, x.finished_at
				FROM `+s+`.archive x WHERE x.id = a.id) j LIMIT 1) j ON true
		LEFT JOIN LATERAL (
			SELECT d.job_id, d.kind, d.queue, d.version, d.capability, d.priority, d.organization_id, d.enqueued_at, d.attempts, d.max_attempts, d.code, d.summary, d.died_at
			FROM `+s+`.dead_letters d WHERE d.job_id = a.id) d ON true
		LEFT JOIN LATERAL `+s+`.shown_payload(CASE WHEN j.archived THEN 'archive' WHEN j.id IS NOT NULL THEN 'jobs' ELSE 'dead_letters' END, j.day, a.id, $2::integer, $5::text::jsonb) shown
			ON COALESCE(j.id, d.job_id) IS NOT NULL
		LEFT JOIN LATERAL `+s+`.shown_keys(CASE WHEN j.archived THEN 'archive' ELSE 'jobs' END, j.day, a.id) keys ON j.id IS NOT NULL
		LEFT JOIN LATERAL (SELECT o.* FROM `+s+`.outcomes o WHERE o.job_id = a.id LIMIT 1) o ON true
		LEFT JOIN LATERAL (SELECT l.* FROM leased l WHERE l.id = a.id LIMIT 1) l ON true
		LEFT JOIN LATERAL (SELECT q.* FROM `+s+`.quarantine q WHERE q.job_id = a.id LIMIT 1) q ON true
		LEFT JOIN LATERAL (SELECT b.job_id, b.head, b.ready_at, b.behind FROM `+s+`.order_places b WHERE b.job_id = a.id) b ON o.job_id IS NULL
		LEFT JOIN LATERAL (SELECT e.* FROM `+s+`.job_errors e WHERE e.job_id = a.id ORDER BY e.at DESC, e.attempt DESC LIMIT 1) e ON true
		LEFT JOIN LATERAL (
			SELECT * FROM (
				SELECT r.* FROM `+s+`.ready r WHERE r.queue = j.queue AND r.priority = j.priority AND NOT r.suspect AND r.id = a.id
					AND r.run_at = ANY (ARRAY[a.at, j.run_at, b.ready_at] || ARRAY(SELECT x.retry_at FROM `+s+`.job_errors x WHERE x.job_id = a.id))
				UNION ALL
				SELECT r.* FROM `+s+`.ready r WHERE r.queue = j.queue AND r.priority = j.priority AND r.suspect AND r.id = a.id
				UNION ALL
				SELECT r.* FROM `+s+`.ready r WHERE $3::text = 'walk' AND r.queue = j.queue AND r.priority = j.priority AND NOT r.suspect AND r.id = a.id) r LIMIT 1
		) r ON o.job_id IS NULL AND l.id IS NULL AND q.job_id IS NULL AND NOT j.archived AND b.head IS DISTINCT FROM false
		WHERE COALESCE(j.id, d.job_id, o.job_id, q.job_id, l.id) IS NOT NULL
		ORDER BY a.n`, ids, argsMax, string(search), times, r.known)
}

// Waiting returns those of some jobs that wait in ready, at whatever time. It reads all
// of that table, once.
func (r *Reading) Waiting(ctx context.Context, ids []uuid.UUID) ([]uuid.UUID, error) {
	texts := make([]string, len(ids))
	for i, id := range ids {
		texts[i] = id.String()
	}
	// As an expression, it is one look into a table of hashes a row.
	rows, err := r.tx.Query(ctx, `SELECT r.id FROM `+r.schema+`.ready r WHERE (r.id IN (SELECT u.id FROM unnest($1::text[]::uuid[]) u(id))) IS TRUE`, texts)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
}
