// Package campaign sends random declarations through taskgen. What it refuses, it
// has to refuse with a position in the source; what it accepts, has to compile,
// and random payloads have to come back as they went.
//
// An ordinary run makes 200 declarations; all 2,000 are behind the build tag full:
//
//	go test -tags full ./internal/gen/campaign
//
// Every declaration follows from -seed and its number. To look at one, give its
// number as -only, and a directory that stays as -keep.
package campaign

import (
	"bufio"
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/pawlgo/pawl/internal/gen/diag"
	"github.com/stretchr/testify/require"
)

var (
	seed = flag.Uint64("seed", 1, "of the declarations")
	only = flag.Int("only", -1, "the number of the only declaration to make")
	keep = flag.String("keep", "", "an empty directory to work in, that stays")
)

// modulePath lies within the repository's, so that the check may use internal
// packages of it.
const modulePath = "github.com/pawlgo/pawl/internal/gen/campaign/random"

// perPackage is how many declarations share a package.
const perPackage = 20

// placed is a declaration in a package.
type placed struct {
	*declaration
	pkg   string
	found []diag.Diagnostic // what taskgen says about it
}

func TestCampaign(t *testing.T) {
	t.Parallel()
	m := newModule(t)
	all := m.declare()
	m.judge(all)

	var accepted []*placed
	reasons := map[string]int{}
	for _, d := range all {
		switch {
		case len(d.found) > 0 && len(d.faults) == 0:
			t.Errorf("%s is refused, and nothing is wrong with it: %s\n%s", d.name, d.found, d.source())
		case len(d.found) == 0 && len(d.faults) > 0:
			t.Errorf("%s is accepted, and should not be: %s\n%s", d.name, d.faults, d.source())
		case len(d.found) > 0:
			reasons[d.faults[0]]++
			m.remove(d)
			continue
		}
		accepted = append(accepted, d)
	}
	t.Logf("seed %d: of %d declarations, %d are accepted", *seed, len(all), len(accepted))
	for _, reason := range slices.Sorted(maps.Keys(reasons)) {
		t.Logf("%5d refused for %s", reasons[reason], reason)
	}
	if t.Failed() {
		return // what follows would only repeat it
	}

	require.Empty(t, m.run(m.taskgen, "./p..."), "the accepted ones alone")
	before := m.generated()
	m.checks(accepted)
	m.run("go", "build", "-o", "checks", "./run")
	require.Empty(t, m.run("./checks"))
	// User code that uses what is generated makes no difference.
	require.Empty(t, m.run(m.taskgen, "./p..."))
	require.Equal(t, before, m.generated())
}

// source is what a declaration consists of.
func (d *placed) source() string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(d.files)) {
		fmt.Fprintf(&b, "-- %s/%s --\n%s\n", d.pkg, name, d.files[name])
	}
	return b.String()
}

// module is where the declarations are.
type module struct {
	*testing.T
	dir     string
	taskgen string
	env     []string
}

func newModule(t *testing.T) *module {
	root, err := filepath.Abs("../../..")
	require.NoError(t, err)
	m := &module{T: t, dir: *keep, env: append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod", "GOPROXY=off", "GOSUMDB=off")}
	if m.dir == "" {
		m.dir = t.TempDir()
	}
	m.taskgen = filepath.Join(m.dir, "taskgen")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", m.taskgen, "./cmd/taskgen")
	build.Dir = root
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)

	goMod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	require.NoError(t, err)
	requirements := strings.Join(regexp.MustCompile(`(?ms)^require .*?^\)\n`).FindAllString(string(goMod), -1), "\n")
	m.write("go.mod", "module "+modulePath+"\n\ngo 1.26.0\n\n"+requirements+
		"\nrequire github.com/pawlgo/pawl v0.0.0\n\nreplace github.com/pawlgo/pawl => "+root+"\n")
	goSum, err := os.ReadFile(filepath.Join(root, "go.sum"))
	require.NoError(t, err)
	m.write("go.sum", string(goSum))
	require.NoError(t, os.CopyFS(m.dir, os.DirFS("testdata")))
	return m
}

func (m *module) write(name, content string) {
	path := filepath.Join(m.dir, name)
	require.NoError(m, os.MkdirAll(filepath.Dir(path), 0o777))
	require.NoError(m, os.WriteFile(path, []byte(content), 0o666))
}

// run runs a command and returns what it prints.
func (m *module) run(name string, args ...string) string {
	cmd := exec.CommandContext(m.Context(), name, args...)
	cmd.Dir, cmd.Env = m.dir, m.env
	out, err := cmd.CombinedOutput()
	require.NoError(m, err, "%s %s\n%s", name, args, out)
	return string(out)
}

