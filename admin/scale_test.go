package admin_test

import (
	"context"
	"encoding/json"
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
)

// fill makes n jobs of five days: of twenty, sixteen are completed, two are due,
// one is scheduled, and one is dead.
func fill(t *testing.T, pool *pgxpool.Pool, n int) {
	t.Helper()
	exec(t, pool, `SELECT pawl.ensure_day(pawl.day_of(clock_timestamp()) - n) FROM generate_series(0, 4) n`)
	const job = `(lpad(to_hex(1700000000000 + n), 12, '0') || '70008000' || lpad(to_hex(n), 12, '0'))::uuid`
	const day = `pawl.day_of(clock_timestamp()) - 4 + (n * 5 / $1::bigint)::integer`
	const queue = `'q' || n / 20 % 4`
	const then = `clock_timestamp() - interval '4 days' + n * 4 * interval '1 day' / $1::bigint`
	for _, statement := range []string{
		`INSERT INTO pawl.jobs (day, id, kind, queue, version, capability, priority, max_attempts, organization_id, run_at, enqueued_at, args)
			SELECT ` + day + `, ` + job + `, 'k' || n % 8, ` + queue + `, 1, n % 8, 2, 3, 'o' || n % 1000,
				CASE WHEN n % 20 = 18 THEN clock_timestamp() + interval '1 day' ELSE ` + then + ` END, ` + then + `, jsonb_build_object('n', n, 'of', jsonb_build_object('id', n % 100))
			FROM generate_series(0::bigint, $1::bigint - 1) n`,
		`INSERT INTO pawl.outcomes (day, job_id, job_day, outcome, attempts, queue, claimed_at, finished_at)
			SELECT ` + day + `, ` + job + `, ` + day + `, CASE n % 20 WHEN 19 THEN 3 ELSE 1 END, 1, ` + queue + `, ` + then + `, ` + then + `
			FROM generate_series(0::bigint, $1::bigint - 1) n WHERE n % 20 NOT IN (16, 17, 18)`,
		`INSERT INTO pawl.ready (queue, priority, run_at, id, day, capability, attempts, suspect)
			SELECT j.queue, j.priority, j.run_at, j.id, j.day, j.capability, 0, false FROM pawl.jobs j
			WHERE (j.args ->> 'n')::bigint % 20 IN (16, 17, 18) AND $1::bigint > 0`,
		`INSERT INTO pawl.dead_letters (job_id, kind, queue, version, capability, priority, organization_id, attempts, max_attempts, code, summary, enqueued_at, died_at, args)
			SELECT j.id, j.kind, j.queue, j.version, j.capability, j.priority, j.organization_id, 1, 3, CASE (j.args ->> 'n')::bigint % 3 WHEN 0 THEN 'permanent' WHEN 1 THEN 'timeout' ELSE 'unknown' END,
				'thing ' || (j.args ->> 'n') || ' of sort ' || chr(97 + ((j.args ->> 'n')::bigint % 17)::integer) || ' is broken', j.enqueued_at, j.run_at, j.args FROM pawl.jobs j
			WHERE (j.args ->> 'n')::bigint % 20 = 19 AND $1::bigint > 0`,
		`INSERT INTO pawl.job_errors (day, job_id, attempt, at, code, summary)
			SELECT j.day, j.id, 1, j.run_at, d.code, d.summary FROM pawl.dead_letters d JOIN pawl.jobs j ON j.id = d.job_id WHERE $1::bigint > 0`,
	} {
		exec(t, pool, statement, n)
	}
	exec(t, pool, `INSERT INTO pawl.processes SELECT gen_random_uuid(), 'bob', '{q0,q1,q2,q3}', '{0,1,2,3,4,5,6}', '1 hour', clock_timestamp(), clock_timestamp(), clock_timestamp() + interval '1 hour'`)
	exec(t, pool, `VACUUM ANALYZE`)
}

