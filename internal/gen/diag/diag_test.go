package diag

import (
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// marked writes text without its two bars as a Go file, and returns its path and
// the position of the first bar. What stands between them is to be underlined.
func marked(t *testing.T, text string) (pos token.Position, between string) {
	t.Helper()
	before, rest, ok := strings.Cut(text, "|")
	require.True(t, ok, text)
	between, after, ok := strings.Cut(rest, "|")
	require.True(t, ok, text)
	path := filepath.Join(t.TempDir(), "a.go")
	require.NoError(t, os.WriteFile(path, []byte(before+between+after), 0o666))
	return token.Position{
		Filename: path, Line: 1 + strings.Count(before, "\n"), Column: len(before) - strings.LastIndexByte(before, '\n'),
	}, between
}

func TestExtent(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"package |p|\n",
		"package p\n\n|//task:queue| q\n",
		"package p\n\n//task:queue |q|\n",
		"package p\r\n\r\n//task:queue |q|\r\nvar x int\r\n",
		"package p\n\n//task:idempotency fields=|A|,B keep=1h\n",
		"package p\n\n//task:idempotency fields=A,B keep=|1h|\n",
		"package p\n\n/*\n\t|task:queue| q*/\n",
		"package p\n\ntype T struct{ |task.Task|[A] }\n",
		"package p\n\ntype T struct{ |*task.Task|[A] }\n",
		"package p\n\ntype T struct {\n\t|Größe| int\n}\n",
		"package p\n\nimport |\"a/b\"|\n",
		"package p\n\nvar s = |`ab`|\n",
		"package p\n\nvar s =| |1\n",
	} {
		pos, want := marked(t, text)
		list := New("/")
		list.Addf(pos, "here")
		d := list.Diagnostics()[0]
		require.Equal(t, want, d.source[d.Column-1:d.EndColumn-1], text)
	}
}

func TestASpanEndsWithItsLine(t *testing.T) {
	t.Parallel()
	pos, _ := marked(t, "package p\n\nvar s = |`a|\nb`\n")
	list := New("/")
	list.Addf(pos, "a raw string")
	list.AddSpanf(pos, 100, "too long")
	for _, d := range list.Diagnostics() {
		require.Equal(t, "`a", d.source[d.Column-1:d.EndColumn-1], d.Message)
	}
}

func TestWithoutSource(t *testing.T) {
	t.Parallel()
	list := New(t.TempDir())
	pos, _ := marked(t, "|package| p\n")
	gone := pos
	gone.Filename = filepath.Join(t.TempDir(), "gone.go")
	beyond := pos
	beyond.Line = 7
	right := pos
	right.Column = 70
	for _, p := range []token.Position{gone, beyond, right} {
		list.Addf(p, "nothing there")
	}
	for _, d := range list.Diagnostics() {
		require.Zero(t, d.EndColumn)
		var b strings.Builder
		require.NoError(t, WriteTerminal(&b, []Diagnostic{d}, false))
		require.Equal(t, d.String()+"\n", b.String())
	}
}

func TestDiagnosticsAreSortedAndEachOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	list := New(dir)
	at := func(name string, line int) token.Position {
		return token.Position{Filename: filepath.Join(dir, name), Line: line, Column: 1}
	}
	list.As(Payload).Addf(at("b.go", 1), "b")
	list.Addf(at("a.go", 10), "last")
	list.As(Name).Addf(at("a.go", 9), "twice")
	list.As(Name).AddSpanf(at("a.go", 9), 3, "twice")
	other := New(dir)
	other.As(Directive).Addf(at("a.go", 9), "another")
	list.Merge(other)
	all := list.Diagnostics()
	var b strings.Builder
	require.NoError(t, WriteText(&b, all))
	require.Equal(t, "a.go:9:1: another\na.go:9:1: twice\na.go:10:1: last\nb.go:1:1: b\n", b.String())
	require.Equal(t, []Code{Directive, Name, Source, Payload}, []Code{all[0].Code, all[1].Code, all[2].Code, all[3].Code})
	require.False(t, list.HasLine(at("b.go", 2)))
	require.True(t, list.HasLine(at("b.go", 1)))
}

// What is in the source must not take over the terminal.
func TestTerminalIsSafeFromTheSource(t *testing.T) {
	t.Parallel()
	pos, _ := marked(t, "package p\n\n//task:queue |\x1b[31mq\x07|\n")
	list := New("/")
	list.Addf(pos, "%s is no queue", "\x1b[31mq\x07")
	var b strings.Builder
	require.NoError(t, WriteTerminal(&b, list.Diagnostics(), true))
	require.NotContains(t, strings.NewReplacer(bold, "", reset, "", red+"^", "").Replace(b.String()), "\x1b")
	require.NotContains(t, b.String(), "\x07")
}
