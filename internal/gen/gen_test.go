package gen_test

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/pawlgo/pawl/internal/gen"
	"github.com/pawlgo/pawl/internal/gen/output"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the golden files anew")

// The golden packages are compiled and run by tests of their own.
func TestGolden(t *testing.T) {
	t.Parallel()
	dir, err := os.Getwd()
	require.NoError(t, err)
	result, err := gen.Generate(t.Context(), dir, []string{"./golden/..."}, gen.Options{})
	require.NoError(t, err)
	require.Empty(t, result.Errors)
	if *update {
		require.NoError(t, output.Apply(t.Context(), result.Files))
	}
	for _, f := range result.Files {
		name, err := filepath.Rel(dir, f.Path)
		require.NoError(t, err)
		if f.Content == nil {
			require.NoFileExists(t, name)
			continue
		}
		want, err := os.ReadFile(f.Path)
		require.NoError(t, err)
		require.Equal(t, string(want), string(f.Content), "%s: record it anew with -update", name)
	}
}
