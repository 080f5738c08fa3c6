// Package docs_test runs what the documents show, so that they stay true.
package docs_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawlgo/pawl/internal/testdb"
)

// block is one fenced block of a document, with the file that the line before
// it names, if it names one; or a step, a comment that names something that the
// test does at that point.
type block struct {
	lang, file, text, step string
}

var fence = regexp.MustCompile("(?ms)(?:^`([^`\n]+)`:\n\n)?^```(\\w+)\n(.*?)^```$|^<!-- step: (\\w+) -->$")

func blocks(t *testing.T, path string) []block {
	t.Helper()
	raw, err := os.ReadFile(path)
	require.NoError(t, err)
	var all []block
	for _, m := range fence.FindAllStringSubmatch(string(raw), -1) {
		all = append(all, block{file: m[1], lang: m[2], text: m[3], step: m[4]})
	}
	require.NotEmpty(t, all)
	return all
}

// module is a module outside the repository, as a user would have it.
type module struct {
	t   *testing.T
	dir string
	env []string
}

func newModule(t *testing.T) *module {
	return &module{t: t, dir: t.TempDir(), env: append(os.Environ(),
		"GOWORK=off", "GOFLAGS=",
		// What Pawl requires is in the module cache, since these tests were
		// built with it; a user's module gets the same versions.
		"GOPROXY=off", "GOSUMDB=off", "GONOSUMDB=*",
	)}
}

func (m *module) write(file, text string) {
	m.t.Helper()
	path := filepath.Join(m.dir, filepath.FromSlash(file))
	require.NoError(m.t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(m.t, os.WriteFile(path, []byte(text), 0o644))
}

func (m *module) command(line string) *exec.Cmd {
	words := strings.Fields(line)
	if strings.HasPrefix(words[0], "./") {
		words[0] = filepath.Join(m.dir, words[0])
	}
	cmd := exec.CommandContext(m.t.Context(), words[0], words[1:]...)
	cmd.Dir, cmd.Env = m.dir, m.env
	return cmd
}

// show runs the command of a console block, which may fail, and compares all
// that it prints.
func (m *module) show(text string) {
	m.t.Helper()
	line, want, _ := strings.Cut(text, "\n")
	output, _ := m.command(strings.TrimPrefix(line, "$ ")).CombinedOutput()
	require.Equal(m.t, want, string(output))
}

// run runs one command line and returns its standard output.
func (m *module) run(line string) string {
	m.t.Helper()
	cmd := m.command(line)
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	require.NoError(m.t, cmd.Run(), "%s\n%s%s", line, &stdout, &stderr)
	if strings.HasPrefix(line, "go mod init ") {
		// The one thing that a reader does not do: use this checkout.
		root, err := filepath.Abs("..")
		require.NoError(m.t, err)
		m.run("go mod edit -replace github.com/pawlgo/pawl=" + root)
	}
	return stdout.String()
}

func TestTutorial(t *testing.T) {
	t.Parallel()
	pool := testdb.New(t)
	m := newModule(t)
	m.env = append(m.env, "DATABASE_URL="+databaseURL(t, pool.Config().ConnConfig.Database))
	var output string
	runs := 0
	for _, b := range blocks(t, "tutorial.md") {
		switch b.lang {
		case "go":
			require.NotEmpty(t, b.file, "a block of code without the name of its file")
			m.write(b.file, b.text)
		case "sh":
			for line := range strings.Lines(b.text) {
				output = m.run(strings.TrimSpace(line))
			}
		case "text":
			require.Equal(t, b.text, output)
			runs++
		}
	}
	require.Equal(t, 2, runs, "the tutorial runs its program, and again while the key is held")

	var completed int
	require.NoError(t, pool.QueryRow(context.Background(),
		`SELECT count(*) FROM pawl.job_status WHERE status = 'completed' AND attempts = 2`).Scan(&completed))
	require.Equal(t, 1, completed)
}

// databaseURL is the URL of a database of the tests' server.
func databaseURL(t *testing.T, name string) string {
	t.Helper()
	server := testdb.Server(t).URL()
	end := strings.IndexByte(server, '?')
	if end < 0 {
		end = len(server)
	}
	slash := strings.LastIndexByte(server[:end], '/')
	require.Positive(t, slash)
	return server[:slash+1] + name + server[end:]
}

// The code of the README's first screen is cut out of its files: what is added
// here are the package clauses and the imports.
func TestReadmeCompiles(t *testing.T) {
	t.Parallel()
	var code []string
	for _, b := range blocks(t, "../README.md") {
		if b.lang == "go" {
			code = append(code, b.text)
		}
	}
	require.Len(t, code, 2)
	m := newModule(t)
	m.run("go mod init example.com/shop")
	m.write("tasks/tasks.go", "package tasks\n\nimport \"github.com/pawlgo/pawl/task\"\n\n//go:generate go tool taskgen\n\n"+code[0])
	m.write("shop.go", `package shop

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	pawlrt "github.com/pawlgo/pawl/runtime"
	"github.com/pawlgo/pawl/task"

	"example.com/shop/tasks"
)

`+code[1])
	m.run("go get github.com/pawlgo/pawl/runtime")
	m.run("go get -tool github.com/pawlgo/pawl/cmd/taskgen")
	m.run("go generate ./tasks")
	m.run("go vet ./...")
}
