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
// A task without a handler, or with one for another payload, does not compile. The
// methods of a declaration are taskgen's as well: it has TaskKind, for tests, and
// none of yours.
//
// Commit the file, and task.lock.json beside it: the packages that use the one are
// built without taskgen, and the other is what the next change is compared with.
//
// An event, a fact that is published in the transaction of a change, is declared
// in the same way:
//
//	// TripCompleted is the fact that a trip ended.
//	//
//	//task:event trip.completed aggregate=trip
//	type TripCompleted struct{ task.Event[TripCompletedPayload] }
//
// From that come
//
//	func PublishTripCompleted(ctx context.Context, tx task.Tx, aggregateID string, payload TripCompletedPayload, opts ...task.PublishOption) (task.Receipt, error)
//
//	type Projections interface {
//		ProjectTripCompleted(ctx context.Context, tx pgx.Tx, fact *task.Fact[TripCompletedPayload]) error
//	}
//	func Events(p Projections) task.EventTable
//
//	const EventTripCompleted = "trip.completed"
//
// Its payload has versions, an upgrader between two of them, and the same rules
// as that of a task. An event takes the directives event, retry, timeout,
// organization, alias and accept. A name that reads like a command is noted: its
// last word neither ends in -ed nor is one of those that taskgen knows.
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
//	//task:order fields=A,B       Jobs with equal values in these fields of the
//	                              payload run one at a time, in the order of their
//	                              enqueue. A retry holds those behind it; a dead
//	                              letter or a cancellation lets them go. The fields
//	                              are members of the payload's JSON, of its own or
//	                              of structs that it embeds. Their order counts: B,A
//	                              is another key. Default: none.
//	//task:transactional isolation=LEVEL
//	                              The handler gets a transaction, tx pgx.Tx, before
//	                              its job. What it writes there, what it enqueues
//	                              there and the end of the attempt commit together.
//	                              The level is read_committed, repeatable_read or
//	                              serializable, and read_committed where the line
//	                              stops before it. Default: no transaction.
//	//task:schedule "CRON" zone=ZONE missed=POLICY
//	                              A job at each tick of a cron expression: five
//	                              fields, or @every D, @hourly, @daily, @weekly,
//	                              @monthly, @yearly. The zone is an IANA name; what
//	                              happens when its clocks change is in
//	                              docs/schedules.md. Of ticks that no worker was
//	                              there for, the policy skip runs none, one the last
//	                              and all each. A payload with fields is made by a
//	                              method of the task's,
//	                              func (T) ScheduledArgs(at time.Time) Args.
//	                              Default: none; zone=UTC missed=one.
//	//task:event NAME aggregate=TYPE onpoison=POLICY
//	                              The wire name of an event, such as trip.completed,
//	                              and the type of what it happens to. The policy
//	                              says what a dead event does to later ones of its
//	                              aggregate: block holds them up until somebody
//	                              decides, skip lets them pass. Of an event only.
//	                              Default: none, it has to be given; onpoison=block.
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
// # Payload versions
//
// A job can be stored for longer than the code that stored it lives. So a change
// of a payload is compared with every version that may be stored, by the rules of
// docs/payload-rules.md:
//
//   - compatible, such as a new field: the version stays.
//   - backward only, such as a field that is gone: a new version, so that old
//     workers leave the new jobs alone. There is nothing to write.
//   - breaking, such as another type: a new version, and a function that makes
//     the new payload from the old.
//
// Taskgen says what that function looks like:
//
//	func UpgradeSendWebhookV1(old SendWebhookArgsV1) (SendWebhookArgsV2, error)
//
// SendWebhookArgsV1 is generated: the payload as it was, with own copies of what
// it consists of. SendWebhookArgsV2 stands for SendWebhookArgs. Upgraders are pure
// functions of one step each; a job of version 1 goes through all of them. One
// that is missing is an error with the place of the change, and without taskgen
// the code does not compile.
//
// What is frozen is what is merged: the versions in task.lock.json at the
// reference. That is the commit named by -against, or else the merge base of HEAD
// with the default branch of the remote origin, or HEAD where there is no such
// remote. Younger versions are decided anew in each run, so that ten edits before
// a merge are one version. Jobs that were stored under a revision in between are
// left alone by every worker and reported as stranded. Where git cannot tell,
// everything in the lock is frozen.
//
// Nobody edits task.lock.json. When two branches have made the same version, the
// one that is merged first keeps it; the other merges and runs taskgen, which takes
// no notice of the conflict in the lock and gives the branch's change the next
// number. A package whose directory is renamed, or a task that moves into another
// package, keeps its versions: taskgen finds them in the lock that no longer has
// them. A branch that is deployed without being merged, such as one for a release,
// is to be named: taskgen -against origin/release.
//
// Some changes are about more than the payload. The fields of the idempotency key
// and how they are encoded stay as they are, unless that is accepted. So do those
// of the order key, since jobs with the old key and jobs with the new one do not
// wait for each other. A kind that is gone while another is new is taken for a
// rename by mistake, until //task:alias or taskgen retire says which it is. A task
// that is removed while no kind is new gets tombstones in the lock: its numbers are
// never used again. Two packages of one run cannot have the same kind; those whose
// workers never share a database are run one by one.
//
// An author who knows better than a rule says so with //task:accept. It is about
// one change: the line can go once that is merged, and the next change of the same
// kind needs a reason of its own.
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
// out where that is unknown. The code is source, declaration, directive, payload,
// name, lock or stale, or the ID of the rule that a change breaks. What
// breaks nothing and may mean something all the same has "note":true besides; it
// is told where there is no error. What has no place in the source stays on
// standard error.
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
//	taskgen [-json] [-against COMMIT] [packages]
//	taskgen check [-json] [-against COMMIT] [packages]
//	taskgen retire [-against COMMIT] KIND VERSION [package]
//
// Packages are named as for go build; the default is the package of the current
// directory. Taskgen loads them in one go, the way the go command would build
// them: GOFLAGS, GOWORK and a vendor directory have their usual meaning.
//
// Check is for continuous integration. It writes nothing. Its exit code is 0 if
// the generated files are what taskgen would write, and 1 if one is stale, missing
// or orphaned, with a unified diff on standard output, or if there are errors. It
// also tells of changes that break nothing and may mean something all the same,
// such as another version of a module that encodes a field. It needs the
// reference: where the clone is too shallow to know it, the exit code is 2, and
// the message says how to fetch what is missing.
//
// Retire takes a version out of use once no stored job has it any more, and its
// upgrader with it. A job that has it after all is left alone by every worker and
// reported as stranded. The oldest version goes first.
package main
