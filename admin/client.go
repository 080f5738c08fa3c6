package admin

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlgo/pawl/internal/dispatch"
	"github.com/pawlgo/pawl/internal/store"
	"github.com/pawlgo/pawl/task"
)

// Errors of this package, for [errors.Is]. Besides, there are [task.ErrNoJob],
// [task.ErrNoSchedule], [task.ErrNoEvent] and [task.ErrNotMigrated].
var (
	// ErrInvalid says that something that was asked for has an impossible value.
	// Nothing was sent to the database.
	ErrInvalid = errors.New("that cannot be asked for")
	// ErrCursor says that a cursor is not one of this list with this filter.
	ErrCursor = errors.New("the cursor is of another list")
	// ErrNoPayloads says that the filter is about arguments, and the role of the
	// connection may not read payloads: leave them out, or ask as the owner of the
	// schema or with the rights of a worker.
	ErrNoPayloads = errors.New("the filter has arguments, and this role may not read payloads: leave them out, or connect as the owner or as a worker's role")
	// ErrNoFilter says that a call that changes many things was given a filter
	// which names nothing: set All where everything is meant.
	ErrNoFilter = errors.New("the filter is empty")
	// ErrNotDead says that a job is no dead letter, so that there is nothing to
	// retry.
	ErrNotDead = errors.New("the job is not dead")
	// ErrKeyTaken says that another job has the idempotency key of a dead one, so
	// that it cannot run again beside that.
	ErrKeyTaken = errors.New("another job has its idempotency key")
	// ErrNoWait says that a job does not wait for its time: it has ended, or a
	// worker has it.
	ErrNoWait = errors.New("the job does not wait for its time")
	// ErrStopped says that a redrive has stopped since too large a share of its
	// jobs failed.
	ErrStopped = errors.New("too many of the redriven jobs failed")
	// ErrNoRedrive says that there is no redrive of that id, or that it has ended.
	ErrNoRedrive = errors.New("there is no such redrive to go on with")
	// ErrRedacted says that a filter has a value that was not written down, since it
	// is of a field that is not to be shown: it has to be given again.
	ErrRedacted = errors.New("the value was not written down, since it is redacted")
)

// Options say whose database it is and who asks.
type Options struct {
	// Schema is where Pawl's tables are; "pawl" where empty.
	Schema string
	// By is who asks, for the audit: a person's name, or that of a program.
	// "unknown" where empty. The role of the database is written down besides.
	By string
	// Tables and Events are those of the program, where it has them, such as what the
	// generated functions of these names return. What is to be hidden of their payloads
	// is known then, also before a worker has declared it; of what nobody has declared
	// nothing is shown. Their handlers are not called.
	Tables []task.Table
	Events []task.EventTable
}

// redactions are what the program's own tables say.
func (o *Options) redactions() []store.Redaction {
	all := []store.Redaction{}
	add := func(event bool, kind string, redactions []dispatch.Redaction) {
		for _, r := range redactions {
			all = append(all, store.Redaction{Event: event, Kind: kind, Version: r.Version, Paths: json.RawMessage(r.Paths)})
		}
	}
	for _, table := range o.Tables {
		for _, row := range dispatch.Rows(table) {
			add(false, row.Kind, row.Redactions)
		}
	}
	for _, table := range o.Events {
		for _, row := range dispatch.EventRows(table) {
			add(true, row.Event, row.Redactions)
		}
	}
	return all
}

// Client asks and changes things on behalf of an operator. It is safe for
// concurrent use, and holds nothing between calls.
type Client struct {
	pool   *pgxpool.Pool
	store  *store.Operator
	schema string
	by     string
}

// New makes a client on a pool, which stays the caller's. It does not connect.
// The role needs the right to read Pawl's tables, and to change what is changed.
func New(pool *pgxpool.Pool, opts Options) *Client {
	schema := cmp.Or(opts.Schema, store.DefaultSchema)
	return &Client{pool: pool, store: store.NewOperator(pool, schema, opts.redactions()), schema: schema, by: cmp.Or(opts.By, "unknown")}
}

// Page says which part of a list is wanted, and what it may cost.
type Page struct {
	// Cursor is the Next of the page before; empty for the first one.
	Cursor string
	// Limit is how many there are on a page at most, 50 where zero, up to 1000.
	Limit int
	// Budget is how many rows are looked at for one page at most, 50,000 where
	// zero. Where no index has the filter, a page may end before it is full.
	Budget int
	// Within is for how long a page looks for more, 600 ms where zero. What it has
	// found by then is the page.
	Within time.Duration
}

// Listed is how far the page of a list has looked.
type Listed struct {
	// Looked is how many rows were looked at for the page.
	Looked int `json:"looked"`
	// Next is the cursor of the next page, empty where there is none. A page can
	// be empty and have a next one: then nothing in what was looked at fits.
	Next string `json:"next,omitempty"`
}

