package runtime

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawlgo/pawl/internal/dispatch"
)

func TestBackoff(t *testing.T) {
	t.Parallel()
	p := dispatch.Policy{Base: time.Second, Max: 10 * time.Minute}
	for attempt, want := range map[int]time.Duration{
		1: time.Second, 2: 2 * time.Second, 3: 4 * time.Second, 10: 512 * time.Second, 11: 10 * time.Minute, 64: 10 * time.Minute, 32766: 10 * time.Minute,
	} {
		require.Equal(t, want, backoff(p, attempt, 0.99), "attempt %d", attempt)
	}
	p.Jitter = 0.5
	require.Equal(t, 500*time.Millisecond, backoff(p, 1, 0))
	require.Equal(t, time.Second, backoff(p, 1, 0.5))
	require.Equal(t, 11500*time.Millisecond, backoff(p, 4, 1-1.0/16))
}

// For any policy and attempt: no panic, within the bounds, and before jitter
// never shorter than the attempt before.
func TestBackoffProperties(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	bases := []time.Duration{1, 2, time.Microsecond, time.Millisecond, time.Second, 7 * time.Minute, 24 * time.Hour}
	for range 200 {
		bases = append(bases, 1+time.Duration(random.Int64N(int64(24*time.Hour))))
	}
	for _, base := range bases {
		for _, most := range []time.Duration{base, time.Hour, math.MaxInt64} {
			if most < base {
				continue
			}
			p := dispatch.Policy{Base: base, Max: most}
			before := time.Duration(0)
			for attempt := range 100_001 {
				if attempt > 200 && attempt%997 != 0 {
					continue
				}
				d := backoff(p, attempt, random.Float64())
				if d <= 0 || d > most || d < before {
					t.Fatalf("base %v, max %v, attempt %d: %v after %v", base, most, attempt, d, before)
				}
				before = d
				for _, jitter := range []float64{0.1, 1} {
					p := dispatch.Policy{Base: base, Max: most, Jitter: jitter}
					for _, r := range []float64{0, random.Float64(), math.Nextafter(1, 0)} {
						// A float64 has 53 bits: the longest delays are off by some nanoseconds.
						low, high := float64(d)*(1-jitter)*(1-1e-15)-1, float64(d)*(1+jitter)*(1+1e-15)+1
						if v := backoff(p, attempt, r); v < 0 || float64(v) < low || float64(v) > high {
							t.Fatalf("base %v, max %v, attempt %d, jitter %v, random %v: %v of %v", base, most, attempt, jitter, r, v, d)
						}
					}
				}
			}
		}
	}
}
