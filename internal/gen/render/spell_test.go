package render

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"strings"
	"testing"

	"github.com/dave/jennifer/jen"
	"github.com/stretchr/testify/require"
)

// sources are packages that import each other, in order.
var sources = []struct{ path, text string }{
	{"example.com/app/lib/internal/deep", `package deep
type T struct{ N int }`},
	{"example.com/app/lib", `package lib
import "example.com/app/lib/internal/deep"
type T struct{ N int }
type Private struct{ n int }
type hidden struct{ N int }
type Exported = hidden
type Deep = deep.T
type Generic[A, B any] struct{ A A; B B }
type Twin[A any] = Generic[A, A]
var (
	Literal struct{ n int }
	Method interface{ private() }
	Hidden hidden
)`},
	{"example.com/main", `package main
type T int`},
	{"example.com/jobs", `package jobs
import (
	"example.com/app/lib"
	"example.com/main"
)
type Own struct{}
type len int
type Marshals struct{}
func (Marshals) MarshalJSON() ([]byte, error) { return nil, nil }
type Almost struct{}
func (Almost) MarshalJSON() string { return "" }
type constraint interface{ ~int }
var (
	V1 map[lib.T]*[2][]Own
	V2 lib.Twin[lib.Generic[Own, error]]
	V3 chan (<-chan int)
	V4 <-chan chan<- chan int
	V5 func(a, b int, c ...string) (n int, err error)
	V6 interface{ Do(func()) error; own(); interface{ Done() } }
	V7 struct { Own; *lib.Exported; lib.Twin[int]; A, b int ` + "`json:\"a\"`" + `; C string "a` + "`" + `b"; _ any }
	V8 lib.Exported
	V9 []struct{}
	No1 = lib.Literal
	No2 = lib.Hidden
	No3 main.T
	No4 []func(map[string]lib.Generic[int, struct{ lib.Own }])
	No5 len
	No6 struct{ len int }
	No7 = lib.Method
	No8 bool
	No9 func() (chan bool, *bool)
	No10 struct{ *lib.T; X []bool }
	No11 interface{ Do(bool) }
	No12 interface{ constraint }
	No13 map[bool]int
	No14 lib.Generic[bool, int]
)`},
}

// checkSources type-checks the sources; the last of them is full of errors that
// leave types invalid.
func checkSources(t *testing.T) map[string]*types.Package {
	t.Helper()
	all := packagesByPath{}
	fset := token.NewFileSet()
	for _, src := range sources {
		file, err := parser.ParseFile(fset, src.path, src.text, parser.SkipObjectResolution)
		require.NoError(t, err)
		config := types.Config{Importer: importerFunc(func(path string) (*types.Package, error) { return all[path], nil }), Error: func(error) {}}
		all[src.path], _ = config.Check(src.path, fset, []*ast.File{file}, nil)
	}
	return all
}

type importerFunc func(path string) (*types.Package, error)

func (f importerFunc) Import(path string) (*types.Package, error) { return f(path) }

func newSpeller() *speller {
	return &speller{self: "example.com/jobs", named: map[string]string{}, taken: func(name string) bool { return name == "len" || name == "bool" }}
}

func TestSpeller(t *testing.T) {
	t.Parallel()
	pkg := checkSources(t)["example.com/jobs"]
	for name, want := range map[string]string{
		"V1": "map[lib.T]*[2][]Own",
		"V2": "lib.Generic[lib.Generic[Own, error], lib.Generic[Own, error]]",
		"V3": "chan (<-chan int)",
		"V4": "<-chan chan<- chan int",
		"V5": "func(int, int, ...string) (int, error)",
		"V6": "interface {\n\tDo(func()) error\n\town()\n\tinterface {\n\t\tDone()\n\t}\n}",
		"V7": "struct {\n\tOwn\n\t*lib.Exported\n\tlib.Twin[int]\n\tA int    `json:\"a\"`\n\tb int    `json:\"a\"`\n\tC string \"a`b\"\n\t_ interface{}\n}",
		"V8": "lib.Exported", "V9": "[]struct{}",
		"No1": "", "No2": "", "No3": "", "No4": "", "No5": "", "No6": "", "No7": "", "No8": "", "No9": "", "No10": "", "No11": "", "No12": "", "No13": "", "No14": "",
	} {
		typ := pkg.Scope().Lookup(name).Type()
		spelled, ok := newSpeller().typ(typ)
		require.Equal(t, want != "", ok, "%s: %s", name, typ)
		if ok {
			text := strings.TrimPrefix(fmt.Sprintf("%#v", jen.Var().Id("_").Add(spelled)), "var _ ")
			text = strings.ReplaceAll(text, "jobs.", "")
			require.Equal(t, want, text, name)
		}
	}
}

func TestOpaque(t *testing.T) {
	t.Parallel()
	known := checkSources(t)
	for ref, want := range map[string]string{
		"example.com/jobs.Marshals":                     "jobs.Marshals",
		"example.com/opt.Of[int]":                       "opt.Of[int]",
		"example.com/opt.Of[map[string][]*[3]a.b/c.D]":  "opt.Of[map[string][]*[3]c.D]",
		"example.com/opt.Of[a.b/c.D[int,error],[2]int]": "opt.Of[c.D[int, error], [2]int]",
		"gopkg.in/yaml.v3.Node":                         "yamlv3.Node",
		"encoding/json.Number":                          "json.Number",
		"example.com/opt.Of[example.com/app/lib.T]":     "opt.Of[lib.T]", // only the outermost encodes itself

		"example.com/jobs.Own":                         "", // not any more
		"example.com/jobs.Almost":                      "", // never did
		"example.com/jobs.Gone":                        "",
		"example.com/app/lib.hidden":                   "",
		"example.com/app/lib/internal/deep.T":          "",
		"internal/deep.T":                              "",
		"example.com/main.T":                           "",
		"example.com/opt.Of[example.com/app/lib.Gone]": "",
		"example.com/opt.Of[bool]":                     "", // another meaning here
		"example.com/opt.Of[complex]":                  "",
		"example.com/opt.Of[struct { A int }]":         "",
		"example.com/opt.Of[[x]int]":                   "",
		"example.com/opt.Of[map[chan int]int]":         "",
		"example.com/opt.Of[int":                       "",
		"example.com/opt.Of[int]more":                  "",
		"example.com/opt.Of[interface {}]":             "",
		"":                                             "",
	} {
		spelled, ok := newSpeller().opaque(ref, known)
		require.Equal(t, want != "", ok, ref)
		if ok {
			require.Equal(t, want, fmt.Sprintf("%#v", spelled), ref)
		}
	}
}

func TestGuessName(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{
		"math/rand/v2": "rand", "example.com/Odd-Name": "oddname", "example.com/3d": "pkg3d", "example.com/日本": "pkg", "v2": "v2", "gopkg.in/yaml.v3": "yamlv3",
	} {
		require.Equal(t, want, guessName(path))
	}
}

func TestQuoteTag(t *testing.T) {
	t.Parallel()
	for tag, want := range map[string]string{
		`json:"a"`: "`json:\"a\"`", "a`b": `"a` + "`" + `b"`, "a\nb": `"a\nb"`, "ü": "`ü`", "\xff": `"\xff"`,
	} {
		require.Equal(t, want, quoteTag(tag))
	}
}
