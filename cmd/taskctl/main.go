package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/pawlgo/pawl/admin"
	"github.com/pawlgo/pawl/migrations"
	"github.com/pawlgo/pawl/task"
)

func main() { os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

// The exit codes.
const (
	exitOK          = 0
	exitBad         = 1
	exitUsage       = 2
	exitTrouble     = 3
	exitNone        = 4
	exitNotPossible = 5
	exitUnconfirmed = 6
	exitStopped     = 7
	exitSchema      = 8
	exitInterrupted = 130
)

// Errors of the command line.
var (
	errBad         = errors.New("something is wrong") // and has been shown
	errUsage       = errors.New("see --help")
	errUnconfirmed = errors.New("nobody has confirmed it: give --yes, or --dry-run to see what it would touch")
)

func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	a := &app{stdin: stdin, stdout: stdout, stderr: stderr}
	defer a.close()
	root := a.root()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		fmt.Fprintln(stderr, "taskctl: interrupted")
		return exitInterrupted
	}
	code := exitCode(err)
	if err != nil && !errors.Is(err, errBad) {
		if failed, ok := errors.AsType[*exec.ExitError](err); ok {
			return commandCode(ctx, failed) // of the command that dev has run, which has said why
		}
		fmt.Fprintf(stderr, "taskctl: %s\n", plain(err.Error()))
	}
	return code
}

// commandCode is the exit code of a command: its own, and where a signal has ended
// it the one of an interrupt that was meant for both, else that of a shell.
func commandCode(ctx context.Context, failed *exec.ExitError) int {
	if code := failed.ExitCode(); code >= 0 {
		return code
	}
	if status, ok := failed.Sys().(syscall.WaitStatus); ok && ctx.Err() == nil && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return exitInterrupted
}

func exitCode(err error) int {
	is := func(targets ...error) bool {
		for _, target := range targets {
			if errors.Is(err, target) {
				return true
			}
		}
		return false
	}
	switch {
	case err == nil:
		return exitOK
	case is(errBad):
		return exitBad
	case is(errUsage, admin.ErrInvalid, admin.ErrRedacted, admin.ErrCursor, admin.ErrNoFilter, task.ErrInvalidOption, migrations.ErrSchemaName):
		return exitUsage
	case is(task.ErrNoJob, task.ErrNoEvent, task.ErrNoSchedule, admin.ErrNoRedrive):
		return exitNone
	case is(admin.ErrNotDead, admin.ErrKeyTaken, admin.ErrNoWait):
		return exitNotPossible
	case is(errUnconfirmed):
		return exitUnconfirmed
	case is(admin.ErrStopped):
		return exitStopped
	case is(task.ErrNotMigrated, migrations.ErrBehind, migrations.ErrNewer):
		return exitSchema
	}
	return exitTrouble
}

// usage makes an error of the command line of one of cobra's.
func usage(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", err, errUsage)
}

// args wraps a check of positional arguments.
func args(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error { return usage(check(cmd, args)) }
}
