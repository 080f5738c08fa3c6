package taskimpl_test

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pawlgo/pawl/internal/store"
	"github.com/pawlgo/pawl/task"
	"github.com/pawlgo/pawl/task/taskimpl"
)

// counted counts the statements of a transaction.
type counted struct {
	pgx.Tx
	n int
}

func (c *counted) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	c.n++
	return c.Tx.QueryRow(ctx, sql, args...)
}

type (
	inner    struct{ S string }
	Embedded struct{ Text string }
	outer    struct {
		Embedded
		P *inner          `json:"p"`
		M map[string]any  `json:"m"`
		A [2]string       `json:"a"`
		R json.RawMessage `json:"r"`
	}
)

// failing marshals itself, or does not.
type failing struct{}

func (failing) MarshalJSON() ([]byte, error) { return nil, errors.New("cannot") }

// written marshals itself to the text it is.
type written string

func (w written) MarshalJSON() ([]byte, error) { return []byte(w), nil }

// spelled marshals itself as text.
type spelled struct{ text string }

func (s spelled) MarshalText() ([]byte, error) { return []byte(s.text), nil }

// opaque marshals itself to what is not in it.
type opaque struct{}

func (opaque) MarshalText() ([]byte, error) { return []byte("\xff"), nil }

func nested(depth int) json.RawMessage {
	return json.RawMessage(strings.Repeat("[", depth) + strings.Repeat("]", depth))
}

// What the database could not store is refused before any SQL, and the caller's
// transaction goes on.
func TestRefusedPayloads(t *testing.T) {
	t.Parallel()
	pool := migrated(t)
	s, nul := "bad \xff", "nul \x00"
	var cycle []any
	cycle = []any{&cycle}
	for name, v := range map[string]any{
		"NUL": nul, "NUL in a key": map[string]int{nul: 1}, "NUL nested": []any{map[string]any{"x": []string{"a", nul}}},
		"NUL behind a pointer": &outer{P: &inner{S: nul}}, "NUL in RawMessage": json.RawMessage(`{"a": "\u0000"}`), "NUL by a marshaler": written(`"\u0000"`),
		"NUL by a text marshaler": spelled{nul}, "NUL after a backslash": json.RawMessage(`"\\\u0000"`),

		"UTF-8": s, "UTF-8 in a key": map[string]int{s: 1}, "UTF-8 in a slice": []string{"a", s}, "UTF-8 in an array": [2]string{"a", s},
		"UTF-8 in a map": map[string]any{"a": map[string]string{"b": s}}, "UTF-8 behind pointers": &outer{P: &inner{S: s}},
		"UTF-8 embedded": outer{Embedded: Embedded{Text: s}}, "UTF-8 in interfaces": []any{[]any{&s}},
		"UTF-8 in an array of a struct": outer{A: [2]string{"", s}}, "UTF-8 cut": "\xe2\x82", "UTF-8 surrogate": "\xed\xa0\x80", "UTF-8 overlong": "\xc0\x80",
		"UTF-8 in RawMessage": json.RawMessage("\"\xff\""), "UTF-8 in a nested RawMessage": outer{R: json.RawMessage("{\"\xff\": 1}")}, "UTF-8 by a marshaler": written("\"\xff\""),
		"UTF-8 by a text marshaler": spelled{s}, "UTF-8 by the text of a key": map[spelled]int{{s}: 1},
		"UTF-8 out of nothing": opaque{}, "UTF-8 out of a pointer": outer{M: map[string]any{"x": &opaque{}}},

		"NaN": math.NaN(), "Inf": math.Inf(1), "-Inf": []float64{math.Inf(-1)}, "NaN32": float32(math.NaN()),
		"high surrogate": json.RawMessage(`"\ud800"`), "low surrogate": json.RawMessage(`"\udc00"`), "high and text": json.RawMessage(`"\ud800x"`),
		"two high": json.RawMessage(`"\ud800\ud800"`), "high and escape": json.RawMessage(`"\ud800\n"`), "low before high": json.RawMessage(`["\udc00\ud800"]`), "surrogate key": json.RawMessage(`{"\ud800": 1}`),
		"big exponent": json.RawMessage(`1e999999`), "big exponent of Number": json.Number("1e999999"), "huge exponent": json.RawMessage(`[1E+99999999999999999999]`),
		"small exponent": json.RawMessage(`-1.5e-999999`), "many digits": json.RawMessage(strings.Repeat("9", 140_000)),
		"many decimals": json.RawMessage("0." + strings.Repeat("1", 20_000)), "digits and exponent": json.RawMessage(strings.Repeat("9", 130_000) + "e9999"),
		"decimals and exponent": json.RawMessage("0." + strings.Repeat("1", 10_000) + "e-9999"),
		"bad JSON":              json.RawMessage(`{`), "no JSON": json.Number("one"),
		"chan": make(chan int), "func": func() {}, "cycle": cycle, "marshaler's error": failing{},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tx := &counted{Tx: begin(t, pool, pgx.ReadCommitted)}
			_, err := taskimpl.Enqueue(t.Context(), tx, kind[holder](), holder{V: v}, nil)
			require.ErrorIs(t, err, task.ErrInvalidArgs)
			e, ok := errors.AsType[*task.EnqueueError](err)
			require.True(t, ok)
			require.Equal(t, "k", e.Kind)
			require.Less(t, len(err.Error()), 1000)
			require.Zero(t, tx.n, "before any SQL")

			_, err = taskimpl.EnqueueMany(t.Context(), tx, kind[holder](), []holder{{V: 1}, {V: v}}, nil)
			require.ErrorIs(t, err, task.ErrInvalidArgs)
			require.ErrorContains(t, err, "job 2 of 2")
			enqueue(t, tx, kind[holder](), holder{V: "fine"})
			commit(t, tx)
		})
	}
}

