package load

import (
	"go/ast"
	"go/parser"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"
)

// Outside is a file beside a package's own: taskgen generates nothing from it,
// but its names may meet generated ones.
type Outside struct {
	*ast.File
	Where   string // "a test file", ...
	Ignored bool   // the current build leaves it out
}

// Outside parses the tests of pkg and the files that the current build leaves
// out. What does not parse is passed over: it is none of taskgen's business.
func (p *Packages) Outside(pkg *packages.Package) []Outside {
	entries, err := os.ReadDir(pkg.Dir)
	if err != nil {
		return nil // the package has no directory of its own
	}
	var files []Outside
	for _, e := range entries {
		name := filepath.Join(pkg.Dir, e.Name())
		where, ignored := "", false
		switch {
		case strings.HasSuffix(name, "_test.go"):
			where = "a test file"
		case slices.Contains(pkg.IgnoredFiles, name):
			where, ignored = "a file that this build leaves out", true
		default:
			continue
		}
		file, _ := parser.ParseFile(p.Fset, name, nil, parser.ParseComments|parser.SkipObjectResolution)
		if file != nil {
			files = append(files, Outside{file, where, ignored})
		}
	}
	return files
}
