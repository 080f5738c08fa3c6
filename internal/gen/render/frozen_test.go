package render_test

import (
	"fmt"
	"go/types"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawlgo/pawl/internal/gen/directive"
	"github.com/pawlgo/pawl/internal/gen/load"
	"github.com/pawlgo/pawl/internal/gen/render"
	"github.com/pawlgo/pawl/internal/gen/shape"
	"github.com/stretchr/testify/require"
)

// Whatever is accepted as a payload can be frozen: the type compiles, and has the
// wire form of the payload.
func TestEveryGoldenPayloadCanBeFrozen(t *testing.T) {
	t.Parallel()
	for _, dir := range []string{"../golden/fleet", "../golden/shapes"} {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			t.Parallel()
			s := loadSource(t, dir)
			for _, task := range s.tasks {
				recorded, err := shape.FromType(task.Args, s.pkg.Types, nil)
				require.NoError(t, err)
				task.Policy.Organization = nil // its conversion is found by another stage
				task.Plan = plan(task.Name, 9, map[int]*shape.Shape{8: recorded})
				task.Plan.Current.Shape = recorded
			}
			pkg, problems := newCompiler(t, dir).check(t, map[string]string{load.OutputName: s.file(t)})
			require.Empty(t, problems)
			for _, task := range s.tasks {
				requireFrozen(t, pkg, task)
			}
		})
	}
}

// requireFrozen holds the type of each older version against its shape.
func requireFrozen(t *testing.T, pkg *types.Package, task *render.Task) {
	t.Helper()
	for _, v := range task.Plan.Older {
		name := fmt.Sprintf("%sArgsV%d", task.Name, v.Number)
		obj := pkg.Scope().Lookup(name)
		require.NotNil(t, obj, name)
		frozen, err := shape.FromType(obj.Type(), pkg, nil)
		require.NoError(t, err)
		require.Equal(t, string(v.Shape.Canonical()), string(frozen.Canonical()), name)
	}
}

// Shapes that nobody wrote: names that meet, recursion, and every kind in every
// place.
func TestRandomShapesCanBeFrozen(t *testing.T) {
	t.Parallel()
	const seed = 20261129
	random := rand.New(rand.NewPCG(seed, seed))
	pkg := types.NewPackage(evolvedPath+"/jobs", "jobs")
	args := types.NewTypeName(0, pkg, "Args", nil)
	types.NewNamed(args, types.NewStruct(nil, nil), nil)
	pkg.Scope().Insert(args)

	var tasks []*render.Task
	source := "package jobs\n\nimport \"github.com/pawlgo/pawl/task\"\n\ntype Args struct{}\n"
	for i := range 150 {
		name := fmt.Sprintf("T%03dX", i)
		source += fmt.Sprintf("\ntype %s struct{ task.Task[Args] }\n", name)
		older := map[int]*shape.Shape{}
		for n := range 1 + random.IntN(3) {
			older[n+1] = randomShape(random)
			require.NoError(t, older[n+1].Validate())
		}
		versions := plan(name, 10, older)
		versions.Current.Shape = randomShape(random)
		tasks = append(tasks, &render.Task{
			Name: name, Args: args.Type(), Plan: versions,
			Policy: directive.Policy{Kind: strings.ToLower(name), Queue: "q", Priority: "normal", Attempts: 1, Base: time.Second, Max: time.Second, Unknown: 1, Timeout: time.Second},
		})
	}
	content, err := render.File(&render.Package{Path: pkg.Path(), Name: pkg.Name(), Tasks: tasks, Taken: func(string) bool { return false }})
	require.NoError(t, err)
	again, err := render.File(&render.Package{Path: pkg.Path(), Name: pkg.Name(), Tasks: tasks, Taken: func(string) bool { return false }})
	require.NoError(t, err)
	require.Equal(t, string(content), string(again))

	c := newCompiler(t, evolvedDir)
	c.path, c.files = pkg.Path(), map[string]string{"jobs.go": source, load.OutputName: string(content)}
	checked, problems := c.check(t, nil)
	require.Empty(t, problems)
	for _, task := range tasks {
		requireFrozen(t, checked, task)
	}
	names := map[string]bool{}
	for _, n := range render.Names(tasks) {
		require.False(t, names[n.Name], n.Name)
		names[n.Name] = true
	}
}

