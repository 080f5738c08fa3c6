package declare

import (
	"go/ast"
	"go/build"
	"go/build/constraint"
	"io"
	"path/filepath"
	"slices"
	"strings"
)

// constraints adds an error for each task in a file that some builds leave out:
// what taskgen writes would depend on where it runs, and would not compile where
// the task is missing.
func (f *finder) constraints(file *ast.File) {
	format := ""
	switch {
	case f.madeByCgo(file):
		format = usesCgo
	case f.constrained(file):
		format = "%s is declared in a file with a build constraint: declare a task in a file that every build of the package has"
	default:
		return
	}
	for _, t := range f.tasks {
		if file.FileStart <= t.NamePos && t.NamePos < file.FileEnd {
			f.errorf(t.NamePos, format, t.Name)
		}
	}
}

const usesCgo = `%s is declared in a file that imports "C", which a build without cgo leaves out: declare a task in a file without that import`

// madeByCgo reports whether file is what cgo made of one of the user's that
// imports "C". Its positions are those of the user's, its name and its imports
// are not.
func (f *finder) madeByCgo(file *ast.File) bool {
	return !slices.Contains(f.pkg.GoFiles, f.pkgs.Fset.File(file.FileStart).Name())
}

func (f *finder) constrained(file *ast.File) bool {
	for _, group := range file.Comments {
		for _, c := range group.List {
			if c.Pos() < file.Package && constraint.IsGoBuild(c.Text) {
				return true
			}
		}
	}
	// The name constrains as well: a file for no known system matches no such name.
	elsewhere := build.Default
	elsewhere.GOOS, elsewhere.GOARCH = "nowhere", "nothing"
	elsewhere.OpenFile = func(string) (io.ReadCloser, error) {
		return io.NopCloser(strings.NewReader("package p\n")), nil
	}
	dir, name := filepath.Split(f.pkgs.Fset.File(file.FileStart).Name())
	match, err := elsewhere.MatchFile(dir, name)
	return err == nil && !match
}
