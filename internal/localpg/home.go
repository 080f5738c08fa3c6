//go:build linux || darwin

package localpg

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	homeLockName  = "lock"
	privatePrefix = "private-"
	sharedPrefix  = "shared-"
)

// sweepTimeout bounds how long a start spends on what a dead run has left.
const sweepTimeout = 15 * time.Second

// home is the directory of one user that holds a directory for each of that
// user's servers, and the lock under which they are made, joined and swept.
type home struct {
	path    string
	account account
}

// openHome finds a place that the caller can write to and the server's account
// can reach, and makes the user's directory there. The temporary directory may
// be neither: root's is often closed to everybody else.
func openHome(ctx context.Context, opts Options, acct account) (home, error) {
	places := []string{os.TempDir(), "/tmp", "/var/tmp"}
	if opts.home != "" {
		places = []string{opts.home}
	}
	var reasons []error
	for _, place := range places {
		h := home{filepath.Join(place, "pawl-postgres-"+strconv.Itoa(os.Geteuid())), acct}
		err := h.make(ctx)
		if err == nil {
			return h, nil
		}
		if ctx.Err() != nil {
			return home{}, context.Cause(ctx)
		}
		reasons = append(reasons, err)
	}
	return home{}, fmt.Errorf("no place for the files of a server, set TMPDIR to a directory for them: %w",
		errors.Join(reasons...))
}

func (h home) make(ctx context.Context) error {
	if err := os.Mkdir(h.path, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	// In a directory that is open to all, somebody else may have been first.
	info, err := os.Lstat(h.path)
	if err != nil {
		return err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !info.IsDir() || !ok || int(stat.Uid) != os.Geteuid() || info.Mode().Perm()&0o022 != 0 {
		return fmt.Errorf("%s is not a directory that only its owner, the current user, can write to", h.path)
	}
	if h.account.credential != nil {
		if err := os.Chmod(h.path, 0o711); err != nil {
			return err
		}
	}
	return h.account.reaches(ctx, h.path)
}

// homeLock is the lock of a home while somebody has it.
type homeLock struct {
	file *os.File
	home string
}

// lock waits for the lock of the home. The caller closes it to unlock.
//
// Nothing is to remain when the last server is gone, so whoever has the lock
// removes its file, and the directory if that is empty then. A lock on a file
// that is no longer the one at its path is therefore none.
func (h home) lock(ctx context.Context) (*homeLock, error) {
	path := filepath.Join(h.path, homeLockName)
	for {
		var f *os.File
		err := h.make(ctx)
		if err == nil {
			f, err = waitLock(ctx, path)
		}
		if errors.Is(err, os.ErrNotExist) {
			if _, err := os.Stat(filepath.Dir(h.path)); err == nil && ctx.Err() == nil {
				continue // somebody has just removed it
			}
		}
		if err != nil {
			return nil, err
		}
		mine, err := f.Stat()
		if err != nil {
			return nil, errors.Join(err, f.Close())
		}
		if current, err := os.Lstat(path); err == nil && os.SameFile(mine, current) {
			return &homeLock{f, h.path}, nil
		}
		if err := f.Close(); err != nil {
			return nil, err
		}
	}
}

func (l *homeLock) Close() error {
	err := os.Remove(l.file.Name())
	err = errors.Join(err, l.file.Close())
	_ = os.Remove(l.home) // where no server is in it
	return err
}

// newDir makes the directory of a new server. The caller has the lock.
func (h home) newDir(prefix string) (string, error) {
	dir, err := os.MkdirTemp(h.path, prefix)
	if err != nil {
		return "", err
	}
	if h.account.credential != nil {
		err = os.Chmod(dir, 0o711)
	}
	return dir, err
}

// dirs lists the directories of the servers whose name has the prefix.
func (h home) dirs(prefix string) ([]string, error) {
	entries, err := os.ReadDir(h.path)
	if err != nil {
		return nil, err
	}
	var dirs []string
	for _, e := range entries {
		if e.IsDir() && strings.HasPrefix(e.Name(), prefix) {
			dirs = append(dirs, filepath.Join(h.path, e.Name()))
		}
	}
	return dirs, nil
}

// sweep removes the servers whose guards and users are all dead. The caller has
// the lock, under which guards are started, so a directory without a guard is
// not one in the making.
func (h home) sweep(ctx context.Context, opts Options) error {
	ctx, cancel := context.WithTimeout(ctx, sweepTimeout)
	defer cancel()
	shared, err := h.dirs(sharedPrefix)
	if err != nil {
		return err
	}
	private, err := h.dirs(privatePrefix)
	if err != nil {
		return err
	}
	for _, dir := range slices.Concat(shared, private) {
		gone, err := abandoned(dir)
		if err == nil && gone {
			opts.logger().InfoContext(ctx, "removing a PostgreSQL server that a dead process has left", "dir", dir)
			err = destroy(ctx, dir)
		}
		if err != nil {
			// The leftover of another run is no reason to fail this one.
			opts.logger().WarnContext(ctx, "cannot remove what a dead process has left", "dir", dir, "error", err)
		}
	}
	return nil
}
