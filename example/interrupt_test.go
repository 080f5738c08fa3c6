//go:build unix

package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/pawlgo/pawl/internal/testdb"
)

// child is the example as a process of its own.
type child struct {
	cmd  *exec.Cmd
	seen strings.Builder
	out  *bufio.Reader
}

// allAtWork is printed when the workers are at work, a replacement among them.
const allAtWork = "worker c takes its place"

// startChild starts the example and returns when it has printed a text.
func startChild(t *testing.T, until string, env ...string) *child {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	c := &child{cmd: exec.Command(self, "example")}
	c.cmd.Env = append(append(os.Environ(), "PAWL_DATABASE_URL="+testdb.Server(t).URL()), env...)
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	stdout, err := c.cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, c.cmd.Start())
	t.Cleanup(func() {
		if c.cmd.ProcessState == nil {
			require.NoError(t, c.cmd.Process.Kill())
			require.Error(t, c.cmd.Wait())
		}
	})
	c.out = bufio.NewReader(stdout)
	c.readUntil(t, until)
	return c
}

func (c *child) readUntil(t *testing.T, text string) {
	t.Helper()
	for !strings.Contains(c.seen.String(), text) {
		line, err := c.out.ReadString('\n')
		c.seen.WriteString(line)
		require.NoError(t, err, "waiting for %q: %s", text, &c.seen)
	}
}

// databases returns those of a run, by its output directory, and how many
// connections its processes have to them.
func databases(t *testing.T, pool *pgxpool.Pool, output string) (names []string, connections int) {
	t.Helper()
	rows, err := pool.Query(t.Context(), `
		SELECT d.datname, (SELECT count(*) FROM pg_stat_activity a WHERE a.datname = d.datname)
		FROM pg_database d WHERE shobj_description(d.oid, 'pg_database') = $1`, output)
	require.NoError(t, err)
	defer rows.Close()
	for rows.Next() {
		var name string
		var n int
		require.NoError(t, rows.Scan(&name, &n))
		names = append(names, name)
		connections += n
	}
	require.NoError(t, rows.Err())
	return names, connections
}

// An interrupt that comes while the trace is still being read ends the program
// at once, whether it comes from a pipe or from a file that is one.
func TestInterruptEndsTheReading(t *testing.T) {
	t.Parallel()
	fifo := t.TempDir() + "/fifo"
	require.NoError(t, syscall.Mkfifo(fifo, 0o600))
	for name, tt := range map[string]struct {
		args   []string
		signal os.Signal
	}{
		"standard input": {[]string{"-trace", "-"}, os.Interrupt},
		"named pipe":     {[]string{"-trace", fifo}, syscall.SIGTERM},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			self, err := os.Executable()
			require.NoError(t, err)
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			cmd := exec.CommandContext(ctx, self, append([]string{"example"}, tt.args...)...)
			var stderr strings.Builder
			cmd.Stderr = &stderr
			stdin, writer, err := os.Pipe()
			require.NoError(t, err)
			cmd.Stdin = stdin
			require.NoError(t, cmd.Start())
			require.NoError(t, stdin.Close())
			if tt.args[1] != "-" {
				require.NoError(t, writer.Close())
				// Waits until the child opens it too.
				writer, err = os.OpenFile(fifo, os.O_WRONLY, 0)
				require.NoError(t, err)
			}
			// More than a pipe holds: it is written when the child has read some.
			_, err = writer.WriteString(strings.Repeat(line, 4<<20/len(line)))
			require.NoError(t, err)
			require.NoError(t, cmd.Process.Signal(tt.signal))
			require.Error(t, cmd.Wait())
			require.NoError(t, writer.Close())
			require.Equal(t, exitInterrupted, cmd.ProcessState.ExitCode())
			require.Equal(t, "example: interrupted before anything was started\n", stderr.String())
		})
	}
}

