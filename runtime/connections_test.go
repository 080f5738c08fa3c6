package runtime

import (
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// The guide says how many connections a worker has.
func TestConnectionsOfTheGuide(t *testing.T) {
	t.Parallel()
	words := map[int]string{1: "one", 3: "three", 4: "four", 7: "seven"}
	text, err := os.ReadFile("../docs/operations.md")
	require.NoError(t, err)
	require.Contains(t, string(text), fmt.Sprintf("one for each queue, up to %s, and %s more; %s more with events, %s more with metrics",
		words[claimsAtOnce], words[loopsAlways], words[loopsOfEvents], words[loopsOfMetrics]))

	w := &Worker{}
	require.Equal(t, loopsAlways, w.connections())
	for range 2 * claimsAtOnce {
		w.queues = append(w.queues, nil)
	}
	require.Equal(t, loopsAlways+claimsAtOnce, w.connections())
	w.relay, w.metrics = &relay{}, &metrics{}
	require.Equal(t, loopsAlways+claimsAtOnce+loopsOfEvents+loopsOfMetrics, w.connections())
}
