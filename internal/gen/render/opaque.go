package render

import (
	"go/types"
	"strconv"
	"strings"

	"github.com/dave/jennifer/jen"
)

const jsonPath = "encoding/json"

// opaque spells a type that encodes itself, as a shape names it. It reports false
// where the file cannot name that type, or where the type is known to be gone or
// to encode itself no longer.
func (s *speller) opaque(ref string, known map[string]*types.Package) (*jen.Statement, bool) {
	r := refReader{s: s, known: known, rest: ref, outermost: true}
	typ, ok := r.typ()
	return typ, ok && r.rest == ""
}

// refReader reads the name of a type with the paths of packages and with type
// arguments, such as example.com/opt.Of[[]int].
type refReader struct {
	s         *speller
	known     map[string]*types.Package
	rest      string
	outermost bool
}

func (r *refReader) next(prefix string) (ok bool) {
	r.rest, ok = strings.CutPrefix(r.rest, prefix)
	return ok
}

func (r *refReader) typ() (*jen.Statement, bool) {
	outermost := r.outermost
	r.outermost = false
	switch {
	case r.next("*"):
		return r.around(jen.Op("*"))
	case r.next("[]"):
		return r.around(jen.Index())
	case r.next("map["):
		key, ok := r.typ()
		if !ok || !r.next("]") {
			return nil, false
		}
		return r.around(jen.Map(key))
	case r.next("["):
		length, rest, _ := strings.Cut(r.rest, "]")
		n, err := strconv.Atoi(length)
		if err != nil {
			return nil, false
		}
		r.rest = rest
		return r.around(jen.Index(jen.Lit(n)))
	}
	end := strings.IndexAny(r.rest, "[],")
	if end < 0 {
		end = len(r.rest)
	}
	name := r.rest[:end]
	r.rest = r.rest[end:]
	out, ok := r.name(name, outermost)
	if !ok || !r.next("[") {
		return out, ok
	}
	var args []jen.Code
	for {
		arg, ok := r.typ()
		if !ok {
			return nil, false
		}
		args = append(args, arg)
		if r.next("]") {
			return out.Types(args...), true
		}
		if !r.next(",") {
			return nil, false
		}
	}
}

func (r *refReader) around(prefix *jen.Statement) (*jen.Statement, bool) {
	elem, ok := r.typ()
	return prefix.Add(elem), ok
}

func (r *refReader) name(name string, encodesItself bool) (*jen.Statement, bool) {
	dot := strings.LastIndexByte(name, '.')
	if dot < 0 {
		_, ok := types.Universe.Lookup(name).(*types.TypeName)
		return jen.Id(name), ok && !r.s.taken(name)
	}
	path, name := name[:dot], name[dot+1:]
	pkg := r.known[path]
	pkgName := ""
	if pkg != nil {
		pkgName = pkg.Name()
	}
	if !r.s.reaches(path, pkgName, name) || r.s.gone[path] {
		return nil, false
	}
	if pkg != nil && pkg.Complete() {
		obj, ok := pkg.Scope().Lookup(name).(*types.TypeName)
		if !ok || encodesItself && path != jsonPath && len(marshalers(obj.Type())) == 0 {
			return nil, false
		}
	}
	return r.s.qualified(path, pkgName, name), true
}

// marshalMethods are what encoding/json looks for.
var marshalMethods = []string{"MarshalJSON", "MarshalText", "UnmarshalJSON", "UnmarshalText"}

// marshalers returns those of marshalMethods that t or a pointer to it has.
func marshalers(t types.Type) []string {
	var names []string
	for _, name := range marshalMethods {
		if obj, _, _ := types.LookupFieldOrMethod(t, true, nil, name); isMethod(obj) {
			names = append(names, name)
		}
	}
	return names
}

func isMethod(obj types.Object) bool {
	f, ok := obj.(*types.Func)
	if !ok {
		return false
	}
	sig := f.Signature()
	if strings.HasPrefix(f.Name(), "Unmarshal") {
		return isTuple(sig.Params(), "[]byte") && isTuple(sig.Results(), "error")
	}
	return isTuple(sig.Params()) && isTuple(sig.Results(), "[]byte", "error")
}

func isTuple(tuple *types.Tuple, want ...string) bool {
	if tuple.Len() != len(want) {
		return false
	}
	byName := map[string]types.Type{
		"[]byte": types.NewSlice(types.Typ[types.Byte]),
		"error":  types.Universe.Lookup("error").Type(),
	}
	for i, name := range want {
		if !types.Identical(tuple.At(i).Type(), byName[name]) {
			return false
		}
	}
	return true
}
