package load

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"sync"
)

// bodies parses files without their function bodies and keeps what it took out.
type bodies struct {
	mu     sync.Mutex // guards the maps while packages are loaded
	of     map[*ast.File][]*ast.BlockStmt
	broken map[*ast.File]bool // files with syntax errors
}

// parseFile leaves out the output of an earlier run, which may be stale, broken
// or missing, and the bodies of functions, which use that output.
func (b *bodies) parseFile(fset *token.FileSet, filename string, src []byte) (*ast.File, error) {
	if filepath.Base(filename) == OutputName {
		return nil, nil
	}
	file, err := parser.ParseFile(fset, filename, src, parser.ParseComments|parser.SkipObjectResolution)
	if file == nil {
		return nil, err
	}
	var taken []*ast.BlockStmt
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			if n.Body != nil {
				taken = append(taken, n.Body)
				n.Body = withoutStatements(n.Body)
			}
		case *ast.FuncLit:
			taken = append(taken, n.Body)
			n.Body = withoutStatements(n.Body)
		}
		return true
	})
	b.mu.Lock()
	defer b.mu.Unlock()
	b.of[file] = taken
	b.broken[file] = err != nil
	return file, err
}

// withoutStatements returns an endless loop in the place of body: the one
// statement that is right in every function, whatever it returns.
func withoutStatements(body *ast.BlockStmt) *ast.BlockStmt {
	return &ast.BlockStmt{Lbrace: body.Lbrace, Rbrace: body.Rbrace, List: []ast.Stmt{
		&ast.ForStmt{For: body.Lbrace, Body: &ast.BlockStmt{Lbrace: body.Lbrace, Rbrace: body.Rbrace}},
	}}
}