// What is accepted is stored, however odd, and comes back as the same value.
func TestAcceptedPayloads(t *testing.T) {
	t.Parallel()
	pool := migrated(t)
	for name, v := range map[string]any{
		"nil": nil, "empty": "", "empty key": map[string]int{"": 1}, "backslashes": `\u0000 \\u0000 \ud800 \x`, "control": "\x01\x1f\x7f\u0085\u2028\u2029",
		"replacement": "a\uFFFDb", "escaped replacement": json.RawMessage(`"\ufffd"`), "emoji": "😀", "escaped emoji": json.RawMessage(`["\ud83d\ude00", "\uD83D\uDE00x"]`),
		"noncharacters": "\uFFFE\uFFFF\U0010FFFF", "bytes": []byte{0, 0xff, 0xc0}, "escaped slash": json.RawMessage(`"\/\b\f"`),
		"max": uint64(math.MaxUint64), "max float": math.MaxFloat64, "smallest float": math.SmallestNonzeroFloat64, "exponents": json.RawMessage(`[1e9999, 1e-9999, 1E+5, -0.0]`),
		"words": json.RawMessage(`[true, false, null, "1e999999", "e", "\"1e999999"]`), "100,000 digits": json.RawMessage(strings.Repeat("7", 100_000)),
		"16,000 decimals": json.RawMessage("0." + strings.Repeat("7", 16_000)), "depth": nested(9_000), "1 MB": strings.Repeat("x", 1<<20),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := enqueue(t, task.Autocommit(pool), kind[holder](), holder{V: v})
			want, err := json.Marshal(holder{V: v})
			require.NoError(t, err)
			var same bool
			require.NoError(t, pool.QueryRow(t.Context(), `SELECT args = $2::jsonb FROM pawl.jobs WHERE id = $1`, r.ID, string(want)).Scan(&same))
			require.True(t, same)
			var stored string
			require.NoError(t, pool.QueryRow(t.Context(), `SELECT args::text FROM pawl.jobs WHERE id = $1`, r.ID).Scan(&stored))
			require.LessOrEqual(t, len(stored), 64<<20)
		})
	}
}

// node nests without a limit in what encoding/json writes, not in what it reads.
type node struct {
	Next *node `json:"next,omitempty"`
}

func TestTooDeep(t *testing.T) {
	t.Parallel()
	pool := migrated(t)
	tx := &counted{Tx: begin(t, pool, pgx.ReadCommitted)}
	chain := func(depth int) (n *node) {
		for range depth {
			n = &node{n}
		}
		return n
	}
	_, err := taskimpl.Enqueue(t.Context(), tx, kind[node](), *chain(20_000), nil)
	require.ErrorIs(t, err, task.ErrInvalidArgs)
	require.Zero(t, tx.n)
	enqueue(t, tx, kind[node](), *chain(9_000))
	commit(t, tx)
}

