//go:build linux || darwin

package localpg

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	embeddedpostgres "github.com/fergusstrange/embedded-postgres"
)

// downloadVersion is the build that is downloaded.
const downloadVersion = embeddedpostgres.V18

// download returns the downloaded build of the cache, after putting it there
// when it is missing.
func download(ctx context.Context, opts Options, acct account) (binaries, error) {
	cache, err := openCache(ctx, opts, acct)
	if err != nil {
		return binaries{}, fmt.Errorf("no download without a cache directory: %w", err)
	}
	final := filepath.Join(cache, fmt.Sprintf("postgres-%s-%s-%s", downloadVersion, runtime.GOOS, runtime.GOARCH))
	if _, err := os.Stat(final); err == nil {
		return inspect(ctx, filepath.Join(final, "bin"), acct)
	}

	lock, err := waitLock(ctx, filepath.Join(cache, "lock"))
	if err != nil {
		return binaries{}, err
	}
	defer lock.Close()
	if _, err := os.Stat(final); err == nil {
		return inspect(ctx, filepath.Join(final, "bin"), acct)
	}
	const prefix = "download-"
	if err := removeAll(filepath.Join(cache, prefix+"*")); err != nil {
		return binaries{}, fmt.Errorf("remove what an interrupted download has left: %w", err)
	}
	work, err := os.MkdirTemp(cache, prefix)
	if err != nil {
		return binaries{}, err
	}
	defer os.RemoveAll(work)

	opts.logger().InfoContext(ctx, "downloading PostgreSQL, once for this user", "version", downloadVersion, "to", final)
	if err := fetchApart(ctx, fetchOrder{Dir: work, Repository: opts.repository}); err != nil {
		return binaries{}, fmt.Errorf("download PostgreSQL %s: %w", downloadVersion, err)
	}
	build := filepath.Join(work, fetchedName)
	if acct.credential != nil {
		if err := openToAll(work); err != nil {
			return binaries{}, err
		}
	}
	// What does not run here must not get into the cache, where it would stay.
	if _, err := inspect(ctx, filepath.Join(build, "bin"), acct); err != nil {
		return binaries{}, fmt.Errorf("the downloaded build is of no use: %w", err)
	}
	if err := os.Rename(build, final); err != nil {
		return binaries{}, err
	}
	return inspect(ctx, filepath.Join(final, "bin"), acct)
}

// openCache finds a directory for builds that the server's account can reach.
func openCache(ctx context.Context, opts Options, acct account) (string, error) {
	var places []string
	if opts.cache != "" {
		places = append(places, opts.cache)
	} else {
		if dir, err := os.UserCacheDir(); err == nil {
			places = append(places, filepath.Join(dir, "pawl"))
		}
		if acct.credential != nil {
			places = append(places, "/var/cache/pawl")
		}
	}
	var reasons []error
	for _, dir := range places {
		err := os.MkdirAll(dir, 0o755)
		if err == nil {
			err = acct.reaches(ctx, dir)
		}
		if err == nil {
			return dir, nil
		}
		reasons = append(reasons, err)
	}
	if opts.cache != "" {
		return "", errors.Join(reasons...)
	}
	h, err := openHome(ctx, opts, acct)
	if err != nil {
		return "", errors.Join(append(reasons, err)...)
	}
	dir := filepath.Join(h.path, "cache")
	return dir, os.MkdirAll(dir, 0o755)
}

func removeAll(pattern string) error {
	paths, err := filepath.Glob(pattern)
	for _, p := range paths {
		err = errors.Join(err, os.RemoveAll(p))
	}
	return err
}

// openToAll lets every account read a tree and run its programs, whatever umask
// it was made with.
func openToAll(root string) error {
	return filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.Type()&fs.ModeSymlink != 0 {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		mode := info.Mode().Perm() | 0o444
		if d.IsDir() || mode&0o100 != 0 {
			mode |= 0o111
		}
		return os.Chmod(path, mode)
	})
}
