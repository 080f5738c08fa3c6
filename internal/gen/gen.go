// Package gen is what taskgen does. One run goes through these stages, each a
// package of its own:
//
//	load       the packages that were named: syntax and types
//	declare    the tasks in them
//	directive  the annotations of each task, with their defaults
//	payload    whether what a task carries survives encoding/json
//	reference  the lock that is frozen, from git
//	evolve     the versions of each payload, from that lock and the source
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
	"slices"

	"github.com/pawlgo/pawl/internal/gen/diag"
	"github.com/pawlgo/pawl/internal/gen/load"
	"github.com/pawlgo/pawl/internal/gen/output"
	"github.com/pawlgo/pawl/internal/gen/reference"
	"golang.org/x/tools/go/packages"
)

// Options are what a run is asked for beside its packages.
type Options struct {
	// Against names the commit whose locks are frozen; "" stands for what package
	// reference makes of the repository.
	Against string
	// Strict makes a missing reference an error. Otherwise the lock on disk is
	// taken for it, so that nothing in it is ever rewritten.
	Strict bool
	// Retire takes a version out of use in the one package of the run.
	Retire *Retirement
}

// Retirement is a version of a kind to be taken out of use.
type Retirement struct {
	Kind   string
	Number int
}

// Result is what a run has found.
type Result struct {
	// Files are what is to be on disk; none where there are errors.
	Files []output.File
	// Errors are the errors in the source.
	Errors []diag.Diagnostic
	// Notes are changes of payloads that cost nothing and may mean something all
	// the same.
	Notes []diag.Diagnostic
}

// Run generates for the packages that patterns name, seen from dir, an absolute
// path, and writes what has changed. Where there are errors in the source,
// nothing is written. Its own error is for trouble that has no place there.
func Run(ctx context.Context, dir string, patterns []string, opts Options) (*Result, error) {
	result, err := Generate(ctx, dir, patterns, opts)
	if err != nil || len(result.Errors) > 0 {
		return result, err
	}
	if err := output.Apply(ctx, result.Files); err != nil {
		return result, fmt.Errorf("write the generated code: %w", err)
	}
	return result, nil
}

// Generate is [Run] without the writing. Its result is never nil.
func Generate(ctx context.Context, dir string, patterns []string, opts Options) (*Result, error) {
	pkgs, err := load.Load(ctx, dir, patterns)
	if err != nil {
		return &Result{}, err
	}
	if opts.Retire != nil && len(pkgs.Roots) != 1 {
		return &Result{}, fmt.Errorf("retire a version in one package, not in %d", len(pkgs.Roots))
	}
	// A dependency that does not compile without generated code is looked through
	// for the names that it waits for; what else is wrong with it is its own affair.
	units := map[*packages.Package]*unit{}
	byPath := map[string]*unit{}
	for _, pkg := range pkgs.Sources {
		u := newUnit(pkgs, pkg, dir)
		u.find()
		units[pkg], byPath[pkg.PkgPath] = u, u
	}
	finder := &reference.Finder{Against: opts.Against}
	modules := pkgs.Modules()
	kinds := map[string]claim{}
	for _, root := range pkgs.Roots {
		u := units[root]
		u.check()
		u.claimKinds(kinds)
		if err := u.evolve(ctx, finder, modules, opts); err != nil {
			return &Result{}, err
		}
		u.checkNames()
	}
	diags := diag.New(dir)
	err = pkgs.Report(dir, diags, load.Filter{
		Generated: func(path, name string) bool { return byPath[path] != nil && byPath[path].declares(name) },
		Concerns: func(pos token.Pos) bool {
			return slices.ContainsFunc(pkgs.Roots, func(root *packages.Package) bool { return units[root].concerns(pos) })
		},
	})
	if err != nil {
		return &Result{Errors: diags.Diagnostics()}, err
	}

	var files []output.File
	notes := diag.New(dir)
	for _, root := range pkgs.Roots {
		u := units[root]
		u.reportUnknown(diags)
		if u.diags.Empty() {
			more, err := u.files(ctx)
			if err != nil {
				return &Result{}, err
			}
			files = append(files, more...)
		}
		diags.Merge(u.diags)
		notes.Merge(u.notes)
	}
	result := &Result{Errors: diags.Diagnostics(), Notes: notes.Diagnostics()}
	if len(result.Errors) == 0 {
		result.Files = files
	}
	return result, nil
}
