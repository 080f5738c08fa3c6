package output

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestApply(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	require.NoError(t, os.WriteFile(path("old"), []byte("old"), 0o640))
	require.NoError(t, os.WriteFile(path("gone"), []byte("gone"), 0o600))
	require.NoError(t, Apply(t.Context(), []File{
		{Path: path("new"), Content: []byte("new")},
		{Path: path("old"), Content: []byte("changed")},
		{Path: path("gone")},
		{Path: path("never")},
	}))
	require.Equal(t, map[string]string{"new": "new", "old": "changed"}, contents(t, dir))
	info, err := os.Stat(path("old"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o640), info.Mode().Perm())
}

// A file that is right already is not touched: it may even be impossible to.
func TestApplyLeavesEqualFilesAlone(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "same")
	require.NoError(t, os.WriteFile(path, []byte("same"), 0o600))
	obstruct(t, path)
	require.NoError(t, Apply(t.Context(), []File{{Path: path, Content: []byte("same")}}))
}

func TestApplyChangesNothingWhereOneFails(t *testing.T) {
	t.Parallel()
	dir, other := t.TempDir(), t.TempDir()
	for _, name := range []string{"a", "z"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte("before"), 0o600))
	}
	obstruct(t, filepath.Join(other, "m"))
	require.Error(t, Apply(t.Context(), []File{
		{Path: filepath.Join(dir, "a"), Content: []byte("after")},
		{Path: filepath.Join(other, "m"), Content: []byte("after")},
		{Path: filepath.Join(dir, "z")},
	}))
	require.Equal(t, map[string]string{"a": "before", "z": "before"}, contents(t, dir))
}

func TestApplyStopsWhenCancelled(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, Apply(ctx, []File{{Path: filepath.Join(dir, "a"), Content: []byte("a")}}), context.Canceled)
	require.Empty(t, contents(t, dir))
}

// obstruct puts a directory where the temporary file of path would be: that
// fails for every user, root included.
func obstruct(t *testing.T, path string) {
	temp := fmt.Sprintf("%s%d%s", tempPrefix(path), os.Getpid(), tempSuffix)
	require.NoError(t, os.Mkdir(temp, 0o700))
}

func contents(t *testing.T, dir string) map[string]string {
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	all := map[string]string{}
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		require.NoError(t, err)
		all[e.Name()] = string(text)
	}
	return all
}
