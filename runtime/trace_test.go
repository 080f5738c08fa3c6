package runtime_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/pawlgo/pawl/internal/store"
	"github.com/pawlgo/pawl/internal/testdb"
	pawlrt "github.com/pawlgo/pawl/runtime"
	"github.com/pawlgo/pawl/task"
	"github.com/pawlgo/pawl/task/taskimpl"
)

// traces is a provider of tracers that keeps the spans that have ended, as an SDK
// would.
type traces struct {
	noop.TracerProvider

	mu    sync.Mutex
	spans []*spanned // guarded by mu; in the order of their ends
}

type tracer struct {
	noop.Tracer
	t *traces
}

// spanned is one span.
type spanned struct {
	noop.Span
	t *traces

	name, status string
	code         codes.Code
	context      trace.SpanContext
	parent       trace.SpanContext // invalid of a root
	links        []trace.Link
	attributes   map[attribute.Key]attribute.Value
	events       bytes.Buffer // what was told besides, as text
	ends         int
}

func (t *traces) Tracer(string, ...trace.TracerOption) trace.Tracer { return tracer{t: t} }

func (t tracer) Start(ctx context.Context, name string, opts ...trace.SpanStartOption) (context.Context, trace.Span) {
	config := trace.NewSpanStartConfig(opts...)
	s := &spanned{t: t.t, name: name, links: config.Links(), attributes: make(map[attribute.Key]attribute.Value)}
	id := trace.TraceID{byte(1 + rand.IntN(255)), byte(rand.IntN(256)), byte(rand.IntN(256)), byte(rand.IntN(256))}
	if from := trace.SpanContextFromContext(ctx); from.IsValid() && !config.NewRoot() {
		s.parent, id = from, from.TraceID()
	}
	s.context = trace.NewSpanContext(trace.SpanContextConfig{TraceID: id, SpanID: trace.SpanID{byte(1 + rand.IntN(255)), byte(rand.IntN(256))}, TraceFlags: trace.FlagsSampled})
	s.SetAttributes(config.Attributes()...)
	return trace.ContextWithSpan(ctx, s), s
}

func (s *spanned) SpanContext() trace.SpanContext { return s.context }
func (s *spanned) IsRecording() bool              { return true }

func (s *spanned) SetStatus(code codes.Code, text string) {
	s.t.mu.Lock()
	defer s.t.mu.Unlock()
	s.code, s.status = code, text
}

func (s *spanned) SetAttributes(all ...attribute.KeyValue) {
	s.t.mu.Lock()
	defer s.t.mu.Unlock()
	for _, kv := range all {
		s.attributes[kv.Key] = kv.Value
	}
}

func (s *spanned) AddEvent(name string, opts ...trace.EventOption) {
	s.t.mu.Lock()
	defer s.t.mu.Unlock()
	config := trace.NewEventConfig(opts...)
	fmt.Fprintln(&s.events, name, config.Attributes())
}

func (s *spanned) RecordError(err error, opts ...trace.EventOption) { s.AddEvent(err.Error(), opts...) }

func (s *spanned) SetName(name string) {
	s.t.mu.Lock()
	defer s.t.mu.Unlock()
	s.name = name
}

func (s *spanned) End(...trace.SpanEndOption) {
	s.t.mu.Lock()
	defer s.t.mu.Unlock()
	s.ends++
	if s.ends == 1 {
		s.t.spans = append(s.t.spans, s)
	}
}

func (t *traces) ended() []*spanned {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append([]*spanned(nil), t.spans...)
}

// callerContext has a span as a request of the application would.
func callerContext(t *testing.T) (context.Context, trace.SpanContext) {
	t.Helper()
	state, err := trace.ParseTraceState("vendor=1")
	require.NoError(t, err)
	caller := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{0xca}, SpanID: trace.SpanID{0x11}, TraceFlags: trace.FlagsSampled, TraceState: state})
	return trace.ContextWithSpanContext(t.Context(), caller), caller
}

// traced enqueues a job as a request with that context does.
func traced(t *testing.T, ctx context.Context, pool *pgxpool.Pool, k *taskimpl.Kind[args]) uuid.UUID {
	t.Helper()
	receipt, err := taskimpl.Enqueue(ctx, task.Autocommit(pool), k, args{N: 1}, nil)
	require.NoError(t, err)
	return receipt.ID
}