// questions are what operators ask, by name: each is one page.
func questions(t *testing.T, pool *pgxpool.Pool, c *admin.Client, page admin.Page) map[string]func(context.Context) error {
	t.Helper()
	due := query[uuid.UUID](t, pool, `SELECT r.id FROM pawl.ready r WHERE r.queue = 'q1' AND r.run_at <= clock_timestamp() ORDER BY r.run_at DESC LIMIT 1`)
	later := query[uuid.UUID](t, pool, `SELECT r.id FROM pawl.ready r WHERE r.queue = 'q1' AND r.run_at > clock_timestamp() ORDER BY r.run_at DESC LIMIT 1`)
	dead := query[uuid.UUID](t, pool, `SELECT d.job_id FROM pawl.dead_letters d LIMIT 1`)
	fingerprint := query[string](t, pool, `SELECT d.fingerprint FROM pawl.dead_letters d LIMIT 1`)
	jobs := func(f admin.JobFilter) func(context.Context) error {
		return func(ctx context.Context) error { _, err := c.Jobs(ctx, f, page); return err }
	}
	letters := func(f admin.DeadFilter) func(context.Context) error {
		return func(ctx context.Context) error { _, err := c.Dead(ctx, f, page); return err }
	}
	return map[string]func(context.Context) error{
		"jobs":                   jobs(admin.JobFilter{}),
		"jobs pending":           jobs(admin.JobFilter{State: task.StatePending}),
		"jobs pending, a queue":  jobs(admin.JobFilter{State: task.StatePending, Queue: "q2"}),
		"jobs stranded":          jobs(admin.JobFilter{State: admin.StateStranded}),
		"jobs retrying: none":    jobs(admin.JobFilter{State: task.StateRetrying}),
		"jobs leased: none":      jobs(admin.JobFilter{State: task.StateLeased}),
		"jobs blocked: none":     jobs(admin.JobFilter{State: task.StateBlocked}),
		"jobs completed":         jobs(admin.JobFilter{State: task.StateCompleted}),
		"jobs lost: none":        jobs(admin.JobFilter{State: admin.StateLost}),
		"jobs cancelled: none":   jobs(admin.JobFilter{State: task.StateCancelled}),
		"jobs dead":              jobs(admin.JobFilter{State: task.StateDead}),
		"jobs dead, a code":      jobs(admin.JobFilter{State: task.StateDead, ErrorCode: "timeout"}),
		"jobs of a code":         jobs(admin.JobFilter{ErrorCode: "timeout"}),
		"jobs of a code: none":   jobs(admin.JobFilter{ErrorCode: "nothing"}),
		"jobs of a kind: none":   jobs(admin.JobFilter{Kind: "nothing"}),
		"jobs of an org":         jobs(admin.JobFilter{OrganizationID: "o7"}),
		"jobs of an argument":    jobs(admin.JobFilter{Args: []admin.ArgFilter{{Path: []string{"of", "id"}, Value: json.RawMessage("7")}}}),
		"dead jobs":              letters(admin.DeadFilter{}),
		"dead jobs, fingerprint": letters(admin.DeadFilter{Fingerprint: fingerprint}),
		"dead jobs, message":     letters(admin.DeadFilter{Message: "sort d"}),
		"dead jobs, no message":  letters(admin.DeadFilter{Message: "nothing"}),
		"dead groups":            func(ctx context.Context) error { _, err := c.DeadGroups(ctx, page); return err },
		"dead touched": func(ctx context.Context) error {
			_, err := c.TouchDead(ctx, admin.DeadFilter{ErrorCode: "timeout"}, page)
			return err
		},
		"job":           func(ctx context.Context) error { _, err := c.Job(ctx, due); return err },
		"job dead":      func(ctx context.Context) error { _, err := c.Job(ctx, dead); return err },
		"job unknown":   func(ctx context.Context) error { _, err := c.Job(ctx, uuid.New()); return ignore(err, task.ErrNoJob) },
		"why due":       func(ctx context.Context) error { _, err := c.Why(ctx, due); return err },
		"why scheduled": func(ctx context.Context) error { _, err := c.Why(ctx, later); return err },
		"queues":        func(ctx context.Context) error { _, err := c.Queues(ctx); return err },
		"status":        func(ctx context.Context) error { _, err := c.Status(ctx); return err },
		"workers":       func(ctx context.Context) error { _, err := c.Workers(ctx); return err },
		"verify":        func(ctx context.Context) error { _, err := c.Verify(ctx); return err },
		"events":        func(ctx context.Context) error { _, err := c.Events(ctx, admin.EventFilter{}, page); return err },
		"schedules":     func(ctx context.Context) error { _, err := c.Schedules(ctx); return err },
		"audit":         func(ctx context.Context) error { _, err := c.Audit(ctx, page); return err },
	}
}

