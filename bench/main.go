// Command bench measures Pawl beside River and beside plain SQL, on one server
// in one run.
//
//	go run ./bench                     everything; it takes hours on two cores
//	go run ./bench -quick              the most telling scenarios, smaller
//	go run ./bench -list               what there is
//	go run ./bench -scenario drain     one scenario
//	go run ./bench -json FILE          the same numbers for programs
//	go run ./bench -markdown FILE      and for a document
//
// It starts a PostgreSQL server for itself, with fsync on, or takes the one that
// PAWL_DATABASE_URL names; what the server is set to is printed. Each measurement
// has a database of its own. The subjects take turns and each value is the median
// of three runs, so that what else happens on the machine meets all of them.
//
// # The subjects
//
//   - pawl and river are tuned for throughput: Pawl with 300 slots, River with
//     what its own benchmark sets, 2,000 workers and a fetch cooldown of 2 ms.
//   - pawl defaults and river defaults have 100 workers and nothing else set.
//   - floor is plain SQL: COPY, INSERT, and a DELETE in batches by two
//     connections. It promises nothing and so is what nobody can beat.
//
// All are fed with the same payloads on their fastest path for it, do the same in
// their handlers, and are stopped by the same clock: from the start of the first
// job until the database says that the last one is finished. How many are
// finished is counted afterwards, and a run in which one is missing is an error.
//
// # Bars
//
// A ratio may have a bar, which is what Pawl wants to be held to. The report says
// for each whether it is met, and where Pawl is behind River. A missed bar is no
// failure of the program: the exit status is 0 where everything was measured, 1
// where something could not be, 2 for a bad call and 130 after an interrupt.
//
// Absolute numbers belong to a machine and a day. Compare ratios.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"runtime/pprof"
	"strings"
	"syscall"

	"github.com/pawlgo/pawl/internal/localpg"
)

const (
	exitOK          = 0
	exitFailed      = 1
	exitBadCall     = 2
	exitInterrupted = 130
)

func main() {
	if isChild(os.Args) {
		os.Exit(childMain(os.Stdin, os.Stdout, os.Stderr))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	// The second interrupt ends the process the hard way.
	context.AfterFunc(ctx, stop)
	code := command(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// serverSettings are those of a server that holds data worth keeping, on a small
// machine: nothing that a subject could gain by losing what was committed.
var serverSettings = map[string]string{
	"fsync":              "on",
	"full_page_writes":   "on",
	"synchronous_commit": "on",
	"shared_buffers":     "1GB",
	"max_wal_size":       "16GB", // no checkpoint in the middle of a measurement
	"checkpoint_timeout": "30min",
	"max_connections":    "400",
}

// gcPercent is how far the heap of this process, and of the workers that it
// starts, grows before it is collected. The default suits a heap of some size;
// one as small as a benchmark's would be collected all the time.
const gcPercent = 400

// command is the program between its arguments and its exit status.
func command(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	quick := flags.Bool("quick", false, "only the most telling scenarios, smaller")
	name := flags.String("scenario", "", "only the scenarios `NAME`, separated by commas")
	file := flags.String("json", "", "also write the results to `FILE`, a JSON array with a row a line")
	page := flags.String("markdown", "", "also write the report to `FILE` as a section of a document")
	runs := flags.Int("runs", 3, "how often each value is measured; the median counts")
	list := flags.Bool("list", false, "list the scenarios and their bars, and do nothing")
	profile := flags.String("cpuprofile", "", "write a CPU profile of this process to `FILE`")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return exitOK
	case err != nil:
		return exitBadCall
	}
	fail := func(code int, err error) int {
		fmt.Fprintf(stderr, "bench: %v\n", err)
		return code
	}
	if flags.NArg() > 0 || *runs < 1 {
		return fail(exitBadCall, errors.New("there are no arguments besides flags, and -runs is 1 or more"))
	}
	if *list {
		printList(stdout, scenarios)
		return exitOK
	}
	chosen, err := choose(scenarios, *name, *quick)
	if err != nil {
		return fail(exitBadCall, err)
	}
	if *profile != "" {
		f, err := os.Create(*profile)
		if err != nil {
			return fail(exitBadCall, err)
		}
		defer f.Close()
		if err := pprof.StartCPUProfile(f); err != nil {
			return fail(exitFailed, err)
		}
		defer pprof.StopCPUProfile()
	}

	debug.SetGCPercent(gcPercent)
	server, err := localpg.Start(ctx, localpg.Options{Settings: serverSettings})
	if err != nil {
		return fail(exitFailed, err)
	}
	defer server.Close()
	b := &bench{url: server.URL(), runs: *runs, size: sizeFull, progress: stderr}
	if *quick {
		b.size = sizeQuick
	}
	var wrong []string
	interrupted := false
	machine, err := b.describe(ctx)
	if err != nil {
		return fail(exitFailed, err)
	}
	fmt.Fprintln(stdout, machine)
	for _, s := range chosen {
		if err := b.run(ctx, s); err != nil {
			if interrupted = ctx.Err() != nil; interrupted {
				break // what was measured by now is reported
			}
			wrong = append(wrong, s.name)
			fmt.Fprintf(stderr, "bench: %s: %v\n", s.name, err)
		}
	}
	report := b.results.report(chosen)
	report.print(stdout)
	if *file != "" {
		if err := report.writeJSON(*file); err != nil {
			return fail(exitFailed, err)
		}
	}
	if *page != "" {
		if err := report.writeMarkdown(*page, machine, strings.Join(append([]string{"go run ./bench"}, args...), " ")); err != nil {
			return fail(exitFailed, err)
		}
	}
	if interrupted {
		return fail(exitInterrupted, errors.New("interrupted"))
	}
	if wrong != nil {
		return fail(exitFailed, fmt.Errorf("could not measure all of: %s", strings.Join(wrong, ", ")))
	}
	return exitOK
}
