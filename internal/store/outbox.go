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
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
)

// OutboxQueue is what a relay listens for in place of a queue's name, which
// never begins with such a sign.
const OutboxQueue = "!outbox"

// NewEvent is one event to be published.
type NewEvent struct {
	ID             uuid.UUID
	Type           string
	AggregateType  string
	AggregateID    string
	OrganizationID string // empty for none
	Version        int
	Capability     int64
	OccurredAt     *time.Time // nil for the database's now
	Payload        string     // a JSON value
	Trace          string     // the context of the caller's trace; empty for none
	Wake           bool
}

// Publish stores an event through the caller's transaction in one call. Until
// that ends, nobody else publishes for the aggregate.
func Publish(ctx context.Context, q Querier, schema string, e *NewEvent) error {
	var void pgtype.Text
	return q.QueryRow(ctx, `SELECT `+quote(schema)+`.publish_event($1::text, $2::text, $3::text, $4::text, $5::integer, $6::bigint,
		$7::text::uuid, $8::text, $9::timestamptz, $10::text, $11::boolean)::text`,
		e.Type, e.AggregateType, e.AggregateID, e.OrganizationID, e.Version, e.Capability, e.ID.String(), e.Payload, e.OccurredAt, orNull(e.Trace), e.Wake).Scan(&void)
}

// EventType is what the database has to know of a type of event to publish it by
// plain SQL.
type EventType struct {
	Name              string          `json:"type"`
	AggregateType     string          `json:"aggregate_type"`
	Version           int             `json:"version"` // of the payload, the one to be written
	Capability        int64           `json:"capability"`
	OrganizationField string          `json:"organization_field,omitempty"` // a member of the payload; empty for none
	Shape             json.RawMessage `json:"shape,omitempty"`              // of the payload, as in a lock; empty takes anything
}

// RegisterEvents is [Store.RegisterKinds] of types of events.
func (s *Store) RegisterEvents(ctx context.Context, types []EventType) error {
	mine, err := json.Marshal(types)
	if err != nil {
		return fmt.Errorf("encode the types of events: %w", err)
	}
	const columns = `aggregate_type, version, capability, organization_field, shape`
	of := func(table string) string { return table + "." + strings.ReplaceAll(columns, ", ", ", "+table+".") }
	return s.call(ctx, `
		INSERT INTO `+s.schema+`.event_types AS e (type, `+columns+`, updated_at)
		SELECT m.type, `+of("m")+`, clock_timestamp()
		FROM jsonb_to_recordset($1::jsonb) m(type text, aggregate_type text, version integer, capability bigint, organization_field text, shape jsonb)
		LEFT JOIN `+s.schema+`.event_types known ON known.type = m.type
		WHERE known.type IS NULL OR known.version <= m.version AND (`+of("known")+`) IS DISTINCT FROM (`+of("m")+`)
		ORDER BY m.type
		ON CONFLICT (type) DO UPDATE SET (`+columns+`, updated_at) = (`+of("excluded")+`, excluded.updated_at)
		WHERE e.version <= excluded.version AND (`+of("e")+`) IS DISTINCT FROM (`+of("excluded")+`)`,
		[]any{string(mine)}, drain)
}

// RetryEvent makes a dead event pending again, through the caller's
// transaction, and returns whether it was one.
func RetryEvent(ctx context.Context, q Querier, schema string, id uuid.UUID) (found bool, err error) {
	err = q.QueryRow(ctx, `SELECT `+quote(schema)+`.retry_event($1::text::uuid)`, id.String()).Scan(&found)
	return found, err
}

// SkipEvent lets the aggregate of a dead event go on, through the caller's
// transaction, and returns whether it was held up by that event.
func SkipEvent(ctx context.Context, q Querier, schema string, id uuid.UUID) (found bool, err error) {
	err = q.QueryRow(ctx, `SELECT `+quote(schema)+`.skip_event($1::text::uuid)`, id.String()).Scan(&found)
	return found, err
}

// Pick asks for aggregates whose first event is due.
type Pick struct {
	// Floor is since when an event of them has become due, as the last look has
	// Seen it, or somewhat earlier.
	Floor time.Time
	// Visits is how many to look at besides, whenever theirs have become due, After
	// one in the order of their digests; zero for none.
	After        uuid.UUID
	Visits       int
	Limit        int // how many to return, about
	Capabilities []int64
	Process      uuid.UUID
	// Sleep says whether publishers shall wake the process from now on, if
	// nothing is found; nil where they did not and shall not.
	Sleep *bool
}

