package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// openOutput makes the directory for reports and exports, after what killed runs
// left of theirs is removed.
func (p *platform) openOutput() error {
	if err := sweepOutputs(os.TempDir()); err != nil {
		fmt.Fprintf(p.stderr, "example: remove what a killed run left: %v\n", err)
	}
	if p.out == "" {
		temporary, err := newTempOutput(os.TempDir())
		if err != nil {
			return fmt.Errorf("%w: %w", errOutput, err)
		}
		p.outDir, p.outTemp = temporary.dir, temporary
		return nil
	}
	dir, err := filepath.Abs(p.out)
	if err == nil {
		err = os.MkdirAll(dir, 0o755)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", errOutput, err)
	}
	switch entries, err := os.ReadDir(dir); {
	case err != nil:
		return fmt.Errorf("%w: %w", errOutput, err)
	case len(entries) > 0:
		return fmt.Errorf("%w: %s is not empty; choose a new or an empty one", errOutput, dir)
	}
	p.outDir = dir
	return nil
}

func (p *platform) closeOutput() error {
	if p.outTemp == nil {
		return nil
	}
	return p.outTemp.remove()
}

const (
	tempPrefix = "pawl-fleet-"
	lockSuffix = ".lock"
)

// tempOutput is a temporary directory for what a run writes.
//
// Beside it lies a file of the same name and .lock, which is there before the
// directory and goes after it, and which the process has locked for as long as
// it lives. So a file that nobody has locked tells of a directory that nobody
// else will remove, however its process died; and a directory without such a
// file is none of ours.
type tempOutput struct {
	dir  string
	lock *os.File
}

func newTempOutput(parent string) (*tempOutput, error) {
	for {
		dir := filepath.Join(parent, tempPrefix+rand.Text())
		lock, err := os.OpenFile(dir+lockSuffix, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
		if err != nil {
			return nil, err
		}
		locked, err := tryLock(lock)
		if err == nil && !locked {
			// A sweep came in between and takes it for a dead one's.
			if err := lock.Close(); err != nil {
				return nil, err
			}
			continue
		}
		if err == nil {
			err = os.Mkdir(dir, 0o700)
		}
		if err != nil {
			return nil, errors.Join(err, os.Remove(lock.Name()), lock.Close())
		}
		return &tempOutput{dir, lock}, nil
	}
}

func (o *tempOutput) remove() error {
	return errors.Join(removeOutput(o.dir), o.lock.Close())
}

// removeOutput removes a temporary directory and the file beside it. If it
// fails, the file is there for the next sweep.
func removeOutput(dir string) error {
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	if err := os.Remove(dir + lockSuffix); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// sweepOutputs removes the temporary directories of this user's runs that were
// killed together with their workers, which would have done it.
func sweepOutputs(parent string) error {
	locks, err := fs.Glob(os.DirFS(parent), tempPrefix+"*"+lockSuffix)
	if err != nil {
		return err
	}
	var errs []error
	for _, name := range locks {
		if err := sweepOutput(filepath.Join(parent, name)); !errors.Is(err, fs.ErrNotExist) { // another sweep was faster
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func sweepOutput(lockPath string) error {
	dir := strings.TrimSuffix(lockPath, lockSuffix)
	switch info, err := os.Lstat(lockPath); {
	case err != nil:
		return err
	case !info.Mode().IsRegular() || !isOurs(info):
		return nil
	}
	switch info, err := os.Lstat(dir); {
	case errors.Is(err, fs.ErrNotExist):
		// Its process died on the way from one to the other.
	case err != nil:
		return err
	case !info.IsDir() || !isOurs(info):
		return nil
	}
	lock, err := os.OpenFile(lockPath, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	locked, err := tryLock(lock)
	if locked {
		err = removeOutput(dir)
	}
	return errors.Join(err, lock.Close())
}
