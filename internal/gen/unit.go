package gen

import (
	"context"
	"go/ast"
	"go/token"
	"os"
	"path/filepath"

	"github.com/pawlgo/pawl/internal/gen/declare"
	"github.com/pawlgo/pawl/internal/gen/diag"
	"github.com/pawlgo/pawl/internal/gen/directive"
	"github.com/pawlgo/pawl/internal/gen/load"
	"github.com/pawlgo/pawl/internal/gen/lock"
	"github.com/pawlgo/pawl/internal/gen/output"
	"github.com/pawlgo/pawl/internal/gen/payload"
	"github.com/pawlgo/pawl/internal/gen/render"
	"golang.org/x/tools/go/packages"
)

// unit is one package on its way through the stages.
type unit struct {
	pkgs    *load.Packages
	pkg     *packages.Package
	diags   *diag.List
	decls   []*declare.Task
	tasks   []*render.Task // beside decls
	checker *payload.Checker
	unknown []unknownType
	lock    []byte // what the lock is to be
	notes   *diag.List
}

// unknownType is a place in a payload whose type did not type-check.
type unknownType struct {
	pos  token.Pos
	path string
}

func newUnit(pkgs *load.Packages, pkg *packages.Package, dir string) *unit {
	u := &unit{pkgs: pkgs, pkg: pkg, diags: diag.New(dir), notes: diag.New(dir)}
	sources := map[*token.File]bool{}
	for _, p := range pkgs.Sources {
		for _, file := range p.Syntax {
			sources[pkgs.Fset.File(file.FileStart)] = true
		}
	}
	u.checker = &payload.Checker{
		Package: pkg.Types,
		Source:  func(pos token.Pos) bool { return sources[pkgs.Fset.File(pos)] },
		Errorf:  u.errorf(diag.Payload),
		Invalid: func(pos token.Pos, path string) { u.unknown = append(u.unknown, unknownType{pos, path}) },
	}
	return u
}

// errorf returns where errors of one code go.
func (u *unit) errorf(code diag.Code) func(pos token.Pos, format string, args ...any) {
	diags := u.diags.As(code)
	return func(pos token.Pos, format string, args ...any) {
		diags.Addf(u.pkgs.Fset.Position(pos), format, args...)
	}
}

// fieldErrorf adds an error about a field that a directive names.
func (u *unit) fieldErrorf(f directive.Field, format string, args ...any) {
	u.diags.As(diag.Directive).AddSpanf(u.pkgs.Fset.Position(f.Pos), len(f.Name), format, args...)
}

func (u *unit) at(pos token.Pos) string { return u.diags.At(u.pkgs.Fset.Position(pos)) }

// find finds the tasks and reads their directives.
func (u *unit) find() {
	u.decls = declare.Find(u.pkgs, u.pkg, u.diags.As(diag.Declaration))
	report := directive.Reporter{Errorf: u.errorf(diag.Directive), At: u.at, LineStart: func(pos token.Pos, n int) token.Pos {
		file := u.pkgs.Fset.File(pos)
		return file.LineStart(file.PositionFor(pos, false).Line + n)
	}}
	for _, d := range u.decls {
		read := directive.Read
		if d.Event {
			read = directive.ReadEvent
		}
		u.tasks = append(u.tasks, &render.Task{
			Name: d.Name, NamePos: d.NamePos, Args: d.Args,
			Policy: read(d.Doc, d.Name, d.NamePos, report),
		})
	}
}

// declares reports whether the generated file declares name, or may do so.
func (u *unit) declares(name string) bool { return render.Declares(u.tasks, name) }

// check checks the payloads and the fields that directives name.
func (u *unit) check() {
	for i, t := range u.tasks {
		pos := u.decls[i].ArgsPos
		if t.Args == nil {
			u.unknown = append(u.unknown, unknownType{pos, "the payload of " + t.Name})
			continue
		}
		u.checker.Check(t.Args, pos)
		for _, f := range t.Policy.Fields {
			if _, message := u.checker.Field(t.Args, f.Name); message != "" {
				u.fieldErrorf(f, "%s", message)
			}
		}
		u.order(t)
		u.organization(t)
		u.redact(t)
		u.schedule(t, u.decls[i])
		u.fact(t)
	}
	u.checkKinds()
	u.checkOldOutput()
}

// order finds the members of the stored JSON that the order key is made from: the
// database makes it, so that plain SQL gets the same.
func (u *unit) order(t *render.Task) {
	for _, f := range t.Policy.Order {
		member, message := u.checker.Member(t.Args, f.Name)
		if message != "" {
			u.fieldErrorf(f, "%s", message)
			continue
		}
		t.Order = append(t.Order, member)
	}
}

func (u *unit) organization(t *render.Task) {
	f := t.Policy.Organization
	if f == nil {
		return
	}
	typ, message := u.checker.Field(t.Args, f.Name)
	if message != "" {
		u.fieldErrorf(*f, "%s", message)
		return
	}
	var ok bool
	if t.Organization, ok = payload.Organization(typ); !ok {
		u.fieldErrorf(*f, "%s is of the type %s, which names no organization: use a string, an integer, a uuid.UUID, or a type with MarshalText or String",
			f.Name, u.checker.TypeName(typ))
	}
	if payload.StoredAs(typ, t.Organization) {
		t.OrganizationField, _ = u.checker.Member(t.Args, f.Name)
	}
}