// declare makes the declarations and writes them into packages.
func (m *module) declare() []*placed {
	var all []*placed
	for n := range declarations {
		if *only >= 0 && n != *only {
			continue
		}
		d := &placed{declaration: newDeclaration(*seed, uint64(n)), pkg: fmt.Sprintf("p%03d", n/perPackage)}
		for name, content := range d.files {
			d.files[name] = strings.ReplaceAll(content, "package "+packageName, "package "+d.pkg)
			m.write(d.pkg+"/"+name, d.files[name])
		}
		all = append(all, d)
	}
	return all
}

// judge runs taskgen, and gives each declaration what is said about it. Nothing
// may be said about anything else, or without a place in the source.
func (m *module) judge(all []*placed) {
	cmd := exec.CommandContext(m.Context(), m.taskgen, "-json", "./p...")
	cmd.Dir, cmd.Env = m.dir, m.env
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdout, err := cmd.Output()
	require.Empty(m, stderr.String())
	if err != nil {
		require.Equal(m, 1, cmd.ProcessState.ExitCode(), "%v", err)
	}
	byFile := map[string]*placed{}
	for _, d := range all {
		for name := range d.files {
			byFile[d.pkg+"/"+name] = d
		}
	}
	for lines := bufio.NewScanner(bytes.NewReader(stdout)); lines.Scan(); {
		var found diag.Diagnostic
		require.NoError(m, json.Unmarshal(lines.Bytes(), &found), "%s", lines.Bytes())
		d := byFile[found.File]
		require.NotNil(m, d, "not a file of a declaration: %s", lines.Bytes())
		source := strings.Split(d.files[filepath.Base(found.File)], "\n")
		require.True(m, found.Line >= 1 && found.Line <= len(source), "no such line: %s", lines.Bytes())
		line := source[found.Line-1]
		require.True(m, found.Column >= 1 && found.Column < found.EndColumn && found.EndColumn <= len(line)+1, "not on the line %q: %s", line, lines.Bytes())
		require.NotEmpty(m, found.Message)
		require.NotEmpty(m, found.Code)
		d.found = append(d.found, found)
	}
}

func (m *module) remove(d *placed) {
	for name := range d.files {
		require.NoError(m, os.Remove(filepath.Join(m.dir, d.pkg, name)))
	}
}

// generated returns what taskgen has written.
func (m *module) generated() map[string]string {
	files := map[string]string{}
	paths, err := filepath.Glob(filepath.Join(m.dir, "p*", "task*"))
	require.NoError(m, err)
	for _, path := range paths {
		content, err := os.ReadFile(path)
		require.NoError(m, err)
		files[path] = string(content)
	}
	return files
}

// checks writes what sends payloads through the generated code: a file beside
// each, which spells the payloads as the declarations do, and a command.
func (m *module) checks(accepted []*placed) {
	byPackage := map[string][]*placed{}
	for _, d := range accepted {
		byPackage[d.pkg] = append(byPackage[d.pkg], d)
	}
	var imports, calls strings.Builder
	for _, pkg := range slices.Sorted(maps.Keys(byPackage)) {
		var handlers, tasks strings.Builder
		for _, d := range byPackage[pkg] {
			tx := ""
			if d.transactional {
				tx = "_ pgx.Tx, "
			}
			fmt.Fprintf(&handlers, "func (h checked) Handle%s(_ context.Context, %sjob *task.Job[%s]) error {\n\t*h.got = job.Args\n\treturn nil\n}\n\n", d.name, tx, d.payload)
			fmt.Fprintf(&tasks, "\t\tcheck.Of(%q, Kind%[2]s, Enqueue%[2]s, tables, &got, %[3]t),\n", pkg+"."+d.name, d.name, d.hides)
		}
		text := "type checked struct{ got *any }\n\n" + handlers.String() +
			"func Checks() []check.Task {\n\tvar got any\n\ttables := Tables(checked{&got})\n\treturn []check.Task{\n" + tasks.String() + "\t}\n}\n"
		header := "package " + pkg + "\n\nimport (\n\t\"context\"\n\t\"" + modulePath + "/check\"\n\t\"github.com/pawlgo/pawl/task\"\n"
		if refers(text, "pgx") {
			header += "\t\"github.com/jackc/pgx/v5\"\n"
		}
		if refers(text, "lib") {
			header += "\t\"" + modulePath + "/lib\"\n"
		}
		m.write(pkg+"/checks.go", header+")\n\n"+text)
		fmt.Fprintf(&imports, "\t%q\n", modulePath+"/"+pkg)
		fmt.Fprintf(&calls, "\tall = append(all, %s.Checks()...)\n", pkg)
	}
	m.write("run/main.go", fmt.Sprintf(`package main

import (
	"fmt"
	"math/rand/v2"
	"os"

	"%s/check"
%s)

func main() {
	var all []check.Task
%s	code := 0
	for _, t := range all {
		for n := range uint64(20) {
			if err := t.Run(rand.New(rand.NewPCG(%d, n))); err != nil {
				fmt.Printf("%%s: %%v\n", t.Name, err)
				code = 1
				break
			}
		}
	}
	os.Exit(code)
}
`, modulePath, imports.String(), calls.String(), *seed))
}
