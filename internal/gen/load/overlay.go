package load

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/tools/go/packages"
)

// withoutOutput returns build flags that put an empty file in the place of each
// earlier output in the packages that patterns name. The go command compiles these
// packages too, although only what they import is of use, and the generated code
// is most of that work: with 200 tasks, seconds. done removes what the flags refer
// to.
//
// The overlay of go/packages is not for this: with one, every dependency is read
// from source.
func withoutOutput(ctx context.Context, dir string, patterns []string) (flags []string, done func(), err error) {
	done = func() {}
	roots, err := packages.Load(&packages.Config{Context: ctx, Dir: dir, Mode: packages.NeedName | packages.NeedFiles}, patterns...)
	if err != nil {
		return nil, done, fmt.Errorf("load packages: %w", err)
	}
	var outputs []*packages.Package
	for _, root := range roots {
		if root.Dir == "" || root.Name == "" {
			continue
		}
		if info, err := os.Stat(filepath.Join(root.Dir, OutputName)); err == nil && info.Mode().IsRegular() {
			outputs = append(outputs, root)
		}
	}
	if len(outputs) == 0 {
		return nil, done, nil
	}
	temp, err := os.MkdirTemp("", "taskgen")
	if err != nil {
		return nil, done, fmt.Errorf("load packages: %w", err)
	}
	done = func() { os.RemoveAll(temp) }
	flag, err := writeOverlay(temp, outputs)
	if err != nil {
		done()
		return nil, func() {}, fmt.Errorf("load packages: %w", err)
	}
	return []string{flag}, done, nil
}

// writeOverlay writes an overlay for the outputs of pkgs into dir, and returns the
// flag that names it.
func writeOverlay(dir string, pkgs []*packages.Package) (flag string, err error) {
	overlay := struct{ Replace map[string]string }{map[string]string{}}
	for i, pkg := range pkgs {
		empty := filepath.Join(dir, strconv.Itoa(i)+".go")
		err = errors.Join(err, os.WriteFile(empty, []byte("package "+pkg.Name+"\n"), 0o600))
		overlay.Replace[filepath.Join(pkg.Dir, OutputName)] = empty
	}
	text, marshalErr := json.Marshal(overlay)
	path := filepath.Join(dir, "overlay.json")
	return "-overlay=" + path, errors.Join(err, marshalErr, os.WriteFile(path, text, 0o600))
}
