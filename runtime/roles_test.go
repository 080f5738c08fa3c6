package runtime_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/pawlgo/pawl/internal/store"
	"github.com/pawlgo/pawl/internal/testdb"
	pawlrt "github.com/pawlgo/pawl/runtime"
	"github.com/pawlgo/pawl/task"
	"github.com/pawlgo/pawl/task/taskimpl"
)

// ownRole makes a role of this test's own, with the rights of a producer and what
// else is granted, which the worker may set.
func ownRole(t *testing.T, pool *pgxpool.Pool, grants ...string) string {
	t.Helper()
	role := "pawl_test_" + uuid.NewString()[:8]
	exec(t, pool, `CREATE ROLE `+role)
	t.Cleanup(func() {
		_, err := pool.Exec(context.WithoutCancel(t.Context()), `DROP OWNED BY `+role+`; DROP ROLE `+role)
		require.NoError(t, err)
	})
	exec(t, pool, `GRANT `+role+` TO `+testdb.Worker)
	for _, g := range append(grants, `USAGE ON SCHEMA pawl`, `EXECUTE ON FUNCTION pawl.enqueue_job, pawl.enqueue_jobs, pawl.enqueue, pawl.publish, pawl.publish_event`) {
		exec(t, pool, `GRANT `+g+` TO `+role)
	}
	return role
}

