package runtime

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/pawlgo/pawl/internal/store"
	"github.com/pawlgo/pawl/internal/tracing"
)

// tracedWithin is how soon after its enqueue, or its publishing, a first attempt
// must start to be a part of the trace that it comes from. A trace that waits for a
// job of tomorrow never ends, and none of its readers wants to see that wait; from
// then on the attempt is the root of a trace of its own, with a link.
const tracedWithin = time.Minute

// Attributes of an attempt's span: those of OpenTelemetry's conventions for
// messaging where they fit, and our own beside them.
const (
	attrSystem     = attribute.Key("messaging.system")
	attrOperation  = attribute.Key("messaging.operation.type")
	attrName       = attribute.Key("messaging.operation.name")
	attrQueue      = attribute.Key("messaging.destination.name")
	attrMessage    = attribute.Key("messaging.message.id")
	attrError      = attribute.Key("error.type")
	attrKind       = attribute.Key("pawl.kind")
	attrAttempt    = attribute.Key("pawl.attempt")
	attrOutcome    = attribute.Key("pawl.outcome")
	tracerName     = "github.com/pawlgo/pawl/runtime"
	operationValue = "process"

	// outcomeRolledBack is of a projection whose transaction came to nothing.
	outcomeRolledBack = "rolled_back"
)

// traced is the trace of one attempt at a job or an event.
type traced struct {
	id   trace.TraceID // what the log calls it; zero for none
	span trace.Span    // nil without a provider of tracers
}

// origin is what decides about the trace of an attempt.
type origin struct {
	context string        // as it is stored
	attempt int           // from 1
	waited  time.Duration // since it was stored, by the database's clock
}

// trace begins the trace of an attempt. Without a provider of tracers the context
// carries the span that the attempt comes from, so that what the handler itself
// traces is not torn off. On is what the attempt works on, and attributes say of
// what the span is; neither is asked for where there is no span.
func (w *Worker) trace(ctx context.Context, o origin, on string, attributes func() []attribute.KeyValue) (context.Context, traced) {
	from := tracing.Extract(o.context)
	child := from.IsValid() && o.attempt == 1 && o.waited <= tracedWithin
	if w.tracer == nil {
		if child {
			ctx = trace.ContextWithRemoteSpanContext(ctx, from)
		}
		return ctx, traced{id: from.TraceID()}
	}
	options := []trace.SpanStartOption{
		trace.WithSpanKind(trace.SpanKindConsumer),
		trace.WithAttributes(attrSystem.String("pawl"), attrOperation.String(operationValue), attrName.String(operationValue), attrAttempt.Int(o.attempt)),
		trace.WithAttributes(attributes()...),
	}
	switch {
	case child:
		ctx = trace.ContextWithRemoteSpanContext(ctx, from)
	case from.IsValid():
		options = append(options, trace.WithNewRoot(), trace.WithLinks(trace.Link{SpanContext: from}))
	default:
		options = append(options, trace.WithNewRoot())
	}
	ctx, span := w.tracer.Start(ctx, operationValue+" "+on, options...)
	return ctx, traced{id: span.SpanContext().TraceID(), span: span}
}

// trace begins the trace of the attempt.
func (a *attempt) trace(ctx context.Context) context.Context {
	ctx, a.traced = a.w.trace(ctx, origin{a.job.TraceContext, a.job.Attempt, a.waited}, a.q.name, func() []attribute.KeyValue {
		return []attribute.KeyValue{attrQueue.String(a.q.name), attrMessage.String(a.job.ID.String()), attrKind.String(a.job.Kind)}
	})
	return ctx
}

// trace begins the trace of a projection, whose event was taken at a time of the
// database's.
func (p *projection) trace(ctx context.Context, w *Worker, taken time.Time) context.Context {
	e := p.event
	ctx, p.traced = w.trace(ctx, origin{e.TraceContext, e.Attempts + 1, taken.Sub(e.PublishedAt)}, e.Type, func() []attribute.KeyValue {
		return []attribute.KeyValue{attrMessage.String(e.ID.String()), attrKind.String(e.Type)}
	})
	return ctx
}

// end ends the span at a time, and tells it how the attempt ended. What was asked
// for, such as to be run again later, is no error.
func (t traced) end(v *verdict, at time.Time) {
	if t.span == nil {
		return
	}
	t.span.SetAttributes(attrOutcome.String(outcomeNames[v.outcome]))
	switch v.outcome {
	case store.Retry, store.Dead, store.Quarantine:
		t.span.SetAttributes(attrError.String(v.code))
		t.span.SetStatus(codes.Error, v.said())
	}
	t.span.End(trace.WithTimestamp(at))
}

// undone ends the span of a projection whose transaction did not commit. Without
// an outcome nobody knows whether it did.
func (t traced) undone(outcome, why string, at time.Time) {
	if t.span == nil {
		return
	}
	if outcome != "" {
		t.span.SetAttributes(attrOutcome.String(outcome))
	}
	t.span.SetStatus(codes.Error, why)
	t.span.End(trace.WithTimestamp(at))
}

// with names the trace to a logger.
func (t traced) with(l logger) logger {
	if t.id.IsValid() {
		return l.With("trace", t.id)
	}
	return l
}
