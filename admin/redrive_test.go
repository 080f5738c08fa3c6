package admin_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/pawlgo/pawl/admin"
	"github.com/pawlgo/pawl/internal/testdb"
	"github.com/pawlgo/pawl/task"
	"github.com/pawlgo/pawl/task/taskimpl"
)

// emptied makes everything eight days older, and then does what retention does:
// after that there are no jobs any more but in their letters.
func emptied(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	exec(t, pool, `DO $$ BEGIN
		PERFORM pawl.ensure_day(pawl.day_of(now()) - 8), pawl.ensure_day(pawl.day_of(now()) - 9);
		UPDATE pawl.jobs SET day = day - 8, enqueued_at = enqueued_at - interval '8 days';
		UPDATE pawl.outcomes SET day = day - 8, job_day = job_day - 8;
		UPDATE pawl.job_errors SET day = day - 8;
		UPDATE pawl.idempotency_keys SET job_day = job_day - 8, expires_at = expires_at - interval '8 days';
		UPDATE pawl.dead_letters SET died_at = died_at - interval '8 days';
	END $$`)
	for _, parent := range []string{"jobs", "outcomes", "job_errors"} {
		exec(t, pool, `SELECT pawl.empty_leaf(l.parent, l.day, 100) FROM pawl.leaves() l WHERE l.parent = $1 AND l.used`, parent)
		require.Zero(t, query[int](t, pool, `SELECT count(*) FROM pawl.`+parent))
	}
	exec(t, pool, `SELECT pawl.purge_keys(0, 1000)`)
	require.Zero(t, query[int](t, pool, `SELECT count(*) FROM pawl.idempotency_keys`))
}

// A letter that is older than the history has all that its job had: its key, which
// it does not share with another job, its order key and its trace.
func TestRedriveAfterTheHistory(t *testing.T) {
	t.Parallel()
	pool, c := open(t)
	k := mailed(func(k *taskimpl.Kind[args]) {
		k.Key, k.Keep = func(a *args) []any { return []any{a.N} }, 72*time.Hour
		k.Order = []string{"org"}
	})
	const trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	ids := make([]uuid.UUID, 3)
	for n := range ids {
		ids[n] = put(t, pool, k, args{N: n, Org: "acme", Mode: "gone"})
	}
	exec(t, pool, `UPDATE pawl.jobs SET trace_context = $1`, trace)
	before := query[string](t, pool, `SELECT json_agg(json_build_array(id, idempotency_key, order_key, trace_context) ORDER BY id)::text FROM pawl.jobs`)
	stop := work(t, pool, k, obey)
	for _, id := range ids {
		reach(t, c, id, task.StateDead)
	}
	stop()
	emptied(t, pool)

	// Of the first one, another job does the work by now.
	again, err := taskimpl.Enqueue(t.Context(), task.Autocommit(pool), k, args{N: 0, Org: "acme"}, []task.EnqueueOption{task.In(time.Hour)})
	require.NoError(t, err)
	require.False(t, again.Duplicate)
	require.ErrorIs(t, c.RetryJob(t.Context(), ids[0], ""), admin.ErrKeyTaken)
	run, err := c.Redrive(t.Context(), admin.RedriveOptions{Filter: admin.DeadFilter{All: true}})
	require.NoError(t, err)
	require.EqualValues(t, 2, run.Redriven)
	require.EqualValues(t, 1, run.Refused)
	require.Zero(t, run.Skipped)
	require.Equal(t, ids[0].String(), query[string](t, pool, `SELECT job_id::text FROM pawl.dead_letters`))
	booksAddUp(t, pool)

	// The others do theirs again, and nobody else does beside them.
	for n, id := range ids[1:] {
		r, err := taskimpl.Enqueue(t.Context(), task.Autocommit(pool), k, args{N: n + 1, Org: "acme"}, nil)
		require.NoError(t, err)
		require.True(t, r.Duplicate)
		require.Equal(t, id, r.ID)
	}
	// When that job is over and its key is too, the first one is as it was as well.
	_, err = c.CancelJob(t.Context(), again.ID, "")
	require.NoError(t, err)
	exec(t, pool, `UPDATE pawl.idempotency_keys SET expires_at = clock_timestamp() - interval '1 hour'`)
	require.NoError(t, c.RetryJob(t.Context(), ids[0], ""))
	require.JSONEq(t, before, query[string](t, pool,
		`SELECT json_agg(json_build_array(id, idempotency_key, order_key, trace_context) ORDER BY id)::text FROM pawl.jobs WHERE id = ANY ($1)`, ids))
	require.Equal(t, 3, query[int](t, pool, `SELECT count(*) FROM pawl.ordered WHERE job_id = ANY ($1)`, ids))
	work(t, pool, k, func(context.Context, *task.Job[args]) error { return nil })
	for _, id := range ids {
		reach(t, c, id, task.StateCompleted)
	}
	booksAddUp(t, pool)
}

