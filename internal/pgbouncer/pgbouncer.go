//go:build linux || darwin

// Package pgbouncer starts a PgBouncer for a test: in transaction mode, on the
// loopback interface, with few connections to the server.
//
// Only tests import this package, because it imports testing.
package pgbouncer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

const (
	startTimeout = 10 * time.Second
	// portAttempts is for a port that is taken between choosing and binding it.
	portAttempts = 5
)

// Pooler is a PgBouncer that runs until the end of its test.
type Pooler struct {
	Host string
	Port uint16
	// Major and Minor are its version.
	Major, Minor int
}

// Start starts a PgBouncer in front of a server, for each of its databases, with
// two connections each. The configuration says how to reach the server; its user
// and password are the only ones that the pooler lets in. Settings are added to
// the section [pgbouncer] of its configuration. The test fails where no
// PgBouncer is installed.
func Start(t testing.TB, server *pgx.ConnConfig, settings map[string]string) *Pooler {
	t.Helper()
	program := find(t)
	p := &Pooler{Host: "127.0.0.1"}
	p.readVersion(t, program)
	var err error
	for range portAttempts {
		if err = p.start(t, program, server, settings); err == nil {
			return p
		}
	}
	t.Fatalf("pgbouncer: %v", err)
	return nil
}

// Through makes a configuration connect through the pooler, which has no TLS.
func (p *Pooler) Through(config *pgx.ConnConfig) {
	config.Host, config.Port, config.Fallbacks, config.TLSConfig = p.Host, p.Port, nil, nil
}

// find looks where packages put the program: often a place that is in the PATH
// of root alone.
func find(t testing.TB) string {
	t.Helper()
	if program, err := exec.LookPath("pgbouncer"); err == nil {
		return program
	}
	for _, dir := range []string{"/usr/sbin", "/usr/local/sbin", "/usr/bin", "/usr/local/bin", "/opt/homebrew/bin", "/opt/local/bin"} {
		program := filepath.Join(dir, "pgbouncer")
		if info, err := os.Stat(program); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return program
		}
	}
	t.Fatal("pgbouncer: the program is not installed: apt-get install pgbouncer, dnf install pgbouncer or brew install pgbouncer")
	return ""
}

var versionText = regexp.MustCompile(`(?m)^PgBouncer (\d+)\.(\d+)`)

func (p *Pooler) readVersion(t testing.TB, program string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), program, "--version").Output()
	if err != nil {
		t.Fatalf("pgbouncer: ask %s for its version: %v", program, err)
	}
	m := versionText.FindSubmatch(out)
	if m == nil {
		t.Fatalf("pgbouncer: %s does not tell its version: %q", program, out)
	}
	p.Major, _ = strconv.Atoi(string(m[1]))
	p.Minor, _ = strconv.Atoi(string(m[2]))
}

// guard runs the pooler, and stops it and removes its directory when its own
// input ends, which it does however the test ends.
const guard = `dir=$1; shift
"$@" & pid=$!
read -r line
kill -TERM "$pid"
wait "$pid"
rm -rf "$dir"`

func (p *Pooler) start(t testing.TB, program string, server *pgx.ConnConfig, settings map[string]string) (err error) {
	account, err := unprivileged()
	if err != nil {
		return err
	}
	if p.Port, err = freePort(); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "pawl-pgbouncer-")
	if err != nil {
		return err
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) }) // where nothing got to run
	file := filepath.Join(dir, "pgbouncer.ini")
	users := filepath.Join(dir, "users.txt")
	if err := errors.Join(
		os.WriteFile(file, []byte(p.configuration(server, users, settings)), 0o600),
		os.WriteFile(users, []byte(quoted(server.User)+" "+quoted(server.Password)+"\n"), 0o600),
	); err != nil {
		return err
	}
	if account != nil {
		for _, path := range []string{dir, file, users} {
			if err := os.Chown(path, int(account.Uid), int(account.Gid)); err != nil {
				return err
			}
		}
	}
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command("/bin/sh", "-c", guard, "sh", dir, program, "-q", file)
	cmd.Dir, cmd.Stdout, cmd.Stderr = "/", log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: account}
	input, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	t.Cleanup(func() {
		_ = input.Close()
		_ = cmd.Wait() // the status is that of a program that was told to end
	})
	if err := p.ready(t.Context(), server); err != nil {
		text, _ := os.ReadFile(log.Name())
		return fmt.Errorf("%w; it says:\n%s", err, text)
	}
	return nil
}

func (p *Pooler) configuration(server *pgx.ConnConfig, users string, settings map[string]string) string {
	all := map[string]string{
		"listen_addr":       p.Host,
		"listen_port":       strconv.Itoa(int(p.Port)),
		"unix_socket_dir":   "",
		"auth_type":         "scram-sha-256",
		"auth_file":         users,
		"pool_mode":         "transaction",
		"default_pool_size": "2",
		"max_client_conn":   "2000",
		// Databases of tests come and go.
		"server_idle_timeout": "5",
	}
	maps.Copy(all, settings)
	var b strings.Builder
	fmt.Fprintf(&b, "[databases]\n* = host=%s port=%d\n\n[pgbouncer]\n", server.Host, server.Port)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		fmt.Fprintf(&b, "%s = %s\n", name, all[name])
	}
	return b.String()
}

func quoted(s string) string { return `"` + strings.ReplaceAll(s, `"`, `""`) + `"` }

// ready waits until a statement gets through.
func (p *Pooler) ready(ctx context.Context, server *pgx.ConnConfig) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	config := server.Config.Copy()
	config.Host, config.Port, config.Fallbacks, config.TLSConfig = p.Host, p.Port, nil, nil
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := func() error {
			conn, err := pgconn.ConnectConfig(ctx, config)
			if err != nil {
				return err
			}
			_, err = conn.Exec(ctx, "SELECT 1").ReadAll()
			return errors.Join(err, conn.Close(ctx))
		}()
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("it does not get ready: %w", err)
		}
	}
}

func freePort() (uint16, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	return uint16(l.Addr().(*net.TCPAddr).Port), l.Close()
}

// unprivileged returns an account for the pooler, which refuses to be root; nil
// for the caller's own.
func unprivileged() (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"nobody", "postgres", "daemon"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, uidErr := strconv.ParseInt(u.Uid, 10, 64)
		gid, gidErr := strconv.ParseInt(u.Gid, 10, 64)
		if errors.Join(uidErr, gidErr) == nil && uid != 0 {
			return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
		}
	}
	return nil, errors.New("it does not run as root, and there is no account nobody to run it as")
}
