//go:build linux || darwin

package localpg

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

const superuser = "postgres"

// runLockTimeout is how long the lock of a server may take to become free.
const runLockTimeout = 5 * time.Second

const (
	runLockName = "run.lock"
	pidFile     = "data/postmaster.pid"
)

// cluster is the directory of one server and the processes that run on it:
//
//	data/       what PostgreSQL calls the data directory
//	log         what the server and initdb print
//	info.json   how to connect, once the server is ready
//	users       the FIFO of the guard
//	guard.lock  locked by the guard
//	run.lock    locked by the server: its processes inherit the open file
type cluster struct {
	dir      string
	bin      binaries
	account  account
	settings map[string]string
	password string
	port     int
}

func (c *cluster) file(name string) string { return filepath.Join(c.dir, name) }

func (c *cluster) url() string {
	return fmt.Sprintf("postgres://%s:%s@127.0.0.1:%d/postgres?sslmode=disable", superuser, c.password, c.port)
}

// tool prepares a program of the installation that writes to the log. It keeps
// lock open for as long as the program and its children live.
func (c *cluster) tool(ctx context.Context, log, lock *os.File, argv ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	c.account.apply(cmd)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.ExtraFiles = []*os.File{lock}
	return cmd
}

// runLock takes the lock of the server, which is free when no process of it is
// left. That takes a moment after the last one has ended: a child that this
// process is forking meanwhile, for something else, has the lock too until it
// becomes another program.
func (c *cluster) runLock() (*os.File, error) {
	ctx, cancel := context.WithTimeout(context.Background(), runLockTimeout)
	defer cancel()
	lock, err := waitLock(ctx, c.file(runLockName))
	if ctx.Err() != nil {
		return nil, errors.New("the server runs already")
	}
	return lock, err
}

// create makes the data directory.
func (c *cluster) create(ctx context.Context) error {
	log, lock, err := c.openFiles()
	if err != nil {
		return err
	}
	defer log.Close()
	defer lock.Close()

	c.password = rand.Text()
	data, passwordFile := c.file("data"), c.file("password")
	if err := errors.Join(
		os.Mkdir(data, 0o700),
		c.account.give(data),
		os.WriteFile(passwordFile, []byte(c.password+"\n"), 0o600),
		c.account.give(passwordFile),
	); err != nil {
		return err
	}
	cmd := c.tool(ctx, log, lock, c.bin.path("initdb"), "-D", data, "-U", superuser, "-A", "scram-sha-256",
		"--pwfile", passwordFile, "-E", "UTF8", "--locale", "C", "--no-sync", "--no-instructions")
	if err := cmd.Run(); err != nil {
		return c.failed(fmt.Errorf("initdb: %w", errors.Join(context.Cause(ctx), err)))
	}
	return os.Remove(passwordFile)
}

func (c *cluster) openFiles() (log, lock *os.File, err error) {
	if lock, err = c.runLock(); err != nil {
		return nil, nil, err
	}
	log, err = os.OpenFile(c.file("log"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, nil, errors.Join(err, lock.Close())
	}
	return log, lock, nil
}

// errPortTaken says that the port was taken between choosing and binding it.
var errPortTaken = errors.New("the port is taken")

// start launches the server on a free port and waits until it is ready.
func (c *cluster) start(ctx context.Context, ports []int) error {
	const attempts = 10
	var err error
	for i := range attempts {
		if i < len(ports) {
			c.port = ports[i]
		} else if c.port, err = freePort(); err != nil {
			return err
		}
		if err = c.launch(ctx); !errors.Is(err, errPortTaken) {
			return err
		}
	}
	return err
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("choose a port: %w", err)
	}
	return l.Addr().(*net.TCPAddr).Port, l.Close()
}

