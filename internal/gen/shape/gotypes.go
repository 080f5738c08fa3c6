package shape

import (
	"fmt"
	"go/token"
	"go/types"
	"reflect"
	"strconv"
	"strings"
)

// FromType returns the shape of the payload t of a task in package pkg. modules
// says which module, as "path@version", the package with that path is from; it
// returns the empty string where the wire form of the package's types is not
// expected to change by itself, such as for the standard library, and may be nil.
//
// t is expected to have passed the checks of package payload. What has no shape
// is an error, with its path: a type that encoding/json cannot store, and one
// that contains itself without a struct in between.
func FromType(t types.Type, pkg *types.Package, modules func(path string) string) (*Shape, error) {
	return build(typeOf(t), pkg.Path(), modules)
}

// goType is a type of go/types.
type goType struct{ t types.Type }

func typeOf(t types.Type) goType { return goType{types.Unalias(t)} }

func (v goType) id() any { return spell(v.t) }

var basicKinds = map[types.BasicKind]reflect.Kind{
	types.Bool: reflect.Bool,
	types.Int:  reflect.Int, types.Int8: reflect.Int8, types.Int16: reflect.Int16, types.Int32: reflect.Int32, types.Int64: reflect.Int64,
	types.Uint: reflect.Uint, types.Uint8: reflect.Uint8, types.Uint16: reflect.Uint16, types.Uint32: reflect.Uint32, types.Uint64: reflect.Uint64,
	types.Uintptr: reflect.Uintptr,
	types.Float32: reflect.Float32, types.Float64: reflect.Float64,
	types.Complex64: reflect.Complex64, types.Complex128: reflect.Complex128,
	types.String:        reflect.String,
	types.UnsafePointer: reflect.UnsafePointer,
}

func (v goType) kind() reflect.Kind {
	switch u := v.t.Underlying().(type) {
	case *types.Basic:
		return basicKinds[u.Kind()]
	case *types.Pointer:
		return reflect.Pointer
	case *types.Slice:
		return reflect.Slice
	case *types.Array:
		return reflect.Array
	case *types.Map:
		return reflect.Map
	case *types.Struct:
		return reflect.Struct
	case *types.Interface:
		return reflect.Interface
	case *types.Chan:
		return reflect.Chan
	case *types.Signature:
		return reflect.Func
	}
	return reflect.Invalid
}

func (v goType) name() (path, name string) {
	switch t := v.t.(type) {
	case *types.Basic:
		return "", t.Name()
	case *types.Named:
		if pkg := t.Obj().Pkg(); pkg != nil {
			path = pkg.Path()
		}
		return path, t.Obj().Name() + arguments(t.TypeArgs())
	}
	return "", ""
}

func (v goType) elem() view {
	switch u := v.t.Underlying().(type) {
	case *types.Pointer:
		return typeOf(u.Elem())
	case *types.Slice:
		return typeOf(u.Elem())
	case *types.Array:
		return typeOf(u.Elem())
	}
	return typeOf(v.t.Underlying().(*types.Map).Elem())
}

func (v goType) key() view { return typeOf(v.t.Underlying().(*types.Map).Key()) }

func (v goType) length() int { return int(v.t.Underlying().(*types.Array).Len()) }

func (v goType) members() []member {
	s := v.t.Underlying().(*types.Struct)
	members := make([]member, s.NumFields())
	for i := range members {
		f := s.Field(i)
		members[i] = member{f.Name(), f.Exported(), f.Embedded(), reflect.StructTag(s.Tag(i)), typeOf(f.Type())}
	}
	return members
}

func (v goType) has(m method, addressed bool) bool {
	return types.Implements(v.t, interfaces[m]) || addressed && types.Implements(types.NewPointer(v.t), interfaces[m])
}

var interfaces = func() [4]*types.Interface {
	content := types.NewSlice(types.Typ[types.Byte])
	failure := types.Universe.Lookup("error").Type()
	encode, decode := []types.Type{content, failure}, []types.Type{failure}
	return [...]*types.Interface{
		marshalJSON:   oneMethod("MarshalJSON", nil, encode),
		marshalText:   oneMethod("MarshalText", nil, encode),
		unmarshalJSON: oneMethod("UnmarshalJSON", []types.Type{content}, decode),
		unmarshalText: oneMethod("UnmarshalText", []types.Type{content}, decode),
	}
}()

func oneMethod(name string, params, results []types.Type) *types.Interface {
	tuple := func(list []types.Type) *types.Tuple {
		var vars []*types.Var
		for _, t := range list {
			vars = append(vars, types.NewParam(token.NoPos, nil, "", t))
		}
		return types.NewTuple(vars...)
	}
	sig := types.NewSignatureType(nil, nil, nil, tuple(params), tuple(results), false)
	return types.NewInterfaceType([]*types.Func{types.NewFunc(token.NoPos, nil, name, sig)}, nil).Complete()
}

func arguments(list *types.TypeList) string {
	if list.Len() == 0 {
		return ""
	}
	var all []string
	for t := range list.Types() {
		all = append(all, spell(t))
	}
	return "[" + strings.Join(all, ",") + "]"
}

// spell writes a type as reflect does in the names of instantiated types. That
// tells types apart, looks through aliases, and makes both sources agree.
func spell(t types.Type) string {
	switch t := types.Unalias(t).(type) {
	case *types.Named:
		path, name := goType{t}.name()
		if path == "" {
			return name
		}
		return path + "." + name
	case *types.Pointer:
		return "*" + spell(t.Elem())
	case *types.Slice:
		return "[]" + spell(t.Elem())
	case *types.Array:
		return "[" + strconv.FormatInt(t.Len(), 10) + "]" + spell(t.Elem())
	case *types.Map:
		return "map[" + spell(t.Key()) + "]" + spell(t.Elem())
	case *types.Struct:
		var fields []string
		for i := range t.NumFields() {
			f := t.Field(i)
			text := spell(f.Type())
			if !f.Embedded() {
				text = f.Name() + " " + text
			}
			if tag := t.Tag(i); tag != "" {
				text += " " + strconv.Quote(tag)
			}
			fields = append(fields, text)
		}
		if len(fields) == 0 {
			return "struct {}"
		}
		return "struct { " + strings.Join(fields, "; ") + " }"
	default:
		return fmt.Sprint(t)
	}
}
