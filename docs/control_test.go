package docs_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawlgo/pawl/internal/testdb"
)

// TestControl runs the page's program, and its SQL in running text.
func TestControl(t *testing.T) {
	t.Parallel()
	pool := testdb.New(t)
	m := newModule(t)
	m.env = append(m.env, "DATABASE_URL="+databaseURL(t, pool.Config().ConnConfig.Database))
	var output string
	compared := 0
	for _, b := range blocks(t, "control.md") {
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
		}
	}
	require.Equal(t, 1, compared)

	for _, call := range []string{
		`SELECT pawl.cancel(gen_random_uuid())`, `SELECT * FROM pawl.cancel_organization('acme')`,
		`SELECT pawl.pause('books')`, `SELECT pawl.resume('books')`,
	} {
		_, err := pool.Exec(t.Context(), call)
		require.NoError(t, err)
	}
}
