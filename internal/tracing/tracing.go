// Package tracing puts the context of a trace into the one text column that it
// travels in, between the transaction that enqueues a job and the worker that
// runs it. The form is that of the W3C recommendation Trace Context: the value
// of traceparent and, where there is one, after a line break that of tracestate.
package tracing

import (
	"context"
	"strings"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

const (
	parentHeader = "traceparent"
	stateHeader  = "tracestate"
)

// Inject returns the text for the span in ctx, empty where there is none.
func Inject(ctx context.Context) string {
	if !trace.SpanContextFromContext(ctx).IsValid() {
		return ""
	}
	headers := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, headers)
	text := headers[parentHeader]
	if state := headers[stateHeader]; state != "" {
		text += "\n" + state
	}
	return text
}

// Extract returns the span that a text names, an invalid one where it names none:
// what a stranger wrote into the column must not cost a job its attempt.
func Extract(text string) trace.SpanContext {
	if text == "" {
		return trace.SpanContext{}
	}
	parent, state, _ := strings.Cut(text, "\n")
	headers := propagation.MapCarrier{parentHeader: parent, stateHeader: state}
	return trace.SpanContextFromContext(propagation.TraceContext{}.Extract(context.Background(), headers))
}