// Everything that workers and producers do, each with the rights of its role, none
// of them an owner of anything, and with nothing in the search_path.
func TestEverythingUnderRoles(t *testing.T) {
	t.Parallel()
	owner := projections(t)
	exec(t, owner, `CREATE TABLE effects (n int NOT NULL, attempt int NOT NULL)`)
	emptyPath := func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams["search_path"] = "" }
	workers := changed(t, testdb.As(t, owner, testdb.Worker), emptyPath)
	producers := changed(t, testdb.As(t, owner, testdb.Producer), emptyPath)

	plain := kind("plain", "q", func(k *taskimpl.Kind[args]) {
		k.Shape = `{"root":{"kind":"struct","ref":"args"},"structs":{"args":[{"json":"n","go":"N","type":{"kind":"int"}},` +
			`{"json":"mode","go":"Mode","type":{"kind":"string"},"omitempty":true}]}}`
	})
	keyed := kind("keyed", "q", func(k *taskimpl.Kind[args]) {
		k.Key, k.Keep = func(a *args) []any { return []any{a.N} }, time.Hour
	})
	ordered := kind("ordered", "q", func(k *taskimpl.Kind[args]) { k.Order = []string{"mode"} })
	inTx := kind("in_tx", "q")
	e := event()
	log := &records{}
	w := start(t, workers, pawlrt.Config{
		Lease: 3 * time.Second, Logger: slog.New(log),
		Tables: []task.Table{
			table(everySecond(), fine),
			table(plain, func(_ context.Context, job *task.Job[args]) error {
				switch {
				case job.Args.Mode == "retry" && job.Attempt == 1:
					return task.Transient(errors.New("once"))
				case job.Args.Mode == "dead":
					return task.Permanent(errors.New("never"))
				}
				return nil
			}),
			table(keyed, fine), table(ordered, fine),
			txTable(inTx, func(ctx context.Context, tx pgx.Tx, job *task.Job[args]) error {
				if _, err := tx.Exec(ctx, `INSERT INTO public.effects (n, attempt) VALUES ($1, $2)`, job.Args.N, job.Attempt); err != nil {
					return err
				}
				_, err := taskimpl.Enqueue(ctx, tx, plain, args{N: 100}, nil)
				return err
			}),
		},
		Events: []task.EventTable{taskimpl.EventTable(taskimpl.EventRow(e, func(ctx context.Context, tx pgx.Tx, f *task.Fact[args]) error {
			_, err := tx.Exec(ctx, `INSERT INTO public.projected (id, aggregate, n, seq, attempt) VALUES ($1, $2, $3, $4, $5)`,
				f.ID, f.AggregateID, f.Payload.N, f.Sequence, f.Attempt)
			return err
		}))},
		Retention: pawlrt.Retention{Every: 200 * time.Millisecond},
	})
	exec(t, owner, `SELECT pawl.ensure_day(pawl.day_of(now()) - n, '{jobs,outcomes,job_errors,archive,events,event_outcomes,event_errors}') FROM generate_series(120, 121) n`)

	tx := task.Autocommit(producers)
	for _, mode := range []string{"", "retry", "dead"} {
		_, err := taskimpl.Enqueue(t.Context(), tx, plain, args{Mode: mode}, nil)
		require.NoError(t, err)
	}
	first, err := taskimpl.Enqueue(t.Context(), tx, keyed, args{N: 1}, nil)
	require.NoError(t, err)
	second, err := taskimpl.Enqueue(t.Context(), tx, keyed, args{N: 1}, nil)
	require.NoError(t, err)
	require.Equal(t, first.ID, second.ID)
	require.True(t, second.Duplicate && second.SameArgs)
	_, err = taskimpl.EnqueueMany(t.Context(), tx, ordered, numbered(3, "one"), nil)
	require.NoError(t, err)
	_, err = taskimpl.Enqueue(t.Context(), tx, inTx, args{N: 7}, nil)
	require.NoError(t, err)
	_, err = taskimpl.Publish(t.Context(), tx, e, "trip 1", args{N: 5}, nil)
	require.NoError(t, err)
	late, err := taskimpl.Enqueue(t.Context(), tx, plain, args{}, []task.EnqueueOption{task.In(time.Hour)})
	require.NoError(t, err)
	testdb.Eventually(t, slow, "plain SQL to know the kinds", func() bool {
		return query[bool](t, owner, `SELECT EXISTS (SELECT FROM pawl.kinds WHERE kind = 'plain') AND EXISTS (SELECT FROM pawl.event_types)`)
	})
	require.NotEqual(t, uuid.Nil, query[uuid.UUID](t, producers, `SELECT id FROM pawl.enqueue('plain', '{"n": 8}')`))
	require.NotEqual(t, uuid.Nil, query[uuid.UUID](t, producers, `SELECT pawl.publish('trip.completed', 'trip 2', '{"n": 6}')`))

	state, err := task.Cancel(t.Context(), task.Autocommit(workers), late.ID)
	require.NoError(t, err)
	require.Equal(t, task.StateCancelled, state)
	changed, err := task.Pause(t.Context(), task.Autocommit(workers), "q")
	require.NoError(t, err)
	require.True(t, changed)
	changed, err = task.Resume(t.Context(), task.Autocommit(workers), "q")
	require.NoError(t, err)
	require.True(t, changed)

	testdb.Eventually(t, 3*slow, "everything to end", func() bool {
		return query[bool](t, owner, `SELECT count(*) FILTER (WHERE status = 'completed' AND kind <> 'every_second') = 9
			AND count(*) FILTER (WHERE status = 'dead') = 1 AND count(*) FILTER (WHERE status = 'cancelled') = 1
			AND count(*) FILTER (WHERE status = 'completed' AND kind = 'every_second') > 0 FROM pawl.job_status`) &&
			status(t, owner)["projected"] == 2 && query[int](t, owner, `SELECT count(*) FROM effects`) == 1
	})
	testdb.Eventually(t, 3*slow, "the old days to be removed", func() bool {
		return query[int](t, owner, `SELECT count(*) FROM pg_class WHERE relnamespace = 'pawl'::regnamespace AND relname ~ '_d[0-9]+$'
			AND substring(relname FROM '[0-9]+$')::integer < pawl.day_of(now()) - 60 AND relkind = 'r'`) == 0
	})
	require.NoError(t, w.shutdown(t))
	require.Empty(t, log.with("permission denied"))
	require.Empty(t, log.with("must be owner"))
}

