//go:build linux || darwin

package localpg

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// fakeBinaries makes an installation that can only tell a version.
func fakeBinaries(t *testing.T, home, version string) string {
	t.Helper()
	dir := filepath.Join(home, "postgres "+version, "bin")
	require.NoError(t, os.MkdirAll(dir, 0o755))
	for _, tool := range []string{"postgres", "initdb"} {
		script := fmt.Sprintf("#!/bin/sh\necho '%s (PostgreSQL) %s'\n", tool, version)
		require.NoError(t, os.WriteFile(filepath.Join(dir, tool), []byte(script), 0o755))
	}
	return dir
}

// realBinaries returns an installation that serves, as Start would find it.
func realBinaries(t *testing.T) binaries {
	t.Helper()
	acct, err := serverAccount()
	require.NoError(t, err)
	b, err := findBinaries(t.Context(), Options{}, acct)
	require.NoError(t, err)
	return b
}

func TestVersions(t *testing.T) {
	t.Parallel()
	home := testHome(t)
	acct, err := serverAccount()
	require.NoError(t, err)
	for version, want := range map[string]int{
		"15.18 (Debian 15.18-0+deb12u1)": 15,
		"18.3":                           18,
		"19beta1":                        19,
		"23.4":                           23,
	} {
		b, err := inspect(t.Context(), fakeBinaries(t, home, version), acct)
		require.NoError(t, err, version)
		require.Equal(t, want, b.version, version)
	}
	for version, want := range map[string]string{
		"14.18":  "is of version 14, older than 15",
		"9.6.24": "is of version 9, older than 15",
		"devel":  "does not tell its version",
	} {
		_, err := inspect(t.Context(), fakeBinaries(t, home, version), acct)
		require.ErrorContains(t, err, want, version)
	}
}

func TestAnOldInstallationIsPassedOver(t *testing.T) {
	t.Parallel()
	opts := testOptions(t)
	opts.bins = []string{fakeBinaries(t, opts.home, "14.18"), realBinaries(t).dir}
	s, err := Start(t.Context(), opts)
	require.NoError(t, err)
	require.NoError(t, s.Close())
}

func TestNoSourceIsOneSentence(t *testing.T) {
	t.Parallel()
	// A repository that has closed its door.
	repository := httptest.NewServer(http.NotFoundHandler())
	repository.Close()
	for name, bins := range map[string]func(home string) []string{
		"none": func(string) []string { return []string{} },
		"old":  func(home string) []string { return []string{fakeBinaries(t, home, "13.2")} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			opts := testOptions(t)
			opts.cache = filepath.Join(opts.home, "cache")
			opts.repository = repository.URL
			opts.bins = bins(opts.home)
			for _, get := range []func(context.Context, Options) (*Server, error){Start, Shared} {
				_, err := get(t.Context(), opts)
				require.ErrorIs(t, err, ErrNoServer)
				require.ErrorContains(t, err, "install PostgreSQL 15 or newer, or set PAWL_DATABASE_URL")
				require.ErrorContains(t, err, map[string]string{"none": "no server binaries in PATH", "old": "version 13"}[name])
				require.ErrorContains(t, err, "unable to connect to "+repository.URL)
				require.NotContains(t, err.Error(), "\n")
			}
			left, err := filepath.Glob(filepath.Join(opts.cache, "download-*"))
			require.NoError(t, err)
			require.Empty(t, left)
		})
	}
}

func TestTheServerOfTheEnvironment(t *testing.T) {
	t.Parallel()
	s, err := Start(t.Context(), testOptions(t))
	require.NoError(t, err)
	defer s.Close()
	home := testHome(t)
	for _, shared := range []bool{false, true} {
		c := startChild(t, childOrder{Shared: shared, Home: home}, func(cmd *exec.Cmd) {
			cmd.Env = append(cmd.Env, URLVariable+"="+s.URL())
		})
		require.Equal(t, childReport{URL: s.URL(), Version: s.Version()}, c.childReport)
		c.leave(t)
	}
	_, err = ping(t.Context(), s.URL())
	require.NoError(t, err, "it is not ours to stop")

	own := startChild(t, childOrder{Own: true, Home: home}, func(cmd *exec.Cmd) {
		cmd.Env = append(cmd.Env, URLVariable+"="+s.URL())
	})
	require.NotEqual(t, s.URL(), own.URL)
	own.leave(t)

	require.NoError(t, s.Stop(t.Context()))
	c := startChild(t, childOrder{Home: home}, func(cmd *exec.Cmd) {
		cmd.Env = append(cmd.Env, URLVariable+"="+s.URL())
	})
	require.Contains(t, c.Error, "use the server of PAWL_DATABASE_URL")
	require.Contains(t, c.Error, "refused")
}

