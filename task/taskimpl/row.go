package taskimpl

import (
	"context"

	"github.com/pawlgo/pawl/internal/dispatch"
	"github.com/pawlgo/pawl/task"
)

// Row connects a kind to a handler.
func Row[A any](k *Kind[A], handle func(context.Context, *task.Job[A]) error) dispatch.Row {
	versions := make([]dispatch.Version, len(k.Capabilities))
	for i, c := range k.Capabilities {
		versions[i] = dispatch.Version{Number: c.Version, Capability: int64(c.ID)}
	}
	r := row(k, k.Decode, handle)
	r.Kind, r.Versions, r.Current = k.Name, versions, k.Version
	return r
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
func AliasRow[A any](a Alias, k *Kind[A], handle func(context.Context, *task.Job[A]) error) dispatch.Row {
	versions := make([]dispatch.Version, len(a.Versions))
	as := make(map[int]int, len(a.Versions))
	for i, v := range a.Versions {
		versions[i] = dispatch.Version{Number: v.Version, Capability: int64(v.ID)}
		as[v.Version] = v.As
	}
	r := row(k, func(version int, raw []byte) (A, error) {
		number, ok := as[version]
		if !ok {
			var none A
			return none, UnknownVersion(a.Kind, version)
		}
		return k.Decode(number, raw)
	}, handle)
	r.Kind, r.Versions = a.Kind, versions
	return r
}

// row is a row that lacks what tells an old kind from a newer one.
func row[A any](k *Kind[A], decode func(int, []byte) (A, error), handle func(context.Context, *task.Job[A]) error) dispatch.Row {
	// Unmarshalers and upgraders are the application's, and what they cannot take
	// today they cannot take tomorrow.
	safely := func(version int, raw []byte) (args A, err error) {
		defer recovered(&err)
		return decode(version, raw)
	}
	return dispatch.Row{
		Queue: k.Queue, Policy: k.Policy,
		Decode: func(version int, raw []byte) error {
			_, err := safely(version, raw)
			return err
		},
		Run: func(ctx context.Context, d *dispatch.Delivery) error {
			args, err := safely(d.Version, d.Args)
			if err != nil {
				return &dispatch.DecodeError{Kind: d.Kind, Version: d.Version, Err: err}
			}
			return handle(ctx, &task.Job[A]{
				ID: d.ID, Kind: d.Kind, Queue: d.Queue, OrganizationID: d.OrganizationID,
				Version: d.Version, Attempt: d.Attempt, MaxAttempts: d.MaxAttempts,
				EnqueuedAt: d.EnqueuedAt, RunAt: d.RunAt, Args: args,
			})
		},
	}
}

// Table makes a table of rows.
func Table(rows ...dispatch.Row) task.Table { return dispatch.NewTable(rows...) }
