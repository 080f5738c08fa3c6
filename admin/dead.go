package admin

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/pawlgo/pawl/internal/store"
)

// DeadFilter says which dead letters are meant; what is empty is not asked for.
// IDs, a fingerprint, a code and times have an index; the rest is looked for among
// what those leave.
type DeadFilter struct {
	// All says that everything is meant. A call that changes things wants either
	// that or something else of the filter.
	All bool `json:"all,omitempty"`

	IDs   []uuid.UUID `json:"ids,omitempty"`
	Kind  string      `json:"kind,omitempty"`
	Queue string      `json:"queue,omitempty"`
	// ErrorCode is the stable code of the error, such as permanent or timeout.
	ErrorCode string `json:"error_code,omitempty"`
	// Fingerprint is that of a [DeadGroup].
	Fingerprint string `json:"fingerprint,omitempty"`
	// Message is a part of the error's summary, whatever the case of its letters,
	// such as "410 Gone".
	Message        string `json:"message,omitempty"`
	OrganizationID string `json:"organization_id,omitempty"`
	// Since and Until bound when they died: from the one, and before the other.
	Since time.Time   `json:"since,omitzero"`
	Until time.Time   `json:"until,omitzero"`
	Args  []ArgFilter `json:"args,omitempty"`
}

// String is the filter as JSON.
func (f DeadFilter) String() string {
	text, err := json.Marshal(f)
	if err != nil {
		return fmt.Sprintf("%+v", struct{ DeadFilter }{f})
	}
	return string(text)
}

// DiedBefore narrows the filter to letters that died before a time, such as
// [DeadTouched.At]: what is added to them later is none of them.
func (f DeadFilter) DiedBefore(at time.Time) DeadFilter {
	if f.Until.IsZero() || f.Until.After(at) {
		f.Until = at
	}
	f.All = false // Until says something
	return f
}

func (f DeadFilter) empty() bool {
	return len(f.IDs) == 0 && len(f.Args) == 0 && f.Since.IsZero() && f.Until.IsZero() &&
		f.Kind+f.Queue+f.ErrorCode+f.Fingerprint+f.Message+f.OrganizationID == ""
}

// letters is the filter as the store has it.
func (f DeadFilter) letters() (*store.LetterFilter, error) {
	args, err := checkArgs(f.Args)
	if err != nil {
		return nil, err
	}
	if f.All && !f.empty() {
		return nil, fmt.Errorf("%w: all dead letters, and only some of them: leave one of the two out", ErrInvalid)
	}
	return &store.LetterFilter{
		IDs: f.IDs, Kind: f.Kind, Queue: f.Queue, Code: f.ErrorCode, Fingerprint: f.Fingerprint, Message: f.Message,
		Organization: f.OrganizationID, Since: f.Since, Until: f.Until, Args: args,
	}, nil
}

// target is the filter of a change.
func (f DeadFilter) target() (*store.LetterFilter, error) {
	if f.empty() && !f.All {
		return nil, fmt.Errorf("%w: say which dead letters are meant, or that all of them are", ErrNoFilter)
	}
	return f.letters()
}

// redacted is the filter as it may be written down: without values of fields that
// are not to be shown.
func (f DeadFilter) redacted(ctx context.Context, r *store.Reading) (DeadFilter, error) {
	if len(f.Args) == 0 {
		return f, nil
	}
	paths := make([][]string, len(f.Args))
	for i, a := range f.Args {
		paths[i] = a.Path
	}
	hidden, err := r.Hidden(ctx, f.Kind, paths)
	if err != nil {
		return f, err
	}
	f.Args = slices.Clone(f.Args)
	for i := range f.Args {
		if hidden[i] {
			f.Args[i].Value, f.Args[i].Redacted = json.RawMessage(`"[redacted]"`), true
		}
	}
	return f, nil
}