const (
	defaultLimit  = 50
	maxLimit      = 1000
	defaultBudget = 50_000
	defaultWithin = 600 * time.Millisecond
	// A step looks at so many rows; the first ones at fewer, since most pages are
	// full after those.
	firstStep, maxStep = 200, 5_000
)

func (p Page) normal() (Page, error) {
	switch {
	case p.Limit < 0 || p.Limit > maxLimit:
		return p, fmt.Errorf("%w: a page has 1 to %d rows, not %d", ErrInvalid, maxLimit, p.Limit)
	case p.Budget < 0:
		return p, fmt.Errorf("%w: a budget of %d rows", ErrInvalid, p.Budget)
	case p.Within < 0:
		return p, fmt.Errorf("%w: to look for %v", ErrInvalid, p.Within)
	}
	p.Limit, p.Budget, p.Within = cmp.Or(p.Limit, defaultLimit), cmp.Or(p.Budget, defaultBudget), cmp.Or(p.Within, defaultWithin)
	return p, nil
}

// look steps along a list until the page is full or has cost what it may.
func look(page Page, step func(store.Scan) (*store.Scanned, error)) (found []store.Place, listed Listed, err error) {
	place, err := decodeCursor(page.Cursor)
	if err != nil {
		return nil, listed, err
	}
	end := time.Now().Add(page.Within)
	for rows := min(max(firstStep, page.Limit), maxStep); ; rows = min(4*rows, maxStep) {
		scanned, err := step(store.Scan{After: place, Rows: min(rows, page.Budget-listed.Looked), Limit: page.Limit - len(found)})
		if err != nil {
			return nil, listed, err
		}
		found = append(found, scanned.Places...)
		listed.Looked += scanned.Looked
		if place = scanned.Next; place == nil {
			return found, listed, nil
		}
		if len(found) >= page.Limit || listed.Looked >= page.Budget || time.Now().After(end) {
			listed.Next = encodeCursor(place)
			return found, listed, nil
		}
	}
}

// idsOf are the ids of what is at some places.
func idsOf(places []store.Place) []uuid.UUID {
	ids := make([]uuid.UUID, len(places))
	for i, p := range places {
		ids[i] = p.ID
	}
	return ids
}

func encodeCursor(place any) string {
	text, err := json.Marshal(place)
	if err != nil {
		panic(err) // numbers and texts
	}
	return base64.RawURLEncoding.EncodeToString(text)
}

func decodeCursor(cursor string) (*store.Place, error) {
	if cursor == "" {
		return nil, nil
	}
	text, err := base64.RawURLEncoding.DecodeString(cursor)
	var place store.Place
	if err == nil {
		err = json.Unmarshal(text, &place)
	}
	if err != nil || place.Source == "" {
		return nil, fmt.Errorf("%w: %q was given by no list", ErrCursor, cursor)
	}
	return &place, nil
}

// Now is the time by the database's clock, which all times in the database are of.
func (c *Client) Now(ctx context.Context) (now time.Time, err error) {
	err = c.read(ctx, "ask for the time", func(r *store.Reading) error {
		now, err = r.Now(ctx)
		return err
	})
	return now.UTC(), err
}

// read runs do in a snapshot, and says in an error what failed.
func (c *Client) read(ctx context.Context, what string, do func(*store.Reading) error) error {
	return wrap(what, c.store.Read(ctx, do))
}

// change runs do in a transaction, and says in an error what failed. The functions
// of the schema that change something write the audit, there.
func (c *Client) change(ctx context.Context, what, reason string, do func(pgx.Tx) error) error {
	return wrap(what, c.store.Change(ctx, c.note(reason), do))
}

// note is what is said of a change to the audit.
func (c *Client) note(reason string) store.Note {
	return store.Note{ID: newID(), By: c.by, Reason: reason}
}

// tx binds a transaction to the client's schema.
func (c *Client) tx(tx pgx.Tx) task.Tx { return task.InSchema(tx, c.schema) }

func newID() uuid.UUID {
	id, err := uuid.NewV7()
	if err != nil {
		panic(err) // the system has no randomness
	}
	return id
}

func wrap(what string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, store.ErrPlace):
		return fmt.Errorf("%s: %w: %w", what, ErrCursor, err)
	case errors.Is(err, store.ErrNoPayloads):
		return fmt.Errorf("%s: %w", what, ErrNoPayloads)
	}
	if reason := task.ReasonOf(err); reason != nil && !errors.Is(err, reason) {
		return fmt.Errorf("%s: %w: %w", what, reason, err)
	}
	return fmt.Errorf("%s: %w", what, err)
}

// Count is how many there are.
type Count struct {
	N int64 `json:"n"`
	// Estimate says that there are more than are counted one by one, which is
	// 10,000: N is what the server's statistics say.
	Estimate bool `json:"estimate,omitempty"`
}

// String is the number, after a tilde where it is an estimate.
func (c Count) String() string {
	if c.Estimate {
		return fmt.Sprintf("~%d", c.N)
	}
	return fmt.Sprint(c.N)
}
