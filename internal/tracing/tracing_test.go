package tracing_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/trace"

	"github.com/pawlgo/pawl/internal/tracing"
)

func TestRoundTrip(t *testing.T) {
	t.Parallel()
	state, err := trace.ParseTraceState("vendor=a b,other=1")
	require.NoError(t, err)
	for _, config := range []trace.SpanContextConfig{
		{TraceID: trace.TraceID{1, 2}, SpanID: trace.SpanID{3}, TraceFlags: trace.FlagsSampled},
		{TraceID: trace.TraceID{15: 255}, SpanID: trace.SpanID{7: 1}},
		{TraceID: trace.TraceID{9}, SpanID: trace.SpanID{9}, TraceFlags: trace.FlagsSampled, TraceState: state},
	} {
		want := trace.NewSpanContext(config)
		text := tracing.Inject(trace.ContextWithSpanContext(t.Context(), want))
		require.NotEmpty(t, text)
		require.True(t, tracing.Extract(text).Equal(want.WithRemote(true)), "%q", text)
	}
	require.Empty(t, tracing.Inject(t.Context()))
}

func TestExtractNonsense(t *testing.T) {
	t.Parallel()
	const parent = "00-0102030405060708090a0b0c0d0e0f10-0102030405060708-01"
	for _, text := range []string{"", "\n", "nonsense", "\nvendor=1", "00-" + parent, "00-00000000000000000000000000000000-0102030405060708-01", parent[:54], "\xff\x00"} {
		require.False(t, tracing.Extract(text).IsValid(), "%q", text)
	}
	for _, text := range []string{parent, parent + "\n", parent + "\n=,=\n", parent + "\nvendor=1"} {
		require.True(t, tracing.Extract(text).IsValid(), "%q", text)
	}
}
