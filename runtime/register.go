package runtime

import (
	"context"
	"encoding/json"
	"time"

	"github.com/pawlgo/pawl/internal/dispatch"
	"github.com/pawlgo/pawl/internal/store"
)

// registerTimeout bounds a registration, which is also never longer
// than a part of the lease: that runs already.
const registerTimeout = 5 * time.Second

// registerKinds tells the database what plain SQL has to know of the worker's
// kinds, to enqueue them, and of its events, to publish them. Nothing else depends on it, so a failure is only logged.
func (w *Worker) registerKinds(ctx context.Context) {
	w.registerRedactions(ctx)
	var kinds []store.Kind
	for _, q := range w.queues {
		for _, row := range q.rows {
			r := row.Registration
			if r == nil {
				continue
			}
			k := store.Kind{
				Name: row.Kind, Queue: row.Queue, Version: row.Current,
				Capability: capabilityOf(row.Versions, row.Current),
				Priority:   r.Priority, MaxAttempts: row.Policy.Attempts, Keyed: r.Keyed, Keep: r.Keep,
				OrganizationField: r.OrganizationField, Order: r.Order, Shape: json.RawMessage(r.Shape),
			}
			kinds = append(kinds, k)
		}
	}
	if len(kinds) > 0 {
		w.register(ctx, "kinds for plain SQL", func(ctx context.Context) error { return w.store.RegisterKinds(ctx, kinds) })
	}
	if w.relay != nil {
		w.registerEvents(ctx)
	}
}

func (w *Worker) registerEvents(ctx context.Context) {
	var types []store.EventType
	for _, row := range w.relay.rows {
		r := row.Registration
		if r == nil {
			continue
		}
		types = append(types, store.EventType{
			Name: row.Event, AggregateType: r.Aggregate, Version: row.Current, Capability: capabilityOf(row.Versions, row.Current),
			OrganizationField: r.OrganizationField, Shape: json.RawMessage(r.Shape),
		})
	}
	if len(types) > 0 {
		w.register(ctx, "events for plain SQL", func(ctx context.Context) error { return w.store.RegisterEvents(ctx, types) })
	}
}

// registerRedactions tells the database what is not to be shown of payloads, before
// it knows of the kinds: what is known and has nothing to hide is shown.
func (w *Worker) registerRedactions(ctx context.Context) {
	var all []store.Redaction
	add := func(event bool, kind string, redactions []dispatch.Redaction) {
		for _, r := range redactions {
			all = append(all, store.Redaction{Event: event, Kind: kind, Version: r.Version, Paths: json.RawMessage(r.Paths)})
		}
	}
	for _, q := range w.queues {
		for _, row := range q.rows {
			add(false, row.Kind, row.Redactions)
		}
	}
	if w.relay != nil {
		for _, row := range w.relay.rows {
			add(true, row.Event, row.Redactions)
		}
	}
	if len(all) > 0 {
		w.register(ctx, "redactions", func(ctx context.Context) error { return w.store.RegisterRedactions(ctx, all) })
	}
}

// capabilityOf is the capability of one version.
func capabilityOf(versions []dispatch.Version, number int) int64 {
	for _, v := range versions {
		if v.Number == number {
			return v.Capability
		}
	}
	return 0
}

func (w *Worker) register(ctx context.Context, what string, do func(context.Context) error) {
	ctx, cancel := context.WithTimeout(ctx, min(registerTimeout, w.config.Lease/4))
	defer cancel()
	if err := do(ctx); err != nil {
		w.log.Warn("cannot register the "+what+"; until the next start the database goes by what earlier workers registered", "error", err)
	}
}