// Picked is the answer of a [Store.Pick].
type Picked struct {
	Aggregates []uuid.UUID
	Seen       time.Time     // up to when it has seen what became due
	More       bool          // after that there is more
	Reached    uuid.UUID     // the last one of the visits; Nil where there are no more
	Next       time.Duration // until the next event becomes due; zero for none
}

// Pick returns aggregates with due events, without any lock: whether they are
// still due is known when they are locked.
func (s *Store) Pick(ctx context.Context, p *Pick) (*Picked, error) {
	var (
		picked  Picked
		reached *uuid.UUID
		next    *int64
	)
	floor := pgtype.Timestamptz{Time: p.Floor, Valid: true}
	if p.Floor.IsZero() {
		floor.InfinityModifier = pgtype.NegativeInfinity
	}
	err := s.callRow(ctx, `SELECT aggregates, seen, more, reached, next_us FROM `+s.schema+`.pick_aggregates($1, $2, $3, $4, $5, $6, $7)`,
		[]any{floor, p.After, p.Visits, p.Limit, p.Capabilities, p.Process, p.Sleep}, &picked.Aggregates, &picked.Seen, &picked.More, &reached, &next)
	if err != nil {
		return nil, err
	}
	if reached != nil {
		picked.Reached = *reached
	}
	if next != nil {
		picked.Next = max(time.Duration(*next)*time.Microsecond, time.Microsecond)
	}
	return &picked, nil
}

// PendingEvent is an event that a [Projecting] has under its lock.
type PendingEvent struct {
	Aggregate uuid.UUID // the digest that stands for it
	Seq       int64
	ID        uuid.UUID
	Attempts  int  // used up so far
	Due       bool // it need not wait for another attempt
	Suspect   bool // a transaction that had it came to nothing: it may have ended its process
	Claimed   bool // an attempt of somebody else's has begun and never ended
	Mine      bool // the attempt that begins is written down

	// Missing says that the event has no row, so that all but the capability is
	// empty.
	Missing        bool
	Capability     int64
	Type           string
	AggregateType  string
	AggregateID    string
	OrganizationID string
	Version        int
	OccurredAt     time.Time
	PublishedAt    time.Time
	TraceContext   string
	Payload        []byte
}

// Projecting is the transaction of one batch of the relay, on a connection of
// the user's. It holds the locks of its aggregates until it ends.
type Projecting struct {
	Tx     pgx.Tx
	Events []PendingEvent // those of an aggregate together, in order
	Locked int            // aggregates
	At     time.Time      // when they were taken

	store *Store
	conn  *pgx.Conn
	mark  string
	by    string
	limit int
}

// eventSavepoint is where a projection that fails goes back to.
const eventSavepoint = "pawl_event"

// Share is how many events of each aggregate have been read at most.
func (p *Projecting) Share() int {
	if p.Locked == 0 {
		return 0
	}
	return p.limit/p.Locked + 1
}

// BeginProjecting locks those of the aggregates that nobody else has, and reads
// the first of their events: as many as make limit in all, and one more of each.
// They become suspects if the transaction comes to nothing. The server ends the transaction when it
// is idle for longer than idle, and a statement of it that takes longer than that.
// By is who does it, for the books.
func (s *Store) BeginProjecting(ctx context.Context, conn *pgx.Conn, aggregates []uuid.UUID, limit int, idle time.Duration, by string) (*Projecting, error) {
	return s.beginProjecting(ctx, conn, aggregates, limit, nil, idle, by)
}

