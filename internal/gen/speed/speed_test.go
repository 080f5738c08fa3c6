// Package speed measures a run of taskgen over a large package.
package speed

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/pawlgo/pawl/internal/gen"
	"github.com/pawlgo/pawl/internal/gen/load"
	"github.com/pawlgo/pawl/internal/gen/output"
	"github.com/stretchr/testify/require"
)

// tasks is how many one package declares.
const tasks = 200

// BenchmarkRegenerate changes one directive and generates anew, with a warm build
// cache, as somebody does who works on a package. It says where the time goes:
// loading, which is the go command's for the most part, checking and rendering
// together, and writing; and how many files are parsed, which should be those of
// the package and nothing else. "process" is the same as a process of its own.
func BenchmarkRegenerate(b *testing.B) {
	dir, taskgen := module(b)
	patterns := []string{"."}
	var loading, whole, writing, process time.Duration
	parsed := 0
	for n := 0; b.Loop(); n++ {
		edit(b, dir, n)
		start := time.Now()
		pkgs, err := load.Load(b.Context(), dir, patterns)
		require.NoError(b, err)
		loading += time.Since(start)
		for _, pkg := range pkgs.Sources {
			parsed += len(pkg.Syntax)
		}

		start = time.Now()
		result, err := gen.Generate(b.Context(), dir, patterns, gen.Options{})
		require.NoError(b, err)
		require.Empty(b, result.Errors)
		whole += time.Since(start)

		start = time.Now()
		require.NoError(b, output.Apply(b.Context(), result.Files))
		writing += time.Since(start)

		edit(b, dir, n+1_000_000)
		start = time.Now()
		cmd := exec.CommandContext(b.Context(), taskgen)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		require.NoError(b, err, "%s", out)
		process += time.Since(start)
	}
	per := func(d time.Duration, unit string) { b.ReportMetric(float64(d.Milliseconds())/float64(b.N), "ms-"+unit) }
	b.ReportMetric(0, "ns/op") // the sum of what is below
	per(loading, "load")
	per(whole-loading, "check+render")
	per(writing, "write")
	per(process, "process")
	b.ReportMetric(float64(parsed)/float64(b.N), "files")
}

// A run parses the files of the package that it generates for, and no other.
func TestOnlyThePackageItselfIsParsed(t *testing.T) {
	t.Parallel()
	dir, _ := module(t)
	pkgs, err := load.Load(t.Context(), dir, []string{"."})
	require.NoError(t, err)
	require.Len(t, pkgs.Sources, 1)
	require.Len(t, pkgs.Sources[0].Syntax, 1)
}

// module makes a module with a package of many tasks, generates for it once, so
// that the build cache has what it imports, and returns its directory and a taskgen.
func module(tb testing.TB) (dir, taskgen string) {
	root, err := filepath.Abs("../../..")
	require.NoError(tb, err)
	dir = tb.TempDir()
	taskgen = filepath.Join(tb.TempDir(), "taskgen")
	run(tb, root, "go", "build", "-o", taskgen, "./cmd/taskgen")

	goMod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	require.NoError(tb, err)
	requirements := strings.Join(regexp.MustCompile(`(?ms)^require .*?^\)\n`).FindAllString(string(goMod), -1), "\n")
	write(tb, dir, "go.mod", "module example.com/app\n\ngo 1.26.0\n\n"+requirements+
		"\nrequire github.com/pawlgo/pawl v0.0.0\n\nreplace github.com/pawlgo/pawl => "+root+"\n")
	goSum, err := os.ReadFile(filepath.Join(root, "go.sum"))
	require.NoError(tb, err)
	write(tb, dir, "go.sum", string(goSum))
	edit(tb, dir, 0)
	run(tb, dir, taskgen)
	return dir, taskgen
}

// edit writes the package, with a timeout that depends on n.
func edit(tb testing.TB, dir string, n int) {
	var b strings.Builder
	b.WriteString("package app\n\nimport (\n\t\"time\"\n\n\t\"github.com/google/uuid\"\n\t\"github.com/pawlgo/pawl/task\"\n)\n")
	for i := range tasks {
		fmt.Fprintf(&b, `
// Task%[1]d does one of many things.
//
//task:queue queue_%[2]d
//task:retry attempts=12 base=2s
//task:timeout %[3]dms
//task:idempotency fields=ID keep=1h
//task:organization Organization
type Task%[1]d struct{ task.Task[Args%[1]d] }

// Args%[1]d is the payload of Task%[1]d.
type Args%[1]d struct {
	ID           uuid.UUID
	Organization uuid.UUID
	At           time.Time
	Parts        []Part%[1]d
	ByName       map[string]*Part%[1]d
}

// Part%[1]d is a part of it.
type Part%[1]d struct {
	Name   string
	Weight float64
	Parts  []Part%[1]d
}
`, i, i%20, n+1)
	}
	write(tb, dir, "app.go", b.String())
}

func write(tb testing.TB, dir, name, content string) {
	require.NoError(tb, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o666))
}

func run(tb testing.TB, dir, name string, args ...string) {
	cmd := exec.CommandContext(tb.Context(), name, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	require.NoError(tb, err, "%s %s\n%s", name, args, out)
}
