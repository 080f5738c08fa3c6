package runtime_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
)

// chaosTables are the books of a chaos run. Triggers keep the history of leases
// and of processes; a row of it is written when the change is seen by nobody
// else, so that of two changes of which one made the other possible, the first
// one has the lower seq and the earlier time.
const chaosTables = `
	CREATE TABLE books ( -- what was committed, as the receipts told it
		id uuid NOT NULL, kind text NOT NULL, duplicate boolean NOT NULL, state text NOT NULL,
		producer text NOT NULL, parent uuid, mode text NOT NULL, n bigint NOT NULL, isolation text NOT NULL,
		key text NOT NULL, keep interval NOT NULL, order_key text NOT NULL, max_attempts integer NOT NULL,
		began timestamptz NOT NULL, at timestamptz NOT NULL DEFAULT clock_timestamp());
	CREATE INDEX ON books (id);
	CREATE INDEX ON books (at);
	CREATE TABLE cancels (id uuid NOT NULL, answer text NOT NULL, done_at timestamptz);
	CREATE TABLE pauses (queue text NOT NULL, paused_at timestamptz NOT NULL, resumed_at timestamptz);
	CREATE TABLE by_hand (id uuid NOT NULL, what text NOT NULL, attempts integer, at timestamptz NOT NULL DEFAULT clock_timestamp());
	CREATE TABLE ledger ( -- of ordinary handlers
		job_id uuid NOT NULL, attempt integer NOT NULL, who text NOT NULL, event text NOT NULL, at timestamptz NOT NULL DEFAULT clock_timestamp());
	CREATE TABLE effects (job_id uuid NOT NULL, attempt integer NOT NULL, who text NOT NULL); -- of transactional ones
	CREATE TABLE lease_log (
		seq bigint GENERATED ALWAYS AS IDENTITY, at timestamptz NOT NULL DEFAULT clock_timestamp(), opens boolean NOT NULL,
		token uuid NOT NULL, owner uuid NOT NULL, job_id uuid NOT NULL, attempt integer NOT NULL, queue text NOT NULL,
		claimed_at timestamptz NOT NULL, who text NOT NULL DEFAULT current_setting('application_name'));
	CREATE TABLE process_log (
		at timestamptz NOT NULL DEFAULT clock_timestamp(), begins boolean NOT NULL, id uuid NOT NULL, name text NOT NULL,
		expires_at timestamptz NOT NULL, who text NOT NULL DEFAULT current_setting('application_name'));

	CREATE FUNCTION log_lease() RETURNS trigger LANGUAGE plpgsql AS $$
	BEGIN
		IF TG_OP = 'INSERT' THEN
			INSERT INTO public.lease_log (opens, token, owner, job_id, attempt, queue, claimed_at)
			SELECT true, NEW.token, NEW.owner, u.id, u.attempt, NEW.queue, NEW.claimed_at
			FROM unnest(NEW.job_ids, NEW.attempts) WITH ORDINALITY u(id, attempt, pos) WHERE get_bit(NEW.open, u.pos::integer - 1) = 1;
		ELSE
			INSERT INTO public.lease_log (opens, token, owner, job_id, attempt, queue, claimed_at)
			SELECT false, OLD.token, OLD.owner, u.id, u.attempt, OLD.queue, OLD.claimed_at
			FROM unnest(OLD.job_ids, OLD.attempts) WITH ORDINALITY u(id, attempt, pos) WHERE get_bit(OLD.open, u.pos::integer - 1) = 1
				AND CASE WHEN TG_OP = 'UPDATE' THEN get_bit(NEW.open, u.pos::integer - 1) = 0 ELSE true END;
		END IF;
		RETURN NULL;
	END $$;
	CREATE TRIGGER log_lease AFTER INSERT OR UPDATE OR DELETE ON pawl.leases FOR EACH ROW EXECUTE FUNCTION log_lease();

	CREATE FUNCTION log_process() RETURNS trigger LANGUAGE plpgsql AS $$
	BEGIN
		IF TG_OP = 'INSERT' THEN
			INSERT INTO public.process_log (begins, id, name, expires_at) VALUES (true, NEW.id, NEW.name, NEW.expires_at);
		ELSE
			INSERT INTO public.process_log (begins, id, name, expires_at) VALUES (false, OLD.id, OLD.name, OLD.expires_at);
		END IF;
		RETURN NULL;
	END $$;
	CREATE TRIGGER log_process AFTER INSERT OR DELETE ON pawl.processes FOR EACH ROW EXECUTE FUNCTION log_process();`

