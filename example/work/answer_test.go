package work

import (
	"context"
	"errors"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawlgo/pawl/task"
)

func TestOutcomes(t *testing.T) {
	t.Parallel()
	alive := t.Context()
	outcome, detail := outcomeOf(alive, nil)
	require.Equal(t, Completed, outcome)
	require.Empty(t, detail)
	outcome, detail = outcomeOf(alive, task.Permanent(errors.New("gone")))
	require.Equal(t, "permanent", outcome)
	require.Equal(t, "gone", detail)
	outcome, _ = outcomeOf(alive, errors.New("?"))
	require.Equal(t, "unknown", outcome)

	ended, end := context.WithCancelCause(alive)
	end(task.ErrLeaseLost)
	outcome, detail = outcomeOf(ended, context.Canceled)
	require.Equal(t, Interrupted, outcome)
	require.Equal(t, task.ErrLeaseLost.Error(), detail)
	outcome, _ = outcomeOf(ended, nil)
	require.Equal(t, Completed, outcome, "it was done before the end was noticed")
}

func TestWriteReplacesWholeFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	defer root.Close()
	h := New(nil, root, "w", Pace{})
	require.NoError(t, h.write("a.md", []byte("a long first text")))
	require.NoError(t, h.write("a.md", []byte("second")))
	text, err := os.ReadFile(dir + "/a.md")
	require.NoError(t, err)
	require.Equal(t, "second", string(text))

	// What a process left that died in the middle is replaced and goes.
	require.NoError(t, os.WriteFile(dir+"/"+unfinishedPrefix+"b.md", []byte("a long text that is cut o"), 0o644))
	require.NoError(t, h.write("b.md", []byte("whole")))
	text, err = os.ReadFile(dir + "/b.md")
	require.NoError(t, err)
	require.Equal(t, "whole", string(text))

	require.NoError(t, os.Mkdir(dir+"/taken", 0o755))
	require.Error(t, h.write("taken", []byte("x")))
	require.Error(t, h.write("../outside", []byte("x")))
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 3, "nothing unfinished is left")
}
