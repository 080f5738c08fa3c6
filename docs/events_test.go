package docs_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawlgo/pawl/internal/testdb"
)

// TestEvents runs the page's program, and then its SQL.
func TestEvents(t *testing.T) {
	t.Parallel()
	pool := testdb.New(t)
	m := newModule(t)
	m.env = append(m.env, "DATABASE_URL="+databaseURL(t, pool.Config().ConnConfig.Database))
	var output string
	compared, queries := 0, 0
	for _, b := range blocks(t, "events.md") {
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
			for query := range strings.SplitSeq(strings.TrimSpace(b.text), ";") {
				if query = strings.TrimSpace(query); query == "" {
					continue
				}
				_, err := pool.Exec(t.Context(), query)
				require.NoError(t, err)
				queries++
			}
		}
	}
	require.Equal(t, 1, compared)
	require.Equal(t, 4, queries)
}
