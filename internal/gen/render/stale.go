package render

import (
	"cmp"
	"go/types"
	"reflect"
	"slices"

	"github.com/dave/jennifer/jen"
	"golang.org/x/tools/go/types/typeutil"
)

// stale is what the compiler names where it refuses something.
const stale = "runGoGenerate"

const staleDoc = `// The functions without a name are never called. They state what this file was
// generated from, and stop compiling when a type in a payload changes. An error
// at runGoGenerate says that this file is stale: run go generate.`

// tripwires writes, for each type with a name that a payload reaches, what no
// longer compiles when its part of a payload changes: its structure with its
// tags, its kind, and the methods that encoding/json looks for.
//
// What the file cannot name it passes over, such as a struct of another package
// with unexported fields, and the standard library: it does not change its wire
// forms, and a newer Go may not break what an older one generated.
func tripwires(file *jen.File, tasks []*Task, s *speller) {
	w := watcher{speller: s, aliases: map[string]bool{}}
	for _, t := range tasks {
		w.walk(t.Args)
	}
	slices.SortStableFunc(w.watched, func(a, b *watched) int { return cmp.Compare(a.order, b.order) })
	first := true
	for _, x := range w.watched {
		w.describe(x)
		for _, f := range x.functions {
			if first {
				file.Line().Comment(staleDoc)
				file.Line()
				first = false
			}
			file.Add(f)
		}
	}
}

// watcher finds the types that payloads consist of, as package shape sees them.
type watcher struct {
	speller *speller
	found   typeutil.Map // of types to *watched
	aliases map[string]bool
	watched []*watched
}

// watched is a type with a name.
type watched struct {
	t     types.Type
	expr  *jen.Statement // nil where the file cannot name it
	embed string         // the name of a field that embeds it
	order string
	// structure says that the form of the type counts somewhere, and is that of
	// its structure. marshals are the methods that count.
	structure bool
	marshals  map[string]bool
	functions []jen.Code
}

// meet returns what is known of a type with a name, which t is or is an alias of.
func (w *watcher) meet(t types.Type) *watched {
	named := types.Unalias(t).(*types.Named)
	x, ok := w.found.At(named).(*watched)
	if !ok {
		x = &watched{t: named, order: types.TypeString(named, nil), marshals: map[string]bool{}}
		w.found.Set(named, x)
		w.watched = append(w.watched, x)
	}
	if pkg := named.Obj().Pkg(); x.expr != nil || pkg == nil || standard(pkg.Path(), w.speller.self) {
		return x
	}
	if expr, ok := w.speller.typ(named); ok {
		x.expr, x.embed = expr, named.Obj().Name()
	} else if alias, ok := t.(*types.Alias); ok {
		if expr, ok := w.speller.typ(alias); ok { // the only name there is
			x.expr, x.embed = expr, alias.Obj().Name()
		}
	}
	return x
}

// embedded looks at an embedded field, which is spelled by its alias if it has
// one: what that stands for is not part of the struct's own spelling.
func (w *watcher) embedded(t types.Type) {
	if p, ok := t.(*types.Pointer); ok {
		t = p.Elem()
	}
	alias, ok := t.(*types.Alias)
	if !ok || alias.Obj().Pkg() == nil || standard(alias.Obj().Pkg().Path(), w.speller.self) {
		return
	}
	target, ok1 := w.speller.typ(types.Unalias(alias))
	name, ok2 := w.speller.object(alias.Obj(), alias.TypeArgs())
	if order := types.TypeString(alias, nil); ok1 && ok2 && !w.aliases[order] {
		w.aliases[order] = true
		w.watched = append(w.watched, &watched{order: order, functions: []jen.Code{sameForm(name, target)}})
	}
}

// walk looks at a type whose values are somewhere in a payload.
func (w *watcher) walk(spelled types.Type) {
	t := types.Unalias(spelled)
	if named, ok := t.(*types.Named); ok {
		if pkg := named.Obj().Pkg(); pkg != nil && pkg.Path() == jsonPath {
			return // a Number or a RawMessage, which are what they are
		}
		x := w.meet(spelled)
		if methods := encodes(t, marshalMethods...); len(methods) > 0 {
			for _, m := range methods {
				x.marshals[m] = true
			}
			for arg := range named.TypeArgs().Types() {
				if holds(named.Underlying(), arg, new(typeutil.Map)) {
					w.walk(arg) // what holds a value most likely encodes it in its own form
				}
			}
			return
		}
		if x.structure {
			return
		}
		x.structure = true
	} else if len(encodes(t, marshalMethods...)) > 0 {
		return
	}
	switch u := t.Underlying().(type) {
	case *types.Pointer:
		w.walk(u.Elem())
	case *types.Slice:
		w.walk(u.Elem())
	case *types.Array:
		w.walk(u.Elem())
	case *types.Map:
		w.key(u.Key())
		w.walk(u.Elem())
	case *types.Struct:
		for i := range u.NumFields() {
			f := u.Field(i)
			if !stored(f, u.Tag(i)) {
				continue
			}
			if f.Embedded() {
				w.embedded(f.Type())
			}
			w.walk(f.Type())
		}
	}
}

