package store

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
)

// EventRow is an event, wherever it is.
type EventRow struct {
	ID             uuid.UUID  `json:"id"`
	Seq            int64      `json:"seq"`
	Type           string     `json:"type"`
	AggregateType  string     `json:"aggregate_type"`
	AggregateID    string     `json:"aggregate_id"`
	OrganizationID string     `json:"organization_id"`
	Version        int        `json:"version"`
	Capability     int64      `json:"capability"`
	Status         string     `json:"status"`
	Blocks         bool       `json:"blocks"`
	OccurredAt     time.Time  `json:"occurred_at"`
	PublishedAt    time.Time  `json:"published_at"`
	AvailableAt    *time.Time `json:"available_at"`
	EndedAt        *time.Time `json:"ended_at"`
	EndedBy        string     `json:"ended_by"`
	Attempts       int        `json:"attempts"`
	ErrorCode      string     `json:"error_code"`
	ErrorSummary   string     `json:"error_summary"`
	Payload        string     `json:"payload"`
	PayloadSize    int        `json:"payload_size"`
}

// Statuses that the filter of a list of events can name.
const (
	EventPending   = "pending" // not projected, for whatever reason
	EventBlocked   = "blocked" // of those, behind a dead one
	EventDead      = "dead"
	EventProjected = "projected"
	EventDiscarded = "discarded"
)

// EventFilter says which events are meant; what is empty is not asked for.
type EventFilter struct {
	Type, AggregateType, AggregateID, Organization, Status string
}

func (f *EventFilter) source(schema string) (source, error) {
	s := source{job: `SELECT e.type, e.aggregate_type, e.aggregate_id, e.organization_id FROM ` + schema + `.events e WHERE e.id = s.id AND (s.day IS NULL OR e.day = s.day) LIMIT 1`}
	unused := ` AND $4::timestamptz IS NULL AND $5::text IS NOT NULL`
	switch f.Status {
	case EventPending, EventBlocked:
		s.name = "pending events"
		from := schema + `.pending_events p`
		if f.Status == EventBlocked {
			s.name = "blocked events"
			from = schema + `.blocked_aggregates b JOIN ` + schema + `.pending_events p ON p.aggregate = b.aggregate`
		}
		one := ``
		if f.AggregateType != "" && f.AggregateID != "" {
			one = ` AND p.aggregate = ` + schema + `.aggregate_of(` + literal(f.AggregateType) + `,` + literal(f.AggregateID) + `)`
		}
		s.rows = `SELECT p.id, p.day, p.aggregate::text AS text, p.seq AS n, NULL::timestamptz AS at FROM ` + from + `
			WHERE (NOT $1::boolean OR (p.aggregate, p.seq) > (NULLIF($2::text, '')::uuid, $3::bigint))` + unused + one + ` ORDER BY p.aggregate, p.seq`
	case EventDead:
		s.name = "dead events"
		s.job = `SELECT d.type, d.aggregate_type, d.aggregate_id, d.organization_id FROM ` + schema + `.dead_events d WHERE d.event_id = s.id`
		s.rows = `SELECT d.event_id AS id, NULL::integer AS day, '' AS text, 0::bigint AS n, d.died_at AS at FROM ` + schema + `.dead_events d
			WHERE (NOT $1::boolean OR (d.died_at, d.event_id) < ($4::timestamptz, $5::text::uuid)) AND $2::text IS NOT NULL AND $3::bigint IS NOT NULL
			ORDER BY d.died_at DESC, d.event_id DESC`
	case "", EventProjected, EventDiscarded:
		s.name = "events"
		s.rows = `SELECT e.id, e.day, '' AS text, 0::bigint AS n, NULL::timestamptz AS at FROM ` + schema + `.events e
			WHERE (NOT $1::boolean OR e.id < $5::text::uuid) AND $2::text IS NOT NULL AND $3::bigint IS NOT NULL AND $4::timestamptz IS NULL ORDER BY e.id DESC`
		if outcome := map[string]string{EventProjected: "1", EventDiscarded: "5"}[f.Status]; outcome != "" {
			s.where = append(s.where, `EXISTS (SELECT FROM `+schema+`.event_outcomes o WHERE o.event_id = s.id AND o.day >= s.day AND o.outcome = `+outcome+`)`)
		}
	default:
		return s, fmt.Errorf("there is no status %q", f.Status)
	}
	for _, c := range []struct{ column, value string }{
		{"type", f.Type}, {"aggregate_type", f.AggregateType}, {"aggregate_id", f.AggregateID}, {"organization_id", f.Organization},
	} {
		if c.value != "" {
			s.where = append(s.where, `j.`+c.column+` = `+literal(c.value))
		}
	}
	return s, nil
}

