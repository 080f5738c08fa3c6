package rules

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/pawlgo/pawl/internal/gen/shape"
)

// Compare judges every change from the old shape to the new one, sorted by
// path. No finding means that nothing on the wire changed. A struct that is
// reached on several ways is judged once, at the shortest path to it, and the
// first in order among several such.
func Compare(old, new *shape.Shape) []Finding {
	c := compare(old, new)
	return c.findings
}

// comparison is the walk through two shapes at once.
type comparison struct {
	old, new *shape.Shape
	seen     map[pair]bool
	next     []visit // pairs that are met and not yet compared
	findings []Finding
	gone     []goneField
}

type pair struct{ old, new string }

type visit struct {
	pair
	path string
}

// goneField is a field whose JSON name is in use no more.
type goneField struct {
	path  string
	field shape.Field
}

func compare(old, new *shape.Shape) *comparison {
	c := &comparison{old: old, new: new, seen: map[pair]bool{}}
	c.node(old.Root, new.Root, "")
	for len(c.next) > 0 {
		v := c.next[0]
		c.next = c.next[1:]
		c.object(v.old, v.new, v.path)
	}
	slices.SortStableFunc(c.findings, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Rule.ID, b.Rule.ID))
	})
	// Several pointers to one value can only say the same again.
	c.findings = slices.CompactFunc(c.findings, func(a, b Finding) bool { return a.Rule == b.Rule && a.Path == b.Path })
	return c
}

func (c *comparison) add(id, path, format string, args ...any) *Finding {
	rule, ok := Lookup(id)
	if !ok {
		panic("rules: no rule " + id)
	}
	c.findings = append(c.findings, Finding{Rule: rule, Path: cmp.Or(path, "."), Detail: fmt.Sprintf(format, args...)})
	return &c.findings[len(c.findings)-1]
}

func (c *comparison) became(id string, o, n shape.Node, path string) *Finding {
	return c.add(id, path, "%s became %s", spell(o), spell(n))
}

func (c *comparison) node(o, n shape.Node, path string) {
	switch {
	case n.Kind == shape.Raw:
		if o.Kind != shape.Raw {
			c.became("to-raw", o, n, path)
		}
	case o.Kind == shape.Pointer && n.Kind == shape.Pointer:
		c.node(*o.Elem, *n.Elem, path)
	case n.Kind == shape.Pointer:
		c.became("pointer-added", o, n, path)
		c.node(o, *n.Elem, path)
	case o.Kind == shape.Raw:
		c.became("from-raw", o, n, path)
	case o.Kind == shape.Pointer:
		c.became("pointer-removed", o, n, path)
		c.node(*o.Elem, n, path)
	case o.Kind == shape.Opaque || n.Kind == shape.Opaque:
		c.opaque(o, n, path)
	case o.Kind == shape.Struct && n.Kind == shape.Struct:
		if p := (pair{o.Ref, n.Ref}); !c.seen[p] {
			c.seen[p] = true
			c.next = append(c.next, visit{p, path})
		}
	case o.Kind == shape.Map && n.Kind == shape.Map:
		c.key(*o.Key, *n.Key, path+"{key}")
		c.node(*o.Elem, *n.Elem, path+"{}")
	case isList(o.Kind) && isList(n.Kind):
		c.list(o, n, path)
	default:
		if id := different(o.Kind, n.Kind); id != "" {
			c.became(id, o, n, path)
		}
	}
}

func (c *comparison) opaque(o, n shape.Node, path string) {
	switch {
	case o.Kind == n.Kind && o.Ref != n.Ref:
		c.became("marshaler-swapped", o, n, path)
	case o.Kind == n.Kind:
		if o.Module != n.Module {
			c.add("module-changed", path, "%s of %s is now of %s", o.Ref, cmp.Or(o.Module, "no other module"), cmp.Or(n.Module, "no other module")).Warning = true
		}
	case n.Kind == shape.String && slices.Contains(texts, o.Ref):
		c.became("checked-to-string", o, n, path)
	case n.Kind == shape.Opaque && o.Kind == shape.String:
		c.became("string-to-checked", o, n, path)
	case n.Kind == shape.Opaque:
		c.became("marshaler-added", o, n, path)
	default:
		c.became("marshaler-removed", o, n, path)
	}
}

