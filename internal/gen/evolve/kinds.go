package evolve

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pawlgo/pawl/internal/gen/lock"
	"github.com/pawlgo/pawl/internal/gen/rules"
	"github.com/pawlgo/pawl/internal/gen/shape"
	"github.com/pawlgo/pawl/internal/gen/suggest"
)

// aliases returns the aliases of a task that are right, and adds a problem for
// each other, once.
func (d *decisions) aliases(i int) []string {
	t := &d.Tasks[i]
	root := d.root(t.Kind)
	var right []string
	for index, alias := range t.Aliases {
		message := d.wrongAlias(i, alias, root)
		if message == "" {
			right = append(right, alias)
			root = d.root(alias)
			continue
		}
		p := Problem{Task: i, Place: AtAlias, Index: index, Code: rules.KindChanged, Message: message}
		if !slices.Contains(d.out.Problems, p) {
			d.problem(p)
		}
	}
	return right
}

func (d *decisions) wrongAlias(i int, alias, root string) string {
	t := &d.Tasks[i]
	other, declared := d.declared[alias]
	switch {
	case alias == t.Kind:
		return fmt.Sprintf("%s is the kind of %s itself: an alias is an old one", alias, t.Name)
	case declared:
		return fmt.Sprintf("%s is the kind of %s: a job has one task", alias, d.Tasks[other].Name)
	case d.Reference.Kinds[alias] == nil:
		return fmt.Sprintf("no kind %s was ever merged%s: there are no jobs of it to accept", alias, suggest.DidYouMean(alias, d.undeclared()))
	case d.root(alias) == "" || len(d.bases(alias)) == 0:
		return nothingLeft(alias)
	case root != "" && d.root(alias) != root:
		return fmt.Sprintf("%s and %s have versions of their own, and a number has one meaning in a task: keep a task for the old kind until its jobs are done, then retire it", alias, t.Kind)
	}
	for j := range d.Tasks[:i] {
		if slices.Contains(d.Tasks[j].Aliases, alias) {
			return fmt.Sprintf("%s is also an alias of %s: a job has one task", alias, d.Tasks[j].Name)
		}
	}
	return ""
}

func nothingLeft(alias string) string {
	return fmt.Sprintf("every version of %s is retired, so that there is nothing left to accept: remove the line", alias)
}

// undeclared returns the kinds of the reference that no task has any more.
func (d *decisions) undeclared() []string {
	var all []string
	for _, kind := range slices.Sorted(maps.Keys(d.Reference.Kinds)) {
		if _, ok := d.declared[kind]; !ok && len(d.Reference.Kinds[kind].Versions) > 0 {
			all = append(all, kind)
		}
	}
	return all
}

// vanished decides about the kinds of the reference that the source names no
// more. Where the source has a new kind at the same time it is likely that one
// was renamed, and a rename by mistake leaves the stored jobs without a handler,
// so the author has to say which it is. Otherwise the task was removed, and its
// versions get tombstones.
func (d *decisions) vanished() {
	for _, name := range slices.Sorted(maps.Keys(d.Reference.Kinds)) {
		if _, ok := d.covered[name]; ok {
			continue
		}
		old := d.Reference.Kinds[name]
		k := &lock.Kind{Retired: d.tombstones(name)}
		if len(k.Retired)+len(old.Versions) > 0 {
			d.out.Lock.Kinds[name] = k
		}
		left := slices.DeleteFunc(slices.Sorted(maps.Keys(old.Versions)), func(n int) bool { return slices.Contains(d.Retired[name], n) })
		if len(left) == 0 {
			continue
		}
		if i, ok := d.successor(name); ok && !d.hasAliasProblem(i) {
			d.problem(Problem{Task: i, Place: AtKind, Code: rules.KindChanged, Message: orphaned(name, left, &d.Tasks[i], old)})
		}
		for _, n := range left {
			k.Retired[n] = lock.Removed
		}
	}
}

