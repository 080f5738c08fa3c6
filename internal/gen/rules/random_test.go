package rules_test

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
)

// plan is a type that is not made yet, so that it can be changed in one place.
type plan struct {
	leaf   reflect.Type // for a type without parts of its own
	kind   reflect.Kind // else: Pointer, Slice, Array, Map or Struct
	elem   *plan
	key    reflect.Type
	length int
	fields []planField
}

type planField struct {
	name    string // in Go
	json    string
	options string
	typ     *plan
}

var (
	scalars = []reflect.Type{
		reflect.TypeFor[bool](), reflect.TypeFor[string](), reflect.TypeFor[level](),
		reflect.TypeFor[int](), reflect.TypeFor[int8](), reflect.TypeFor[int16](), reflect.TypeFor[int32](), reflect.TypeFor[int64](),
		reflect.TypeFor[uint](), reflect.TypeFor[uint8](), reflect.TypeFor[uint16](), reflect.TypeFor[uint32](), reflect.TypeFor[uint64](),
		reflect.TypeFor[float32](), reflect.TypeFor[float64](), reflect.TypeFor[time.Duration](),
	}
	leaves = append(slices.Clone(scalars),
		reflect.TypeFor[[]byte](), reflect.TypeFor[json.RawMessage](), reflect.TypeFor[time.Time](), reflect.TypeFor[uuid.UUID](),
		reflect.TypeFor[volume](), reflect.TypeFor[recursive[int32]](), reflect.TypeFor[recursive[int64]](), reflect.TypeFor[recursive[string]](),
	)
	keys = []reflect.Type{
		reflect.TypeFor[string](), reflect.TypeFor[level](), reflect.TypeFor[int](), reflect.TypeFor[int8](), reflect.TypeFor[int64](),
		reflect.TypeFor[uint16](), reflect.TypeFor[uint64](), reflect.TypeFor[uuid.UUID](),
	}
)

type recursive[T any] struct {
	Value T                       `json:"value"`
	Next  *recursive[T]           `json:"next,omitempty"`
	More  map[string]recursive[T] `json:"more"`
}

func pick[T any](r *rand.Rand, from []T) T { return from[r.IntN(len(from))] }

// planStruct plans a payload.
func planStruct(r *rand.Rand, depth int) *plan {
	p := &plan{kind: reflect.Struct}
	for range r.IntN(4) {
		p.add(r, depth)
	}
	return p
}

func planType(r *rand.Rand, depth int) *plan {
	if depth == 0 || r.IntN(2) == 0 {
		return &plan{leaf: pick(r, leaves)}
	}
	p := &plan{kind: pick(r, []reflect.Kind{reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map, reflect.Struct})}
	switch p.kind {
	case reflect.Struct:
		return planStruct(r, depth-1)
	case reflect.Array:
		p.length = r.IntN(3)
	case reflect.Map:
		p.key = pick(r, keys)
	}
	p.elem = planType(r, depth-1)
	return p
}

// add adds a field under names that are free, if it finds some.
func (p *plan) add(r *rand.Rand, depth int) {
	f := planField{name: pick(r, []string{"A", "B", "C", "D", "E"}), json: pick(r, []string{"a", "b", "c", "d", "e", "A", "B"}), typ: planType(r, depth)}
	if r.IntN(4) == 0 {
		f.options = pick(r, []string{",omitempty", ",omitzero", ",omitempty,omitzero"})
	}
	if leaf := f.typ.leaf; leaf != nil && slices.Contains(scalars, leaf) && leaf.Kind() != reflect.String && r.IntN(4) == 0 {
		f.options += ",string"
	}
	if !slices.ContainsFunc(p.fields, func(o planField) bool { return o.name == f.name || strings.EqualFold(o.json, f.json) }) {
		p.fields = append(p.fields, f)
	}
}

func (p *plan) build() reflect.Type {
	switch p.kind {
	case reflect.Pointer:
		return reflect.PointerTo(p.elem.build())
	case reflect.Slice:
		return reflect.SliceOf(p.elem.build())
	case reflect.Array:
		return reflect.ArrayOf(p.length, p.elem.build())
	case reflect.Map:
		return reflect.MapOf(p.key, p.elem.build())
	case reflect.Struct:
		var fields []reflect.StructField
		for _, f := range p.fields {
			fields = append(fields, reflect.StructField{Name: f.name, Type: f.typ.build(), Tag: reflect.StructTag(fmt.Sprintf(`json:"%s%s"`, f.json, f.options))})
		}
		return reflect.StructOf(fields)
	}
	return p.leaf
}