// ClaimProjecting is [Store.BeginProjecting] of the first event of one aggregate,
// where that may end its process. First it writes down, in a transaction of its
// own, that an attempt begins. Should nobody ever say how it ended, it counts, so
// one that does not begin has to be taken back by [Store.Unclaim]: nothing is locked
// where another relay has taken the aggregate in between. Others leave it alone for
// five seconds from then on, in which it has to have begun.
//
// That is another transaction on the same connection, since one that needed a second
// one could wait for it in vain: behind a pooler, or in a pool that others have
// emptied for the same reason.
func (s *Store) ClaimProjecting(ctx context.Context, conn *pgx.Conn, aggregate, claim uuid.UUID, capabilities []int64, idle time.Duration, by string) (*Projecting, error) {
	written := claim.String()
	if _, err := conn.Exec(ctx, `SELECT `+s.schema+`.claim_event($1::text::uuid, $2::bigint[], $3::text::uuid, $4::text)`,
		aggregate.String(), capabilities, written, by); err != nil {
		return nil, explain(err)
	}
	return s.beginProjecting(ctx, conn, []uuid.UUID{aggregate}, 1, &written, idle, by)
}

// Unclaim takes back what [Store.ClaimProjecting] has written down, where the
// attempt did not begin: with an error, or since another relay had the lock.
func (s *Store) Unclaim(ctx context.Context, aggregate, claim uuid.UUID) error {
	return s.call(ctx, `SELECT `+s.schema+`.unclaim_event($1, $2)`, []any{aggregate, claim}, func(rows pgx.Rows) error {
		rows.Close()
		return rows.Err()
	})
}

func (s *Store) beginProjecting(ctx context.Context, conn *pgx.Conn, aggregates []uuid.UUID, limit int, claim *string, idle time.Duration, by string) (*Projecting, error) {
	tx, err := conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted, AccessMode: pgx.ReadWrite})
	if err != nil {
		return nil, err
	}
	p := &Projecting{Tx: tx, store: s, conn: conn, mark: uuid.NewString(), by: by, limit: limit}
	keys := make([]string, len(aggregates)) // as text, for every mode of the driver
	for i, a := range aggregates {
		keys[i] = a.String()
	}
	batch := &pgx.Batch{}
	// The user's own limit of a statement stays, where that is shorter.
	batch.Queue(`SELECT set_config('pawl.relay', $1::text, true), set_config('idle_in_transaction_session_timeout', $2::text, true),
		set_config('statement_timeout', CASE WHEN s.setting::bigint BETWEEN 1 AND $2::text::bigint THEN s.setting ELSE $2::text END, true)
		FROM pg_catalog.pg_settings s WHERE s.name = 'statement_timeout'`, p.mark, milliseconds(idle))
	batch.Queue(`SELECT aggregate::text, seq, id::text, attempts, due, suspect, claimed, mine, capability, type, aggregate_type, aggregate_id, organization_id, version,
		occurred_at, published_at, trace_context, payload
		FROM `+s.schema+`.take_events($1::text[]::uuid[], $2::integer, $3::text::uuid)`, keys, limit, claim).Query(p.read)
	batch.Queue(`SAVEPOINT ` + eventSavepoint)
	if err := conn.SendBatch(ctx, batch).Close(); err != nil {
		_ = tx.Rollback(ctx)
		return nil, explain(err)
	}
	return p, nil
}

func (p *Projecting) read(rows pgx.Rows) error {
	for rows.Next() {
		var (
			aggregate, id           pgtype.Text
			seq, capability         pgtype.Int8
			attempts                pgtype.Int2
			due, suspect            pgtype.Bool
			claimed, mine           pgtype.Bool
			kind, of, ofID, org     pgtype.Text
			version                 pgtype.Int4
			occurredAt, publishedAt pgtype.Timestamptz
			trace                   pgtype.Text
			payload                 []byte
		)
		if err := rows.Scan(&aggregate, &seq, &id, &attempts, &due, &suspect, &claimed, &mine, &capability, &kind, &of, &ofID, &org, &version, &occurredAt, &publishedAt, &trace, &payload); err != nil {
			return err
		}
		if !aggregate.Valid { // the last row, without an event
			p.Locked, p.At = int(seq.Int64), publishedAt.Time
			continue
		}
		e := PendingEvent{
			Seq: seq.Int64, Attempts: int(attempts.Int16), Due: due.Bool, Suspect: suspect.Bool, Claimed: claimed.Bool, Mine: mine.Bool,
			Missing: !kind.Valid, Capability: capability.Int64,
			Type: kind.String, AggregateType: of.String, AggregateID: ofID.String, OrganizationID: org.String, Version: int(version.Int32),
			OccurredAt: occurredAt.Time, PublishedAt: publishedAt.Time, TraceContext: trace.String, Payload: payload,
		}
		var err error
		if e.Aggregate, err = uuid.Parse(aggregate.String); err != nil {
			return err
		}
		if e.ID, err = uuid.Parse(id.String); err != nil {
			return err
		}
		p.Events = append(p.Events, e)
	}
	return rows.Err()
}

