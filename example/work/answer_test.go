package work

import (
	"context"
	"errors"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawlgo/pawl/task"
)

func TestAnswersHaveClasses(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		status     int
		retryAfter string
		class      task.Class
		after      time.Duration
	}{
		{status: 200}, {status: 204},
		{status: 500, class: task.ClassTransient},
		{status: 503, class: task.ClassTransient},
		{status: 408, class: task.ClassTransient},
		{status: 429, retryAfter: "1", class: task.ClassRateLimited, after: time.Second},
		{status: 429, retryAfter: now.Add(90 * time.Second).Format(http.TimeFormat), class: task.ClassRateLimited, after: 90 * time.Second},
		{status: 429, retryAfter: now.Add(-time.Hour).Format(http.TimeFormat), class: task.ClassRateLimited},
		{status: 429, retryAfter: "-5", class: task.ClassRateLimited},
		{status: 429, retryAfter: "99999999999", class: task.ClassRateLimited, after: 24 * time.Hour},
		{status: 429, retryAfter: "100000", class: task.ClassRateLimited, after: 24 * time.Hour},
		{status: 429, retryAfter: "soon", class: task.ClassRateLimited},
		{status: 429, class: task.ClassRateLimited},
		{status: 410, class: task.ClassPermanent},
		{status: 404, class: task.ClassPermanent},
		{status: 301, class: task.ClassPermanent},
	} {
		err := answered("billing", tt.status, tt.retryAfter, now)
		if tt.class == "" {
			require.NoError(t, err)
			continue
		}
		failure := task.Classify(err)
		require.Equal(t, tt.class, failure.Class, "%d", tt.status)
		require.Equal(t, tt.after, failure.After, "%d %q", tt.status, tt.retryAfter)
		require.ErrorContains(t, err, "billing answered")
	}
}

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