// holds reports whether a value of the type t has values of the type part in it.
// The argument of a generic type may also be a mere mark, as in ID[User].
func holds(t, part types.Type, seen *typeutil.Map) bool {
	t = types.Unalias(t)
	if seen.Set(t, true) != nil {
		return false
	}
	if types.Identical(t, part) {
		return true
	}
	switch u := t.Underlying().(type) {
	case *types.Pointer:
		return holds(u.Elem(), part, seen)
	case *types.Slice:
		return holds(u.Elem(), part, seen)
	case *types.Array:
		return holds(u.Elem(), part, seen)
	case *types.Map:
		return holds(u.Key(), part, seen) || holds(u.Elem(), part, seen)
	case *types.Struct:
		for f := range u.Fields() {
			if holds(f.Type(), part, seen) {
				return true
			}
		}
	}
	return false
}

// stored reports whether encoding/json looks at a field.
func stored(f *types.Var, tag string) bool {
	if reflect.StructTag(tag).Get("json") == "-" {
		return false
	}
	if f.Exported() {
		return true
	}
	t := f.Type().Underlying()
	if p, ok := t.(*types.Pointer); ok {
		t = p.Elem().Underlying()
	}
	_, ok := t.(*types.Struct)
	return f.Embedded() && ok
}

// key looks at the type of a map's keys, of which encoding/json asks the text
// methods only, and encodes strings as they are.
func (w *watcher) key(t types.Type) {
	named, ok := types.Unalias(t).(*types.Named)
	if !ok {
		return
	}
	x := w.meet(t)
	methods := encodes(named, "UnmarshalText")
	if basic, ok := named.Underlying().(*types.Basic); !ok || basic.Info()&types.IsString == 0 {
		methods = append(methods, encodes(named, "MarshalText")...)
	}
	for _, m := range methods {
		x.marshals[m] = true
	}
	if len(methods) == 0 {
		x.structure = true
	}
}

// encodes returns those of the methods by which values of t encode themselves.
func encodes(t types.Type, methods ...string) []string {
	switch t.Underlying().(type) {
	case *types.Pointer, *types.Interface:
		return nil
	}
	return slices.DeleteFunc(marshalers(t), func(name string) bool { return !slices.Contains(methods, name) })
}

// describe writes what is said of one type.
func (w *watcher) describe(x *watched) {
	if x.expr == nil {
		return
	}
	if underlying, ok := w.speller.typ(x.t.Underlying()); x.structure && ok {
		if _, ok := x.t.Underlying().(*types.Basic); ok {
			x.functions = append(x.functions, sameKind(x.expr, underlying))
		} else {
			x.functions = append(x.functions, sameForm(x.expr, underlying))
		}
	}
	if x.structure {
		if _, ok := x.t.Underlying().(*types.Pointer); !ok && x.embed != "NoMarshal" {
			x.functions = append(x.functions, noMarshaler(x)...)
		}
	}
	var methods []jen.Code
	for _, m := range marshalMethods {
		if x.marshals[m] {
			methods = append(methods, jen.Id(stale).Dot(m))
		}
	}
	if len(methods) > 0 {
		x.functions = append(x.functions, jen.Func().Id("_").Params(jen.Id(stale).Op("*").Add(x.expr)).Block(selectAll(methods)))
	}
}

// sameForm states that a type is another, or has its structure: a value is
// assignable to a struct type without a name only where the fields and the tags
// are the same. It comes from a call so that no lock in it is copied.
func sameForm(t, form jen.Code) jen.Code {
	return jen.Func().Id("_").Params(jen.Id(stale).Func().Params().Add(t)).Add(form).Block(
		jen.Return(jen.Id(stale).Call()))
}

// sameKind states which basic type a type is made of.
func sameKind(t, basic jen.Code) jen.Code {
	return jen.Func().Id("_").Params(jen.Id(stale).Op("*").Add(t)).Op("*").Add(basic).Block(
		jen.Return(jen.Parens(jen.Op("*").Add(basic)).Call(jen.Id(stale))))
}

func selectAll(methods []jen.Code) jen.Code {
	blanks := make([]jen.Code, len(methods))
	for i := range blanks {
		blanks[i] = jen.Id("_")
	}
	return jen.List(blanks...).Op("=").List(methods...)
}

// noMarshaler states that a type has no marshaler.
func noMarshaler(x *watched) []jen.Code {
	var methods []jen.Code
	for _, m := range marshalMethods {
		obj, index, _ := types.LookupFieldOrMethod(x.t, true, nil, m)
		if obj != nil && len(index) == 1 || x.embed == m {
			continue // something else of that name, which would be ambiguous already
		}
		methods = append(methods, jen.Id(stale).Dot(m))
	}
	if len(methods) == 0 {
		return nil
	}
	embedding := jen.Struct(jen.Add(x.expr), jen.Qual(taskimplPath, "NoMarshal"))
	return []jen.Code{jen.Func().Id("_").Params(jen.Id(stale).Op("*").Add(embedding)).Block(selectAll(methods))}
}
