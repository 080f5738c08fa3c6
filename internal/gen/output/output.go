// Package output puts generated files on disk, all of a run or none.
package output

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// File is one file to be brought to a content.
type File struct {
	Path    string
	Content []byte // nil: the file is to be gone
}

// Apply brings each file to its content. It leaves a file alone that has it
// already. Everything that can fail for want of space or permission is done
// before the first file changes: the new contents are written beside the old
// ones and then renamed over them.
func Apply(ctx context.Context, files []File) (err error) {
	var staged []staging
	defer func() {
		for _, s := range staged {
			os.Remove(s.temp) // gone already where it was renamed
		}
	}()
	for _, f := range files {
		removeLeftovers(f.Path)
		s := staging{path: f.Path}
		old, readErr := os.ReadFile(f.Path)
		missing := errors.Is(readErr, fs.ErrNotExist)
		switch {
		case readErr != nil && !missing:
			return fmt.Errorf("read the old output: %w", readErr)
		case f.Content == nil && missing, f.Content != nil && !missing && bytes.Equal(old, f.Content):
			continue
		case f.Content != nil:
			s.temp, err = stage(f)
		}
		staged = append(staged, s)
		if err != nil {
			return fmt.Errorf("write %s: %w", f.Path, err)
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	// Removals come first: they are what may still fail.
	slices.SortStableFunc(staged, func(a, b staging) int { return cmp.Compare(min(len(a.temp), 1), min(len(b.temp), 1)) })
	for _, s := range staged {
		if s.temp == "" {
			err = os.Remove(s.path)
		} else {
			err = os.Rename(s.temp, s.path)
		}
		if err != nil {
			return fmt.Errorf("replace the old output: %w", err)
		}
	}
	return nil
}

// staging is a file about to be replaced by temp, or removed where that is "".
type staging struct{ path, temp string }

// stage writes the content beside the file and returns where.
func stage(f File) (temp string, err error) {
	temp = fmt.Sprintf("%s%d%s", tempPrefix(f.Path), os.Getpid(), tempSuffix)
	out, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o666)
	if err != nil {
		return "", err
	}
	_, err = out.Write(f.Content)
	if old, statErr := os.Stat(f.Path); statErr == nil {
		err = errors.Join(err, out.Chmod(old.Mode().Perm()))
	}
	return temp, errors.Join(err, out.Sync(), out.Close())
}

// The go command takes no notice of a file that begins with a dot.
func tempPrefix(path string) string {
	return filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".")
}

const tempSuffix = ".tmp"

// leftoverAge is how old a temporary file has to be to belong to no run that is
// still going on.
const leftoverAge = time.Minute

// removeLeftovers removes what a run left that was killed between writing and
// renaming. Nothing depends on it, so it has no error.
func removeLeftovers(path string) {
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		return
	}
	for _, e := range entries {
		name := filepath.Join(filepath.Dir(path), e.Name())
		if !strings.HasPrefix(name, tempPrefix(path)) || !strings.HasSuffix(name, tempSuffix) {
			continue
		}
		if info, err := e.Info(); err == nil && time.Since(info.ModTime()) > leftoverAge {
			os.Remove(name)
		}
	}
}
