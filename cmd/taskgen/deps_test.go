package main

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// What users build as a tool of their module has what generating takes, and
// neither a database driver nor a test library.
func TestDependencies(t *testing.T) {
	t.Parallel()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}", ".").Output()
	require.NoError(t, err)
	modules := map[string]bool{}
	for module := range strings.FieldsSeq(string(out)) {
		modules[module] = true
	}
	require.Equal(t, map[string]bool{
		"github.com/pawlgo/pawl":   true,
		"github.com/dave/jennifer": true,
		"golang.org/x/tools":       true,
		"golang.org/x/mod":         true,
		"golang.org/x/sync":        true,
	}, modules)
}
