//go:build linux || darwin

package main

import (
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// die gives up the lock as the end of its process does. A mere Close would leave
// it to a child that another test is about to start.
func die(t *testing.T, o *tempOutput) {
	t.Helper()
	require.NoError(t, syscall.Flock(int(o.lock.Fd()), syscall.LOCK_UN))
	require.NoError(t, o.lock.Close())
}

func TestSweepRemovesNothingButWhatDeadRunsLeft(t *testing.T) {
	t.Parallel()
	tmp := t.TempDir()
	path := func(name string) string { return filepath.Join(tmp, name) }
	file := func(name string) string {
		require.NoError(t, os.WriteFile(path(name), nil, 0o600))
		return path(name)
	}
	dir := func(name string) string {
		require.NoError(t, os.Mkdir(path(name), 0o700))
		file(filepath.Join(name, "report.md"))
		return path(name)
	}
	alive, err := newTempOutput(tmp)
	require.NoError(t, err)
	dead, err := newTempOutput(tmp)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(dead.dir+"/report.md", nil, 0o600))
	die(t, dead)
	early := file(tempPrefix + "early" + lockSuffix)

	unmarked := dir(tempPrefix + "unmarked")
	foreign := dir("fleet-1")
	foreignLock := file("fleet-1" + lockSuffix)
	target := dir("target")
	link := path(tempPrefix + "link")
	require.NoError(t, os.Symlink(target, link))
	file(tempPrefix + "link" + lockSuffix)
	linkedLock := path(tempPrefix + "linked" + lockSuffix)
	require.NoError(t, os.Symlink(foreignLock, linkedLock))
	behindLink := dir(tempPrefix + "linked")
	plain := file(tempPrefix + "plain")
	file(tempPrefix + "plain" + lockSuffix)

	require.NoError(t, sweepOutputs(tmp))
	require.NoDirExists(t, dead.dir)
	require.NoFileExists(t, dead.dir+lockSuffix)
	require.NoFileExists(t, early)
	for _, kept := range []string{alive.dir, unmarked, foreign, target, behindLink} {
		require.DirExists(t, kept)
	}
	require.FileExists(t, target+"/report.md")
	for _, kept := range []string{foreignLock, link + "/report.md", linkedLock, plain} {
		require.FileExists(t, kept)
	}

	require.NoError(t, alive.remove())
	require.NoDirExists(t, alive.dir)
	require.NoFileExists(t, alive.dir+lockSuffix)
}

func TestSweepLeavesOthersFiles(t *testing.T) {
	t.Parallel()
	info, err := os.Stat(t.TempDir())
	require.NoError(t, err)
	require.True(t, isOurs(info))
	if os.Geteuid() != 0 {
		info, err = os.Stat("/")
		require.NoError(t, err)
		require.False(t, isOurs(info))
		return
	}
	tmp := t.TempDir()
	left, err := newTempOutput(tmp)
	require.NoError(t, err)
	die(t, left)
	require.NoError(t, os.Chown(left.dir, 1, 1))
	require.NoError(t, sweepOutputs(tmp))
	require.DirExists(t, left.dir)
	require.NoError(t, os.Chown(left.dir, 0, 0))
	require.NoError(t, os.Chown(left.dir+lockSuffix, 1, 1))
	require.NoError(t, sweepOutputs(tmp))
	require.DirExists(t, left.dir)
}

// Runs that start at once do not take each other's for dead ones.
func TestSweepsAndStartsAtOnce(t *testing.T) {
	t.Parallel()
	tmp := t.TempDir()
	var started sync.WaitGroup
	errs := make(chan error, 16)
	for range cap(errs) {
		started.Go(func() {
			errs <- func() error {
				for range 25 {
					if err := sweepOutputs(tmp); err != nil {
						return err
					}
					o, err := newTempOutput(tmp)
					if err != nil {
						return err
					}
					if err := os.WriteFile(o.dir+"/report.md", nil, 0o600); err != nil {
						return err
					}
					if err := o.remove(); err != nil {
						return err
					}
				}
				return nil
			}()
		})
	}
	started.Wait()
	close(errs)
	for err := range errs {
		require.NoError(t, err)
	}
	entries, err := os.ReadDir(tmp)
	require.NoError(t, err)
	require.Empty(t, entries)
}
