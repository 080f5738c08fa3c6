package payload

import (
	"fmt"
	"go/types"
	"reflect"
	"strings"

	"github.com/pawlgo/pawl/internal/gen/render"
	"github.com/pawlgo/pawl/internal/gen/shape"
	"github.com/pawlgo/pawl/internal/gen/suggest"
)

// Field finds the field of the payload args that a directive names. The message
// says why there is none, and is empty where there is one.
func (c *Checker) Field(args types.Type, name string) (t types.Type, message string) {
	s, ok := args.Underlying().(*types.Struct)
	if !ok {
		return nil, fmt.Sprintf("%s is no struct and has no field %s", c.TypeName(args), name)
	}
	obj, index, indirect := types.LookupFieldOrMethod(args, true, nil, name)
	field, ok := obj.(*types.Var)
	switch {
	case index != nil && obj == nil:
		return nil, fmt.Sprintf("%s has more than one field %s", c.TypeName(args), name)
	case !ok || !field.Exported():
		names := exportedFields(s)
		return nil, fmt.Sprintf("%s has no exported field %s%s", c.TypeName(args), name, suggest.DidYouMean(name, names))
	case indirect:
		return nil, fmt.Sprintf("%s of %s is reached through an embedded pointer, which may be nil: embed the struct by value", name, c.TypeName(args))
	}
	for step, i := range index {
		if reflect.StructTag(s.Tag(i)).Get("json") == "-" {
			return nil, fmt.Sprintf("%s is left out of the payload by json:\"-\"", name)
		}
		if step < len(index)-1 {
			s = s.Field(i).Type().Underlying().(*types.Struct)
		}
	}
	return field.Type(), ""
}

// Member finds the field of the payload args that a directive names, and returns
// its name in the payload's JSON. The message says why it is no member of that, and
// is empty where it is one.
func (c *Checker) Member(args types.Type, name string) (json, message string) {
	if _, message := c.Field(args, name); message != "" {
		return "", message
	}
	_, index, _ := types.LookupFieldOrMethod(args, true, nil, name)
	if json, ok := shape.Member(args, index); ok {
		return json, ""
	}
	ptr := types.NewPointer(args)
	for _, m := range []method{marshalJSON, marshalText, unmarshalJSON, unmarshalText} {
		if implements(ptr, m) {
			return "", fmt.Sprintf("%s has a method %s, and the database cannot rely on a member %s in what is stored: use a struct without such methods",
				c.TypeName(args), m.name, name)
		}
	}
	s := args.Underlying().(*types.Struct)
	for _, i := range index[:len(index)-1] {
		outer := s.Field(i)
		if inside, _, _ := strings.Cut(reflect.StructTag(s.Tag(i)).Get("json"), ","); inside != "" {
			return "", fmt.Sprintf("%s is stored inside %q, and the database looks for it beside that: embed %s without a JSON name",
				name, inside, c.TypeName(outer.Type()))
		}
		s = outer.Type().Underlying().(*types.Struct)
	}
	return "", fmt.Sprintf("%s is not stored: another field has its JSON name", name)
}

func exportedFields(s *types.Struct) []string {
	var names []string
	for f := range s.Fields() {
		if f.Exported() {
			names = append(names, f.Name())
		}
	}
	return names
}

// Organization says how a value of type t becomes the name of a tenant.
func Organization(t types.Type) (render.Conversion, bool) {
	ptr := types.NewPointer(t)
	b, basic := t.Underlying().(*types.Basic)
	_, named := types.Unalias(t).(*types.Named)
	switch t.Underlying().(type) {
	case *types.Pointer, *types.Interface:
		return 0, false
	}
	switch {
	case implements(ptr, marshalText):
		return render.Text, true
	case basic && b.Info()&types.IsString != 0 && named:
		return render.String, true
	case basic && b.Info()&types.IsString != 0:
		return render.Plain, true
	case implements(ptr, stringMethod):
		return render.Format, true
	case basic && b.Info()&types.IsUnsigned != 0:
		return render.Uint, true
	case basic && b.Info()&types.IsInteger != 0:
		return render.Int, true
	}
	return 0, false
}

// StoredAs reports whether what conversion makes of a value of type t is also its
// text in the stored JSON.
func StoredAs(t types.Type, conversion render.Conversion) bool {
	return conversion != render.Format && !implements(types.NewPointer(t), marshalJSON)
}
