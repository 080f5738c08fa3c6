package evolve

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/pawlgo/pawl/internal/gen/lock"
	"github.com/pawlgo/pawl/internal/gen/shape"
	"github.com/stretchr/testify/require"
)

// payload makes a shape of "name:kind" fields.
func payload(fields ...string) *shape.Shape {
	object := shape.Object{Fields: []shape.Field{}}
	for _, f := range fields {
		name, kind, _ := strings.Cut(f, ":")
		object.Fields = append(object.Fields, shape.Field{JSON: name, Go: strings.ToUpper(name), Type: shape.Node{Kind: shape.Kind(kind)}})
	}
	return &shape.Shape{Root: shape.Node{Kind: shape.Struct, Ref: "Args"}, Structs: map[string]shape.Object{"Args": object}}
}

func identity(fields ...string) *lock.Identity {
	id := &lock.Identity{}
	for _, f := range fields {
		id.Fields = append(id.Fields, lock.IdentityField{Field: f, Wire: []byte(`{"root":{"kind":"int"},"structs":[]}`)})
	}
	return id
}

func task(kind string, fields ...string) Task {
	return Task{Name: strings.ToUpper(kind), Kind: kind, Shape: payload(fields...)}
}

func (t Task) alias(kinds ...string) Task { t.Aliases = kinds; return t }

func (t Task) named(name string) Task { t.Name = name; return t }

func (t Task) accept(reason, rule, path string) Task {
	t.Accepts = append(slices.Clone(t.Accepts), lock.Acceptance{Rule: rule, Path: path, Reason: reason})
	return t
}

func (t Task) key(fields ...string) Task { t.Identity = identity(fields...); return t }

func (t Task) order(fields ...string) Task { t.Order = identity(fields...); return t }

// merge is one state of the source that was merged, with every upgrader there.
type merge []Task

// merged decides about each merge in turn and returns the last lock.
func merged(t *testing.T, merges ...merge) *lock.Lock {
	t.Helper()
	ref := &lock.Lock{}
	for _, tasks := range merges {
		out := decide(ref, nil, tasks, "*")
		require.Empty(t, out.Problems)
		var err error
		ref, err = lock.Parse(out.Lock.Bytes()) // what is written has to be readable
		require.NoError(t, err)
	}
	return ref
}

// decide is Decide where the package has the upgraders.
func decide(ref *lock.Lock, retired map[string][]int, tasks []Task, upgraders ...string) *Output {
	all := slices.Clone(tasks)
	for i := range all {
		all[i].Declares = func(name string) bool { return slices.Contains(upgraders, "*") || slices.Contains(upgraders, name) }
	}
	return Decide(Input{Reference: ref, Retired: retired, Tasks: all})
}

// summary writes the versions of a lock: "a: 1u 2 -3 key res:x acc:1 (old: 1)".
func summary(l *lock.Lock) string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(l.Kinds)) {
		k := l.Kinds[name]
		s := name + ":"
		if k.AliasOf != "" {
			s = name + "=" + k.AliasOf + ":"
		}
		for _, n := range slices.Sorted(maps.Keys(k.Versions)) {
			s += fmt.Sprintf(" %d", n)
			if k.Versions[n].Upgrader {
				s += "u"
			}
			if k.Versions[n].Base.IsZero() {
				s += "-"
			}
		}
		for _, n := range slices.Sorted(maps.Keys(k.Retired)) {
			s += fmt.Sprintf(" †%d", n)
		}
		for _, path := range slices.Sorted(maps.Keys(k.Reserved)) {
			s += " reserved:" + path
		}
		for _, a := range k.Accepted {
			s += " accepted:" + a.Path
		}
		all = append(all, s)
	}
	return strings.Join(all, "; ")
}

