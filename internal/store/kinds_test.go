package store_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/pawlgo/pawl/internal/store"
)

// kindNamed is a kind without idempotency that takes an n, and a text that may
// be left out.
func kindNamed(name string, change ...func(*store.Kind)) store.Kind {
	k := store.Kind{
		Name: name, Queue: "q", Version: 1, Capability: capability, Priority: 2, MaxAttempts: 3,
		Shape: json.RawMessage(`{"root":{"kind":"struct","ref":"A"},"structs":{"A":[` +
			`{"json":"n","go":"N","type":{"kind":"int"}},{"json":"text","go":"Text","type":{"kind":"string"},"omitempty":true}]}}`),
	}
	for _, c := range change {
		c(&k)
	}
	return k
}

func version(n int) func(*store.Kind) {
	return func(k *store.Kind) { k.Version, k.Capability = n, int64(n) }
}

func keyed(keep time.Duration) func(*store.Kind) {
	return func(k *store.Kind) { k.Keyed, k.Keep = true, keep }
}

// registry is table kinds as text, a line a kind, with what tells whether a row
// was written or locked.
func registry(t *testing.T, pool *pgxpool.Pool) string {
	t.Helper()
	return query[string](t, pool, `SELECT string_agg(k::text || ' ' || k.ctid || ' ' || k.xmin || ' ' || k.xmax, E'\n' ORDER BY k.kind) FROM pawl.kinds k`)
}

func TestRegisterKinds(t *testing.T) {
	t.Parallel()
	s, pool := open(t)
	full := kindNamed("full", version(3), keyed(72*time.Hour), func(k *store.Kind) {
		k.Capability, k.Priority, k.MaxAttempts, k.OrganizationField, k.Order = -9223372036854775807, 4, store.MaxAttempts, `the "organization"`, []string{"n", `a,"b}`}
	})
	require.NoError(t, s.RegisterKinds(t.Context(), []store.Kind{full, kindNamed("bare", func(k *store.Kind) { k.Shape = nil })}))
	var (
		capability   int64
		keep         time.Duration
		organization string
		order        []string
	)
	require.NoError(t, pool.QueryRow(t.Context(), `SELECT capability, keep, organization_field, order_fields FROM pawl.kinds
		WHERE kind = 'full' AND queue = 'q' AND version = 3 AND priority = 4 AND max_attempts = 32766 AND keyed AND shape #>> '{root,ref}' = 'A'`).
		Scan(&capability, &keep, &organization, &order))
	require.EqualValues(t, -9223372036854775807, capability)
	require.Equal(t, 72*time.Hour, keep)
	require.Equal(t, `the "organization"`, organization)
	require.Equal(t, []string{"n", `a,"b}`}, order)
	require.Equal(t, 1, query[int](t, pool, `SELECT count(*) FROM pawl.kinds
		WHERE kind = 'bare' AND NOT keyed AND keep IS NULL AND organization_field IS NULL AND order_fields IS NULL AND shape IS NULL`))

	// The same again writes nothing, and neither does an older version.
	before := registry(t, pool)
	require.NoError(t, s.RegisterKinds(t.Context(), []store.Kind{full, kindNamed("bare", func(k *store.Kind) { k.Shape = nil })}))
	require.NoError(t, s.RegisterKinds(t.Context(), []store.Kind{kindNamed("full", version(2))}))
	require.NoError(t, s.RegisterKinds(t.Context(), nil))
	require.Equal(t, before, registry(t, pool))

	// The same version under another declaration is written, and a newer one.
	full.MaxAttempts = 5
	require.NoError(t, s.RegisterKinds(t.Context(), []store.Kind{full}))
	require.Equal(t, 5, query[int](t, pool, `SELECT max_attempts FROM pawl.kinds WHERE kind = 'full'`))
	require.NoError(t, s.RegisterKinds(t.Context(), []store.Kind{kindNamed("full", version(4))}))
	require.Equal(t, 4, query[int](t, pool, `SELECT version FROM pawl.kinds WHERE kind = 'full' AND NOT keyed AND keep IS NULL AND order_fields IS NULL`))

	require.Error(t, s.RegisterKinds(t.Context(), []store.Kind{kindNamed("broken", func(k *store.Kind) { k.Shape = json.RawMessage(`{`) })}))
}

