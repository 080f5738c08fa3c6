//go:build full

package runtime_test

import (
	"testing"
	"time"
)

// The same with many seeds and for longer. Run it with more tests in parallel than there are
// processors, since a run waits most of the time.
func TestChaosFull(t *testing.T) {
	t.Parallel()
	chaosSeeds(t, 1, 50, 5*time.Second)
}
