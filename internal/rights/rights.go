// Package rights says what each role of a database may do with each object of the
// schema. It is a table, and everything that is said of rights is made from it: the
// statements of [migrations.Grants], what an operator is told to be missing, and
// the tests, which hold it against the schema so that nothing new is forgotten.
//
// [migrations.Grants]: https://pkg.go.dev/github.com/pawlgo/pawl/migrations#Grants
package rights

import (
	"slices"
	"strings"
)

// Role is a part that a role of the database plays.
type Role int

// The roles. Who owns the schema needs no rights, and is in no row.
const (
	Worker   Role = iota // claims and settles jobs, and does the housekeeping
	Producer             // enqueues and publishes, and reads nothing
	Viewer               // reads everything but payloads and digests of keys
	Operator             // a viewer who cancels, retries and pauses too
	roles
)

// Class is what sort of object a row is about.
type Class int

// The classes of objects.
const (
	Table Class = iota // or a view
	Function
	Sequence
)

// Schema is the class of what a role holds of the schema itself. No row is about it:
// who plays any part has USAGE, and no other.
const Schema Class = -1

// Object is a row: an object of the schema, and for each role the privileges that
// it has, as GRANT spells them; empty for none.
type Object struct {
	Class Class
	Name  string
	Roles [roles]string
}

// To returns the privileges of a role.
func (o *Object) To(r Role) string { return o.Roles[r] }

// Rights returns the privileges of a role one by one, those on single columns as in
// SELECT (id).
func (o *Object) Rights(r Role) []string {
	if o.To(r) == none {
		return nil
	}
	privilege, columns, some := strings.Cut(strings.TrimSuffix(o.To(r), ")"), " (")
	all := strings.Split(columns, ", ")
	if !some {
		return strings.Split(privilege, ", ")
	}
	for i, c := range all {
		all[i] = privilege + " (" + c + ")"
	}
	return all
}

// Covers says whether a right is among others, in which one on the whole object
// stands for those on its columns.
func Covers(all []string, right string) bool {
	privilege, _, _ := strings.Cut(right, " (")
	return slices.Contains(all, right) || slices.Contains(all, privilege)
}

// String is what the one who plays the part is called.
func (r Role) String() string {
	return [roles]string{"worker", "producer", "viewer", "operator"}[r]
}

// Parts returns the roles. One that comes before another may have what that has.
func Parts() []Role { return []Role{Worker, Producer, Operator, Viewer} }

const (
	read = "SELECT"
	call = "EXECUTE"
	none = ""

	// The columns of tables with payloads that say nothing of these. A digest of a
	// payload, or of a part of it such as a key, gives away one that can be guessed.
	jobColumns = "SELECT (day, id, kind, queue, version, capability, priority, max_attempts, organization_id, run_at, enqueued_at," +
		" trace_context)"
	letterColumns = "SELECT (job_id, kind, queue, version, capability, priority, organization_id, attempts, max_attempts, code, summary," +
		" enqueued_at, died_at, fingerprint)"
	archiveColumns = "SELECT (day, id, kind, queue, version, capability, priority, organization_id, status, attempts, max_attempts, run_at," +
		" enqueued_at, claimed_at, finished_at, archived_at, trace_context)"
	eventColumns = "SELECT (day, id, seq, type, aggregate_type, aggregate_id, organization_id, version, capability, occurred_at, published_at," +
		" trace_context)"
	deadEventColumns = "SELECT (event_id, seq, type, aggregate_type, aggregate_id, organization_id, version, capability, attempts, code, summary," +
		" occurred_at, published_at, died_at, trace_context)"
	outboxColumns = "SELECT (id, organization_id, aggregate_type, aggregate_id, event_type, schema_version, capability, occurred_at, published_at," +
		" available_at, status, claimed_at, claimed_by, processed_at, attempts, last_error_code, last_error, seq)"
	keyColumns     = "SELECT (organization_id, kind, job_id, job_day, expires_at)"
	orderedColumns = "SELECT (seq, job_id, day, queue, head, ready_at)"
	turnColumns    = "SELECT (queue)"
)

