package render

import (
	"cmp"
	"fmt"
	"go/token"
	"go/types"
	"slices"

	"github.com/dave/jennifer/jen"
)

// The packages that generated code refers to of its own accord.
const (
	contextPath  = "context"
	strconvPath  = "strconv"
	timePath     = "time"
	taskPath     = "github.com/pawlgo/pawl/task"
	taskimplPath = "github.com/pawlgo/pawl/task/taskimpl"
)

// locals are the names of parameters and variables in generated functions. An
// import of the same name would be hidden by them.
var locals = []string{"args", "ctx", "h", "job", "none", "opts", "raw", "tx", "version"}

// nameImports tells file under which name to import each package. A name that
// the package or the generated code uses for something else is given up for one
// with a number.
func nameImports(file *jen.File, self string, tasks []*Task, taken func(string) bool) {
	type imported struct{ path, name string }
	all := []imported{
		{contextPath, "context"}, {strconvPath, "strconv"}, {timePath, "time"},
		{taskPath, "task"}, {taskimplPath, "taskimpl"},
	}
	var payloads []imported
	for _, t := range tasks {
		eachPackage(t.Args, func(pkg *types.Package) {
			payloads = append(payloads, imported{pkg.Path(), pkg.Name()})
		})
	}
	slices.SortFunc(payloads, func(a, b imported) int { return cmp.Compare(a.path, b.path) })
	used := map[string]bool{}
	seen := map[string]bool{self: true}
	for _, imp := range append(all, payloads...) {
		if seen[imp.path] {
			continue
		}
		seen[imp.path] = true
		name := imp.name
		for n := 2; used[name] || taken(name) || !usable(name); n++ {
			name = fmt.Sprintf("%s%d", imp.name, n)
		}
		used[name] = true
		if name == imp.name {
			file.ImportName(imp.path, name)
		} else {
			file.ImportAlias(imp.path, name)
		}
	}
}

func usable(name string) bool {
	return !slices.Contains(locals, name) && !jen.IsReservedWord(name) && !token.IsKeyword(name) &&
		types.Universe.Lookup(name) == nil && name != "init" && name != "main"
}

// eachPackage calls f for each package that the spelling of t names.
func eachPackage(t types.Type, f func(*types.Package)) {
	named := func(obj *types.TypeName, args *types.TypeList) {
		if obj.Pkg() != nil {
			f(obj.Pkg())
		}
		for arg := range args.Types() {
			eachPackage(arg, f)
		}
	}
	switch t := t.(type) {
	case *types.Alias:
		named(t.Obj(), t.TypeArgs())
	case *types.Named:
		named(t.Obj(), t.TypeArgs())
	case *types.Pointer:
		eachPackage(t.Elem(), f)
	case *types.Slice:
		eachPackage(t.Elem(), f)
	case *types.Array:
		eachPackage(t.Elem(), f)
	case *types.Map:
		eachPackage(t.Key(), f)
		eachPackage(t.Elem(), f)
	}
}

// typeExpr spells t. Payloads are named types, and so are the arguments of
// generic ones or what can be made of named types.
func typeExpr(t types.Type) *jen.Statement {
	named := func(obj *types.TypeName, list *types.TypeList) *jen.Statement {
		s := jen.Id(obj.Name())
		if obj.Pkg() != nil {
			s = jen.Qual(obj.Pkg().Path(), obj.Name())
		}
		var args []jen.Code
		for arg := range list.Types() {
			args = append(args, typeExpr(arg))
		}
		if len(args) > 0 {
			s.Types(args...)
		}
		return s
	}
	switch t := t.(type) {
	case *types.Alias:
		return named(t.Obj(), t.TypeArgs())
	case *types.Named:
		return named(t.Obj(), t.TypeArgs())
	case *types.Basic:
		return jen.Id(t.Name())
	case *types.Pointer:
		return jen.Op("*").Add(typeExpr(t.Elem()))
	case *types.Slice:
		return jen.Index().Add(typeExpr(t.Elem()))
	case *types.Array:
		return jen.Index(jen.Lit(int(t.Len()))).Add(typeExpr(t.Elem()))
	case *types.Map:
		return jen.Map(typeExpr(t.Key())).Add(typeExpr(t.Elem()))
	}
	// Not a spelling that the payload checks let through.
	return jen.Id(types.TypeString(t, nil))
}
