package runtime_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/netip"
	goruntime "runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/pawlgo/pawl/internal/store"
	"github.com/pawlgo/pawl/internal/testdb"
	pawlrt "github.com/pawlgo/pawl/runtime"
	"github.com/pawlgo/pawl/task"
	"github.com/pawlgo/pawl/task/taskimpl"
)

// What must not come out, as a text and as a number.
const (
	secretText   = "5kr4tz-marker"
	secretNumber = 867530912345678
)

// confidential is a payload that has nothing but what must not come out, and what
// its handler is to do with it.
type confidential struct {
	Mode   string            `json:"mode"`
	Org    string            `json:"org"`
	Secret string            `json:"secret" task:"redact"`
	Open   string            `json:"open"`
	Number int64             `json:"number"`
	Quoted int64             `json:"quoted,string"`
	At     time.Time         `json:"at"`
	From   netip.Addr        `json:"from"`
	Map    map[string]string `json:"map"`
	Picky  picky             `json:"picky"`
	Raw    json.RawMessage   `json:"raw,omitempty"`
	Float  float64           `json:"float"`
	Exact  json.Number       `json:"exact,omitempty"`
}

// picky panics with what it cannot decode.
type picky string

func (p *picky) UnmarshalJSON(raw []byte) error {
	if string(raw) != `"`+secretText+`"` {
		panic("not that: " + string(raw))
	}
	*p = secretText
	return nil
}

func full(mode string) confidential {
	return confidential{
		Mode: mode, Org: secretText, Secret: secretText, Open: secretText, Number: secretNumber, Quoted: secretNumber,
		At: time.UnixMicro(secretNumber).UTC(), From: netip.MustParseAddr("fe80::1%" + secretText),
		Map: map[string]string{secretText: secretText}, Picky: secretText,
	}
}

// undecodable are stored values that do not fit, each in a way of its own.
func undecodable() (all []string) {
	text, number := fmt.Sprintf("%q", secretText), fmt.Sprint(secretNumber)
	all = []string{text, number, `[` + text + `]`}
	for _, member := range []string{
		`"secret": ` + number, `"open": ` + number, `"number": ` + text, `"number": ` + number + `.5`, `"number": 1e` + number[:5], `"quoted": ` + text,
		`"at": ` + text, `"from": ` + text, `"map": {` + text + `: ` + number + `}`, `"picky": "x` + secretText + `"`, `"exact": ` + text,
	} {
		all = append(all, `{`+member+`}`)
	}
	return all
}

// unencodable are payloads that cannot be stored.
func unencodable() (all []confidential) {
	for _, spoil := range []func(*confidential){
		func(c *confidential) { c.Open += "\x00" },
		func(c *confidential) { c.Open += "\xff" },
		func(c *confidential) { c.Map = map[string]string{secretText: "\xff"} },
		func(c *confidential) { c.Map = map[string]string{secretText + "\xff": ""} },
		func(c *confidential) { c.Org += "\x00" },
		func(c *confidential) { c.Org = strings.Repeat(secretText, 1000) },
		func(c *confidential) { c.Raw = json.RawMessage(`{` + secretText) },
		func(c *confidential) { c.Raw = json.RawMessage(`"` + secretText + `\ud800"`) },
		func(c *confidential) { c.Raw = json.RawMessage(fmt.Sprint(secretNumber, "e", secretNumber)) },
		func(c *confidential) { c.Exact = json.Number(fmt.Sprint(secretNumber, "e200000")) },
		func(c *confidential) { c.Exact = secretText },
		func(c *confidential) { c.Float = math.NaN() },
		func(c *confidential) { c.At = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC) },
	} {
		c := full("")
		spoil(&c)
		all = append(all, c)
	}
	return all
}

// leaky is a worker whose every word is kept.
type leaky struct {
	pool   *pgxpool.Pool
	log    journal
	spans  traces
	meters *meters
	ctx    context.Context // with a trace
}

// said is all that has come out.
func (l *leaky) said(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	b.WriteString(l.log.String())
	for _, s := range l.spans.ended() {
		fmt.Fprintln(&b, "span", s.name, s.code, s.status, s.attributes, s.links, s.context.TraceState())
		for key, value := range s.attributes {
			fmt.Fprintln(&b, key, value.String())
		}
		b.WriteString(s.events.String())
	}
	for _, p := range l.meters.collect(t) {
		fmt.Fprintln(&b, "metric", p.name, p.labels)
	}
	return b.String()
}

