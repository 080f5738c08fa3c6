//go:build linux || darwin

package localpg

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestProcessesShareOneServer(t *testing.T) {
	t.Parallel()
	// Long enough for a process to start on a busy machine.
	order := childOrder{Shared: true, Own: true, Home: testHome(t), Linger: 4 * time.Second}
	var children []*child
	var waits []func()
	for range 4 {
		c, wait := launchChild(t, order, nil)
		children, waits = append(children, c), append(waits, wait)
	}
	for i, wait := range waits {
		wait()
		require.Empty(t, children[i].Error)
		require.Equal(t, children[0].URL, children[i].URL)
	}
	require.Len(t, serverDirs(t, order.Home), 1)

	for _, c := range children {
		c.leave(t)
	}
	late := startChild(t, order, nil)
	require.Equal(t, children[0].URL, late.URL, "the server lingers for the next package")
	late.leave(t)
	requireGone(t, order.Home)
}

func TestUnlikeSettingsAreNotShared(t *testing.T) {
	t.Parallel()
	opts := testOptions(t)
	plain, err := Shared(t.Context(), opts)
	require.NoError(t, err)
	defer plain.Close()
	opts.Settings = map[string]string{"max_connections": "50"}
	other, err := Shared(t.Context(), opts)
	require.NoError(t, err)
	defer other.Close()
	require.NotEqual(t, plain.URL(), other.URL())
}

func TestKilledUsersLeaveNothing(t *testing.T) {
	t.Parallel()
	order := childOrder{Shared: true, Own: true, Home: testHome(t), Linger: time.Second}
	first, second := startChild(t, order, nil), startChild(t, order, nil)
	require.Equal(t, first.URL, second.URL)
	first.kill(t)
	_, err := ping(t.Context(), second.URL)
	require.NoError(t, err)
	second.kill(t)
	requireGone(t, order.Home)
}

func TestAKilledGuardIsMadeUpForByALaterStart(t *testing.T) {
	t.Parallel()
	for _, shared := range []bool{false, true} {
		for _, crash := range []bool{false, true} {
			name := map[bool]string{false: "private", true: "shared"}[shared] +
				map[bool]string{false: " running", true: " crashed"}[crash]
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				order := childOrder{Shared: shared, Own: true, Home: testHome(t), Linger: time.Second}
				c := startChild(t, order, nil)
				segment := sharedMemory(t, c.Dir)
				killAndWait(t, pidOf(t, c.Dir, "PAWL_GUARD"))

				// Another start must not touch a server in use, guard or not.
				sweep(t, order.Home)
				_, err := ping(t.Context(), c.URL)
				require.NoError(t, err)

				if crash {
					killAndWait(t, pidOf(t, c.Dir, "postgres -D"))
				}
				c.kill(t)
				require.Contains(t, serverDirs(t, order.Home), c.Dir, "there is nobody to remove it")

				sweep(t, order.Home)
				require.Empty(t, serverDirs(t, order.Home))
				require.Empty(t, processesOf(t, c.Dir))
				require.NotContains(t, sharedMemorySegments(t), segment)
			})
		}
	}
}

// A program that does not care about signals dies of Ctrl-C, and the terminal
// sends it to the whole group of processes.
func TestInterruptedPrograms(t *testing.T) {
	t.Parallel()
	for name, careful := range map[string]bool{"careful": true, "careless": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			order := childOrder{Own: true, HandleInt: careful, Home: testHome(t)}
			c := startChild(t, order, nil)
			require.NoError(t, syscall.Kill(-c.cmd.Process.Pid, syscall.SIGINT))
			err := c.cmd.Wait()
			require.Equal(t, careful, err == nil, "%v", err)
			requireGone(t, order.Home)
		})
	}
}

// A program may die while its server is in the making.
func TestKilledWhileStarting(t *testing.T) {
	t.Parallel()
	for _, stage := range []string{"users", "data/PG_VERSION", "data/base/1", "data/postmaster.pid"} {
		t.Run(stage, func(t *testing.T) {
			t.Parallel()
			order := childOrder{Own: true, Home: testHome(t)}
			c, _ := launchChild(t, order, nil)
			require.Eventually(t, func() bool {
				found, err := filepath.Glob(filepath.Join(order.Home, "*", "*", stage))
				return err == nil && len(found) > 0
			}, 30*time.Second, time.Millisecond)
			c.kill(t)
			if stage == "users" {
				// The guard may not have been there yet.
				s, err := Start(t.Context(), Options{Own: true, home: order.Home})
				require.NoError(t, err)
				require.NoError(t, s.Close())
			}
			requireGone(t, order.Home)
		})
	}
}

func TestADeadSharedServerIsNotJoined(t *testing.T) {
	t.Parallel()
	opts := testOptions(t)
	dead, err := Shared(t.Context(), opts)
	require.NoError(t, err)
	defer dead.Close()
	require.NoError(t, dead.own.signal(t.Context(), "KILL"))
	s, err := Shared(t.Context(), opts)
	require.NoError(t, err)
	defer s.Close()
	require.NotEqual(t, dead.URL(), s.URL())
	_, err = ping(t.Context(), s.URL())
	require.NoError(t, err)
}

// sweep does what each start does before it makes a server.
func sweep(t *testing.T, place string) {
	t.Helper()
	opts := Options{home: place}
	acct, err := serverAccount()
	require.NoError(t, err)
	h, err := openHome(t.Context(), opts, acct)
	require.NoError(t, err)
	lock, err := h.lock(t.Context())
	require.NoError(t, err)
	defer lock.Close()
	require.NoError(t, h.sweep(t.Context(), opts))
}

func killAndWait(t *testing.T, pid int) {
	t.Helper()
	require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
	require.Eventually(t, func() bool {
		for _, line := range processesOf(t, "") {
			if n, _, _ := strings.Cut(line, " "); n == strconv.Itoa(pid) && !strings.HasSuffix(strings.TrimSpace(line), n) {
				return false
			}
		}
		return true
	}, 5*time.Second, 5*pollInterval)
}

// sharedMemory returns the number of the System V segment of a server.
func sharedMemory(t *testing.T, dir string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "data/postmaster.pid"))
	require.NoError(t, err)
	lines := strings.Split(string(text), "\n")
	require.Greater(t, len(lines), 6)
	fields := strings.Fields(lines[6])
	require.Len(t, fields, 2)
	require.Contains(t, sharedMemorySegments(t), fields[1])
	return fields[1]
}

func sharedMemorySegments(t *testing.T) []string {
	t.Helper()
	out, err := exec.Command("ipcs", "-m").Output()
	require.NoError(t, err)
	var ids []string
	for line := range strings.Lines(string(out)) {
		if fields := strings.Fields(line); len(fields) > 2 {
			ids = append(ids, fields[1])
		}
	}
	return ids
}