func TestDecide(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		merged  []merge
		retired map[string][]int
		tasks   []Task
		want    string
	}{
		{"nothing", nil, nil, nil, ""},
		{"the first version", nil, nil, []Task{task("a", "x:int")}, "a: 1"},
		{"no change", []merge{{task("a", "x:int")}}, nil, []Task{task("a", "x:int")}, "a: 1"},
		{"compatible", []merge{{task("a", "x:int")}}, nil, []Task{task("a", "x:int", "y:int")}, "a: 1"},
		{"backward only", []merge{{task("a", "x:int")}}, nil, []Task{task("a")}, "a: 1 2 reserved:x"},
		{"breaking", []merge{{task("a", "x:int")}}, nil, []Task{task("a", "x:string")}, "a: 1u 2"},
		{"chained", []merge{{task("a", "x:int")}, {task("a", "x:string")}}, nil, []Task{task("a", "x:bool")}, "a: 1u 2u 3"},
		{"backward only, then breaking: one upgrader serves both", []merge{{task("a", "x:int", "y:int")}, {task("a", "x:int")}}, nil,
			[]Task{task("a", "x:string")}, "a: 1 2u 3 reserved:y"},
		{"fine against the newest, breaking for an older one", []merge{{task("a", "x:int")}, {task("a")}}, nil,
			[]Task{task("a", "x:string")}, "a: 1 2u 3 reserved:x"},
		{"restored", []merge{{task("a", "x:int")}, {task("a")}}, nil, []Task{task("a", "x:int")}, "a: 1 2 reserved:x"},
		{"the name of a retired version stays reserved", []merge{{task("a", "x:int")}, {task("a")}}, map[string][]int{"a": {1}},
			[]Task{task("a", "x:string")}, "a: 2u 3 †1 reserved:x"},
		{"a reserved name that was used again is decided", []merge{{task("a", "x:int")}, {task("a")}, {task("a", "x:string")}}, nil,
			[]Task{task("a", "x:string", "z:int")}, "a: 1 2u 3 reserved:x"},
		{"an older version behind an upgrader is no concern", []merge{{task("a", "x:int", "y:int")}, {task("a", "x:string")}}, nil,
			[]Task{task("a", "x:string", "z:int")}, "a: 1u 2 reserved:y"},
		{"widening is no matter for what is older than the newest", []merge{{task("a", "x:int32", "y:int")}, {task("a", "x:int64", "y:int")}}, nil,
			[]Task{task("a", "x:int64", "y:int", "z:int")}, "a: 1 2"},

		{"retired", []merge{{task("a", "x:int")}, {task("a", "x:string")}}, map[string][]int{"a": {1}}, []Task{task("a", "x:string")}, "a: 2 †1"},
		{"retired and merged", []merge{{task("a", "x:int")}, {task("a", "x:string")}}, map[string][]int{"a": {1, 2, 7}, "b": {1}},
			[]Task{task("a", "x:bool")}, "a: 3 †1 †2"},

		{"removed", []merge{{task("a", "x:int"), task("b")}}, nil, []Task{task("b")}, "a: †1; b: 1"},
		{"the last one removed", []merge{{task("a", "x:int")}, {task("a", "x:string")}}, nil, nil, "a: †1 †2"},
		{"removed before it was merged", nil, nil, nil, ""},
		{"declared again", []merge{{task("a", "x:int")}, {}}, nil, []Task{task("a", "x:int")}, "a: 2 †1"},
		{"renamed in Go", []merge{{task("a", "x:int")}}, nil, []Task{task("a", "x:int").named("Other")}, "a: 1"},

		{"alias", []merge{{task("a", "x:int")}}, nil, []Task{task("b", "x:int").alias("a")}, "a=b: 1; b: 1"},
		{"alias and a change", []merge{{task("a", "x:int")}}, nil, []Task{task("b", "x:string").alias("a")}, "a=b: 1; b: 1u- 2"},
		{"alias of several versions", []merge{{task("a", "x:int")}, {task("a", "x:string")}}, nil,
			[]Task{task("b", "x:string").alias("a")}, "a=b: 1 2; b: 1u- 2"},
		{"a change after the alias", []merge{{task("a", "x:int")}, {task("b", "x:int").alias("a")}}, nil,
			[]Task{task("b", "x:string").alias("a")}, "a=b: 1; b: 1u 2"},
		{"renamed twice", []merge{{task("a", "x:int")}, {task("b", "x:int").alias("a")}}, nil,
			[]Task{task("c", "x:int").alias("a", "b")}, "a=c: 1; b=c: 1; c: 1"},
		{"renamed back", []merge{{task("a", "x:int")}, {task("b", "x:string").alias("a")}}, nil,
			[]Task{task("a", "x:string").alias("b")}, "a: 1u 2; b=a: 2"},
		{"an alias that is retired", []merge{{task("a", "x:int")}, {task("b", "x:int").alias("a")}}, map[string][]int{"a": {1}},
			[]Task{task("b", "x:int")}, "a: †1; b: 1"},
		{"a version that only a retired alias had", []merge{{task("a", "x:int")}, {task("b", "x:string").alias("a")}}, map[string][]int{"a": {1}},
			[]Task{task("b", "x:string")}, "a: †1; b: 2"},
		{"an old kind of its own again", []merge{{task("a", "x:int")}, {task("b", "x:int").alias("a")}}, map[string][]int{"a": {1}},
			[]Task{task("a", "x:bool"), task("b", "x:int")}, "a: 2 †1; b: 1"},

		{"accepted", []merge{{task("a", "x:int")}}, nil, []Task{task("a", "x:string").accept("why", "number-to-string", "x")}, "a: 1 accepted:x"},
		{"accepted and merged", []merge{{task("a", "x:int")}, {task("a", "x:string").accept("why", "number-to-string", "x")}}, nil,
			[]Task{task("a", "x:string").accept("why", "number-to-string", "x")}, "a: 1 accepted:x"},
		{"the directive goes, the record stays", []merge{{task("a", "x:int")}, {task("a", "x:string").accept("why", "number-to-string", "x")}}, nil,
			[]Task{task("a", "x:string")}, "a: 1 accepted:x"},
		{"accepted for every version", []merge{{task("a", "x:int")}, {task("a")}}, nil,
			[]Task{task("a", "x:string").accept("why", "reserved-name-reused", "x")}, "a: 1 2 reserved:x accepted:x"},
		{"what was accepted for an older version stays so", []merge{{task("a", "x:int", "y:int")}, {task("a", "x:int")}, {task("a", "x:string").accept("why", "number-to-string", "x")}}, nil,
			[]Task{task("a", "x:string", "z:int")}, "a: 1 2 reserved:y accepted:x"},
		{"a removal accepted keeps the version", []merge{{task("a", "x:int")}}, nil,
			[]Task{task("a").accept("no old code runs", "field-removed", "x")}, "a: 1 reserved:x accepted:x"},

		{"a key where none was", []merge{{task("a", "x:int")}}, nil, []Task{task("a", "x:int").key("x")}, "a: 1"},
		{"another key, accepted", []merge{{task("a", "x:int", "y:int").key("x")}}, nil,
			[]Task{task("a", "x:int", "y:int").key("x", "y").accept("why", "idempotency-changed", ".")}, "a: 1 accepted:."},
		{"an order where none was", []merge{{task("a", "x:int")}}, nil, []Task{task("a", "x:int").order("x")}, "a: 1"},
		{"another order, accepted", []merge{{task("a", "x:int", "y:int").order("x")}}, nil,
			[]Task{task("a", "x:int", "y:int").order("y").accept("why", "order-changed", ".")}, "a: 1 accepted:."},
		{"another key after its jobs are gone", []merge{{task("a", "x:int").key("x")}, {}}, nil, []Task{task("a", "x:int")}, "a: 2 †1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			ref := merged(t, c.merged...)
			before := string(ref.Bytes())
			out := decide(ref, c.retired, c.tasks, "*")
			require.Equal(t, before, string(ref.Bytes()), "the reference was changed")
			require.Empty(t, out.Problems)
			require.Equal(t, c.want, summary(out.Lock))

			// The same again, and once it is merged: nothing changes.
			require.Equal(t, string(out.Lock.Bytes()), string(decide(ref, c.retired, c.tasks, "*").Lock.Bytes()))
			after, err := lock.Parse(out.Lock.Bytes())
			require.NoError(t, err)
			again := decide(after, nil, c.tasks, "*")
			require.Empty(t, again.Problems)
			require.Equal(t, string(out.Lock.Bytes()), string(again.Lock.Bytes()))

			for i, p := range out.Plans {
				require.True(t, shape.Equal(c.tasks[i].Shape, p.Current.Shape))
				require.False(t, p.Current.Upgrader)
				numbers := append([]Version{}, p.Older...)
				numbers = append(numbers, p.Current)
				require.True(t, slices.IsSortedFunc(numbers, func(a, b Version) int { return a.Number - b.Number }))
				for _, v := range numbers {
					require.NotZero(t, v.Base)
					require.NotNil(t, v.Shape)
				}
				for _, a := range p.Aliases {
					require.NotEmpty(t, a.Versions)
				}
			}
		})
	}
}

