package taskimpl

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/pawlgo/pawl/internal/enqueue"
	"github.com/pawlgo/pawl/internal/measure"
	"github.com/pawlgo/pawl/internal/store"
	"github.com/pawlgo/pawl/internal/tracing"
	"github.com/pawlgo/pawl/task"
)

const (
	// maxArgs is the limit of one encoded payload in bytes.
	maxArgs = 64 << 20
	// maxCall is the limit of all jobs of one call in bytes, since a message to
	// PostgreSQL ends at 1 GiB.
	maxCall = 512 << 20
	// maxOrganization is the limit of an organization in bytes, so that it fits
	// into an index beside a kind and a key.
	maxOrganization = 1000
)

// Enqueue stores one job in tx.
func Enqueue[A any](ctx context.Context, tx task.Tx, k *Kind[A], args A, opts []task.EnqueueOption) (task.Receipt, error) {
	receipts, err := EnqueueMany(ctx, tx, k, []A{args}, opts)
	if err != nil {
		return task.Receipt{}, err
	}
	return receipts[0], nil
}

// EnqueueMany stores several jobs of one kind in tx in one statement. The
// receipts are in the order of args.
func EnqueueMany[A any](ctx context.Context, tx task.Tx, k *Kind[A], args []A, opts []task.EnqueueOption) ([]task.Receipt, error) {
	if len(args) == 0 {
		return nil, nil
	}
	return enqueueMany(ctx, tx, k.declared(), len(args), func(i int) payload { return k.payload(&args[i]) }, opts)
}

// Planned is what [Enqueue] would store, of one job. It is for package tasktest,
// which compares it with what was stored.
func Planned[A any](k *Kind[A], args A, opts []task.EnqueueOption) (store.Batch, error) {
	return plan(k.declared(), 1, func(int) payload { return k.payload(&args) }, opts)
}

// declared is what an enqueue takes from a kind.
type declared struct {
	kind, queue string
	version     int
	capability  int64
	order       []string
	options     enqueue.Options // before those of the call
}

func (k *Kind[A]) declared() declared {
	return declared{
		kind: k.Name, queue: k.Queue, version: k.Version, capability: k.capability(), order: k.Order,
		options: enqueue.Options{Priority: int16(k.Priority), Attempts: k.Policy.Attempts, Keep: k.Keep},
	}
}

// plan makes the batch of n jobs, whose payloads it gets from at. Like all that
// follows it is not generic: a generic function is compiled anew for each payload.
func plan(d declared, n int, at func(int) payload, opts []task.EnqueueOption) (store.Batch, error) {
	fail := func(reason, err error) (store.Batch, error) {
		return store.Batch{}, &task.EnqueueError{Kind: d.kind, Reason: reason, Err: err}
	}
	o, err := resolve(d.options, n, opts)
	if err != nil {
		return fail(task.ErrInvalidOption, err)
	}
	batch := store.Batch{
		Kind: d.kind, Queue: d.queue, Version: d.version, Capability: d.capability,
		Priority: o.Priority, MaxAttempts: o.Attempts, Keep: o.Keep, Wake: !o.NoWake, Order: d.order,
		Jobs: make([]store.NewJob, n),
	}
	if o.HasAt {
		batch.RunAt = &o.At
	} else {
		batch.Delay = max(o.In, 0)
	}
	size := 0
	for i := range n {
		if reason, err := fill(&batch.Jobs[i], at(i), &o); err != nil {
			if n > 1 {
				err = fmt.Errorf("job %d of %d: %w", i+1, n, err)
			}
			return fail(reason, err)
		}
		if size += batch.Jobs[i].Size(); size > maxCall {
			return fail(task.ErrTooLarge, fmt.Errorf("%d of %d jobs are more than %d bytes together: enqueue fewer in one call", i+1, n, maxCall))
		}
	}
	return batch, nil
}

// enqueueMany stores n jobs.
func enqueueMany(ctx context.Context, tx task.Tx, d declared, n int, at func(int) payload, opts []task.EnqueueOption) (receipts []task.Receipt, err error) {
	if m := measure.Measuring(ctx); m != nil {
		began := time.Now()
		defer func() { m.Enqueued(ctx, d.queue, d.kind, errorClass(err), time.Since(began)) }()
	}
	batch, err := plan(d, n, at, opts)
	if err != nil {
		return nil, err
	}
	batch.Trace = tracing.Inject(ctx)
	return storeBatch(ctx, tx, &batch)
}

// errorClass is what the metric of sends calls an error, empty for none.
func errorClass(err error) string {
	switch {
	case err == nil:
		return ""
	case errors.Is(err, task.ErrInvalidArgs), errors.Is(err, task.ErrTooLarge), errors.Is(err, task.ErrInvalidOption):
		return measure.Invalid
	}
	switch class := task.Classify(err).Class; class {
	case task.ClassTransient, task.ClassTimeout, task.ClassUnknown:
		return string(class)
	}
	return measure.Other // of a transaction that is the application's own
}

