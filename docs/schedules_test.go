package docs_test

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pawlgo/pawl/internal/cron"
	"github.com/pawlgo/pawl/internal/testdb"
)

// TestSchedules runs the page's program, and its SQL.
func TestSchedules(t *testing.T) {
	t.Parallel()
	pool := testdb.New(t)
	m := newModule(t)
	m.env = append(m.env, "DATABASE_URL="+databaseURL(t, pool.Config().ConnConfig.Database))
	var output, query string
	compared := 0
	for _, b := range blocks(t, "schedules.md") {
		switch b.lang {
		case "go":
			require.NotEmpty(t, b.file, "a block of code without the name of its file")
			m.write(b.file, b.text)
		case "sh":
			for line := range strings.Lines(b.text) {
				output = m.run(strings.TrimSpace(line))
			}
		case "text":
			require.Equal(t, b.text, output)
			compared++
		case "sql":
			query = b.text
		case "table":
			rows, err := pool.Query(t.Context(), query)
			require.NoError(t, err)
			all, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (string, error) {
				var c [5]string
				err := row.Scan(&c[0], &c[1], &c[2], &c[3], &c[4])
				return strings.Join(c[:], " | "), err
			})
			require.NoError(t, err)
			blanks := regexp.MustCompile(` +`)
			lines := strings.Split(strings.TrimSpace(blanks.ReplaceAllString(b.text, " ")), "\n")
			require.Equal(t, lines[1:], all)
			compared++
		}
	}
	require.Equal(t, 2, compared)
	for _, function := range []string{"pause_schedule", "resume_schedule", "run_schedule"} {
		var changed bool
		require.NoError(t, pool.QueryRow(t.Context(), `SELECT pawl.`+function+`('report')`).Scan(&changed))
		require.True(t, changed)
	}
}

// The table of what happens when clocks change tells the truth.
func TestClockChanges(t *testing.T) {
	t.Parallel()
	zone, err := cron.Zone("America/Los_Angeles")
	require.NoError(t, err)
	runs := func(spec, day string) (all []string) {
		s, err := cron.Parse(spec)
		require.NoError(t, err)
		begin, err := time.ParseInLocation(time.DateOnly, day, zone)
		require.NoError(t, err)
		end := begin.AddDate(0, 0, 1)
		for at := s.Next(begin.Add(-1), zone); at.Before(end); at = s.Next(at, zone) {
			all = append(all, at.Format("15:04"))
		}
		return all
	}
	march, november := "2025-03-09", "2025-11-02"
	require.Equal(t, []string{"03:00"}, runs("0 2 * * *", march))
	require.Equal(t, []string{"02:00"}, runs("0 2 * * *", november))
	require.Equal(t, []string{"03:00"}, runs("30 2 * * *", march))
	require.Equal(t, []string{"02:30"}, runs("30 2 * * *", november))
	require.Equal(t, []string{"01:30"}, runs("30 1 * * *", march))
	require.Equal(t, []string{"01:30"}, runs("30 1 * * *", november))
	require.Equal(t, []string{"01:30", "03:00", "03:30"}, runs("30 1-3 * * *", march))
	require.Equal(t, []string{"01:30", "02:30", "03:30"}, runs("30 1-3 * * *", november))
	require.Len(t, runs("0 * * * *", march), 23)
	require.Len(t, runs("0 * * * *", november), 25)
	require.Len(t, runs("*/15 1 * * *", march), 4)
	require.Len(t, runs("*/15 1 * * *", november), 8)
	require.Equal(t, []string{"03:00"}, runs("*/15 2 * * *", march))
	require.Len(t, runs("*/15 2 * * *", november), 4)
	require.Len(t, runs("*/15 1-3 * * *", march), 8)
	require.Len(t, runs("*/15 1-3 * * *", november), 16)
}