// launch starts the server on the chosen port and waits until it is ready.
func (c *cluster) launch(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout,
		fmt.Errorf("not ready after %v", startTimeout))
	defer cancel()
	log, lock, err := c.openFiles()
	if err != nil {
		return err
	}
	defer log.Close()
	from, err := log.Seek(0, io.SeekEnd)
	if err != nil {
		return errors.Join(err, lock.Close())
	}
	// Having the lock means that no process of the server is left. PostgreSQL
	// would not believe it of a crashed one that nobody has reaped yet.
	if err := os.Remove(c.file(pidFile)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return errors.Join(err, lock.Close())
	}
	argv := []string{c.bin.path("postgres"), "-D", c.file("data"), "-p", strconv.Itoa(c.port)}
	for _, name := range slices.Sorted(maps.Keys(c.settings)) {
		argv = append(argv, "-c", name+"="+c.settings[name])
	}
	// The shell leaves the server in the background and ends, so the server is
	// nobody's child: it can outlive the process that happened to start it.
	cmd := c.tool(ctx, log, lock, append([]string{shell, "-c", `"$@" &`, "sh"}, argv...)...)
	runErr := cmd.Run()
	// From here the lock is the server's.
	if err := errors.Join(runErr, lock.Close()); err != nil {
		return c.failed(err)
	}
	for {
		running, err := locked(c.file(runLockName))
		if err != nil {
			return err
		}
		switch {
		case !running && c.bindFailed(from):
			return c.failed(fmt.Errorf("%w: %d", errPortTaken, c.port))
		case !running:
			return c.failed(errors.New("the server has ended"))
		case c.ready():
			// The connection proves that the port is this server's: no other
			// knows the password.
			if c.bin.version, err = ping(ctx, c.url()); err != nil {
				return c.failed(err)
			}
			return nil
		}
		if err := pause(ctx, pollInterval); err != nil {
			return c.failed(err)
		}
	}
}

// ready reports whether the server says, in the last line of its pid file, that
// it accepts connections.
func (c *cluster) ready() bool {
	text, err := os.ReadFile(c.file(pidFile))
	lines := strings.Split(string(text), "\n")
	return err == nil && len(lines) > 7 && strings.TrimSpace(lines[7]) == "ready"
}

// bindFailed reports whether the server, whose log starts at the offset from,
// ended because it could not get its port.
func (c *cluster) bindFailed(from int64) bool {
	text, err := os.ReadFile(c.file("log"))
	return err == nil && from <= int64(len(text)) && bytes.Contains(text[from:], []byte("could not bind"))
}

func (c *cluster) failed(err error) error {
	return &StartError{Bin: c.bin.dir, Log: c.logTail(), Err: err}
}

// logTail returns the last lines of the log.
func (c *cluster) logTail() string {
	const lines = 20
	text, err := os.ReadFile(c.file("log"))
	if err != nil {
		return ""
	}
	all := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// signal sends a signal, INT for example, to the server and waits until none of its processes is
// left. It does nothing when the server does not run.
func (c *cluster) signal(ctx context.Context, sig string) error {
	for sent := false; ; {
		running, err := locked(c.file(runLockName))
		if err != nil || !running {
			return err
		}
		if !sent {
			// Without the file the server is about to end by itself.
			pid, err := c.pid()
			if err == nil {
				sent = true
				err = c.account.kill(ctx, pid, sig)
			}
			if err != nil && !errors.Is(err, os.ErrNotExist) {
				return err
			}
		}
		if err := pause(ctx, pollInterval); err != nil {
			return fmt.Errorf("wait for the end of the server: %w", err)
		}
	}
}

func (c *cluster) pid() (int, error) {
	text, err := os.ReadFile(c.file(pidFile))
	if err != nil {
		return 0, err
	}
	first, _, _ := strings.Cut(string(text), "\n")
	pid, err := strconv.Atoi(strings.TrimSpace(first))
	if err != nil || pid <= 1 {
		return 0, fmt.Errorf("no process id in postmaster.pid: %q", first)
	}
	return pid, nil
}

// gone waits until the guard has removed the directory.
func (c *cluster) gone(ctx context.Context) error {
	for {
		if _, err := os.Lstat(c.dir); errors.Is(err, os.ErrNotExist) {
			return nil
		}
		guarded, err := locked(c.file(guardLockName))
		if err != nil {
			return err
		}
		if !guarded {
			return destroy(ctx, c.dir)
		}
		if err := pause(ctx, pollInterval); err != nil {
			return err
		}
	}
}

const closeTimeout = 20 * time.Second
