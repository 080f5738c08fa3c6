package render_test

import (
	"crypto/sha256"
	"flag"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/pawlgo/pawl/internal/gen/declare"
	"github.com/pawlgo/pawl/internal/gen/diag"
	"github.com/pawlgo/pawl/internal/gen/directive"
	"github.com/pawlgo/pawl/internal/gen/evolve"
	"github.com/pawlgo/pawl/internal/gen/load"
	"github.com/pawlgo/pawl/internal/gen/render"
	"github.com/pawlgo/pawl/internal/gen/render/golden/evolved/past"
	"github.com/pawlgo/pawl/internal/gen/shape"
	"github.com/stretchr/testify/require"
	"golang.org/x/tools/go/packages"
)

var update = flag.Bool("update", false, "write the golden file anew")

const (
	evolvedPath = "github.com/pawlgo/pawl/internal/gen/render/golden/evolved"
	evolvedDir  = "golden/evolved"
)

// base stands for the identity of a version.
func base(kind string, number int) [32]byte {
	return sha256.Sum256(fmt.Appendf(nil, "%s %d", kind, number))
}

// of returns the shape of T.
func of[T any](t *testing.T) *shape.Shape {
	t.Helper()
	s, err := shape.FromReflect(reflect.TypeFor[T]())
	require.NoError(t, err)
	require.NoError(t, s.Validate())
	return s
}

// lost is a shape with types that cannot be named, or not any more.
func lost() *shape.Shape {
	opaque := func(ref string) shape.Node { return shape.Node{Kind: shape.Opaque, Ref: ref} }
	gone := opaque(evolvedPath + ".Gone")
	return &shape.Shape{Root: shape.Node{Kind: shape.Struct, Ref: "LostArgs"}, Structs: map[string]shape.Object{"LostArgs": {Fields: []shape.Field{
		{JSON: "gone", Go: "Gone", Type: gone},
		{JSON: "plain", Go: "Plain", Type: opaque(evolvedPath + ".Tries")},
		{JSON: "hidden", Go: "Hidden", Type: opaque(evolvedPath + "/opt.hidden")},
		{JSON: "internal", Go: "Internal", Type: opaque("example.com/a/internal/b.T")},
		{JSON: "literal", Go: "Literal", Type: opaque(evolvedPath + "/opt.Of[struct { A int }]")},
		{JSON: "by_key", Go: "ByKey", Type: shape.Node{Kind: shape.Map, Key: &gone, Elem: &gone}},
		{JSON: "addr", Go: "Addr", Type: opaque("net/netip.Addr")},
	}}}}
}

// plan makes the versions of a task: the shapes of the older ones by number, and
// after them the current one. Those with an upgrader are named.
func plan(kind string, current int, older map[int]*shape.Shape, upgraders ...int) *evolve.Plan {
	p := &evolve.Plan{Current: evolve.Version{Number: current, Base: base(kind, current)}}
	for _, n := range slices.Sorted(maps.Keys(older)) {
		p.Older = append(p.Older, evolve.Version{Number: n, Base: base(kind, n), Shape: older[n], Upgrader: slices.Contains(upgraders, n)})
	}
	return p
}

func evolvedPlans(t *testing.T) map[string]*evolve.Plan {
	one := func(kind string, s *shape.Shape) *evolve.Plan { return plan(kind, 2, map[int]*shape.Shape{1: s}, 1) }
	return map[string]*evolve.Plan{
		"Deliver": plan("deliver", 5, map[int]*shape.Shape{
			1: of[past.DeliverV1](t), 2: of[past.DeliverV2](t), 3: of[past.DeliverV3](t), 4: of[past.DeliverV4](t)}, 1, 3),
		"Shrink":  plan("shrink", 3, map[int]*shape.Shape{1: of[past.ShrinkV1](t), 2: of[past.ShrinkV2](t)}),
		"Retired": plan("retired", 5, map[int]*shape.Shape{2: of[past.RetiredV2](t)}, 2),
		"List":    one("list", of[past.ListV1](t)),
		"Text":    one("text", of[past.TextV1](t)),
		"Code":    one("code", of[past.CodeV1](t)),
		"Archive": one("archive", of[past.ArchiveV1](t)),
		"Lost":    one("lost", lost()),
	}
}

func evolvedAliases() []render.Alias {
	return []render.Alias{
		{Kind: "pensioned", Versions: []render.AliasVersion{{Number: 2, Base: base("pensioned", 2), As: 2}, {Number: 5, Base: base("pensioned", 5), As: 5}}},
		{Kind: "merged", Versions: []render.AliasVersion{{Number: 1, Base: base("merged", 1), As: 5}}},
	}
}

// source is a package without its generated file.
type source struct {
	pkg   *packages.Package
	tasks []*render.Task
}

func loadSource(t *testing.T, dir string) source {
	t.Helper()
	dir, err := filepath.Abs(dir)
	require.NoError(t, err)
	pkgs, err := load.Load(t.Context(), dir, []string{"."})
	require.NoError(t, err)
	s := source{pkg: pkgs.Roots[0]}
	errorf := func(pos token.Pos, format string, args ...any) {
		t.Errorf("%s: %s", pkgs.Fset.Position(pos), fmt.Sprintf(format, args...))
	}
	report := directive.Reporter{Errorf: errorf, At: func(token.Pos) string { return "" }, LineStart: func(pos token.Pos, _ int) token.Pos { return pos }}
	for _, d := range declare.Find(pkgs, s.pkg, diag.New(dir)) {
		s.tasks = append(s.tasks, &render.Task{
			Name: d.Name, NamePos: d.NamePos, Args: d.Args, Policy: directive.Read(d.Doc, d.Name, d.NamePos, report),
		})
	}
	return s
}

