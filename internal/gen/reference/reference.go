// Package reference finds the commit whose locks are frozen, by asking the git
// command.
//
// What is merged may have been deployed, so the payload versions that stand in
// the lock there may be stored in a database: they stay. What is younger may be
// rewritten. The reference is the commit that the user names, or else the merge
// base of HEAD with the default branch of the remote origin, or HEAD itself where
// there is no such remote. In the middle of a merge the other side counts as
// merged, so that what comes from the main branch stands and the branch's own
// versions give way.
//
// Git is asked in the directory of the package, which makes worktrees, submodules
// and detached heads work as they do for git.
package reference

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// UnavailableError says why there is no reference.
type UnavailableError struct {
	Reason string
	Remedy string // what to do about it; may be empty
	// Named is set where the user named a commit that is not there.
	Named bool
}

func (e *UnavailableError) Error() string {
	if e.Remedy == "" {
		return e.Reason
	}
	return e.Reason + ": " + e.Remedy
}

// Finder finds the references of one run. Its methods are for one goroutine.
type Finder struct {
	Against string // the commit that the user names; "" for the default
	commits map[string]commit
}

type commit struct {
	id  string // "" where nothing was committed yet
	err error
}

// File returns the content at the reference of the file called name in dir, nil
// where the reference has no such file, and the commit. Its error is an
// [*UnavailableError] where there is no reference.
func (f *Finder) File(ctx context.Context, dir, name string) (content []byte, id string, err error) {
	g := git{ctx, dir}
	id, err = f.commit(g)
	if err != nil || id == "" {
		return nil, "", err
	}
	// A path of git begins with "./" to be one from the directory.
	listed, err := g.run("ls-tree", "-z", id, "--", "./"+name)
	if err != nil {
		return nil, "", err
	}
	if _, blob, ok := parseEntry(strings.TrimSuffix(listed, "\x00")); ok {
		content, err = g.blob(blob)
	}
	return content, id, err
}

// Others returns the files called name that the reference has elsewhere in the
// repository of dir, by the paths that they have on disk if they are still there.
func (f *Finder) Others(ctx context.Context, dir, name string) (map[string][]byte, error) {
	g := git{ctx, dir}
	id, err := f.commit(g)
	if err != nil || id == "" {
		return nil, err
	}
	top, err := g.top()
	if err != nil {
		return nil, err
	}
	prefix, err := g.run("rev-parse", "--show-prefix")
	if err != nil {
		return nil, err
	}
	listed, err := g.run("ls-tree", "-r", "-z", "--full-tree", id)
	if err != nil {
		return nil, err
	}
	others := map[string][]byte{}
	for entry := range strings.SplitSeq(listed, "\x00") {
		file, blob, ok := parseEntry(entry)
		if !ok || path.Base(file) != name || file == strings.TrimSuffix(prefix, "\n")+name {
			continue
		}
		if others[filepath.Join(top, filepath.FromSlash(file))], err = g.blob(blob); err != nil {
			return nil, err
		}
	}
	return others, nil
}

// parseEntry reads what git lists of a file: "mode type id\tpath".
func parseEntry(entry string) (file, blob string, ok bool) {
	head, file, _ := strings.Cut(entry, "\t")
	fields := strings.Fields(head)
	if len(fields) != 3 || fields[1] != "blob" {
		return "", "", false
	}
	return file, fields[2], true
}

// commit returns the id of the reference, "" where nothing was committed yet.
func (f *Finder) commit(g git) (string, error) {
	top, err := g.top()
	if err != nil {
		return "", err
	}
	c, ok := f.commits[top]
	if !ok {
		c.id, c.err = f.find(g)
		if f.commits == nil {
			f.commits = map[string]commit{}
		}
		f.commits[top] = c
	}
	return c.id, c.err
}

func (f *Finder) find(g git) (string, error) {
	if f.Against != "" {
		id, err := g.commit(f.Against)
		if err == nil && id == "" {
			err = &UnavailableError{Reason: fmt.Sprintf("%q names no commit here", f.Against), Remedy: g.fetch(), Named: true}
		}
		return id, err
	}
	head, err := g.commit("HEAD")
	if err != nil || head == "" {
		return "", err // nothing is committed, and so nothing is frozen
	}
	branch, err := g.defaultBranch()
	if err != nil || branch == "" {
		return head, err
	}
	heads, err := g.mergeHeads()
	if err != nil {
		return "", err
	}
	base, err := g.try(append([]string{"merge-base", branch, head}, heads...)...)
	if err == nil && base == "" {
		err = &UnavailableError{Reason: fmt.Sprintf("HEAD has no commit in common with %s", strings.TrimPrefix(branch, "refs/remotes/")), Remedy: g.fetch()}
	}
	return base, err
}