// change returns a copy of p that an engineer has changed, with luck in few
// places. Half of the changes to a leaf are to a scalar, which are most of the
// table.
func (p *plan) change(r *rand.Rand) *plan {
	c := *p
	if c.kind != reflect.Struct && r.IntN(6) == 0 {
		switch r.IntN(5) {
		case 0:
			return &plan{kind: reflect.Pointer, elem: p}
		case 1:
			return planType(r, 1)
		case 2:
			if p.elem != nil {
				return p.elem
			}
			return &plan{leaf: pick(r, leaves)}
		case 3:
			switch p.kind {
			case reflect.Array:
				c.kind = pick(r, []reflect.Kind{reflect.Array, reflect.Slice})
				c.length++
			case reflect.Slice:
				c.kind, c.length = reflect.Array, 2
			case reflect.Map:
				c.key = pick(r, keys)
			default:
				return &plan{leaf: pick(r, leaves)}
			}
			return &c
		default:
			return &plan{leaf: pick(r, scalars)}
		}
	}
	if p.elem != nil {
		c.elem = p.elem.change(r)
		return &c
	}
	c.fields = nil
	for _, f := range p.fields {
		f.typ = f.typ.change(r)
		switch r.IntN(30) {
		case 0:
			continue // removed
		case 1:
			f.json = strings.ToUpper(f.json)
		case 2:
			f.options = pick(r, []string{"", ",omitempty", ",omitzero"})
		case 3:
			f.name += "New"
		}
		if strings.Contains(f.options, ",string") && (f.typ.leaf == nil || f.typ.leaf.Kind() == reflect.String) {
			f.options = strings.Replace(f.options, ",string", "", 1)
		}
		c.fields = append(c.fields, f)
	}
	if p.kind == reflect.Struct && r.IntN(4) == 0 {
		c.add(r, 1)
	}
	r.Shuffle(len(c.fields), func(i, j int) { c.fields[i], c.fields[j] = c.fields[j], c.fields[i] })
	return &c
}

// fill gives v a random value, with a liking for what is at an end of its type.
func fill(r *rand.Rand, v reflect.Value, depth int) {
	if r.IntN(8) == 0 {
		return // zero
	}
	switch v.Interface().(type) {
	case json.RawMessage:
		v.SetBytes([]byte(pick(r, []string{`null`, `5`, `"x<y"`, `[1,null]`, `{"a":{}}`, `9007199254740993`})))
		return
	case time.Time:
		v.Set(reflect.ValueOf(time.Unix(r.Int64N(1<<34), r.Int64N(1e9)).UTC()))
		return
	case volume:
		v.Set(reflect.ValueOf(volume{r.IntN(100)}))
		return
	}
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(true)
	case reflect.String:
		v.SetString(pick(r, []string{"", "5", "true", "null", "aGk=", "é\u2028<&", id.String(), "2026-11-29T00:00:00Z", "5l"}))
	case reflect.Float32, reflect.Float64:
		v.SetFloat(pick(r, []float64{1.5, -0.1, 16777217, 1 << 60, math.MaxFloat32, math.SmallestNonzeroFloat64}))
		if v.Kind() == reflect.Float64 && r.IntN(4) == 0 {
			v.SetFloat(math.MaxFloat64)
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		if depth > 0 {
			fill(r, v.Elem(), depth-1)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), r.IntN(4), 4))
		for i := range v.Len() {
			if depth > 0 {
				fill(r, v.Index(i), depth-1)
			}
		}
	case reflect.Array:
		for i := range v.Len() {
			fill(r, v.Index(i), depth)
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for range r.IntN(3) {
			key, elem := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			fill(r, key, 0)
			if depth > 0 {
				fill(r, elem, depth-1)
			}
			v.SetMapIndex(key, elem)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			fill(r, v.Field(i), depth)
		}
	default:
		bits := v.Type().Bits()
		if v.CanInt() {
			v.SetInt(pick(r, []int64{1, -1, 100, -1 << (bits - 1), 1<<(bits-1) - 1, (1<<53 + 1) % (1 << (bits - 2))}))
		} else {
			v.SetUint(pick(r, []uint64{1, 100, 1<<(bits-1) - 1, math.MaxUint64 >> (64 - bits)}))
		}
	}
}
