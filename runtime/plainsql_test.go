package runtime_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
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

// shaped gives a kind the wire shape of args, as generated code would.
func shaped(k *taskimpl.Kind[args]) {
	k.Shape = `{"root":{"kind":"struct","ref":"args"},"structs":{"args":[` +
		`{"json":"n","go":"N","type":{"kind":"int"}},{"json":"mode","go":"Mode","type":{"kind":"string"},"omitempty":true}]}}`
}

// keyedFor declares idempotency by N.
func keyedFor(keep time.Duration) func(*taskimpl.Kind[args]) {
	return func(k *taskimpl.Kind[args]) {
		k.Keep, k.Key = keep, func(a *args) []any { return []any{a.N} }
	}
}

// registered waits until a kind is in the database with a payload version.
func registered(t *testing.T, pool *pgxpool.Pool, kind string, version int) {
	t.Helper()
	testdb.Eventually(t, slow, "the kind to be registered", func() bool {
		return query[bool](t, pool, `SELECT EXISTS (SELECT FROM pawl.kinds WHERE kind = $1 AND version = $2)`, kind, version)
	})
}

// introduce lets a worker register a kind, and stops it.
func introduce(t *testing.T, pool *pgxpool.Pool, k *taskimpl.Kind[args]) {
	t.Helper()
	w := start(t, pool, pawlrt.Config{Tables: []task.Table{table(k, done)}})
	registered(t, pool, k.Name, k.Version)
	require.NoError(t, w.shutdown(t))
}

// done is a handler that has nothing to do.
func done(context.Context, *task.Job[args]) error { return nil }

// plain enqueues by plain SQL and returns the receipt.
func plain(ctx context.Context, db task.Querier, list string, values ...any) (r task.Receipt, err error) {
	err = db.QueryRow(ctx, `SELECT id, duplicate, same_args, state FROM pawl.enqueue(`+list+`)`, values...).
		Scan(&r.ID, &r.Duplicate, &r.SameArgs, &r.State)
	return r, err
}

// A job that SQL enqueued is one like those of Go, and wakes an idle worker.
func TestPlainSQLRunsAsGoDoes(t *testing.T) {
	t.Parallel()
	pool := testdb.Migrated(t)
	k := kind("work", "q", shaped)
	jobs := make(chan task.Job[args], 2)
	w := start(t, pool, pawlrt.Config{Poll: time.Minute, Tables: []task.Table{table(k, func(_ context.Context, job *task.Job[args]) error {
		jobs <- *job
		return nil
	})}})
	registered(t, pool, "work", 1)
	testdb.Eventually(t, slow, "the worker to listen", func() bool { return w.Stats().Listening })

	put(t, pool, k, args{N: 7, Mode: "é\"\n"})
	byGo := receive(t, jobs, "the job of Go")
	receipt, err := plain(t.Context(), pool, `'work', jsonb_build_object('n', 7, 'mode', $1::text)`, "é\"\n")
	require.NoError(t, err)
	bySQL := receive(t, jobs, "the job of SQL")
	require.Equal(t, task.Receipt{ID: receipt.ID, SameArgs: true, State: task.StatePending}, receipt)
	require.Equal(t, receipt.ID, bySQL.ID)
	bySQL.ID, bySQL.EnqueuedAt, bySQL.RunAt = byGo.ID, byGo.EnqueuedAt, byGo.RunAt
	require.Equal(t, byGo, bySQL)
	require.Equal(t, store.Audit{Completed: 2}, settled(t, pool, 2))
	require.EqualValues(t, 2, w.Stats().Completed)
}