// Intact says whether the transaction is still open and usable: a projection
// can end it, or leave it failed.
func (p *Projecting) Intact() error {
	switch p.conn.PgConn().TxStatus() {
	case 'T':
		return nil
	case 'E':
		return errors.New("a statement of the projection failed, and it did not return the error")
	}
	return ErrTransactionEnded
}

// Projected marks an event, together with what its projection has done.
func (p *Projecting) Projected(ctx context.Context, e *PendingEvent) error {
	batch := &pgx.Batch{}
	// Outside of the savepoint, since it is the transaction that has the row's lock:
	// two of them on one row would cost more.
	batch.Queue(`RELEASE SAVEPOINT ` + eventSavepoint)
	batch.Queue(`SELECT `+p.store.schema+`.event_projected($1::text, $2::text::uuid, $3::bigint, $4::timestamptz, $5::text)`,
		p.mark, e.Aggregate.String(), e.Seq, p.At, p.by)
	batch.Queue(`SAVEPOINT ` + eventSavepoint)
	return projectingError(p.conn.SendBatch(ctx, batch).Close())
}

// EventFailure is how an attempt at an event ended that did not project it.
type EventFailure struct {
	Outcome       Outcome // not Completed
	Delay         time.Duration
	Code, Summary string
	Block         bool // of a dead event: hold up its aggregate
}

// Failed undoes what the projection of an event has done, and records that. A
// pgx savepoint that the projection left open goes with it.
func (p *Projecting) Failed(ctx context.Context, e *PendingEvent, f EventFailure) error {
	batch := &pgx.Batch{}
	// Where the transaction is another by now, there is no such savepoint.
	batch.Queue(`ROLLBACK TO SAVEPOINT ` + eventSavepoint)
	batch.Queue(`RELEASE SAVEPOINT ` + eventSavepoint)
	sql, args := p.store.failed(e, f, p.At, p.by)
	batch.Queue(sql, args...)
	batch.Queue(`SAVEPOINT ` + eventSavepoint)
	return projectingError(p.conn.SendBatch(ctx, batch).Close())
}

// Commit commits what has been projected. Between it and what was before,
// nobody waits for a process that was stopped.
func (p *Projecting) Commit(ctx context.Context) error {
	err := p.Tx.Commit(ctx) // whoever still holds it finds it closed
	if errors.Is(err, pgx.ErrTxCommitRollback) {
		return ErrTransactionEnded
	}
	return err
}

func projectingError(err error) error {
	pgErr, ok := errors.AsType[*pgconn.PgError](err)
	switch {
	case !ok:
		return err
	case pgErr.Code == stateTransactionEnded, pgErr.Code == "3B001", // no such savepoint
		pgErr.Code == "25P01": // no transaction
		return fmt.Errorf("%w: %w", ErrTransactionEnded, err)
	case pgErr.Code == stateFenced:
		return fmt.Errorf("%w: %w", ErrFenced, err)
	}
	return err
}

// EventFailed records an attempt whose transaction came to nothing, in one of
// its own. It returns false where somebody else has seen to the event meanwhile.
func (s *Store) EventFailed(ctx context.Context, e *PendingEvent, f EventFailure, claimedAt time.Time, by string) (recorded bool, err error) {
	sql, args := s.failed(e, f, claimedAt, by)
	err = s.callRow(ctx, sql, args, &recorded)
	return recorded, err
}

func (s *Store) failed(e *PendingEvent, f EventFailure, claimedAt time.Time, by string) (sql string, args []any) {
	var code *string
	if f.Code != "" {
		code = &f.Code
	}
	return `SELECT ` + s.schema + `.event_failed($1::text::uuid, $2::bigint, $3::smallint, $4::smallint, $5::bigint, $6::text, $7::text, $8::boolean, $9::timestamptz, $10::text)`,
		[]any{e.Aggregate.String(), e.Seq, int16(e.Attempts), int16(f.Outcome), f.Delay.Microseconds(), code, f.Summary, f.Block, claimedAt, by}
}