// Objects returns all rows: tables and views, then the sequence, then functions, each by
// name.
func Objects() []Object { return objects[:] }

func table(name, worker, producer, viewer, operator string) Object {
	return Object{Table, name, [roles]string{worker, producer, viewer, operator}}
}

func function(name, worker, producer, viewer, operator string) Object {
	return Object{Function, name, [roles]string{worker, producer, viewer, operator}}
}

var objects = [...]Object{
	//                            worker                             producer viewer operator
	table("archive", read, none, archiveColumns, archiveColumns),
	table("audit", none, none, read, read),
	table("blocked_aggregates", "SELECT, INSERT", none, read, read),
	table("cancel_requests", "SELECT, UPDATE, DELETE", none, read, read),
	table("dead_events", "SELECT, INSERT, UPDATE, DELETE", none, deadEventColumns, deadEventColumns),
	table("dead_letters", "SELECT, INSERT, UPDATE, DELETE", none, letterColumns, letterColumns),
	table("event_errors", "SELECT, INSERT, UPDATE", none, read, read),
	table("event_outcomes", "SELECT, INSERT", none, read, read),
	table("event_types", "SELECT, INSERT, UPDATE", none, read, read),
	table("events", "SELECT, INSERT, DELETE", none, eventColumns, eventColumns),
	table("idempotency_keys", "SELECT, UPDATE, DELETE", none, keyColumns, keyColumns),
	table("job_errors", "SELECT, INSERT, UPDATE", none, read, read),
	table("job_status", read, none, read, read),
	table("jobs", "SELECT, INSERT, DELETE", none, jobColumns, jobColumns),
	table("kinds", "SELECT, INSERT, UPDATE", none, read, read),
	table("leases", "SELECT, INSERT, UPDATE, DELETE", none, read, read),
	table("migrations", read, read, read, read),
	table("order_places", read, none, read, read),
	table("order_turns", "SELECT, INSERT, DELETE", none, turnColumns, turnColumns),
	table("ordered", "SELECT, UPDATE, DELETE", none, orderedColumns, orderedColumns),
	table("outbox_events", read, none, outboxColumns, outboxColumns),
	table("outcomes", "SELECT, INSERT", none, read, read),
	table("paused_queues", read, none, read, read),
	table("paused_schedules", read, none, read, read),
	table("pending_events", "SELECT, UPDATE, DELETE", none, read, read),
	table("processes", "SELECT, INSERT, UPDATE, DELETE", none, read, read),
	table("quarantine", "SELECT, INSERT", none, read, read),
	table("ready", "SELECT, INSERT, UPDATE, DELETE", none, read, read),
	table("redactions", "SELECT, INSERT, UPDATE", none, read, read),
	table("redrives", none, none, read, "SELECT, INSERT, UPDATE"),
	table("redriven", none, none, read, read),
	table("retention", "SELECT, UPDATE", none, read, read),
	table("samples", "SELECT, INSERT, UPDATE", none, read, read),
	table("schedule_requests", "SELECT, UPDATE, DELETE", none, read, read),
	table("schedule_status", read, none, read, read),
	table("schedules", "SELECT, INSERT, UPDATE", none, read, read),
	table("sleepers", "SELECT, INSERT, DELETE", none, read, read),
	table("unfinished", read, none, read, read),

	{Sequence, "event_seq", [roles]string{none, none, none, none}}, // a publishing draws from it, as the owner
	{Sequence, "ordered_seq_seq", [roles]string{none, none, none, none}},

	// What enqueues and publishes.
	function("enqueue", call, call, none, none),
	function("enqueue_job", call, call, none, none),
	function("enqueue_jobs", call, call, none, none),
	function("publish", call, call, none, none),
	function("publish_event", call, call, none, none),

	// What operators do, and handlers may.
	function("cancel", call, none, none, call),
	function("cancel_organization", call, none, none, call),
	function("pause", call, none, none, call),
	function("pause_schedule", call, none, none, call),
	function("purge_letters", none, none, none, call),
	function("redrive", none, none, none, call),
	function("redrive_ends", none, none, none, call),
	function("resume", call, none, none, call),
	function("resume_schedule", call, none, none, call),
	function("retry_event", call, none, none, call),
	function("run_now", none, none, none, call),
	function("run_schedule", call, none, none, call),
	function("skip_event", call, none, none, call),

	// The runtime's own.
	function("acceptable", call, none, none, none),
	function("archive_jobs", call, none, none, none),
	function("audited", none, none, none, none), // what changes something calls it, as the owner
	function("begin_retention", call, none, none, none),
	function("came_to_nothing", call, none, none, none),
	function("cancellations", call, none, none, none),
	function("claim", call, none, none, none),
	function("claim_event", call, none, none, none),
	function("complete", call, none, none, none),
	function("detach_leaf", call, none, none, none),
	function("drop_leaf", call, none, none, none),
	function("empty_event_leaf", call, none, none, none),
	function("empty_leaf", call, none, none, none),
	function("ensure_day", call, none, none, none),
	function("event_failed", call, none, none, none),
	function("event_projected", call, none, none, none),
	function("give_turns", call, none, none, none),
	function("heartbeat", call, none, none, none),
	function("out_of_range", none, none, none, none), // the enqueue functions call it, as the owner
	function("pass_on", call, none, none, none),
	function("pick_aggregates", call, none, none, none),
	function("purge_audit", call, none, none, none),
	function("purge_dead_events", call, none, none, none),
	function("purge_dead_letters", call, none, none, none),
	function("purge_keys", call, none, none, none),
	function("purge_lives", call, none, none, none),
	function("purge_redrives", call, none, none, none),
	function("record_cancelled", none, none, none, none),
	function("recover", call, none, none, none),
	function("rekey", call, none, none, none),
	function("rekey_events", call, none, none, none),
	function("release_leases", call, none, none, none),
	function("sample", call, none, none, none),
	function("sample_events", call, none, none, none),
	function("sample_jobs", call, none, none, none),
	function("sample_percent", call, none, none, none),
	function("sample_server", call, none, none, none),
	function("settle", call, none, none, none),
	function("survivors", call, none, none, none),
	function("take_events", call, none, none, none),
	function("take_sample", call, none, none, none),
	function("take_turns", call, none, none, none),
	function("truncate_leaf", none, none, none, none), // takes any table
	function("unclaim_event", call, none, none, none),

	// What reads, or only computes.
	function("aggregate_lock", call, none, call, call),
	function("aggregate_of", call, none, call, call),
	function("day_of", call, none, call, call),
	function("describe_misfit", call, none, call, call),
	function("error_fingerprint", call, none, call, call),
	function("error_shape", call, none, call, call),
	function("event_books", call, none, call, call),
	function("event_leaves", call, none, call, call),
	function("event_standing", call, none, call, call),
	function("fits", call, none, call, call),
	function("hidden", call, none, call, call),
	function("integers_of", call, none, call, call),
	function("is_number", call, none, call, call),
	function("is_time", call, none, call, call),
	function("job_books", call, none, call, call),
	function("job_state", call, none, none, none),
	function("kind_of", call, none, call, call),
	function("leaf", call, none, call, call),
	function("leaves", call, none, call, call),
	function("live_capabilities", call, none, call, call),
	function("masked", call, none, call, call),
	function("misfit", call, none, call, call),
	function("nearest_of", call, none, call, call),
	function("new_id", call, none, none, none),
	function("order_key", call, none, none, none),
	function("organization_of", call, none, none, none),
	function("path_step", call, none, call, call),
	function("shown", call, none, call, call),
	function("shown_keys", call, none, call, call),
	function("shown_payload", call, none, call, call),
	function("standing", call, none, call, call),
	function("state_of", call, none, none, none),
	function("unfit", call, none, call, call),
}
