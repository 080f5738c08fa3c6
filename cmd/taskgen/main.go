package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/pawlgo/pawl/internal/gen"
	"github.com/pawlgo/pawl/internal/gen/diag"
	"github.com/pawlgo/pawl/internal/gen/directive"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// The exit codes.
const (
	exitOK      = 0
	exitErrors  = 1 // in the packages' source
	exitTrouble = 2 // everything else: packages that cannot be loaded, files that cannot be written
)

func run(args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("taskgen", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	asJSON := flags.Bool("json", false, "")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(stdout, help())
		return exitOK
	case err != nil:
		fmt.Fprintf(stderr, "taskgen: %v\n%s", err, usage)
		return exitTrouble
	}
	patterns := flags.Args()
	if len(patterns) == 0 {
		patterns = []string{"."}
	}
	dir, err := os.Getwd()
	if err != nil {
		fmt.Fprintf(stderr, "taskgen: %v\n", err)
		return exitTrouble
	}

	// An interrupted run ends in an orderly way, so that it leaves nothing behind.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	result, err := gen.Run(ctx, dir, patterns, gen.Options{})
	found := result.Errors
	if *asJSON {
		err = errors.Join(err, diag.WriteJSON(stdout, found))
	} else {
		err = errors.Join(err, write(stderr, found))
	}
	switch {
	case err != nil:
		fmt.Fprintf(stderr, "taskgen: %v\n", err)
		return exitTrouble
	case len(found) > 0:
		return exitErrors
	}
	return exitOK
}

// write writes errors for whoever reads w.
func write(w io.Writer, found []diag.Diagnostic) error {
	file, ok := w.(*os.File)
	if !ok {
		return diag.WriteText(w, found)
	}
	info, err := file.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice == 0 || os.Getenv("TERM") == "dumb" {
		return diag.WriteText(w, found)
	}
	return diag.WriteTerminal(w, found, os.Getenv("NO_COLOR") == "")
}

const usage = `usage: taskgen [-json] [packages]

Taskgen writes task_gen.go into each of the packages, or into the one of the
current directory. Packages are named as for go build. With -json, errors go to
standard output, one JSON object a line.
`

// help is the usage and the directives that taskgen reads.
func help() string {
	var b strings.Builder
	b.WriteString(usage + "\nDirectives in the doc comment of a task:\n")
	for _, s := range directive.Specs() {
		fmt.Fprintf(&b, "\n%s\n\t%s\n\tdefault: %s\n", s.Usage(), s.Meaning, s.Default)
	}
	b.WriteString("\nFor more: go doc github.com/pawlgo/pawl/cmd/taskgen\n")
	return b.String()
}