// What each role must not be able to do.
func TestRolesAreRefused(t *testing.T) {
	t.Parallel()
	owner := testdb.Migrated(t)
	id := put(t, owner, kind("k", "q"), args{N: 1})[0].String()
	for role, statements := range map[string][]string{
		testdb.Worker: {
			`UPDATE pawl.jobs SET args = '{}'`, `TRUNCATE pawl.outcomes`, `TRUNCATE pawl.jobs`, `DROP TABLE pawl.jobs`,
			`DELETE FROM pawl.outcomes`, `INSERT INTO pawl.audit DEFAULT VALUES`, `SELECT pawl.truncate_leaf('pawl.jobs', 1)`, `CREATE TABLE pawl.x (n int)`,
			`CREATE FUNCTION pawl.x() RETURNS int LANGUAGE sql RETURN 1`, `SELECT pawl.redrive('{}', NULL, NULL)`, `ALTER FUNCTION pawl.claim RENAME TO c`,
			`SELECT pawl.audited('v', '{}', 1, false)`, `DELETE FROM pawl.audit`, `UPDATE pawl.migrations SET version = 0`,
		},
		testdb.Producer: {
			`SELECT FROM pawl.jobs`, `SELECT args FROM pawl.jobs`, `INSERT INTO pawl.jobs DEFAULT VALUES`, `INSERT INTO pawl.ready DEFAULT VALUES`, `DELETE FROM pawl.ready`,
			`SELECT * FROM pawl.job_status`, `SELECT * FROM pawl.outbox_events`, `SELECT * FROM pawl.kinds`, `SELECT * FROM pawl.idempotency_keys`, `SELECT * FROM pawl.dead_letters`,
			`SELECT * FROM pawl.events`, `SELECT pawl.cancel('` + id + `')`, `SELECT pawl.pause('q')`, `SELECT pawl.ensure_day(1)`, `SELECT pawl.job_state(1, '` + id + `')`,
			`SELECT * FROM pawl.leaves()`, `SELECT pawl.heartbeat('` + id + `')`, `SELECT pawl.shown_payload('jobs', 1, '` + id + `', 10, NULL)`, `SELECT nextval('pawl.event_seq')`,
			`SELECT * FROM pawl.settle('` + id + `', '{}', '{}', '{}', '{}', '{}', '{}', '{}')`, `SELECT * FROM pawl.redactions`, `SELECT * FROM pawl.sleepers`,
		},
		testdb.Viewer: {
			`SELECT args FROM pawl.jobs`, `SELECT * FROM pawl.jobs`, `SELECT count(j) FROM pawl.jobs j`, `SELECT args FROM pawl.dead_letters`, `SELECT args FROM pawl.archive`,
			`SELECT payload FROM pawl.events`, `SELECT payload FROM pawl.dead_events`, `SELECT payload FROM pawl.outbox_events`, `SELECT args_digest FROM pawl.idempotency_keys`,
			`SELECT pawl.cancel('` + id + `')`, `SELECT pawl.pause('q')`, `SELECT pawl.run_now('` + id + `')`, `UPDATE pawl.samples SET sample = NULL`, `DELETE FROM pawl.ready`,
			`SELECT * FROM pawl.enqueue('k', '{}')`, `COPY pawl.jobs TO STDOUT`, `SELECT order_key FROM pawl.ordered`, `SELECT order_key FROM pawl.jobs`,
			`SELECT key FROM pawl.idempotency_keys`, `SELECT idempotency_key FROM pawl.archive`, `SELECT order_key FROM pawl.order_turns`,
		},
		testdb.Operator: {
			`SELECT args FROM pawl.jobs`, `SELECT payload FROM pawl.outbox_events`, `DELETE FROM pawl.ready`, `DELETE FROM pawl.dead_letters`, `UPDATE pawl.audit SET reason = ''`,
			`DELETE FROM pawl.audit`, `INSERT INTO pawl.audit DEFAULT VALUES`, `DELETE FROM pawl.redrives`, `SELECT * FROM pawl.enqueue('k', '{}')`, `SELECT pawl.heartbeat('` + id + `')`,
			`UPDATE pawl.jobs SET priority = 4`, `UPDATE pawl.redactions SET paths = '[]'`,
		},
	} {
		as := testdb.As(t, owner, role)
		for _, sql := range statements {
			_, err := as.Exec(t.Context(), sql, pgx.QueryExecModeSimpleProtocol)
			refused, ok := errors.AsType[*pgconn.PgError](err)
			require.True(t, ok, "%s: %s: %v", role, sql, err)
			require.Equal(t, "42501", refused.Code, "%s: %s: %v", role, sql, err)
		}
	}
	var same int
	require.NoError(t, owner.QueryRow(t.Context(), `SELECT count(*) FROM pawl.jobs WHERE args = '{"n": 1}'`).Scan(&same))
	require.Equal(t, 1, same)
}