func (l *leaky) config() pawlrt.Config {
	return pawlrt.Config{
		Logger:         slog.New(slog.NewJSONHandler(&l.log, &slog.HandlerOptions{Level: slog.LevelDebug, AddSource: true})),
		TracerProvider: &l.spans, MeterProvider: l.meters, Lease: 3 * time.Second, Poll: 50 * time.Millisecond,
	}
}

// confidentialKind is a kind of such jobs. Decode of version 2 is as an upgrader
// that fails with what it has read.
func confidentialKind(name, redact string, change ...func(*taskimpl.Kind[confidential])) *taskimpl.Kind[confidential] {
	k := &taskimpl.Kind[confidential]{
		Name: name, Queue: "q", Priority: task.Normal, Version: 1, Redact: redact, Keep: time.Hour,
		Policy:       taskimpl.Policy{Attempts: 2, Base: time.Millisecond, Max: time.Millisecond, Unknown: 2, Timeout: 300 * time.Millisecond},
		Capabilities: []taskimpl.Capability{{Version: 1, ID: uint64(len(name)) << 8}, {Version: 2, ID: uint64(len(name))<<8 + 1}},
		Organization: func(c *confidential) (string, error) { return c.Org, nil }, OrganizationField: "org",
		Decode: decodeConfidential,
	}
	for _, c := range change {
		c(k)
	}
	return k
}

func decodeConfidential(version int, raw []byte) (confidential, error) {
	if version == 2 {
		return confidential{}, fmt.Errorf("no upgrade of %s", raw)
	}
	return taskimpl.As[confidential](raw)
}

// endings are the ways in which handlers and projections end, without a word of the
// payload in what is their own.
var endings = []string{"success", "transient", "permanent", "unknown", "revoked", "panic", "goexit", "timeout", "stuck", "snooze"}

// act does what a payload asks for.
func act(ctx context.Context, c *confidential, attempt int, opened <-chan struct{}) error {
	switch c.Mode {
	case "transient":
		return task.Transient(errors.New("later"))
	case "permanent":
		return task.Permanent(errors.New("never"))
	case "unknown":
		return errors.New("what")
	case "revoked":
		return task.Revoked(errors.New("not any more"))
	case "panic":
		var none map[string]confidential
		none[c.Secret] = *c
	case "goexit":
		goruntime.Goexit()
	case "timeout":
		<-ctx.Done()
		return ctx.Err()
	case "stuck":
		<-opened
	case "snooze":
		if attempt == 1 && ctx.Err() == nil && c.Float == 0 {
			return task.Snooze(24 * time.Hour)
		}
	}
	return nil
}