// Letters that somebody has locked are met again at the end, and those that still
// are locked then are counted.
func TestRedriveTriesOnceMore(t *testing.T) {
	t.Parallel()
	pool, c := open(t)
	ids := bury(t, pool, c, mailed(), "gone", 6)
	lock := func(ids ...uuid.UUID) pgx.Tx {
		tx, err := pool.Begin(t.Context())
		require.NoError(t, err)
		t.Cleanup(func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) })
		_, err = tx.Exec(t.Context(), `SELECT FROM pawl.dead_letters WHERE job_id = ANY ($1) FOR UPDATE`, ids)
		require.NoError(t, err)
		return tx
	}
	short := lock(ids[1], ids[2])
	lock(ids[4])
	unlock := sync.OnceFunc(func() { require.NoError(t, short.Rollback(t.Context())) })
	run, err := c.Redrive(t.Context(), admin.RedriveOptions{Filter: admin.DeadFilter{All: true}, Progress: func(r admin.Redrive) {
		if r.Redriven == 3 { // the first pass is over
			unlock()
		}
	}})
	require.NoError(t, err)
	require.EqualValues(t, 5, run.Redriven)
	require.EqualValues(t, 1, run.Skipped)
	require.Zero(t, run.Refused)
	require.Equal(t, admin.RedriveDone, run.State)
	require.Equal(t, ids[4].String(), query[string](t, pool, `SELECT job_id::text FROM pawl.dead_letters`))
	booksAddUp(t, pool)
}

