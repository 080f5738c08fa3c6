//go:build linux || darwin

package localpg

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// childVariable makes the test binary be a program that uses localpg. Its value
// is a childOrder in JSON.
const childVariable = "LOCALPG_TEST_CHILD"

// childOrder says what such a program does: it starts or joins a server, tells
// its URL, and keeps it until its input ends.
type childOrder struct {
	Shared     bool
	Own        bool
	HandleInt  bool // close the server on SIGINT, as a careful program does
	Home       string
	Cache      string
	Bins       []string
	Repository string
	Linger     time.Duration
}

// childReport is the line that such a program prints.
type childReport struct {
	URL     string
	Dir     string // "" for the server of PAWL_DATABASE_URL
	Version int
	Error   string
}

func TestMain(m *testing.M) {
	if order := os.Getenv(childVariable); order != "" {
		os.Exit(childMain(order))
	}
	os.Exit(m.Run())
}

func childMain(text string) int {
	var order childOrder
	if err := json.Unmarshal([]byte(text), &order); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	ctx := context.Background()
	if order.HandleInt {
		var stop context.CancelFunc
		ctx, stop = signal.NotifyContext(ctx, os.Interrupt)
		defer stop()
	}
	get := Start
	if order.Shared {
		get = Shared
	}
	s, err := get(ctx, Options{
		Own: order.Own, Linger: order.Linger,
		home: order.Home, cache: order.Cache, bins: order.Bins, repository: order.Repository,
	})
	report := childReport{}
	if err != nil {
		report.Error = err.Error()
	} else {
		report.URL, report.Version = s.URL(), s.Version()
		if s.own != nil {
			report.Dir = s.own.dir
		}
	}
	if err := json.NewEncoder(os.Stdout).Encode(report); err != nil || report.Error != "" {
		return 1
	}
	input := make(chan struct{})
	go func() {
		defer close(input)
		_, _ = io.Copy(io.Discard, os.Stdin)
	}()
	select {
	case <-input:
	case <-ctx.Done():
	}
	if err := s.Close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// child is a running program of that kind.
type child struct {
	childReport
	cmd   *exec.Cmd
	input io.Closer
}

// startChild runs the program and waits for its report. Tweak may change the
// command. The program has ended when the test has.
func startChild(t *testing.T, order childOrder, tweak func(*exec.Cmd)) *child {
	t.Helper()
	c, wait := launchChild(t, order, tweak)
	wait()
	return c
}

// launchChild is startChild that leaves waiting for the report to the caller.
func launchChild(t *testing.T, order childOrder, tweak func(*exec.Cmd)) (*child, func()) {
	t.Helper()
	text, err := json.Marshal(order)
	require.NoError(t, err)
	program, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(program)
	cmd.Env = os.Environ()
	// A group of its own, so that a test can signal it as a terminal would.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var stderr strings.Builder
	cmd.Stderr = &stderr
	if tweak != nil {
		tweak(cmd)
	}
	cmd.Env = append(cmd.Env, childVariable+"="+string(text))
	input, err := cmd.StdinPipe()
	require.NoError(t, err)
	output, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	c := &child{cmd: cmd, input: input}
	t.Cleanup(func() {
		if cmd.ProcessState == nil {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	})
	return c, func() {
		t.Helper()
		line, err := bufio.NewReader(output).ReadBytes('\n')
		if err != nil {
			_ = cmd.Wait()
		}
		require.NoError(t, err, "the child has printed: %v", &stderr)
		require.NoError(t, json.Unmarshal(line, &c.childReport))
	}
}

// leave ends the program as one that closes its server.
func (c *child) leave(t *testing.T) {
	t.Helper()
	require.NoError(t, c.input.Close())
	require.NoError(t, c.cmd.Wait())
}

// kill ends the program with no chance to clean up.
func (c *child) kill(t *testing.T) {
	t.Helper()
	require.NoError(t, c.cmd.Process.Kill())
	require.Error(t, c.cmd.Wait())
}

// testHome makes a parent for the per-user directory that every account can
// reach, and checks at the end that nothing is left in it or runs from it.
func testHome(t *testing.T) string {
	t.Helper()
	home, err := os.MkdirTemp("/tmp", "localpg-test-")
	require.NoError(t, err)
	require.NoError(t, os.Chmod(home, 0o755))
	t.Cleanup(func() {
		if !t.Failed() {
			requireGone(t, home)
		}
		require.NoError(t, os.RemoveAll(home))
	})
	return home
}

const goneWithin = 15 * time.Second

// requireGone waits until no server directory is below home, and no process
// that has it among its arguments.
func requireGone(t *testing.T, home string) {
	t.Helper()
	var dirs, processes []string
	gone := func() bool {
		dirs = serverDirs(t, home)
		processes = processesOf(t, home)
		return len(dirs) == 0 && len(processes) == 0
	}
	for deadline := time.Now().Add(goneWithin); !gone(); {
		require.True(t, time.Now().Before(deadline), "left: %q %q", dirs, processes)
		require.NoError(t, pause(context.Background(), 5*pollInterval))
	}
}

func serverDirs(t *testing.T, home string) []string {
	t.Helper()
	var all []string
	for _, prefix := range []string{sharedPrefix, privatePrefix} {
		dirs, err := filepath.Glob(filepath.Join(home, "*", prefix+"*"))
		require.NoError(t, err)
		all = append(all, dirs...)
	}
	return all
}

// processesOf lists the processes that have text among their arguments.
func processesOf(t *testing.T, text string) []string {
	t.Helper()
	var found []string
	if files, err := filepath.Glob("/proc/[0-9]*/cmdline"); err == nil && len(files) > 0 {
		for _, f := range files {
			// A process may end between the listing and the reading.
			if line, err := os.ReadFile(f); err == nil && strings.Contains(string(line), text) {
				found = append(found, filepath.Base(filepath.Dir(f))+" "+strings.ReplaceAll(string(line), "\x00", " "))
			}
		}
		return found
	}
	out, err := exec.Command("ps", "-axww", "-o", "pid=,args=").Output()
	require.NoError(t, err)
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, text) {
			found = append(found, strings.TrimSpace(line))
		}
	}
	return found
}

// pidOf returns the process that has both texts among its arguments.
func pidOf(t *testing.T, text, other string) int {
	t.Helper()
	for _, line := range processesOf(t, text) {
		if strings.Contains(line, other) {
			var pid int
			_, err := fmt.Sscan(line, &pid)
			require.NoError(t, err)
			return pid
		}
	}
	require.Fail(t, "no such process", "%s with %s", text, other)
	return 0
}