// So does one that comes while nobody has opened the pipe for writing.
func TestInterruptEndsTheOpening(t *testing.T) {
	t.Parallel()
	fifo := t.TempDir() + "/fifo"
	require.NoError(t, syscall.Mkfifo(fifo, 0o600))
	ctx, interrupt := context.WithCancel(t.Context())
	interrupt()
	var stdout, stderr strings.Builder
	require.Equal(t, exitInterrupted, command(ctx, []string{"-trace", fifo}, strings.NewReader(""), &stdout, &stderr))
	writer, err := os.OpenFile(fifo, os.O_WRONLY, 0) // lets the reading end
	require.NoError(t, err)
	require.NoError(t, writer.Close())
}

// An interrupt from the terminal, which reaches the workers too, leaves nothing.
func TestInterruptLeavesNothing(t *testing.T) {
	t.Parallel()
	pool := testdb.New(t)
	c := startChild(t, allAtWork)
	output := outputOf(t, c.seen.String())
	require.DirExists(t, output)
	names, connections := databases(t, pool, output)
	require.Len(t, names, 1)
	require.Positive(t, connections)

	require.NoError(t, syscall.Kill(-c.cmd.Process.Pid, syscall.SIGINT))
	require.Error(t, c.cmd.Wait())
	require.Equal(t, exitInterrupted, c.cmd.ProcessState.ExitCode())
	require.NoDirExists(t, output)
	require.NoFileExists(t, output+lockSuffix)
	names, _ = databases(t, pool, output)
	require.Empty(t, names)
}

// Workers do not outlive a parent that is killed, and clear up after it.
func TestKilledParentLeavesNoWorker(t *testing.T) {
	t.Parallel()
	pool := testdb.New(t)
	c := startChild(t, allAtWork)
	output := outputOf(t, c.seen.String())
	require.NoError(t, c.cmd.Process.Kill())
	require.Error(t, c.cmd.Wait())
	dropLeft(t, pool, output)
	require.NoDirExists(t, output)
	require.NoFileExists(t, output+lockSuffix)
}

// dropLeft waits for the end of a killed run's processes and drops its database,
// which on a server of its own would have gone with the server.
func dropLeft(t *testing.T, pool *pgxpool.Pool, output string) {
	t.Helper()
	var names []string
	testdb.Eventually(t, 10*time.Second, "the end of the workers", func() bool {
		var connections int
		names, connections = databases(t, pool, output)
		return connections == 0
	})
	for _, name := range names {
		_, err := pool.Exec(t.Context(), fmt.Sprintf("DROP DATABASE %s", name))
		require.NoError(t, err)
	}
}

// What stays where the workers are killed too, the next start removes.
func TestNextStartRemovesWhatKilledOnesLeft(t *testing.T) {
	t.Parallel()
	pool := testdb.New(t)
	tmp := "TMPDIR=" + t.TempDir()
	c := startChild(t, "two worker processes run", tmp)
	left := outputOf(t, c.seen.String())
	require.NoError(t, syscall.Kill(-c.cmd.Process.Pid, syscall.SIGKILL))
	require.Error(t, c.cmd.Wait())
	dropLeft(t, pool, left)
	require.DirExists(t, left)

	next := startChild(t, "two worker processes run", tmp)
	require.NoDirExists(t, left)
	require.NoFileExists(t, left+lockSuffix)

	// One that lives keeps its own.
	output := outputOf(t, next.seen.String())
	self, err := os.Executable()
	require.NoError(t, err)
	another := exec.CommandContext(t.Context(), self, "example", "-out", self)
	another.Env = append(os.Environ(), tmp)
	require.Error(t, another.Run())
	require.Equal(t, exitBadInput, another.ProcessState.ExitCode())
	require.DirExists(t, output)
	require.FileExists(t, output+lockSuffix)
	require.NoError(t, syscall.Kill(-next.cmd.Process.Pid, syscall.SIGINT))
	require.Error(t, next.cmd.Wait())
	require.NoDirExists(t, output)
	require.NoFileExists(t, output+lockSuffix)
}
