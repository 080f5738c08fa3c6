package render

import (
	"go/token"
	"go/types"
	"strings"

	"github.com/dave/jennifer/jen"
)

// speller writes types as the generated file can name them, and remembers the
// packages that it named.
type speller struct {
	self  string // the path of the file's own package
	taken func(name string) bool
	gone  map[string]bool   // packages that are no more
	named map[string]string // packages: their names by their paths
}

// typ spells t. Aliases are looked through, so that what one stands for is part
// of the spelling. It reports false where the file cannot name something in t.
func (s *speller) typ(t types.Type) (*jen.Statement, bool) {
	if alias, ok := t.(*types.Alias); ok {
		if target, ok := s.typ(types.Unalias(alias)); ok {
			return target, true
		}
		return s.object(alias.Obj(), alias.TypeArgs()) // the only name there is
	}
	switch t := t.(type) {
	case *types.Named:
		return s.object(t.Obj(), t.TypeArgs())
	case *types.Basic:
		if t.Kind() == types.UnsafePointer {
			return s.qualified("unsafe", "unsafe", "Pointer"), true
		}
		return jen.Id(t.Name()), t.Kind() != types.Invalid && !s.taken(t.Name())
	case *types.Pointer:
		return s.around(jen.Op("*"), t.Elem())
	case *types.Slice:
		return s.around(jen.Index(), t.Elem())
	case *types.Array:
		return s.around(jen.Index(jen.Lit(int(t.Len()))), t.Elem())
	case *types.Map:
		key, ok := s.typ(t.Key())
		if !ok {
			return nil, false
		}
		return s.around(jen.Map(key), t.Elem())
	case *types.Chan:
		return s.channel(t)
	case *types.Struct:
		return s.structure(t)
	case *types.Interface:
		return s.interfaceType(t)
	case *types.Signature:
		parts, ok := s.signature(t)
		return jen.Func().Add(parts), ok
	}
	return nil, false
}

func (s *speller) around(prefix *jen.Statement, elem types.Type) (*jen.Statement, bool) {
	e, ok := s.typ(elem)
	return prefix.Add(e), ok
}

func (s *speller) qualified(path, pkg, name string) *jen.Statement {
	if path != s.self {
		s.named[path] = pkg
	}
	return jen.Qual(path, name)
}

// object spells a type with a name.
func (s *speller) object(obj *types.TypeName, list *types.TypeList) (*jen.Statement, bool) {
	predeclared := types.Universe.Lookup(obj.Name()) != nil
	pkg := obj.Pkg()
	var out *jen.Statement
	switch {
	case pkg == nil:
		if s.taken(obj.Name()) {
			return nil, false
		}
		out = jen.Id(obj.Name())
	case pkg.Scope().Lookup(obj.Name()) != obj, !s.reaches(pkg.Path(), pkg.Name(), obj.Name()), pkg.Path() == s.self && predeclared:
		return nil, false
	default:
		out = s.qualified(pkg.Path(), pkg.Name(), obj.Name())
	}
	var args []jen.Code
	for t := range list.Types() {
		arg, ok := s.typ(t)
		if !ok {
			return nil, false
		}
		args = append(args, arg)
	}
	if len(args) > 0 {
		out.Types(args...)
	}
	return out, true
}

// reaches reports whether the file may refer to a name of a package. The name of
// the package is empty where it is not known.
func (s *speller) reaches(path, pkg, name string) bool {
	if path == s.self {
		return true
	}
	if !token.IsExported(name) || pkg == "main" {
		return false
	}
	if i := strings.LastIndex("/"+path+"/", "/internal/"); i >= 0 {
		parent := path[:max(i-1, 0)]
		return parent != "" && strings.HasPrefix(s.self+"/", parent+"/")
	}
	return true
}

func (s *speller) channel(t *types.Chan) (*jen.Statement, bool) {
	elem, ok := s.typ(t.Elem())
	if inner, isChan := types.Unalias(t.Elem()).(*types.Chan); isChan && inner.Dir() == types.RecvOnly {
		elem = jen.Parens(elem) // or its arrow belongs to this one
	}
	switch t.Dir() {
	case types.RecvOnly:
		return jen.Op("<-").Chan().Add(elem), ok
	case types.SendOnly:
		return jen.Chan().Op("<-").Add(elem), ok
	}
	return jen.Chan().Add(elem), ok
}

// structure spells a struct type with its tags, which are part of its identity.
func (s *speller) structure(t *types.Struct) (*jen.Statement, bool) {
	var fields []jen.Code
	for i := range t.NumFields() {
		f := t.Field(i)
		if !f.Exported() && f.Pkg().Path() != s.self {
			return nil, false // names of another package's are others
		}
		if types.Universe.Lookup(f.Name()) != nil && s.taken(f.Name()) {
			return nil, false
		}
		typ, ok := s.field(f)
		if !ok {
			return nil, false
		}
		if tag := t.Tag(i); tag != "" {
			typ.Op(quoteTag(tag))
		}
		fields = append(fields, typ)
	}
	return jen.Struct(fields...), true
}

func (s *speller) field(f *types.Var) (*jen.Statement, bool) {
	if !f.Embedded() {
		typ, ok := s.typ(f.Type())
		return jen.Id(f.Name()).Add(typ), ok
	}
	// The name of an embedded field is that of the type, or of its alias.
	t, prefix := f.Type(), jen.Null()
	if p, ok := t.(*types.Pointer); ok {
		t, prefix = p.Elem(), jen.Op("*")
	}
	var typ *jen.Statement
	var name string
	ok := false
	switch t := t.(type) {
	case *types.Alias:
		name = t.Obj().Name()
		typ, ok = s.object(t.Obj(), t.TypeArgs())
	case *types.Named:
		name = t.Obj().Name()
		typ, ok = s.object(t.Obj(), t.TypeArgs())
	case *types.Basic:
		name = t.Name()
		typ, ok = s.typ(t)
	}
	return prefix.Add(typ), ok && name == f.Name()
}

func (s *speller) interfaceType(t *types.Interface) (*jen.Statement, bool) {
	if !t.IsMethodSet() {
		return nil, false
	}
	var members []jen.Code
	for m := range t.ExplicitMethods() {
		if !m.Exported() && m.Pkg().Path() != s.self {
			return nil, false
		}
		parts, ok := s.signature(m.Signature())
		if !ok {
			return nil, false
		}
		members = append(members, jen.Id(m.Name()).Add(parts))
	}
	for e := range t.EmbeddedTypes() {
		typ, ok := s.typ(e)
		if !ok {
			return nil, false
		}
		members = append(members, typ)
	}
	return jen.Interface(members...), true
}

// signature spells parameters and results.
func (s *speller) signature(t *types.Signature) (*jen.Statement, bool) {
	tuple := func(tuple *types.Tuple, variadic bool) (list []jen.Code, ok bool) {
		for i := range tuple.Len() {
			typ, ok := s.typ(tuple.At(i).Type())
			if variadic && i == tuple.Len()-1 {
				typ, ok = s.around(jen.Op("..."), tuple.At(i).Type().(*types.Slice).Elem())
			}
			if !ok {
				return nil, false
			}
			list = append(list, typ)
		}
		return list, true
	}
	params, ok1 := tuple(t.Params(), t.Variadic())
	results, ok2 := tuple(t.Results(), false)
	return jen.Params(params...).Params(results...), ok1 && ok2
}