// The first attempt is a part of the trace that enqueued the job, the second one
// the root of its own with a link; the log names the trace.
func TestTrace(t *testing.T) {
	t.Parallel()
	for name, transactional := range map[string]bool{"plain": false, "transactional": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool, spans := testdb.Migrated(t), &traces{}
			k := kind("k", "q")
			if transactional {
				k = kind("k", "q", isolated(pgx.ReadCommitted))
			}
			ctx, caller := callerContext(t)
			id := traced(t, ctx, pool, k)
			var inHandler []trace.SpanContext // of one attempt after another
			run := func(ctx context.Context, attempt int) error {
				inHandler = append(inHandler, trace.SpanContextFromContext(ctx))
				if attempt == 1 {
					return task.Transient(errors.New("not yet"))
				}
				return nil
			}
			var log bytes.Buffer
			config := pawlrt.Config{TracerProvider: spans, Logger: slog.New(slog.NewJSONHandler(&log, nil))}
			if transactional {
				config.Tables = []task.Table{txTable(k, func(ctx context.Context, _ pgx.Tx, job *task.Job[args]) error { return run(ctx, job.Attempt) })}
			} else {
				config.Tables = []task.Table{table(k, func(ctx context.Context, job *task.Job[args]) error { return run(ctx, job.Attempt) })}
			}
			w := start(t, pool, config)
			require.Equal(t, store.Audit{Completed: 1}, settled(t, pool, 1))
			require.NoError(t, w.shutdown(t))

			got := spans.ended()
			require.Len(t, got, 2)
			first, second := got[0], got[1]
			require.True(t, first.parent.Equal(caller.WithRemote(true)))
			require.Empty(t, first.links)
			require.Equal(t, codes.Error, first.code)
			require.Equal(t, "not yet", first.status)
			require.False(t, second.parent.IsValid())
			require.Len(t, second.links, 1)
			require.True(t, second.links[0].SpanContext.Equal(caller.WithRemote(true)))
			require.Equal(t, codes.Unset, second.code)
			require.Equal(t, []trace.SpanContext{first.context, second.context}, inHandler)
			for i, s := range got {
				require.Equal(t, "process q", s.name)
				require.Equal(t, id.String(), s.attributes["messaging.message.id"].AsString())
				require.Equal(t, "k", s.attributes["pawl.kind"].AsString())
				require.EqualValues(t, i+1, s.attributes["pawl.attempt"].AsInt64())
				require.Equal(t, []string{"retried", "completed"}[i], s.attributes["pawl.outcome"].AsString())
			}
			require.Equal(t, "transient", first.attributes["error.type"].AsString())

			var named map[string]any
			for line := range bytes.Lines(log.Bytes()) {
				var entry map[string]any
				require.NoError(t, json.Unmarshal(line, &entry))
				if entry["attempt"] != nil {
					named = entry
				}
			}
			require.Equal(t, []any{caller.TraceID().String(), id.String(), "k", "q", 1.0},
				[]any{named["trace"], named["job"], named["kind"], named["queue"], named["attempt"]})
		})
	}
}

// An attempt that starts long after its enqueue, or whose context is nonsense, is
// the root of a trace of its own.
func TestTraceRoots(t *testing.T) {
	t.Parallel()
	pool, spans := testdb.Migrated(t), &traces{}
	k := kind("k", "q")
	ctx, caller := callerContext(t)
	late, strange, plain := traced(t, ctx, pool, k), put(t, pool, k, args{N: 2})[0], put(t, pool, k, args{N: 3})[0]
	exec(t, pool, `UPDATE pawl.jobs SET enqueued_at = enqueued_at - interval '61 seconds' WHERE id = $1`, late)
	exec(t, pool, `UPDATE pawl.jobs SET trace_context = 'nonsense' WHERE id = $1`, strange)
	start(t, pool, pawlrt.Config{TracerProvider: spans, Tables: []task.Table{table(k, func(context.Context, *task.Job[args]) error { return nil })}})
	require.Equal(t, store.Audit{Completed: 3}, settled(t, pool, 3))
	testdb.Eventually(t, 2*slow, "the spans to end", func() bool { return len(spans.ended()) == 3 })
	for _, s := range spans.ended() {
		require.False(t, s.parent.IsValid())
		switch s.attributes["messaging.message.id"].AsString() {
		case late.String():
			require.Len(t, s.links, 1)
			require.True(t, s.links[0].SpanContext.Equal(caller.WithRemote(true)))
		case strange.String(), plain.String():
			require.Empty(t, s.links)
		}
	}
}

// Without a provider the handler's context still has the span of the caller, so
// that what the handler traces by itself belongs to it.
func TestTraceWithoutProvider(t *testing.T) {
	t.Parallel()
	pool := testdb.Migrated(t)
	k := kind("k", "q")
	ctx, caller := callerContext(t)
	traced(t, ctx, pool, k)
	seen := make(chan trace.SpanContext, 1)
	start(t, pool, pawlrt.Config{Tables: []task.Table{table(k, func(ctx context.Context, _ *task.Job[args]) error {
		seen <- trace.SpanContextFromContext(ctx)
		return nil
	})}})
	require.True(t, receive(t, seen, "the handler's span").Equal(caller.WithRemote(true)))
}
