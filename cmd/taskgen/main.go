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
	c := &command{stdout: stdout, stderr: stderr}
	work := c.generate
	if len(args) > 0 {
		switch args[0] {
		case "check":
			args, work = args[1:], c.check
		case "retire":
			args, work = args[1:], c.retire
		}
	}
	flags := flag.NewFlagSet("taskgen", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.BoolVar(&c.json, "json", false, "")
	flags.StringVar(&c.options.Against, "against", "", "")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(stdout, help())
		return exitOK
	case err != nil:
		fmt.Fprintf(stderr, "taskgen: %v\n%s", err, usage)
		return exitTrouble
	}
	c.args = flags.Args()

	// An interrupted run ends in an orderly way, so that it leaves nothing behind.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var err error
	if c.dir, err = os.Getwd(); err == nil {
		err = work(ctx)
	}
	switch {
	case err != nil:
		fmt.Fprintf(stderr, "taskgen: %v\n", err)
		return exitTrouble
	case c.found:
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

const usage = `usage: taskgen [-json] [-against COMMIT] [packages]
       taskgen check [-json] [-against COMMIT] [packages]
       taskgen retire [-against COMMIT] KIND VERSION [package]

Taskgen writes task_gen.go and task.lock.json into each of the packages, or into
the one of the current directory. Packages are named as for go build. With check
it writes nothing and shows what it would write. With retire it takes a payload
version out of use that no stored job has any more.

With -json, errors and notes go to standard output, one JSON object a line. With
-against, the payload versions of that commit are the ones that stay as they are.
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
