package docs_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawlgo/pawl/internal/testdb"
)

func TestTesting(t *testing.T) {
	t.Parallel()
	testdb.Server(t) // stays for the processes of go test
	m := newModule(t)
	m.env = append(m.env, "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com",
		"GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
	for _, b := range blocks(t, "testing.md") {
		switch b.lang {
		case "go", "sql":
			require.NotEmpty(t, b.file, "a block of code without the name of its file")
			m.write(b.file, b.text)
		case "sh":
			for line := range strings.Lines(b.text) {
				m.run(strings.TrimSpace(line))
			}
		}
	}

	// What the compiler cannot see.
	path := filepath.Join(m.dir, "tasks", "tasks.go")
	source, err := os.ReadFile(path)
	require.NoError(t, err)
	m.write("tasks/tasks.go", strings.Replace(string(source), "base=1m", "base=2m", 1))
	output, err := m.command("go test ./tasks").CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(output), "go tool taskgen check: exit status 1")
	require.Contains(t, string(output), "-		Base:     time.Minute,\n")
	require.Contains(t, string(output), "+		Base:     2 * time.Minute,\n")

	m.write("tasks/tasks.go", string(source))
	m.run("go test ./tasks")

	m.run("go mod edit -droptool=github.com/pawlgo/pawl/cmd/taskgen")
	output, err = m.command("go test ./tasks").CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(output), "go get -tool github.com/pawlgo/pawl/cmd/taskgen")
}
