package declare

import (
	"go/ast"
	"path"
	"strconv"
)

// localTasks returns the struct types under node that embed task.Task, told by
// syntax alone: there are no types inside functions, in tests and in files that
// the build leaves out.
func localTasks(file *ast.File, node ast.Node) []*ast.TypeSpec {
	name := taskImport(file)
	if name == "" {
		return nil
	}
	var found []*ast.TypeSpec
	ast.Inspect(node, func(n ast.Node) bool {
		spec, ok := n.(*ast.TypeSpec)
		if !ok {
			return true
		}
		structure, ok := spec.Type.(*ast.StructType)
		if !ok {
			return true
		}
		for _, field := range structure.Fields.List {
			x, index := splitIndex(field.Type)
			if len(field.Names) == 0 && index != nil && isTaskName(x, name) {
				found = append(found, spec)
				break
			}
		}
		return true
	})
	return found
}

// taskImport returns the name under which file imports package task, "." for a
// dot import, "" for none.
func taskImport(file *ast.File) string {
	for _, spec := range file.Imports {
		if p, err := strconv.Unquote(spec.Path.Value); err != nil || p != TaskPath {
			continue
		}
		if spec.Name != nil {
			return spec.Name.Name
		}
		return path.Base(TaskPath)
	}
	return ""
}

func isTaskName(x ast.Expr, imported string) bool {
	switch x := x.(type) {
	case *ast.Ident:
		return imported == "." && declares(x.Name)
	case *ast.SelectorExpr:
		qualifier, ok := x.X.(*ast.Ident)
		return ok && qualifier.Name == imported && declares(x.Sel.Name)
	}
	return false
}
