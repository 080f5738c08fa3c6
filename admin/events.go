package admin

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/pawlgo/pawl/internal/store"
	"github.com/pawlgo/pawl/task"
)

// EventStatus is where an event stands.
type EventStatus string

// The statuses of events. A filter can name the first five; there, pending means
// everything that is not projected yet.
const (
	EventPending   EventStatus = store.EventPending
	EventBlocked   EventStatus = store.EventBlocked // behind a dead one that holds up its aggregate
	EventDead      EventStatus = store.EventDead
	EventProjected EventStatus = store.EventProjected
	EventDiscarded EventStatus = store.EventDiscarded
	EventWaiting   EventStatus = "waiting"  // behind others of its aggregate
	EventRetrying  EventStatus = "retrying" // it failed, and is tried again
	EventStranded  EventStatus = "stranded" // no live worker can decode it
	EventLost      EventStatus = "lost"     // in no place at all, which cannot be
)

// EventStatuses returns those that an [EventFilter] can name.
func EventStatuses() []EventStatus {
	return []EventStatus{EventPending, EventBlocked, EventDead, EventProjected, EventDiscarded}
}

// Event is an event, wherever it is.
type Event struct {
	ID             uuid.UUID   `json:"id"`
	Sequence       int64       `json:"sequence"`
	Type           string      `json:"type"`
	AggregateType  string      `json:"aggregate_type"`
	AggregateID    string      `json:"aggregate_id"`
	OrganizationID string      `json:"organization_id,omitempty"`
	Version        int         `json:"version"`
	Capability     Capability  `json:"capability"`
	Status         EventStatus `json:"status"`
	// Blocks says that it holds up its aggregate: retry it, or skip it.
	Blocks      bool      `json:"blocks,omitempty"`
	OccurredAt  time.Time `json:"occurred_at"`
	PublishedAt time.Time `json:"published_at"`
	// AvailableAt is when it is tried next; zero for one that is over.
	AvailableAt  time.Time `json:"available_at,omitzero"`
	EndedAt      time.Time `json:"ended_at,omitzero"`
	EndedBy      string    `json:"ended_by,omitempty"` // the worker
	Attempts     int       `json:"attempts"`
	ErrorCode    string    `json:"error_code,omitempty"`
	ErrorSummary string    `json:"error_summary,omitempty"`
	// Payload is what was published; in a list it is cut.
	Payload     string `json:"payload"`
	PayloadSize int    `json:"payload_size"`
}

// EventFilter says which events are meant; what is empty is not asked for. Events
// are looked for where those of the status are, and from the newest to the oldest
// without one. Types and organizations have no index.
type EventFilter struct {
	Type           string
	AggregateType  string
	AggregateID    string
	OrganizationID string
	Status         EventStatus // one of [EventStatuses]
}

// EventList is a page of events.
type EventList struct {
	Events []Event `json:"events"`
	Listed
}

// Events lists the events of a filter, a page at a time, as [Client.Jobs] does
// jobs.
func (c *Client) Events(ctx context.Context, f EventFilter, page Page) (*EventList, error) {
	page, err := page.normal()
	if err != nil {
		return nil, err
	}
	if f.Status != "" && !slices.Contains(EventStatuses(), f.Status) {
		return nil, fmt.Errorf("%w: there is no status %q; there are %v", ErrInvalid, f.Status, EventStatuses())
	}
	filter := &store.EventFilter{Type: f.Type, AggregateType: f.AggregateType, AggregateID: f.AggregateID, Organization: f.OrganizationID, Status: string(f.Status)}
	list := &EventList{Events: []Event{}}
	err = c.read(ctx, "list events", func(r *store.Reading) error {
		found, listed, err := look(page, func(scan store.Scan) (*store.Scanned, error) { return r.ScanEvents(ctx, filter, scan) })
		if err != nil {
			return err
		}
		list.Listed = listed
		rows, err := r.Events(ctx, idsOf(found), argsInList)
		for i := range rows {
			list.Events = append(list.Events, eventOf(&rows[i]))
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}

func eventOf(r *store.EventRow) Event {
	return Event{
		ID: r.ID, Sequence: r.Seq, Type: r.Type, AggregateType: r.AggregateType, AggregateID: r.AggregateID, OrganizationID: r.OrganizationID,
		Version: r.Version, Capability: Capability(r.Capability), Status: EventStatus(r.Status), Blocks: r.Blocks,
		OccurredAt: r.OccurredAt.UTC(), PublishedAt: r.PublishedAt.UTC(), AvailableAt: at(r.AvailableAt), EndedAt: at(r.EndedAt), EndedBy: r.EndedBy,
		Attempts: r.Attempts, ErrorCode: r.ErrorCode, ErrorSummary: r.ErrorSummary, Payload: r.Payload, PayloadSize: r.PayloadSize,
	}
}

// EventDetail is all that is known of one event.
type EventDetail struct {
	Event
	Errors []Attempt `json:"errors"` // the latest fifty attempts that failed, oldest first
}

// Event returns all that is known of an event. The error is [task.ErrNoEvent]
// where there is no trace of it.
func (c *Client) Event(ctx context.Context, id uuid.UUID) (*EventDetail, error) {
	var detail *EventDetail
	err := c.read(ctx, fmt.Sprintf("show event %s", id), func(r *store.Reading) error {
		rows, err := r.Events(ctx, []uuid.UUID{id}, wholePayload)
		if err != nil {
			return err
		}
		if len(rows) == 0 {
			return task.ErrNoEvent
		}
		failed, err := r.EventErrors(ctx, id)
		detail = &EventDetail{Event: eventOf(&rows[0]), Errors: attemptsOf(failed)}
		return err
	})
	if err != nil {
		return nil, err
	}
	return detail, nil
}

// RetryEvent makes a dead event pending again as [task.RetryEvent] does.
func (c *Client) RetryEvent(ctx context.Context, id uuid.UUID, reason string) error {
	return c.change(ctx, "retry event", reason, func(tx pgx.Tx) error {
		return task.RetryEvent(ctx, c.tx(tx), id)
	})
}

// SkipEvent lets the aggregate that a dead event holds up go on without it, as
// [task.SkipEvent] does.
func (c *Client) SkipEvent(ctx context.Context, id uuid.UUID, reason string) error {
	return c.change(ctx, "skip event", reason, func(tx pgx.Tx) error {
		return task.SkipEvent(ctx, c.tx(tx), id)
	})
}