// Nothing of a payload is in the log, in spans and in metrics, whatever becomes of
// its job.
func TestNothingOfAJobComesOut(t *testing.T) {
	t.Parallel()
	for name, redact := range map[string]string{"open": "", "redacted": `[["secret"]]`} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := &leaky{pool: testdb.Migrated(t), meters: newMeters()}
			l.ctx, _ = callerContext(t)
			opened := make(chan struct{})
			plain, inTx := confidentialKind("plain", redact), confidentialKind("transactional", redact)
			inOrder := confidentialKind("in_order", redact, func(k *taskimpl.Kind[confidential]) {
				k.Order = []string{"secret", "mode"}
				k.Key = func(c *confidential) []any { return []any{c.Secret, c.Mode} }
			})
			ticking := confidentialKind("ticking_often", redact, func(k *taskimpl.Kind[confidential]) {
				bad, n := unencodable(), 0
				k.Schedule = &taskimpl.Schedule[confidential]{Spec: "@every 1s", Zone: "UTC", Missed: "one", Args: func(time.Time) confidential {
					n++
					return bad[n%len(bad)]
				}}
			})
			handle := func(ctx context.Context, job *task.Job[confidential]) error {
				if job.Args.Mode != "enqueue" {
					return act(ctx, &job.Args, job.Attempt, opened)
				}
				_, err := taskimpl.Enqueue(ctx, task.Autocommit(l.pool), plain, unencodable()[int(job.Args.Float)], nil)
				return err
			}
			var n, dead int
			put := func(k *taskimpl.Kind[confidential], c confidential, opts ...task.EnqueueOption) {
				t.Helper()
				n++
				_, err := taskimpl.Enqueue(l.ctx, task.Autocommit(l.pool), k, c, opts)
				require.NoError(t, err)
			}
			for _, k := range []*taskimpl.Kind[confidential]{plain, inTx, inOrder} {
				for _, mode := range endings {
					put(k, full(mode))
				}
				for i := range unencodable() {
					c := full("enqueue")
					c.Float = float64(i)
					put(k, c, task.Key(fmt.Sprint(secretText, k.Name, i), time.Hour))
				}
				for i, raw := range append(undecodable(), `{}`) {
					version := 1 + i/len(undecodable())
					id, err := uuid.NewV7()
					require.NoError(t, err)
					batch := &store.Batch{Kind: k.Name, Queue: "q", Version: version, Capability: int64(k.Capabilities[version-1].ID), Priority: 2, MaxAttempts: 3,
						Jobs: []store.NewJob{{ID: id, Args: raw}}}
					_, err = store.Enqueue(l.ctx, l.pool, store.DefaultSchema, batch)
					require.NoError(t, err)
					n++
					dead++
				}
			}
			lostJobs(t, l.pool, plain)
			n += 2

			config := l.config()
			config.Queues = map[string]pawlrt.Queue{"q": {Concurrency: 20}}
			config.Tables = []task.Table{taskimpl.Table(
				taskimpl.Row(plain, handle),
				taskimpl.TxRow(inTx, func(ctx context.Context, _ pgx.Tx, job *task.Job[confidential]) error { return handle(ctx, job) }),
				taskimpl.Row(inOrder, handle), taskimpl.Row(ticking, handle),
			)}
			w := start(t, l.pool, config)
			testdb.Eventually(t, 6*slow, "all jobs to end but those that snooze", func() bool {
				a := audit(t, l.pool)
				return a.Completed+a.Dead+a.Cancelled+a.Quarantined == n-3 && w.Stats().Schedules.Errors > 0 && w.Stats().Stuck > 0
			})
			close(opened)
			testdb.Eventually(t, slow, "the sample", func() bool { return w.Stats().Database.Sampled })
			said := l.said(t)
			require.NoError(t, w.shutdown(t))
			said += l.said(t)
			requireSilent(t, said)
			for _, seen := range []string{`"code":"undecodable"`, `"code":"panic"`, `"code":"timeout"`, `"code":"permanent"`, `"code":"transient"`,
				"cannot make the job of a tick", "the arguments cannot be stored", "ignores the end of its context", "span process q", "metric pawl.job.ended",
				"a JSON number does not fit open", "is left out"} {
				require.True(t, strings.Contains(said, seen), "the test does not see %s", seen)
			}
			require.GreaterOrEqual(t, query[int](t, l.pool, `SELECT count(*) FROM pawl.dead_letters WHERE code = 'undecodable'`), dead)
			if redact == "" {
				require.Positive(t, query[int](t, l.pool, `SELECT count(*) FROM pawl.dead_letters WHERE summary LIKE '%' || $1 || '%'`, secretText), "what is stored may say it")
			} else {
				require.Zero(t, query[int](t, l.pool, `SELECT count(*) FROM pawl.dead_letters WHERE summary LIKE '%' || $1 || '%'`, secretText))
			}
		})
	}
}

// lostJobs enqueues two jobs that a process has which is dead: one of them has no
// attempt left.
func lostJobs(t *testing.T, pool *pgxpool.Pool, k *taskimpl.Kind[confidential]) {
	t.Helper()
	theirs := *k
	theirs.Queue = "theirs"
	_, err := taskimpl.EnqueueMany(t.Context(), task.Autocommit(pool), &theirs, []confidential{full("success"), full("success")}, nil)
	require.NoError(t, err)
	st, err := store.Open(t.Context(), pool, store.DefaultSchema, 2)
	require.NoError(t, err)
	defer st.Close()
	dead, capabilities := uuid.New(), []int64{int64(k.Capabilities[0].ID)}
	require.NoError(t, st.Register(t.Context(), &store.Process{ID: dead, Name: "dead", Queues: []string{"theirs"}, Capabilities: capabilities, Lease: time.Hour}))
	claimed, err := st.Claim(t.Context(), &store.Claim{Owner: dead, Token: uuid.New(), Queue: "theirs", Limit: 2, Capabilities: capabilities})
	require.NoError(t, err)
	require.Len(t, claimed.Jobs, 2)
	exec(t, pool, `UPDATE pawl.jobs SET max_attempts = 1 WHERE id = $1`, claimed.Jobs[0].ID)
	exec(t, pool, `UPDATE pawl.jobs SET queue = 'q' WHERE queue = 'theirs'`)
	exec(t, pool, `UPDATE pawl.leases SET queue = 'q' WHERE queue = 'theirs'`)
	exec(t, pool, `UPDATE pawl.processes SET expires_at = clock_timestamp() WHERE id = $1`, dead)
}

