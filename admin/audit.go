package admin

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/pawlgo/pawl/internal/store"
)

// AuditEntry is one change that somebody asked for.
type AuditEntry struct {
	ID      uuid.UUID `json:"id"`
	BeganAt time.Time `json:"began_at"`
	// LastAt is later than BeganAt where the change took several transactions.
	LastAt time.Time `json:"last_at"`
	By     string    `json:"by"`   // who says so; by plain SQL the role
	Role   string    `json:"role"` // of the database
	Verb   string    `json:"verb"`
	// Target is what was named, or the filter, as JSON.
	Target string `json:"target"`
	// Things is how many jobs, queues and so on were changed.
	Things int64  `json:"things"`
	Reason string `json:"reason,omitempty"`
}

// AuditList is a page of the audit.
type AuditList struct {
	Entries []AuditEntry `json:"entries"`
	Next    string       `json:"next,omitempty"`
}

// Audit returns what operators have changed, through this package or by plain SQL,
// the newest first.
func (c *Client) Audit(ctx context.Context, page Page) (*AuditList, error) {
	page, err := page.normal()
	if err != nil {
		return nil, err
	}
	place, err := decodeCursor(page.Cursor)
	if err != nil {
		return nil, err
	}
	if place == nil {
		place = &store.Place{Source: "audit"}
	}
	if place.Source != "audit" {
		return nil, fmt.Errorf("list the audit: %w", ErrCursor)
	}
	list := &AuditList{Entries: []AuditEntry{}}
	err = c.read(ctx, "list the audit", func(r *store.Reading) error {
		rows, err := r.Audits(ctx, place.At, place.ID, page.Limit)
		for _, a := range rows {
			list.Entries = append(list.Entries, AuditEntry{
				ID: a.ID, BeganAt: a.BeganAt.UTC(), LastAt: a.LastAt.UTC(), By: a.By, Role: a.Role, Verb: a.Verb, Target: string(a.Target), Things: a.Things, Reason: a.Reason,
			})
		}
		if len(rows) == page.Limit {
			last := rows[len(rows)-1]
			list.Next = encodeCursor(store.Place{Source: "audit", At: last.BeganAt, ID: last.ID})
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}
