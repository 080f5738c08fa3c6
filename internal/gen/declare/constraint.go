package declare

import (
	"go/ast"
	"go/build"
	"go/build/constraint"
	"io"
	"path/filepath"
	"strings"
)

// constraints adds an error for each task in a file that some builds leave out:
// what taskgen writes would depend on where it runs, and would not compile where
// the task is missing.
func (f *finder) constraints(file *ast.File) {
	if !f.constrained(file) {
		return
	}
	for _, t := range f.tasks {
		if file.FileStart <= t.NamePos && t.NamePos < file.FileEnd {
			f.errorf(t.NamePos, "%s is declared in a file with a build constraint: declare a task in a file that every build of the package has", t.Name)
		}
	}
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
