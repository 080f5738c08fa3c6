package campaign

import (
	"fmt"
	"slices"
	"strings"
)

// task writes the comment and the declaration of the task.
func (w *writer) task() {
	directives := w.directives()
	w.Shuffle(len(directives), func(i, j int) { directives[i], directives[j] = directives[j], directives[i] })
	var doc []string
	if w.chance(60) {
		doc = append(doc, "// "+w.id+" does "+pick(w, "something.", "what the task queue is for.", "work: the kind of it that waits."), "//")
	}
	if w.chance(5) {
		doc = append(doc, "//nolint:all", "//other:queue q")
	}
	for i, d := range directives {
		if i > 0 && w.chance(10) {
			doc = append(doc, "//")
		}
		doc = append(doc, d)
	}
	gap := "\n"
	switch {
	case w.fault("a blank line below the directives"):
		gap = "\n\n"
	case w.fault("a directive in a comment block"):
		doc = []string{"/*", "\ttask:queue q", "*/"}
	}
	embedded := "task.Task[" + w.d.payload + "]"
	body := pick(w, "struct{ "+embedded+" }", "struct {\n\t"+embedded+"\n}", "(struct{ "+embedded+" })")
	switch {
	case w.fault("a field beside the task"):
		body = "struct {\n\t" + embedded + "\n\tExtra int\n}"
	case w.fault("a task by pointer"):
		body = "struct{ *" + embedded + " }"
	case w.fault("a task with a name"):
		body = "struct{ T " + embedded + " }"
	case w.fault("a task that is no struct"):
		body = embedded
	case w.fault("a task that is an alias"):
		body = "= struct{ " + embedded + " }"
	}
	spec := w.id + " " + body
	if w.chance(20) {
		lines := strings.ReplaceAll(strings.Join(append(doc, ""), "\n")+strings.TrimPrefix(gap, "\n")+spec, "\n", "\n\t")
		w.decl = "type (\n\t" + lines + "\n)\n"
	} else {
		w.decl = strings.Join(doc, "\n") + gap + "type " + spec + "\n"
	}
	w.code = w.uses()
}

// uses returns code that cannot compile before taskgen has run.
func (w *writer) uses() string {
	if !w.chance(40) {
		return ""
	}
	return pick(w,
		fmt.Sprintf("func use%[1]s() string { return Kind%[1]s }\n", w.id),
		fmt.Sprintf("var use%[1]s = Enqueue%[1]s\n", w.id),
		fmt.Sprintf("var _ = []any{EnqueueMany%s, Tables}\n", w.id),
		fmt.Sprintf("const use%[1]s = Kind%[1]s + \"s\"\n", w.id),
		fmt.Sprintf("type use%s struct{ Handlers }\n", w.id),
	)
}

func (w *writer) directives() []string {
	all := []string{"//task:queue " + pick(w, "mail", "reports", "a_b", "q1_")}
	if w.chance(20) {
		all = append(all, "//task:kind "+strings.ToLower(w.id)+pick(w, "", "_x", "__9"))
	}
	if w.chance(20) {
		all = append(all, "//task:priority "+pick(w, "low", "normal", "high", "urgent"))
	}
	if w.chance(30) {
		keys := []string{"attempts=" + pick(w, "5", "32766", "7"), "base=" + pick(w, "1ms", "2s", "1h"), "max=" + pick(w, "1h", "2h30m"),
			"jitter=" + pick(w, "0", "1", "0.5", ".25"), "unknown=" + pick(w, "1", "5")}
		w.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
		keys = keys[:1+w.IntN(len(keys))]
		if slices.Contains(keys, "base=1h") {
			keys = slices.DeleteFunc(keys, func(k string) bool { return strings.HasPrefix(k, "max=") })
			keys = append(keys, "max=2h")
		}
		all = append(all, "//task:retry "+strings.Join(keys, pick(w, " ", "  ", "\t")))
	}
	if w.chance(20) {
		all = append(all, "//task:timeout "+pick(w, "1ns", "30s", "1h30m0.5s", "100µs"))
	}
	if len(w.fields) > 0 && w.chance(40) {
		n := 1 + w.IntN(len(w.fields))
		all = append(all, "//task:idempotency fields="+strings.Join(w.fields[:n], ",")+" keep="+pick(w, "1h", "72h", "1s"))
	}
	if members := w.members(); len(members) > 0 && w.chance(30) {
		all = append(all, "//task:order fields="+strings.Join(members[:1+w.IntN(len(members))], ","))
	}
	if w.chance(25) {
		w.d.transactional = true
		all = append(all, "//task:transactional"+pick(w, "", " isolation=read_committed", " isolation=repeatable_read", "\tisolation=serializable"))
	}
	if w.tenant != "" {
		all = append(all, "//task:organization "+w.tenant)
	}
	return w.badDirective(all)
}

// members returns fields of the payload in a random order.
func (w *writer) members() []string {
	members := slices.Clone(w.fields)
	if w.tenant != "" {
		members = append(members, w.tenant)
	}
	w.Shuffle(len(members), func(i, j int) { members[i], members[j] = members[j], members[i] })
	return members
}

