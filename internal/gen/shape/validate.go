package shape

import (
	"fmt"
	"maps"
	"slices"
)

// Validate reports what is wrong with a shape that was not made by this package,
// such as one from a lock that somebody has edited. Every other function expects
// a valid shape.
func (s *Shape) Validate() error {
	if err := s.validate(s.Root); err != nil {
		return fmt.Errorf("root: %w", err)
	}
	for _, name := range slices.Sorted(maps.Keys(s.Structs)) {
		wire, inGo := map[string]bool{}, map[string]bool{}
		for _, f := range s.Structs[name].Fields {
			switch {
			case f.JSON == "" || f.Go == "":
				return fmt.Errorf("struct %s: a field without a name", name)
			case wire[f.JSON] || inGo[f.Go]:
				return fmt.Errorf("struct %s: two fields %s (%q)", name, f.Go, f.JSON)
			}
			wire[f.JSON], inGo[f.Go] = true, true
			if err := s.validate(f.Type); err != nil {
				return fmt.Errorf("struct %s, field %s: %w", name, f.Go, err)
			}
		}
	}
	return nil
}

func (s *Shape) validate(n Node) error {
	elem, key, length, ref := false, false, false, false
	switch n.Kind {
	case Slice, Pointer:
		elem = true
	case Array:
		elem, length = true, true
	case Map:
		elem, key = true, true
	case Struct:
		ref = true
		if _, ok := s.Structs[n.Ref]; !ok {
			return fmt.Errorf("it refers to the struct %q, which is missing", n.Ref)
		}
	case Opaque:
		ref = true
	case Bytes, Raw:
	default:
		if !slices.Contains(slices.Collect(maps.Values(kinds)), n.Kind) {
			return fmt.Errorf("the kind %q is unknown", n.Kind)
		}
	}
	switch {
	case elem != (n.Elem != nil), key != (n.Key != nil), ref != (n.Ref != ""), n.Len < 0, !length && n.Len != 0, n.Kind != Opaque && n.Module != "":
		return fmt.Errorf("a node of the kind %q has too much or too little", n.Kind)
	}
	if key {
		if err := s.validate(*n.Key); err != nil {
			return err
		}
		switch n.Key.Kind {
		case Bool, Float32, Float64, Bytes, Slice, Array, Map, Pointer, Struct, Raw:
			return fmt.Errorf("the kind %q is none for a key", n.Key.Kind)
		}
	}
	if elem {
		return s.validate(*n.Elem)
	}
	return nil
}

// Sub returns the shape of a node of s: the node and the structs that it
// reaches.
func (s *Shape) Sub(n Node) *Shape {
	sub := &Shape{Root: n}
	var reach func(n Node)
	reach = func(n Node) {
		if n.Key != nil {
			reach(*n.Key)
		}
		if n.Elem != nil {
			reach(*n.Elem)
		}
		if _, ok := sub.Structs[n.Ref]; n.Kind != Struct || ok {
			return
		}
		if sub.Structs == nil {
			sub.Structs = map[string]Object{}
		}
		sub.Structs[n.Ref] = s.Structs[n.Ref]
		for _, f := range s.Structs[n.Ref].Fields {
			reach(f.Type)
		}
	}
	reach(n)
	return sub
}