func ignore(err, target error) error {
	if err != nil && strings.Contains(err.Error(), target.Error()) {
		return nil
	}
	return err
}

// recorder keeps the statements that go through a pool.
type recorder struct {
	mu    sync.Mutex
	calls []pgx.TraceQueryStartData // guarded by mu
}

func (r *recorder) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls = append(r.calls, data)
	return ctx
}

func (*recorder) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func (r *recorder) take() []pgx.TraceQueryStartData {
	r.mu.Lock()
	defer r.mu.Unlock()
	calls := r.calls
	r.calls = nil
	return calls
}

// pagesOf is how many pages of the database statements look at, when they run
// again, with the settings that they ran with.
func pagesOf(t *testing.T, pool *pgxpool.Pool, calls []pgx.TraceQueryStartData) (total int) {
	t.Helper()
	require.NoError(t, pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		for _, call := range calls {
			if strings.HasPrefix(call.SQL, "SELECT set_config(") {
				if _, err := tx.Exec(t.Context(), call.SQL, call.Args...); err != nil {
					return err
				}
				continue
			}
			if text := strings.TrimSpace(call.SQL); !strings.HasPrefix(text, "SELECT") && !strings.HasPrefix(text, "WITH") {
				continue
			}
			var text []byte
			if err := tx.QueryRow(t.Context(), `EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) `+call.SQL, call.Args...).Scan(&text); err != nil {
				return err
			}
			var plans []struct {
				Plan struct {
					Hit  int `json:"Shared Hit Blocks"`
					Read int `json:"Shared Read Blocks"`
				} `json:"Plan"`
			}
			if err := json.Unmarshal(text, &plans); err != nil {
				return err
			}
			total += plans[0].Plan.Hit + plans[0].Plan.Read
		}
		return nil
	}))
	return total
}

// What a page costs has a bound that comes from its budget, not from the tables.
func TestCostOfAPage(t *testing.T) {
	t.Parallel()
	rec := &recorder{}
	watched := testdb.Migrated(t, testdb.Configure(func(c *pgxpool.Config) { c.ConnConfig.Tracer = rec }))
	fill(t, watched, 50_000)
	c := admin.New(watched, admin.Options{})
	asked := questions(t, watched, c, admin.Page{Budget: 1000, Within: time.Minute})
	rec.take()
	for name, ask := range asked {
		require.NoError(t, ask(t.Context()), name)
		pages := pagesOf(t, watched, rec.take())
		rec.take()
		t.Logf("%-24s %6d pages", name, pages)
		bound := 20_000 // a thousand rows, looked up in three tables of five days
		switch name {
		case "jobs lost: none": // in four, and those who wait in the index of ready
			bound = 40_000
		case "verify": // 20,000 rows
			bound = 100_000
		case "job", "job dead", "job unknown", "why due", "why scheduled", "workers", "audit", "events", "schedules":
			bound = 2_000
		}
		require.Less(t, pages, bound, name)
	}
}

