package suggest

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDistance(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		a, b string
		want int
	}{
		{"", "", 0}, {"", "ab", 2}, {"task", "task", 0}, {"taks", "task", 1}, {"tsk", "task", 1},
		{"tasks", "task", 1}, {"mask", "task", 1}, {"größe", "grösse", 2}, {"queue", "kind", 5},
	} {
		require.Equal(t, tt.want, Distance(tt.a, tt.b), "%s %s", tt.a, tt.b)
		require.Equal(t, tt.want, Distance(tt.b, tt.a), "%s %s", tt.b, tt.a)
	}
}

func TestNear(t *testing.T) {
	t.Parallel()
	candidates := []string{"attempts", "base", "max", "A"}
	for name, want := range map[string]string{
		"attemps": "attempts", "attempt": "attempts", "BASE": "base", "mx": "max", "pause": "", "": "", "B": "", "a": "A",
	} {
		require.Equal(t, want, Near(name, candidates), name)
	}
	require.Equal(t, " (did you mean max?)", DidYouMean("maxx", candidates))
	require.Empty(t, DidYouMean("pause", candidates))
}