// Ten processes start at once, with binaries of different ages whose kinds come
// in any order: the newest version of each kind stays.
func TestRegisterKindsAtOnce(t *testing.T) {
	t.Parallel()
	s, pool := open(t)
	r := rand.New(rand.NewPCG(3, 5))
	newest := map[string]int{}
	for round := range 5 {
		var starts sync.WaitGroup
		errs := make([]error, 10)
		for i := range errs {
			var kinds []store.Kind
			for n := range 30 {
				k := kindNamed(fmt.Sprintf("kind_%d", n), version(1+r.IntN(3)+round))
				newest[k.Name] = max(newest[k.Name], k.Version)
				kinds = append(kinds, k)
			}
			r.Shuffle(len(kinds), func(a, b int) { kinds[a], kinds[b] = kinds[b], kinds[a] })
			starts.Go(func() { errs[i] = s.RegisterKinds(t.Context(), kinds) })
		}
		starts.Wait()
		for _, err := range errs {
			require.NoError(t, err)
		}
		rows, err := pool.Query(t.Context(), `SELECT kind, version FROM pawl.kinds WHERE capability = version`)
		require.NoError(t, err)
		var kind string
		var n int
		found := map[string]int{}
		_, err = pgx.ForEachRow(rows, []any{&kind, &n}, func() error { found[kind] = n; return nil })
		require.NoError(t, err)
		require.Equal(t, newest, found)
	}
}

// answer is what the function enqueue answers.
type answer struct {
	ID        uuid.UUID
	Duplicate bool
	SameArgs  bool
	State     string
}

// plain calls the function enqueue with the given list of arguments.
func plain(t *testing.T, pool *pgxpool.Pool, list string) (a answer, err error) {
	t.Helper()
	err = pool.QueryRow(t.Context(), `SELECT * FROM pawl.enqueue(`+list+`)`).Scan(&a.ID, &a.Duplicate, &a.SameArgs, &a.State)
	return a, err
}

func mustPlain(t *testing.T, pool *pgxpool.Pool, list string) answer {
	t.Helper()
	a, err := plain(t, pool, list)
	require.NoError(t, err)
	return a
}

func TestPlainEnqueue(t *testing.T) {
	t.Parallel()
	s, pool := open(t)
	require.NoError(t, s.RegisterKinds(t.Context(), []store.Kind{
		kindNamed("k"), kindNamed("once", keyed(time.Hour)),
		kindNamed("second", version(2), func(k *store.Kind) { k.Priority, k.MaxAttempts = 3, 9 }),
	}))

	a := mustPlain(t, pool, `'k', '{"n": 1, "text": "x"}'`)
	require.Equal(t, answer{ID: a.ID, SameArgs: true, State: "pending"}, a)
	require.EqualValues(t, 7, a.ID.Version())
	require.Equal(t, uuid.RFC4122, a.ID.Variant())
	require.Equal(t, 1, query[int](t, pool, `SELECT count(*) FROM pawl.jobs j JOIN pawl.ready r USING (id, day, queue, priority, run_at, capability)
		WHERE j.id = $1 AND j.kind = 'k' AND j.queue = 'q' AND j.version = 1 AND j.capability = 7 AND j.priority = 2 AND j.max_attempts = 3
			AND j.organization_id = '' AND j.idempotency_key IS NULL AND j.args = '{"n": 1, "text": "x"}' AND r.attempts = 0`, a.ID))

	a = mustPlain(t, pool, `'second', '{"n": 1}'`)
	require.Equal(t, 1, query[int](t, pool, `SELECT count(*) FROM pawl.jobs WHERE id = $1 AND version = 2 AND capability = 2 AND priority = 3 AND max_attempts = 9`, a.ID))
	a = mustPlain(t, pool, `'second', '{"n": 1}', priority => 'low', attempts => 32766, organization_id => 'acme', delay => '1 hour'`)
	require.Equal(t, "scheduled", a.State)
	require.Equal(t, 1, query[int](t, pool, `SELECT count(*) FROM pawl.jobs WHERE id = $1 AND priority = 1 AND max_attempts = 32766 AND organization_id = 'acme'
		AND run_at - enqueued_at BETWEEN interval '1 hour' AND interval '1 hour 1 minute'`, a.ID))
	a = mustPlain(t, pool, `'k', '{"n": 1}', run_at => '2999-12-31 23:59:59.123456Z'`)
	require.Equal(t, "scheduled", a.State)
	require.Equal(t, 1, query[int](t, pool, `SELECT count(*) FROM pawl.ready WHERE id = $1 AND run_at = '2999-12-31 23:59:59.123456Z'`, a.ID))
	require.Equal(t, "pending", mustPlain(t, pool, `'k', '{"n": 1}', run_at => '1999-12-31Z'`).State)
	require.Equal(t, "pending", mustPlain(t, pool, `'k', '{"n": 1}', delay => '-1 hour'`).State)

	first := mustPlain(t, pool, `'once', '{"n": 1}', 'a key'`)
	require.False(t, first.Duplicate)
	require.Equal(t, answer{ID: first.ID, Duplicate: true, SameArgs: true, State: "pending"}, mustPlain(t, pool, `'once', '{"n": 1}', 'a key'`))
	require.Equal(t, answer{ID: first.ID, Duplicate: true, State: "pending"}, mustPlain(t, pool, `'once', '{"n": 2}', 'a key'`))
	require.False(t, mustPlain(t, pool, `'once', '{"n": 1}', 'a key', organization_id => 'acme'`).Duplicate, "organizations do not share keys")
	require.Equal(t, 1, query[int](t, pool, `SELECT count(*) FROM pawl.idempotency_keys WHERE job_id = $1 AND key = sha256('key:a key')
		AND expires_at BETWEEN clock_timestamp() + interval '59 minutes' AND clock_timestamp() + interval '1 hour'`, first.ID))
	second := mustPlain(t, pool, `'k', '{"n": 1}', key => 'a key', keep => '2 days'`)
	require.False(t, second.Duplicate, "kinds do not share keys")
	require.Equal(t, 1, query[int](t, pool, `SELECT count(*) FROM pawl.idempotency_keys WHERE job_id = $1
		AND expires_at BETWEEN clock_timestamp() + interval '47 hours' AND clock_timestamp() + interval '2 days'`, second.ID))
	require.Equal(t, 1, query[int](t, pool, `SELECT count(*) FROM (SELECT (pawl.enqueue('k', '{"n": 1}')).id) x WHERE id IS NOT NULL`))
}

