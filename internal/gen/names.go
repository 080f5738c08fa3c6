package gen

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"strings"

	"github.com/pawlgo/pawl/internal/gen/diag"
	"github.com/pawlgo/pawl/internal/gen/render"
)

// checkNames adds an error for each generated name that meets another, or one
// that the package has already.
func (u *unit) checkNames() {
	own := u.ownNames()
	imports := u.importNames()
	first := map[string]render.Name{}
	for _, n := range render.Names(u.tasks) {
		if before, ok := first[n.Name]; ok {
			a, b := before, n
			if b.Pos < a.Pos {
				a, b = b, a
			}
			if a.Of != b.Of || a.Pos != b.Pos {
				u.errorf(diag.Name)(b.Pos, "the generated name %s of %s is also that of %s at %s: rename one of them", n.Name, b.Of, a.Of, u.at(a.Pos))
			}
			continue
		}
		first[n.Name] = n
		if pos, ok := own[n.Name]; ok {
			u.meets(n, pos, "the package declares it")
		}
		if pos, ok := imports[n.Name]; ok {
			u.meets(n, pos, "a file imports a package under it")
		}
	}
}

// checkKinds adds an error for each kind that is declared twice.
func (u *unit) checkKinds() {
	kinds := map[string]*render.Task{}
	for _, t := range u.tasks {
		p := t.Policy
		if p.Kind == "" {
			continue
		}
		if before, ok := kinds[p.Kind]; ok {
			a, b := before, t
			if b.Policy.KindPos < a.Policy.KindPos {
				a, b = b, a
			}
			u.errorf(diag.Name)(b.Policy.KindPos, "the kind %s of %s is also that of %s at %s: give one of them another with //task:%s NAME",
				p.Kind, b.Name, a.Name, u.at(a.Policy.KindPos), nameDirective(p.Event))
			continue
		}
		kinds[p.Kind] = t
	}
}

// nameDirective is the directive that names an event or a task.
func nameDirective(event bool) string {
	if event {
		return "event"
	}
	return "kind"
}

// claim is the first place in a run that names a kind, or an old one.
type claim struct {
	by    *unit
	task  string
	pos   token.Pos
	alias bool
}

func (c claim) what() string {
	if c.alias {
		return "alias"
	}
	return "kind"
}

// claimKinds adds the kinds of u, and the old ones that it accepts, to those of
// the packages before it in the run, and an error for each that another package
// has already. Workers take jobs by kind and shape: one that serves either package
// would run jobs of both, with the wrong handler.
func (u *unit) claimKinds(kinds map[string]claim) {
	add := func(kind string, c claim) {
		before, ok := kinds[kind]
		if kind == "" || ok && before.by == u { // within a package, checkKinds and package evolve see to it
			return
		}
		if !ok {
			kinds[kind] = c
			return
		}
		remedy := "give one of them another with //task:" + nameDirective(strings.Contains(kind, ".")) + " NAME"
		if c.alias || before.alias {
			remedy = "leave the alias to the task whose jobs these are"
		}
		u.errorf(diag.Name)(c.pos, "the %s %s of %s is also the %s of %s.%s at %s, and a worker with either would take the jobs of both: %s, or run taskgen for each package by itself if they never share a database",
			c.what(), kind, c.task, before.what(), before.by.pkg.Name, before.task, u.at(before.pos), remedy)
	}
	for _, t := range u.tasks {
		add(t.Policy.Kind, claim{u, t.Name, t.Policy.KindPos, false})
		for _, a := range t.Policy.Aliases {
			add(a.Kind, claim{u, t.Name, a.Pos, true})
		}
	}
}

func (u *unit) meets(n render.Name, pos token.Pos, how string) {
	if n.Pos == token.NoPos {
		u.errorf(diag.Name)(pos, "%s is a name that taskgen generates for %s: rename this one", n.Name, n.Of)
		return
	}
	u.errorf(diag.Name)(n.Pos, "the generated name %s of %s is taken: %s at %s", n.Name, n.Of, how, u.at(pos))
}

// ownNames returns what the package declares without taskgen, tests of the same
// package and files for other systems included.
func (u *unit) ownNames() map[string]token.Pos {
	names := map[string]token.Pos{}
	for _, file := range u.pkgs.Outside(u.pkg) {
		if file.Name.Name == u.pkg.Name {
			for _, id := range topLevel(file.File) {
				names[id.Name] = id.Pos()
			}
		}
	}
	for _, name := range u.pkg.Types.Scope().Names() {
		names[name] = u.pkg.Types.Scope().Lookup(name).Pos()
	}
	return names
}

// importNames returns the names that files of the package have for what they
// import: no package-level name may be the same.
func (u *unit) importNames() map[string]token.Pos {
	names := map[string]token.Pos{}
	for _, file := range u.pkg.Syntax {
		scope := u.pkg.TypesInfo.Scopes[file]
		if scope == nil {
			continue
		}
		for _, name := range scope.Names() {
			pos := scope.Lookup(name).Pos()
			if _, ok := scope.Lookup(name).(*types.PkgName); !ok {
				pos = file.Name.Pos() // of a dot import: the object is elsewhere
				for _, spec := range file.Imports {
					if spec.Name != nil && spec.Name.Name == "." {
						pos = spec.Pos()
					}
				}
			}
			names[name] = pos
		}
	}
	return names
}

func topLevel(file *ast.File) []*ast.Ident {
	var ids []*ast.Ident
	for _, decl := range file.Decls {
		switch decl := decl.(type) {
		case *ast.FuncDecl:
			if decl.Recv == nil {
				ids = append(ids, decl.Name)
			}
		case *ast.GenDecl:
			for _, spec := range decl.Specs {
				switch spec := spec.(type) {
				case *ast.TypeSpec:
					ids = append(ids, spec.Name)
				case *ast.ValueSpec:
					ids = append(ids, spec.Names...)
				}
			}
		}
	}
	return ids
}

// checkPredeclared adds an error for each name of Go's own that the generated
// file uses and the package gives another meaning.
func (u *unit) checkPredeclared(content []byte, own map[string]token.Pos) error {
	file, err := parser.ParseFile(token.NewFileSet(), "", content, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	reported := map[string]bool{}
	ast.Inspect(file, func(n ast.Node) bool {
		id, ok := n.(*ast.Ident)
		if !ok {
			return true
		}
		pos, taken := own[id.Name]
		if taken && types.Universe.Lookup(id.Name) != nil && !reported[id.Name] {
			reported[id.Name] = true
			u.errorf(diag.Name)(pos, "%s has another meaning in this package, but generated code needs Go's own: rename it", id.Name)
		}
		return true
	})
	return nil
}
