package docs_test

import (
	"fmt"
	"io"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/pawlgo/pawl/internal/testdb"
)

// The story of a breaking change, with real processes.
func TestEvolution(t *testing.T) {
	t.Parallel()
	pool := testdb.New(t)
	m := newModule(t)
	m.env = append(m.env, "DATABASE_URL="+databaseURL(t, pool.Config().ConnConfig.Database),
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com",
		"GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
	deployed := false
	for _, b := range blocks(t, "evolution.md") {
		switch {
		case b.step == "deploy":
			deploy(t, m, pool)
			deployed = true
		case b.lang == "go":
			require.NotEmpty(t, b.file, "a block of code without the name of its file")
			m.write(b.file, b.text)
		case b.lang == "sh":
			for line := range strings.Lines(b.text) {
				m.run(strings.TrimSpace(line))
			}
		case b.lang == "console":
			m.show(b.text)
		}
	}
	require.True(t, deployed)
	require.NotContains(t, m.run("./newest verify"), "version 1", "a retired version is not known any more")
}

// deploy rolls from the old binary to the new one and back and forth again, with
// a thousand jobs of each version under way, and counts.
func deploy(t *testing.T, m *module, pool *pgxpool.Pool) {
	count := func(where string) (n int) {
		t.Helper()
		require.NoError(t, pool.QueryRow(t.Context(), `SELECT count(*) FROM delivered WHERE `+where).Scan(&n))
		return n
	}
	reach := func(n int, where string) {
		t.Helper()
		testdb.Eventually(t, time.Minute, fmt.Sprintf("%d jobs with %s to be delivered", n, where), func() bool { return count(where) >= n })
	}

	// Side by side: each enqueues while both work.
	m.run("./old enqueue 0 500")
	before := m.worker("./old")
	after := m.worker("./new")
	m.run("./new enqueue 1000 500")
	m.run("./old enqueue 500 250")
	reach(750, "version = 1")
	reach(500, "version = 2")

	// Rolled back: what the new version enqueued waits for it.
	after.stop()
	m.run("./new enqueue 1500 500")
	m.run("./old enqueue 750 250")
	reach(1000, "version = 1")
	require.Equal(t, 500, count("version = 2"))
	require.Contains(t, m.run("./new verify"), "forward: true back: false\n")
	require.Contains(t, m.run("./old verify"), "forward: false")

	// And forward for good.
	before.stop()
	final := m.worker("./new")
	reach(1000, "version = 2")
	final.stop()

	require.Equal(t, 2000, count("true"))
	require.Zero(t, count("version = 2 AND worker LIKE '%/old'"), "an old worker took what it cannot decode")
	var events, attempts, dead int
	require.NoError(t, pool.QueryRow(t.Context(), `SELECT count(DISTINCT event) FROM delivered`).Scan(&events))
	require.NoError(t, pool.QueryRow(t.Context(), `SELECT max(attempts), count(*) FILTER (WHERE status <> 'completed') FROM pawl.job_status`).Scan(&attempts, &dead))
	require.Equal(t, 2000, events, "each job once")
	require.Equal(t, 1, attempts, "no attempt was spent by a worker that cannot decode")
	require.Zero(t, dead)
}

// process is a worker process, which works until its standard input ends.
type process struct {
	t     *testing.T
	cmd   *exec.Cmd
	stdin io.Closer
	out   strings.Builder
}

func (m *module) worker(binary string) *process {
	m.t.Helper()
	p := &process{t: m.t, cmd: m.command(binary + " work")}
	stdin, err := p.cmd.StdinPipe()
	require.NoError(m.t, err)
	p.stdin = stdin
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.out
	require.NoError(m.t, p.cmd.Start())
	return p
}

func (p *process) stop() {
	p.t.Helper()
	require.NoError(p.t, p.stdin.Close())
	require.NoError(p.t, p.cmd.Wait(), &p.out)
}
