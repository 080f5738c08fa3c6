package admin_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/pawlgo/pawl/admin"
	"github.com/pawlgo/pawl/internal/rights"
	"github.com/pawlgo/pawl/internal/testdb"
	"github.com/pawlgo/pawl/task"
)

// auditRow is what a test holds a row of the audit against.
type auditRow struct {
	By     string          `json:"made_by"`
	Role   string          `json:"role"`
	Verb   string          `json:"verb"`
	Target json.RawMessage `json:"target"`
	Things int             `json:"things"`
	Reason string          `json:"reason"`
}

// audited returns the rows of the audit, the oldest first, and removes them.
func audited(t *testing.T, pool *pgxpool.Pool) (rows []auditRow) {
	t.Helper()
	text := query[string](t, pool, `WITH gone AS (DELETE FROM pawl.audit RETURNING *)
		SELECT COALESCE(jsonb_agg(to_jsonb(g) ORDER BY g.began_at, g.id), '[]')::text FROM gone g`)
	require.NoError(t, json.Unmarshal([]byte(text), &rows))
	return rows
}

// Whatever an operator changes by plain SQL is in the audit: once, and not where
// nothing was changed. What handlers do in the course of their work is not.
func TestAuditOfPlainSQL(t *testing.T) {
	t.Parallel()
	pool, c := open(t)
	k := mailed()
	dead := bury(t, pool, c, k, "gone", 6)
	late := func() uuid.UUID { return put(t, pool, k, args{N: 1}, task.In(time.Hour)) }
	now, cancelled := late(), late()
	exec(t, pool, `INSERT INTO pawl.schedules (kind, spec, zone, missed, cursor, next_tick, registered_at, registered_by)
		VALUES ('tick', '@yearly', 'UTC', 'one', now(), now() + interval '1 year', now(), 'a worker')`)
	event, blocking := uuid.New(), uuid.New()
	for n, id := range []uuid.UUID{event, blocking} {
		exec(t, pool, `INSERT INTO pawl.dead_events (event_id, seq, type, aggregate_type, aggregate_id, organization_id, version, capability, attempts, code, summary, occurred_at, published_at, died_at, payload)
			SELECT $1, $2::bigint, 'paid', 'order', ($2::bigint)::text, '', 1, 1, 1, 'x', 'y', now(), now(), now(), '{}'`, id, n)
	}
	exec(t, pool, `INSERT INTO pawl.blocked_aggregates SELECT pawl.aggregate_of('order', '1'), $1, now()`, blocking)
	run := uuid.New()
	exec(t, pool, `INSERT INTO pawl.redrives (id, filter, made_by, reason, canary, rate, stop_share, state, started_at, last_at)
		VALUES ($1, '{"all": true}', 'alice', '', 0, 0, 0, 'running', now(), now())`, run)

	for n := range 2 {
		put(t, pool, k, args{N: n, Org: "acme"}, task.In(time.Hour))
	}

	job := func(id uuid.UUID) string { return fmt.Sprintf(`{"job": %q}`, id) }
	operator, worker := testdb.As(t, pool, testdb.Operator), testdb.As(t, pool, testdb.Worker)
	called := map[string]bool{"redrive_ends": true} // counts
	for _, x := range []struct {
		function     string
		args         []any
		verb, target string
		things       int
		handlers     bool // do so too
	}{
		{"cancel", []any{cancelled}, "cancel job", job(cancelled), 1, true},
		{"cancel_organization", []any{"acme"}, "cancel organization", `{"organization_id": "acme"}`, 2, true},
		{"pause", []any{"mail"}, "pause queue", `{"queue": "mail"}`, 1, true},
		{"resume", []any{"mail"}, "resume queue", `{"queue": "mail"}`, 1, true},
		{"run_schedule", []any{"tick"}, "run schedule now", `{"kind": "tick"}`, 1, true},
		{"pause_schedule", []any{"tick"}, "pause schedule", `{"kind": "tick"}`, 1, true},
		{"resume_schedule", []any{"tick"}, "resume schedule", `{"kind": "tick"}`, 1, true},
		{"retry_event", []any{event}, "retry event", fmt.Sprintf(`{"event": %q}`, event), 1, true},
		{"skip_event", []any{blocking}, "skip event", fmt.Sprintf(`{"event": %q}`, blocking), 1, true},
		{"run_now", []any{now}, "run job now", job(now), 1, false},
		{"redrive", []any{dead[:1], nil, nil}, "retry job", job(dead[0]), 1, false},
		{"redrive", []any{dead[1:3], nil, 2}, "retry job", fmt.Sprintf(`{"jobs": [%q, %q]}`, dead[1], dead[2]), 2, false},
		{"redrive", []any{dead[3:4], run, nil}, "redrive dead letters", fmt.Sprintf(`{"redrive": %q, "filter": {"all": true}}`, run), 1, false},
		{"purge_letters", []any{dead[4:5]}, "purge dead letters", fmt.Sprintf(`{"jobs": [%q]}`, dead[4]), 1, false},
	} {
		called[x.function] = true
		call := `SELECT pawl.` + x.function + []string{`($1)`, `($1, $2)`, `($1, $2, $3)`}[len(x.args)-1]
		// As the others do, in a transaction that is taken back.
		for _, other := range []*pgxpool.Pool{worker, pool} {
			err := pgx.BeginFunc(t.Context(), other, func(tx pgx.Tx) error {
				_, err := tx.Exec(t.Context(), call, x.args...)
				if err == nil {
					err = errors.New("take it back")
					if other == pool {
						var rows int
						require.NoError(t, tx.QueryRow(t.Context(), `SELECT count(*) FROM pawl.audit`).Scan(&rows))
						require.Equal(t, !x.handlers, rows == 1, "the owner, by %s", call)
					}
				}
				return err
			})
			if refused, ok := errors.AsType[*pgconn.PgError](err); ok {
				require.False(t, x.handlers || other == pool, "%s: %v", call, err)
				require.Equal(t, "42501", refused.Code)
			}
		}
		for range 2 { // the second one changes nothing, but for another request of a schedule
			_, err := operator.Exec(t.Context(), call, x.args...)
			require.NoError(t, err, call)
			if x.function == "run_schedule" {
				break
			}
		}
		rows := audited(t, pool)
		require.Len(t, rows, 1, call)
		require.JSONEq(t, x.target, string(rows[0].Target), call)
		rows[0].Target = nil
		require.Equal(t, auditRow{By: testdb.Operator, Role: testdb.Operator, Verb: x.verb, Things: x.things}, rows[0])
	}
	for _, o := range rights.Objects() {
		if o.Class == rights.Function && o.To(rights.Operator) != "" && o.To(rights.Viewer) == "" {
			require.True(t, called[o.Name], "%s changes something, and is not audited", o.Name)
		}
	}

	// Handlers cancel and pause without a row; the same by a role that is an
	// operator's for the moment has one.
	for _, call := range []string{`SELECT pawl.pause('mail')`, `SELECT pawl.resume('mail')`} {
		_, err := worker.Exec(t.Context(), call)
		require.NoError(t, err)
	}
	require.Empty(t, audited(t, pool))
	exec(t, pool, `SET ROLE `+testdb.Operator+`; SELECT pawl.pause('mail'); RESET ROLE`, pgx.QueryExecModeSimpleProtocol)
	require.Len(t, audited(t, pool), 1)
	booksAddUp(t, pool)
}

