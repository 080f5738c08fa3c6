package shape_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawlgo/pawl/internal/gen/shape"
)

type (
	order struct {
		Number int64         `json:"number"`
		Lines  []line        `json:"lines"`
		Prices map[int]price `json:"prices,omitempty"`
		Total  *price        `json:"total"`
	}
	line  struct{ Price price }
	price struct {
		Cents int64  `json:"cents,string"`
		Code  [3]int `json:"code,omitzero"`
	}
)

func TestCanonicalText(t *testing.T) {
	t.Parallel()
	require.Equal(t, `{"root":{"kind":"struct","struct":0},"structs":[`+
		`[{"name":"lines","type":{"kind":"slice","elem":{"kind":"struct","struct":1}}},`+
		`{"name":"number","type":{"kind":"int64"}},`+
		`{"name":"prices","type":{"kind":"map","key":{"kind":"int"},"elem":{"kind":"struct","struct":2}},"omitempty":true},`+
		`{"name":"total","type":{"kind":"pointer","elem":{"kind":"struct","struct":2}}}],`+
		`[{"name":"Price","type":{"kind":"struct","struct":2}}],`+
		`[{"name":"cents","type":{"kind":"int64"},"quoted":true},`+
		`{"name":"code","type":{"kind":"array","elem":{"kind":"int"},"len":3},"omitzero":true}]]}`,
		string(fromReflect[order](t).Canonical()),
		"versions that are stored somewhere have their identity from this text: it may not change")
}

func TestEqual(t *testing.T) {
	t.Parallel()
	type (
		money struct { // price under another name, in another order
			Sign [3]int `json:"code,omitzero"`
			N    int64  `json:"cents,string"`
		}
		another struct { // the same again
			N    int64  `json:"cents,string"`
			Sign [3]int `json:"code,omitzero"`
		}
		row struct {
			Cost money `json:"Price"`
		}
		renamed struct {
			Sum    *another      `json:"total"`
			Rows   []row         `json:"lines"`
			ID     int64         `json:"number"`
			Priced map[int]money `json:"prices,omitempty"`
		}
		head struct {
			Number int64 `json:"number"`
		}
		inlined struct {
			Total *price                  `json:"total"`
			Lines []struct{ Price price } `json:"lines"`
			head
			Prices map[int]price `json:"prices,omitempty"`
		}
	)
	require.True(t, shape.Equal(fromReflect[order](t), fromReflect[renamed](t)))
	require.True(t, shape.Equal(fromReflect[order](t), fromReflect[inlined](t)))

	// Recursion that takes longer to repeat is the same recursion.
	type one struct{ Next *one }
	type even struct{ Next *struct{ Next *even } }
	require.True(t, shape.Equal(fromReflect[one](t), fromReflect[even](t)))
	type marked struct {
		Next *struct{ Next *marked }
		Mark bool
	}
	require.False(t, shape.Equal(fromReflect[even](t), fromReflect[marked](t)))

	type nodeA struct {
		Left, Right *nodeA
		Value       int
	}
	type nodeB struct {
		Left  *nodeB
		Right *nodeA
		Value int
	}
	type nodeC struct {
		Left  *nodeC
		Right *struct {
			Left, Right *nodeC
			Value       int8
		}
		Value int
	}
	require.True(t, shape.Equal(fromReflect[nodeA](t), fromReflect[nodeB](t)))
	require.False(t, shape.Equal(fromReflect[nodeA](t), fromReflect[nodeC](t)), "the difference is two steps away")
	require.True(t, shape.Equal(fromReflect[struct{ A uint }](t), fromReflect[struct{ A uintptr }](t)))
}

