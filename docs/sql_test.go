package docs_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/pawlgo/pawl/internal/demo"
	"github.com/pawlgo/pawl/internal/demo/trips"
	"github.com/pawlgo/pawl/internal/testdb"
	pawlrt "github.com/pawlgo/pawl/runtime"
	"github.com/pawlgo/pawl/task"
)

type noMail struct{}

func (noMail) HandleSendReceipt(context.Context, *task.Job[demo.SendReceiptArgs]) error { return nil }

type noTrips struct{}

func (noTrips) ProjectTripCompleted(context.Context, pgx.Tx, *task.Fact[trips.TripCompletedPayload]) error {
	return nil
}

// TestSQL runs the statements of the page one after the other, and compares what
// they answer where the page shows that.
func TestSQL(t *testing.T) {
	t.Parallel()
	pool := testdb.Migrated(t)
	ctx, stop := context.WithCancel(t.Context())
	worker, err := pawlrt.New(pool, pawlrt.Config{Tables: demo.Tables(noMail{}), Events: []task.EventTable{trips.Events(noTrips{})}, Logger: slog.New(slog.NewTextHandler(t.Output(), nil))})
	require.NoError(t, err)
	stopped := make(chan error, 1)
	go func() { stopped <- worker.Run(ctx) }()
	testdb.Eventually(t, 20*time.Second, "the worker to serve", func() bool { return worker.Stats().Claims > 0 })
	stop()
	require.NoError(t, <-stopped)

	conn, err := pool.Acquire(t.Context())
	require.NoError(t, err)
	defer conn.Release()
	all := blocks(t, "sql.md")
	compared := 0
	for i, b := range all {
		if b.lang != "sql" {
			continue
		}
		results, err := conn.Conn().PgConn().Exec(t.Context(), b.text).ReadAll()
		if i+1 == len(all) || all[i+1].lang != "text" {
			require.NoError(t, err, b.text)
			continue
		}
		require.Equal(t, all[i+1].text, shown(t, results, err), b.text)
		compared++
	}
	require.Equal(t, 14, compared)
	require.Contains(t, all[0].text, "//task:idempotency fields=OrderID keep=72h")
}

// shown is what the page shows of an answer: the last result, or the error.
func shown(t *testing.T, results []*pgconn.Result, err error) string {
	t.Helper()
	if refused, ok := errors.AsType[*pgconn.PgError](err); ok {
		text := "ERROR:  " + refused.Message + "\n"
		if refused.Detail != "" {
			text += "DETAIL:  " + refused.Detail + "\n"
		}
		return text + "HINT:  " + refused.Hint + "\n"
	}
	require.NoError(t, err)
	last := results[len(results)-1]
	lines := [][]string{nil}
	for _, f := range last.FieldDescriptions {
		lines[0] = append(lines[0], f.Name)
	}
	for _, row := range last.Rows {
		var line []string
		for _, value := range row {
			line = append(line, string(value))
		}
		lines = append(lines, line)
	}
	var text strings.Builder
	for _, line := range lines {
		for i, cell := range line {
			width := 0
			for _, other := range lines {
				width = max(width, len(other[i]))
			}
			line[i] = fmt.Sprintf("%-*s", width, cell)
		}
		text.WriteString(strings.TrimRight(strings.Join(line, " | "), " ") + "\n")
	}
	return text.String()
}

var codeSpan = regexp.MustCompile("`([a-z_]+)`")

// The page lists the columns of the view, the options of the function and what
// it answers.
func TestSQLListsAll(t *testing.T) {
	t.Parallel()
	pool := testdb.Migrated(t)
	raw, err := os.ReadFile("sql.md")
	require.NoError(t, err)
	// listed are the names in the first column of the table under a heading.
	listed := func(after string) (names []string) {
		_, rest, ok := strings.Cut(string(raw), after)
		require.True(t, ok, after)
		_, rest, _ = strings.Cut(rest, "|---|")
		table, _, _ := strings.Cut(rest, "\n\n")
		for row := range strings.Lines(table) {
			cells := strings.SplitN(row, "|", 3)
			if len(cells) < 3 {
				continue
			}
			for _, m := range codeSpan.FindAllStringSubmatch(cells[1], -1) {
				names = append(names, m[1])
			}
		}
		return names
	}
	values := func(query string) []string {
		rows, err := pool.Query(t.Context(), query)
		require.NoError(t, err)
		all, err := pgx.CollectRows(rows, pgx.RowTo[string])
		require.NoError(t, err)
		return all
	}
	require.Equal(t, values(`SELECT column_name FROM information_schema.columns WHERE table_schema = 'pawl' AND table_name = 'job_status' ORDER BY ordinal_position`),
		listed("## Where jobs stand"))
	parameters := func(function, mode string) []string {
		return values(`SELECT u.name FROM pg_proc p CROSS JOIN LATERAL unnest(p.proargnames, p.proargmodes) WITH ORDINALITY u(name, mode, n)
			WHERE p.oid = 'pawl.` + function + `'::regproc AND COALESCE(u.mode, 'i') = '` + mode + `' ORDER BY u.n`)
	}
	require.Equal(t, parameters("enqueue", "i")[2:], listed("The options are those of Go"))
	require.Equal(t, parameters("enqueue", "o"), listed("The answer is one row"))
	require.Equal(t, parameters("publish", "i")[3:], listed("UPDATE trips SET ended"))
}