// Nothing of a payload is there either, whatever becomes of its event.
func TestNothingOfAnEventComesOut(t *testing.T) {
	t.Parallel()
	for name, redact := range map[string]string{"open": "", "redacted": `[["secret"]]`} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := &leaky{pool: testdb.Migrated(t), meters: newMeters()}
			l.ctx, _ = callerContext(t)
			opened := make(chan struct{})
			exec(t, l.pool, `CREATE TABLE parent (id text PRIMARY KEY)`)
			exec(t, l.pool, `CREATE TABLE child (id text REFERENCES parent DEFERRABLE INITIALLY DEFERRED)`)
			e := &taskimpl.Event[confidential]{
				Name: "secret.told", Aggregate: "secret", Version: 1, Redact: redact,
				Policy:       taskimpl.Policy{Attempts: 2, Base: time.Millisecond, Max: time.Millisecond, Unknown: 2, Timeout: 300 * time.Millisecond},
				Capabilities: []taskimpl.Capability{{Version: 1, ID: 0xE1}, {Version: 2, ID: 0xE2}},
				Organization: func(c *confidential) (string, error) { return c.Org, nil }, OrganizationField: "org",
				Decode: decodeConfidential,
			}
			n := 0
			publish := func(c confidential) uuid.UUID {
				t.Helper()
				n++
				r, err := taskimpl.Publish(l.ctx, task.Autocommit(l.pool), e, fmt.Sprint(n), c, nil)
				require.NoError(t, err)
				return r.ID
			}
			for _, mode := range append(endings, "deferred", "commit", "lost") {
				publish(full(mode))
			}
			exec(t, l.pool, `UPDATE pawl.pending_events SET suspect = true, claim = gen_random_uuid(), claimed_at = clock_timestamp() - interval '6 seconds', claimed_by = 'another' WHERE id IN (
				SELECT id FROM pawl.events WHERE payload ->> 'mode' = 'lost')`)
			for i := range unencodable() {
				c := full("publish")
				c.Float = float64(i)
				publish(c)
			}
			for i, raw := range append(undecodable(), `{}`) {
				version := 1 + i/len(undecodable())
				n++
				id, err := uuid.NewV7()
				require.NoError(t, err)
				require.NoError(t, store.Publish(l.ctx, l.pool, store.DefaultSchema, &store.NewEvent{ID: id, Type: e.Name, AggregateType: e.Aggregate, AggregateID: fmt.Sprint(n),
					Version: version, Capability: int64(e.Capabilities[version-1].ID), Payload: raw}))
			}

			config := l.config()
			config.Events = []task.EventTable{taskimpl.EventTable(taskimpl.EventRow(e, func(ctx context.Context, tx pgx.Tx, f *task.Fact[confidential]) error {
				switch f.Payload.Mode {
				case "publish":
					_, err := taskimpl.Publish(ctx, tx, e, "other", unencodable()[int(f.Payload.Float)], nil)
					return err
				case "deferred":
					_, err := tx.Exec(ctx, `INSERT INTO child VALUES ($1)`, f.Payload.Secret)
					return err
				case "commit":
					_, err := tx.Exec(ctx, `COMMIT`)
					return err
				}
				return act(ctx, &f.Payload, f.Attempt, opened)
			}))}
			w := start(t, l.pool, config)
			testdb.Eventually(t, 6*slow, "all events to be over but one that snoozes", func() bool {
				return query[int](t, l.pool, `SELECT count(*) FROM pawl.pending_events`) == 1 && w.Stats().Events.Stuck > 0
			})
			close(opened)
			testdb.Eventually(t, slow, "the sample", func() bool { return w.Stats().Database.Sampled })
			said := l.said(t)
			require.NoError(t, w.shutdown(t))
			said += l.said(t)
			requireSilent(t, said)
			for _, seen := range []string{`"code":"undecodable"`, `"code":"panic"`, `"code":"timeout"`, `"code":"permanent"`, "ended in the middle of it", "violates foreign key constraint",
				"the arguments cannot be stored", "span process secret.told", "process_lost", "metric pawl.event.ended", "a JSON number does not fit open", "is left out"} {
				require.True(t, strings.Contains(said, seen), "the test does not see %s", seen)
			}
		})
	}
}

func requireSilent(t *testing.T, said string) {
	t.Helper()
	for _, secret := range []string{secretText, fmt.Sprint(secretNumber), fmt.Sprintf("%x", secretNumber)} {
		for line := range strings.Lines(said) {
			if strings.Contains(line, secret) {
				t.Errorf("it comes out: %.1000s", line)
			}
		}
	}
}
