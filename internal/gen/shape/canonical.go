package shape

import (
	"bytes"
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// Canonical returns a text that is the same for all shapes with the same wire
// form, and different for others. It depends neither on names in Go nor on the
// order of fields, nor on how structs are shared or repeat themselves, nor on
// the versions of modules. A version's identity is made from it, so it may not
// change between releases.
func (s *Shape) Canonical() []byte {
	c := canonical{s: s, class: s.classes(), number: map[int]int{}}
	var text bytes.Buffer
	text.WriteString(`{"root":`)
	text.Write(c.node(s.Root, c.numbered))
	text.WriteString(`,"structs":[`)
	// Writing a struct numbers those that it is the first to mention.
	for i := 0; i < len(c.order); i++ {
		if i > 0 {
			text.WriteByte(',')
		}
		text.Write(c.object(c.order[i], c.numbered))
	}
	text.WriteString("]}")
	return text.Bytes()
}

// Equal reports whether two shapes have the same wire form.
func Equal(a, b *Shape) bool { return bytes.Equal(a.Canonical(), b.Canonical()) }

// canonical writes structs under numbers in the order in which they are reached.
type canonical struct {
	s      *Shape
	class  map[string]int
	number map[int]int // by class
	order  []string    // one struct of each class that has a number
}

func (c *canonical) numbered(ref string) int {
	class := c.class[ref]
	n, ok := c.number[class]
	if !ok {
		n = len(c.order)
		c.number[class] = n
		c.order = append(c.order, ref)
	}
	return n
}

// classes says which structs cannot be told apart on the wire. It starts with
// all alike and tells apart what differs in what it refers to, until nothing
// new differs.
func (s *Shape) classes() map[string]int {
	c := canonical{s: s}
	class := map[string]int{}
	for name := range s.Structs {
		class[name] = 0
	}
	for count := min(1, len(class)); ; {
		texts := map[string]string{}
		for name := range s.Structs {
			texts[name] = string(c.object(name, func(ref string) int { return class[ref] }))
		}
		distinct := slices.Compact(slices.Sorted(maps.Values(texts)))
		for name, text := range texts {
			class[name], _ = slices.BinarySearch(distinct, text)
		}
		if len(distinct) == count {
			return class
		}
		count = len(distinct)
	}
}

// The JSON of the canonical text has its own types, so that what is added to a
// lock does not change identities.
type (
	canonicalNode struct {
		Kind   Kind            `json:"kind"`
		Key    json.RawMessage `json:"key,omitempty"`
		Elem   json.RawMessage `json:"elem,omitempty"`
		Len    *int            `json:"len,omitempty"`
		Struct *int            `json:"struct,omitempty"`
		Type   string          `json:"type,omitempty"`
	}
	canonicalField struct {
		Name      string          `json:"name"`
		Type      json.RawMessage `json:"type"`
		OmitEmpty bool            `json:"omitempty,omitempty"`
		OmitZero  bool            `json:"omitzero,omitempty"`
		Quoted    bool            `json:"quoted,omitempty"`
	}
)

func (c *canonical) node(n Node, number func(ref string) int) json.RawMessage {
	out := canonicalNode{Kind: n.Kind}
	switch n.Kind {
	case Uintptr:
		out.Kind = Uint // as wide wherever Go runs
	case Struct:
		out.Struct = new(number(n.Ref))
	case Opaque:
		out.Type = n.Ref
	case Array:
		out.Len = &n.Len
	}
	if n.Key != nil {
		out.Key = c.node(*n.Key, number)
	}
	if n.Elem != nil {
		out.Elem = c.node(*n.Elem, number)
	}
	return encode(out)
}

func (c *canonical) object(name string, number func(ref string) int) json.RawMessage {
	sorted := slices.SortedFunc(slices.Values(c.s.Structs[name].Fields), func(a, b Field) int {
		return cmp.Compare(a.JSON, b.JSON)
	})
	fields := make([]canonicalField, 0, len(sorted))
	for _, f := range sorted {
		fields = append(fields, canonicalField{f.JSON, c.node(f.Type, number), f.OmitEmpty, f.OmitZero, f.Quoted})
	}
	return encode(fields)
}

func encode(v any) json.RawMessage {
	text := &strings.Builder{}
	e := json.NewEncoder(text)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(err) // strings, numbers and what was encoded before
	}
	return json.RawMessage(strings.TrimSuffix(text.String(), "\n"))
}
