// Command example is a small fleet-tracking platform on Pawl.
//
// It takes a recorded trace of several vehicles, derives trips and geofence
// crossings from it, and does what follows: webhooks, notifications, reports,
// exports, retention. All of that is background work in seven queues, done by
// two worker processes, one of which is killed in the middle. At the end it
// judges by what its handlers recorded whether everything was done, and nothing
// twice at once.
//
//	go run ./example                    from the root of the repository
//	go run ./example -trace FILE        another trace, - for the standard input
//
// See README.md beside it for the format of a trace and for what is checked.
// The exit status is 0 if all checks hold, 1 if one does not or something went
// wrong, 2 for a bad call or trace, and 130 after an interrupt.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/pawlgo/pawl/example/fleet"
	"github.com/pawlgo/pawl/example/reference"
	"github.com/pawlgo/pawl/example/trace"
	"github.com/pawlgo/pawl/internal/localpg"
)

const (
	exitOK          = 0
	exitFailed      = 1
	exitBadInput    = 2
	exitInterrupted = 130
)

func main() {
	if isWorker(os.Args) {
		os.Exit(workerMain(os.Stdin, os.Stderr))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	// The second interrupt ends the process the hard way.
	context.AfterFunc(ctx, stop)
	code := command(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// command is the program between its arguments and its exit status.
func command(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	o, err := parseArgs(ctx, args, stdin, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return exitOK
	case err != nil && ctx.Err() != nil:
		fmt.Fprintln(stderr, "example: interrupted before anything was started")
		return exitInterrupted
	case err != nil:
		fmt.Fprintf(stderr, "example: %v\n", err)
		return exitBadInput
	}
	o.stdout, o.stderr = stdout, stderr
	return o.finish(ctx, o.run(ctx))
}

// finish turns the end of a run into an exit status.
func (o *options) finish(ctx context.Context, err error) int {
	switch {
	case err == nil:
		return exitOK
	case ctx.Err() != nil:
		fmt.Fprintln(o.stderr, "example: interrupted, and everything that was started is gone")
		return exitInterrupted
	case errors.Is(err, errOutput):
		fmt.Fprintf(o.stderr, "example: %v\n", err)
		return exitBadInput
	}
	fmt.Fprintf(o.stderr, "example: %v\n", err)
	return exitFailed
}

// options are what a run depends on.
type options struct {
	traceName string
	trace     []fleet.Position
	reference reference.Result
	out       string // empty: a temporary directory
	drill     bool
	verbose   bool
	settings  settings

	stdout, stderr io.Writer

	// startServer finds or starts a PostgreSQL server.
	startServer func(ctx context.Context) (*localpg.Server, error)
	// judged, where not nil, is called after the checks, while the database and
	// the files are still there. Tests spoil facts with it.
	judged func(ctx context.Context, j *judge) error
}

func startServer(ctx context.Context) (*localpg.Server, error) {
	return localpg.Start(ctx, localpg.Options{})
}

func parseArgs(ctx context.Context, args []string, stdin io.Reader, stderr io.Writer) (*options, error) {
	flags := flag.NewFlagSet("example", flag.ContinueOnError)
	flags.SetOutput(stderr)
	file := flags.String("trace", "", "read the trace from `FILE`, - for the standard input; the recorded one if empty")
	out := flags.String("out", "", "write reports and exports to the empty or new directory `DIR`; a temporary one if empty")
	drill := flags.Bool("drill", false, "kill a worker also where the trace gives little work; the run fails if that is too little")
	verbose := flags.Bool("v", false, "show what the workers log: every failed attempt, and there are many on purpose")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	if flags.NArg() > 0 {
		return nil, fmt.Errorf("unexpected argument %q: give the trace as -trace %s", flags.Arg(0), flags.Arg(0))
	}
	o := &options{out: *out, verbose: *verbose, startServer: startServer, traceName: "the recorded trace"}
	open := func() (io.ReadCloser, error) { return io.NopCloser(trace.Recorded()), nil }
	switch *file {
	case "":
	case "-":
		o.traceName = "the standard input"
		open = func() (io.ReadCloser, error) { return io.NopCloser(stdin), nil }
	default:
		o.traceName = *file
		open = func() (io.ReadCloser, error) { return os.Open(*file) }
	}
	var err error
	if o.trace, err = readTrace(ctx, open); err != nil {
		return nil, fmt.Errorf("%s: %w", o.traceName, err)
	}
	o.reference = reference.Of(o.trace, fleet.Geofences())
	o.drill = *drill || len(o.reference.Trips) >= drillTrips
	o.settings = settingsFor(o)
	return o, nil
}

// readTrace reads a trace until ctx ends.
func readTrace(ctx context.Context, open func() (io.ReadCloser, error)) ([]fleet.Position, error) {
	type result struct {
		positions []fleet.Position
		err       error
	}
	done := make(chan result, 1)
	go func() {
		// Without an owner on purpose: nothing interrupts the opening of a pipe
		// that nobody writes to, nor a read of the terminal. After an interrupt
		// it ends with the process at the latest.
		in, err := open()
		if err != nil {
			done <- result{err: err}
			return
		}
		positions, err := trace.Read(in)
		done <- result{positions, errors.Join(err, in.Close())}
	}()
	select {
	case r := <-done:
		return r.positions, r.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
