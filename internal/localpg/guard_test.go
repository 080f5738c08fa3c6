//go:build linux || darwin

package localpg

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Whoever has joined has a server that stays, however close to its end they
// came. The guard is put to the test without a server, again and again at the
// moment when its last user leaves, a little later in each round.
func TestJoiningIsNeverTooLate(t *testing.T) {
	t.Parallel()
	home := testHome(t)
	// The guard of the last server removes the home, where that is empty.
	require.NoError(t, os.Mkdir(filepath.Join(home, "keep"), 0o700))
	var joined, late int
	for round := range 100 {
		dir, err := os.MkdirTemp(home, "guarded-")
		require.NoError(t, err)
		last, err := startGuard(dir, 0)
		require.NoError(t, err)
		left := make(chan error)
		go func() { left <- last.release() }()
		require.NoError(t, pause(t.Context(), time.Duration(round)*10*time.Microsecond))
		share, ok, err := join(dir)
		require.NoError(t, err)
		require.NoError(t, <-left)
		if !ok {
			late++
			waitForRemoval(t, dir)
			continue
		}
		joined++
		// The name of the FIFO may be away for a moment, but it comes back.
		require.Eventually(t, func() bool {
			again, ok, err := join(dir)
			return err == nil && ok && again.release() == nil
		}, 5*time.Second, time.Millisecond)
		require.DirExists(t, dir)
		require.NoError(t, share.release())
		waitForRemoval(t, dir)
	}
	t.Logf("%d joined, %d came too late", joined, late)
}

// Whoever joins while the guard counts down ends the counting by staying, and
// makes it start again by leaving.
func TestJoiningWhileTheGuardCounts(t *testing.T) {
	t.Parallel()
	for name, stays := range map[string]bool{"stays": true, "leaves at once": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, err := os.MkdirTemp(testHome(t), "guarded-")
			require.NoError(t, err)
			first, err := startGuard(dir, time.Second)
			require.NoError(t, err)
			guard := pidOf(t, dir, "PAWL_GUARD")
			counting := func() bool { return hasChild(t, guard, "sleep 1") }
			require.NoError(t, first.release())
			require.Eventually(t, counting, 5*time.Second, 10*time.Millisecond)
			visit, ok, err := join(dir)
			require.NoError(t, err)
			require.True(t, ok)
			if stays {
				require.Eventually(t, func() bool { return !counting() }, 5*time.Second, 50*time.Millisecond)
				require.Eventually(t, func() bool {
					again, ok, err := join(dir)
					return err == nil && ok && again.release() == nil
				}, 5*time.Second, time.Millisecond)
			}
			require.NoError(t, visit.release())
			began := time.Now()
			waitForRemoval(t, dir)
			if !stays {
				require.Greater(t, time.Since(began), 1500*time.Millisecond, "what was left of one count, and another")
			}
		})
	}
}

func TestAbandoned(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp(testHome(t), "guarded-")
	require.NoError(t, err)
	check := func(want bool) {
		t.Helper()
		got, err := abandoned(dir)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	check(true) // without anything in it
	share, err := startGuard(dir, 0)
	require.NoError(t, err)
	check(false)
	// The guard dies without having read what a user has written.
	guard := pidOf(t, dir, "PAWL_GUARD")
	require.NoError(t, syscall.Kill(guard, syscall.SIGSTOP))
	_, err = share.fifo.WriteString("unread\n")
	require.NoError(t, err)
	killAndWait(t, guard)
	check(false) // while it has a user
	require.NoError(t, share.release())
	check(true)
	_, ok, err := join(dir)
	require.NoError(t, err)
	require.False(t, ok, "without a guard a server cannot be joined")
	require.NoError(t, destroy(t.Context(), dir))
	require.NoDirExists(t, dir)
}

func waitForRemoval(t *testing.T, dir string) {
	t.Helper()
	require.Eventually(t, func() bool {
		_, err := os.Lstat(dir)
		return os.IsNotExist(err)
	}, goneWithin, time.Millisecond)
}

// hasChild reports whether a process has a child with this command line.
func hasChild(t *testing.T, parent int, command string) bool {
	t.Helper()
	out, err := exec.Command("ps", "-axww", "-o", "ppid=,args=").Output()
	require.NoError(t, err)
	for line := range strings.Lines(string(out)) {
		if strings.TrimSpace(line) == strconv.Itoa(parent)+" "+command {
			return true
		}
	}
	return false
}

// When the last server is gone, so is the directory of the user, and the lock
// in it is never held twice while it comes and goes.
func TestHomeComesAndGoes(t *testing.T) {
	t.Parallel()
	h := home{path: filepath.Join(t.TempDir(), "home")}
	var holders atomic.Int32
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 50 {
				lock, err := h.lock(t.Context())
				if !assert.NoError(t, err) {
					return
				}
				assert.EqualValues(t, 1, holders.Add(1))
				dir, err := h.newDir(privatePrefix)
				assert.NoError(t, err)
				assert.NoError(t, os.Remove(dir))
				holders.Add(-1)
				assert.NoError(t, lock.Close())
			}
		})
	}
	wg.Wait()
	require.NoDirExists(t, h.path)
}
