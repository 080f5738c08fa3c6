package store

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// Process is a worker process as it registers itself.
type Process struct {
	ID           uuid.UUID
	Name         string
	Queues       []string
	Capabilities []int64
	Lease        time.Duration
}

// Register makes the process's row; its leases live from now on as long as it
// keeps calling [Store.Heartbeat].
func (s *Store) Register(ctx context.Context, p *Process) error {
	var id uuid.UUID
	return s.callRow(ctx, `INSERT INTO `+s.schema+`.processes (id, name, queues, capabilities, lease, started_at, steady_since, expires_at)
		SELECT $1, $2, $3, $4, l.lease, t.now, t.now, t.now + l.lease
		FROM (SELECT clock_timestamp() AS now) t, (SELECT $5::bigint * interval '1 microsecond' AS lease) l
		RETURNING id`, []any{p.ID, p.Name, p.Queues, p.Capabilities, p.Lease.Microseconds()}, &id)
}

// Heartbeat renews the process and every lease that it has. Alive is false
// where its row is gone: then all its leases are lost.
func (s *Store) Heartbeat(ctx context.Context, process uuid.UUID) (alive bool, err error) {
	err = s.callRow(ctx, `SELECT `+s.schema+`.heartbeat($1)`, []any{process}, &alive)
	return alive, err
}

// Unregister removes the process's row, unless it still has leases: those of
// handlers that did not end are taken by others when the row expires.
func (s *Store) Unregister(ctx context.Context, process uuid.UUID) error {
	var gone bool
	return s.callRow(ctx, `WITH gone AS (
			DELETE FROM `+s.schema+`.processes p WHERE p.id = $1
				AND NOT EXISTS (SELECT FROM `+s.schema+`.leases l WHERE l.owner = p.id)
			RETURNING p.id),
		awake AS (
			DELETE FROM `+s.schema+`.sleepers s WHERE s.process = $1)
		SELECT EXISTS (SELECT FROM gone)`, []any{process}, &gone)
}

// Leases returns the tokens of the leases that a process has.
func (s *Store) Leases(ctx context.Context, process uuid.UUID) (tokens []uuid.UUID, err error) {
	err = s.call(ctx, `SELECT l.token FROM `+s.schema+`.leases l WHERE l.owner = $1`, []any{process}, func(rows pgx.Rows) error {
		tokens, err = pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
		return err
	})
	return tokens, err
}

// Recovery tells what one look for dead processes found.
type Recovery struct {
	Dead     int // processes
	Requeued int // of their jobs, those that wait again
	Buried   int // and those that became dead letters, their attempts spent

	Refused int    // leases that could not be taken for an error; the next look for orphans tries again
	Reason  string // one such error
}

// Recover takes the jobs of processes whose leases have expired. It does
// nothing before the caller has been in unbroken contact for one lease.
// Orphans also looks for leases that no process owns.
func (s *Store) Recover(ctx context.Context, process uuid.UUID, orphans bool) (Recovery, error) {
	var r Recovery
	err := s.callRow(ctx, `SELECT dead, requeued, buried, refused, COALESCE(reason, '') FROM `+s.schema+`.recover($1, $2)`,
		[]any{process, orphans}, &r.Dead, &r.Requeued, &r.Buried, &r.Refused, &r.Reason)
	return r, err
}

// EnsureDays makes the partitions of today and of the given number of days
// ahead, so that no enqueue has to.
func (s *Store) EnsureDays(ctx context.Context, ahead int) error {
	return s.call(ctx, `SELECT `+s.schema+`.ensure_day(`+s.schema+`.day_of(clock_timestamp()) + n) FROM generate_series(0, $1::integer) n`,
		[]any{ahead}, func(rows pgx.Rows) error {
			rows.Close()
			return rows.Err()
		})
}

// Stranded is waiting jobs of one payload version that no live process knows.
type Stranded struct {
	Queue   string
	Kind    string
	Version int
	Jobs    int
}

// Stranded counts the waiting jobs that no live process can decode. It walks
// the table of waiting jobs.
func (s *Store) Stranded(ctx context.Context) (all []Stranded, err error) {
	err = s.call(ctx, `
		WITH known AS (
			SELECT DISTINCT c.capability FROM `+s.schema+`.processes p CROSS JOIN LATERAL unnest(p.capabilities) c(capability)
			WHERE p.expires_at > clock_timestamp()
		), stranded AS (
			SELECT r.queue, r.capability, count(*) AS jobs, min(r.run_at) AS first FROM `+s.schema+`.ready r
			WHERE NOT EXISTS (SELECT FROM known k WHERE k.capability = r.capability)
			GROUP BY r.queue, r.capability
		)
		SELECT s.queue, j.kind, j.version, s.jobs FROM stranded s
		CROSS JOIN LATERAL (
			SELECT j.kind, j.version FROM `+s.schema+`.ready r JOIN `+s.schema+`.jobs j ON j.day = r.day AND j.id = r.id
			WHERE r.queue = s.queue AND r.run_at = s.first AND r.capability = s.capability LIMIT 1
		) j
		ORDER BY s.queue, j.kind, j.version`, nil, func(rows pgx.Rows) error {
		all, err = pgx.CollectRows(rows, pgx.RowToStructByPos[Stranded])
		return err
	})
	return all, err
}