// chaosViews are what the checks share.
const chaosViews = `
	CREATE VIEW place AS
	SELECT id, 'ready' AS place FROM pawl.ready
	UNION ALL SELECT u.id, 'leased' FROM pawl.leases l CROSS JOIN LATERAL unnest(l.job_ids) WITH ORDINALITY u(id, pos) WHERE get_bit(l.open, u.pos::integer - 1) = 1
	UNION ALL SELECT job_id, 'blocked' FROM pawl.ordered WHERE NOT head
	UNION ALL SELECT job_id, 'outcome ' || outcome FROM pawl.outcomes
	UNION ALL SELECT job_id, 'quarantine' FROM pawl.quarantine
	UNION ALL SELECT id, 'lost by hand' FROM by_hand WHERE what = 'lease';

	CREATE VIEW new_jobs AS SELECT * FROM books WHERE NOT duplicate;
	CREATE VIEW opened AS SELECT l.*, p.name FROM lease_log l LEFT JOIN process_log p ON p.id = l.owner AND p.begins WHERE l.opens;
	CREATE VIEW closed AS SELECT l.*, p.name FROM lease_log l LEFT JOIN process_log p ON p.id = l.owner AND p.begins WHERE NOT l.opens;

	-- From the first claim of a job to the end of its last lease.
	CREATE VIEW spans AS
	SELECT l.job_id, min(l.seq) AS first, max(l.seq) AS last, b.order_key, b.producer, b.n
	FROM lease_log l JOIN new_jobs b ON b.id = l.job_id GROUP BY l.job_id, b.order_key, b.producer, b.n;

	CREATE VIEW keys AS
	SELECT j.id, j.organization_id, j.kind, j.idempotency_key, j.enqueued_at, b.at, j.enqueued_at + b.keep AS expires_at, o.finished_at, o.job_id AS finished
	FROM pawl.jobs j JOIN new_jobs b ON b.id = j.id LEFT JOIN pawl.outcomes o ON o.job_id = j.id WHERE j.idempotency_key IS NOT NULL;

	CREATE TABLE steps AS -- each lease of a job with the one before it
	SELECT seq, job_id, opens, attempt, lag(opens) OVER w AS before, lag(attempt) OVER w AS attempt_before FROM lease_log WINDOW w AS (PARTITION BY job_id ORDER BY seq);
	ANALYZE books, ledger, lease_log, process_log, steps, pawl.jobs, pawl.outcomes`