// storeBatch stores what was planned.
func storeBatch(ctx context.Context, tx task.Tx, batch *store.Batch) ([]task.Receipt, error) {
	fail := func(reason, err error) ([]task.Receipt, error) {
		return nil, &task.EnqueueError{Kind: batch.Kind, Reason: reason, Err: err}
	}
	schema, err := enqueue.SchemaOf(tx)
	if err != nil {
		return fail(task.ErrInvalidOption, err)
	}
	answer, err := store.Enqueue(ctx, tx, schema, batch)
	if err != nil {
		return fail(task.ReasonOf(err), err)
	}

	state := task.StatePending
	if answer.Scheduled {
		state = task.StateScheduled
	}
	receipts := make([]task.Receipt, len(batch.Jobs))
	for i := range receipts {
		receipts[i] = task.Receipt{ID: batch.Jobs[i].ID, SameArgs: true, State: state}
	}
	for _, d := range answer.Duplicates {
		receipts[d.Position-1] = task.Receipt{ID: d.ID, Duplicate: true, SameArgs: d.SameArgs, State: task.State(d.State)}
	}
	return receipts, nil
}

// resolve applies the options over those of the kind's declaration and checks what
// they add up to.
func resolve(o enqueue.Options, jobs int, opts []task.EnqueueOption) (enqueue.Options, error) {
	for _, opt := range opts {
		if opt != nil {
			opt.ApplyEnqueue(&o)
		}
	}
	switch {
	case o.HasAt && !storableTime(o.At):
		return o, fmt.Errorf("At(%v) is not a time that can be stored: give one of the years 1 to 9999, and not the zero time", o.At)
	case o.Priority < int16(task.Low) || o.Priority > int16(task.Urgent):
		return o, fmt.Errorf("Priority(%d): use task.Low, task.Normal, task.High or task.Urgent", o.Priority)
	case o.Attempts < 1 || o.Attempts > store.MaxAttempts:
		return o, fmt.Errorf("Attempts(%d): use 1 to %d", o.Attempts, store.MaxAttempts)
	case o.HasKey && jobs > 1:
		return o, errors.New("Key names one job: enqueue the jobs one by one, or declare //task:idempotency")
	case o.HasKey && (o.Key == "" || o.Keep <= 0):
		return o, errors.New("Key wants a key that is not empty and a keep above zero")
	case o.HasKey && !storable(o.Key):
		return o, errors.New("Key is not valid UTF-8 without U+0000")
	}
	return o, nil
}

// payload is one payload and what is made of it.
type payload struct {
	args         any                    // a pointer
	organization func() (string, error) // nil where the kind declares none
	key          func() []any           // likewise
}

func (k *Kind[A]) payload(args *A) payload {
	p := payload{args: args}
	if k.Organization != nil {
		p.organization = func() (string, error) { return k.Organization(args) }
	}
	if k.Key != nil {
		p.key = func() []any { return k.Key(args) }
	}
	return p
}

// fill encodes one job. Its first error is the sentinel that the second one
// belongs to.
func fill(job *store.NewJob, p payload, o *enqueue.Options) (reason, err error) {
	if job.ID, err = uuid.NewV7(); err != nil {
		return nil, fmt.Errorf("make an id: %w", err)
	}
	if job.Args, err = encode(p.args); err != nil {
		if errors.Is(err, task.ErrTooLarge) {
			return task.ErrTooLarge, err
		}
		return task.ErrInvalidArgs, err
	}
	if p.organization != nil {
		if job.OrganizationID, err = p.organization(); err != nil {
			return task.ErrInvalidArgs, fmt.Errorf("read the organization: %w", err)
		}
		if !storable(job.OrganizationID) {
			return task.ErrInvalidArgs, errors.New("the organization is not valid UTF-8 without U+0000")
		}
		if n := len(job.OrganizationID); n > maxOrganization {
			return task.ErrInvalidArgs, fmt.Errorf("the organization has %d bytes, of at most %d: use its id", n, maxOrganization)
		}
	}
	switch {
	case o.HasKey:
		job.Key = digest("key:" + o.Key)
	case p.key != nil:
		// A JSON array keeps apart what a joined string would not: ("a:b", "c")
		// and ("a", "b:c"), 1 and "1".
		fields, err := json.Marshal(p.key())
		if err != nil {
			return task.ErrInvalidArgs, fmt.Errorf("encode the idempotency fields: %w", err)
		}
		job.Key = digest("fields:" + string(fields))
	}
	return nil, nil
}

func digest(s string) []byte {
	sum := sha256.Sum256([]byte(s))
	return sum[:]
}

func storableTime(t time.Time) bool { return !t.IsZero() && t.Year() >= 1 && t.Year() <= 9999 }

func storable(s string) bool { return utf8.ValidString(s) && !strings.Contains(s, "\x00") }
