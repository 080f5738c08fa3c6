package load

import (
	"bytes"
	"go/parser"
	"go/token"
	"strconv"
)

// Foreign reports whether src, the content of a file called [OutputName], is
// code that somebody wrote by hand, and whether that imports path. Anything that
// does not parse, or declares nothing, is what is left of an earlier output.
func Foreign(src []byte, marker, path string) (foreign, imports bool) {
	if bytes.Contains(src, []byte(marker)) {
		return false, false
	}
	file, err := parser.ParseFile(token.NewFileSet(), "", src, parser.SkipObjectResolution)
	if err != nil || len(file.Decls) == 0 {
		return false, false
	}
	for _, spec := range file.Imports {
		if p, err := strconv.Unquote(spec.Path.Value); err == nil && p == path {
			imports = true
		}
	}
	return true, imports
}
