package runtime_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/pawlgo/pawl/internal/testdb"
	pawlrt "github.com/pawlgo/pawl/runtime"
	"github.com/pawlgo/pawl/task"
	"github.com/pawlgo/pawl/task/taskimpl"
)

// journal keeps what is logged, by several goroutines.
type journal struct {
	mu   sync.Mutex
	text bytes.Buffer // guarded by mu
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}

// lines are the lines of a log in JSON.
func (j *journal) lines(t *testing.T) (all []map[string]any) {
	t.Helper()
	for line := range bytes.Lines([]byte(j.String())) {
		var entry map[string]any
		require.NoError(t, json.Unmarshal(line, &entry))
		all = append(all, entry)
	}
	return all
}

// tracedEvent publishes an event as a request with that context does.
func tracedEvent(t *testing.T, ctx context.Context, pool *pgxpool.Pool, e *taskimpl.Event[args], aggregate string, payload args) uuid.UUID {
	t.Helper()
	receipt, err := taskimpl.Publish(ctx, task.Autocommit(pool), e, aggregate, payload, nil)
	require.NoError(t, err)
	return receipt.ID
}

// of are the spans of what has that id.
func (t *traces) of(id uuid.UUID) (all []*spanned) {
	for _, s := range t.ended() {
		if s.attributes["messaging.message.id"].AsString() == id.String() {
			all = append(all, s)
		}
	}
	return all
}

// The first projection of an event is a part of the trace that published it, the
// second one the root of its own with a link. What a projection enqueues and
// publishes goes on from it, and the log names the trace.
func TestTraceOfEvents(t *testing.T) {
	t.Parallel()
	pool, spans := testdb.Migrated(t), &traces{}
	k, first := kind("k", "q"), event()
	second := event(func(e *taskimpl.Event[args]) {
		e.Name, e.Capabilities = "trip.billed", []taskimpl.Capability{{Version: 1, ID: 0xE3}}
	})
	var (
		inProjection []trace.SpanContext // of one attempt after another
		log          journal
		job, billed  uuid.UUID
	)
	w := start(t, pool, pawlrt.Config{
		TracerProvider: spans, Logger: slog.New(slog.NewJSONHandler(&log, nil)), Poll: 100 * time.Millisecond,
		Tables: []task.Table{table(k, fine)},
		Events: []task.EventTable{taskimpl.EventTable(
			taskimpl.EventRow(first, func(ctx context.Context, tx pgx.Tx, f *task.Fact[args]) error {
				inProjection = append(inProjection, trace.SpanContextFromContext(ctx))
				if f.Attempt == 1 {
					return task.Transient(errors.New("not yet"))
				}
				enqueued, err := taskimpl.Enqueue(ctx, tx, k, args{}, nil)
				if err != nil {
					return err
				}
				published, err := taskimpl.Publish(ctx, tx, second, f.AggregateID, args{}, nil)
				job, billed = enqueued.ID, published.ID
				return err
			}),
			taskimpl.EventRow(second, func(context.Context, pgx.Tx, *task.Fact[args]) error { return nil }),
		)},
	})
	ctx, caller := callerContext(t)
	id := tracedEvent(t, ctx, pool, first, "a", args{})
	become(t, pool, map[string]int{"projected": 2})
	settled(t, pool, 1)
	require.NoError(t, w.shutdown(t))

	require.Len(t, spans.ended(), 4)
	got := spans.of(id)
	require.Len(t, got, 2)
	require.True(t, got[0].parent.Equal(caller.WithRemote(true)))
	require.Empty(t, got[0].links)
	require.Equal(t, codes.Error, got[0].code)
	require.Equal(t, "not yet", got[0].status)
	require.Equal(t, "transient", got[0].attributes["error.type"].AsString())
	require.False(t, got[1].parent.IsValid())
	require.Len(t, got[1].links, 1)
	require.True(t, got[1].links[0].SpanContext.Equal(caller.WithRemote(true)))
	require.Equal(t, codes.Unset, got[1].code)
	require.Equal(t, []trace.SpanContext{got[0].context, got[1].context}, inProjection)
	for i, s := range got {
		require.Equal(t, "process trip.completed", s.name)
		require.Equal(t, "trip.completed", s.attributes["pawl.kind"].AsString())
		require.EqualValues(t, i+1, s.attributes["pawl.attempt"].AsInt64())
		require.Equal(t, []string{"retried", "completed"}[i], s.attributes["pawl.outcome"].AsString())
	}
	for _, follows := range []uuid.UUID{job, billed} {
		s := spans.of(follows)
		require.Len(t, s, 1)
		require.True(t, s[0].parent.Equal(got[1].context.WithRemote(true)))
	}

	for _, line := range log.lines(t) {
		if line["event"] == id.String() {
			require.Equal(t, []any{"the projection failed and will be tried again", caller.TraceID().String(), 1.0},
				[]any{line["msg"], line["trace"], line["attempt"]})
		}
	}
	require.Contains(t, log.String(), id.String())
}

