package load

import (
	"errors"
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/pawlgo/pawl/internal/gen/diag"
	"golang.org/x/tools/go/packages"
)

// A Filter says which of the type checker's errors concern taskgen. The others
// are left to the compiler, which sees them beside the generated code.
type Filter struct {
	// Generated reports whether a run of taskgen declares name in the package.
	Generated func(path, name string) bool
	// Concerns reports whether a declaration or a payload depends on what stands
	// at pos.
	Concerns func(pos token.Pos) bool
}

// Report adds what is wrong with the source: syntax errors, imports that cannot
// be resolved, and those type errors that concern taskgen. The error that it
// returns is for what has no place in the source.
func (p *Packages) Report(dir string, diags *diag.List, f Filter) error {
	var trouble []error
	for _, pkg := range p.Sources {
		for _, e := range pkg.Errors {
			pos := parsePosition(dir, e.Pos)
			switch {
			case e.Kind == packages.TypeError, filepath.Base(pos.Filename) == OutputName:
			case e.Kind == packages.ListError && strings.HasPrefix(e.Msg, "# "):
				// The compiler's own output: the package does not compile, which is
				// what the type checker says as well, and with positions.
			case pos.IsValid():
				diags.Addf(pos, "%s", e.Msg)
			default:
				trouble = append(trouble, fmt.Errorf("%s: %s", pkg.ID, e.Msg))
			}
		}
	}
	p.reportImports(dir, diags)
	for _, pkg := range p.Sources {
		p.reportTypes(diags, pkg, f)
	}
	return errors.Join(trouble...)
}

// reportImports adds the imports that the go command could not find, each once:
// where the go command says, or where that is an old output, at the first file
// that imports it.
func (p *Packages) reportImports(dir string, diags *diag.List) {
	reported := map[*packages.Package]bool{}
	for _, pkg := range p.Sources {
		for _, file := range pkg.Syntax {
			for _, spec := range file.Imports {
				imported := importedBy(pkg, spec)
				if imported == nil || reported[imported] || slices.Contains(p.Sources, imported) {
					continue
				}
				reported[imported] = true
				for _, e := range imported.Errors {
					pos := parsePosition(dir, e.Pos)
					if !pos.IsValid() || filepath.Base(pos.Filename) == OutputName {
						pos = p.Fset.Position(spec.Path.Pos())
					}
					if !diags.HasLine(pos) {
						diags.Addf(pos, "import %s: %s", spec.Path.Value, e.Msg)
					}
				}
			}
		}
	}
}

func importedBy(pkg *packages.Package, spec *ast.ImportSpec) *packages.Package {
	path, err := strconv.Unquote(spec.Path.Value)
	if err != nil {
		return nil
	}
	return pkg.Imports[path]
}

// reportTypes adds the type errors of pkg that concern taskgen: in a package
// that was asked for, those that a payload depends on; in a dependency, all,
// unless it waits for generated names itself or imports what does not compile:
// what follows from a missing name cannot be told from a mistake.
func (p *Packages) reportTypes(diags *diag.List, pkg *packages.Package, f Filter) {
	if HasSyntaxErrors(pkg) {
		return // what follows from those is noise
	}
	var hard []types.Error
	waits := HasBrokenImports(pkg)
	for _, e := range pkg.TypeErrors {
		switch {
		case e.Soft: // unused imports and the like: function bodies are missing
		case p.isGenerated(pkg, e.Pos, f.Generated):
			waits = true
		case isReportedImport(pkg, e.Pos):
		default:
			hard = append(hard, e)
		}
	}
	all := !waits && !slices.Contains(p.Roots, pkg)
	for _, e := range hard {
		if all || f.Concerns(e.Pos) || isImport(pkg, e.Pos) {
			diags.Addf(p.Fset.Position(e.Pos), "%s", e.Msg)
		}
	}
}

// HasSyntaxErrors reports whether a file of pkg, other than the output of an
// earlier run, does not parse.
func HasSyntaxErrors(pkg *packages.Package) bool {
	return slices.ContainsFunc(pkg.Errors, func(e packages.Error) bool {
		return e.Kind == packages.ParseError && filepath.Base(parsePosition("", e.Pos).Filename) != OutputName
	})
}

// HasBrokenImports reports whether pkg imports what cannot be found or has errors.
func HasBrokenImports(pkg *packages.Package) bool {
	return slices.ContainsFunc(slices.Collect(maps.Values(pkg.Imports)), func(imported *packages.Package) bool {
		return len(imported.Errors) > 0
	})
}

// isGenerated reports whether the identifier at pos is undefined only because
// taskgen has not run yet.
func (p *Packages) isGenerated(pkg *packages.Package, pos token.Pos, generated func(path, name string) bool) bool {
	id, qualifier := identAt(pkg, pos)
	if id == nil || pkg.TypesInfo.Uses[id] != nil || pkg.TypesInfo.Defs[id] != nil {
		return false
	}
	if qualifier == nil {
		return generated(pkg.PkgPath, id.Name)
	}
	imported, ok := pkg.TypesInfo.Uses[qualifier].(*types.PkgName)
	return ok && generated(imported.Imported().Path(), id.Name)
}

// identAt returns the identifier at pos, and the X of X.Sel where pos is at Sel
// and X an identifier. Where several identifiers are declared by one field list,
// pos is exact.
func identAt(pkg *packages.Package, pos token.Pos) (id, qualifier *ast.Ident) {
	for _, file := range pkg.Syntax {
		if pos < file.FileStart || pos > file.FileEnd {
			continue
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.SelectorExpr:
				x, ok := n.X.(*ast.Ident)
				if ok && (n.Sel.Pos() == pos || x.Pos() == pos && pkg.TypesInfo.Uses[x] != nil) {
					id, qualifier = n.Sel, x
					return false
				}
			case *ast.Ident:
				if n.Pos() == pos {
					id = n
				}
			}
			return id == nil && n != nil && n.Pos() <= pos && pos < n.End()
		})
	}
	return id, qualifier
}

// isReportedImport reports whether pos is at an import of a package that the go
// command knows: what is wrong with that is reported by itself.
func isReportedImport(pkg *packages.Package, pos token.Pos) bool {
	spec := importAt(pkg, pos)
	return spec != nil && importedBy(pkg, spec) != nil
}

func isImport(pkg *packages.Package, pos token.Pos) bool { return importAt(pkg, pos) != nil }

func importAt(pkg *packages.Package, pos token.Pos) *ast.ImportSpec {
	for _, file := range pkg.Syntax {
		for _, spec := range file.Imports {
			if spec.Pos() <= pos && pos < spec.End() {
				return spec
			}
		}
	}
	return nil
}

var positionPattern = regexp.MustCompile(`^(.+?):(\d+)(?::(\d+))?$`)

// parsePosition reads "file:line:col" as the go command and go/packages write
// it. The zero position stands for anything else.
func parsePosition(dir, s string) token.Position {
	m := positionPattern.FindStringSubmatch(s)
	if m == nil {
		return token.Position{}
	}
	line, _ := strconv.Atoi(m[2])
	column, _ := strconv.Atoi(m[3])
	if !filepath.IsAbs(m[1]) {
		m[1] = filepath.Join(dir, m[1])
	}
	return token.Position{Filename: m[1], Line: line, Column: max(column, 1)}
}
