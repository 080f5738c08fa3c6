// Package declare finds the tasks that a package declares: exported struct types
// whose only field is an embedded task.Task of a payload type. An event, which
// embeds task.Event, counts among them.
package declare

import (
	"cmp"
	"go/ast"
	"go/token"
	"go/types"
	"slices"

	"github.com/pawlgo/pawl/internal/gen/diag"
	"github.com/pawlgo/pawl/internal/gen/directive"
	"github.com/pawlgo/pawl/internal/gen/load"
	"github.com/pawlgo/pawl/internal/gen/render"
	"github.com/pawlgo/pawl/internal/gen/suggest"
	"golang.org/x/tools/go/packages"
)

// TaskPath is the package whose Task makes a struct a declaration.
const TaskPath = "github.com/pawlgo/pawl/task"

// Task is one declaration.
type Task struct {
	Name    string
	NamePos token.Pos
	// Event is set of an event, which embeds task.Event.
	Event bool
	// Doc is the comment with the directives, or nil.
	Doc *ast.CommentGroup
	// Spec is the declaration.
	Spec *ast.TypeSpec
	// Args is the payload type as the declaration spells it, aliases included;
	// nil where it does not type-check.
	Args    types.Type
	ArgsPos token.Pos
	// Scheduled is the method that makes payloads of a schedule's ticks, or nil.
	Scheduled *types.Func
}

// ScheduledMethod is the one method of the user's that a task may have.
const ScheduledMethod = "ScheduledArgs"

// Find returns the tasks of pkg sorted by name, and adds what is wrong with the
// way they are declared. Such a task is returned all the same, so that its
// directives and its payload are checked in the same run.
func Find(pkgs *load.Packages, pkg *packages.Package, diags *diag.List) []*Task {
	f := finder{pkgs: pkgs, pkg: pkg, info: pkg.TypesInfo, diags: diags}
	for _, file := range pkgs.Whole(pkg) {
		for _, decl := range file.Decls {
			gen, ok := decl.(*ast.GenDecl)
			if !ok || gen.Tok != token.TYPE {
				continue
			}
			for _, spec := range gen.Specs {
				f.typeSpec(gen, spec.(*ast.TypeSpec))
			}
		}
		f.insideFunctions(file)
	}
	f.methods()
	for _, file := range pkgs.Whole(pkg) {
		f.strays(file)
		f.constraints(file)
	}
	f.outside()
	slices.SortFunc(f.tasks, func(a, b *Task) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.NamePos, b.NamePos))
	})
	return f.tasks
}

type finder struct {
	pkgs  *load.Packages
	pkg   *packages.Package
	info  *types.Info
	diags *diag.List
	tasks []*Task
}

// HasDirective reports whether there is one of taskgen's in doc.
func HasDirective(doc *ast.CommentGroup) bool {
	return doc != nil && slices.ContainsFunc(doc.List, isDirective)
}

func isDirective(c *ast.Comment) bool {
	d, ok := ast.ParseDirective(c.Slash, c.Text)
	return ok && d.Tool == directive.Tool
}

func (f *finder) errorf(pos token.Pos, format string, args ...any) {
	f.diags.Addf(f.pkgs.Fset.Position(pos), format, args...)
}

