package declare

import (
	"fmt"
	"go/ast"
	"go/token"
	"slices"
	"strings"

	"github.com/pawlgo/pawl/internal/gen/directive"
)

// strays adds an error for each directive of file that belongs to no task.
func (f *finder) strays(file *ast.File) {
	docs := map[*ast.CommentGroup]bool{}
	for _, t := range f.tasks {
		docs[t.Doc] = true
	}
	for _, group := range file.Comments {
		if docs[group] {
			continue
		}
		for _, c := range group.List {
			if d, ok := ast.ParseDirective(c.Slash, c.Text); ok && d.Tool == directive.Tool {
				what, place := "task", f.place(file, group)
				if d.Name == "event" {
					what, place = "event", strings.ReplaceAll(place, "task.Task", "task.Event")
				}
				f.errorf(c.Slash, "//task:%s belongs to no %s: %s", d.Name, what, place)
			}
		}
	}
}

// place says where a comment stands that is not the comment of a task.
func (f *finder) place(file *ast.File, group *ast.CommentGroup) string {
	if file.Doc == group {
		return "it is in the comment of the package"
	}
	for _, body := range f.pkgs.Bodies(file) {
		if body.Pos() < group.Pos() && group.End() <= body.End() {
			return "it is inside a function"
		}
	}
	for _, decl := range file.Decls {
		if decl.End() < group.Pos() && f.line(decl.End()) < f.line(group.Pos()) {
			continue
		}
		switch decl := decl.(type) {
		case *ast.FuncDecl:
			if decl.Doc == group {
				return "it is in the comment of the function " + decl.Name.Name
			}
		case *ast.GenDecl:
			if where := f.placeInDecl(decl, group); where != "" {
				return where
			}
		}
		if group.End() < decl.Pos() {
			break
		}
	}
	for _, t := range f.tasks {
		above := t.Spec.Pos()
		if t.Doc != nil {
			above = t.Doc.Pos()
		}
		if t.NamePos > file.FileStart && t.NamePos < file.FileEnd && group.End() < above && f.nothingBetween(file, group.End(), above) {
			return fmt.Sprintf("a blank line parts it from %s", t.Name)
		}
	}
	return "write it into the comment right above a struct that embeds task.Task"
}

var what = map[token.Token]string{token.IMPORT: "an import", token.CONST: "a constant", token.VAR: "a variable"}

func (f *finder) placeInDecl(decl *ast.GenDecl, group *ast.CommentGroup) string {
	if decl.Doc == group {
		switch {
		case decl.Lparen.IsValid():
			return fmt.Sprintf("it is in the comment of a %s (...) group; write it above the type's own line", decl.Tok)
		case decl.Tok == token.TYPE:
			return fmt.Sprintf("%s does not embed task.Task", decl.Specs[0].(*ast.TypeSpec).Name.Name)
		}
		return "it is in the comment of " + what[decl.Tok]
	}
	for _, spec := range decl.Specs {
		switch spec := spec.(type) {
		case *ast.TypeSpec:
			if spec.Doc == group {
				return fmt.Sprintf("%s does not embed task.Task", spec.Name.Name)
			}
		case *ast.ValueSpec:
			if spec.Doc == group {
				return "it is in the comment of " + what[decl.Tok]
			}
		}
		if f.line(spec.Pos()) <= f.line(group.Pos()) && f.line(group.Pos()) <= f.line(spec.End()) {
			return "it is beside or inside a declaration; write it above the type's own line"
		}
	}
	return ""
}

func (f *finder) line(pos token.Pos) int { return f.pkgs.Fset.Position(pos).Line }

// nothingBetween reports whether no declaration stands between two positions.
func (f *finder) nothingBetween(file *ast.File, from, to token.Pos) bool {
	return !slices.ContainsFunc(file.Decls, func(d ast.Decl) bool {
		start := d.Pos()
		return from <= start && start < to && !(start <= to && to <= d.End())
	})
}

// importsC reports whether file uses cgo.
func importsC(file *ast.File) bool {
	return slices.ContainsFunc(file.Imports, func(spec *ast.ImportSpec) bool { return spec.Path.Value == `"C"` })
}

// outside adds an error for each task and each directive in those files of the
// package's directory that taskgen does not generate from.
func (f *finder) outside() {
	for _, file := range f.pkgs.Outside(f.pkg) {
		for _, spec := range localTasks(file.File, file.File) {
			if file.Ignored && importsC(file.File) {
				f.errorf(spec.Name.Pos(), usesCgo, spec.Name.Name)
				continue
			}
			f.errorf(spec.Name.Pos(), "%s is declared in %s: declare a task in a file that every build of the package has", spec.Name.Name, file.Where)
		}
		for _, group := range file.Comments {
			for _, c := range group.List {
				if d, ok := ast.ParseDirective(c.Slash, c.Text); ok && d.Tool == directive.Tool {
					f.errorf(c.Slash, "//task:%s is in %s", d.Name, file.Where)
				}
			}
		}
	}
}