// What is refused, is refused with a code, says what to do, and leaves nothing.
func TestPlainEnqueueRefusals(t *testing.T) {
	t.Parallel()
	s, pool := open(t)
	_, err := plain(t, pool, `'k', '{}'`)
	requireRefusal(t, err, store.CodeUnknownKind, "there is no kind 'k'", "No worker has registered any kind.", "A kind is known when a worker that handles it has started once.")

	require.NoError(t, s.RegisterKinds(t.Context(), []store.Kind{
		kindNamed("k"), kindNamed("once", keyed(time.Hour)), kindNamed("send_webhook"), kindNamed("send_receipt"), kindNamed("purge"), kindNamed("a"), kindNamed("b"),
		kindNamed("owned", func(k *store.Kind) { k.OrganizationField = "text" }),
		kindNamed("any", func(k *store.Kind) { k.Shape = nil }),
	}))
	const option = store.CodeInvalidOption
	for _, c := range []struct{ list, code, message, detail, hint string }{
		{`'send_webhok', '{}'`, store.CodeUnknownKind, "there is no kind 'send_webhok'", "The nearest that there are: send_webhook, send_receipt, a, any, b.", "A kind is known when a worker that handles it has started once."},
		{`NULL, '{}'`, store.CodeUnknownKind, "there is no kind NULL", "The nearest that there are: a, any, b, k, once.", "A kind is known when a worker that handles it has started once."},
		{`'it''s', '{}'`, store.CodeUnknownKind, "there is no kind 'it''s'", "The nearest that there are: a, any, b, k, once.", "A kind is known when a worker that handles it has started once."},

		{`'k', NULL`, store.CodeMisfit, "the arguments do not fit k", "args: expected a JSON value, got NULL of SQL", "They are held against version 1 of its payload. Names of members are case-sensitive."},
		{`'k', '{"n": "1"}'`, store.CodeMisfit, "the arguments do not fit k", "args.n: expected a whole number without a decimal point, from -9223372036854775808 to 9223372036854775807, got a string", "They are held against version 1 of its payload. Names of members are case-sensitive."},
		{`'k', '{"n": 1, "txt": ""}'`, store.CodeMisfit, "the arguments do not fit k", "args.txt: there is no such member; there are n, text", "They are held against version 1 of its payload. Names of members are case-sensitive."},
		{`'any', to_jsonb(repeat('x', 67108863))`, store.CodeMisfit, "the arguments do not fit any", "args: 67108865 bytes as text, of at most 67108864", "They are held against version 1 of its payload. Names of members are case-sensitive."},

		{`'once', '{"n": 1}'`, store.CodeMissingKey, "cannot enqueue once: it wants a key", "The kind declares idempotency, and its key is made in Go.", "Give one that is the same whenever the work is, such as key => 'order 7'."},

		{`'once', '{"n": 1}', key => ''`, option, "cannot enqueue once: key is empty", "", "Name the work that is to happen once, or leave the key out."},
		{`'k', '{"n": 1}', key => 'a'`, option, "cannot enqueue k: key is given without keep", "", "This kind declares no idempotency: say for how long the key is held at least, such as keep => '72h'."},
		{`'k', '{"n": 1}', keep => '1h'`, option, "cannot enqueue k: keep is given without a key", "", "Give both, or neither."},
		{`'k', '{"n": 1}', key => 'a', keep => '0'`, option, "cannot enqueue k: keep is 00:00:00", "", "Give a time above zero and up to 292 years."},
		{`'k', '{"n": 1}', key => 'a', keep => '-1h'`, option, "cannot enqueue k: keep is -01:00:00", "", "Give a time above zero and up to 292 years."},
		{`'k', '{"n": 1}', key => 'a', keep => '300 years'`, option, "cannot enqueue k: keep is 300 years", "", "Give a time above zero and up to 292 years."},
		{`'k', '{"n": 1}', run_at => 'infinity'`, option, "cannot enqueue k: run_at is infinity", "", "Give a time of the years 1 to 9999."},
		{`'k', '{"n": 1}', run_at => '-infinity'`, option, "cannot enqueue k: run_at is -infinity", "", "Give a time of the years 1 to 9999."},
		{`'k', '{"n": 1}', run_at => '10000-01-01Z'`, option, "cannot enqueue k: run_at is 10000-01-01 00:00:00+00", "", "Give a time of the years 1 to 9999."},
		{`'k', '{"n": 1}', run_at => '2999-01-01Z', delay => '1h'`, option, "cannot enqueue k: run_at and delay are both given", "", "Give one of them."},
		{`'k', '{"n": 1}', delay => '300 years'`, option, "cannot enqueue k: delay is 300 years", "", "Give a time of up to 292 years."},
		{`'k', '{"n": 1}', priority => 'High'`, option, "cannot enqueue k: priority is 'High'", "", "Give low, normal, high or urgent."},
		{`'k', '{"n": 1}', attempts => 0`, option, "cannot enqueue k: attempts is 0", "", "Give 1 to 32766."},
		{`'k', '{"n": 1}', attempts => 32767`, option, "cannot enqueue k: attempts is 32767", "", "Give 1 to 32766."},
		{`'k', '{"n": 1}', organization_id => repeat('x', 1001)`, option, "cannot enqueue k: the organization has 1001 bytes", "", "Use its id, of at most 1000 bytes."},
		{`'owned', '{"n": 1, "text": "acme"}', organization_id => 'other'`, option, "cannot enqueue owned: organization_id is not that of the arguments", "The kind takes its organization from args.text.", "Leave organization_id out."},
	} {
		config := pool.Config().ConnConfig.Copy()
		config.RuntimeParams["timezone"] = "UTC"
		conn, err := pgx.ConnectConfig(t.Context(), config)
		require.NoError(t, err)
		_, err = conn.Exec(t.Context(), `SELECT * FROM pawl.enqueue(`+c.list+`)`)
		requireRefusal(t, err, c.code, c.message, c.detail, c.hint)
		require.NoError(t, conn.Close(t.Context()))
	}
	require.Zero(t, audit(t, s))
	require.Zero(t, query[int](t, pool, `SELECT count(*) FROM pawl.idempotency_keys`))
}

