package testdb

import (
	"testing"
	"time"
)

// Eventually waits until cond returns true, asking about every 10 milliseconds,
// and fails the test when it has not within the given time. The word what
// completes "still waiting for", as in "the second attempt".
func Eventually(t testing.TB, within time.Duration, what string, cond func() bool) {
	t.Helper()
	deadline := time.NewTimer(within)
	defer deadline.Stop()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !cond() {
		select {
		case <-tick.C:
		case <-t.Context().Done():
			t.Fatalf("the test ended while waiting for %s", what)
		case <-deadline.C:
			if !cond() {
				t.Fatalf("after %v still waiting for %s", within, what)
			}
			return
		}
	}
}
