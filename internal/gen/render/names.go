package render

import (
	"fmt"
	"go/token"
	"maps"
	"slices"
	"strings"

	"github.com/pawlgo/pawl/internal/gen/shape"
)

// Name is a package-level name of the generated file.
type Name struct {
	Name string
	Of   string    // what it is for: a task or a queue
	Pos  token.Pos // where that is declared; none for the names of a whole package
}

// KindMethod is the method that the generated file gives to each declaration.
const KindMethod = "TaskKind"

// Names lists every package-level name that the generated file declares for
// tasks, which are sorted by name.
func Names(tasks []*Task) []Name {
	if len(tasks) == 0 {
		return nil
	}
	var names []Name
	if len(queued(tasks)) > 0 {
		names = append(names, Name{"Handlers", "all queues", token.NoPos}, Name{"Tables", "all queues", token.NoPos})
	}
	if len(events(tasks)) > 0 {
		names = append(names, Name{"Projections", "all events", token.NoPos}, Name{"Events", "all events", token.NoPos})
	}
	for _, t := range tasks {
		of, formats := "the task "+t.Name, []string{"Kind%s", "kind%s", "Enqueue%s", "EnqueueMany%s", "decode%s"}
		if t.Policy.Event {
			of, formats = "the event "+t.Name, []string{"Event%s", "event%s", "Publish%s", "decode%s"}
		}
		for _, format := range formats {
			names = append(names, Name{fmt.Sprintf(format, t.Name), of, t.NamePos})
		}
		names = append(names, Name{argsName(t, t.current()), of, t.NamePos})
		for _, v := range t.older() {
			if v.Shape.Root.Kind != shape.Struct {
				names = append(names, Name{argsName(t, v.Number), of, t.NamePos})
			}
			for _, name := range slices.Sorted(maps.Values(frozenNames(t, v))) {
				names = append(names, Name{name, of, t.NamePos})
			}
		}
	}
	for _, q := range queues(tasks) {
		of := "the queue " + q.name
		for _, format := range []string{"Queue%s", "%sHandlers", "%sTable"} {
			names = append(names, Name{fmt.Sprintf(format, q.goName()), of, q.tasks[0].Policy.QueuePos})
		}
	}
	return names
}

// Declares reports whether the generated file declares name, or may do so once
// the versions of tasks are known: code of the user's mentions the type of a
// payload version before taskgen has written it.
func Declares(tasks []*Task, name string) bool {
	if slices.ContainsFunc(Names(tasks), func(n Name) bool { return n.Name == name }) {
		return true
	}
	return slices.ContainsFunc(tasks, func(t *Task) bool {
		number, ok := strings.CutPrefix(name, argsPrefix(t))
		return ok && number != "" && '1' <= number[0] && number[0] <= '9'
	})
}

// queued returns the tasks, and events those declarations that are none.
func queued(tasks []*Task) []*Task { return sorted(tasks, false) }
func events(tasks []*Task) []*Task { return sorted(tasks, true) }

func sorted(tasks []*Task, event bool) (all []*Task) {
	for _, t := range tasks {
		if t.Policy.Event == event {
			all = append(all, t)
		}
	}
	return all
}

// queue is one queue with its tasks in the order of their names.
type queue struct {
	name  string
	tasks []*Task
}

// queues groups tasks by queue, sorted by name. A task whose queue is missing
// has none.
func queues(tasks []*Task) []queue {
	byName := map[string][]*Task{}
	for _, t := range tasks {
		if t.Policy.Queue != "" {
			byName[t.Policy.Queue] = append(byName[t.Policy.Queue], t)
		}
	}
	var all []queue
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		all = append(all, queue{name, byName[name]})
	}
	return all
}

// goName writes a wire name in the Go way: fleet_reports becomes FleetReports.
func (q queue) goName() string {
	var b strings.Builder
	for part := range strings.SplitSeq(q.name, "_") {
		if part != "" {
			b.WriteString(strings.ToUpper(part[:1]) + part[1:])
		}
	}
	return b.String()
}