// ScanEvents looks at some rows of the place where events of a filter are.
func (r *Reading) ScanEvents(ctx context.Context, f *EventFilter, scan Scan) (*Scanned, error) {
	s, err := f.source(r.schema)
	if err != nil {
		return nil, err
	}
	return r.scan(ctx, s, scan)
}

// Events returns what there is to say of events, in the order of the ids; one
// without a trace is left out. Payloads are cut after so many characters.
func (r *Reading) Events(ctx context.Context, ids []uuid.UUID, payloadMax int) ([]EventRow, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	texts := make([]string, len(ids))
	for i, id := range ids {
		texts[i] = id.String()
	}
	s := r.schema
	return documents[EventRow](ctx, r.tx, `
		WITH live AS MATERIALIZED (
			SELECT `+live(s)+` AS live
		)
		SELECT jsonb_build_object(
			'id', u.id, 'seq', e.seq, 'type', e.type, 'aggregate_type', e.aggregate_type, 'aggregate_id', e.aggregate_id,
			'organization_id', e.organization_id, 'version', e.version, 'capability', e.capability,
			'status', `+s+`.event_standing(o.outcome, e.died_at IS NOT NULL, p.id IS NOT NULL, b.aggregate IS NOT NULL, e.capability = ANY (v.live),
				EXISTS (SELECT FROM `+s+`.pending_events x WHERE x.aggregate = p.aggregate AND x.seq < p.seq), p.attempts > 0),
			'blocks', EXISTS (SELECT FROM `+s+`.blocked_aggregates x WHERE x.event_id = u.id),
			'occurred_at', e.occurred_at, 'published_at', e.published_at, 'available_at', p.available_at,
			'ended_at', COALESCE(e.died_at, o.processed_at), 'ended_by', COALESCE(o.claimed_by, ''),
			'attempts', COALESCE(e.attempts, o.attempts, p.attempts, 0),
			'error_code', COALESCE(e.code, x.code, ''), 'error_summary', COALESCE(e.summary, x.summary, ''),
			'payload', shown.payload, 'payload_size', shown.size)::text
		FROM unnest($1::text[]::uuid[]) WITH ORDINALITY u(id, n)
		CROSS JOIN live v
		CROSS JOIN LATERAL (
			SELECT * FROM (
				SELECT d.seq, d.type, d.aggregate_type, d.aggregate_id, d.organization_id, d.version, d.capability, d.occurred_at, d.published_at, NULL::integer AS day,
					d.died_at, d.attempts, d.code, d.summary
				FROM `+s+`.dead_events d WHERE d.event_id = u.id
				UNION ALL
				SELECT e.seq, e.type, e.aggregate_type, e.aggregate_id, e.organization_id, e.version, e.capability, e.occurred_at, e.published_at, e.day,
					NULL, NULL, NULL, NULL
				FROM `+s+`.events e WHERE e.id = u.id) e LIMIT 1) e
		CROSS JOIN LATERAL `+s+`.shown_payload(CASE WHEN e.died_at IS NOT NULL THEN 'dead_events' ELSE 'events' END, e.day, u.id, $2::integer, $3::text::jsonb) shown
		LEFT JOIN LATERAL (SELECT o.* FROM `+s+`.event_outcomes o WHERE o.event_id = u.id LIMIT 1) o ON true
		LEFT JOIN LATERAL (SELECT p.* FROM `+s+`.pending_events p
			WHERE p.aggregate = `+s+`.aggregate_of(e.aggregate_type, e.aggregate_id) AND p.seq = e.seq) p ON true
		LEFT JOIN `+s+`.blocked_aggregates b ON b.aggregate = p.aggregate
		LEFT JOIN LATERAL (SELECT x.* FROM `+s+`.event_errors x WHERE x.event_id = u.id ORDER BY x.at DESC, x.attempt DESC LIMIT 1) x ON true
		ORDER BY u.n`, texts, payloadMax, r.known)
}

// EventErrors returns the latest failed attempts at an event, oldest first.
func (r *Reading) EventErrors(ctx context.Context, id uuid.UUID) ([]ErrorRow, error) {
	return documents[ErrorRow](ctx, r.tx, `SELECT to_jsonb(e)::text FROM (
		SELECT e.attempt, e.at, e.code, e.summary, e.retry_at FROM `+r.schema+`.event_errors e
		WHERE e.event_id = $1::text::uuid ORDER BY e.at DESC, e.attempt DESC LIMIT $2::integer) e ORDER BY e.at, e.attempt`, id.String(), historyMost)
}
