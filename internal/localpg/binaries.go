//go:build linux || darwin

package localpg

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// binaryPatterns are the directories of server binaries that are usually not in
// PATH: of Debian, of Homebrew on both kinds of Macs, of the packages for Red
// Hat and SUSE, of Postgres.app, the EDB installer, MacPorts and FreeBSD-style
// prefixes.
var binaryPatterns = []string{
	"/usr/lib/postgresql/*/bin",
	"/usr/lib/postgresql*/bin",
	"/usr/libexec/postgresql*",
	"/usr/pgsql-*/bin",
	"/opt/homebrew/opt/postgresql*/bin",
	"/usr/local/opt/postgresql*/bin",
	"/home/linuxbrew/.linuxbrew/opt/postgresql*/bin",
	"/Applications/Postgres.app/Contents/Versions/*/bin",
	"/Library/PostgreSQL/*/bin",
	"/opt/local/lib/postgresql*/bin",
	"/usr/local/pgsql/bin",
}

// binaries is an installation that can run a server.
type binaries struct {
	dir     string
	version int
}

func (b binaries) path(tool string) string { return filepath.Join(b.dir, tool) }

// installed returns the directories that hold server binaries: those of PATH in
// its order, because their order is the user's choice, then the usual places
// with the newest version first.
func installed(opts Options) []string {
	var dirs []string
	add := func(dir string) {
		// Links to the same installation count once.
		if target, err := filepath.EvalSymlinks(filepath.Join(dir, "postgres")); err == nil && hasServer(filepath.Dir(target)) {
			dir = filepath.Dir(target)
		}
		if hasServer(dir) && !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
	}
	if opts.bins != nil {
		for _, dir := range opts.bins {
			add(dir)
		}
		return dirs
	}
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		// As in os/exec, the current directory is no place to find programs.
		if filepath.IsAbs(dir) {
			add(filepath.Clean(dir))
		}
	}
	var usual []string
	for _, pattern := range binaryPatterns {
		found, err := filepath.Glob(pattern)
		if err == nil {
			usual = append(usual, found...)
		}
	}
	slices.SortStableFunc(usual, func(a, b string) int {
		return cmp.Compare(majorInPath(b), majorInPath(a))
	})
	for _, dir := range usual {
		add(dir)
	}
	return dirs
}

// hasServer reports whether a directory has the programs that localpg runs.
func hasServer(dir string) bool {
	for _, tool := range []string{"postgres", "initdb"} {
		if info, err := os.Stat(filepath.Join(dir, tool)); err != nil || info.IsDir() {
			return false
		}
	}
	return true
}

var digits = regexp.MustCompile(`\d+`)

// majorInPath guesses the version from the last number of a path, 0 without one.
func majorInPath(path string) int {
	all := digits.FindAllString(path, -1)
	if len(all) == 0 {
		return 0
	}
	n, err := strconv.Atoi(all[len(all)-1])
	if err != nil {
		return 0
	}
	return n
}

var versionOutput = regexp.MustCompile(`PostgreSQL\)? (\d+)`)

// inspect runs the binaries of a directory as the account to learn their
// version, which also tells that the account can run them.
func inspect(ctx context.Context, dir string, acct account) (binaries, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	b := binaries{dir: dir}
	for _, tool := range []string{"initdb", "postgres"} {
		cmd := exec.CommandContext(ctx, b.path(tool), "--version")
		acct.apply(cmd)
		// A wrapper may leave children that keep the output open.
		cmd.WaitDelay = time.Second
		out, err := cmd.CombinedOutput()
		text := strings.TrimSpace(string(out))
		if err != nil {
			return b, fmt.Errorf("%s does not run: %w", b.path(tool), errors.Join(err, outputError(text)))
		}
		m := versionOutput.FindStringSubmatch(text)
		if m == nil {
			return b, fmt.Errorf("%s does not tell its version: %q", b.path(tool), text)
		}
		if b.version, err = strconv.Atoi(m[1]); err != nil {
			return b, fmt.Errorf("%s does not tell its version: %w", b.path(tool), err)
		}
		if b.version < oldestMajor {
			return b, fmt.Errorf("%s is of version %d, older than %d", b.path(tool), b.version, oldestMajor)
		}
	}
	return b, nil
}

func outputError(text string) error {
	if text == "" {
		return nil
	}
	return errors.New(text)
}

// findBinaries returns the first installation that serves.
func findBinaries(ctx context.Context, opts Options, acct account) (binaries, error) {
	var none NoServerError
	dirs := installed(opts)
	for _, dir := range dirs {
		b, err := inspect(ctx, dir, acct)
		if err == nil {
			return b, nil
		}
		if ctx.Err() != nil {
			return binaries{}, context.Cause(ctx)
		}
		none.Reasons = append(none.Reasons, err)
	}
	if len(dirs) == 0 {
		none.Reasons = append(none.Reasons, errors.New("no server binaries in PATH or the usual places"))
	}
	b, err := download(ctx, opts, acct)
	if err != nil {
		if ctx.Err() != nil {
			return binaries{}, context.Cause(ctx)
		}
		none.Reasons = append(none.Reasons, err)
		return binaries{}, &none
	}
	return b, nil
}