// redact finds what is not to be shown of a payload.
func (u *unit) redact(t *render.Task) {
	if !u.diags.Empty() {
		return // the payload may not be one
	}
	t.Redact = u.checker.Redacted(t.Args)
	if f := t.Policy.Organization; f != nil && t.OrganizationField != "" && payload.Hidden(t.Redact, t.OrganizationField) {
		u.fieldErrorf(*f, "%s is tagged task:\"redact\", and the organization of a job is shown beside its payload: tag it no more, or name another field", f.Name)
	}
}

// fact adds a note where the name of an event reads like a command: whoever is to
// do something is a task.
func (u *unit) fact(t *render.Task) {
	if !t.Policy.Event || t.Policy.Kind == "" {
		return
	}
	if !directive.Fact(t.Policy.Kind) {
		u.notes.As(diag.Directive).Addf(u.pkgs.Fset.Position(t.Policy.KindPos),
			"%s reads like a command, and an event is a fact: name it in the past tense, such as trip.completed or mail.sent, or declare a task", t.Policy.Kind)
	}
}

// concerns reports whether a task or a payload of u depends on the declaration
// at pos.
func (u *unit) concerns(pos token.Pos) bool {
	for _, d := range u.decls {
		if d.Spec.Pos() <= pos && pos < d.Spec.End() {
			return true
		}
	}
	for _, pkg := range u.pkgs.Sources {
		for _, file := range pkg.Syntax {
			if pos < file.FileStart || file.FileEnd < pos {
				continue
			}
			for _, decl := range file.Decls {
				if gen, ok := decl.(*ast.GenDecl); ok && gen.Tok == token.TYPE {
					for _, spec := range gen.Specs {
						spec := spec.(*ast.TypeSpec)
						if spec.Pos() <= pos && pos < spec.End() {
							return u.checker.Reached(pkg.TypesInfo.Defs[spec.Name]) ||
								declare.HasDirective(spec.Doc) || declare.HasDirective(gen.Doc)
						}
					}
				}
			}
		}
	}
	return false
}

// reportUnknown adds an error for what has no type in a payload, where the type
// checker's own is not reported: such a name is one that taskgen generates.
func (u *unit) reportUnknown(reported *diag.List) {
	if !reported.Empty() && (load.HasSyntaxErrors(u.pkg) || load.HasBrokenImports(u.pkg)) {
		return // it follows from those
	}
	for _, unknown := range u.unknown {
		if pos := u.pkgs.Fset.Position(unknown.pos); !u.diags.HasLine(pos) && !reported.HasLine(pos) {
			u.errorf(diag.Payload)(unknown.pos, "%s: its type is unknown before taskgen has run: a payload cannot use what taskgen generates", unknown.path)
		}
	}
}

// checkOldOutput adds an error where a file of the user's is in the place of the
// output, or an old output in the place of one of the user's.
func (u *unit) checkOldOutput() {
	path := filepath.Join(u.pkg.Dir, load.OutputName)
	if src, err := os.ReadFile(path); err == nil {
		foreign, imports := load.Foreign(src, render.Marker, declare.TaskPath)
		if foreign && (imports || len(u.tasks) > 0) {
			u.diags.As(diag.Name).Addf(token.Position{Filename: path, Line: 1, Column: 1},
				"taskgen writes this file, but what is in it was written by hand: move it to a file of another name")
		}
	}
	for _, file := range u.pkg.Syntax {
		if first := file.Comments; len(first) > 0 && first[0].Pos() == file.FileStart && first[0].List[0].Text == render.Marker {
			u.errorf(diag.Name)(file.FileStart, "this is output of taskgen in a file of another name than %s: remove it", load.OutputName)
		}
	}
}

// files returns what is to be on disk, but for errors that only generated code
// shows.
func (u *unit) files(ctx context.Context) ([]output.File, error) {
	content, err := u.render(ctx)
	if err != nil {
		return nil, err
	}
	files := []output.File{{Path: filepath.Join(u.pkg.Dir, lock.Name), Content: u.lock}}
	path := filepath.Join(u.pkg.Dir, load.OutputName)
	if src, err := os.ReadFile(path); err == nil && content == nil {
		if foreign, _ := load.Foreign(src, render.Marker, declare.TaskPath); foreign {
			return files, nil // another tool's, or the user's: not ours to remove
		}
	}
	return append(files, output.File{Path: path, Content: content}), nil
}

// render returns the generated file, or nil where there is nothing to generate,
// or not yet.
func (u *unit) render(ctx context.Context) ([]byte, error) {
	if len(u.tasks) == 0 || len(u.unknown) > 0 {
		return nil, nil
	}
	own := u.ownNames()
	p := &render.Package{
		Path: u.pkg.PkgPath, Name: u.pkg.Name, Tasks: u.tasks,
		Taken: func(name string) bool { _, taken := own[name]; return taken },
	}
	var err error
	if p.Gone, err = u.gone(ctx, render.Strangers(p)); err != nil {
		return nil, err
	}
	content, err := render.File(p)
	if err != nil {
		return nil, err
	}
	return content, u.checkPredeclared(content, own)
}