// typeSpec adds the task that spec declares, if it does.
func (f *finder) typeSpec(gen *ast.GenDecl, spec *ast.TypeSpec) {
	name := spec.Name.Name
	t := &Task{Name: name, NamePos: spec.Name.Pos(), Spec: spec, Doc: spec.Doc}
	if !gen.Lparen.IsValid() {
		t.Doc = gen.Doc
	}
	structure, ok := ast.Unparen(spec.Type).(*ast.StructType)
	if !ok {
		f.notStruct(t)
		return
	}
	var embedded *ast.Field
	for _, field := range structure.Fields.List {
		expr, pointer := field.Type, false
		if star, ok := ast.Unparen(expr).(*ast.StarExpr); ok {
			expr, pointer = star.X, true
		}
		if !f.isTask(expr) {
			continue
		}
		switch {
		case len(field.Names) > 0:
			f.errorf(field.Names[0].Pos(), "embed %s in %s: a named field declares no task", types.ExprString(expr), name)
		case pointer:
			f.errorf(field.Type.Pos(), "embed %s in %s by value, not by pointer", types.ExprString(expr), name)
		case embedded != nil:
			f.errorf(field.Type.Pos(), "%s embeds two tasks: declare one struct for each", name)
		case embeddedName(expr) == render.KindMethod:
			f.errorf(field.Type.Pos(), "%s embeds a task under the name %s, which taskgen gives to a method: embed task.Task itself", name, render.KindMethod)
		}
		if embedded == nil {
			embedded = field
			t.Event = f.isEvent(expr)
			t.Args, t.ArgsPos = f.payload(expr)
		}
	}
	if embedded == nil {
		return
	}
	for _, field := range structure.Fields.List {
		if field != embedded && !f.isTask(field.Type) {
			f.errorf(field.Pos(), "%s has a field beside the embedded task: what a job carries belongs into its payload", name)
		}
	}
	switch {
	case spec.Assign.IsValid():
		f.errorf(spec.Name.Pos(), "%s is an alias: declare a task as type %s struct{ %s }", name, name, types.ExprString(embedded.Type))
	case !ast.IsExported(name) && t.Event:
		f.errorf(spec.Name.Pos(), "%s is not exported: an event is an exported type, since the function that publishes it is", name)
	case !ast.IsExported(name):
		f.errorf(spec.Name.Pos(), "%s is not exported: a task is an exported type, since its enqueue functions are", name)
	}
	if spec.TypeParams != nil {
		f.errorf(spec.TypeParams.Pos(), "%s has type parameters: declare one task for each payload", name)
	}
	f.tasks = append(f.tasks, t)
}

// notStruct looks at a declaration that is no struct but might want to be a task.
func (f *finder) notStruct(t *Task) {
	if t.Event = f.isEvent(t.Spec.Type); f.isTask(t.Spec.Type) {
		f.errorf(t.Spec.Type.Pos(), "%s is no struct: declare a task as type %s struct{ %s }", t.Name, t.Name, types.ExprString(t.Spec.Type))
		if HasDirective(t.Doc) {
			t.Args, t.ArgsPos = f.payload(t.Spec.Type)
			f.tasks = append(f.tasks, t)
		}
		return
	}
	// A new type made of a task has its structure, and looks like one.
	if t.Spec.Assign.IsValid() {
		return
	}
	structure, ok := f.info.TypeOf(t.Spec.Type).(*types.Named)
	if !ok {
		return
	}
	if u, ok := structure.Underlying().(*types.Struct); ok && u.NumFields() == 1 && u.Field(0).Embedded() && isTaskType(u.Field(0).Type()) {
		f.errorf(t.Spec.Type.Pos(), "%s is made of another task: embed task.Task in it", t.Name)
	}
}

// isTask reports whether expr is Pawl's task.Task or task.Event, under whatever
// name it is imported, with or without a payload that type-checks.
func (f *finder) isTask(expr ast.Expr) bool {
	if isTaskType(f.info.TypeOf(expr)) {
		return true
	}
	expr, _ = splitIndex(expr)
	switch e := ast.Unparen(expr).(type) {
	case *ast.Ident:
		return isTaskObject(f.info.Uses[e])
	case *ast.SelectorExpr:
		// By name where the import failed, which is an error of its own.
		x, _ := e.X.(*ast.Ident)
		qualifier, ok := f.info.Uses[x].(*types.PkgName)
		return ok && qualifier.Imported().Path() == TaskPath && declares(e.Sel.Name)
	}
	return false
}

// declares reports whether a struct that embeds the type of package task with that
// name is a declaration.
func declares(name string) bool { return name == "Task" || name == eventName }

const eventName = "Event"

