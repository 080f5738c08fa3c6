package runtime

import (
	"math"
	"time"

	"github.com/pawlgo/pawl/internal/dispatch"
)

// backoff is the delay after a failed attempt, counted from 1:
// min(max, base·2^(attempt-1)), then varied by ±jitter of itself. Random is
// from [0, 1).
func backoff(p dispatch.Policy, attempt int, random float64) time.Duration {
	delay := p.Max
	if shift := max(attempt-1, 0); shift < 62 && p.Base <= p.Max>>shift {
		delay = p.Base << shift
	}
	if p.Jitter <= 0 {
		return delay
	}
	varied := float64(delay) * (1 + p.Jitter*(2*random-1))
	if varied >= math.MaxInt64 {
		return math.MaxInt64
	}
	return max(0, time.Duration(varied))
}
