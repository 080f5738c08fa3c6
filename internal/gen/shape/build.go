package shape

import (
	"fmt"
	"reflect"
	"strings"
)

// kinds are the scalars by their kinds in Go.
var kinds = map[reflect.Kind]Kind{
	reflect.Bool: Bool,
	reflect.Int:  Int, reflect.Int8: Int8, reflect.Int16: Int16, reflect.Int32: Int32, reflect.Int64: Int64,
	reflect.Uint: Uint, reflect.Uint8: Uint8, reflect.Uint16: Uint16, reflect.Uint32: Uint32, reflect.Uint64: Uint64,
	reflect.Uintptr: Uintptr,
	reflect.Float32: Float32, reflect.Float64: Float64,
	reflect.String: String,
}

// builder makes one shape.
type builder struct {
	pkg     string // the path of the payload's package
	modules func(path string) string
	structs map[string]Object
	ids     map[string]any // of the types behind structs, by name
}

func build(v view, pkg string, modules func(string) string) (*Shape, error) {
	if modules == nil {
		modules = func(string) string { return "" }
	}
	b := &builder{pkg: pkg, modules: modules, structs: map[string]Object{}, ids: map[string]any{}}
	path := "the payload"
	if _, name := v.name(); name != "" {
		path = b.nameOf(v)
	}
	root, err := b.node(v, place{path: path, anonymous: "struct"})
	if err != nil {
		return nil, err
	}
	s := &Shape{Root: root}
	if len(b.structs) > 0 {
		s.Structs = b.structs
	}
	return s, nil
}

// place is where a type stands.
type place struct {
	path      string // for messages
	anonymous string // what a struct without a name is called there
	// within are the types with a name that the walk is in, since the last struct:
	// one that comes again would never end.
	within []any
}

func (p place) in(suffix string) place { p.path += suffix; return p }

func (b *builder) node(v view, p place) (Node, error) {
	kind := v.kind()
	if path, name := v.name(); name != "" {
		switch {
		case path == "encoding/json" && name == "RawMessage":
			return Node{Kind: Raw}, nil
		case path == "encoding/json" && name == "Number":
			// A number on the wire, although a string in Go.
			return b.opaque(v, p)
		}
		if kind != reflect.Struct {
			for _, outer := range p.within {
				if outer == v.id() {
					return Node{}, fmt.Errorf("%s: %s contains itself without a struct in between: put the recursion into a struct", p.path, b.nameOf(v))
				}
			}
			p.within = append(p.within[:len(p.within):len(p.within)], v.id())
		}
	}
	if kind != reflect.Pointer && kind != reflect.Interface && encodesItself(v) {
		return b.opaque(v, p)
	}
	if k, ok := kinds[kind]; ok {
		return Node{Kind: k}, nil
	}
	switch kind {
	case reflect.Pointer:
		return b.container(Node{Kind: Pointer}, v, p)
	case reflect.Slice:
		if isBytes(v) {
			return Node{Kind: Bytes}, nil
		}
		return b.container(Node{Kind: Slice}, v, p.in("[]"))
	case reflect.Array:
		return b.container(Node{Kind: Array, Len: v.length()}, v, p.in("[]"))
	case reflect.Map:
		key, err := b.key(v.key(), p.in(" (a map key)"))
		if err != nil {
			return Node{}, err
		}
		return b.container(Node{Kind: Map, Key: &key}, v, p.in("[]"))
	case reflect.Struct:
		return b.object(v, p)
	}
	return Node{}, fmt.Errorf("%s: encoding/json cannot store a value of the kind %s and read it back", p.path, kind)
}

func (b *builder) container(n Node, v view, p place) (Node, error) {
	elem, err := b.node(v.elem(), p)
	if err != nil {
		return Node{}, err
	}
	n.Elem = &elem
	return n, nil
}

func (b *builder) key(v view, p place) (Node, error) {
	if keyEncodesItself(v) {
		return b.opaque(v, p)
	}
	k, ok := kinds[v.kind()]
	if !ok || k == Bool || k == Float32 || k == Float64 {
		return Node{}, fmt.Errorf("%s: a value of the kind %s cannot be the key of a JSON object", p.path, v.kind())
	}
	return Node{Kind: k}, nil
}

func (b *builder) opaque(v view, p place) (Node, error) {
	path, name := v.name()
	if name == "" {
		return Node{}, fmt.Errorf("%s: a type without a name encodes itself, through what it embeds: declare a type for it", p.path)
	}
	return Node{Kind: Opaque, Ref: path + "." + name, Module: b.modules(path)}, nil
}

func (b *builder) object(v view, p place) (Node, error) {
	name := p.anonymous
	if _, named := v.name(); named != "" {
		name = b.nameOf(v)
	}
	if id, ok := b.ids[name]; ok {
		if id != v.id() {
			return Node{}, fmt.Errorf("%s: two types are called %s: rename one", p.path, name)
		}
		return Node{Kind: Struct, Ref: name}, nil
	}
	b.ids[name] = v.id()
	object := Object{Fields: []Field{}}
	for _, c := range fieldsOf(v) {
		node, err := b.node(c.typ, place{path: p.path + "." + strings.Join(c.path, "."), anonymous: name + "/" + c.Go})
		if err != nil {
			return Node{}, err
		}
		c.Type = node
		object.Fields = append(object.Fields, c.Field)
	}
	b.structs[name] = object
	return Node{Kind: Struct, Ref: name}, nil
}

// nameOf names a type in [Shape.Structs] and in messages: by its own name in the
// payload's package, and with the path of its package elsewhere. What
// [builder.object] calls a struct without a name ends in a slash and a Go name,
// and so is never the name of a type, which has a dot after its last slash or
// no slash at all.
func (b *builder) nameOf(v view) string {
	path, name := v.name()
	name = unqualified(name, b.pkg)
	if path == b.pkg || path == "" {
		return name
	}
	return path + "." + name
}

// unqualified takes the path of the payload's package out of a name's type
// arguments.
func unqualified(name, pkg string) string {
	arguments := strings.IndexByte(name, '[')
	if arguments < 0 || pkg == "" {
		return name
	}
	var out strings.Builder
	out.WriteString(name[:arguments])
	for rest := name[arguments:]; rest != ""; {
		// A path stands behind one of these, or is the end of a longer one.
		i := strings.IndexAny(rest, "[,*] ")
		if i < 0 {
			out.WriteString(rest)
			break
		}
		out.WriteString(rest[:i+1])
		rest = strings.TrimPrefix(rest[i+1:], pkg+".")
	}
	return out.String()
}
