package reference

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// repo is a repository with a package in p, and a remote that is a bare one.
type repo struct {
	t   *testing.T
	dir string
}

// command is a git command with an identity of its own, since the machine may
// have none.
func (r repo) command(args ...string) *exec.Cmd {
	cmd := exec.CommandContext(r.t.Context(), "git", args...)
	cmd.Dir = r.dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL="+os.DevNull,
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=c", "GIT_COMMITTER_EMAIL=c@example.com")
	return cmd
}

func (r repo) git(args ...string) string {
	r.t.Helper()
	out, err := r.command(args...).CombinedOutput()
	require.NoError(r.t, err, "git %s: %s", strings.Join(args, " "), out)
	return strings.TrimSpace(string(out))
}

func (r repo) write(content string) {
	r.t.Helper()
	require.NoError(r.t, os.MkdirAll(filepath.Join(r.dir, "p"), 0o777))
	require.NoError(r.t, os.WriteFile(filepath.Join(r.dir, "p", "lock"), []byte(content), 0o666))
}

func (r repo) commit(content string) string {
	r.t.Helper()
	r.write(content)
	r.git("add", ".")
	r.git("commit", "-q", "-m", content)
	return r.git("rev-parse", "HEAD")
}

func (r repo) file(against string) (string, error) {
	r.t.Helper()
	content, _, err := (&Finder{Against: against}).File(r.t.Context(), filepath.Join(r.dir, "p"), "lock")
	return string(content), err
}

func (r repo) requires(want, against string) {
	r.t.Helper()
	got, err := r.file(against)
	require.NoError(r.t, err)
	require.Equal(r.t, want, got)
}

func (r repo) unavailable(want, against string) {
	r.t.Helper()
	_, err := r.file(against)
	var unavailable *UnavailableError
	require.ErrorAs(r.t, err, &unavailable)
	require.ErrorContains(r.t, err, want)
	require.Equal(r.t, against != "", unavailable.Named)
}

func newRepo(t *testing.T) repo {
	r := repo{t, filepath.Join(t.TempDir(), "repo")}
	require.NoError(t, os.Mkdir(r.dir, 0o777))
	r.git("init", "-q", "-b", "main")
	return r
}

// withOrigin has "main" in the lock of origin's main, and "branch" at HEAD.
func withOrigin(t *testing.T) repo {
	r := newRepo(t)
	r.commit("main")
	r.git("init", "-q", "--bare", "-b", "main", "../origin.git")
	r.git("remote", "add", "origin", "../origin.git")
	r.git("push", "-q", "origin", "main")
	r.git("checkout", "-q", "-b", "branch")
	r.commit("branch")
	return r
}

func TestWithoutRemote(t *testing.T) {
	t.Parallel()
	r := newRepo(t)
	r.write("on disk")
	r.requires("", "") // nothing is committed
	r.commit("first")
	r.write("on disk")
	r.requires("first", "")
	r.git("checkout", "-q", "--detach")
	r.requires("first", "")
	second := r.commit("second")
	r.requires("second", "")
	r.requires("first", "HEAD^")
	r.requires("first", "main")
	r.requires("second", second[:10])
	r.unavailable(`"nowhere" names no commit here: name another with -against`, "nowhere")
	r.unavailable(`"--all" names no commit here`, "--all")

	// A package that is not committed, and one that was elsewhere.
	require.NoError(t, os.Rename(filepath.Join(r.dir, "p"), filepath.Join(r.dir, "q")))
	r.git("add", ".")
	r.git("commit", "-q", "-m", "moved")
	r.write("on disk")
	r.requires("", "")
	r.requires("second", second)
	others, err := (&Finder{Against: second}).Others(t.Context(), filepath.Join(r.dir, "q"), "lock")
	require.NoError(t, err)
	require.Equal(t, map[string][]byte{filepath.Join(r.git("rev-parse", "--show-toplevel"), "p/lock"): []byte("second")}, others)
	others, err = (&Finder{Against: second}).Others(t.Context(), filepath.Join(r.dir, "p"), "lock")
	require.NoError(t, err)
	require.Empty(t, others, "its own")
}