// An explicit key is the same key from both sides, and so are the arguments.
func TestPlainSQLAndGoShareKeys(t *testing.T) {
	t.Parallel()
	pool := testdb.Migrated(t)
	k := kind("work", "q", shaped, keyedFor(time.Hour))
	introduce(t, pool, k)
	byGo := func(key string, n int) task.Receipt {
		r, err := taskimpl.Enqueue(t.Context(), task.Autocommit(pool), k, args{N: n, Mode: "x"}, []task.EnqueueOption{task.Key(key, time.Hour)})
		require.NoError(t, err)
		return r
	}
	bySQL := func(key string, n int) task.Receipt {
		r, err := plain(t.Context(), pool, `'work', jsonb_build_object('mode', 'x', 'n', $2::int), key => $1`, key, n)
		require.NoError(t, err)
		return r
	}
	for _, key := range []string{"order 7", "é😀'\\\"", " "} {
		first, again := byGo(key, 1), bySQL(key, 1)
		require.Equal(t, task.Receipt{ID: first.ID, Duplicate: true, SameArgs: true, State: task.StatePending}, again)
		require.False(t, bySQL(key, 2).SameArgs)

		first, again = bySQL(key+"!", 1), byGo(key+"!", 1)
		require.False(t, first.Duplicate)
		require.Equal(t, task.Receipt{ID: first.ID, Duplicate: true, SameArgs: true, State: task.StatePending}, again)
	}
}

// Callers of both sides with the same key at the same time: one job a key, and
// nobody fails.
func TestPlainSQLKeysAtOnce(t *testing.T) {
	t.Parallel()
	pool := testdb.Migrated(t, testdb.MaxConns(10))
	k := kind("work", "q", shaped, keyedFor(time.Hour))
	introduce(t, pool, k)
	const keys, callers = 25, 8
	ids := make([][keys]uuid.UUID, callers)
	errs := make([]error, callers)
	var all sync.WaitGroup
	for c := range callers {
		all.Go(func() {
			for n := range keys {
				errs[c] = errors.Join(errs[c], pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) (err error) {
					var r task.Receipt
					if key := fmt.Sprint("key ", n); c%2 == 0 {
						r, err = taskimpl.Enqueue(t.Context(), tx, k, args{N: n}, []task.EnqueueOption{task.Key(key, time.Hour)})
					} else {
						r, err = plain(t.Context(), tx, `'work', jsonb_build_object('n', $1::int), $2`, n, key)
					}
					ids[c][n] = r.ID
					return err
				}))
			}
		})
	}
	all.Wait()
	for c := range callers {
		require.NoError(t, errs[c])
		require.Equal(t, ids[0], ids[c])
	}
	require.Equal(t, store.Audit{Ready: keys}, audit(t, pool))
}

// A trigger enqueues in the transaction of the change, whatever schema it is in
// and whatever is on the search path.
func TestPlainSQLInATrigger(t *testing.T) {
	t.Parallel()
	pool := testdb.Migrated(t)
	k := kind("work", "q", shaped)
	start(t, pool, pawlrt.Config{Tables: []task.Table{table(k, done)}})
	registered(t, pool, "work", 1)
	exec(t, pool, `
		CREATE SCHEMA app;
		CREATE TABLE app.orders (n integer, mode text);
		-- Names that a careless function would find first.
		CREATE TABLE app.kinds (kind text);
		CREATE TABLE app.jobs (id uuid);
		CREATE FUNCTION app.fits(jsonb, jsonb, boolean) RETURNS boolean LANGUAGE sql AS 'SELECT false';
		CREATE FUNCTION app.jsonb_typeof(jsonb) RETURNS text LANGUAGE sql AS 'SELECT ''none''';
		CREATE FUNCTION app.ordered() RETURNS trigger LANGUAGE plpgsql SET search_path = app, pg_catalog AS $$
		BEGIN
			PERFORM pawl.enqueue('work', jsonb_build_object('n', NEW.n, 'mode', NEW.mode));
			RETURN NULL;
		END $$;
		CREATE TRIGGER ordered AFTER INSERT ON app.orders FOR EACH ROW EXECUTE FUNCTION app.ordered()`)
	insert := func(isolation pgx.TxIsoLevel, end func(pgx.Tx) error) {
		tx, err := pool.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: isolation})
		require.NoError(t, err)
		_, err = tx.Exec(t.Context(), `INSERT INTO app.orders SELECT n, 'x' FROM generate_series(1, 10) n`)
		require.NoError(t, err)
		require.NoError(t, end(tx))
	}
	for _, isolation := range []pgx.TxIsoLevel{pgx.ReadCommitted, pgx.RepeatableRead, pgx.Serializable} {
		insert(isolation, func(tx pgx.Tx) error { return tx.Rollback(t.Context()) })
		insert(isolation, func(tx pgx.Tx) error { return tx.Commit(t.Context()) })
	}
	require.Equal(t, store.Audit{Completed: 30}, settled(t, pool, 30))

	// A refusal in a trigger undoes the change: neither is without the other.
	_, err := pool.Exec(t.Context(), `INSERT INTO app.orders VALUES (99, NULL)`)
	refused, ok := errors.AsType[*pgconn.PgError](err)
	require.True(t, ok)
	require.Equal(t, store.CodeMisfit, refused.Code)
	require.Equal(t, "args.mode: expected a string, got null", refused.Detail)
	require.Equal(t, 30, query[int](t, pool, `SELECT count(*) FROM app.orders`))
}

