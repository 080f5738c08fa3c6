// Package payload checks that what a task carries survives the way through
// encoding/json and back. A value that would be lost in silence is refused as
// strictly as one that cannot be encoded.
package payload

import (
	"fmt"
	"go/token"
	"go/types"
	"reflect"
	"strings"

	"golang.org/x/tools/go/types/typeutil"
)

// Checker checks the payloads of one package.
type Checker struct {
	// Package is the package of the tasks.
	Package *types.Package
	// Source reports whether the position is in a file that was read from source,
	// so that an error there is one the user can go to.
	Source func(token.Pos) bool
	// Errorf reports an error.
	Errorf func(pos token.Pos, format string, args ...any)
	// Invalid is called with the position of something whose type is unknown,
	// which is reported by the type checker in most cases.
	Invalid func(pos token.Pos, path string)

	reached typeutil.Map // named types that were seen, in any payload
	checked map[visit]*typeutil.Map
}

// visit is a reason not to check a type again, so that recursion ends and an
// error inside a type is reported once. Where the type is not in the user's
// source, an error is reported at the field that leads to it, and so once for
// each of those.
type visit struct {
	from        token.Pos
	addressable bool
}

// Reached reports whether a payload that was checked contains the named type
// that obj declares.
func (c *Checker) Reached(obj types.Object) bool {
	return obj != nil && c.reached.At(obj.Type()) != nil
}

// Check checks the payload args of a task, as spelled at pos.
func (c *Checker) Check(args types.Type, pos token.Pos) {
	if c.spelling(args, pos, true) {
		c.walk(args, place{path: c.TypeName(args), pos: pos, addressable: true})
	}
}

// spelling checks that generated code, which is exported, can name t. It reports
// whether t is a type that can have fields.
func (c *Checker) spelling(t types.Type, pos token.Pos, outermost bool) bool {
	name := func(obj *types.TypeName, args *types.TypeList) bool {
		switch {
		case obj.Pkg() == nil && outermost:
			c.Errorf(pos, "%s cannot be a payload: declare an exported struct type for it", obj.Name())
			return false
		case obj.Pkg() != nil && !obj.Exported():
			c.Errorf(pos, "the payload %s is not exported: the enqueue function of the task is, and its callers have to name it", obj.Name())
		}
		for arg := range args.Types() {
			c.spelling(arg, pos, false)
		}
		return true
	}
	switch t := t.(type) {
	case *types.Alias:
		return name(t.Obj(), t.TypeArgs())
	case *types.Named:
		return name(t.Obj(), t.TypeArgs())
	}
	if outermost {
		c.Errorf(pos, "%s cannot be a payload: declare an exported struct type for it", c.TypeName(t))
		return false
	}
	switch t := t.(type) {
	case *types.Basic:
	case *types.Pointer:
		c.spelling(t.Elem(), pos, false)
	case *types.Slice:
		c.spelling(t.Elem(), pos, false)
	case *types.Array:
		c.spelling(t.Elem(), pos, false)
	case *types.Map:
		c.spelling(t.Key(), pos, false)
		c.spelling(t.Elem(), pos, false)
	default:
		c.Errorf(pos, "%s cannot be a type argument of a payload: declare an exported type for it", c.TypeName(t))
	}
	return true
}

// place is where a type stands in a payload.
type place struct {
	path string
	pos  token.Pos // the innermost that is in the user's source
	// addressable says whether encoding/json can take the value's address, and so
	// finds marshalers with pointer receivers.
	addressable bool
}

func (p place) in(suffix string) place { p.path += suffix; return p }

func (p place) addressed(a bool) place { p.addressable = a; return p }

func (c *Checker) errorf(p place, format string, args ...any) {
	c.Errorf(p.pos, "%s: %s", p.path, fmt.Sprintf(format, args...))
}

