package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/pawlgo/pawl/internal/testdb"
)

var update = flag.Bool("update", false, "write what the scripts compare with anew")

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"taskctl": main,
		"worker":  workerMain,
		"enqueue": enqueueMain,
		"publish": publishMain,
		"psql":    psqlMain,
	})
}

// TestScripts runs the scripts in testdata/script, each on a database of its own:
// taskctl as an operator, and the application as the owner, at APP_URL. Those whose
// name begins with "setup" get one without Pawl's schema.
func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		UpdateScripts:       *update,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			if strings.Contains(env.WorkDir, "script-setup") {
				env.Setenv("DATABASE_URL", urlOf(testdb.New(t)))
			} else {
				pool := testdb.Migrated(t)
				env.Setenv("APP_URL", urlOf(pool))
				env.Setenv("DATABASE_URL", urlOf(testdb.As(t, pool, testdb.Operator)))
			}
			env.Setenv("TASKCTL_BY", "alice")
			env.Setenv("HOME", os.Getenv("HOME")) // where a server may be kept
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"code":       code,
			"eventually": eventually,
			"save":       save,
			"normalize":  normalize,
		},
	})
}

// urlOf is the URL of a pool's database.
func urlOf(pool *pgxpool.Pool) string {
	c := pool.Config().ConnConfig
	u := url.URL{
		Scheme: "postgres", User: url.UserPassword(c.User, c.Password), Path: "/" + c.Database,
		Host: net.JoinHostPort(c.Host, strconv.Itoa(int(c.Port))), RawQuery: "sslmode=disable",
	}
	return u.String()
}

// code runs a program and checks its exit code: code N program argument...
func code(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: code N program argument...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		failed, ok := errors.AsType[*exec.ExitError](err)
		if !ok {
			ts.Fatalf("%v", err)
		}
		got = failed.ExitCode()
	}
	if got != want {
		ts.Fatalf("exit code %d, not %d", got, want)
	}
}

// eventually runs a program until its standard output matches: eventually regexp
// program argument...
func eventually(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: eventually regexp program argument...")
	}
	want := regexp.MustCompile(`(?m)` + args[0])
	deadline := time.NewTimer(30 * time.Second)
	defer deadline.Stop()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		err := ts.Exec(args[1], args[2:]...)
		if want.MatchString(ts.ReadFile("stdout")) {
			return
		}
		select {
		case <-tick.C:
		case <-deadline.C:
			ts.Fatalf("still not %q (%v)", args[0], err)
		}
	}
}

// save keeps the standard output, or what the group of a regular expression
// matches in it, in a variable: save NAME [regexp]
func save(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: save NAME [regexp]")
	}
	text := strings.TrimSpace(ts.ReadFile("stdout"))
	if len(args) > 1 {
		found := regexp.MustCompile(args[1]).FindStringSubmatch(text)
		if found == nil {
			ts.Fatalf("%q does not match", args[1])
		}
		text = found[len(found)-1]
	}
	ts.Setenv(args[0], text)
}

// What differs from one run to the next. In a table it is followed by blanks, and
// what takes its place is as wide.
var (
	anID  = regexp.MustCompile(`[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}(  )?`)
	aTime = regexp.MustCompile(`\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d+)?Z?(  )?`)
)

const blanks = "  "

// normalize writes a text without what differs from one run to the next: normalize
// stdout file
func normalize(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: normalize stdout|stderr file")
	}
	text := ts.ReadFile(args[0])
	ids := map[string]int{}
	for _, what := range []*regexp.Regexp{anID, aTime} {
		text = what.ReplaceAllStringFunc(text, func(found string) string {
			value, inTable := strings.CutSuffix(found, blanks)
			name := "<time>"
			if what == anID {
				if ids[value] == 0 {
					ids[value] = len(ids) + 1
				}
				name = fmt.Sprintf("<id %d>", ids[value])
			}
			if inTable {
				name = fmt.Sprintf("%-*s", len(found), name)
			}
			return name
		})
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), []byte(text), 0o666))
}

// psqlMain runs the statements that it is given, as the owner.
func psqlMain() {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, os.Getenv("APP_URL"))
	check(err)
	defer pool.Close()
	for _, statement := range os.Args[1:] {
		rows, err := pool.Query(ctx, statement)
		check(err)
		for rows.Next() {
			values, err := rows.Values()
			check(err)
			var b bytes.Buffer
			for i, v := range values {
				if i > 0 {
					b.WriteByte('\t')
				}
				fmt.Fprint(&b, v)
			}
			fmt.Println(b.String())
		}
		check(rows.Err())
	}
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
