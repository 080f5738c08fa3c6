package shape

import (
	"encoding"
	"encoding/json"
	"reflect"
)

// FromReflect is [FromType] for a type of this program: tests that have both a
// shape and values of its type use it. It does not know of modules.
func FromReflect(t reflect.Type) (*Shape, error) {
	return build(reflectType{t}, t.PkgPath(), nil)
}

// reflectType is a type of reflect.
type reflectType struct{ t reflect.Type }

func (v reflectType) id() any                   { return v.t }
func (v reflectType) kind() reflect.Kind        { return v.t.Kind() }
func (v reflectType) name() (path, name string) { return v.t.PkgPath(), v.t.Name() }
func (v reflectType) elem() view                { return reflectType{v.t.Elem()} }
func (v reflectType) key() view                 { return reflectType{v.t.Key()} }
func (v reflectType) length() int               { return v.t.Len() }

func (v reflectType) members() []member {
	var members []member
	for f := range v.t.Fields() {
		members = append(members, member{f.Name, f.IsExported(), f.Anonymous, f.Tag, reflectType{f.Type}})
	}
	return members
}

var reflectInterfaces = [...]reflect.Type{
	marshalJSON:   reflect.TypeFor[json.Marshaler](),
	marshalText:   reflect.TypeFor[encoding.TextMarshaler](),
	unmarshalJSON: reflect.TypeFor[json.Unmarshaler](),
	unmarshalText: reflect.TypeFor[encoding.TextUnmarshaler](),
}

func (v reflectType) has(m method, addressed bool) bool {
	return v.t.Implements(reflectInterfaces[m]) || addressed && reflect.PointerTo(v.t).Implements(reflectInterfaces[m])
}