func TestProblems(t *testing.T) {
	t.Parallel()
	type want struct {
		place   Place
		message string // a part of it
	}
	renamed := []merge{{task("a", "x:int")}, {task("b", "x:int").alias("a")}}
	for _, c := range []struct {
		name      string
		merged    []merge
		retired   map[string][]int
		tasks     []Task
		upgraders []string
		want      []want
	}{
		{"two breaks", []merge{{task("a", "x:int", "y:int")}}, nil, []Task{task("a", "x:string", "y:bool")}, nil, []want{
			{AtPayload, "stored jobs of a, version 1, would break: x: int became string (number-to-string, breaking)"},
			{AtPayload, "the upgrader of the new version 2 is\nfunc UpgradeAV1(old AArgsV1) (AArgsV2, error)\nor, if you know better, accept it with\n//task:accept \"REASON\" rule=bool-changed path=y"}}},
		{"a break of an older version alone", []merge{{task("a", "x:int")}, {task("a")}}, nil, []Task{task("a", "x:string")}, nil, []want{
			{AtPayload, "stored jobs of a would break: x: "}}},
		{"one of two accepted", []merge{{task("a", "x:int", "y:int")}}, nil, []Task{task("a", "x:string", "y:bool").accept("why", "number-to-string", "x")}, nil, []want{
			{AtPayload, "y: int became bool"}}},
		{"an upgrader that went", []merge{{task("a", "x:int")}, {task("a", "x:string")}, {task("a", "x:bool")}}, nil, []Task{task("a", "x:bool")}, []string{"UpgradeAV2"}, []want{
			{AtName, "UpgradeAV1 is missing: it makes version 2 of stored jobs from version 1\nfunc UpgradeAV1(old AArgsV1) (AArgsV2, error)\nif no job of version 1 is left, taskgen retire a 1"}}},
		{"an upgrader that went and one that is new", []merge{{task("a", "x:int")}, {task("a", "x:string")}}, nil, []Task{task("a", "x:bool")}, nil, []want{
			{AtPayload, "func UpgradeAV2(old AArgsV2) (AArgsV3, error)"}, {AtName, "UpgradeAV1 is missing"}}},

		{"another kind", []merge{{task("a", "x:int")}}, nil, []Task{task("b", "x:int").named("A")}, nil, []want{
			{AtKind, "the kind of A was a and is b (kind-changed, breaking)"}}},
		{"renamed altogether", []merge{{task("a", "x:int")}}, nil, []Task{task("b"), task("c", "x:int")}, nil, []want{
			{AtKind, "the kind a is gone, and c of C is new (kind-changed, breaking): the jobs stored under the old kind would find no worker\nif it is a new name for the same task, accept the old one with\n//task:alias a\nif no job of a is left, or none is to run, say so with\ntaskgen retire a 1"}}},
		{"an alias that went", renamed, nil, []Task{task("b", "x:int")}, nil, []want{
			{AtKind, "the old kind a is no longer an alias of b"}}},
		{"an old kind declared again", renamed, nil, []Task{task("a", "x:int"), task("b", "x:int")}, nil, []want{
			{AtKind, "a is an old kind of b"}}},

		{"an alias of nothing", []merge{{task("old_name"), task("b")}}, nil, []Task{task("b"), task("c").alias("old_nam")}, nil, []want{
			{AtAlias, "no kind old_nam was ever merged (did you mean old_name?)"}}},
		{"an alias of itself", nil, nil, []Task{task("a").alias("a")}, nil, []want{{AtAlias, "a is the kind of A itself"}}},
		{"an alias of another task", []merge{{task("a"), task("b")}}, nil, []Task{task("a"), task("b").alias("a")}, nil, []want{
			{AtAlias, "a is the kind of A: a job has one task"}}},
		{"an alias of two tasks", []merge{{task("a")}}, nil, []Task{task("b").alias("a"), task("c").alias("a")}, nil, []want{
			{AtAlias, "a is also an alias of B"}}},
		{"an alias with a history of its own", []merge{{task("a"), task("b")}}, nil, []Task{task("b").alias("a")}, nil, []want{
			{AtAlias, "a and b have versions of their own"}}},
		{"an alias of what is retired", []merge{{task("a"), task("b")}, {task("b")}}, nil, []Task{task("b").alias("a")}, nil, []want{
			{AtAlias, "every version of a is retired"}}},

		{"an alias with nothing left", []merge{{task("a", "x:int")}, {task("b", "x:string").alias("a")}},
			map[string][]int{"a": {1}}, []Task{task("b", "x:string").alias("a")}, nil, []want{{AtAlias, "every version of a is retired"}}},
		{"an alias with nothing left in the kind", []merge{{task("a", "x:int")}, {task("b", "x:int").alias("a")}, {task("b", "x:string").alias("a")}},
			map[string][]int{"b": {1}}, []Task{task("b", "x:string").alias("a")}, nil, []want{{AtAlias, "every version of a is retired"}}},

		{"no such rule", []merge{{task("a", "x:int")}}, nil, []Task{task("a", "x:int").accept("why", "number-to-strin", "x")}, nil, []want{
			{AtAcceptRule, "there is no rule number-to-strin (did you mean number-to-string?)"}}},
		{"no such path", []merge{{task("a", "name:int")}}, nil, []Task{task("a", "name:string").accept("why", "number-to-string", "nmae")}, []string{"*"}, []want{
			{AtAcceptPath, "no change at nmae is one of the rule number-to-string (did you mean name?)"}}},
		{"nothing to accept", []merge{{task("a", "x:int")}}, nil, []Task{task("a", "x:int", "y:int").accept("why", "field-added", "y")}, nil, []want{
			{AtAcceptRule, "field-added is compatible"}}},
		{"not to be accepted", nil, nil, []Task{task("a").accept("why", "kind-changed", ".")}, nil, []want{
			{AtAcceptRule, "kind-changed cannot be accepted: keep the old kind with //task:alias"}}},
		{"accepted before", []merge{{task("a", "x:int")}, {task("a", "x:string").accept("why", "number-to-string", "x")}, {task("a", "x:int").accept("why", "string-to-number", "x")}}, nil,
			[]Task{task("a", "x:string").accept("why", "number-to-string", "x")}, nil, []want{
				{AtPayload, "the //task:accept that stands there is about an earlier change, which was merged: give a new reason"}}},

		{"another key", []merge{{task("a", "x:int").key("x")}}, nil, []Task{task("a", "x:int").key("x", "y")}, nil, []want{
			{AtIdentity, "the idempotency key of a changed: .: it was made from x and is made from x, y (idempotency-changed, breaking)"}}},
		{"no key any more", []merge{{task("a", "x:int").key("x")}}, nil, []Task{task("a", "x:int")}, nil, []want{
			{AtIdentity, "it was made from x and there is none now"}}},

		{"another order key", []merge{{task("a", "x:int").order("x", "y")}}, nil, []Task{task("a", "x:int").order("y", "x")}, nil, []want{
			{AtOrder, "the order key of a changed: .: it was made from x, y and is made from y, x (order-changed, breaking)"}}},
		{"no order any more", []merge{{task("a", "x:int").order("x")}}, nil, []Task{task("a", "x:int")}, nil, []want{
			{AtOrder, "it was made from x and there is none now"}}},
		{"both keys", []merge{{task("a", "x:int").key("x").order("x")}}, nil, []Task{task("a", "x:int").key("y").order("y")}, nil, []want{
			{AtIdentity, "the idempotency key of a changed"}, {AtOrder, "the order key of a changed"}}},
		{"the wrong key accepted", []merge{{task("a", "x:int").key("x").order("x")}}, nil,
			[]Task{task("a", "x:int").key("x").order("y").accept("why", "idempotency-changed", ".")}, nil, []want{
				{AtOrder, "the order key of a changed"}, {AtAcceptPath, "no change at . is one of the rule idempotency-changed"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			out := decide(merged(t, c.merged...), c.retired, c.tasks, c.upgraders...)
			var got []string
			for _, p := range out.Problems {
				got = append(got, fmt.Sprint(p.Place, " ", p.Message))
			}
			require.Len(t, out.Problems, len(c.want), "%s", strings.Join(got, "\n"))
			for i, w := range c.want {
				require.Equal(t, w.place, out.Problems[i].Place, out.Problems[i].Message)
				require.Contains(t, out.Problems[i].Message, w.message)
			}
		})
	}
}

func TestIdentityWireForm(t *testing.T) {
	t.Parallel()
	ref := merged(t, merge{task("a", "x:int", "o:int").key("x")})
	other := task("a", "x:int", "o:int").key("x")
	other.Identity.Fields[0].Wire = []byte(`{"root":{"kind":"string"},"structs":[]}`)
	out := decide(ref, nil, []Task{other})
	require.Len(t, out.Problems, 1)
	require.Contains(t, out.Problems[0].Message, "it is made from x, which is encoded in another way than before")

	scoped := task("a", "x:int", "o:int").key("x")
	scoped.Identity.Organization = &lock.IdentityField{Field: "o", Wire: []byte(`{}`)}
	out = decide(ref, nil, []Task{scoped})
	require.Len(t, out.Problems, 1)
	require.Contains(t, out.Problems[0].Message, "it was made from x and is made from x within o")
}

// A base stays for as long as the version does, whatever becomes of its shape.
func TestBases(t *testing.T) {
	t.Parallel()
	ref := merged(t, merge{task("a", "x:int")})
	first := ref.Kinds["a"].Versions[1].Base
	require.Equal(t, lock.NewBase("a", 1, payload("x:int")), first)
	out := decide(ref, nil, []Task{task("a", "y:int", "x:int")})
	require.Equal(t, first, out.Lock.Kinds["a"].Versions[1].Base)
	require.Equal(t, [32]byte(first), out.Plans[0].Current.Base)

	// What is not merged has another base with every other shape.
	second := decide(ref, nil, []Task{task("a")}).Plans[0].Current
	require.Equal(t, [32]byte(lock.NewBase("a", 2, payload())), second.Base)
	require.NotEqual(t, second.Base, decide(ref, nil, []Task{task("a", "z:int")}).Plans[0].Current.Base)

	// A rename gives the same number another base, and the old one goes on.
	renamed := decide(ref, nil, []Task{task("b", "x:int").alias("a")}).Plans[0]
	require.Equal(t, [32]byte(lock.NewBase("b", 1, payload("x:int"))), renamed.Current.Base)
	require.Equal(t, []Alias{{"a", []AliasVersion{{1, first}}}}, renamed.Aliases)
}

func TestNotes(t *testing.T) {
	t.Parallel()
	at := func(module string) Task {
		a := task("a")
		a.Shape.Structs["Args"] = shape.Object{Fields: []shape.Field{{JSON: "x", Go: "X", Type: shape.Node{Kind: shape.Opaque, Ref: "example.com/m.T", Module: module}}}}
		return a
	}
	out := decide(merged(t, merge{at("example.com/m@v1.0.0")}), nil, []Task{at("example.com/m@v1.1.0")})
	require.Empty(t, out.Problems)
	require.Len(t, out.Notes, 1)
	require.Contains(t, out.Notes[0].Message, "example.com/m@v1.0.0 is now of example.com/m@v1.1.0 (module-changed, compatible)")
	require.Equal(t, "a: 1", summary(out.Lock))
}

func TestIdleUpgraders(t *testing.T) {
	t.Parallel()
	ref := merged(t, merge{task("a", "x:int")}, merge{task("a", "x:string")}, merge{task("a")})
	out := decide(ref, map[string][]int{"a": {1}}, []Task{task("a")}, "UpgradeAV1", "UpgradeAV2")
	require.Empty(t, out.Problems)
	require.Len(t, out.Notes, 2)
	require.Equal(t, "nothing calls UpgradeAV1 any more: remove it", out.Notes[0].Message)
	require.Equal(t, "nothing calls UpgradeAV2 any more: remove it", out.Notes[1].Message)
	require.Empty(t, decide(ref, nil, []Task{task("a")}, "UpgradeAV1").Notes)
}

func TestRetire(t *testing.T) {
	t.Parallel()
	three := merged(t, merge{task("a", "x:int")}, merge{task("a", "x:string")}, merge{task("a", "x:bool")})
	loose := merged(t, merge{task("a", "x:int", "y:int", "z:int")}, merge{task("a", "x:int", "y:int")}, merge{task("a", "x:int")})
	for _, c := range []struct {
		name    string
		ref     *lock.Lock
		retired map[string][]int
		task    Task
		kind    string
		n       int
		want    string // of the lock, or of the error behind "error: "
	}{
		{"the oldest", three, nil, task("a", "x:bool"), "a", 1, "a: 2u 3 †1"},
		{"the next", three, map[string][]int{"a": {1}}, task("a", "x:bool"), "a", 2, "a: 3 †1 †2"},
		{"one on the way", three, nil, task("a", "x:bool"), "a", 2, "error: version 2 of a is on the way from version 1, which is live, to the current one: retire 1 first"},
		{"one on no way", loose, nil, task("a", "x:int"), "a", 2, "a: 1 3 †2 reserved:y reserved:z"},
		{"the current", three, nil, task("a", "x:bool"), "a", 3, "error: version 3 of a is the one that an enqueue writes"},
		{"the newest that is merged", three, map[string][]int{"a": {1, 2}}, task("a", "x:int"), "a", 3, "a: 4 †1 †2 †3"},
		{"none", three, nil, task("a", "x:bool"), "a", 7, "error: a has no live version 7; there are 1 2 3"},
		{"again", three, map[string][]int{"a": {1}}, task("a", "x:bool"), "a", 1, "error: version 1 of a is retired already"},
		{"no kind", three, nil, task("a", "x:bool"), "aa", 1, "error: there is no kind aa"},
		{"a kind that is gone", three, nil, task("b").named("A"), "a", 1, "a: †1 †2 †3; b: 1"},
		{"an alias", three, nil, task("b", "x:bool").alias("a"), "a", 1, "a=b: 2 3 †1; b: 2u- 3"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.task.Declares = func(string) bool { return true }
			in, err := Retire(Input{Reference: c.ref, Retired: c.retired, Tasks: []Task{c.task}}, c.kind, c.n)
			if want, ok := strings.CutPrefix(c.want, "error: "); ok {
				require.ErrorContains(t, err, want)
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.want, summary(Decide(in).Lock))
		})
	}
}

func TestOneFieldAtManyPaths(t *testing.T) {
	t.Parallel()
	ref := merged(t, merge{task("a", "x:int", "xx:int", "y:int", "z:int")})
	now := task("a", "x:string", "xx:string", "y:string", "z:bool")
	now.Field = func(path string) any {
		if path == "y" {
			return nil
		}
		return "the field"
	}
	out := decide(ref, nil, []Task{now})
	require.Len(t, out.Problems, 3)
	require.Equal(t, "x", out.Problems[0].Path)
	require.Contains(t, out.Problems[0].Message, "\nthe same field is at xx\n")
	require.Contains(t, out.Problems[0].Message, "rule=number-to-string path=x\n//task:accept \"REASON\" rule=number-to-string path=xx")
	require.Equal(t, "y", out.Problems[1].Path)
	require.NotContains(t, out.Problems[1].Message, "the same field")
	require.Equal(t, "z", out.Problems[2].Path) // another change of it
}