// Binaries of different ages start in any order: SQL writes the newest payload
// version that any of them knows.
func TestWorkersRegisterTheNewestVersion(t *testing.T) {
	t.Parallel()
	for name, order := range map[string][]int{"old first": {1, 3, 2}, "new first": {3, 1, 2}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := testdb.Migrated(t)
			newest := 0
			for _, known := range order {
				numbers := make([]int, known)
				for n := range numbers {
					numbers[n] = n + 1
				}
				w := start(t, pool, pawlrt.Config{Tables: []task.Table{table(versions("work", numbers...), done)}})
				testdb.Eventually(t, slow, "the worker to serve", func() bool { return w.Stats().Claims > 0 })
				newest = max(newest, known)
				registered(t, pool, "work", newest)
			}
			receipt, err := plain(t.Context(), pool, `'work', '{"n": 1}'`)
			require.NoError(t, err)
			require.Equal(t, store.Audit{Completed: 1}, settled(t, pool, 1))
			require.Equal(t, newest, query[int](t, pool, `SELECT version FROM pawl.jobs WHERE id = $1`, receipt.ID))
		})
	}
}

// A registry that cannot be written to costs a worker nothing but a warning.
func TestWorkerRunsWithoutTheRegistry(t *testing.T) {
	t.Parallel()
	pool := testdb.Migrated(t)
	k := kind("work", "q", shaped)
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	defer tx.Rollback(context.WithoutCancel(t.Context()))
	_, err = tx.Exec(t.Context(), `LOCK TABLE pawl.kinds IN ACCESS EXCLUSIVE MODE`)
	require.NoError(t, err)
	put(t, pool, k, args{N: 1})

	log := &buffer{}
	start(t, pool, pawlrt.Config{
		Lease: 2 * time.Second, Logger: slog.New(slog.NewTextHandler(log, nil)),
		Tables: []task.Table{table(k, done)},
	})
	require.Equal(t, store.Audit{Completed: 1}, settled(t, pool, 1))
	require.Contains(t, log.String(), "cannot register the kinds for plain SQL")
	require.NoError(t, tx.Rollback(t.Context()))
	_, err = plain(t.Context(), pool, `'work', '{"n": 1}'`)
	refused, ok := errors.AsType[*pgconn.PgError](err)
	require.True(t, ok)
	require.Equal(t, store.CodeUnknownKind, refused.Code)
}

// Jobs of one order key run one at a time, in the order of their enqueue,
// whichever side that was.
func TestPlainSQLKeepsOrder(t *testing.T) {
	t.Parallel()
	pool := testdb.Migrated(t)
	k := kind("work", "q", shaped, func(k *taskimpl.Kind[args]) { k.Order = []string{"mode"} })
	ran := make(chan int, 20)
	start(t, pool, pawlrt.Config{Tables: []task.Table{table(k, func(_ context.Context, job *task.Job[args]) error {
		ran <- job.Args.N
		return nil
	})}})
	registered(t, pool, "work", 1)
	require.NoError(t, pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		for n := range 20 {
			var err error
			if n%2 == 0 {
				_, err = taskimpl.Enqueue(t.Context(), tx, k, args{N: n, Mode: "one"}, nil)
			} else {
				_, err = plain(t.Context(), tx, `'work', jsonb_build_object('n', $1::int, 'mode', 'one')`, n)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}))
	require.Equal(t, store.Audit{Completed: 20}, settled(t, pool, 20))
	for n := range 20 {
		require.Equal(t, n, <-ran)
	}
}