func (c *Checker) walk(t types.Type, p place) {
	t = types.Unalias(t)
	if t == types.Typ[types.Invalid] {
		c.Invalid(p.pos, p.path)
		return
	}
	named, isNamed := t.(*types.Named)
	if isNamed {
		c.reach(named)
	}
	switch t.Underlying().(type) {
	case *types.Interface:
	case *types.Pointer: // its methods are those of what it points to, which comes next
	default:
		if c.opaque(t, p) {
			c.redactsInVain(t, p)
			return
		}
	}
	if isNamed && !c.first(named, p) {
		return
	}
	switch u := t.Underlying().(type) {
	case *types.Basic:
		c.basic(u, p)
	case *types.Pointer:
		c.walk(u.Elem(), p.addressed(true))
	case *types.Slice:
		c.walk(u.Elem(), p.in("[]").addressed(true))
	case *types.Array:
		c.walk(u.Elem(), p.in("[]"))
	case *types.Map:
		c.key(u.Key(), p.in(" (a map key)"))
		c.walk(u.Elem(), p.in("[]").addressed(false))
	case *types.Interface:
		if u.Empty() {
			c.errorf(p, "any loses what it held, such as the digits of large integers: use a type, or json.RawMessage for JSON that is somebody else's")
		} else {
			c.errorf(p, "the interface %s cannot be decoded: use a concrete type", c.TypeName(t))
		}
	case *types.Chan:
		c.errorf(p, "a channel cannot be encoded")
	case *types.Signature:
		c.errorf(p, "a function cannot be encoded")
	case *types.Struct:
		c.structure(t, u, p)
	}
}

// first reports whether the structure of t is not checked yet, and remembers it.
func (c *Checker) first(t *types.Named, p place) bool {
	switch t.Underlying().(type) {
	case *types.Basic, *types.Interface, *types.Chan, *types.Signature:
		return true // no structure: what is wrong is wrong wherever it is used
	}
	v := visit{addressable: p.addressable}
	if !c.Source(t.Origin().Obj().Pos()) {
		v.from = p.pos
	}
	if c.checked == nil {
		c.checked = map[visit]*typeutil.Map{}
	}
	if c.checked[v] == nil {
		c.checked[v] = &typeutil.Map{}
	}
	return c.checked[v].Set(t, true) == nil
}

// reach remembers a type that a payload contains, and for an instantiated one its
// declaration.
func (c *Checker) reach(t *types.Named) {
	c.reached.Set(t, true)
	c.reached.Set(t.Origin(), true)
}

func (c *Checker) basic(b *types.Basic, p place) {
	switch {
	case b.Kind() == types.UnsafePointer:
		c.errorf(p, "unsafe.Pointer cannot be encoded")
	case b.Info()&types.IsComplex != 0:
		c.errorf(p, "a complex number cannot be encoded: use two floats")
	}
}

// key checks the type of a map's keys.
func (c *Checker) key(t types.Type, p place) {
	t = types.Unalias(t)
	if t == types.Typ[types.Invalid] {
		c.Invalid(p.pos, p.path)
		return
	}
	b, basic := t.Underlying().(*types.Basic)
	isString := basic && b.Info()&types.IsString != 0
	isInteger := basic && b.Info()&types.IsInteger != 0
	_, isInterface := t.Underlying().(*types.Interface)
	ptr := types.NewPointer(t)
	marshals, unmarshals := implements(t, marshalText), implements(ptr, unmarshalText)
	switch {
	case isInterface, !isString && !isInteger && !marshals:
		c.errorf(p, "%s cannot be the key of a JSON object: use a string, an integer, or a type with MarshalText and UnmarshalText", c.TypeName(t))
	case marshals && !unmarshals:
		c.errorf(p, "%s has MarshalText but no UnmarshalText, so that it cannot be decoded", c.TypeName(t))
	case isString && unmarshals && implements(ptr, marshalText):
		c.errorf(p, "encoding/json writes %s, a string, without its MarshalText when it is a key, but reads it with its UnmarshalText: use a plain string, or a struct that holds one", c.TypeName(t))
	case isInteger && unmarshals && !marshals:
		c.errorf(p, "encoding/json writes %s as a number when it is a key, but reads it with its UnmarshalText: give it a MarshalText whose receiver is no pointer", c.TypeName(t))
	}
}

