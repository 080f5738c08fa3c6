package taskimpl

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/pawlgo/pawl/internal/dispatch"
	"github.com/pawlgo/pawl/task"
)

// Handler is what generated code hands over for an ordinary task.
type Handler[A any] = func(context.Context, *task.Job[A]) error

// TxHandler is what generated code hands over for a transactional task.
type TxHandler[A any] = func(context.Context, pgx.Tx, *task.Job[A]) error

// Row connects a kind to a handler.
func Row[A any](k *Kind[A], handle Handler[A]) dispatch.Row {
	r := newRow(k)
	r.run(quiet(k.Decode, k.Redact), handle)
	return r.Row
}

// TxRow connects a kind to a handler that gets a transaction, which the runtime
// commits together with the end of the attempt.
func TxRow[A any](k *Kind[A], handle TxHandler[A]) dispatch.Row {
	r := newRow(k)
	r.runTx(quiet(k.Decode, k.Redact), handle)
	return r.Row
}

// Alias is an old kind whose stored jobs a newer one takes over.
type Alias struct {
	Kind     string
	Versions []AliasVersion
}

// AliasVersion is one payload version of an old kind.
type AliasVersion struct {
	Version int
	ID      uint64 // the capability
	As      int    // the version of the newer kind that it is decoded as
}

// AliasRow connects an old kind to the handler of the newer one. The handler
// sees such a job under the kind and the version that are stored.
func AliasRow[A any](a Alias, k *Kind[A], handle Handler[A]) dispatch.Row {
	r, decode := newAliasRow(a, k)
	r.run(decode, handle)
	return r.Row
}

// TxAliasRow is [AliasRow] for a handler that gets a transaction.
func TxAliasRow[A any](a Alias, k *Kind[A], handle TxHandler[A]) dispatch.Row {
	r, decode := newAliasRow(a, k)
	r.runTx(decode, handle)
	return r.Row
}

// row is a row in the making.
type row[A any] struct{ dispatch.Row }

func newRow[A any](k *Kind[A]) row[A] {
	return row[A]{dispatch.Row{
		Kind: k.Name, Queue: k.Queue, Policy: k.Policy, Versions: versionsOf(k.Capabilities), Current: k.Version, Ordered: k.Order != nil, Isolation: k.Isolation,
		Schedule:   k.schedule(),
		Redactions: []dispatch.Redaction{redaction(k.Version, k.Redact)},
		Registration: &dispatch.Registration{
			Priority: int16(k.Priority), Keyed: k.Key != nil, Keep: k.Keep,
			OrganizationField: k.OrganizationField, Order: k.Order, Shape: k.Shape,
		},
	}}
}

func versionsOf(capabilities []Capability) []dispatch.Version {
	versions := make([]dispatch.Version, len(capabilities))
	for i, c := range capabilities {
		versions[i] = dispatch.Version{Number: c.Version, Capability: int64(c.ID)}
	}
	return versions
}

func newAliasRow[A any](a Alias, k *Kind[A]) (row[A], decoder[A]) {
	versions, decode := aliasOf[A](a, k.Decode)
	return row[A]{dispatch.Row{
		Kind: a.Kind, Queue: k.Queue, Policy: k.Policy, Versions: versions, Ordered: k.Order != nil, Isolation: k.Isolation,
		Redactions: a.redactions(k.Version, k.Redact),
	}}, quiet(decode, k.Redact)
}

// aliasOf returns the versions of an old name, and how their payloads are
// decoded.
func aliasOf[A any](a Alias, decode decoder[A]) ([]dispatch.Version, decoder[A]) {
	versions := make([]dispatch.Version, len(a.Versions))
	as := make(map[int]int, len(a.Versions))
	for i, v := range a.Versions {
		versions[i] = dispatch.Version{Number: v.Version, Capability: int64(v.ID)}
		as[v.Version] = v.As
	}
	return versions, func(version int, raw []byte) (A, error) {
		number, ok := as[version]
		if !ok {
			var none A
			return none, UnknownVersion(a.Kind, version)
		}
		return decode(number, raw)
	}
}

type decoder[A any] func(version int, raw []byte) (A, error)

// safely decodes. Unmarshalers and upgraders are the application's, and what
// they cannot take today they cannot take tomorrow.
func (decode decoder[A]) safely(version int, raw []byte) (args A, err error) {
	defer recovered(&err)
	return decode(version, raw)
}

// job is the delivery as the handler sees it.
func (decode decoder[A]) job(d *dispatch.Delivery) (*task.Job[A], error) {
	args, err := decode.safely(d.Version, d.Args)
	if err != nil {
		return nil, undecodable(d.Kind, d.Version, err)
	}
	return &task.Job[A]{
		ID: d.ID, Kind: d.Kind, Queue: d.Queue, OrganizationID: d.OrganizationID,
		Version: d.Version, Attempt: d.Attempt, MaxAttempts: d.MaxAttempts,
		EnqueuedAt: d.EnqueuedAt, RunAt: d.RunAt, Args: args,
	}, nil
}

func (r *row[A]) decodes(decode decoder[A]) {
	r.Decode = func(version int, raw []byte) error {
		_, err := decode.safely(version, raw)
		return err
	}
}

func (r *row[A]) run(decode decoder[A], handle Handler[A]) {
	r.decodes(decode)
	r.Run = func(ctx context.Context, d *dispatch.Delivery) error {
		job, err := decode.job(d)
		if err != nil {
			return err
		}
		return handle(ctx, job)
	}
}

func (r *row[A]) runTx(decode decoder[A], handle TxHandler[A]) {
	r.decodes(decode)
	r.RunTx = func(ctx context.Context, tx pgx.Tx, d *dispatch.Delivery) error {
		job, err := decode.job(d)
		if err != nil {
			return err
		}
		return handle(ctx, tx, job)
	}
}

// Table makes a table of rows.
func Table(rows ...dispatch.Row) task.Table { return dispatch.NewTable(rows...) }
