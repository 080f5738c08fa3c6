package shape_test

import (
	"encoding"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawlgo/pawl/internal/gen/shape"
)

// TestShapesAreWhatIsWritten holds the shape of each payload against what
// encoding/json writes for a value without zeros.
func TestShapesAreWhatIsWritten(t *testing.T) {
	t.Parallel()
	for name, typ := range payloads {
		requireWritten(t, name, typ)
	}
}

// TestEmbeddingIsWhatIsWritten does the same for random structs in structs, whose
// fields hide one another in every way.
func TestEmbeddingIsWhatIsWritten(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	for range 3000 {
		typ := embedding(r, 3)
		requireWritten(t, fmt.Sprint(typ), typ)
	}
}

func embedding(r *rand.Rand, depth int) reflect.Type {
	var fields []reflect.StructField
	for _, name := range []string{"A", "B", "C", "D"} {
		f := reflect.StructField{Name: name, Type: reflect.TypeFor[int]()}
		switch r.IntN(6) {
		case 0:
			continue
		case 1:
			f.Tag = reflect.StructTag(fmt.Sprintf(`json:"%c"`, 'A'+rune(r.IntN(4))))
		case 2, 3, 4:
			if depth == 0 {
				break
			}
			f.Type, f.Anonymous = embedding(r, depth-1), true
			if r.IntN(2) == 0 {
				f.Type = reflect.PointerTo(f.Type)
			}
			if r.IntN(6) == 0 {
				f.Tag = `json:"C,omitempty"`
			}
		}
		fields = append(fields, f)
	}
	return reflect.StructOf(fields)
}

func requireWritten(t *testing.T, name string, typ reflect.Type) {
	t.Helper()
	s, err := shape.FromReflect(typ)
	require.NoError(t, err, name)
	v := reflect.New(typ)
	fill(v.Elem(), 4)
	raw, err := json.Marshal(v.Interface())
	require.NoError(t, err, name)
	var written any
	require.NoError(t, json.Unmarshal(raw, &written), name)
	require.NoError(t, describes(s, s.Root, false, written), "%s: %s", name, raw)
}

// fill gives v a value without zeros, down to some depth.
func fill(v reflect.Value, depth int) {
	if depth < 0 || !v.CanSet() && v.Kind() != reflect.Struct {
		return
	}
	if v.CanAddr() && v.Addr().CanInterface() {
		switch v.Addr().Interface().(type) {
		case json.Marshaler, encoding.TextMarshaler:
			return // its zero value will do
		}
	}
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(true)
	case reflect.String:
		v.SetString("7")
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), depth-1)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), depth-1)
	case reflect.Array:
		for i := range v.Len() {
			fill(v.Index(i), depth-1)
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		key, elem := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key, depth-1)
		fill(elem, depth-1)
		v.SetMapIndex(key, elem)
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i), depth)
		}
	default:
		if v.CanInt() {
			v.SetInt(1)
		} else if v.CanUint() {
			v.SetUint(1)
		} else {
			v.SetFloat(1.5)
		}
	}
}

// describes reports where a decoded value is not what the node says.
func describes(s *shape.Shape, n shape.Node, quoted bool, value any) error {
	if value == nil {
		switch n.Kind {
		case shape.Pointer, shape.Slice, shape.Map, shape.Bytes, shape.Raw, shape.Opaque:
			return nil
		}
		return fmt.Errorf("null for a %s", n.Kind)
	}
	ok := true
	switch n.Kind {
	case shape.Opaque, shape.Raw:
	case shape.Pointer:
		return describes(s, *n.Elem, quoted, value)
	case shape.Bytes:
		_, ok = value.(string)
	case shape.String:
		_, ok = value.(string)
	case shape.Bool:
		_, ok = value.(bool)
	case shape.Slice, shape.Array:
		var list []any
		if list, ok = value.([]any); ok {
			if n.Kind == shape.Array && len(list) != n.Len {
				return fmt.Errorf("%d elements for %d", len(list), n.Len)
			}
			for i, e := range list {
				if err := describes(s, *n.Elem, false, e); err != nil {
					return fmt.Errorf("[%d]: %w", i, err)
				}
			}
		}
	case shape.Map:
		var object map[string]any
		if object, ok = value.(map[string]any); ok {
			for key, e := range object {
				if err := describes(s, *n.Elem, false, e); err != nil {
					return fmt.Errorf("%s: %w", key, err)
				}
			}
		}
	case shape.Struct:
		var object map[string]any
		if object, ok = value.(map[string]any); ok {
			names := []string{}
			for _, f := range s.Structs[n.Ref].Fields {
				member, there := object[f.JSON]
				if !there && (f.OmitEmpty || f.OmitZero) {
					continue
				}
				names = append(names, f.JSON)
				if err := describes(s, f.Type, f.Quoted, member); err != nil {
					return fmt.Errorf("%s: %w", f.JSON, err)
				}
			}
			slices.Sort(names)
			if is := slices.Sorted(maps.Keys(object)); !slices.Equal(names, is) {
				return fmt.Errorf("fields %q, written %q", names, is)
			}
		}
	default:
		if _, ok = value.(float64); quoted {
			_, ok = value.(string)
		}
	}
	if !ok {
		return fmt.Errorf("%T for a %s", value, n.Kind)
	}
	return nil
}