// opaque reports whether t encodes itself, so that its structure is of no
// concern, and checks that it also decodes itself.
func (c *Checker) opaque(t types.Type, p place) bool {
	ptr := types.NewPointer(t)
	has := func(i method) bool { return implements(t, i) || implements(ptr, i) }
	if s, ok := t.Underlying().(*types.Struct); ok {
		if field, m := takenOver(t, s); field != nil && has(m) {
			_, pointer := types.Unalias(field.Type()).(*types.Pointer)
			_, isStruct := field.Type().Underlying().(*types.Struct)
			encodes := has(marshalJSON) || has(marshalText)
			switch {
			case s.NumFields() > 1:
				c.errorf(p.at(c, field), "%s is embedded, and its %s becomes that of the whole struct, so that other fields are lost: give it a field name",
					c.TypeName(field.Type()), m.name)
				return true
			case pointer:
				c.errorf(p.at(c, field), "%s is embedded, and its %s is called for the whole struct while it is nil: embed it by value, or give it a field name",
					c.TypeName(field.Type()), m.name)
				return true
			case !encodes && !isStruct, !encodes && reflect.StructTag(s.Tag(0)).Get("json") != "":
				c.errorf(p.at(c, field), "%s is embedded, and its %s decodes the whole struct, which is not encoded like it: give it a field name",
					c.TypeName(field.Type()), m.name)
				return true
			}
		}
	}
	json, text := has(marshalJSON), has(marshalText)
	if !json && !text {
		b, basic := t.Underlying().(*types.Basic)
		isString := basic && b.Info()&types.IsString != 0
		if !isString && has(unmarshalText) && !has(unmarshalJSON) {
			c.errorf(p, "%s has UnmarshalText but neither MarshalText nor MarshalJSON, and encoding/json decodes it from nothing but a string: add MarshalText", c.TypeName(t))
			return true
		}
		return false
	}
	name := marshalText.name
	if json {
		name = marshalJSON.name
	}
	if !has(unmarshalJSON) && !has(unmarshalText) {
		c.errorf(p, "%s has %s but neither UnmarshalJSON nor UnmarshalText, so that it cannot be decoded", c.TypeName(t), name)
	} else if !p.addressable && (json && !implements(t, marshalJSON) || !json && !implements(t, marshalText)) {
		c.errorf(p, "the %s of %s has a pointer receiver, which encoding/json does not call in a map: use a map of pointers", name, c.TypeName(t))
	}
	return true
}

// at moves to a field where that is in the user's source.
func (p place) at(c *Checker, field *types.Var) place {
	p.path += "." + field.Name()
	if c.Source(field.Pos()) {
		p.pos = field.Pos()
	}
	return p
}

// TypeName spells t as code in the package of the task would, but for imports
// that are renamed there.
func (c *Checker) TypeName(t types.Type) string {
	return types.TypeString(t, func(pkg *types.Package) string {
		if pkg == c.Package {
			return ""
		}
		return pkg.Name()
	})
}

// quotable reports whether ",string" means something for t: on numbers and
// booleans. On a string it quotes twice.
func quotable(t types.Type) bool {
	if ptr, ok := types.Unalias(t).(*types.Pointer); ok {
		t = ptr.Elem()
	}
	b, ok := t.Underlying().(*types.Basic)
	return ok && b.Info()&(types.IsInteger|types.IsFloat|types.IsBoolean) != 0
}

func join(path []*types.Var) string {
	var names []string
	for _, f := range path {
		names = append(names, f.Name())
	}
	return strings.Join(names, ".")
}