// Counts are exact up to their bound, and estimates that say so beyond.
func TestEstimates(t *testing.T) {
	t.Parallel()
	pool, c := open(t)
	fill(t, pool, 1000)
	exec(t, pool, `INSERT INTO pawl.dead_letters (job_id, kind, queue, version, capability, priority, organization_id, attempts, max_attempts, code, summary, enqueued_at, died_at, args)
		SELECT gen_random_uuid(), 'k0', 'q0', 1, 1, 2, '', 1, 3, 'permanent', 'once more ' || n, clock_timestamp(), clock_timestamp(), '{}' FROM generate_series(1, 15000) n`)
	exec(t, pool, `INSERT INTO pawl.ready SELECT 'q0', 2, clock_timestamp(), gen_random_uuid(), 1, 1, 0, false FROM generate_series(1, 20000) n`)
	exec(t, pool, `VACUUM ANALYZE`)
	status, err := c.Status(t.Context())
	require.NoError(t, err)
	require.True(t, status.Dead.Estimate)
	require.InEpsilon(t, 15_050, status.Dead.N, 0.1)
	require.Contains(t, status.Dead.String(), "~")
	require.True(t, status.Due.Estimate)
	require.InEpsilon(t, 20_100, status.Due.N, 0.3)
	require.False(t, status.Queues[1].Due.Estimate)
	groups, err := c.DeadGroups(t.Context(), admin.Page{Limit: 100})
	require.NoError(t, err)
	require.Greater(t, len(groups.Groups), 10)
	require.True(t, groups.Groups[0].Count.Estimate)
	require.False(t, groups.Groups[1].Count.Estimate)
}

// Everything works in the modes of the driver that need no session, for a role
// whose search_path is empty and whose transactions are serializable.
func TestInEveryMode(t *testing.T) {
	t.Parallel()
	for name, mode := range map[string]pgx.QueryExecMode{
		"cache_describe": pgx.QueryExecModeCacheDescribe, "exec": pgx.QueryExecModeExec, "simple_protocol": pgx.QueryExecModeSimpleProtocol,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool, _ := open(t)
			fill(t, pool, 200)
			config := pool.Config()
			config.MaxConns = 1 // no call needs a second one while it holds the first
			config.ConnConfig.DefaultQueryExecMode = mode
			config.ConnConfig.RuntimeParams["search_path"] = ""
			config.ConnConfig.RuntimeParams["default_transaction_isolation"] = "serializable"
			narrow, err := pgxpool.NewWithConfig(t.Context(), config)
			require.NoError(t, err)
			t.Cleanup(narrow.Close)
			c := admin.New(narrow, admin.Options{})
			for question, ask := range questions(t, pool, c, admin.Page{Limit: 7, Budget: 20}) {
				require.NoError(t, ask(t.Context()), question)
			}
			ids, _ := pages(t, c, admin.JobFilter{State: task.StateDead}, admin.Page{Limit: 3})
			require.Len(t, ids, 10)
			ids, _ = pages(t, c, admin.JobFilter{State: task.StatePending}, admin.Page{Limit: 3})
			require.NotEmpty(t, ids)
			require.NoError(t, c.RetryJob(t.Context(), query[uuid.UUID](t, pool, `SELECT job_id FROM pawl.dead_letters LIMIT 1`), ""))
			_, err = c.CancelJob(t.Context(), ids[0], "")
			require.NoError(t, err)
			_, err = c.PauseQueue(t.Context(), "q1", "")
			require.NoError(t, err)
			run, err := c.Redrive(t.Context(), admin.RedriveOptions{Filter: admin.DeadFilter{ErrorCode: "timeout"}, Rate: 1000, Attempts: 2})
			require.NoError(t, err)
			require.NotZero(t, run.Redriven)
			_, err = c.PurgeDead(t.Context(), admin.DeadFilter{All: true}, "", nil)
			require.NoError(t, err)
			require.Zero(t, query[int](t, pool, `SELECT count(*) FROM pawl.dead_letters`))
			checks, err := c.Doctor(t.Context(), admin.DoctorOptions{})
			require.NoError(t, err)
			for _, check := range checks {
				require.NotEqual(t, admin.FindingUnknown, check.Finding, "%s: %s", check.Name, check.Text)
			}
		})
	}
}
