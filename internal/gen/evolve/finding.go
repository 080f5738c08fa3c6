package evolve

import (
	"cmp"
	"slices"
	"strings"

	"github.com/pawlgo/pawl/internal/gen/rules"
)

// finding is a change that matters, and the version that it is from.
type finding struct {
	rules.Finding
	version int // 0 for a name that was reserved
	// also are the other paths that lead to the same field.
	also []string
}

// now is the path in the current payload.
func (f finding) now() string { return cmp.Or(f.Renamed, f.Path) }

// paths are all that lead to the field.
func (f finding) paths() []string { return append([]string{f.Path}, f.also...) }

// elsewhere names the other paths, in a line of its own.
func (f finding) elsewhere() string {
	if len(f.also) == 0 {
		return ""
	}
	return "\nthe same field is at " + strings.Join(f.also, ", ")
}

// together makes one finding of those that are the same change of the same field,
// at the shortest path from the newest version.
func (t *Task) together(all []finding) []finding {
	type cause struct {
		field        any
		rule, detail string
	}
	slices.SortFunc(all, func(a, b finding) int {
		return cmp.Or(cmp.Compare(b.version, a.version), cmp.Compare(steps(a.Path), steps(b.Path)), cmp.Compare(a.Path, b.Path), cmp.Compare(a.Rule.ID, b.Rule.ID))
	})
	var told []finding
	first := map[cause]int{}
	for _, f := range all {
		c := cause{rule: f.Rule.ID, detail: f.Detail}
		if t.Field != nil {
			c.field = t.Field(f.now())
		}
		at, ok := first[c]
		switch {
		case c.field == nil:
			told = append(told, f)
		case !ok:
			first[c] = len(told)
			told = append(told, f)
		default:
			told[at].also = append(told[at].also, f.Path)
		}
	}
	return told
}

// steps is the number of steps of a path but one.
func steps(path string) int {
	return strings.Count(path, ".") + strings.Count(path, "[") + strings.Count(path, "{")
}