func TestNotEqual(t *testing.T) {
	t.Parallel()
	all := map[string]*shape.Shape{
		"plain":   fromReflect[struct{ A int }](t),
		"name":    fromReflect[struct{ B int }](t),
		"type":    fromReflect[struct{ A int8 }](t),
		"pointer": fromReflect[struct{ A *int }](t),
		"slice":   fromReflect[struct{ A []int }](t),
		"bytes":   fromReflect[struct{ A []byte }](t),
		"array 0": fromReflect[struct{ A [0]int }](t),
		"array 1": fromReflect[struct{ A [1]int }](t),
		"map":     fromReflect[struct{ A map[string]int }](t),
		"key":     fromReflect[struct{ A map[int]int }](t),
		"struct":  fromReflect[struct{ A struct{} }](t),
		"two":     fromReflect[struct{ A, B int }](t),
		"none":    fromReflect[struct{}](t),
		"omitempty": fromReflect[struct {
			A int `json:",omitempty"`
		}](t),
		"omitzero": fromReflect[struct {
			A int `json:",omitzero"`
		}](t),
		"quoted": fromReflect[struct {
			A int `json:",string"`
		}](t),
		"nested": fromReflect[struct{ A struct{ A int } }](t),
		"angle": fromReflect[struct {
			A int `json:"<"`
		}](t),
	}
	for a, names := 0, slices.Sorted(maps.Keys(all)); a < len(names); a++ {
		for b := range names {
			require.Equal(t, a == b, shape.Equal(all[names[a]], all[names[b]]), "%s, %s", names[a], names[b])
		}
	}
}

func TestSub(t *testing.T) {
	t.Parallel()
	s := fromReflect[order](t)
	lines := s.Structs[s.Root.Ref].Fields[1].Type
	sub := s.Sub(lines)
	require.NoError(t, sub.Validate())
	require.ElementsMatch(t, []string{"line", "price"}, slices.Collect(maps.Keys(sub.Structs)))
	require.True(t, shape.Equal(sub, fromReflect[[]line](t)))
	require.Empty(t, s.Sub(shape.Node{Kind: shape.Int}).Structs)
}

func TestValidate(t *testing.T) {
	t.Parallel()
	integer := &shape.Node{Kind: shape.Int}
	structs := func(fields ...shape.Field) *shape.Shape {
		return &shape.Shape{Root: shape.Node{Kind: shape.Struct, Ref: "T"}, Structs: map[string]shape.Object{"T": {Fields: fields}}}
	}
	for want, s := range map[string]*shape.Shape{
		`root: the kind "" is unknown`:                                 {},
		`root: the kind "integer" is unknown`:                          {Root: shape.Node{Kind: "integer"}},
		`root: it refers to the struct "T", which is missing`:          {Root: shape.Node{Kind: shape.Struct, Ref: "T"}},
		`root: a node of the kind "slice" has too much or too little`:  {Root: shape.Node{Kind: shape.Slice}},
		`root: a node of the kind "int" has too much or too little`:    {Root: shape.Node{Kind: shape.Int, Elem: integer}},
		`root: a node of the kind "array" has too much or too little`:  {Root: shape.Node{Kind: shape.Array, Elem: integer, Len: -1}},
		`root: a node of the kind "map" has too much or too little`:    {Root: shape.Node{Kind: shape.Map, Elem: integer}},
		`root: a node of the kind "opaque" has too much or too little`: {Root: shape.Node{Kind: shape.Opaque}},
		`root: a node of the kind "raw" has too much or too little`:    {Root: shape.Node{Kind: shape.Raw, Module: "m"}},
		`root: the kind "bool" is none for a key`:                      {Root: shape.Node{Kind: shape.Map, Key: &shape.Node{Kind: shape.Bool}, Elem: integer}},
		`struct T: a field without a name`:                             structs(shape.Field{JSON: "a", Type: *integer}),
		`struct T: two fields A ("b")`:                                 structs(shape.Field{JSON: "a", Go: "A", Type: *integer}, shape.Field{JSON: "b", Go: "A", Type: *integer}),
		`struct T: two fields B ("a")`:                                 structs(shape.Field{JSON: "a", Go: "A", Type: *integer}, shape.Field{JSON: "a", Go: "B", Type: *integer}),
		`struct T, field A: the kind "?" is unknown`:                   structs(shape.Field{JSON: "a", Go: "A", Type: shape.Node{Kind: shape.Slice, Elem: &shape.Node{Kind: "?"}}}),
	} {
		require.EqualError(t, s.Validate(), want)
	}
}
