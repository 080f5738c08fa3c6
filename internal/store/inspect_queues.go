package store

import (
	"context"
	"time"

	"github.com/google/uuid"
)

// QueueRow is a queue that has jobs, workers or a kind.
type QueueRow struct {
	Queue     string
	PausedAt  *time.Time
	Workers   int // live processes that serve it
	Due       Count
	Scheduled Count // for later, retries among them
	Leased    int64
	Blocked   Count
	OldestDue *time.Time // since when its first due job waits
}

// queueCounts is how many waiting jobs are counted for one list of queues.
const queueCounts = 200_000

// Queues returns all queues by name. Counts beyond the bound are estimates.
func (r *Reading) Queues(ctx context.Context, bound int) ([]QueueRow, error) {
	s := r.schema
	type row struct {
		Queue     string     `json:"queue"`
		PausedAt  *time.Time `json:"paused_at"`
		Workers   int        `json:"workers"`
		Leased    int64      `json:"leased"`
		OldestDue *time.Time `json:"oldest_due"`
	}
	// The queues of waiting jobs are found by one step along the index each.
	rows, err := documents[row](ctx, r.tx, `
		WITH RECURSIVE waiting (queue) AS (
			SELECT min(r.queue) FROM `+s+`.ready r WHERE NOT r.suspect
			UNION ALL
			SELECT (SELECT r.queue FROM `+s+`.ready r WHERE NOT r.suspect AND r.queue > w.queue ORDER BY r.queue LIMIT 1) FROM waiting w WHERE w.queue IS NOT NULL
		), live AS MATERIALIZED (
			SELECT q AS queue, count(*) AS n FROM `+s+`.processes p CROSS JOIN LATERAL unnest(p.queues) q WHERE p.expires_at > clock_timestamp() GROUP BY q
		), leased AS MATERIALIZED (
			SELECT l.queue, sum(bit_count(l.open)) AS n FROM `+s+`.leases l GROUP BY l.queue
		), named AS (
			SELECT w.queue FROM waiting w WHERE w.queue IS NOT NULL
			UNION SELECT l.queue FROM live l UNION SELECT l.queue FROM leased l
			UNION SELECT k.queue FROM `+s+`.kinds k UNION SELECT q.queue FROM `+s+`.paused_queues q
			UNION SELECT r.queue FROM `+s+`.ready r WHERE r.suspect
		)
		SELECT jsonb_build_object('queue', n.queue,
			'paused_at', (SELECT q.paused_at FROM `+s+`.paused_queues q WHERE q.queue = n.queue),
			'workers', COALESCE((SELECT l.n FROM live l WHERE l.queue = n.queue), 0),
			'leased', COALESCE((SELECT l.n FROM leased l WHERE l.queue = n.queue), 0),
			'oldest_due', (SELECT min(x.run_at) FROM generate_series(1, 4) p(priority) CROSS JOIN LATERAL (
				SELECT r.run_at FROM `+s+`.ready r WHERE r.queue = n.queue AND r.priority = p.priority::smallint AND NOT r.suspect
				AND r.run_at <= clock_timestamp() ORDER BY r.run_at LIMIT 1) x))::text
		FROM named n ORDER BY n.queue`)
	if err != nil {
		return nil, err
	}
	// Each queue is counted in eight ranges. Where queues are many, that is bounded
	// for all of them together.
	bound = min(bound, max(queueCounts/(8*max(len(rows), 1)), 100))
	queues := make([]QueueRow, len(rows))
	for i, x := range rows {
		q := &queues[i]
		*q = QueueRow{Queue: x.Queue, PausedAt: x.PausedAt, Workers: x.Workers, Leased: x.Leased, OldestDue: x.OldestDue}
		from := `SELECT 1 FROM ` + s + `.ready r WHERE r.queue = ` + literal(x.Queue) + ` AND NOT r.suspect`
		if q.Due, err = r.countEach(ctx, bound, from, ` AND r.run_at <= statement_timestamp()`); err != nil {
			return nil, err
		}
		if q.Scheduled, err = r.countEach(ctx, bound, from, ` AND r.run_at > statement_timestamp()`); err != nil {
			return nil, err
		}
	}
	return queues, r.countBlocked(ctx, bound, queues)
}

// countEach counts rows of ready up to the bound, one priority after the other:
// of each the times are a range of the index.
func (r *Reading) countEach(ctx context.Context, bound int, from, when string) (total Count, err error) {
	for _, priority := range []string{"4", "3", "2", "1"} {
		c, err := r.count(ctx, bound, from+when+` AND r.priority = `+priority)
		if err != nil {
			return total, err
		}
		total.N += c.N
		total.Estimate = total.Estimate || c.Estimate
	}
	return total, nil
}