// isEvent reports whether expr, which may be a task, is an event.
func (f *finder) isEvent(expr ast.Expr) bool {
	x, _ := splitIndex(expr)
	if named, ok := types.Unalias(f.info.TypeOf(expr)).(*types.Named); ok {
		return isTaskType(named) && named.Obj().Name() == eventName
	}
	switch x := ast.Unparen(x).(type) {
	case *ast.Ident:
		obj := f.info.Uses[x]
		return isTaskObject(obj) && obj.Name() == eventName
	case *ast.SelectorExpr:
		return x.Sel.Name == eventName
	}
	return false
}

// payload returns the type argument of expr, a task.Task, and where it stands.
func (f *finder) payload(expr ast.Expr) (types.Type, token.Pos) {
	_, index := splitIndex(expr)
	if index == nil {
		return typeArg(f.info.TypeOf(expr)), expr.Pos()
	}
	// The expression's own type keeps the alias that it names, which may be the
	// only way to spell a type of an internal package.
	t := f.info.TypeOf(index)
	if t == nil || t == types.Typ[types.Invalid] {
		return nil, index.Pos()
	}
	return t, index.Pos()
}

// embeddedName returns the name of a field that embeds expr.
func embeddedName(expr ast.Expr) string {
	x, _ := splitIndex(expr)
	switch x := ast.Unparen(x).(type) {
	case *ast.Ident:
		return x.Name
	case *ast.SelectorExpr:
		return x.Sel.Name
	}
	return ""
}

func splitIndex(expr ast.Expr) (x, index ast.Expr) {
	if e, ok := ast.Unparen(expr).(*ast.IndexExpr); ok {
		return e.X, e.Index
	}
	return expr, nil
}

func typeArg(t types.Type) types.Type {
	if named, ok := types.Unalias(t).(*types.Named); ok && named.TypeArgs().Len() == 1 {
		return named.TypeArgs().At(0)
	}
	return nil
}

func isTaskType(t types.Type) bool {
	if t == nil {
		return false
	}
	named, ok := types.Unalias(t).(*types.Named)
	return ok && isTaskObject(named.Origin().Obj())
}

func isTaskObject(obj types.Object) bool {
	return obj != nil && declares(obj.Name()) && obj.Pkg() != nil && obj.Pkg().Path() == TaskPath
}

// insideFunctions adds an error for each task that is declared in a function.
func (f *finder) insideFunctions(file *ast.File) {
	for _, body := range f.pkgs.Bodies(file) {
		for _, spec := range localTasks(file, body) {
			f.errorf(spec.Name.Pos(), "%s is declared inside a function: declare a task at package level", spec.Name.Name)
		}
	}
}

// methods adds an error for each method of the user's on a task, but for the one
// that a task may have. What taskgen has
// written before may still be there in a file of another name.
func (f *finder) methods() {
	isOurs := func(method *types.Func) bool {
		i := slices.IndexFunc(f.pkg.Syntax, func(file *ast.File) bool {
			return file.FileStart <= method.Pos() && method.Pos() < file.FileEnd
		})
		return method.Name() == render.KindMethod && i >= 0 && ast.IsGenerated(f.pkg.Syntax[i])
	}
	for _, t := range f.tasks {
		obj, ok := f.info.Defs[t.Spec.Name].(*types.TypeName)
		if !ok {
			continue
		}
		named, ok := obj.Type().(*types.Named)
		if !ok {
			continue
		}
		for method := range named.Methods() {
			if isOurs(method) {
				continue
			}
			if method.Name() == ScheduledMethod && !t.Event {
				t.Scheduled = method
				continue
			}
			if !t.Event && suggest.Near(method.Name(), []string{ScheduledMethod}) != "" {
				f.errorf(method.Pos(), "%s has a method %s (did you mean %s?): that is the one method that a task may have", t.Name, method.Name(), ScheduledMethod)
				continue
			}
			f.errorf(method.Pos(), "%s has a method %s: a task is a declaration and never a value", t.Name, method.Name())
		}
	}
}