// complete puts values that are given again in their places in a filter that was
// written down. The error is [ErrRedacted] where one is missing, and [ErrInvalid]
// for one that has no place.
func (f DeadFilter) complete(given []ArgFilter) (DeadFilter, error) {
	f.Args, given = slices.Clone(f.Args), slices.Clone(given)
	for i, a := range f.Args {
		if !a.Redacted {
			continue
		}
		at := slices.IndexFunc(given, func(g ArgFilter) bool { return slices.Equal(g.Path, a.Path) })
		if at < 0 {
			return f, a.check()
		}
		f.Args[i] = given[at]
		given = slices.Delete(given, at, at+1)
	}
	if len(given) > 0 {
		return f, fmt.Errorf("%w: %s is not among the values that are to be given again", ErrInvalid, strings.Join(given[0].Path, "."))
	}
	return f, nil
}

// DeadGroup is the dead letters of one sort of error: of one code, and of a
// summary that is the same but for numbers, hexadecimal words, UUIDs and quoted
// texts.
type DeadGroup struct {
	Fingerprint string `json:"fingerprint"`
	Count       Count  `json:"count"`
	ErrorCode   string `json:"error_code"`
	// Shape is the summary with # for what differs.
	Shape string `json:"shape"`
	// Kind and NewestID are of the newest.
	Kind     string    `json:"kind"`
	NewestID uuid.UUID `json:"newest_id"`
	Newest   time.Time `json:"newest"`
	Oldest   time.Time `json:"oldest"`
}

// DeadGroups is a page of groups, the largest first.
type DeadGroups struct {
	Groups []DeadGroup `json:"groups"`
	// Next is the cursor of the next page, empty where there is none. Pages are in
	// the order of fingerprints, and each by itself in that of counts.
	Next string `json:"next,omitempty"`
}

// groupStep is how many groups are counted at a time.
const groupStep = 10

