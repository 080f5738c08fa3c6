package tasktest_test

import (
	osexec "os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawlgo/pawl/tasktest"
)

func dependencies(t *testing.T, packages ...string) []string {
	t.Helper()
	output, err := osexec.CommandContext(t.Context(), "go", append([]string{"list", "-deps"}, packages...)...).Output()
	require.NoError(t, err)
	return strings.Fields(string(output))
}

// What helps tests stays out of programs, and the generator and what this
// repository tests itself with stay out of the tests of others.
func TestDependencies(t *testing.T) {
	t.Parallel()
	for _, path := range dependencies(t, "../task/...", "../runtime", "../migrations") {
		for _, unwanted := range []string{"testing", "github.com/pawlgo/pawl/tasktest", "github.com/pawlgo/pawl/internal/testdb", "github.com/pawlgo/pawl/internal/localpg"} {
			require.NotEqual(t, unwanted, path)
		}
	}
	for _, path := range dependencies(t, ".") {
		for _, unwanted := range []string{"github.com/stretchr/", "golang.org/x/tools/", "github.com/dave/", "github.com/rogpeppe/"} {
			require.False(t, strings.HasPrefix(path, unwanted), path)
		}
	}
}

func TestGeneratedOutsideAModule(t *testing.T) {
	t.Chdir(t.TempDir())
	said := failure(t, func(t testing.TB) { tasktest.Generated(t) })
	require.Contains(t, said, "the test is not part of a module")
}
