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

// tracedWithin is how soon after its enqueue a first attempt must start to be a
// part of the trace that enqueued it. A trace that waits for a job of tomorrow
// never ends, and none of its readers wants to see that wait; from then on the
// attempt is the root of a trace of its own, with a link.
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
)

// startSpan begins the span of an attempt. Without a provider of tracers the
// handler's context carries the span that enqueued the job, so that what the
// handler itself traces is not torn off.
func (a *attempt) startSpan(ctx context.Context) context.Context {
	from := tracing.Extract(a.job.TraceContext)
	child := from.IsValid() && a.job.Attempt == 1 && a.waited <= tracedWithin
	if a.w.config.TracerProvider == nil {
		a.trace = from.TraceID()
		if child {
			ctx = trace.ContextWithRemoteSpanContext(ctx, from)
		}
		return ctx
	}
	options := []trace.SpanStartOption{
		trace.WithSpanKind(trace.SpanKindConsumer),
		trace.WithAttributes(
			attrSystem.String("pawl"), attrOperation.String(operationValue), attrName.String(operationValue),
			attrQueue.String(a.q.name), attrMessage.String(a.job.ID.String()),
			attrKind.String(a.job.Kind), attrAttempt.Int(a.job.Attempt),
		),
	}
	switch {
	case child:
		ctx = trace.ContextWithRemoteSpanContext(ctx, from)
	case from.IsValid():
		options = append(options, trace.WithNewRoot(), trace.WithLinks(trace.Link{SpanContext: from}))
	default:
		options = append(options, trace.WithNewRoot())
	}
	ctx, a.span = a.w.tracer.Start(ctx, operationValue+" "+a.q.name, options...)
	a.trace = a.span.SpanContext().TraceID()
	return ctx
}

// endSpan tells the span how the attempt ended. What was asked for, such as to
// be run again later, is no error.
func (a *attempt) endSpan(v *verdict) {
	if a.span == nil {
		return
	}
	a.span.SetAttributes(attrOutcome.String(outcomeNames[v.outcome]))
	switch v.outcome {
	case store.Retry, store.Dead, store.Quarantine:
		a.span.SetAttributes(attrError.String(v.code))
		a.span.SetStatus(codes.Error, v.summary)
	}
	a.span.End()
}
