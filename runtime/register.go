package runtime

import (
	"context"
	"encoding/json"
	"time"

	"github.com/pawlgo/pawl/internal/store"
)

// registerTimeout bounds the registration of kinds, which is also never longer
// than a part of the lease: that runs already.
const registerTimeout = 5 * time.Second

// registerKinds tells the database what an enqueue by plain SQL has to know of
// the worker's kinds. Nothing else depends on it, so a failure is only logged.
func (w *Worker) registerKinds(ctx context.Context) {
	var kinds []store.Kind
	for _, q := range w.queues {
		for _, row := range q.rows {
			r := row.Registration
			if r == nil {
				continue
			}
			k := store.Kind{
				Name: row.Kind, Queue: row.Queue, Version: row.Current,
				Priority: r.Priority, MaxAttempts: row.Policy.Attempts, Keyed: r.Keyed, Keep: r.Keep,
				OrganizationField: r.OrganizationField, Order: r.Order, Shape: json.RawMessage(r.Shape),
			}
			for _, v := range row.Versions {
				if v.Number == row.Current {
					k.Capability = v.Capability
				}
			}
			kinds = append(kinds, k)
		}
	}
	if len(kinds) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, min(registerTimeout, w.config.Lease/4))
	defer cancel()
	if err := w.store.RegisterKinds(ctx, kinds); err != nil {
		w.log.Warn("cannot register the kinds for plain SQL; its callers go by what earlier workers registered, until the next start", "error", err)
	}
}
