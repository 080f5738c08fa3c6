package evolve

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/pawlgo/pawl/internal/gen/lock"
	"github.com/pawlgo/pawl/internal/gen/rules"
	"github.com/stretchr/testify/require"
)

// Whatever happens to a payload: a number means one thing for good, a base stays
// with its version, and a stored version is decoded as a type that takes it.
func TestRandomHistories(t *testing.T) {
	t.Parallel()
	kinds := []string{"int32", "int64", "float32", "float64", "string", "bool", "bytes", "raw"}
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 0))
		ref := &lock.Lock{}
		bases := map[int]lock.Base{} // every version that was ever merged
		var fields []string
		for range 8 {
			// A branch edits a few times, and only the last state is merged.
			var out *Output
			var retired map[string][]int
			for range 1 + r.IntN(3) {
				fields = edit(r, fields, kinds)
				if k := ref.Kinds["k"]; k != nil && r.IntN(6) == 0 {
					in, err := Retire(Input{Reference: ref, Retired: retired, Tasks: tasksOf(fields)}, "k", slices.Min(slices.Collect(maps.Keys(k.Versions))))
					if err == nil {
						retired = in.Retired
					}
				}
				out = Decide(Input{Reference: ref, Retired: retired, Tasks: tasksOf(fields)})
				require.Empty(t, out.Problems)
			}
			k := out.Lock.Kinds["k"]
			for n, v := range k.Versions {
				before, ok := bases[n]
				if ok {
					require.Equal(t, before, v.Base, "seed %d, version %d", seed, n)
				}
				require.NotContains(t, k.Retired, n)
			}
			if old := ref.Kinds["k"]; old != nil {
				for n := range old.Versions {
					require.True(t, k.Versions[n] != nil || k.Retired[n] != "", "seed %d: version %d is forgotten", seed, n)
				}
				for n := range old.Retired {
					require.Contains(t, k.Retired, n)
				}
			}
			for n, v := range k.Versions {
				bases[n] = v.Base
			}
			all := append(slices.Clone(out.Plans[0].Older), out.Plans[0].Current)
			for i, v := range all {
				as := i
				for as < len(all)-1 && !all[as].Upgrader {
					as++
				}
				found := rules.Compare(v.Shape, all[as].Shape)
				require.NotEqual(t, rules.Breaking, rules.Worst(found), "seed %d: version %d as %d: %v", seed, v.Number, all[as].Number, found)
			}
			var err error
			ref, err = lock.Parse(out.Lock.Bytes())
			require.NoError(t, err)
		}
	}
}

func tasksOf(fields []string) []Task {
	k := task("k", fields...)
	k.Declares = func(string) bool { return true }
	return []Task{k}
}

// edit adds, removes or changes one field.
func edit(r *rand.Rand, fields, kinds []string) []string {
	name := string(rune('a' + r.IntN(4)))
	rest := slices.DeleteFunc(slices.Clone(fields), func(f string) bool { return f[:1] == name })
	if r.IntN(3) == 0 {
		return rest
	}
	return append(rest, name+":"+kinds[r.IntN(len(kinds))])
}