// An ordinary user needs no home, no cache and nothing in the environment.
func TestAnUnprivilegedUserWithoutEnvironment(t *testing.T) {
	t.Parallel()
	home := testHome(t)
	program := copyProgram(t, home)
	place := filepath.Join(home, "place")
	require.NoError(t, os.Mkdir(place, 0o755))
	acct, err := serverAccount()
	require.NoError(t, err)
	require.NoError(t, acct.give(place))
	for _, shared := range []bool{false, true} {
		order := childOrder{Shared: shared, Own: true, Home: place, Linger: time.Second}
		c := startChild(t, order, func(cmd *exec.Cmd) {
			cmd.Path = program
			cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
			cmd.Dir = "/"
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: acct.credential, Setpgid: true}
		})
		require.Empty(t, c.Error)
		require.NotEqual(t, filepath.Base(filepath.Dir(c.Dir)), "pawl-postgres-0")
		_, err := ping(t.Context(), c.URL)
		require.NoError(t, err)
		c.kill(t)
	}
	requireGone(t, place)
}

// Root's temporary directory may be closed to the account of the server, and
// anybody's may be of no use at all.
func TestUselessTemporaryDirectories(t *testing.T) {
	t.Parallel()
	home := testHome(t)
	closed := filepath.Join(home, "closed")
	require.NoError(t, os.Mkdir(closed, map[bool]os.FileMode{true: 0o700, false: 0o500}[os.Geteuid() == 0]))
	for _, dir := range []string{closed, filepath.Join(home, "missing")} {
		c := startChild(t, childOrder{Own: true}, func(cmd *exec.Cmd) {
			cmd.Env = append(cmd.Env, "TMPDIR="+dir)
		})
		require.Empty(t, c.Error)
		require.False(t, strings.HasPrefix(c.Dir, home), c.Dir)
		_, err := ping(t.Context(), c.URL)
		require.NoError(t, err)
		c.leave(t)
		require.NoDirExists(t, c.Dir)
	}
}

func TestAForeignHomeIsRefused(t *testing.T) {
	t.Parallel()
	acct, err := serverAccount()
	require.NoError(t, err)
	for name, occupy := range map[string]func(t *testing.T, path string){
		"open to others": func(t *testing.T, path string) {
			require.NoError(t, os.Mkdir(path, 0o700))
			require.NoError(t, os.Chmod(path, 0o777))
		},
		"a link": func(t *testing.T, path string) {
			require.NoError(t, os.Symlink(t.TempDir(), path))
		},
		"a file": func(t *testing.T, path string) {
			require.NoError(t, os.WriteFile(path, nil, 0o600))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			opts := testOptions(t)
			occupy(t, filepath.Join(opts.home, fmt.Sprintf("pawl-postgres-%d", os.Geteuid())))
			_, err := openHome(t.Context(), opts, acct)
			require.ErrorContains(t, err, "only its owner")
		})
	}
}

func TestDownload(t *testing.T) {
	t.Parallel()
	real := realBinaries(t)
	var jars atomic.Int32
	repository := serveBuild(t, real.dir, &jars)
	opts := testOptions(t)
	opts.bins = []string{}
	opts.cache = filepath.Join(opts.home, "cache")
	opts.repository = repository

	// A download that was interrupted earlier is no obstacle and does not stay.
	require.NoError(t, os.MkdirAll(filepath.Join(opts.cache, "download-dead", "build"), 0o755))

	order := childOrder{Shared: true, Own: true, Home: opts.home, Cache: opts.cache, Bins: opts.bins,
		Repository: repository, Linger: time.Second}
	first, wait := launchChild(t, order, nil)
	s, err := Start(t.Context(), opts)
	require.NoError(t, err)
	wait()
	require.Empty(t, first.Error)
	require.EqualValues(t, 1, jars.Load(), "two processes download once")
	require.True(t, strings.HasPrefix(s.own.bin.dir, opts.cache), s.own.bin.dir)
	require.Equal(t, real.version, s.Version())
	require.NoError(t, s.Close())
	first.leave(t)

	entries, err := os.ReadDir(opts.cache)
	require.NoError(t, err)
	require.Len(t, entries, 2, "the build and the lock: %v", entries)
}

func TestADownloadThatIsOfNoUseIsNotKept(t *testing.T) {
	t.Parallel()
	opts := testOptions(t)
	opts.bins = []string{}
	opts.cache = filepath.Join(opts.home, "cache")
	opts.repository = serveBuild(t, fakeBinaries(t, opts.home, "broken"), new(atomic.Int32))
	_, err := Start(t.Context(), opts)
	require.ErrorIs(t, err, ErrNoServer)
	require.ErrorContains(t, err, "the downloaded build is of no use")
	entries, err := os.ReadDir(opts.cache)
	require.NoError(t, err)
	require.Len(t, entries, 1, "only the lock: %v", entries)
}

func TestADownloadEndsWithTheContext(t *testing.T) {
	t.Parallel()
	opts := testOptions(t)
	asked := make(chan struct{})
	release := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(asked)
		select {
		case <-r.Context().Done():
		case <-release:
		}
	}))
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(release) })
	opts.bins = []string{}
	opts.cache = filepath.Join(opts.home, "cache")
	opts.repository = server.URL
	c, _ := launchChild(t, childOrder{Own: true, HandleInt: true, Home: opts.home, Cache: opts.cache, Bins: opts.bins,
		Repository: server.URL}, nil)
	<-asked
	require.NoError(t, c.cmd.Process.Signal(os.Interrupt))
	require.Error(t, c.cmd.Wait())
	left, err := filepath.Glob(filepath.Join(opts.cache, "download-*"))
	require.NoError(t, err)
	require.Empty(t, left)
}