// texts are the types that are known to encode every value as a string.
var texts = []string{"github.com/google/uuid.UUID", "time.Time"}

func (c *comparison) key(o, n shape.Node, path string) {
	switch {
	case o.Kind != n.Kind && n.Kind == shape.String:
		c.became("map-key-to-string", o, n, path)
	case o.Kind != n.Kind && o.Kind == shape.String:
		c.became("map-key-from-string", o, n, path)
	default:
		c.node(o, n, path)
	}
}

func (c *comparison) list(o, n shape.Node, path string) {
	switch {
	case o.Kind == shape.Array && n.Kind == shape.Array:
		if o.Len != n.Len {
			c.became("array-length-changed", o, n, path)
		}
	case o.Kind == shape.Array:
		c.became("array-to-slice", o, n, path)
	case o.Kind == n.Kind: // slices, or bytes
	case o.Kind == shape.Bytes:
		c.became("bytes-to-list", o, n, path)
		return // what the elements are makes no difference
	case n.Kind == shape.Bytes:
		c.became("list-to-bytes", o, n, path)
		return
	default:
		c.became("slice-to-array", o, n, path)
	}
	c.node(element(o), element(n), path+"[]")
}

// element is the node of a list's elements. Bytes are a list of them where they
// meet another list: encoding/json decodes one into the other.
func element(n shape.Node) shape.Node {
	if n.Kind == shape.Bytes {
		return shape.Node{Kind: shape.Uint8}
	}
	return *n.Elem
}

// object compares the fields of two structs by their JSON names.
func (c *comparison) object(old, new, path string) {
	were, are := sorted(c.old.Structs[old]), sorted(c.new.Structs[new])
	added := slices.DeleteFunc(slices.Clone(are), func(f shape.Field) bool { return find(were, f.JSON) >= 0 })
	var removed []shape.Field
	for _, o := range were {
		if i := find(are, o.JSON); i >= 0 {
			c.field(o, are[i], member(path, o.JSON))
		} else {
			removed = append(removed, o)
		}
	}
	removed, added = c.renamed("json-case-changed", removed, added, path, func(o, n shape.Field) bool { return strings.EqualFold(o.JSON, n.JSON) })
	removed, added = c.renamed("json-name-changed", removed, added, path, func(o, n shape.Field) bool { return o.Go == n.Go })
	removed, added = c.moved(removed, added, path)
	for _, o := range removed {
		f := c.add("field-removed", member(path, o.JSON), "%q, of the type %s, is gone", o.JSON, spell(o.Type))
		c.gone = append(c.gone, goneField{member(path, o.JSON), o})
		if i := slices.IndexFunc(added, func(n shape.Field) bool { return c.alike(o, n) }); i >= 0 {
			f.Warning = true
			f.Detail += fmt.Sprintf(", and %q of the same type is new: if that is the same value under another name, an old job loses it", added[i].JSON)
		}
	}
	for _, n := range added {
		c.add("field-added", member(path, n.JSON), "%q, of the type %s, is new", n.JSON, spell(n.Type))
	}
}

// renamed takes out the pairs of removed and added fields that are one field
// under another name.
func (c *comparison) renamed(id string, removed, added []shape.Field, path string, same func(o, n shape.Field) bool) (left, new []shape.Field) {
	for _, o := range removed {
		i := slices.IndexFunc(added, func(n shape.Field) bool { return same(o, n) })
		if i < 0 {
			left = append(left, o)
			continue
		}
		at := member(path, o.JSON)
		c.add(id, at, "%q became %q", o.JSON, added[i].JSON).Renamed = member(path, added[i].JSON)
		if id == "json-name-changed" {
			c.gone = append(c.gone, goneField{at, o})
		}
		c.field(o, added[i], at)
		added = slices.Delete(added, i, i+1)
	}
	return left, added
}

