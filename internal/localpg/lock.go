//go:build linux || darwin

package localpg

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

const pollInterval = 10 * time.Millisecond

// tryLock locks the file at path, creating it when it is missing. It returns nil
// and no error when somebody else has the lock. The lock belongs to the open
// file, so a child that inherits the file keeps the lock until it dies: that is
// how the life of a guard or of a server is known, without trusting a process
// id.
func tryLock(path string) (*os.File, error) {
	return tryOpenLock(path, os.O_CREATE)
}

func tryOpenLock(path string, flag int) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|syscall.O_NOFOLLOW|flag, 0o600)
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, f.Close()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), f.Close())
	}
	return f, nil
}

// waitLock is tryLock that waits until the lock is free or ctx ends.
func waitLock(ctx context.Context, path string) (*os.File, error) {
	for {
		f, err := tryLock(path)
		if f != nil || err != nil {
			return f, err
		}
		if err := pause(ctx, pollInterval); err != nil {
			return nil, fmt.Errorf("wait for the lock %s: %w", path, err)
		}
	}
}

// locked reports whether somebody has the lock on the file at path. Nobody has
// it when there is no such file.
func locked(path string) (bool, error) {
	f, err := tryOpenLock(path, 0)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if f == nil {
		return true, nil
	}
	return false, f.Close()
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