// hasAliasProblem reports whether an alias of the task is wrong: that is most
// likely the name of what has vanished, misspelled.
func (d *decisions) hasAliasProblem(i int) bool {
	return slices.ContainsFunc(d.out.Problems, func(p Problem) bool { return p.Task == i && p.Place == AtAlias })
}

// successor returns the task that probably had the kind name before.
func (d *decisions) successor(name string) (int, bool) {
	old := d.Reference.Kinds[name]
	if old.AliasOf != "" {
		i, ok := d.covered[old.AliasOf]
		return i, ok
	}
	best, found := 0, false
	rank := 0
	for i := range d.Tasks {
		t := &d.Tasks[i]
		r := 0
		switch {
		case t.event() != (old.Aggregate != ""): // a job is no event
		case t.Name == old.Task:
			r = 3
		case d.Reference.Kinds[t.Kind] != nil || len(d.aliases(i)) > 0: // not new
		case shape.Equal(t.Shape, old.Versions[slices.Max(slices.Collect(maps.Keys(old.Versions)))].Shape):
			r = 2
		default:
			r = 1
		}
		if r > rank {
			best, found, rank = i, true, r
		}
	}
	return best, found
}

func orphaned(name string, versions []int, t *Task, old *lock.Kind) string {
	rule, _ := rules.Lookup(rules.KindChanged)
	what := fmt.Sprintf("the kind %s is gone, and %s of %s is new", name, t.Kind, t.Name)
	switch {
	case old.AliasOf != "":
		what = fmt.Sprintf("the old kind %s is no longer an alias of %s", name, t.Kind)
	case t.Name == old.Task:
		what = fmt.Sprintf("the kind of %s was %s and is %s", t.Name, name, t.Kind)
	}
	var commands []string
	for _, n := range versions {
		commands = append(commands, fmt.Sprintf("taskgen retire %s %d", name, n))
	}
	return fmt.Sprintf("%s (%s, %s): %s\nif it is a new name for the same task, accept the old one with\n//task:alias %s\nif no job of %s is left, or none is to run, say so with\n%s",
		what, rule.ID, rule.Verdict, rule.Reason, name, name, strings.Join(commands, "\n"))
}

// Retire checks whether the command retire may take version n of kind out of use,
// and returns the input with it. Its error says why it may not.
func Retire(in Input, kind string, n int) (Input, error) {
	now := Decide(in).Lock
	ref := in.Reference
	if ref == nil {
		ref = &lock.Lock{}
	}
	old, current := ref.Kinds[kind], now.Kinds[kind]
	if current == nil {
		return in, fmt.Errorf("there is no kind %s%s", kind, suggest.DidYouMean(kind, slices.Sorted(maps.Keys(now.Kinds))))
	}
	live := slices.Sorted(maps.Keys(current.Versions))
	switch {
	case len(current.Versions) > 0 && current.AliasOf == "" && n == live[len(live)-1]:
		return in, fmt.Errorf("version %d of %s is the one that an enqueue writes: it cannot be retired", n, kind)
	case current.Retired[n] != "" && (old == nil || old.Versions[n] == nil || current.Retired[n] == lock.ByCommand):
		return in, fmt.Errorf("version %d of %s is retired already", n, kind)
	case old == nil || old.Versions[n] == nil:
		return in, fmt.Errorf("%s has no live version %d; there are %s", kind, n, strings.Trim(fmt.Sprint(live), "[]"))
	}
	if current.AliasOf == "" {
		// An older payload takes the way through every version from its upgrader on.
		for _, older := range live {
			for _, step := range live {
				if older < n && older <= step && step <= n && current.Versions[step].Upgrader {
					return in, fmt.Errorf("version %d of %s is on the way from version %d, which is live, to the current one: retire %d first", n, kind, older, older)
				}
			}
		}
	}
	retired := maps.Clone(in.Retired)
	if retired == nil {
		retired = map[string][]int{}
	}
	retired[kind] = append(slices.Clone(retired[kind]), n)
	in.Retired = retired
	return in, nil
}