// What is wrong for the moment does not end a redrive: a lock, a connection that is
// cut. Anything else does.
func TestRedriveWeathersTrouble(t *testing.T) {
	t.Parallel()
	pool, owner := open(t, testdb.MaxConns(16))
	k := mailed(func(k *taskimpl.Kind[args]) {
		k.Key, k.Keep = func(a *args) []any { return []any{a.N} }, time.Hour
	})
	bury(t, pool, owner, k, "gone", 4)
	exec(t, pool, `CREATE TABLE public.weather (code text)`)
	exec(t, pool, `CREATE FUNCTION public.blow() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN
		IF EXISTS (SELECT FROM public.weather) THEN
			RAISE EXCEPTION 'a storm' USING ERRCODE = (SELECT w.code FROM public.weather w);
		END IF;
		RETURN NEW;
	END $$`)
	exec(t, pool, `CREATE TRIGGER blow BEFORE INSERT ON pawl.redriven FOR EACH ROW EXECUTE FUNCTION public.blow()`)
	as := testdb.As(t, pool, testdb.Operator)
	c := admin.New(as, admin.Options{By: "o"})
	var told []string
	redrive := func(id uuid.UUID, progress func(admin.Redrive)) (*admin.Redrive, error) {
		told = nil
		opts := admin.RedriveOptions{Filter: admin.DeadFilter{Kind: "send_mail"}, Canary: 1, Progress: func(r admin.Redrive) {
			if r.Trouble != "" {
				told = append(told, r.Trouble)
			}
			progress(r)
		}}
		if id != uuid.Nil {
			return c.ContinueRedrive(t.Context(), id, admin.RedriveOptions{Progress: opts.Progress})
		}
		return c.Redrive(t.Context(), opts)
	}
	for _, code := range []string{"40P01", "40001", "55P03"} {
		exec(t, pool, `INSERT INTO public.weather VALUES ($1)`, code)
		ctx, cancel := context.WithCancel(t.Context())
		run, err := c.Redrive(ctx, admin.RedriveOptions{Filter: admin.DeadFilter{Kind: "send_mail"}, Progress: func(r admin.Redrive) {
			if r.Trouble != "" {
				require.Contains(t, r.Trouble, "a storm")
				cancel()
			}
		}})
		require.ErrorIs(t, err, context.Canceled, code)
		require.Zero(t, run.Redriven)
		exec(t, pool, `DELETE FROM public.weather`)
	}
	exec(t, pool, `INSERT INTO public.weather VALUES ('23514')`)
	run, err := redrive(uuid.Nil, func(admin.Redrive) {})
	require.ErrorContains(t, err, "a storm")
	require.Empty(t, told, "nothing of the moment")

	// It blows for two tries, and then its connections are cut.
	exec(t, pool, `UPDATE public.weather SET code = '40P01'`)
	cut := false
	stop := work(t, pool, k, func(context.Context, *task.Job[args]) error { return nil })
	run, err = redrive(run.ID, func(r admin.Redrive) {
		switch {
		case r.Trouble != "":
			if len(told) == 2 {
				exec(t, pool, `DELETE FROM public.weather`)
			}
		case r.Redriven > 0 && !cut:
			cut = true
			exec(t, pool, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND usename = $1`, testdb.Operator)
		}
	})
	require.NoError(t, err)
	require.True(t, cut)
	require.GreaterOrEqual(t, len(told), 3)
	require.EqualValues(t, 4, run.Redriven)
	require.Empty(t, run.Trouble)
	stop()
	require.Equal(t, 4, query[int](t, pool, `SELECT count(*) FROM pawl.redriven`))
	require.Equal(t, 4, query[int](t, pool, `SELECT sum(things) FROM pawl.audit`))
	booksAddUp(t, pool)
}

// sent collects the texts of statements.
type sent struct {
	mu    sync.Mutex
	texts []string // guarded by mu
}

func (s *sent) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.texts = append(s.texts, data.SQL)
	return ctx
}

func (s *sent) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func (s *sent) all() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.texts, "\n")
}

// Values of payloads that are asked for are in no statement, and those that are not
// to be shown in no table: whoever goes on with a redrive gives them again.
func TestValuesOfFilters(t *testing.T) {
	t.Parallel()
	pool, c := open(t)
	texts := &sent{}
	config := pool.Config()
	config.ConnConfig.Tracer = texts
	traced, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(traced.Close)
	k := mailed(func(k *taskimpl.Kind[args]) { k.Redact = `[["org"]]` })
	const secret = "4111-secret"
	for n := range 5 {
		put(t, pool, k, args{N: n, Org: secret, Mode: "gone"})
	}
	other := put(t, pool, k, args{N: 9, Org: "other", Mode: "gone"})
	stop := work(t, pool, k, obey)
	testdb.Eventually(t, soon, "the letters", func() bool { return query[int](t, pool, `SELECT count(*) FROM pawl.dead_letters`) == 6 })
	stop()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	hidden := admin.ArgFilter{Path: []string{"org"}, Value: json.RawMessage(`"` + secret + `"`)}
	shown := admin.ArgFilter{Path: []string{"mode"}, Value: json.RawMessage(`"gone"`)}
	c = admin.New(traced, admin.Options{By: "alice"})
	list, err := c.Jobs(t.Context(), admin.JobFilter{Args: []admin.ArgFilter{hidden}}, admin.Page{})
	require.NoError(t, err)
	require.Len(t, list.Jobs, 5)
	run, err := c.Redrive(ctx, admin.RedriveOptions{
		Filter: admin.DeadFilter{Args: []admin.ArgFilter{shown, hidden}}, Rate: 1,
		Progress: func(r admin.Redrive) {
			if r.Redriven > 0 {
				cancel()
			}
		},
	})
	require.ErrorIs(t, err, context.Canceled)
	require.EqualValues(t, 1, run.Redriven)
	redacted := admin.ArgFilter{Path: hidden.Path, Value: json.RawMessage(`"[redacted]"`), Redacted: true}
	require.Len(t, run.Filter.Args, 2)
	require.JSONEq(t, `{"path": ["mode"], "value": "gone"}`, asJSON(t, run.Filter.Args[0]))
	require.JSONEq(t, asJSON(t, redacted), asJSON(t, run.Filter.Args[1]))

	goOn := func(args ...admin.ArgFilter) error {
		_, err := c.ContinueRedrive(t.Context(), run.ID, admin.RedriveOptions{Filter: admin.DeadFilter{Args: args}})
		return err
	}
	require.ErrorIs(t, goOn(), admin.ErrRedacted)
	require.ErrorContains(t, goOn(), "org: give it again")
	require.ErrorIs(t, goOn(redacted), admin.ErrRedacted)
	require.ErrorIs(t, goOn(hidden, shown), admin.ErrInvalid)
	_, err = c.Redrive(t.Context(), admin.RedriveOptions{Filter: run.Filter})
	require.ErrorIs(t, err, admin.ErrRedacted)
	exec(t, pool, `UPDATE pawl.redrives SET rate = 0`)
	require.NoError(t, goOn(hidden))
	require.Equal(t, other.String(), query[string](t, pool, `SELECT job_id::text FROM pawl.dead_letters`))

	removed, err := c.PurgeDead(t.Context(), admin.DeadFilter{Kind: "send_mail", Args: []admin.ArgFilter{{Path: []string{"org"}, Value: json.RawMessage(`"other"`)}}}, "", nil)
	require.NoError(t, err)
	require.Equal(t, 1, removed)
	audit, err := c.Audit(t.Context(), admin.Page{})
	require.NoError(t, err)
	require.Len(t, audit.Entries, 2)
	require.JSONEq(t, `{"kind": "send_mail", "args": [{"path": ["org"], "value": "[redacted]", "redacted": true}]}`, audit.Entries[0].Target)
	require.EqualValues(t, 5, audit.Entries[1].Things)
	require.Contains(t, audit.Entries[1].Target, `"gone"`)
	for name, text := range map[string]string{
		"the statements": texts.all(), "the audit": fmt.Sprint(audit.Entries), "the redrives": query[string](t, pool, `SELECT json_agg(r)::text FROM pawl.redrives r`),
	} {
		require.NotEmpty(t, text)
		require.NotContains(t, text, secret, name)
		require.NotContains(t, text, `"other"`, name)
	}
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	require.NoError(t, err)
	return string(text)
}

// What is hidden of a filter is what is inside of something redacted, or has such a
// thing inside; and all of what nobody has declared.
func TestHidden(t *testing.T) {
	t.Parallel()
	pool, _ := open(t)
	hidden := func(kind string, path ...string) bool {
		return query[bool](t, pool, `SELECT pawl.hidden($1, $2::text::jsonb)`, kind, asJSON(t, path))
	}
	require.True(t, hidden("", "a"), "no worker has declared anything")
	exec(t, pool, `INSERT INTO pawl.redactions VALUES (false, 'card', 1, '[["card", "number"], ["items", "", "pin"]]', now()), (true, 'paid', 1, '[["sum"]]', now())`)
	for _, x := range []struct {
		kind, path string
		want       bool
	}{
		{"card", "card.number", true},
		{"card", "CARD.Number", true},
		{"card", "card.number.0", true},
		{"card", "card", true},
		{"card", "card.holder", false},
		{"card", "items.0.pin", true},
		{"card", "items.0", true},
		{"card", "items.0.sku", false},
		{"card", "id", false},
		{"", "card.number", true},
		{"", "id", false},
		{"", "sum", false},
		{"paid", "sum", true},
		{"unknown", "id", true},
	} {
		require.Equal(t, x.want, hidden(x.kind, strings.Split(x.path, ".")...), "%s of %q", x.path, x.kind)
	}
}