// badDirective puts something wrong among the directives, or nothing. The first
// of them names the queue.
func (w *writer) badDirective(all []string) []string {
	switch {
	case w.fault("no queue"):
		return slices.Delete(all, 0, 1)
	case w.fault("a queue that is none"):
		all[0] = "//task:queue " + pick(w, "Mail", "a-b", "9", "größe", strings.Repeat("q", 64), "_a", "")
	case w.fault("a directive twice"):
		all = append(all, pick(w, all...))
	case w.fault("a directive that does not exist"):
		all = append(all, "//task:"+pick(w, "queu q", "colour red", "retries attempts=3", "Timeout 1s", "timeuot 3s", ""))
	case w.fault("a lookalike"):
		all[0] = pick(w, "// task:queue q", "//Task:queue q", "//taks:queue q", "//task: queue q", "//task.queue q", "///task:queue q", "//pawl:queue q", "// @task:queue q")
	case w.fault("an impossible value"):
		all = append(slices.DeleteFunc(all, func(d string) bool {
			return strings.HasPrefix(d, "//task:retry") || strings.HasPrefix(d, "//task:timeout") || strings.HasPrefix(d, "//task:priority")
		}), "//task:"+pick(w,
			"retry attempts=0", "retry attempts=99999", "retry jitter=2", "retry base=2h max=1h", "retry unknown=11", "retry base=soon", "retry attempts=3 attempts=3",
			"retry attemps=3", "retry 3", "retry", "retry attempts = 3", "timeout 0s", "timeout -1s", "timeout 5", "timeout", "priority hihg", "priority 3", "priority",
			"transactional serializable", "transactional isolation=dirty", "transactional level=serializable", "order", "order A", "order fields=A,A", "order keep=1h"))
	case w.fault("a field that does not exist"):
		all = append(slices.DeleteFunc(all, func(d string) bool {
			return strings.HasPrefix(d, "//task:idempotency") || strings.HasPrefix(d, "//task:organization") || strings.HasPrefix(d, "//task:order")
		}), "//task:"+pick(w, "idempotency fields=Nothing keep=1h", "organization Nothing", "idempotency fields=x keep=1h", "idempotency fields=,, keep=1h", "order fields=Nothing", "order fields=x"))
	case w.fault("a comment behind"):
		all[w.IntN(len(all))] += pick(w, " // why", "//why")
	}
	return all
}

// layout puts what was written into files.
func (w *writer) layout() {
	parts := []string{w.decl}
	if w.code != "" {
		parts = append(parts, w.code)
	}
	var group []string
	for _, spec := range w.types {
		switch {
		case w.chance(20):
			group = append(group, "\t"+strings.ReplaceAll(spec, "\n", "\n\t"))
		default:
			doc := pick(w, "", "// It is part of a payload.\n", "/* It is one, too. */\n")
			parts = append(parts, doc+"type "+spec+"\n")
		}
	}
	if len(group) > 0 {
		parts = append(parts, "type (\n"+strings.Join(group, pick(w, "\n", "\n\n"))+"\n)\n")
	}
	if w.fault("a directive that belongs to nothing") {
		parts = append(parts, pick(w, "//task:queue stray\n", "//task:queue stray\nvar _ = 1\n", "func _() {\n\t//task:queue stray\n}\n", "//task:timeout 1s\ntype stray"+w.id+" int\n"))
	}
	w.Shuffle(len(parts), func(i, j int) { parts[i], parts[j] = parts[j], parts[i] })
	files := 1 + w.IntN(3)
	for i := range files {
		var mine []string
		for at, part := range parts {
			if at%files == i {
				mine = append(mine, part)
			}
		}
		w.file(fmt.Sprintf("%s_%c.go", strings.ToLower(w.id), 'a'+i), strings.Join(mine, pick(w, "\n", "\n\n\n", "\n// Between.\n\n")))
	}
}

func (w *writer) file(name, text string) {
	var b strings.Builder
	b.WriteString(pick(w, "", "// A file of "+w.id+".\n\n") + "package " + packageName + "\n\n")
	for _, path := range used(text) {
		fmt.Fprintf(&b, "import %q\n", path)
	}
	if refers(text, "task") {
		switch w.IntN(4) {
		case 0:
			b.WriteString("import pawl \"github.com/pawlgo/pawl/task\"\n")
			text = strings.ReplaceAll(text, "task.Task[", "pawl.Task[")
		case 1:
			b.WriteString("import . \"github.com/pawlgo/pawl/task\"\n")
			text = strings.ReplaceAll(text, "task.Task[", "Task[")
		default:
			b.WriteString("import \"github.com/pawlgo/pawl/task\"\n")
		}
	}
	b.WriteString("\n" + text)
	content := b.String()
	if w.chance(5) {
		content = strings.ReplaceAll(content, "\n", "\r\n")
	}
	w.d.files[name] = content
}

// packageName is replaced by that of the package that a declaration is put into.
const packageName = "PACKAGE"
