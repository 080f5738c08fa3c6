package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
)

// The guide has every command, and it and the package's doc every exit code.
func TestDocs(t *testing.T) {
	t.Parallel()
	guide, err := os.ReadFile("../../docs/taskctl.md")
	require.NoError(t, err)
	doc, err := os.ReadFile("doc.go")
	require.NoError(t, err)
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		require.NotEmpty(t, cmd.Short, cmd.CommandPath())
		words := strings.Fields(strings.TrimPrefix(cmd.CommandPath(), "taskctl"))
		if !cmd.HasSubCommands() && len(words) > 0 {
			// One row is for several commands of a group.
			found := false
			for line := range strings.SplitSeq(string(guide), "\n") {
				row := strings.Split(line, "|")
				found = found || len(row) > 2 && strings.Contains(row[1], "`"+words[0]) && strings.Contains(row[1], words[len(words)-1])
			}
			require.True(t, found, "the guide lacks %s", cmd.CommandPath())
		}
		for _, c := range cmd.Commands() {
			walk(c)
		}
	}
	walk((&app{}).root())
	for _, code := range []int{exitOK, exitBad, exitUsage, exitTrouble, exitNone, exitNotPossible, exitUnconfirmed, exitStopped, exitSchema, exitInterrupted} {
		require.Contains(t, string(guide), fmt.Sprintf("| %d | ", code))
		require.Regexp(t, fmt.Sprintf(`(?m)^//\t%d +\S`, code), string(doc))
	}
}

// The guide does not tell anybody to install what cannot be: go install refuses a
// module at a version whose go.mod replaces others.
func TestInstall(t *testing.T) {
	t.Parallel()
	guide, err := os.ReadFile("../../docs/taskctl.md")
	require.NoError(t, err)
	module, err := os.ReadFile("go.mod")
	require.NoError(t, err)
	if strings.Contains(string(module), "\nreplace ") {
		require.NotContains(t, string(guide), "go install github.com")
	}
	require.Contains(t, string(guide), "go build -C pawl/cmd/taskctl ")
}

// A command that a signal ends has no exit code of its own.
func TestCommandCode(t *testing.T) {
	t.Parallel()
	interrupted, cancel := context.WithCancel(t.Context())
	cancel()
	for _, x := range []struct {
		ctx    context.Context
		script string
		want   int
	}{
		{t.Context(), "exit 3", 3}, {interrupted, "exit 3", 3},
		{t.Context(), "kill -KILL $$", 137}, {t.Context(), "kill -TERM $$", 143}, {interrupted, "kill -TERM $$", exitInterrupted},
	} {
		failed, ok := errors.AsType[*exec.ExitError](exec.Command("sh", "-c", x.script).Run())
		require.True(t, ok, x.script)
		require.Equal(t, x.want, commandCode(x.ctx, failed), x.script)
	}
}

// What a stranger has stored cannot move a terminal's cursor.
func TestPlain(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"straße ☃":      "straße ☃",
		"a\nb\tc":       "a b c",
		"\x1b[31mred":   `\x1b[31mred`,
		"\u202egnirts":  `\x202egnirts`,
		"nul\x00 \x7f ": `nul\x00 \x7f `,
		"\xff":          "\uFFFD",
	} {
		require.Equal(t, want, plain(text))
	}
	require.Equal(t, longest, len([]rune(cell(strings.Repeat("é", 500)))))
}