// A projection that starts long after its publishing, or whose context is
// nonsense, is the root of a trace of its own, and so is one of plain SQL. A dead
// event that is retried keeps the trace that it comes from.
func TestTraceRootsOfEvents(t *testing.T) {
	t.Parallel()
	pool, spans, e := testdb.Migrated(t), &traces{}, event()
	ctx, caller := callerContext(t)
	exec(t, pool, `INSERT INTO pawl.event_types (type, aggregate_type, version, capability, updated_at) VALUES ('trip.completed', 'trip', 1, 225, now())`)
	late, strange := tracedEvent(t, ctx, pool, e, "a", args{}), tracedEvent(t, ctx, pool, e, "b", args{})
	plain := query[uuid.UUID](t, pool, `SELECT pawl.publish('trip.completed', 'c', '{"n": 1}')`)
	retried := tracedEvent(t, ctx, pool, e, "d", args{Mode: "poison"})
	exec(t, pool, `UPDATE pawl.pending_events SET published_at = published_at - interval '61 seconds' WHERE id = $1`, late)
	exec(t, pool, `UPDATE pawl.events SET trace_context = 'nonsense' WHERE id = $1`, strange)
	poisoned := true
	config := projecting(e, func(_ context.Context, _ pgx.Tx, f *task.Fact[args]) error {
		if f.Payload.Mode == "poison" && poisoned {
			poisoned = false
			return task.Permanent(errors.New("poison"))
		}
		return nil
	})
	config.TracerProvider = spans
	w := start(t, pool, config)
	become(t, pool, map[string]int{"projected": 3, "dead": 1})
	exec(t, pool, `UPDATE pawl.dead_events SET published_at = published_at - interval '61 seconds'`)
	require.NoError(t, task.RetryEvent(t.Context(), task.Autocommit(pool), retried))
	become(t, pool, map[string]int{"projected": 4})
	require.NoError(t, w.shutdown(t))

	for id, links := range map[uuid.UUID]int{late: 1, strange: 0, plain: 0} {
		s := spans.of(id)
		require.Len(t, s, 1)
		require.False(t, s[0].parent.IsValid())
		require.Len(t, s[0].links, links)
	}
	of := spans.of(retried)
	require.Len(t, of, 2)
	require.True(t, of[0].parent.Equal(caller.WithRemote(true)))
	require.Equal(t, "dead", of[0].attributes["pawl.outcome"].AsString())
	require.False(t, of[1].parent.IsValid())
	require.True(t, of[1].links[0].SpanContext.Equal(caller.WithRemote(true)))
}

// Without a provider the projection's context still has the span of the caller,
// and what it enqueues belongs to that.
func TestTraceOfEventsWithoutProvider(t *testing.T) {
	t.Parallel()
	pool, e, k := testdb.Migrated(t), event(), kind("k", "q")
	ctx, caller := callerContext(t)
	seen := make(chan trace.SpanContext, 2)
	config := projecting(e, func(ctx context.Context, tx pgx.Tx, _ *task.Fact[args]) error {
		seen <- trace.SpanContextFromContext(ctx)
		_, err := taskimpl.Enqueue(ctx, tx, k, args{}, nil)
		return err
	})
	config.Tables = []task.Table{table(k, func(ctx context.Context, _ *task.Job[args]) error {
		seen <- trace.SpanContextFromContext(ctx)
		return nil
	})}
	start(t, pool, config)
	tracedEvent(t, ctx, pool, e, "a", args{})
	for range 2 {
		require.True(t, receive(t, seen, "the span of the caller").Equal(caller.WithRemote(true)))
	}
}

// The spans of projections end when their transaction has, and say what became
// of it: what was undone is not completed.
func TestTraceOfProjectionsThatAreUndone(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		spoil   func(context.Context, pgx.Tx) error
		outcome string // of the one to blame, at first
		status  string
		others  []string // outcomes of the one that was projected before it
	}{
		"commit": {func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, `INSERT INTO child VALUES (1)`)
			return err
		}, "rolled_back", "its transaction came to nothing, and the event is projected again", []string{"rolled_back", "completed"}},
		"end": {func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, `COMMIT`)
			return err
		}, "retried", "the projection ended its transaction by an SQL statement", []string{""}}, // it is committed
		"stuck": {nil, "retried", "the projection ignores its context", []string{"rolled_back", "completed"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool, spans := projections(t), &traces{}
			exec(t, pool, `CREATE TABLE parent (id int PRIMARY KEY)`)
			exec(t, pool, `CREATE TABLE child (id int REFERENCES parent DEFERRABLE INITIALLY DEFERRED)`)
			e := event(func(e *taskimpl.Event[args]) { e.Policy.Timeout = 2 * time.Second })
			ids := []uuid.UUID{tracedEvent(t, t.Context(), pool, e, "a", args{}), tracedEvent(t, t.Context(), pool, e, "a", args{Mode: "spoil"})}
			opened := make(chan struct{})
			config := projecting(e, func(ctx context.Context, tx pgx.Tx, f *task.Fact[args]) error {
				if f.Payload.Mode == "spoil" && len(spans.of(f.ID)) == 0 {
					if c.spoil == nil {
						<-opened
						return nil
					}
					return c.spoil(ctx, tx)
				}
				return record(ctx, tx, f)
			})
			config.TracerProvider, config.Lease, config.Heartbeat = spans, 3*time.Second, time.Second
			w := start(t, pool, config)
			become(t, pool, map[string]int{"projected": 2})
			close(opened)
			testdb.Eventually(t, slow, "no projection to be stuck", func() bool { return w.Stats().Events.Stuck == 0 })
			require.NoError(t, w.shutdown(t))

			innocent, guilty := spans.of(ids[0]), spans.of(ids[1])
			require.Equal(t, c.others, outcomes(innocent))
			require.Equal(t, codes.Error, innocent[0].code)
			require.Equal(t, []string{c.outcome, "completed"}, outcomes(guilty), fmt.Sprint(guilty))
			require.Contains(t, guilty[0].status, c.status)
			for _, s := range spans.ended() {
				require.Equal(t, 1, s.ends)
			}
		})
	}
}

func outcomes(spans []*spanned) (all []string) {
	for _, s := range spans {
		all = append(all, s.attributes["pawl.outcome"].AsString())
	}
	return all
}