// moved takes out what went into a nested object or came out of one: embedding a
// struct and giving it a JSON name differ in nothing else.
func (c *comparison) moved(removed, added []shape.Field, path string) (left, new []shape.Field) {
	left, inside := c.moves("fields-nested", removed, added, c.new, path)
	new, outside := c.moves("fields-unnested", added, removed, c.old, path)
	for _, o := range removed {
		if inside[o.JSON] || outside[o.JSON] {
			c.gone = append(c.gone, goneField{member(path, o.JSON), o})
		}
	}
	drop := func(fields []shape.Field, names map[string]bool) []shape.Field {
		return slices.DeleteFunc(fields, func(f shape.Field) bool { return names[f.JSON] })
	}
	return drop(left, outside), drop(new, inside)
}

// moves finds which of the fields lie within the holders, objects of the shape s.
// It returns the others, and the names of what takes part in a move.
func (c *comparison) moves(id string, fields, holders []shape.Field, s *shape.Shape, path string) (left []shape.Field, part map[string]bool) {
	part = map[string]bool{}
	for _, f := range fields {
		i := slices.IndexFunc(holders, func(h shape.Field) bool {
			target := deref(h.Type)
			return target.Kind == shape.Struct && slices.ContainsFunc(s.Structs[target.Ref].Fields, func(inner shape.Field) bool {
				return inner.JSON == f.JSON && inner.Go == f.Go
			})
		})
		if i < 0 {
			left = append(left, f)
			continue
		}
		within := member(member(path, holders[i].JSON), f.JSON)
		part[f.JSON], part[holders[i].JSON] = true, true
		if at := member(path, f.JSON); id == "fields-nested" {
			c.add(id, at, "it is now at %s", within)
		} else {
			c.add(id, within, "it is now at %s", at)
		}
	}
	return left, part
}

// alike reports whether two fields have the same wire form.
func (c *comparison) alike(o, n shape.Field) bool {
	return o.Quoted == n.Quoted && shape.Equal(c.old.Sub(o.Type), c.new.Sub(n.Type))
}

// field compares two fields of one name, or of two that mean the same.
func (c *comparison) field(o, n shape.Field, path string) {
	switch {
	case o.Quoted == n.Quoted || n.Type.Kind == shape.Raw:
		c.node(o.Type, n.Type, path)
	case o.Quoted && deref(n.Type).Kind == shape.String && isPlain(deref(o.Type).Kind):
		c.became("quoted-to-string", o.Type, n.Type, path)
		c.node(like(o.Type, n.Type), n.Type, path)
	default:
		with, without := "with", "without"
		if n.Quoted {
			with, without = without, with
		}
		c.add("quoted-changed", path, "%s %s the option string became %s %s it", spell(o.Type), with, spell(n.Type), without)
		c.node(o.Type, n.Type, path)
	}
	if o.OmitEmpty != n.OmitEmpty {
		c.option("omitempty", n.OmitEmpty, path).Warning = nilIsNotEmpty(n.Type.Kind)
	}
	if o.OmitZero != n.OmitZero {
		c.option("omitzero", n.OmitZero, path).Warning = deref(n.Type).Kind == shape.Opaque
	}
}

func (c *comparison) option(name string, is bool, path string) *Finding {
	if is {
		return c.add(name+"-changed", path, "%s was added", name)
	}
	return c.add(name+"-changed", path, "%s was removed", name)
}

// like puts the leaf of n behind the pointers of o, so that only these differ.
func like(o, n shape.Node) shape.Node {
	if o.Kind != shape.Pointer {
		return deref(n)
	}
	return shape.Node{Kind: shape.Pointer, Elem: new(like(*o.Elem, n))}
}

func deref(n shape.Node) shape.Node {
	for n.Kind == shape.Pointer {
		n = *n.Elem
	}
	return n
}

func sorted(o shape.Object) []shape.Field {
	return slices.SortedFunc(slices.Values(o.Fields), func(a, b shape.Field) int { return cmp.Compare(a.JSON, b.JSON) })
}

func find(fields []shape.Field, name string) int {
	return slices.IndexFunc(fields, func(f shape.Field) bool { return f.JSON == name })
}
