package evolve

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/pawlgo/pawl/internal/gen/lock"
	"github.com/pawlgo/pawl/internal/gen/rules"
	"github.com/pawlgo/pawl/internal/gen/shape"
)

// Task is one declaration, as far as decisions depend on it.
type Task struct {
	Name string // in Go
	Kind string
	// Aggregate is the type of what an event happens to; empty of a task.
	Aggregate string
	Aliases   []string
	Accepts   []lock.Acceptance
	Shape     *shape.Shape
	// Identity is what its idempotency key is made from, or nil.
	Identity *lock.Identity
	// Order is what its order key is made from, or nil.
	Order *lock.Identity
	// Declares reports whether the package declares something of that name.
	Declares func(name string) bool
	// Field identifies the field in the source that a path of the payload leads to,
	// by a comparable value that is nil where there is none. A struct that others
	// embed has its fields at several paths: what happens to one of them is told
	// once. Without this function, each path is told by itself.
	Field func(path string) any
}

// Input is what decisions depend on.
type Input struct {
	// Reference is the lock whose versions are frozen.
	Reference *lock.Lock
	// Retired are the versions that the command retire has taken out of use since,
	// by kind.
	Retired map[string][]int
	// Tasks are the declarations of the package, sorted by name, each of another
	// kind.
	Tasks []Task
}

// Output is what was decided.
type Output struct {
	// Lock is what the lock has to say now.
	Lock *lock.Lock
	// Plans are beside the tasks.
	Plans []*Plan
	// Problems are what the author has to settle before anything is generated.
	Problems []Problem
	// Notes are changes that cost nothing and may mean something all the same.
	Notes []Problem
}

// Problem is something to tell the author.
type Problem struct {
	Task  int // index of the task
	Place Place
	Index int    // of the alias or the acceptance
	Path  string // in the payload as it is now
	// Code is the ID of the rule; empty where none is broken.
	Code    string
	Message string
}

// Place says what in a declaration a problem is about.
type Place int

// The places.
const (
	AtName       Place = iota // the declaration
	AtKind                    // its kind
	AtAlias                   // the alias with the index
	AtAcceptRule              // the rule of the acceptance with the index
	AtAcceptPath              // its path
	AtPayload                 // a path in the payload
	AtIdentity                // the fields of the idempotency key
	AtOrder                   // the fields of the order key
)

// Decide decides which versions each task has.
func Decide(in Input) *Output {
	d := &decisions{Input: in, out: &Output{Lock: &lock.Lock{Kinds: map[string]*lock.Kind{}}}}
	if d.Reference == nil {
		d.Reference = &lock.Lock{}
	}
	d.declared = map[string]int{}
	for i, t := range d.Tasks {
		d.declared[t.Kind] = i
	}
	d.covered = map[string]int{}
	for i, t := range d.Tasks {
		d.covered[t.Kind] = i
		for _, alias := range d.aliases(i) {
			d.covered[alias] = i
		}
	}
	for i := range d.Tasks {
		d.task(i)
	}
	d.vanished()
	slices.SortStableFunc(d.out.Problems, func(a, b Problem) int { return cmp.Compare(a.Task, b.Task) })
	return d.out
}

type decisions struct {
	Input
	out      *Output
	declared map[string]int // the task of each kind that is declared
	covered  map[string]int // the same, with the aliases that are right
}

func (d *decisions) problem(p Problem) { d.out.Problems = append(d.out.Problems, p) }

// history is what the reference knows of a task under all the names it had.
type history struct {
	// of is the kind in the reference that has the shapes; "" for a new task.
	of    string
	names []string // the kind itself and its aliases
	live  map[int]*lock.Version
	used  map[int]bool // numbers that are never given out again
	// retired are the tombstones of the kind itself.
	retired map[int]lock.Retirement
}

// numbers returns the live versions, ascending.
func (h *history) numbers() []int { return slices.Sorted(maps.Keys(h.live)) }

// root returns the kind of the reference that has the shapes of kind, or "".
func (d *decisions) root(kind string) string {
	k := d.Reference.Kinds[kind]
	switch {
	case k == nil || len(k.Versions) == 0:
		return ""
	case k.AliasOf != "":
		return k.AliasOf
	}
	return kind
}

// bases are the live versions that the reference has under one name, without
// those that were retired since.
func (d *decisions) bases(kind string) map[int]lock.Base {
	bases := map[int]lock.Base{}
	if k := d.Reference.Kinds[kind]; k != nil {
		for n, v := range k.Versions {
			if !v.Base.IsZero() && !slices.Contains(d.Retired[kind], n) {
				bases[n] = v.Base
			}
		}
	}
	return bases
}

// tombstones are the numbers under one name that are out of use.
func (d *decisions) tombstones(kind string) map[int]lock.Retirement {
	retired := map[int]lock.Retirement{}
	if k := d.Reference.Kinds[kind]; k != nil {
		maps.Copy(retired, k.Retired)
		for _, n := range d.Retired[kind] {
			if k.Versions[n] != nil {
				retired[n] = lock.ByCommand
			}
		}
	}
	return retired
}