// Row-level security of the application's, forced on the owner too; an enqueue after
// SET LOCAL ROLE, and a handler that sets a role.
func TestRowLevelSecurity(t *testing.T) {
	t.Parallel()
	owner := testdb.Migrated(t)
	exec(t, owner, `CREATE TABLE orders (tenant text NOT NULL, n int NOT NULL)`)
	exec(t, owner, `ALTER TABLE orders ENABLE ROW LEVEL SECURITY`)
	exec(t, owner, `ALTER TABLE orders FORCE ROW LEVEL SECURITY`)
	exec(t, owner, `CREATE POLICY own ON orders USING (tenant = current_setting('app.tenant', true)) WITH CHECK (tenant = current_setting('app.tenant', true))`)
	tenant := ownRole(t, owner, `SELECT, INSERT ON orders`)
	// Where a policy would hide rows, whoever asks for that gets an error: none of
	// Pawl's tables has one.
	off := changed(t, testdb.As(t, owner, testdb.Worker), func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams["row_security"] = "off" })
	workers := testdb.As(t, owner, testdb.Worker)

	k := kind("k", "q", func(k *taskimpl.Kind[args]) { k.Organization = func(a *args) (string, error) { return a.Mode, nil } })
	next := kind("next", "q")
	asTenant := func(ctx context.Context, tx pgx.Tx, name string) error {
		_, err := tx.Exec(ctx, fmt.Sprintf(`SET LOCAL ROLE %s; SET LOCAL app.tenant = '%s'`, tenant, name), pgx.QueryExecModeSimpleProtocol)
		return err
	}
	start(t, off, pawlrt.Config{Tables: []task.Table{table(next, fine)}})
	start(t, workers, pawlrt.Config{Tables: []task.Table{txTable(k, func(ctx context.Context, tx pgx.Tx, job *task.Job[args]) error {
		if err := asTenant(ctx, tx, job.OrganizationID); err != nil {
			return err
		}
		var sees int
		if err := tx.QueryRow(ctx, `SELECT count(*) FROM orders`).Scan(&sees); err != nil {
			return err
		}
		if sees != 1 {
			return task.Permanent(fmt.Errorf("it sees %d orders", sees))
		}
		if _, err := tx.Exec(ctx, `INSERT INTO orders (tenant, n) VALUES ($1, 2)`, job.OrganizationID); err != nil {
			return err
		}
		// As the tenant still.
		_, err := taskimpl.Enqueue(ctx, tx, next, args{}, nil)
		return err
	})}})
	for _, name := range []string{"ada", "bob"} {
		tx, err := workers.Begin(t.Context())
		require.NoError(t, err)
		defer tx.Rollback(context.WithoutCancel(t.Context()))
		require.NoError(t, asTenant(t.Context(), tx, name))
		_, err = tx.Exec(t.Context(), `INSERT INTO orders (tenant, n) VALUES ($1, 1)`, name)
		require.NoError(t, err)
		_, err = taskimpl.Enqueue(t.Context(), tx, k, args{Mode: name}, nil)
		require.NoError(t, err)
		// The enqueue leaves the role and the settings as they were.
		require.Equal(t, tenant+" "+name, query[string](t, tx, `SELECT current_user || ' ' || current_setting('app.tenant')`))
		savepoint, err := tx.Begin(t.Context())
		require.NoError(t, err)
		_, err = savepoint.Exec(t.Context(), `SELECT args FROM pawl.jobs`)
		refused, ok := errors.AsType[*pgconn.PgError](err)
		require.True(t, ok)
		require.Equal(t, "42501", refused.Code)
		require.NoError(t, savepoint.Rollback(t.Context()))
		require.NoError(t, tx.Commit(t.Context()))
	}
	require.Equal(t, store.Audit{Completed: 4}, settled(t, owner, 4))
	require.Equal(t, 4, query[int](t, owner, `SELECT count(*) FROM orders`), "the owner of the tests is a superuser")
}
