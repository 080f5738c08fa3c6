//go:build linux || darwin

package localpg

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	_ "embed"
)

// guardScript is the guard of one server. It reads the FIFO from descriptor 3.
//
//go:embed guard.sh
var guardScript string

const shell = "/bin/sh"

const (
	fifoName      = "users"      // the FIFO whose writers are the users of the server
	guardLockName = "guard.lock" // locked while the guard lives
)

// hold is this process's share in a server: the writing end of the FIFO. The
// kernel closes it when the process dies.
type hold struct{ fifo *os.File }

func (h hold) release() error { return h.fifo.Close() }

// startGuard makes the FIFO of a new server directory, takes the first hold, and
// starts the guard.
func startGuard(dir string, linger time.Duration) (_ hold, err error) {
	fifo := filepath.Join(dir, fifoName)
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		return hold{}, fmt.Errorf("make %s: %w", fifo, err)
	}
	// The reading end is opened first and without waiting: nobody writes yet.
	reader, err := openFIFOFile(fifo, syscall.O_RDONLY)
	if err != nil {
		return hold{}, err
	}
	defer func() { err = errors.Join(err, reader.Close()) }()
	writer, err := openFIFOFile(fifo, syscall.O_WRONLY)
	if err != nil {
		return hold{}, err
	}
	lock, err := tryLock(filepath.Join(dir, guardLockName))
	if err == nil && lock == nil {
		err = fmt.Errorf("%s has a guard already", dir)
	}
	if err != nil {
		return hold{}, errors.Join(err, writer.Close())
	}
	defer func() { err = errors.Join(err, lock.Close()) }()

	// The shell that is started here leaves the guard in the background and
	// ends, so the guard is nobody's child and leaves no zombie with us.
	cmd := guardCommand(context.Background(), `(eval "$PAWL_GUARD") &`, dir, linger)
	cmd.ExtraFiles = []*os.File{reader, lock}
	if err := cmd.Run(); err != nil {
		return hold{}, errors.Join(fmt.Errorf("start the guard of %s: %w", dir, err), writer.Close())
	}
	return hold{writer}, nil
}

// guardCommand prepares a shell that evaluates the guard's script, which the
// environment carries to keep it out of process listings. The directories are
// those where the programs of the script are, should PATH lack them.
func guardCommand(ctx context.Context, command, dir string, linger time.Duration) *exec.Cmd {
	cmd := exec.CommandContext(ctx, shell, "-c", command, "pawl-postgres-guard", dir,
		strconv.Itoa(int(linger/time.Second)))
	cmd.Dir = "/"
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH") + ":/usr/bin:/bin:/usr/sbin:/sbin",
		"LC_ALL=C",
		"PAWL_GUARD=" + guardScript,
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return cmd
}

// join takes a hold on a server that has a guard. It returns false when the
// guard is gone or about to stop the server.
func join(dir string) (hold, bool, error) {
	writer, err := openFIFOFile(filepath.Join(dir, fifoName), syscall.O_WRONLY)
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ENXIO) {
		return hold{}, false, nil
	}
	if err != nil {
		return hold{}, false, err
	}
	// The line tells a guard that counts down that somebody has come, even if
	// they leave before it looks.
	if _, err := writer.Write([]byte("joined\n")); err != nil {
		closeErr := writer.Close()
		if errors.Is(err, syscall.EPIPE) {
			return hold{}, false, closeErr
		}
		return hold{}, false, errors.Join(err, closeErr)
	}
	return hold{writer}, true, nil
}

// destroy stops the server of a directory that has no guard, and removes the
// directory. It does so by running the guard's own script with no users.
func destroy(ctx context.Context, dir string) error {
	null, err := os.Open(os.DevNull)
	if err != nil {
		return err
	}
	defer null.Close()
	cmd := guardCommand(ctx, `eval "$PAWL_GUARD"`, dir, 0)
	cmd.ExtraFiles = []*os.File{null, null}
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("stop the server of %s and remove the directory: %w", dir, err)
	}
	return nil
}

// abandoned reports whether a server directory has neither guard nor users.
func abandoned(dir string) (bool, error) {
	guarded, err := locked(filepath.Join(dir, guardLockName))
	if err != nil || guarded {
		return false, err
	}
	fd, err := openFIFO(filepath.Join(dir, fifoName), syscall.O_RDONLY)
	if errors.Is(err, os.ErrNotExist) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	defer syscall.Close(fd)
	// Reading from a FIFO ends when it has no writer, and would wait when it
	// has one. What users have written since the guard died is passed over.
	for buf := make([]byte, 512); ; {
		n, err := syscall.Read(fd, buf)
		switch {
		case err == syscall.EAGAIN:
			return false, nil
		case err != nil && err != syscall.EINTR:
			return false, fmt.Errorf("read the FIFO of %s: %w", dir, err)
		case err == nil && n == 0:
			return true, nil
		}
	}
}

// openFIFO opens without waiting for the other end, and leaves the descriptor
// non-blocking.
func openFIFO(path string, mode int) (int, error) {
	for {
		fd, err := syscall.Open(path, mode|syscall.O_NONBLOCK|syscall.O_CLOEXEC|syscall.O_NOFOLLOW, 0)
		if err == nil {
			return fd, nil
		}
		if err != syscall.EINTR {
			return -1, &os.PathError{Op: "open", Path: path, Err: err}
		}
	}
}

// openFIFOFile is openFIFO for a file that blocks afterwards, which is what a
// shell expects of its input.
func openFIFOFile(path string, mode int) (*os.File, error) {
	fd, err := openFIFO(path, mode)
	if err != nil {
		return nil, err
	}
	if err := syscall.SetNonblock(fd, false); err != nil {
		return nil, errors.Join(err, syscall.Close(fd))
	}
	return os.NewFile(uintptr(fd), path), nil
}
