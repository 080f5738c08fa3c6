package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write what the scripts compare with anew")

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"taskgen": main})
}

// TestScripts runs the scripts in testdata/script, each in a module of its own
// that requires this one. They use the go command, and no network.
func TestScripts(t *testing.T) {
	t.Parallel()
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	goMod := moduleFile(t, root)
	goSum, err := os.ReadFile(filepath.Join(root, "go.sum"))
	require.NoError(t, err)
	cgo := slices.Contains(goEnvironment(t, "CGO_ENABLED"), "CGO_ENABLED=1")
	environment := goEnvironment(t, "GOROOT", "GOCACHE", "GOMODCACHE", "GOPATH", "GOTOOLCHAIN")

	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		UpdateScripts:       *update,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			env.Vars = append(env.Vars, environment...)
			env.Vars = append(env.Vars, "PAWL="+root, "GOPROXY=off", "GOFLAGS=", "GOWORK=off", "GONOSUMDB=*", "HOME="+env.WorkDir)
			env.Vars = append(env.Vars, "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CEILING_DIRECTORIES="+filepath.Dir(env.WorkDir),
				"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=c", "GIT_COMMITTER_EMAIL=c@example.com")
			// A script may have a go.mod of its own.
			for name, content := range map[string][]byte{"go.mod": goMod, "go.sum": goSum} {
				path := filepath.Join(env.WorkDir, name)
				if _, err := os.Stat(path); err == nil {
					continue
				}
				if err := os.WriteFile(path, content, 0o666); err != nil {
					return err
				}
			}
			return nil
		},
		Condition: func(name string) (bool, error) {
			switch name {
			case "root": // who may write into read-only directories
				return os.Geteuid() == 0, nil
			case "cgo":
				return cgo, nil
			}
			return false, fmt.Errorf("no condition %q", name)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"reverse": reverse,
			"replace": replace,
		},
	})
}

// moduleFile returns the go.mod of a user's module, with this repository in the
// place of a release.
func moduleFile(t *testing.T, root string) []byte {
	text, err := os.ReadFile(filepath.Join(root, "go.mod"))
	require.NoError(t, err)
	requirements := strings.Join(regexp.MustCompile(`(?ms)^require .*?^\)\n`).FindAllString(string(text), -1), "\n")
	return []byte("module example.com/app\n\ngo 1.26.0\n\n" + requirements + `
require github.com/pawlgo/pawl v0.0.0

replace github.com/pawlgo/pawl => ` + root + "\n")
}

func goEnvironment(t *testing.T, names ...string) []string {
	out, err := exec.Command("go", append([]string{"env"}, names...)...).Output()
	require.NoError(t, err)
	values := strings.Split(strings.TrimRight(string(out), "\n"), "\n")
	require.Len(t, values, len(names))
	for i := range values {
		values[i] = names[i] + "=" + values[i]
	}
	return values
}

// reverse gives the files of a directory the opposite order of names, by renaming
// a.go to z.go and so on.
func reverse(ts *testscript.TestScript, _ bool, args []string) {
	for _, name := range args {
		path := ts.MkAbs(name)
		base := []byte(filepath.Base(path))
		base[0] = 'a' + 'z' - base[0]
		ts.Check(os.Rename(path, filepath.Join(filepath.Dir(path), string(base))))
	}
}

// replace replaces old texts in a file by new ones: replace file old new ...
// The texts are in the syntax of Go's double-quoted strings.
func replace(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) < 3 || len(args)%2 == 0 {
		ts.Fatalf("usage: replace file old new ...")
	}
	for i := range args[1:] {
		text, err := strconv.Unquote(`"` + strings.ReplaceAll(args[1+i], `"`, `\"`) + `"`)
		ts.Check(err)
		args[1+i] = text
	}
	content := ts.ReadFile(args[0])
	for pair := range slices.Chunk(args[1:], 2) {
		if !strings.Contains(content, pair[0]) {
			ts.Fatalf("%s does not contain %q", args[0], pair[0])
		}
		content = strings.ReplaceAll(content, pair[0], pair[1])
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(content), 0o666))
}
