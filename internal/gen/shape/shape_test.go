package shape_test

import (
	"encoding/json"
	"go/types"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/tools/go/packages"

	"github.com/pawlgo/pawl/internal/gen/shape"
	"github.com/pawlgo/pawl/internal/gen/shape/testdata/family"
)

const familyPath = "github.com/pawlgo/pawl/internal/gen/shape/testdata/family"

// loaded is package family as a generator sees it.
var loaded = sync.OnceValues(func() (*types.Package, error) {
	pkgs, err := packages.Load(&packages.Config{Mode: packages.NeedName | packages.NeedTypes | packages.NeedImports | packages.NeedDeps}, familyPath)
	if err != nil {
		return nil, err
	}
	return pkgs[0].Types, nil
})

func fromType(t *testing.T, name string, modules func(string) string) (*shape.Shape, error) {
	t.Helper()
	pkg, err := loaded()
	require.NoError(t, err)
	obj := pkg.Scope().Lookup(name)
	require.NotNil(t, obj, name)
	return shape.FromType(obj.Type(), pkg, modules)
}

func fromReflect[T any](t *testing.T) *shape.Shape {
	t.Helper()
	s, err := shape.FromReflect(reflect.TypeFor[T]())
	require.NoError(t, err)
	return s
}

// payloads are the types of package family that have a shape.
var payloads = map[string]reflect.Type{
	"Scalars":          reflect.TypeFor[family.Scalars](),
	"Containers":       reflect.TypeFor[family.Containers](),
	"Encoded":          reflect.TypeFor[family.Encoded](),
	"Options":          reflect.TypeFor[family.Options](),
	"Embedded":         reflect.TypeFor[family.Embedded](),
	"Shadowed":         reflect.TypeFor[family.Shadowed](),
	"Ambiguous":        reflect.TypeFor[family.Ambiguous](),
	"TagWins":          reflect.TypeFor[family.TagWins](),
	"ByPointer":        reflect.TypeFor[family.ByPointer](),
	"Given":            reflect.TypeFor[family.Given](),
	"GivenHidden":      reflect.TypeFor[family.GivenHidden](),
	"BothNames":        reflect.TypeFor[family.BothNames](),
	"NoStruct":         reflect.TypeFor[family.NoStruct](),
	"Depth":            reflect.TypeFor[family.Depth](),
	"Diamond":          reflect.TypeFor[family.Diamond](),
	"Loop":             reflect.TypeFor[family.Loop](),
	"Foreign":          reflect.TypeFor[family.Foreign](),
	"SameGoName":       reflect.TypeFor[family.SameGoName](),
	"EmbedsAlias":      reflect.TypeFor[family.EmbedsAlias](),
	"Anonymous":        reflect.TypeFor[family.Anonymous](),
	"Node":             reflect.TypeFor[family.Node](),
	"Generics":         reflect.TypeFor[family.Generics](),
	"InstantiatedRoot": reflect.TypeFor[family.InstantiatedRoot](),
	"Value":            reflect.TypeFor[family.Value](),
}

func TestBothSourcesAgree(t *testing.T) {
	t.Parallel()
	for name, typ := range payloads {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			byTypes, err := fromType(t, name, nil)
			require.NoError(t, err)
			byReflect, err := shape.FromReflect(typ)
			require.NoError(t, err)
			require.Equal(t, byReflect, byTypes)
			require.NoError(t, byTypes.Validate())
			require.True(t, shape.Equal(byReflect, byTypes))
		})
	}
}

func TestShapesSurviveALock(t *testing.T) {
	t.Parallel()
	for name, typ := range payloads {
		s, err := shape.FromReflect(typ)
		require.NoError(t, err)
		raw, err := json.Marshal(s)
		require.NoError(t, err)
		var back shape.Shape
		require.NoError(t, json.Unmarshal(raw, &back))
		require.Equal(t, s, &back, name)
	}
}

