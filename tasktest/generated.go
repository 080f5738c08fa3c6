package tasktest

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Generated fails the test unless the generated code of all packages of the
// test's module is in step with their declarations, and no payload has changed in
// a way that stored jobs would not survive: it runs "go tool taskgen check ./..."
// and shows what that says. Much of it the compiler sees too; what it cannot see
// is a directive that was edited, or a lock file.
//
// As a process of its own, the generator is of the version that go.mod names, and
// the test does not have to be linked with it. It needs the go command, and what
// check needs: where git is used, a clone that knows the commit to compare with.
//
// The result of such a test is cached as long as no Go file, lock or go.mod of the
// module changes, whether the test's package imports it or not. What happens in
// git alone goes unnoticed: use -count=1 where that matters.
func Generated(t testing.TB) {
	t.Helper()
	root, err := goCommand(t, ".", "env", "GOMOD")
	if err != nil {
		t.Fatalf("tasktest: find the module: %v\n%s", err, root)
	}
	root = strings.TrimSpace(root)
	if root == "" || root == os.DevNull {
		t.Fatalf("tasktest: the test is not part of a module")
	}
	root = filepath.Dir(root)
	if err := depend(root); err != nil {
		t.Fatalf("tasktest: read the module: %v", err)
	}
	output, err := goCommand(t, root, "tool", "taskgen", "check", "./...")
	switch {
	case err == nil:
	case strings.Contains(output, "no such tool"):
		t.Fatalf("tasktest: the module has no taskgen: go get -tool github.com/pawlgo/pawl/cmd/taskgen\n%s", output)
	default:
		t.Fatalf("tasktest: go tool taskgen check: %v\n%s", err, output)
	}
}

func goCommand(t testing.TB, dir string, args ...string) (string, error) {
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir = dir
	output, err := cmd.CombinedOutput()
	return string(output), err
}

// depend makes the go command run the test again when a file changes that check
// reads: it notes which files a test process asks for, not those of its children.
func depend(root string) error {
	return filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission):
			return nil // went away meanwhile, or the go command could not read it either
		case err != nil:
			return err
		}
		name := entry.Name()
		if entry.IsDir() {
			if path != root && (strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") || name == "node_modules") {
				return filepath.SkipDir
			}
			return nil
		}
		if filepath.Ext(name) == ".go" || name == "go.mod" || name == "go.work" || name == "task.lock.json" {
			if _, err := os.Stat(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
		return nil
	})
}
