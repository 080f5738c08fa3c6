package render

import (
	"cmp"
	"fmt"
	"go/token"
	"go/types"
	"regexp"
	"slices"
	"strings"

	"github.com/dave/jennifer/jen"
)

// The packages that generated code refers to of its own accord.
const (
	contextPath  = "context"
	strconvPath  = "strconv"
	timePath     = "time"
	pgxPath      = "github.com/jackc/pgx/v5"
	taskPath     = "github.com/pawlgo/pawl/task"
	taskimplPath = "github.com/pawlgo/pawl/task/taskimpl"
)

// locals are the names of parameters and variables in generated functions. An
// import of the same name would be hidden by them, and by those of [localArgs].
var locals = []string{"aggregateID", "args", "ctx", "err", "fact", "h", "job", "none", "opts", "p", "payload", "raw", stale, "tx", "version"}

// packagesByPath are packages of which the types are known.
type packagesByPath map[string]*types.Package

// packagesOf returns the packages of the payloads, and what these import.
func packagesOf(tasks []*Task) packagesByPath {
	all := packagesByPath{}
	var add func(pkg *types.Package)
	add = func(pkg *types.Package) {
		if before := all[pkg.Path()]; before != nil && (before.Complete() || !pkg.Complete()) {
			return
		}
		all[pkg.Path()] = pkg
		for _, imported := range pkg.Imports() {
			add(imported)
		}
	}
	for _, t := range tasks {
		eachPackage(t.Args, add)
	}
	return all
}

// nameImports tells file under which name to import each package: those of the
// payloads, and more by their paths, whose names are empty where they are not
// known. A name that the package or the generated code uses for something else is
// given up for one with a number.
func nameImports(file *jen.File, self string, tasks []*Task, more map[string]string, taken func(string) bool) {
	type imported struct{ path, name string }
	all := []imported{
		{contextPath, "context"}, {strconvPath, "strconv"}, {timePath, "time"},
		{pgxPath, "pgx"}, {taskPath, "task"}, {taskimplPath, "taskimpl"},
	}
	var payloads []imported
	for _, t := range tasks {
		eachPackage(t.Args, func(pkg *types.Package) {
			payloads = append(payloads, imported{pkg.Path(), pkg.Name()})
		})
	}
	for path, name := range more {
		payloads = append(payloads, imported{path, name})
	}
	// Of two that name a package, the one that knows its name.
	slices.SortFunc(payloads, func(a, b imported) int {
		return cmp.Or(cmp.Compare(a.path, b.path), cmp.Compare(b.name, a.name))
	})
	used := map[string]bool{}
	seen := map[string]bool{self: true}
	for _, imp := range append(all, payloads...) {
		if seen[imp.path] {
			continue
		}
		seen[imp.path] = true
		known := imp.name != "" || standard(imp.path, self)
		if imp.name == "" {
			imp.name = guessName(imp.path)
		}
		name := imp.name
		for n := 2; used[name] || taken(name) || !usable(name); n++ {
			name = fmt.Sprintf("%s%d", imp.name, n)
		}
		used[name] = true
		if name == imp.name && known {
			file.ImportName(imp.path, name)
		} else {
			file.ImportAlias(imp.path, name)
		}
	}
}

// standard reports whether a package is of the standard library: the first
// element of its path has no dot, nor is it that of the user's own module.
func standard(path, self string) bool {
	first, _, _ := strings.Cut(path, "/")
	own, _, _ := strings.Cut(self, "/")
	return !strings.Contains(first, ".") && first != own
}

// guessName makes an identifier of the last element of a path that is not the
// number of a major version.
func guessName(path string) string {
	elements := strings.Split(path, "/")
	if n := len(elements); n > 1 && majorVersion.MatchString(elements[n-1]) {
		elements = elements[:n-1]
	}
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return -1
	}, strings.ToLower(elements[len(elements)-1]))
	if name == "" || name[0] <= '9' {
		return "pkg" + name
	}
	return name
}

var majorVersion = regexp.MustCompile(`^v[0-9]+$`)

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