// chaosChecks are queries for what must not be when all is quiet.
var chaosChecks = []struct{ what, sql string }{
	{"a committed enqueue is in one place", `
		SELECT b.id, b.kind, b.mode, array_agg(p.place) FROM new_jobs b LEFT JOIN place p USING (id)
		GROUP BY 1, 2, 3 HAVING count(p.place) <> 1`},
	{"what is in a place was enqueued", `
		SELECT p.* FROM place p WHERE NOT EXISTS (SELECT FROM new_jobs b WHERE b.id = p.id)
		UNION ALL SELECT j.id, 'jobs' FROM pawl.jobs j WHERE NOT EXISTS (SELECT FROM new_jobs b WHERE b.id = j.id)`},
	{"an id is one job's", `SELECT id FROM new_jobs GROUP BY id HAVING count(*) > 1`},
	{"a job has its row, unless that was deleted", `
		SELECT b.id, b.kind FROM new_jobs b WHERE NOT EXISTS (SELECT FROM pawl.jobs j WHERE j.id = b.id)
			AND NOT EXISTS (SELECT FROM by_hand h WHERE h.id = b.id AND h.what = 'row')`},
	{"what is set aside has no row", `
		SELECT q.* FROM pawl.quarantine q WHERE NOT EXISTS (SELECT FROM by_hand h WHERE h.id = q.job_id AND h.what = 'row')`},
	{"a dead letter for each that died, and for no other", `
		SELECT COALESCE(o.job_id, d.job_id), o.outcome, d.code FROM (SELECT * FROM pawl.outcomes WHERE outcome = 3) o
		FULL JOIN pawl.dead_letters d ON d.job_id = o.job_id WHERE o.job_id IS NULL OR d.job_id IS NULL`},
	{"a dead letter has what its job was enqueued with", `
		SELECT d.job_id, d.code FROM pawl.dead_letters d JOIN pawl.jobs j ON j.id = d.job_id
		WHERE (d.kind, d.queue, d.organization_id, d.idempotency_key, d.order_key, d.trace_context, d.args::text)
			IS DISTINCT FROM (j.kind, j.queue, j.organization_id, j.idempotency_key, j.order_key, j.trace_context, j.args::text)`},
	{"nothing is left", `
		SELECT 'ready', id::text FROM pawl.ready UNION ALL SELECT 'lease', token::text FROM pawl.leases
		UNION ALL SELECT 'turn', encode(order_key, 'hex') FROM pawl.order_turns UNION ALL SELECT 'ordered', job_id::text FROM pawl.ordered
		UNION ALL SELECT 'process', name FROM pawl.processes UNION ALL SELECT 'sleeper', queue FROM pawl.sleepers UNION ALL SELECT 'pause', queue FROM pawl.paused_queues
		UNION ALL SELECT 'cancel request', job_id::text FROM pawl.cancel_requests c
			WHERE NOT EXISTS (SELECT FROM by_hand h WHERE h.id = c.job_id AND h.what = 'lease')`},

	{"a job has one lease at a time", `SELECT * FROM steps WHERE opens = COALESCE(before, false)`},
	{"attempts count up by one, or stay", `
		SELECT * FROM steps WHERE attempt_before IS NOT NULL AND attempt NOT BETWEEN attempt_before AND attempt_before + opens::integer
			AND NOT EXISTS (SELECT FROM by_hand h WHERE h.id = job_id AND h.what = 'spend')`},
	{"a first attempt is the first", `
		SELECT * FROM steps WHERE before IS NULL AND attempt <> 1 AND NOT EXISTS (SELECT FROM by_hand h WHERE h.id = job_id AND h.what = 'spend')`},
	{"attempts are in bounds", `
		SELECT b.id, b.kind, b.max_attempts, x.attempt FROM new_jobs b JOIN (
			SELECT job_id, attempt FROM pawl.outcomes o CROSS JOIN LATERAL (SELECT o.attempts AS attempt) a
			UNION ALL SELECT job_id, attempt FROM lease_log
		) x ON x.job_id = b.id WHERE x.attempt > b.max_attempts AND NOT EXISTS (SELECT FROM by_hand h WHERE h.id = b.id AND h.what = 'spend')`},
	{"no handler starts beyond the maximum", `
		SELECT l.* FROM ledger l JOIN new_jobs b ON b.id = l.job_id WHERE l.attempt > b.max_attempts`},

	{"a handler starts under a lease of its process, once", `
		SELECT l.job_id, l.attempt, l.who, l.n, o.n FROM
			(SELECT job_id, attempt, who, count(*) AS n, min(at) AS at FROM ledger WHERE event = 'start' GROUP BY 1, 2, 3) l
		LEFT JOIN (SELECT job_id, attempt, name, count(*) AS n, min(at) AS at FROM opened GROUP BY 1, 2, 3) o
			ON o.job_id = l.job_id AND o.attempt = l.attempt AND o.name = l.who
		WHERE l.n > COALESCE(o.n, 0) OR l.at < o.at`},
	{"what is completed was completed under its last lease, by whom had it", `
		SELECT o.job_id, o.attempts, c.attempt, c.name, c.who FROM pawl.outcomes o
		JOIN (SELECT DISTINCT ON (job_id) * FROM closed ORDER BY job_id, seq DESC) c USING (job_id)
		WHERE o.outcome = 1 AND (c.attempt <> o.attempts OR c.claimed_at <> o.claimed_at OR c.who IS DISTINCT FROM c.name)
		UNION ALL SELECT o.job_id, o.attempts, NULL, NULL, NULL FROM pawl.outcomes o
		WHERE o.outcome = 1 AND NOT EXISTS (SELECT FROM closed c WHERE c.job_id = o.job_id)`},
	{"nothing happens after the end", `
		SELECT o.job_id, o.outcome, o.finished_at, l.* FROM pawl.outcomes o JOIN lease_log l USING (job_id)
		WHERE l.opens AND l.at > o.finished_at`},
	{"a lease is ended by its owner, by hand, or by who found the owner gone", `
		SELECT c.*, p.at FROM closed c LEFT JOIN (SELECT id, min(at) AS at FROM process_log WHERE NOT begins GROUP BY id) p ON p.id = c.owner
		WHERE c.who IS DISTINCT FROM c.name AND c.who <> 'hand' AND (p.at IS NULL OR p.at > c.at)`},
	{"a process is removed by itself, by hand, or when its lease has expired", `
		SELECT * FROM process_log WHERE NOT begins AND who <> name AND who <> 'hand' AND expires_at >= at`},
	{"a completed ordinary attempt was reported as a success", `
		SELECT o.job_id, o.attempts FROM pawl.outcomes o JOIN new_jobs b ON b.id = o.job_id AND b.kind NOT LIKE 'tx%'
		WHERE o.outcome = 1 AND NOT EXISTS (
			SELECT FROM ledger l JOIN (SELECT DISTINCT ON (job_id) * FROM closed ORDER BY job_id, seq DESC) c USING (job_id)
			WHERE l.job_id = o.job_id AND l.attempt = o.attempts AND l.event = 'ok' AND l.who = c.name)`},
	{"effects of completed transactional attempts, once, and of no other", `
		SELECT b.id, o.outcome, o.attempts, e.n, e.attempt FROM new_jobs b LEFT JOIN pawl.outcomes o ON o.job_id = b.id
		LEFT JOIN (SELECT job_id, count(*) AS n, min(attempt) AS attempt FROM effects GROUP BY 1) e ON e.job_id = b.id
		WHERE b.kind LIKE 'tx%' AND (COALESCE(e.n, 0) <> (COALESCE(o.outcome, 0) = 1)::integer OR e.attempt <> o.attempts)`},
	{"what a transactional job enqueued exists if it completed", `
		SELECT f.id, f.parent FROM books f JOIN new_jobs b ON b.id = f.parent LEFT JOIN pawl.outcomes o ON o.job_id = b.id
		WHERE b.kind LIKE 'tx%' AND o.outcome IS DISTINCT FROM 1
		UNION ALL SELECT NULL, b.id FROM new_jobs b JOIN pawl.outcomes o ON o.job_id = b.id AND o.outcome = 1
		WHERE b.mode = 'follow' AND (SELECT count(*) FROM books f WHERE f.parent = b.id) <> 2 AND b.kind LIKE 'tx%'`},
	{"payloads are read as what they were written as", `SELECT * FROM ledger WHERE event = 'misread'`},
	{"failures end as their class says", `
		SELECT b.id, b.kind, b.mode, o.outcome, o.attempts, d.code, d.summary FROM new_jobs b JOIN pawl.outcomes o ON o.job_id = b.id LEFT JOIN pawl.dead_letters d ON d.job_id = b.id
		WHERE (o.outcome = 1 AND b.mode IN ('unknown', 'permanent', 'revoked', 'panic', 'goexit'))
			OR (o.outcome = 3 AND d.code NOT IN ('lease_lost', 'attempts_exhausted', 'transient', 'timeout')
				AND d.code <> CASE b.mode WHEN 'limited' THEN 'rate_limited' ELSE b.mode END)`},

	{"of an order key one job at a time", `
		SELECT a.order_key, a.job_id, b.job_id FROM spans a JOIN spans b ON b.order_key = a.order_key AND b.first > a.first AND b.first < a.last WHERE a.order_key <> ''`},
	{"of an order key in the order of enqueue", `
		SELECT a.order_key, a.job_id, b.job_id FROM spans a JOIN spans b ON b.order_key = a.order_key AND b.producer = a.producer AND a.n > 0 AND a.n < b.n
		WHERE a.order_key <> '' AND a.first > b.first`},

	{"an idempotency key is one job's, while that is unfinished or the key is held", `
		SELECT a.id, b.id, a.expires_at, a.finished_at, b.at FROM keys a JOIN keys b USING (organization_id, kind, idempotency_key)
		WHERE a.id <> b.id AND (a.enqueued_at, a.id) < (b.enqueued_at, b.id)
			AND (a.finished_at > b.at OR a.expires_at > b.at OR (a.finished IS NULL AND EXISTS (SELECT FROM by_hand h WHERE h.id = a.id AND h.what = 'lease')))`},
	{"a duplicate is one of a job with that key", `
		SELECT d.id, d.kind, d.key FROM books d WHERE d.duplicate
			AND NOT EXISTS (SELECT FROM new_jobs b WHERE b.id = d.id AND b.kind = d.kind AND b.key = d.key)`},
	// finished_at is from before the settlement waits for locks; its last
	// statement ends the lease.
	{"a duplicate is one of a key that was held", `
		SELECT d.id, d.began, o.finished_at, c.at, b.at + b.keep FROM books d JOIN new_jobs b ON b.id = d.id JOIN pawl.outcomes o ON o.job_id = b.id
		LEFT JOIN (SELECT job_id, max(at) AS at FROM closed GROUP BY job_id) c ON c.job_id = b.id
		WHERE d.duplicate AND d.isolation = 'read committed' AND b.at + b.keep < d.began
			AND GREATEST(o.finished_at, c.at) < d.began - interval '1 second'`},
	{"keys are of committed jobs", `
		SELECT k.kind, k.job_id FROM pawl.idempotency_keys k WHERE NOT EXISTS (SELECT FROM new_jobs b WHERE b.id = k.job_id)`},

	{"what is cancelled ends so", `
		SELECT c.id, c.answer, o.outcome FROM cancels c LEFT JOIN pawl.outcomes o ON o.job_id = c.id
		WHERE CASE c.answer WHEN 'cancelled' THEN o.outcome IS DISTINCT FROM 5 WHEN 'completed' THEN o.outcome IS DISTINCT FROM 1
			WHEN 'dead' THEN o.outcome IS DISTINCT FROM 3 ELSE false END`},
	{"nothing starts after it was cancelled", `
		SELECT c.id, c.answer, c.done_at, o.at, l.* FROM cancels c JOIN opened o ON o.job_id = c.id AND o.claimed_at > c.done_at
		JOIN ledger l ON l.job_id = c.id AND l.attempt = o.attempt AND l.who = o.name AND l.at >= o.at AND l.event = 'start'`},
	{"nothing is claimed from a paused queue", `
		SELECT p.queue, p.paused_at, o.claimed_at, p.resumed_at FROM pauses p JOIN opened o ON o.queue = p.queue
			AND o.claimed_at > p.paused_at AND o.at < p.resumed_at`},
	{"what no worker knows is not touched", `
		SELECT h.id, o.* FROM by_hand h JOIN opened o ON o.job_id = h.id AND o.at > h.at WHERE h.what = 'strand'`},
}

// requireLedgerExact makes every check.
func requireLedgerExact(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	exec(t, pool, chaosViews)
	for _, check := range chaosChecks {
		rows, err := pool.Query(t.Context(), check.sql)
		require.NoError(t, err, check.what)
		wrong, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (string, error) {
			var names []string
			values, err := row.Values()
			for i, v := range values {
				if id, ok := v.([16]byte); ok {
					v = fmt.Sprintf("%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:])
				}
				names = append(names, fmt.Sprintf("%s=%v", row.FieldDescriptions()[i].Name, v))
			}
			return strings.Join(names, " "), err
		})
		require.NoError(t, err, check.what)
		if len(wrong) > 0 {
			t.Errorf("broken: %s: %d times\n%s", check.what, len(wrong), strings.Join(slices.Compact(wrong[:min(len(wrong), 5)]), "\n"))
		}
	}
}