// git runs the git command in a directory.
type git struct {
	ctx context.Context
	dir string
}

// redirections are variables with which git points the commands of a hook at
// its repository, which is not always that of the package.
var redirections = []string{"GIT_DIR=", "GIT_WORK_TREE=", "GIT_INDEX_FILE=", "GIT_PREFIX=", "GIT_COMMON_DIR="}

func (g git) run(args ...string) (string, error) {
	cmd := exec.CommandContext(g.ctx, "git", args...)
	cmd.Dir = g.dir
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool {
		return slices.ContainsFunc(redirections, func(name string) bool { return strings.HasPrefix(v, name) })
	})
	cmd.Env = append(cmd.Env, "LC_ALL=C", "GIT_OPTIONAL_LOCKS=0", "GIT_TERMINAL_PROMPT=0")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	switch {
	case err == nil:
		return stdout.String(), nil
	case g.ctx.Err() != nil:
		return "", g.ctx.Err()
	case errors.Is(err, exec.ErrNotFound):
		return "", &UnavailableError{Reason: "there is no git command", Remedy: "install git, which knows what was merged"}
	case strings.Contains(stderr.String(), "not a git repository"):
		return "", &UnavailableError{Reason: g.dir + " is in no git repository"}
	}
	exit, _ := errors.AsType[*exec.ExitError](err)
	said := strings.TrimSpace(stderr.String())
	return "", &failure{UnavailableError{Reason: strings.TrimSuffix(fmt.Sprintf("git %s: %v: %s", args[0], err, said), ": ")}, said == "" && exit != nil && exit.ExitCode() == 1}
}

// failure is an unavailable reference whose reason git gave.
type failure struct {
	UnavailableError
	no bool // git answered no, without a word
}

func (f *failure) Unwrap() error { return &f.UnavailableError }

// try is run for a question that git may answer with no: then the answer is "".
func (g git) try(args ...string) (string, error) {
	out, err := g.run(args...)
	if f, ok := errors.AsType[*failure](err); ok && f.no {
		return "", nil
	}
	return strings.TrimSpace(out), err
}

func (g git) blob(id string) ([]byte, error) {
	text, err := g.run("cat-file", "blob", id)
	return []byte(text), err
}

// top returns the directory of the work tree.
func (g git) top() (string, error) {
	top, err := g.run("rev-parse", "--show-toplevel")
	return strings.TrimSpace(top), err
}

// commit returns the id of the commit that name names, or "".
func (g git) commit(name string) (string, error) {
	return g.try("rev-parse", "--verify", "--quiet", "--end-of-options", name+"^{commit}")
}

// defaultBranch returns the remote-tracking branch that the user's work is merged
// into, or "" without a remote.
func (g git) defaultBranch() (string, error) {
	name, err := g.try("symbolic-ref", "--quiet", "refs/remotes/origin/HEAD")
	if err != nil {
		return "", err
	}
	for _, branch := range []string{name, "refs/remotes/origin/main", "refs/remotes/origin/master"} {
		if branch == "" {
			continue
		}
		if id, err := g.commit(branch); err != nil || id != "" {
			return branch, err
		}
	}
	// A clone of one branch, as continuous integration likes to make, knows origin
	// but not what it merges into. A remote that nothing came from or went to yet
	// has merged nothing.
	refs, err := g.try("for-each-ref", "--count=1", "refs/remotes/origin")
	if err != nil || refs == "" && !g.shallow() {
		return "", err
	}
	e := &UnavailableError{Reason: "the default branch of origin is not known here", Remedy: "git remote set-head origin --auto, after git fetch origin"}
	if g.shallow() {
		e.Remedy = unshallow
	}
	return "", e
}

// mergeHeads returns what a merge in progress merges into HEAD.
func (g git) mergeHeads() ([]string, error) {
	file, err := g.run("rev-parse", "--git-path", "MERGE_HEAD")
	if err != nil {
		return nil, err
	}
	file = strings.TrimSpace(file)
	if !filepath.IsAbs(file) {
		file = filepath.Join(g.dir, file)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, nil // no merge is in progress
	}
	return strings.Fields(string(text)), nil
}

func (g git) shallow() bool {
	answer, err := g.run("rev-parse", "--is-shallow-repository")
	return err == nil && strings.TrimSpace(answer) == "true"
}

const unshallow = "this clone is shallow, fetch with: git fetch --unshallow origin '+refs/heads/*:refs/remotes/origin/*'"

// fetch says how to get a commit that is not there.
func (g git) fetch() string {
	if g.shallow() {
		return unshallow
	}
	return "name another with -against"
}
