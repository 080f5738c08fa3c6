// Package directive reads the //task: annotations of a declaration.
//
// A directive is //task:NAME [VALUE] [key=VALUE]... on a line of its own. Each
// may stand once, but for those of which there can be several. What is missing has its default, what is wrong is an error at
// the place of the value that is wrong.
package directive

import "slices"

// Tool is the prefix of the directives.
const Tool = "task"

// Spec says what one directive takes. The table of them is what messages and
// documentation are made from.
type Spec struct {
	Name    string
	Value   string   // what its one value is called; empty where it takes keys alone
	Keys    []string // in the order of the documentation
	Quoted  bool     // the value stands in double quotes, and keys follow
	Bare    bool     // it may stand without any key
	Open    bool     // its keys may be left out
	Repeats bool     // it may stand more than once
	Keyed   bool     // keys follow the value, which has no quotes
	Events  bool     // it may stand at an event
	NoTasks bool     // it may stand at an event alone
	Meaning string   // for the command's help
	Default string   // likewise
	set     func(*reader, args)
}

// Specs are the directives that there are.
func Specs() []Spec {
	return []Spec{
		{Name: "kind", Value: "NAME", set: (*reader).kind,
			Meaning: "the stable wire name", Default: "snake_case of the Go name"},
		{Name: "alias", Value: "NAME", Repeats: true, Events: true, set: (*reader).alias,
			Meaning: "an old kind whose jobs are still accepted after a rename; repeatable", Default: "none"},
		{Name: "queue", Value: "NAME", set: (*reader).queue,
			Meaning: "the queue", Default: "none, it has to be given"},
		{Name: "priority", Value: "low|normal|high|urgent", set: (*reader).priority,
			Meaning: "the order within the queue", Default: "normal"},
		{Name: "retry", Keys: []string{"attempts", "base", "max", "jitter", "unknown"}, Events: true, set: (*reader).retry,
			Meaning: "attempts in all, the backoff between them, and from which attempt on an unclassified failure is a dead letter",
			Default: "attempts=10 base=1s max=10m jitter=0.2 unknown=min(5, attempts)"},
		{Name: "timeout", Value: "DURATION", Events: true, set: (*reader).timeout,
			Meaning: "how long one attempt may take", Default: "1m"},
		{Name: "idempotency", Keys: []string{"fields", "keep"}, set: (*reader).idempotency,
			Meaning: "one job for equal values of these fields, while it is unfinished and for at least keep",
			Default: "none"},
		{Name: "organization", Value: "FIELD", Events: true, set: (*reader).organization,
			Meaning: "the field of the payload that names the tenant", Default: "none"},
		{Name: "order", Keys: []string{"fields"}, set: (*reader).order,
			Meaning: "jobs of equal values of these fields run one at a time, in the order of their enqueue", Default: "none"},
		{Name: "transactional", Keys: []string{"isolation"}, Bare: true, set: (*reader).transactional,
			Meaning: "the handler gets a transaction, which commits together with the end of the attempt",
			Default: "off; isolation=read_committed"},
		{Name: "schedule", Value: `"CRON"`, Keys: []string{"zone", "missed"}, Quoted: true, Open: true, set: (*reader).schedule,
			Meaning: "a job at each tick of a cron expression", Default: "none; zone=UTC missed=one"},
		{Name: "event", Value: "NAME", Keys: []string{"aggregate", "onpoison"}, Keyed: true, Events: true, NoTasks: true, set: (*reader).event,
			Meaning: "the name of an event, what it happens to, and whether a dead one blocks later ones or they skip it", Default: "onpoison=block"},
		{Name: "accept", Value: `"REASON"`, Keys: []string{"rule", "path"}, Quoted: true, Repeats: true, Events: true, set: (*reader).accept,
			Meaning: "overrides the verdict on one change of the payload, and says why; repeatable", Default: "none"},
	}
}

// Usage writes a directive as a user would: "//task:queue NAME".
func (s Spec) Usage() string {
	usage := "//task:" + s.Name
	if s.Value != "" {
		usage += " " + s.Value
	}
	for _, key := range s.Keys {
		if s.Bare || s.Open {
			usage += " [" + key + "=]"
		} else {
			usage += " " + key + "="
		}
	}
	return usage
}

// appliesTo reports whether a directive may stand at an event, or at a task.
func (s Spec) appliesTo(event bool) bool {
	if event {
		return s.Events
	}
	return !s.NoTasks
}

func names() []string {
	var all []string
	for _, s := range Specs() {
		all = append(all, s.Name)
	}
	return all
}

func lookup(name string) (Spec, bool) {
	specs := Specs()
	i := slices.IndexFunc(specs, func(s Spec) bool { return s.Name == name })
	if i < 0 {
		return Spec{}, false
	}
	return specs[i], true
}