func requireRefusal(t *testing.T, err error, code, message, detail, hint string) {
	t.Helper()
	var refused *pgconn.PgError
	require.ErrorAs(t, err, &refused)
	require.Equal(t, []string{code, message, detail, hint}, []string{refused.Code, refused.Message, refused.Detail, refused.Hint})
}

// What nests deeper than encoding/json decodes would be a dead letter.
func TestPlainEnqueueDepth(t *testing.T) {
	t.Parallel()
	s, pool := open(t)
	require.NoError(t, s.RegisterKinds(t.Context(), []store.Kind{kindNamed("any", func(k *store.Kind) { k.Shape = nil })}))
	// Neither many brackets nor those in text count.
	nested := func(depth int) string {
		return `'any', ('[' || repeat('[],', 10000) || repeat('[', ` + fmt.Sprint(depth-1) + `) || '"[[["' || repeat(']', ` + fmt.Sprint(depth) + `))::jsonb`
	}
	mustPlain(t, pool, nested(10_000))
	_, err := plain(t, pool, nested(10_001))
	requireRefusal(t, err, store.CodeMisfit, "the arguments do not fit any", "args: nested deeper than 10000 levels",
		"They are held against version 1 of its payload. Names of members are case-sensitive.")
	require.Equal(t, store.Audit{Ready: 1}, audit(t, s))
}