// DeadGroups returns the dead letters by their errors. The budget of the page is
// not used: a group is found by one step along an index, and counted up to 10,000.
func (c *Client) DeadGroups(ctx context.Context, page Page) (*DeadGroups, error) {
	page, err := page.normal()
	if err != nil {
		return nil, err
	}
	place, err := decodeCursor(page.Cursor)
	if err != nil {
		return nil, err
	}
	after := ""
	if place != nil {
		if after = place.Text; place.Source != "groups" {
			return nil, fmt.Errorf("group dead letters: %w", ErrCursor)
		}
	}
	list := &DeadGroups{Groups: []DeadGroup{}}
	end := time.Now().Add(page.Within)
	err = c.read(ctx, "group dead letters", func(r *store.Reading) error {
		for {
			want := min(groupStep, page.Limit-len(list.Groups))
			rows, err := r.LetterGroups(ctx, after, want, store.CountBound)
			if err != nil {
				return err
			}
			for _, g := range rows {
				after = g.Fingerprint
				list.Groups = append(list.Groups, DeadGroup{
					Fingerprint: g.Fingerprint, Count: Count(g.Count), ErrorCode: g.Code, Shape: g.Shape, Kind: g.Kind, NewestID: g.NewestID,
					Newest: g.Newest.UTC(), Oldest: g.Oldest.UTC(),
				})
			}
			if len(rows) < want {
				return nil
			}
			if len(list.Groups) >= page.Limit || time.Now().After(end) {
				list.Next = encodeCursor(store.Place{Source: "groups", Text: after})
				return nil
			}
		}
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(list.Groups, func(a, b DeadGroup) int {
		return cmp.Or(cmp.Compare(b.Count.N, a.Count.N), cmp.Compare(a.Fingerprint, b.Fingerprint))
	})
	return list, nil
}

// Dead lists the dead letters of a filter, the newest first, a page at a time.
func (c *Client) Dead(ctx context.Context, f DeadFilter, page Page) (*JobList, error) {
	page, err := page.normal()
	if err != nil {
		return nil, err
	}
	filter, err := f.letters()
	if err != nil {
		return nil, err
	}
	list := &JobList{Jobs: []Job{}}
	err = c.read(ctx, "list dead letters", func(r *store.Reading) error {
		found, listed, err := look(page, func(scan store.Scan) (*store.Scanned, error) { return r.ScanLetters(ctx, filter, true, scan) })
		if err != nil {
			return err
		}
		list.Listed = listed
		rows, err := r.Jobs(ctx, found, argsInList, store.SearchNot)
		for i := range rows {
			list.Jobs = append(list.Jobs, jobOf(&rows[i]))
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}

// DeadTouched is what a change would touch, by kind and error.
type DeadTouched struct {
	Sorts []DeadSort `json:"sorts"`
	// Letters is how many there are: of those that were looked at, where Whole is
	// not set. Then there are more than were looked at.
	Letters int  `json:"letters"`
	Whole   bool `json:"whole"`
	Looked  int  `json:"looked"`
	// At is when they were looked at, by the database's clock. To change no letters
	// but these, use the filter with [DeadFilter.DiedBefore] it.
	At time.Time `json:"at"`
}

// DeadSort is how many of some letters are of one kind, queue and error.
type DeadSort struct {
	Letters     int    `json:"letters"`
	Kind        string `json:"kind"`
	Queue       string `json:"queue"`
	ErrorCode   string `json:"error_code"`
	Fingerprint string `json:"fingerprint"`
	Shape       string `json:"shape"`
}

// TouchDead says what a redrive or a purge of a filter would touch, and changes
// nothing. It looks at the budget of the page, whose limit and cursor are not used.
// Letters that are added afterwards are in the filter too, unless that is bounded by
// the [DeadTouched.At] of the answer.
func (c *Client) TouchDead(ctx context.Context, f DeadFilter, page Page) (*DeadTouched, error) {
	page, err := page.normal()
	if err != nil {
		return nil, err
	}
	filter, err := f.target()
	if err != nil {
		return nil, err
	}
	page.Cursor, page.Limit = "", page.Budget
	touched := &DeadTouched{Sorts: []DeadSort{}}
	err = c.read(ctx, "look at dead letters", func(r *store.Reading) error {
		now, err := r.Now(ctx)
		if err != nil {
			return err
		}
		touched.At = now.UTC()
		if filter.Until.IsZero() || filter.Until.After(now) {
			filter.Until = now
		}
		found, listed, err := look(page, func(scan store.Scan) (*store.Scanned, error) { return r.ScanLetters(ctx, filter, false, scan) })
		if err != nil {
			return err
		}
		touched.Letters, touched.Looked, touched.Whole = len(found), listed.Looked, listed.Next == ""
		rows, err := r.SortLetters(ctx, idsOf(found))
		for _, s := range rows {
			touched.Sorts = append(touched.Sorts, DeadSort{Letters: s.Letters, Kind: s.Kind, Queue: s.Queue, ErrorCode: s.Code, Fingerprint: s.Fingerprint, Shape: s.Shape})
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return touched, nil
}

// Batches of changes: what is done in one transaction.
const (
	changeRows  = 2_000 // looked at
	changeLimit = 200   // changed
)

// PurgeDead removes the dead letters of a filter for good, those that are there as
// it begins, and returns how many. It goes in steps with a commit and an entry in
// the audit each: after an error, removed says how far it got, and another call
// goes on. Progress, where it is not nil, is called after each.
func (c *Client) PurgeDead(ctx context.Context, f DeadFilter, reason string, progress func(removed int)) (removed int, err error) {
	filter, err := f.target()
	if err != nil {
		return 0, err
	}
	var (
		now  time.Time
		note = c.note(reason)
	)
	if err := c.read(ctx, "purge dead letters", func(r *store.Reading) error {
		shown, err := f.redacted(ctx, r)
		if err != nil {
			return err
		}
		if note.Filter, err = json.Marshal(shown); err != nil {
			return err
		}
		now, err = r.Now(ctx)
		return err
	}); err != nil {
		return 0, err
	}
	if filter.Until.IsZero() || filter.Until.After(now) {
		filter.Until = now
	}
	scan := store.Scan{Rows: changeRows, Limit: changeLimit}
	for {
		var step int
		next := scan
		err := c.store.Change(ctx, note, func(tx pgx.Tx) error {
			n, found, err := c.store.Purge(ctx, tx, filter, scan)
			if err == nil {
				step, next.After = n, found.Next
			}
			return err
		})
		if err != nil {
			return removed, wrap("purge dead letters", err)
		}
		scan = next
		removed += step
		if progress != nil {
			progress(removed)
		}
		if scan.After == nil {
			return removed, nil
		}
	}
}