func (d *decisions) history(i int) *history {
	t := &d.Tasks[i]
	h := &history{
		names: append([]string{t.Kind}, d.aliases(i)...), live: map[int]*lock.Version{}, used: map[int]bool{},
		retired: d.tombstones(t.Kind),
	}
	stored := map[int]bool{} // under any of the names
	for _, name := range h.names {
		for n := range d.bases(name) {
			stored[n] = true
			h.of = cmp.Or(h.of, d.root(name))
		}
		for n := range d.tombstones(name) {
			h.used[n] = true
		}
	}
	if h.of == "" {
		return h
	}
	for n, v := range d.Reference.Kinds[h.of].Versions {
		h.used[n] = true
		if _, retired := h.retired[n]; stored[n] && !retired {
			h.live[n] = v
		}
	}
	return h
}

// task decides about one task.
func (d *decisions) task(i int) {
	t := &d.Tasks[i]
	h := d.history(i)
	if other, taken := d.covered[h.of]; taken && other != i {
		d.problem(Problem{Task: i, Place: AtKind, Code: rules.KindChanged, Message: fmt.Sprintf(
			"%s is an old kind of %s, whose jobs may still be stored: choose another, or write //task:alias %s there", t.Kind, h.of, t.Kind)})
	}
	kind := &lock.Kind{
		Task: t.Name, Aggregate: t.Aggregate, Versions: map[int]*lock.Version{}, Retired: h.retired,
		Reserved: map[string]rules.Reserved{}, Identity: t.Identity, Order: t.Order,
	}
	var before *lock.Kind
	if h.of != "" {
		before = d.Reference.Kinds[h.of]
		maps.Copy(kind.Reserved, before.Reserved)
		kind.Accepted = slices.Clone(before.Accepted)
	}
	a := &acceptances{d: d, task: i, before: kind.Accepted, matched: make([]bool, len(t.Accepts))}
	number := d.number(i, h, kind, a)
	if before != nil && len(h.live) > 0 {
		d.key(i, idempotencyKey, before.Identity, t.Identity, a)
		d.key(i, orderKey, before.Order, t.Order, a)
		d.aggregate(i, before.Aggregate, a)
	}
	kind.Accepted = a.finish()

	own := d.bases(t.Kind)
	for _, n := range h.numbers() {
		if n != number {
			kind.Versions[n] = &lock.Version{Base: own[n], Upgrader: h.live[n].Upgrader, Shape: h.live[n].Shape}
		}
	}
	current := &lock.Version{Base: own[number], Shape: t.Shape}
	if current.Base.IsZero() {
		current.Base = lock.NewBase(t.Kind, number, t.Shape)
	}
	kind.Versions[number] = current
	d.upgraders(i, kind)
	d.idle(i, kind)
	d.out.Lock.Kinds[t.Kind] = kind
	for _, alias := range h.names[1:] {
		d.out.Lock.Kinds[alias] = d.alias(t.Kind, alias, h)
		if len(d.out.Lock.Kinds[alias].Versions) == 0 {
			d.problem(Problem{Task: i, Place: AtAlias, Index: slices.Index(t.Aliases, alias), Code: rules.KindChanged, Message: nothingLeft(alias)})
		}
	}
	d.out.Plans = append(d.out.Plans, d.plan(t.Kind, kind, number, h.names[1:]))
}

// number decides the number of the current version, and what its shape means for
// those before it.
func (d *decisions) number(i int, h *history, kind *lock.Kind, a *acceptances) int {
	t := &d.Tasks[i]
	next := 1
	if len(h.used) > 0 {
		next = slices.Max(slices.Collect(maps.Keys(h.used))) + 1
	}
	if len(h.live) == 0 {
		return next
	}
	numbers := h.numbers()
	newest := numbers[len(numbers)-1]
	findings := d.findings(t.Shape, h, kind.Reserved)
	verdict := rules.Compatible
	var breaking, doubtful []finding
	for _, f := range findings {
		if f.Warning && f.version == newest {
			doubtful = append(doubtful, f)
		}
		if f.Rule.Verdict == rules.Compatible || a.accepts(f.Finding) {
			continue
		}
		verdict = max(verdict, f.Rule.Verdict)
		if f.Rule.Verdict == rules.Breaking {
			breaking = append(breaking, f)
		}
	}
	for _, f := range t.together(doubtful) {
		d.out.Notes = append(d.out.Notes, Problem{Task: i, Place: AtPayload, Path: f.now(), Code: f.Rule.ID, Message: t.Kind + ": " + f.String() + f.elsewhere()})
	}
	maps.Copy(kind.Reserved, rules.Removed(h.live[newest].Shape, t.Shape))
	if _, retired := h.retired[newest]; verdict == rules.Compatible && !retired {
		return newest
	}
	if verdict == rules.Breaking {
		frozen := *h.live[newest]
		frozen.Upgrader = true
		h.live[newest] = &frozen
		if u := t.upgrader(newest, next); !t.Declares(u.name) {
			for _, f := range t.together(breaking) {
				d.problem(Problem{Task: i, Place: AtPayload, Path: f.now(), Code: f.Rule.ID, Message: f.broken(t, u, a)})
			}
		}
	}
	return next
}