func TestFields(t *testing.T) {
	t.Parallel()
	fields := func(s *shape.Shape) string {
		var all []string
		for _, f := range s.Structs[s.Root.Ref].Fields {
			text := f.JSON + ":" + f.Go + ":" + string(f.Type.Kind)
			if f.Quoted {
				text += ",string"
			}
			if f.OmitEmpty {
				text += ",omitempty"
			}
			if f.OmitZero {
				text += ",omitzero"
			}
			all = append(all, text)
		}
		return strings.Join(all, " ")
	}
	require.Equal(t, "id:ID:int64 Name:Name:string", fields(fromReflect[family.Embedded](t)))
	require.Equal(t, "Also:Also:bool id:ID:uint8", fields(fromReflect[family.Shadowed](t)))
	require.Equal(t, "Name:Name:string Also:Also:bool Own:Own:int", fields(fromReflect[family.Ambiguous](t)))
	require.Equal(t, "Same:Other:int", fields(fromReflect[family.TagWins](t)))
	require.Equal(t, "id:ID:string Also:Also:bool", fields(fromReflect[family.ByPointer](t)))
	require.Equal(t, "base:Base:struct", fields(fromReflect[family.Given](t)))
	require.Equal(t, "base:Base:struct", fields(fromReflect[family.GivenHidden](t)), "a Go name that is stored is exported")
	require.Equal(t, "base:BaseX:struct Base:Base:int", fields(fromReflect[family.BothNames](t)))
	require.Equal(t, "Words:Words:slice level:Level:string", fields(fromReflect[family.NoStruct](t)))
	require.Equal(t, "id:ID:string Also:Also:int", fields(fromReflect[family.Depth](t)))
	require.Equal(t, "", fields(fromReflect[family.Diamond](t)))
	require.Equal(t, "N:N:int", fields(fromReflect[family.Loop](t)))
	require.Equal(t, "id:ID:int64 Note:Note:string Of:Of:struct", fields(fromReflect[family.Foreign](t)))
	require.Equal(t, "first_id:FirstID:int second_id:SecondID:int deep_third:SecondThird:int third:Third:int",
		fields(fromReflect[family.SameGoName](t)), "every field has a Go name of its own")
	require.Equal(t, "id:ID:string Also:Also:bool", fields(fromReflect[family.EmbedsAlias](t)))
	require.Equal(t, "quoted:Quoted:int,string QuotedP:QuotedP:pointer,string,omitempty pp:QuotedPP:pointer NotQuoted:NotQuoted:slice "+
		"empty:Empty:slice,omitempty zero:Zero:struct,omitzero -:Dash:int Invalid:Invalid:int a.b c/d[e]{f}%:Strange:int größe:Unicode:int",
		fields(fromReflect[family.Options](t)))
}

func TestNodes(t *testing.T) {
	t.Parallel()
	types := func(s *shape.Shape) map[string]shape.Node {
		all := map[string]shape.Node{}
		for _, f := range s.Structs[s.Root.Ref].Fields {
			all[f.Go] = f.Type
		}
		return all
	}
	opaque := func(ref string) shape.Node { return shape.Node{Kind: shape.Opaque, Ref: ref} }
	node := func(kind shape.Kind) *shape.Node { return &shape.Node{Kind: kind} }

	encoded := types(fromReflect[family.Encoded](t))
	require.Equal(t, shape.Node{Kind: shape.Raw}, encoded["Raw"])
	require.Equal(t, shape.Node{Kind: shape.Pointer, Elem: node(shape.Raw)}, encoded["RawP"])
	require.Equal(t, opaque("encoding/json.Number"), encoded["Number"], "a string in Go, a number on the wire")
	require.Equal(t, opaque("time.Time"), encoded["At"])
	require.Equal(t, opaque("github.com/google/uuid.UUID"), encoded["ID"])
	require.Equal(t, opaque(familyPath+".Value"), encoded["Value"])
	require.Equal(t, opaque(familyPath+".Address"), encoded["Address"])
	require.Equal(t, opaque(familyPath+".Text"), encoded["Text"])
	require.Equal(t, opaque(familyPath+".Lenient"), encoded["Lenient"], "what it takes is not what an int takes")
	require.Equal(t, opaque(familyPath+"/other.Code"), encoded["Code"])
	require.Equal(t, opaque(familyPath+".Tagged[int]"), encoded["Tagged"])
	require.Equal(t, opaque(familyPath+".Tagged["+familyPath+"/other.Item]"), encoded["TaggedIn"])

	containers := types(fromReflect[family.Containers](t))
	require.Equal(t, shape.Node{Kind: shape.Bytes}, containers["Bytes"])
	require.Equal(t, shape.Node{Kind: shape.Bytes}, containers["Named"])
	require.Equal(t, shape.Node{Kind: shape.Array, Len: 4, Elem: node(shape.Uint8)}, containers["Digest"])
	require.Equal(t, shape.Slice, containers["Octets"].Kind, "its elements encode themselves")
	require.Equal(t, shape.Node{Kind: shape.Map, Key: node(shape.String), Elem: node(shape.Bool)}, containers["Levels"])
	require.Equal(t, opaque(familyPath+".Text"), *containers["Texts"].Key)
	require.Equal(t, opaque(familyPath+".Key"), *containers["Keys"].Key)
	require.Equal(t, opaque("github.com/google/uuid.UUID"), *containers["IDs"].Key)
	require.Equal(t, shape.Node{Kind: shape.Struct, Ref: "Item"}, containers["Aliased"])

	scalars := types(fromReflect[family.Scalars](t))
	require.Equal(t, shape.Node{Kind: shape.Int64}, scalars["Wait"], "a time.Duration is a number of nanoseconds")
	require.Equal(t, shape.Node{Kind: shape.String}, scalars["Level"])
}