// EventLag is the pending events of one payload version.
type EventLag struct {
	Type    string
	Version int
	Pending int64
	Oldest  time.Duration // since the first of them was published
	Known   bool          // a live process can decode them
}

// Lag counts what is not projected yet, and the aggregates that are blocked. It
// reads every pending row.
func (s *Store) Lag(ctx context.Context) (lags []EventLag, blocked int64, err error) {
	err = s.call(ctx, `
		WITH known AS (
			SELECT DISTINCT c.capability FROM `+s.schema+`.processes p CROSS JOIN LATERAL unnest(p.capabilities) c(capability)
			WHERE p.expires_at > clock_timestamp()
		), pending AS (
			SELECT p.capability, count(*) AS n, min(p.published_at) AS oldest, (min(ARRAY[p.day::text, p.id::text])) AS one
			FROM `+s.schema+`.pending_events p GROUP BY p.capability
		), blocked AS (
			SELECT count(*) AS n FROM `+s.schema+`.blocked_aggregates
		)
		SELECT COALESCE(e.type, ''), COALESCE(e.version, 0), COALESCE(p.n, 0),
			COALESCE((extract(epoch FROM clock_timestamp() - p.oldest) * 1000000)::bigint, 0),
			EXISTS (SELECT FROM known k WHERE k.capability = p.capability), b.n
		FROM blocked b LEFT JOIN pending p ON true
		LEFT JOIN `+s.schema+`.events e ON e.day = p.one[1]::integer AND e.id = p.one[2]::uuid
		ORDER BY 1, 2`, nil, func(rows pgx.Rows) error {
		for rows.Next() {
			var (
				l      EventLag
				oldest int64
			)
			if err := rows.Scan(&l.Type, &l.Version, &l.Pending, &oldest, &l.Known, &blocked); err != nil {
				return err
			}
			if l.Oldest = max(time.Duration(oldest)*time.Microsecond, 0); l.Pending > 0 {
				lags = append(lags, l)
			}
		}
		return rows.Err()
	})
	return lags, blocked, err
}

// EnsureEventDays makes the outbox's partitions of today and of the given
// number of days ahead, so that no publishing has to.
func (s *Store) EnsureEventDays(ctx context.Context, ahead int) error {
	return s.call(ctx, `SELECT `+s.schema+`.ensure_day(`+s.schema+`.day_of(clock_timestamp()) + n, '{events,event_outcomes,event_errors}')
		FROM generate_series(0, $1::integer) n`, []any{ahead}, drain)
}

// Tables of the outbox that are partitioned by day.
const (
	Events        = "events"
	EventOutcomes = "event_outcomes"
	EventErrors   = "event_errors"
)

// EventLeaves is [Store.Leaves] of the outbox.
func (s *Store) EventLeaves(ctx context.Context) ([]Leaf, error) {
	return s.leaves(ctx, "event_leaves")
}

// RekeyEvents moves pending events to today, so that their days can be emptied
// at an age, and returns how many, at most limit, and out of which days. Where it
// is as many as that, there may be more.
func (s *Store) RekeyEvents(ctx context.Context, age time.Duration, limit int) (moved int, days []int, err error) {
	err = s.callRow(ctx, `SELECT moved, days FROM `+s.schema+`.rekey_events($1, $2)`, []any{age.Microseconds(), limit}, &moved, &days)
	return moved, days, err
}

// EmptyEvents is [Store.Empty] of the outbox.
func (s *Store) EmptyEvents(ctx context.Context, l Leaf, tries int) (answer Emptying, err error) {
	err = s.callRow(ctx, `SELECT `+s.schema+`.empty_event_leaf($1, $2, $3)`, []any{l.Parent, l.Day, tries}, &answer)
	return answer, err
}

// PurgeDeadEvents removes dead events that died at least age ago and hold up
// nothing, at most limit of them, and returns how many.
func (s *Store) PurgeDeadEvents(ctx context.Context, age time.Duration, limit int) (removed int, err error) {
	err = s.callRow(ctx, `SELECT `+s.schema+`.purge_dead_events($1, $2)`, []any{age.Microseconds(), limit}, &removed)
	return removed, err
}