// structNames meet each other when they are made exported identifiers.
var structNames = []string{
	"Retry", "retry", "Retry2", "example.com/a.Retry", "example.com/b.Retry", "example.com/a/b.Retry", "gopkg.in/yaml.v3.Node",
	"Box[string]", "Box[[]string]", "Box[*string]", "Box[Box[string]]", "Box[example.com/a.Retry]", "Box[example.com/b-c.Retry]", "BoxRetry",
	"example.com/x.Box[map[string]int,*time.Duration]", "Box[struct { A int \"json:\\\"a\\\"\" }]",
	"Retry/Inline", "Args/Inline", "Args/Inline/Deep", "example.com/a.Retry/Inline", "Box[example.com/a.Retry]/Inline", "_x", "_X", "X_x", "Ä", "ä", "日本",
}

var scalars = []shape.Kind{
	shape.Bool, shape.Int, shape.Int8, shape.Int16, shape.Int32, shape.Int64, shape.Uint, shape.Uint8, shape.Uint16, shape.Uint32, shape.Uint64,
	shape.Float32, shape.Float64, shape.String,
}

func randomShape(r *rand.Rand) *shape.Shape {
	structs := map[string]shape.Object{}
	for _, i := range r.Perm(len(structNames))[:1+r.IntN(8)] {
		structs[structNames[i]] = shape.Object{}
	}
	refs := slices.Sorted(maps.Keys(structs))
	for _, ref := range refs {
		object := shape.Object{Fields: []shape.Field{}}
		for _, name := range []string{"A", "B", "C", "Type", "Err", "V1"}[:r.IntN(7)] {
			f := shape.Field{JSON: strings.ToLower(name) + []string{"", "_x", "-y", ".z", " ", "ü"}[r.IntN(6)], Go: name, OmitEmpty: r.IntN(2) == 0, OmitZero: r.IntN(2) == 0}
			f.Type = randomNode(r, refs, 3)
			f.Quoted = slices.Contains(scalars, f.Type.Kind) && r.IntN(2) == 0
			object.Fields = append(object.Fields, f)
		}
		structs[ref] = object
	}
	s := &shape.Shape{Root: shape.Node{Kind: shape.Struct, Ref: refs[0]}, Structs: structs}
	if r.IntN(3) == 0 {
		s.Root = randomNode(r, refs, 3)
	}
	return s.Sub(s.Root)
}

func randomNode(r *rand.Rand, refs []string, depth int) shape.Node {
	elem := func() *shape.Node {
		n := randomNode(r, refs, depth-1)
		return &n
	}
	if depth == 0 {
		return shape.Node{Kind: scalars[r.IntN(len(scalars))]}
	}
	switch r.IntN(12) {
	case 0:
		if e := elem(); e.Kind != shape.Uint8 { // which would be bytes
			return shape.Node{Kind: shape.Slice, Elem: e}
		}
		return shape.Node{Kind: shape.Bytes}
	case 1:
		return shape.Node{Kind: shape.Array, Elem: elem(), Len: r.IntN(4)}
	case 2:
		keys := []shape.Node{{Kind: shape.String}, {Kind: shape.Int8}, {Kind: shape.Opaque, Ref: "github.com/google/uuid.UUID"}}
		return shape.Node{Kind: shape.Map, Key: &keys[r.IntN(len(keys))], Elem: elem()}
	case 3, 4:
		// In a pointer, so that no struct contains itself.
		return shape.Node{Kind: shape.Pointer, Elem: &shape.Node{Kind: shape.Struct, Ref: refs[r.IntN(len(refs))]}}
	case 5:
		return shape.Node{Kind: shape.Pointer, Elem: elem()}
	case 6:
		opaque := []string{"time.Time", "math/big.Int", "encoding/json.Number", "github.com/google/uuid.UUID",
			evolvedPath + "/opt.Of[int]", evolvedPath + "/opt.Of[map[string][]*time.Time]", evolvedPath + "/opt.Of[" + evolvedPath + "/opt.Of[[2]string]]"}
		return shape.Node{Kind: shape.Opaque, Ref: opaque[r.IntN(len(opaque))]}
	case 7:
		return shape.Node{Kind: shape.Raw}
	case 8:
		return shape.Node{Kind: shape.Bytes}
	}
	return shape.Node{Kind: scalars[r.IntN(len(scalars))]}
}