func TestNamesOfStructs(t *testing.T) {
	t.Parallel()
	names := func(s *shape.Shape) []string {
		var all []string
		for name := range s.Structs {
			all = append(all, strings.ReplaceAll(name, familyPath, "F"))
		}
		return all
	}
	require.ElementsMatch(t, []string{
		"Generics", "Item", "F/other.Item",
		"Batch[Item]", "Batch[F/other.Item]", "Batch[*Item]", "Batch[[]Item]", "Batch[[3]F/other.Item]", "Batch[map[string]Item]",
		"Batch[int]", "Batch[Batch[Item]]", "Pair[Item,F/other.Item]", "F/other.Box[Item]",
		"F/other.Box[F/other.Box[Level]]", "F/other.Box[Level]",
		`Batch[struct { A int "json:\"a\""; Item }]`, `Batch[struct { A int "json:\"a\""; Item }]/Items`,
	}, names(fromReflect[family.Generics](t)))
	require.ElementsMatch(t, []string{
		"Anonymous", "Anonymous/Meta", "Anonymous/Meta/Deep", "Anonymous/Same", "Anonymous/None",
		`F/other.Box[struct { C int "json:\"c\"" }]`, `F/other.Box[struct { C int "json:\"c\"" }]/Content`,
	}, names(fromReflect[family.Anonymous](t)))
	require.ElementsMatch(t, []string{"Node", "Peer"}, names(fromReflect[family.Node](t)))
}

func TestModules(t *testing.T) {
	t.Parallel()
	s, err := fromType(t, "Encoded", func(path string) string {
		if path == "github.com/google/uuid" {
			return path + "@v1.6.0"
		}
		return ""
	})
	require.NoError(t, err)
	for _, f := range s.Structs["Encoded"].Fields {
		if f.Go == "ID" {
			require.Equal(t, "github.com/google/uuid@v1.6.0", f.Type.Module)
		} else {
			require.Empty(t, f.Type.Module, f.Go)
		}
	}
	require.True(t, shape.Equal(s, fromReflect[family.Encoded](t)), "a module's version is no part of the wire form")
}

func TestWhatHasNoShape(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"WithTree":     "WithTree.Forest[][]: Tree contains itself without a struct in between: put the recursion into a struct",
		"WithLink":     "WithLink.Link: Link contains itself without a struct in between: put the recursion into a struct",
		"WithMutual":   "WithMutual.Mutual[][]: Mutual contains itself without a struct in between: put the recursion into a struct",
		"WithAny":      "WithAny.Any[]: encoding/json cannot store a value of the kind interface and read it back",
		"WithChan":     "WithChan.Inner.C: encoding/json cannot store a value of the kind chan and read it back",
		"WithKey":      "WithKey.M (a map key): a value of the kind bool cannot be the key of a JSON object",
		"WithUnnamed":  "WithUnnamed.T: a type without a name encodes itself, through what it embeds: declare a type for it",
		"WithComplex":  "WithComplex.C: encoding/json cannot store a value of the kind complex128 and read it back",
		"WithFunc":     "WithFunc.F: encoding/json cannot store a value of the kind func and read it back",
		"WithIterated": "WithIterated.B.Items[]: encoding/json cannot store a value of the kind interface and read it back",
	} {
		_, err := fromType(t, name, nil)
		require.EqualError(t, err, want)
	}
	for _, typ := range []reflect.Type{
		reflect.TypeFor[family.WithTree](), reflect.TypeFor[family.WithLink](), reflect.TypeFor[family.WithMutual](),
		reflect.TypeFor[family.WithAny](), reflect.TypeFor[family.WithUnnamed](),
	} {
		_, err := shape.FromReflect(typ)
		_, want := fromType(t, typ.Name(), nil)
		require.EqualError(t, err, want.Error())
	}
}

func TestTwoTypesOfOneName(t *testing.T) {
	t.Parallel()
	type Item struct{ A int }
	one := reflect.TypeFor[Item]()
	other := func() reflect.Type {
		type Item struct{ B int }
		return reflect.TypeFor[Item]()
	}()
	_, err := shape.FromReflect(reflect.StructOf([]reflect.StructField{{Name: "X", Type: one}, {Name: "Y", Type: other}}))
	require.ErrorContains(t, err, "two types are called "+one.PkgPath()+".Item: rename one")
}