func (s source) file(t *testing.T) string {
	t.Helper()
	content, err := render.File(&render.Package{Path: s.pkg.PkgPath, Name: s.pkg.Name, Tasks: s.tasks, Taken: func(name string) bool {
		return s.pkg.Types.Scope().Lookup(name) != nil
	}})
	require.NoError(t, err)
	return string(content)
}

func loadEvolved(t *testing.T) source {
	t.Helper()
	s := loadSource(t, evolvedDir)
	plans := evolvedPlans(t)
	for _, task := range s.tasks {
		task.Plan = plans[task.Name]
		require.NotNil(t, task.Plan, task.Name)
		var err error
		task.Plan.Current.Shape, err = shape.FromType(task.Args, s.pkg.Types, nil)
		require.NoError(t, err)
		if task.Name == "Retired" {
			task.Aliases = evolvedAliases()
		}
	}
	return s
}

// The golden package is compiled and run by tests of its own.
func TestGolden(t *testing.T) {
	t.Parallel()
	content := loadEvolved(t).file(t)
	path := filepath.Join(evolvedDir, load.OutputName)
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(content), 0o666))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), content, "record it anew with -update")
}

// Every declared name is in the list of names, and the other way round.
func TestNames(t *testing.T) {
	t.Parallel()
	s := loadEvolved(t)
	file, err := parser.ParseFile(token.NewFileSet(), "", s.file(t), parser.SkipObjectResolution)
	require.NoError(t, err)
	var declared []string
	for _, decl := range file.Decls {
		switch decl := decl.(type) {
		case *ast.FuncDecl:
			if decl.Recv != nil {
				require.Equal(t, render.KindMethod, decl.Name.Name)
				continue
			}
			declared = append(declared, decl.Name.Name)
		case *ast.GenDecl:
			for _, spec := range decl.Specs {
				switch spec := spec.(type) {
				case *ast.TypeSpec:
					declared = append(declared, spec.Name.Name)
				case *ast.ValueSpec:
					for _, id := range spec.Names {
						declared = append(declared, id.Name)
					}
				}
			}
		}
	}
	declared = slices.DeleteFunc(declared, func(name string) bool { return name == "_" })
	var names []string
	for _, n := range render.Names(s.tasks) {
		names = append(names, n.Name)
	}
	require.ElementsMatch(t, declared, names)
	for _, name := range names {
		require.True(t, render.Declares(s.tasks, name), name)
	}
}

// Before there are plans, every name that a version might have is tolerated.
func TestDeclares(t *testing.T) {
	t.Parallel()
	tasks := loadSource(t, evolvedDir).tasks
	for name, want := range map[string]bool{
		"DeliverArgsV1": true, "DeliverArgsV12": true, "DeliverArgsV1Retry": true, "EnqueueDeliver": true, "Handlers": true,
		"DeliverArgsV": false, "DeliverArgsV0": false, "DeliverArgsVRetry": false, "DeliverArgs": false, "OtherArgsV1": false, "UpgradeDeliverV1": false,
	} {
		require.Equal(t, want, render.Declares(tasks, name), name)
	}
}

// compiler type-checks a package with changes to its files.
type compiler struct {
	path    string
	files   map[string]string
	exports map[string]string // files of export data by package path
}

func newCompiler(t *testing.T, dir string) *compiler {
	t.Helper()
	dir, err := filepath.Abs(dir)
	require.NoError(t, err)
	pkgs, err := packages.Load(&packages.Config{Context: t.Context(), Dir: dir,
		Mode: packages.NeedName | packages.NeedFiles | packages.NeedImports | packages.NeedDeps | packages.NeedExportFile}, ".")
	require.NoError(t, err)
	c := &compiler{path: pkgs[0].PkgPath, files: map[string]string{}, exports: map[string]string{}}
	packages.Visit(pkgs, nil, func(pkg *packages.Package) { c.exports[pkg.PkgPath] = pkg.ExportFile })
	for _, name := range pkgs[0].GoFiles {
		content, err := os.ReadFile(name)
		require.NoError(t, err)
		c.files[filepath.Base(name)] = string(content)
	}
	return c
}

func (c *compiler) open(path string) (io.ReadCloser, error) {
	if c.exports[path] == "" {
		return nil, fmt.Errorf("package %s is not a dependency", path)
	}
	return os.Open(c.exports[path])
}

// check returns the package and what is wrong with it, where some files are
// others.
func (c *compiler) check(t *testing.T, changed map[string]string) (*types.Package, []string) {
	t.Helper()
	files := maps.Clone(c.files)
	maps.Copy(files, changed)
	fset := token.NewFileSet()
	var syntax []*ast.File
	for _, name := range slices.Sorted(maps.Keys(files)) {
		f, err := parser.ParseFile(fset, name, files[name], parser.SkipObjectResolution)
		require.NoError(t, err)
		syntax = append(syntax, f)
	}
	var problems []string
	pkg, _ := (&types.Config{Importer: importer.ForCompiler(fset, "gc", c.open), Error: func(err error) { problems = append(problems, err.Error()) }}).
		Check(c.path, fset, syntax, nil)
	return pkg, problems
}

// edit replaces one text in the source of package evolved.
func (c *compiler) edit(t *testing.T, name, old, new string) map[string]string {
	t.Helper()
	require.Equal(t, 1, strings.Count(c.files[name], old), "%q", old)
	return map[string]string{name: strings.Replace(c.files[name], old, new, 1)}
}