// Nobody adds to what somebody else has done, or to what was something else, and
// nobody writes what did not happen.
func TestAuditIsNotRewritten(t *testing.T) {
	t.Parallel()
	pool, c := openOwned(t) // another role than the operator, whose row that is
	_, err := c.PauseQueue(t.Context(), "mail", "an incident")
	require.NoError(t, err)
	id := query[uuid.UUID](t, pool, `SELECT id FROM pawl.audit`)
	before := query[string](t, pool, `SELECT a::text FROM pawl.audit a`)
	operator := testdb.As(t, pool, testdb.Operator)
	for _, sql := range []string{
		`SELECT pawl.audited('pause queue', '{"queue": "mail"}', 5, false)`, `INSERT INTO pawl.audit SELECT * FROM pawl.audit`, `UPDATE pawl.audit SET things = 0`,
		`DELETE FROM pawl.audit`, `TRUNCATE pawl.audit`, `SELECT pawl.purge_audit(0, 10)`,
	} {
		_, err := operator.Exec(t.Context(), sql)
		refused, ok := errors.AsType[*pgconn.PgError](err)
		require.True(t, ok, "%s: %v", sql, err)
		require.Equal(t, "42501", refused.Code, sql)
	}
	for _, queue := range []string{"mail", "other"} {
		for _, by := range []string{"alice", "mallory"} {
			note, err := json.Marshal(map[string]any{"id": id, "by": by, "reason": "an incident"})
			require.NoError(t, err)
			require.NoError(t, pgx.BeginFunc(t.Context(), operator, func(tx pgx.Tx) error {
				_, err := tx.Exec(t.Context(), `SELECT set_config('pawl.audit', $1, true), pawl.resume($2), pawl.pause($2)`, string(note), queue)
				return err
			}))
		}
	}
	require.Equal(t, before, query[string](t, pool, `SELECT a::text FROM pawl.audit a WHERE id = $1`, id))
	// Resumed and paused twice over, but for the first time that other was not paused.
	require.Equal(t, 1+4+3, query[int](t, pool, `SELECT count(*) FROM pawl.audit`))
	require.Equal(t, 7, query[int](t, pool, `SELECT count(*) FROM pawl.audit WHERE role = $1 AND things = 1`, testdb.Operator))

	// A worker, which does the housekeeping, gets rid of nothing that is recent.
	_, err = testdb.As(t, pool, testdb.Worker).Exec(t.Context(), `SELECT pawl.purge_audit(-1000000000000, 1000)`)
	require.NoError(t, err)
	require.Equal(t, 8, query[int](t, pool, `SELECT count(*) FROM pawl.audit`))
}

// A redrive that somebody else goes on with is in the audit under both names.
func TestAuditOfTwo(t *testing.T) {
	t.Parallel()
	pool, c := open(t)
	bury(t, pool, c, mailed(), "gone", 4)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	run, err := c.Redrive(ctx, admin.RedriveOptions{Filter: admin.DeadFilter{All: true}, Rate: 1, Reason: "they are back", Progress: func(r admin.Redrive) {
		if r.Redriven > 0 {
			cancel()
		}
	}})
	require.ErrorIs(t, err, context.Canceled)
	exec(t, pool, `UPDATE pawl.redrives SET rate = 0`)
	_, err = admin.New(pool, admin.Options{By: "bob"}).ContinueRedrive(t.Context(), run.ID, admin.RedriveOptions{})
	require.NoError(t, err)
	rows := audited(t, pool)
	require.Len(t, rows, 2)
	for n, x := range []struct {
		by     string
		things int
	}{{"alice", 1}, {"bob", 3}} {
		require.Equal(t, x.by, rows[n].By)
		require.Equal(t, x.things, rows[n].Things)
		require.Equal(t, "they are back", rows[n].Reason)
	}
}
