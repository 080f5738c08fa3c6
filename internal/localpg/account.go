//go:build linux || darwin

package localpg

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// account is the user that the server runs as. Its zero value is the caller.
type account struct {
	name       string // "" for the caller
	credential *syscall.Credential
}

// serverAccount returns the caller's own account, except for root: PostgreSQL
// refuses to run as root, so root's server runs as an account without rights.
// The account postgres comes after nobody, because on a machine with a real
// database it may read that database's files.
func serverAccount() (account, error) {
	if os.Geteuid() != 0 {
		return account{}, nil
	}
	for _, name := range []string{"nobody", "postgres", "_postgres", "daemon"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, uidErr := parseID(u.Uid)
		gid, gidErr := parseID(u.Gid)
		if errors.Join(uidErr, gidErr) != nil || uid == 0 {
			continue
		}
		return account{name: name, credential: &syscall.Credential{Uid: uid, Gid: gid}}, nil
	}
	return account{}, errors.New("PostgreSQL does not run as root, and there is no account nobody or postgres to run it as")
}

// parseID accepts negative numbers too, because nobody is -2 on some systems.
func parseID(s string) (uint32, error) {
	n, err := strconv.ParseInt(s, 10, 64)
	return uint32(n), err
}

// apply makes cmd run as the account, in a session of its own and away from the
// caller's working directory, which the account may not be allowed to see.
func (a account) apply(cmd *exec.Cmd) {
	cmd.Dir = "/"
	cmd.Env = a.environ()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Credential: a.credential}
}

// sharedVariables are what programs of another account get to see of the
// caller's environment: how to find files, and none of its secrets.
var sharedVariables = []string{
	"PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "DYLD_FALLBACK_LIBRARY_PATH", "TZDIR",
}

// environ returns the environment of the programs of PostgreSQL. Variables such
// as PGDATA and PGOPTIONS are left out: they belong to the user's other servers.
func (a account) environ() []string {
	env := slices.DeleteFunc(os.Environ(), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		if a.credential != nil {
			return !slices.Contains(sharedVariables, name)
		}
		return strings.HasPrefix(name, "PG") || strings.HasPrefix(name, "LC_") || strings.HasPrefix(name, "LANG")
	})
	return append(env, "LC_ALL=C")
}

// kill sends a signal to a process of the account. It does so as the account,
// which can write to the file that the process id was read from, and must not be
// able to name any process of root.
func (a account) kill(ctx context.Context, pid int, sig string) error {
	cmd := exec.CommandContext(ctx, shell, "-c", `kill -s "$1" "$2"`, "sh", sig, strconv.Itoa(pid))
	a.apply(cmd)
	out, err := cmd.CombinedOutput()
	if err != nil && syscall.Kill(pid, 0) == nil {
		return fmt.Errorf("send %s to the server: %w: %s", sig, err, oneLine(string(out)))
	}
	return nil
}

// give makes the account the owner of a file.
func (a account) give(path string) error {
	if a.credential == nil {
		return nil
	}
	return os.Chown(path, int(a.credential.Uid), int(a.credential.Gid))
}

// reaches reports whether the account can go into a directory. It lets the
// kernel decide, which knows about access lists and mounts.
func (a account) reaches(ctx context.Context, dir string) error {
	if a.credential == nil {
		return nil
	}
	cmd := exec.CommandContext(ctx, shell, "-c", `cd "$1"`, "sh", dir)
	a.apply(cmd)
	if err := cmd.Run(); ctx.Err() != nil {
		return context.Cause(ctx) // no word about the directory
	} else if err != nil {
		return fmt.Errorf("the account %s cannot reach %s: %w", a.name, dir, err)
	}
	return nil
}
