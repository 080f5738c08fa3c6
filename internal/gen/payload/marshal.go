package payload

import (
	"go/token"
	"go/types"
)

// method is an interface of one method that encoding/json looks for.
type method struct {
	name  string
	iface *types.Interface
}

var (
	bytesType = types.NewSlice(types.Typ[types.Byte])
	errorType = types.Universe.Lookup("error").Type()

	marshalJSON   = newMethod("MarshalJSON", nil, []types.Type{bytesType, errorType})
	marshalText   = newMethod("MarshalText", nil, []types.Type{bytesType, errorType})
	unmarshalJSON = newMethod("UnmarshalJSON", []types.Type{bytesType}, []types.Type{errorType})
	unmarshalText = newMethod("UnmarshalText", []types.Type{bytesType}, []types.Type{errorType})
	stringMethod  = newMethod("String", nil, []types.Type{types.Typ[types.String]})
)

func newMethod(name string, params, results []types.Type) method {
	tuple := func(list []types.Type) *types.Tuple {
		var vars []*types.Var
		for _, t := range list {
			vars = append(vars, types.NewParam(token.NoPos, nil, "", t))
		}
		return types.NewTuple(vars...)
	}
	sig := types.NewSignatureType(nil, nil, nil, tuple(params), tuple(results), false)
	iface := types.NewInterfaceType([]*types.Func{types.NewFunc(token.NoPos, nil, name, sig)}, nil)
	return method{name, iface.Complete()}
}

func implements(t types.Type, m method) bool { return types.Implements(t, m.iface) }

// takenOver returns the embedded field of s, the structure of t, that encodes or
// decodes all of it, and the method that does. Methods for JSON go before those
// for text, as they do in encoding/json.
func takenOver(t types.Type, s *types.Struct) (*types.Var, method) {
	for _, pair := range [][2]method{{marshalJSON, marshalText}, {unmarshalJSON, unmarshalText}} {
		for _, m := range pair {
			if field := promotedFrom(t, s, m); field != nil {
				return field, m
			}
			if implements(types.NewPointer(t), m) {
				break // its own
			}
		}
	}
	return nil, method{}
}

// promotedFrom returns the embedded field of s, the structure of t, that its
// method m comes from; nil where t has no such method or declares it itself.
func promotedFrom(t types.Type, s *types.Struct, m method) *types.Var {
	obj, index, _ := types.LookupFieldOrMethod(t, true, nil, m.name)
	if _, ok := obj.(*types.Func); !ok || len(index) < 2 {
		return nil
	}
	return s.Field(index[0])
}