// countBlocked counts jobs that are behind others, of the first ones of the
// whole table: it has no index by queue.
func (r *Reading) countBlocked(ctx context.Context, bound int, queues []QueueRow) error {
	type row struct {
		Queue string `json:"queue"`
		N     int64  `json:"n"`
		All   int64  `json:"all"`
	}
	counts, err := documents[row](ctx, r.tx, `SELECT jsonb_build_object('queue', x.queue, 'n', count(*) FILTER (WHERE NOT x.head), 'all', sum(count(*)) OVER ())::text
		FROM (SELECT o.queue, o.head FROM `+r.schema+`.ordered o LIMIT $1::integer) x GROUP BY x.queue`, bound)
	if err != nil {
		return err
	}
	share := 1.0
	for _, c := range counts {
		if c.All < int64(bound) {
			break
		}
		// What was seen is taken for the rest.
		all, err := r.estimate(ctx, `SELECT 1 FROM `+r.schema+`.ordered o`)
		if err != nil {
			return err
		}
		share = max(1, float64(all)/float64(c.All))
		break
	}
	for _, c := range counts {
		for i := range queues {
			if queues[i].Queue == c.Queue {
				queues[i].Blocked = Count{N: int64(float64(c.N) * share), Estimate: share > 1 || c.All >= int64(bound)}
			}
		}
	}
	return nil
}

// WorkerRow is a process.
type WorkerRow struct {
	ID        uuid.UUID `json:"id"`
	Name      string    `json:"name"`
	Queues    []string  `json:"queues"`
	Kinds     []string  `json:"kinds"` // whose newest version it knows
	Versions  int       `json:"versions"`
	Lease     float64   `json:"lease"` // seconds
	StartedAt time.Time `json:"started_at"`
	ExpiresAt time.Time `json:"expires_at"`
	Alive     bool      `json:"alive"`
	Leased    int64     `json:"leased"` // jobs
	Sleeping  []string  `json:"sleeping"`
}

// Workers returns all processes, also those whose time is over and that nobody
// has removed yet.
func (r *Reading) Workers(ctx context.Context) ([]WorkerRow, error) {
	s := r.schema
	return documents[WorkerRow](ctx, r.tx, `
		SELECT jsonb_build_object('id', p.id, 'name', p.name, 'queues', p.queues,
			'kinds', (SELECT COALESCE(jsonb_agg(k.kind ORDER BY k.kind), '[]') FROM `+s+`.kinds k WHERE k.capability = ANY (p.capabilities)),
			'versions', cardinality(p.capabilities), 'lease', extract(epoch FROM p.lease), 'started_at', p.started_at, 'expires_at', p.expires_at,
			'alive', p.expires_at > clock_timestamp(),
			'leased', (SELECT COALESCE(sum(bit_count(l.open)), 0) FROM `+s+`.leases l WHERE l.owner = p.id),
			'sleeping', (SELECT COALESCE(jsonb_agg(x.queue ORDER BY x.queue), '[]') FROM `+s+`.sleepers x WHERE x.process = p.id AND x.queue <> '`+OutboxQueue+`'))::text
		FROM `+s+`.processes p ORDER BY p.started_at, p.id`)
}

// StatusRow is a database at a glance.
type StatusRow struct {
	Now         time.Time `json:"now"`
	Server      string    `json:"server"`
	Database    string    `json:"database"`
	Workers     int       `json:"workers"` // that live
	Expired     int       `json:"expired"` // whose time is over
	Quarantined int       `json:"quarantined"`
	Paused      int       `json:"paused"`    // queues
	Schedules   int       `json:"schedules"` // that are declared
	Unserved    int       `json:"unserved"`  // of those, that no live worker has
	Blocked     int       `json:"blocked"`   // aggregates
	Oldest      *float64  `json:"oldest"`    // seconds since the first pending event was published

	Dead, DeadEvents, PendingEvents Count `json:"-"`
}

// Status returns a database at a glance.
func (r *Reading) Status(ctx context.Context, bound int) (x StatusRow, err error) {
	s := r.schema
	x, err = document[StatusRow](ctx, r.tx, `SELECT jsonb_build_object('now', clock_timestamp(), 'server', current_setting('server_version'), 'database', current_database(),
		'workers', (SELECT count(*) FROM `+s+`.processes p WHERE p.expires_at > clock_timestamp()),
		'expired', (SELECT count(*) FROM `+s+`.processes p WHERE p.expires_at <= clock_timestamp()),
		'quarantined', (SELECT count(*) FROM `+s+`.quarantine), 'paused', (SELECT count(*) FROM `+s+`.paused_queues),
		'schedules', (SELECT count(*) FROM `+s+`.schedule_status x WHERE x.status <> 'removed'),
		'unserved', (SELECT count(*) FROM `+s+`.schedule_status x WHERE x.status = 'unserved'),
		'blocked', (SELECT count(*) FROM `+s+`.blocked_aggregates),
		'oldest', extract(epoch FROM clock_timestamp() - LEAST(
			(SELECT p.published_at FROM `+s+`.pending_events p ORDER BY p.available_at LIMIT 1),
			(SELECT p.published_at FROM `+s+`.pending_events p WHERE p.available_at > p.published_at ORDER BY p.published_at LIMIT 1))))::text`)
	if err != nil {
		return x, err
	}
	if x.Dead, err = r.count(ctx, bound, `SELECT 1 FROM `+s+`.dead_letters`); err != nil {
		return x, err
	}
	if x.DeadEvents, err = r.count(ctx, bound, `SELECT 1 FROM `+s+`.dead_events`); err != nil {
		return x, err
	}
	x.PendingEvents, err = r.count(ctx, bound, `SELECT 1 FROM `+s+`.pending_events`)
	return x, err
}
