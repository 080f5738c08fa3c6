// Package load reads the packages that taskgen is asked for: their syntax with
// comments, and types for everything that a payload can reach.
//
// The types of dependencies come from the export data that the go command
// compiles, so that a run costs what a build costs and works wherever a build
// does: with a workspace or without, vendored or not. What does not compile is
// read from source instead, and that is the normal case for the packages
// themselves: their code calls what is not generated yet.
package load

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/token"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"
)

// OutputName is the file that taskgen writes into each package. A file of that
// name counts as its output whatever is in it, so that neither an empty file
// nor a merge conflict stands in the way of the next run.
const OutputName = "task_gen.go"

// Packages is what one run works on.
type Packages struct {
	Fset *token.FileSet
	// Roots are the packages that were asked for, sorted by path.
	Roots []*packages.Package
	// Sources are the packages that were read from source: the roots, and those
	// dependencies that do not compile, or not yet.
	Sources []*packages.Package
	bodies  *bodies
}

// Load loads the packages that patterns name, seen from dir. Its error is for
// what has no place in the source; errors in the source are found by
// [Packages.Report].
func Load(ctx context.Context, dir string, patterns []string) (*Packages, error) {
	p := &Packages{Fset: token.NewFileSet(), bodies: &bodies{of: map[*ast.File][]*ast.BlockStmt{}, broken: map[*ast.File]bool{}}}
	flags, done, err := withoutOutput(ctx, dir, patterns)
	if err != nil {
		return nil, err
	}
	defer done()
	roots, err := packages.Load(&packages.Config{
		Context: ctx,
		Dir:     dir,
		Fset:    p.Fset,
		Mode: packages.NeedName | packages.NeedFiles | packages.NeedCompiledGoFiles | packages.NeedImports |
			packages.NeedTypes | packages.NeedSyntax | packages.NeedTypesInfo | packages.NeedExportFile |
			packages.NeedModule,
		ParseFile:  p.bodies.parseFile,
		BuildFlags: flags,
	}, patterns...)
	if err != nil {
		return nil, fmt.Errorf("load packages: %w", err)
	}
	if len(roots) == 0 {
		return nil, fmt.Errorf("no packages match %s", strings.Join(patterns, " "))
	}
	for _, root := range roots {
		if root.PkgPath == "command-line-arguments" {
			return nil, errors.New("name packages, not files: taskgen writes one file for a whole package")
		}
	}
	p.Roots = roots
	byPath := func(a, b *packages.Package) int { return cmp.Compare(a.ID, b.ID) }
	slices.SortFunc(p.Roots, byPath)
	packages.Visit(p.Roots, nil, func(pkg *packages.Package) {
		if pkg.TypesInfo != nil && (len(pkg.Syntax) > 0 || slices.Contains(p.Roots, pkg)) {
			p.Sources = append(p.Sources, pkg)
		}
	})
	slices.SortFunc(p.Sources, byPath)
	return p, nil
}

// Modules returns the function that says which module, as "path@version", the
// package of a path is from. It is "" for what moves together with the roots or
// with Go: the standard library, and modules that are read from a directory.
func (p *Packages) Modules() func(path string) string {
	modules := map[string]string{}
	packages.Visit(p.Roots, nil, func(pkg *packages.Package) {
		m := pkg.Module
		if m != nil && m.Replace != nil {
			m = m.Replace
		}
		if m != nil && !m.Main && m.Version != "" {
			modules[pkg.PkgPath] = m.Path + "@" + m.Version
		}
	})
	return func(path string) string { return modules[path] }
}

// Bodies returns the function bodies of file, which are not type-checked and no
// longer part of its syntax tree.
func (p *Packages) Bodies(file *ast.File) []*ast.BlockStmt { return p.bodies.of[file] }

// Whole returns the files of pkg that have no syntax errors. What is left of the
// others would only give rise to errors that follow from the first.
func (p *Packages) Whole(pkg *packages.Package) []*ast.File {
	return slices.DeleteFunc(slices.Clone(pkg.Syntax), func(f *ast.File) bool { return p.bodies.broken[f] })
}
