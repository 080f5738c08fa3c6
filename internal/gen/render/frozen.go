package render

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/dave/jennifer/jen"
	"github.com/pawlgo/pawl/internal/gen/evolve"
	"github.com/pawlgo/pawl/internal/gen/shape"
)

// freezer writes the types of one older version.
type freezer struct {
	names    map[string]string // of the structs, by their names in the shape
	speller  *speller
	packages packagesByPath
}

// frozen writes the type of an older version, with copies of its own of the
// structs in it, so that nothing that is edited can change it.
func frozen(file *jen.File, t *Task, v evolve.Version, next int, s *speller, packages packagesByPath) {
	f := freezer{frozenNames(t, v), s, packages}
	name := argsName(t, v.Number)
	doc := fmt.Sprintf("%s is version %d of the payload of [%s], frozen.", name, v.Number, t.Name)
	if v.Upgrader {
		doc += fmt.Sprintf(" [%s] makes version %d of it.", upgraderName(t, v.Number), next)
	} else {
		doc += fmt.Sprintf(" A stored payload of it decodes as version %d as it is.", next)
	}
	file.Add(comment(doc))
	root := v.Shape.Root
	switch root.Kind {
	case shape.Struct:
		file.Type().Id(name).Add(f.structure(v.Shape.Structs[root.Ref]))
	case shape.Opaque, shape.Raw:
		file.Type().Id(name).Op("=").Add(f.node(root)) // a new type would not have its methods
	default:
		file.Type().Id(name).Add(f.node(root))
	}
	for _, ref := range slices.Sorted(maps.Keys(v.Shape.Structs)) {
		if nested := f.names[ref]; nested != name {
			file.Add(comment(fmt.Sprintf("%s is part of [%s].", nested, name)))
			file.Type().Id(nested).Add(f.structure(v.Shape.Structs[ref]))
		}
	}
}

func (f *freezer) structure(o shape.Object) *jen.Statement {
	var fields []jen.Code
	for _, field := range o.Fields {
		tag := field.JSON
		if field.OmitEmpty {
			tag += ",omitempty"
		}
		if field.OmitZero {
			tag += ",omitzero"
		}
		if field.Quoted {
			tag += ",string"
		}
		fields = append(fields, jen.Id(field.Go).Add(f.node(field.Type)).Op(quoteTag(fmt.Sprintf("json:%q", tag))))
	}
	return jen.Struct(fields...)
}

func (f *freezer) node(n shape.Node) *jen.Statement {
	switch n.Kind {
	case shape.Bytes:
		return jen.Index().Byte()
	case shape.Slice:
		return jen.Index().Add(f.node(*n.Elem))
	case shape.Array:
		return jen.Index(jen.Lit(n.Len)).Add(f.node(*n.Elem))
	case shape.Pointer:
		return jen.Op("*").Add(f.node(*n.Elem))
	case shape.Map:
		return jen.Map(f.key(*n.Key)).Add(f.node(*n.Elem))
	case shape.Struct:
		return jen.Id(f.names[n.Ref])
	case shape.Raw:
		return f.raw()
	case shape.Opaque:
		if t, ok := f.speller.opaque(n.Ref, f.packages); ok {
			return t
		}
		return f.raw()
	}
	return jen.Id(string(n.Kind))
}

// raw stands for what cannot be decoded into its type any more: an upgrader gets
// what is stored.
func (f *freezer) raw() *jen.Statement {
	return f.speller.qualified(jsonPath, "json", "RawMessage")
}

func (f *freezer) key(n shape.Node) *jen.Statement {
	if n.Kind != shape.Opaque {
		return f.node(n)
	}
	if t, ok := f.speller.opaque(n.Ref, f.packages); ok {
		return t
	}
	return jen.String()
}

// quoteTag writes a struct tag as a literal.
func quoteTag(tag string) string {
	if strings.ContainsFunc(tag, func(r rune) bool { return r == '`' || r == utf8.RuneError || !unicode.IsPrint(r) }) {
		return fmt.Sprintf("%q", tag)
	}
	return "`" + tag + "`"
}

// frozenNames names the types of an older version: the payload after the task and
// the number, and every other struct after these and its own name. It depends on
// the shape alone, so that a name that an upgrader uses stays.
func frozenNames(t *Task, v evolve.Version) map[string]string {
	base := argsName(t, v.Number)
	names := map[string]string{}
	var refs []string
	for _, ref := range slices.Sorted(maps.Keys(v.Shape.Structs)) {
		if v.Shape.Root.Kind == shape.Struct && v.Shape.Root.Ref == ref {
			names[ref] = base
		} else {
			refs = append(refs, ref)
		}
	}
	used := map[string]bool{}
	claim := func(ref, name string) {
		for n, unique := 2, name; ; n++ {
			if !used[unique] {
				used[unique] = true
				names[ref] = base + unique
				return
			}
			unique = fmt.Sprintf("%s%d", name, n)
		}
	}
	short := map[string][]string{}
	for _, ref := range refs {
		short[goName(ref, false)] = append(short[goName(ref, false)], ref)
	}
	for _, ref := range refs {
		if name := goName(ref, false); len(short[name]) == 1 {
			claim(ref, name)
		}
	}
	for _, ref := range refs {
		if len(short[goName(ref, false)]) > 1 {
			claim(ref, goName(ref, true))
		}
	}
	return names
}

// goName makes an exported identifier of the name of a struct in a shape: without
// the paths of packages, or with more of them.
func goName(ref string, long bool) string {
	var out strings.Builder
	words := func(text string) {
		for word := range strings.FieldsFuncSeq(text, func(r rune) bool { return r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
			first, size := utf8.DecodeRuneInString(word)
			if upper := unicode.ToUpper(first); unicode.IsUpper(upper) {
				out.WriteString(string(upper) + word[size:])
			} else {
				out.WriteString("X" + word)
			}
		}
	}
	for name := range strings.FieldsFuncSeq(ref, func(r rune) bool { return strings.ContainsRune("[],*{}; \"", r) }) {
		last := name[strings.LastIndexByte(name, '/')+1:]
		dot := strings.LastIndexByte(last, '.')
		switch {
		case !long:
			words(last[dot+1:])
		case dot >= 0:
			words(last)
		default: // of a struct without a name: the way to it
			words(name)
		}
	}
	return out.String()
}
