// Taskgen writes the typed side of task declarations: functions that enqueue,
// interfaces to implement, and the tables that a worker runs.
//
// A task is declared as an exported struct whose only field is an embedded
// task.Task of its payload. Its policy stands in its doc comment:
//
//	package tasks
//
//	//go:generate go tool taskgen
//
//	// SendWebhook delivers one event to one subscriber's endpoint.
//	//
//	//task:queue webhooks
//	//task:retry attempts=12 base=2s unknown=3
//	//task:timeout 30s
//	//task:idempotency fields=EndpointID,EventID keep=72h
//	//task:organization OrganizationID
//	type SendWebhook struct{ task.Task[SendWebhookArgs] }
//
//	// SendWebhookArgs is the payload of SendWebhook.
//	type SendWebhookArgs struct {
//		OrganizationID uuid.UUID `json:"organization_id"`
//		EndpointID     uuid.UUID `json:"endpoint_id"`
//		EventID        uuid.UUID `json:"event_id"`
//		Body           []byte    `json:"body"`
//	}
//
// After "go get -tool github.com/pawlgo/pawl/cmd/taskgen", go generate writes
// task_gen.go into the package, with
//
//	func EnqueueSendWebhook(ctx context.Context, tx task.Tx, args SendWebhookArgs, opts ...task.EnqueueOption) (task.Receipt, error)
//	func EnqueueManySendWebhook(ctx context.Context, tx task.Tx, args []SendWebhookArgs, opts ...task.EnqueueOption) ([]task.Receipt, error)
//
//	type WebhooksHandlers interface {
//		HandleSendWebhook(ctx context.Context, job *task.Job[SendWebhookArgs]) error
//	}
//	func WebhooksTable(h WebhooksHandlers) task.Table
//
//	type Handlers interface{ WebhooksHandlers } // of all queues
//	func Tables(h Handlers) []task.Table
//
//	const QueueWebhooks = "webhooks"
//	const KindSendWebhook = "send_webhook"
//
// A task without a handler, or with one for another payload, does not compile.
// Commit the file: the packages that use it are built without taskgen.
//
// # Directives
//
// A directive is a line of the doc comment, //task:NAME with one value or with
// keys as key=VALUE. There are no quotes but those of accept, no blanks in lists,
// and no comments behind. Each stands at most once, alias and accept apart.
//
//	//task:kind NAME              The wire name that jobs are stored with.
//	                              Default: snake_case of the Go name.
//	//task:alias NAME             An old kind whose jobs are still accepted after a
//	                              rename. Repeatable. Default: none.
//	//task:queue NAME             The queue. Required.
//	//task:priority LEVEL         low, normal, high or urgent: the order within
//	                              the queue. Default: normal.
//	//task:retry attempts=N base=D max=D jitter=SHARE unknown=N
//	                              attempts: in all, 1 to 32766. The delay after
//	                              attempt n is min(max, base·2^(n-1)), then more
//	                              or less by up to jitter, a share from 0 to 1. A
//	                              failure that the handler did not classify is a
//	                              dead letter from attempt unknown on.
//	                              Default: attempts=10 base=1s max=10m jitter=0.2,
//	                              unknown=5 or the attempts if they are fewer.
//	//task:timeout D              How long one attempt may take. Default: 1m.
//	//task:idempotency fields=A,B keep=D
//	                              While a job is unfinished, and for at least keep
//	                              from its enqueue, an enqueue with equal values in
//	                              these fields of the payload is a duplicate.
//	                              Default: none.
//	//task:organization FIELD     The field that names the tenant: a string, an
//	                              integer, a uuid.UUID, or a type with MarshalText
//	                              or String. The empty string, the zero UUID and
//	                              the zero value of a type with such a method are
//	                              no tenant. Default: none.
//	//task:accept "REASON" rule=ID path=PATH
//	                              Overrides the verdict of one rule on one change
//	                              of the payload, where the author knows better.
//	                              Repeatable. Default: none.
//
// Names of kinds and queues match [a-z][a-z0-9_]{0,62}. Durations D are written as
// for [time.ParseDuration].
//
// # Payloads
//
// A payload is an exported type, and it travels as encoding/json writes it. What
// would be lost on that way in silence is refused: unexported fields that no
// json:"-" excuses, two fields of one JSON name or of names that differ by letter
// case alone, an embedded type whose marshaler takes over the whole struct, any.
// So is what cannot be encoded or decoded at all. A type that marshals itself is
// taken as it is, provided that it also unmarshals itself.
//
// # Errors
//
// Taskgen reports everything that it finds in one run, as file:line:col: message
// on standard error, sorted by position. A directive that it does not know, that
// stands where no task is, or that is almost one, is such an error. If there is
// any, in any of the packages, no file is changed.
//
// On a terminal the line of the source stands below each, with what is wrong
// underlined, in color unless NO_COLOR is set. With -json, errors go to standard
// output instead, one JSON object a line:
//
//	{"file":"tasks/tasks.go","line":7,"column":14,"endColumn":15,"message":"...","code":"directive"}
//
// Columns count bytes from 1; endColumn is just behind what is wrong, and left
// out where that is unknown. The code is source, declaration, directive, payload
// or name. What is no error in the source stays on standard error.
//
// It needs no earlier output: code that already uses the generated names does not
// stop it, and neither does a task_gen.go that is empty, stale or full of conflict
// markers. When the last task of a package is removed, so is the file.
//
// The exit code is 0 if all is well, 1 if there are errors in the packages, and 2
// for any other trouble, such as a package that does not exist or a directory
// that cannot be written to.
//
// # Usage
//
//	taskgen [-json] [packages]
//
// Packages are named as for go build; the default is the package of the current
// directory. Taskgen loads them in one go, the way the go command would build
// them: GOFLAGS, GOWORK and a vendor directory have their usual meaning.
package main
