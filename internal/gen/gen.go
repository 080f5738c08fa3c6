// Package gen is what taskgen does. One run goes through these stages, each a
// package of its own:
//
//	load       the packages that were named: syntax and types
//	declare    the tasks in them
//	directive  the annotations of each task, with their defaults
//	payload    whether what a task carries survives encoding/json
//	render     the generated file of each package
//	output     all files of the run, or none
//
// Each stage but the last adds what is wrong to a diag.List and goes on, so that
// one run says everything.
package gen

import (
	"context"
	"fmt"
	"go/token"
	"path/filepath"
	"slices"

	"github.com/pawlgo/pawl/internal/gen/diag"
	"github.com/pawlgo/pawl/internal/gen/load"
	"github.com/pawlgo/pawl/internal/gen/output"
	"golang.org/x/tools/go/packages"
)

// Run generates for the packages that patterns name, seen from dir, an absolute
// path, and writes what has changed. It returns the errors in their source; where
// there are any, nothing was written. Its own error is for trouble that has no
// place in the source.
func Run(ctx context.Context, dir string, patterns []string) ([]diag.Diagnostic, error) {
	files, found, err := Generate(ctx, dir, patterns)
	if err != nil || len(found) > 0 {
		return found, err
	}
	if err := output.Apply(ctx, files); err != nil {
		return nil, fmt.Errorf("write the generated code: %w", err)
	}
	return nil, nil
}

// Generate is [Run] without the writing: it returns what is to be on disk.
func Generate(ctx context.Context, dir string, patterns []string) ([]output.File, []diag.Diagnostic, error) {
	pkgs, err := load.Load(ctx, dir, patterns)
	if err != nil {
		return nil, nil, err
	}
	// A dependency that does not compile without generated code is looked through
	// for the names that it waits for; what else is wrong with it is its own affair.
	generated := map[string]map[string]bool{} // by package path
	units := map[*packages.Package]*unit{}
	for _, pkg := range pkgs.Sources {
		u := newUnit(pkgs, pkg, diag.New(dir))
		u.find()
		units[pkg] = u
		generated[pkg.PkgPath] = u.declared()
	}
	for _, root := range pkgs.Roots {
		units[root].check()
	}
	diags := diag.New(dir)
	err = pkgs.Report(dir, diags, load.Filter{
		Generated: func(path, name string) bool { return generated[path][name] },
		Concerns: func(pos token.Pos) bool {
			return slices.ContainsFunc(pkgs.Roots, func(root *packages.Package) bool { return units[root].concerns(pos) })
		},
	})
	if err != nil {
		return nil, diags.Diagnostics(), err
	}

	var files []output.File
	for _, root := range pkgs.Roots {
		u := units[root]
		u.reportUnknown(diags)
		if u.diags.Empty() {
			content, err := u.render()
			if err != nil {
				return nil, nil, err
			}
			files = append(files, output.File{Path: filepath.Join(root.Dir, load.OutputName), Content: content})
		}
		diags.Merge(u.diags)
	}
	if !diags.Empty() {
		return nil, diags.Diagnostics(), nil
	}
	return files, nil, nil
}