func TestWithoutGit(t *testing.T) {
	t.Parallel()
	r := repo{t, t.TempDir()}
	r.write("on disk")
	r.unavailable("is in no git repository", "")
	r.git("init", "-q", "-b", "main")
	require.NoError(t, os.WriteFile(filepath.Join(r.dir, ".git", "config"), []byte("no config"), 0o666))
	r.unavailable("git rev-parse: exit status 128: fatal: bad config", "")
}

func TestWithoutGitCommand(t *testing.T) {
	r := newRepo(t)
	r.write("on disk")
	t.Setenv("PATH", t.TempDir())
	r.unavailable("there is no git command: install git", "")
}

func TestMergeBase(t *testing.T) {
	t.Parallel()
	r := withOrigin(t)
	r.requires("main", "")
	r.requires("branch", "HEAD")

	// Origin goes on; the branch does not know it yet.
	r.git("checkout", "-q", "main")
	r.commit("later")
	r.git("push", "-q", "origin", "main")
	r.git("checkout", "-q", "branch")
	r.requires("main", "")

	// In the middle of a merge the other side counts, and after it.
	require.Error(t, r.command("merge", "-q", "origin/main").Run(), "a conflict was expected")
	require.FileExists(t, filepath.Join(r.dir, ".git", "MERGE_HEAD"))
	r.requires("later", "")
	r.commit("merged")
	r.requires("later", "")

	tree := repo{t, filepath.Join(r.dir, "../tree")}
	r.git("worktree", "add", "-q", "--detach", tree.dir, "HEAD")
	tree.requires("later", "")
	tree.requires("merged", "HEAD")
}

// What git sets for its hooks does not lead astray.
func TestInsideAHook(t *testing.T) {
	r := withOrigin(t)
	t.Setenv("GIT_DIR", ".git")
	t.Setenv("GIT_INDEX_FILE", ".git/index")
	r.requires("main", "")
}

func TestDefaultBranch(t *testing.T) {
	t.Parallel()
	r := withOrigin(t)
	// Of any name, once it is known.
	r.git("update-ref", "refs/remotes/origin/trunk", "main")
	r.git("update-ref", "-d", "refs/remotes/origin/main")
	r.unavailable("the default branch of origin is not known here: git remote set-head origin --auto", "")
	r.git("remote", "set-head", "origin", "trunk")
	r.requires("main", "")

	// Nothing was ever merged into an empty remote.
	empty := newRepo(t)
	empty.commit("first")
	empty.git("remote", "add", "origin", "../nowhere.git")
	empty.requires("first", "")

	// Histories without a common commit.
	r.git("checkout", "-q", "--orphan", "other")
	r.commit("other")
	r.unavailable("HEAD has no commit in common with origin/trunk: name another with -against", "")
}

func TestShallow(t *testing.T) {
	t.Parallel()
	r := withOrigin(t)
	r.git("push", "-q", "origin", "branch")
	url := "file://" + filepath.Join(r.dir, "../origin.git")
	clone := func(args ...string) repo {
		dir := filepath.Join(t.TempDir(), "clone")
		r.git(append(append([]string{"clone", "-q"}, args...), url, dir)...)
		return repo{t, dir}
	}
	// As continuous integration makes it: the commit alone.
	alone := clone("--depth=1", "--branch=branch")
	alone.unavailable("git fetch --unshallow origin", "")
	alone.git("fetch", "-q", "--unshallow", "origin", "+refs/heads/*:refs/remotes/origin/*")
	alone.requires("main", "")

	// Both tips, but not what they have in common.
	r.git("checkout", "-q", "main")
	r.commit("later")
	r.git("push", "-q", "origin", "main")
	tips := clone("--depth=1", "--no-single-branch", "--branch=branch")
	tips.unavailable("HEAD has no commit in common with origin/main: this clone is shallow, fetch with: git fetch --unshallow", "")
	tips.unavailable("names no commit here: this clone is shallow", "HEAD~1")

	// The default branch itself needs no history.
	clone("--depth=1").requires("later", "")
}

func TestCancelled(t *testing.T) {
	t.Parallel()
	r := newRepo(t)
	r.commit("first")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, _, err := (&Finder{}).File(ctx, filepath.Join(r.dir, "p"), "lock")
	require.ErrorIs(t, err, context.Canceled)
}
