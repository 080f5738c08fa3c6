package tasktest

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pawlgo/pawl/internal/gen/diff"
	"github.com/pawlgo/pawl/internal/store"
	"github.com/pawlgo/pawl/task"
)

const (
	maxListed = 20  // jobs in a message
	maxShown  = 200 // bytes of a payload in a list
)

// expectation is the job that an enqueue would have stored.
type expectation struct {
	*store.Batch
	args string // as the database writes them
}

func (e *expectation) fits(row *store.Inspected) bool {
	return row.Kind == e.Kind && row.SameArgs && slices.Equal(e.card(row), card(row, e))
}

// card is the expectation in lines that are equal to those of the row's if it
// fits, the arguments apart.
func (e *expectation) card(row *store.Inspected) []string {
	job := &e.Jobs[0]
	due := "due at once"
	switch {
	case e.RunAt != nil:
		// The database keeps microseconds, and nothing is due before its enqueue.
		if at := e.RunAt.Truncate(time.Microsecond); row == nil || at.After(row.EnqueuedAt) {
			due = dueAt(at)
		}
	case e.Delay.Microseconds() > 0:
		due = dueAfter(e.Delay.Truncate(time.Microsecond))
	}
	keep := e.Keep
	if row != nil && row.Keep() == 0 {
		keep = 0 // another job has got the key since, and nobody knows any more
	}
	return facts(e.Queue, e.Version, due, e.Priority, e.MaxAttempts, job.OrganizationID, job.Key, keep)
}

// card describes a job, with its due time in the terms of the expectation.
func card(row *store.Inspected, e *expectation) []string {
	due := "due at once"
	if row.RunAt.After(row.EnqueuedAt) {
		due = dueAfter(row.RunAt.Sub(row.EnqueuedAt))
		if e != nil && e.RunAt != nil {
			due = dueAt(row.RunAt)
		}
	}
	return facts(row.Queue, row.Version, due, row.Priority, row.MaxAttempts, row.OrganizationID, row.Key, row.Keep())
}

func dueAt(at time.Time) string { return "due at " + at.UTC().Format(time.RFC3339Nano) }

func dueAfter(d time.Duration) string { return "due in " + d.String() }

func facts(queue string, version int, due string, priority int16, attempts int, organization string, key []byte, keep time.Duration) []string {
	all := []string{"queue " + queue, fmt.Sprintf("payload version %d", version), due, "priority " + priorityName(priority), fmt.Sprintf("%d attempts", attempts)}
	if organization != "" {
		all = append(all, fmt.Sprintf("organization %q", organization))
	}
	switch {
	case key == nil:
		return append(all, "no idempotency key")
	case keep == 0:
		return append(all, "idempotency key "+hex.EncodeToString(key[:min(len(key), 6)]))
	}
	return append(all, fmt.Sprintf("idempotency key %s, held for %v", hex.EncodeToString(key[:min(len(key), 6)]), keep))
}

func priorityName(p int16) string {
	switch task.PriorityLevel(p) {
	case task.Low:
		return "low"
	case task.Normal:
		return "normal"
	case task.High:
		return "high"
	case task.Urgent:
		return "urgent"
	}
	return fmt.Sprint(p)
}

// missing says that no job fits, and why.
func (e *expectation) missing(t testing.TB, v *view) string {
	t.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, "no such job of %s ", e.Kind)
	if v.own {
		b.WriteString("was enqueued in this transaction\n")
	} else {
		b.WriteString("was enqueued\n")
	}

	closest, size := "", 0
	for _, row := range v.rows {
		if row.Kind != e.Kind {
			continue
		}
		want, got := page(e.card(&row), e.args), page(card(&row, e), string(row.Args))
		text, _ := diff.Unified("expected", "job "+row.ID.String(), want, got)
		if n := changes(text); closest == "" || n < size {
			closest, size = text, n
		}
	}
	if closest != "" {
		b.WriteString(closest)
	} else {
		b.WriteString("expected:\n" + indent(page(e.card(nil), e.args)))
	}

	if job := &e.Jobs[0]; job.Key != nil {
		id, state, err := store.KeyHolder(t.Context(), v.db, v.schema, e.Kind, job.OrganizationID, job.Key)
		listed := slices.ContainsFunc(v.rows, func(row store.Inspected) bool { return row.ID == id })
		switch {
		case err != nil:
			fmt.Fprintf(&b, "who holds its idempotency key cannot be read: %v\n", err)
		case id != uuid.Nil && !listed:
			fmt.Fprintf(&b, "its idempotency key is held by job %s (%s), so such an enqueue is a duplicate and stores nothing\n", id, state)
		}
	}
	b.WriteString(list(v.rows))
	return b.String()
}

// page is a job in full.
func page(card []string, args string) string {
	return strings.Join(card, "\n") + "\n" + pretty(args) + "\n"
}

// changes counts the lines that differ.
func changes(text string) (n int) {
	for line := range strings.Lines(text) {
		if line[0] == '+' || line[0] == '-' {
			n++
		}
	}
	return n
}

// list has a line a job.
func list(rows []store.Inspected) string {
	if len(rows) == 0 {
		return "nothing was enqueued"
	}
	rows = slices.SortedStableFunc(slices.Values(rows), func(a, b store.Inspected) int { return a.EnqueuedAt.Compare(b.EnqueuedAt) })
	var b strings.Builder
	fmt.Fprintf(&b, "%s:", count(len(rows), "job"))
	for _, row := range rows[:min(len(rows), maxListed)] {
		due := card(&row, nil)[2]
		fmt.Fprintf(&b, "\n\t%s %s on %s, %s, %s, %s", row.ID, row.Kind, row.Queue, due, row.State, brief(row.Args))
	}
	if n := len(rows) - maxListed; n > 0 {
		fmt.Fprintf(&b, "\n\tand %d more", n)
	}
	return b.String()
}

func brief(args json.RawMessage) string {
	text := string(args)
	if len(text) > maxShown {
		text = strings.ToValidUTF8(text[:maxShown], "") + " …"
	}
	return text
}

// pretty spells a JSON value with sorted members, a line each.
func pretty(args string) string {
	decoder := json.NewDecoder(strings.NewReader(args))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return args
	}
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(value); err != nil {
		return args
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func indent(text string) string {
	return "\t" + strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "\n", "\n\t") + "\n"
}

func count(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}

// explain says of the usual mistakes what to do.
func explain(err error) error {
	if pgErr, ok := errors.AsType[*pgconn.PgError](err); ok {
		switch pgErr.Code {
		case "25P02":
			return fmt.Errorf("an earlier statement of the transaction has failed: %w", err)
		case "3F000", "42P01", "42883":
			return fmt.Errorf("Pawl's tables are not there; use tasktest.DB, and task.InSchema for a schema of another name: %w", err)
		}
	}
	return err
}