// findings judges the current shape against every version that would be decoded
// as it directly. Against the newest one every change counts. Against an older
// one only a breaking change does, since the code that wrote it does not claim
// what is newer anyway, and only one that the step from there to the newest did
// not have: that step is decided.
func (d *decisions) findings(current *shape.Shape, h *history, reserved map[string]rules.Reserved) []finding {
	numbers := h.numbers()
	slices.Reverse(numbers)
	newest := h.live[numbers[0]].Shape
	var all []finding
	seen := map[string]bool{}
	add := func(version int, found, decided []rules.Finding) {
		for _, f := range found {
			if !seen[f.Path+" "+f.Rule.ID] && !slices.ContainsFunc(decided, func(d rules.Finding) bool {
				return d.Rule.ID == f.Rule.ID && d.Path == f.Path && d.Detail == f.Detail
			}) {
				seen[f.Path+" "+f.Rule.ID] = true
				all = append(all, finding{Finding: f, version: version})
			}
		}
	}
	add(numbers[0], rules.Compare(newest, current), nil)
	again := rules.CompareReserved(reserved, current)
	add(0, again, rules.CompareReserved(reserved, newest))
	for _, n := range numbers[1:] {
		if h.live[n].Upgrader {
			break // it and those before it are decoded as a frozen type
		}
		old := h.live[n].Shape
		found := slices.DeleteFunc(rules.Compare(old, current), func(f rules.Finding) bool {
			return f.Rule.Verdict != rules.Breaking ||
				slices.ContainsFunc(again, func(r rules.Finding) bool { return within(r.Path, f.Path) }) // said already
		})
		add(n, found, rules.Compare(old, newest))
	}
	return all
}

// within reports whether path is outer or below it.
func within(outer, path string) bool {
	return path == outer || len(path) > len(outer) && path[:len(outer)] == outer && slices.Contains([]byte(".[{"), path[len(outer)])
}

// upgraders looks for those that the frozen versions need.
func (d *decisions) upgraders(i int, kind *lock.Kind) {
	t := &d.Tasks[i]
	numbers := slices.Sorted(maps.Keys(kind.Versions))
	for at, n := range numbers[:len(numbers)-1] {
		if !kind.Versions[n].Upgrader {
			continue
		}
		u := t.upgrader(n, numbers[at+1])
		said := slices.ContainsFunc(d.out.Problems, func(p Problem) bool { return p.Task == i && p.Place == AtPayload })
		if !t.Declares(u.name) && !(said && at == len(numbers)-2) {
			d.problem(Problem{Task: i, Message: u.missing(t)})
		}
	}
}

// idle tells of upgraders that nothing calls: those of retired versions, whose
// types are gone, and those of steps that break nothing after all.
func (d *decisions) idle(i int, kind *lock.Kind) {
	t := &d.Tasks[i]
	for n := range slices.Max(slices.Collect(maps.Keys(kind.Versions))) {
		if v := kind.Versions[n]; v != nil && v.Upgrader {
			continue
		}
		if u := t.upgrader(n, 0); t.Declares(u.name) {
			d.out.Notes = append(d.out.Notes, Problem{Task: i, Message: fmt.Sprintf("nothing calls %s any more: remove it", u.name)})
		}
	}
}

// alias is what the lock says of an old kind.
func (d *decisions) alias(of, name string, h *history) *lock.Kind {
	k := &lock.Kind{AliasOf: of, Versions: map[int]*lock.Version{}, Retired: d.tombstones(name)}
	for n, base := range d.bases(name) {
		if h.live[n] == nil {
			k.Retired[n] = lock.ByCommand // together with the kind's
			continue
		}
		k.Versions[n] = &lock.Version{Base: base}
	}
	return k
}

func (d *decisions) plan(name string, kind *lock.Kind, number int, aliases []string) *Plan {
	p := &Plan{}
	for _, alias := range slices.Sorted(slices.Values(aliases)) {
		a := Alias{Kind: alias}
		versions := d.out.Lock.Kinds[alias].Versions
		for _, n := range slices.Sorted(maps.Keys(versions)) {
			a.Versions = append(a.Versions, AliasVersion{n, versions[n].Base})
		}
		p.Aliases = append(p.Aliases, a)
	}
	for _, n := range slices.Sorted(maps.Keys(kind.Versions)) {
		v := Version{Number: n, Base: kind.Versions[n].Base, Shape: kind.Versions[n].Shape, Upgrader: kind.Versions[n].Upgrader}
		if kind.Versions[n].Base.IsZero() {
			v.Base = lock.NewBase(name, n, v.Shape)
		}
		if n == number {
			p.Current = v
		} else {
			p.Older = append(p.Older, v)
		}
	}
	return p
}