func TestSchemaNames(t *testing.T) {
	t.Parallel()
	pool := migrated(t)
	for _, name := range []string{"", "a\x00b", "\xff", strings.Repeat("s", 64)} {
		tx := &counted{Tx: begin(t, pool, pgx.ReadCommitted)}
		_, err := taskimpl.Enqueue(t.Context(), task.InSchema(tx, name), kind[holder](), holder{}, nil)
		require.ErrorIs(t, err, task.ErrInvalidOption, "%q", name)
		require.Zero(t, tx.n)
	}
}

func TestTooLarge(t *testing.T) {
	t.Parallel()
	pool := migrated(t)
	tx := &counted{Tx: begin(t, pool, pgx.ReadCommitted)}
	_, err := taskimpl.Enqueue(t.Context(), tx, kind[holder](), holder{V: strings.Repeat("x", 64<<20)}, nil)
	require.ErrorIs(t, err, task.ErrTooLarge)
	require.NotErrorIs(t, err, task.ErrInvalidArgs)
	require.ErrorContains(t, err, "67108864")
	require.Zero(t, tx.n)
	// Short here, and long where exponents are written out.
	_, err = taskimpl.Enqueue(t.Context(), tx, kind[holder](), holder{V: slices.Repeat([]json.RawMessage{[]byte("1e9999")}, 10_000)}, nil)
	require.ErrorIs(t, err, task.ErrTooLarge)
	_, err = taskimpl.Enqueue(t.Context(), tx, kind[holder](), holder{V: slices.Repeat([]float64{math.MaxFloat64}, 250_000)}, nil)
	require.ErrorIs(t, err, task.ErrTooLarge)
	require.Zero(t, tx.n)
	enqueue(t, tx, kind[holder](), holder{})
	commit(t, tx)
}

func TestHostileOrganizationAndKey(t *testing.T) {
	t.Parallel()
	pool := migrated(t)
	for _, organization := range []string{"a\x00", "\xff", strings.Repeat("o", 1001)} {
		tx := &counted{Tx: begin(t, pool, pgx.ReadCommitted)}
		k := keyed()
		k.Organization = func(*args) (string, error) { return organization, nil }
		_, err := taskimpl.Enqueue(t.Context(), tx, k, args{}, nil)
		require.ErrorIs(t, err, task.ErrInvalidArgs)
		require.Zero(t, tx.n)
	}
	for _, fields := range [][]any{{math.NaN()}, {make(chan int)}, {failing{}}} {
		tx := &counted{Tx: begin(t, pool, pgx.ReadCommitted)}
		_, err := taskimpl.Enqueue(t.Context(), tx, keyed(), args{Key: fields}, nil)
		require.ErrorIs(t, err, task.ErrInvalidArgs)
		require.Zero(t, tx.n)
	}
	k := keyed()
	k.Organization = func(*args) (string, error) { return "", errors.New("no tenant") }
	_, err := taskimpl.Enqueue(t.Context(), task.Autocommit(pool), k, args{}, nil)
	require.ErrorContains(t, err, "no tenant")
}

// Integers keep their digits through enqueue, retry and dead letter.
func TestDigits(t *testing.T) {
	t.Parallel()
	type numbers struct {
		Max, Min, Odd int64
		Unsigned      uint64
		Number        json.Number
		Any           any
	}
	in := numbers{Max: math.MaxInt64, Min: math.MinInt64, Odd: 1<<53 + 1, Unsigned: math.MaxUint64, Number: "12345678901234567890.10", Any: map[string]int64{"n": 1<<53 + 1}}
	pool := migrated(t)
	w := newWorker(t, pool)
	r := enqueue(t, task.Autocommit(pool), kind[numbers](), in)
	check := func(raw []byte) {
		t.Helper()
		out, err := taskimpl.As[numbers](raw)
		require.NoError(t, err)
		require.Contains(t, string(raw), `{"n": 9007199254740993}`)
		out.Any = in.Any // as any, a number becomes a float64
		require.Equal(t, in, out)
	}
	job := w.claim(t)
	check(job.Args)
	w.settle(t, job, store.Retry)
	_, err := pool.Exec(t.Context(), `UPDATE pawl.ready SET run_at = clock_timestamp()`)
	require.NoError(t, err)
	job = w.claim(t)
	require.Equal(t, 2, job.Attempt)
	check(job.Args)
	w.settle(t, job, store.Dead)
	var stored string
	require.NoError(t, pool.QueryRow(t.Context(), `SELECT args::text FROM pawl.dead_letters WHERE job_id = $1`, r.ID).Scan(&stored))
	check([]byte(stored))
}