// The organization of a payload is what Go makes of it.
func TestPlainEnqueueOrganization(t *testing.T) {
	t.Parallel()
	s, pool := open(t)
	const id = "6ba7b810-9dad-11d1-80b4-00c04fd430c8"
	for i, c := range []struct{ node, args, want string }{
		{`{"kind":"string"}`, `{"o": "acme"}`, "acme"},
		{`{"kind":"string"}`, `{"o": ""}`, ""},
		{`{"kind":"string"}`, `{}`, ""},
		{`{"kind":"int64"}`, `{"o": -7}`, "-7"},
		{`{"kind":"uint64"}`, `{"o": 18446744073709551615}`, "18446744073709551615"},
		{`{"kind":"int"}`, `{"o": 0}`, "0"},
		{`{"kind":"int"}`, `{}`, "0"},
		{`{"kind":"opaque","ref":"github.com/google/uuid.UUID"}`, `{"o": "` + id + `"}`, id},
		{`{"kind":"opaque","ref":"github.com/google/uuid.UUID"}`, `{"o": "` + uuid.Nil.String() + `"}`, ""},
		{`{"kind":"string"}`, `{"o": "` + uuid.Nil.String() + `"}`, uuid.Nil.String()},
		{`{"kind":"opaque","ref":"example.com/x.Tenant"}`, `{"o": "acme"}`, "acme"},
	} {
		name := fmt.Sprintf("kind_%d", i)
		require.NoError(t, s.RegisterKinds(t.Context(), []store.Kind{kindNamed(name, func(k *store.Kind) {
			k.OrganizationField = "o"
			k.Shape = json.RawMessage(`{"root":{"kind":"struct","ref":"A"},"structs":{"A":[{"json":"o","go":"O","type":` + c.node + `,"omitempty":true}]}}`)
		})}))
		for _, list := range []string{
			fmt.Sprintf(`'%s', '%s'`, name, c.args),
			fmt.Sprintf(`'%s', '%s', organization_id => '%s'`, name, c.args, c.want),
		} {
			a := mustPlain(t, pool, list)
			require.Equal(t, c.want, query[string](t, pool, `SELECT organization_id FROM pawl.jobs WHERE id = $1`, a.ID), "%s", list)
		}
	}
	// Without a shape the member is all there is to go by.
	require.NoError(t, s.RegisterKinds(t.Context(), []store.Kind{kindNamed("any", func(k *store.Kind) { k.Shape, k.OrganizationField = nil, "o" })}))
	a := mustPlain(t, pool, `'any', '{"o": "acme"}'`)
	require.Equal(t, "acme", query[string](t, pool, `SELECT organization_id FROM pawl.jobs WHERE id = $1`, a.ID))
}

// Ids sort by the time at which they were made.
func TestNewID(t *testing.T) {
	t.Parallel()
	_, pool := open(t)
	var ids []string
	for range 50 {
		ids = append(ids, query[string](t, pool, `SELECT pawl.new_id()::text`))
	}
	require.True(t, slices.IsSorted(ids))
	id := uuid.MustParse(ids[0])
	require.EqualValues(t, 7, id.Version())
	require.Equal(t, uuid.RFC4122, id.Variant())
	seconds, _ := id.Time().UnixTime()
	require.InDelta(t, time.Now().Unix(), seconds, 60)
	require.Equal(t, 1000, query[int](t, pool, `SELECT count(DISTINCT pawl.new_id()) FROM generate_series(1, 1000)`))
}
