package tasktest_test

import (
	"context"
	"errors"
	"io/fs"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/pawlgo/pawl/migrations"
	"github.com/pawlgo/pawl/task"
	"github.com/pawlgo/pawl/tasktest"
)

func TestEachTestHasADatabaseOfItsOwn(t *testing.T) {
	t.Parallel()
	a, b := tasktest.DB(t), tasktest.DB(t)
	put(t, task.Autocommit(a), enqueueMail, mailArgs{})
	tasktest.RequireNothingElse(t, b)
	var name string
	t.Run("test", func(t *testing.T) {
		pool := tasktest.DB(t, tasktest.Configure(func(c *pgxpool.Config) { c.MaxConns = 3 }))
		require.EqualValues(t, 3, pool.Config().MaxConns)
		require.NoError(t, pool.QueryRow(t.Context(), `SELECT current_database()`).Scan(&name))
	})
	var there bool
	require.NoError(t, a.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)`, name).Scan(&there))
	require.False(t, there, "it is dropped at the end of the test")
}

func TestMigrate(t *testing.T) {
	t.Parallel()
	key := uuid.NewString()
	calls := make(chan string, 100)
	step := func(name, key string) tasktest.Option {
		return tasktest.Migrate(key, func(ctx context.Context, pool *pgxpool.Pool) error {
			calls <- name
			_, err := pool.Exec(ctx, `CREATE TABLE `+name+` (job uuid REFERENCES pawl.dead_letters)`)
			return err
		})
	}
	t.Run("tests", func(t *testing.T) {
		for range 5 {
			t.Run("test", func(t *testing.T) {
				t.Parallel()
				pool := tasktest.DB(t, step("first", key), step("second", key+"2"))
				exec(t, pool, `INSERT INTO first DEFAULT VALUES; DROP TABLE second`)
			})
		}
	})
	require.Len(t, calls, 2, "once for all tests")
	require.Equal(t, "first", <-calls)
	require.Equal(t, "second", <-calls)

	tasktest.DB(t, step("first", key), step("third", key+"3"))
	require.Len(t, calls, 2, "anew when a key changes")

	said := failure(t, func(t testing.TB) {
		tasktest.DB(t, tasktest.Migrate(key+"broken", func(context.Context, *pgxpool.Pool) error { return errors.New("no such file") }))
	})
	require.Contains(t, said, "the migrations given to tasktest: no such file")
	said = failure(t, func(t testing.TB) { tasktest.DB(t, tasktest.Schema("public")) })
	require.Contains(t, said, "choose one for Pawl alone")
}

func TestMigrateAll(t *testing.T) {
	t.Parallel()
	text, err := migrations.SQL(0, migrations.Options{})
	require.NoError(t, err)
	apply := func(sql string) func(context.Context, *pgxpool.Pool) error {
		return func(ctx context.Context, pool *pgxpool.Pool) error {
			_, err := pool.Exec(ctx, sql)
			return err
		}
	}
	pool := tasktest.DB(t, tasktest.MigrateAll("whole "+uuid.NewString(), apply(text)))
	put(t, task.Autocommit(pool), enqueueMail, mailArgs{})
	said := failure(t, func(t testing.TB) { tasktest.DB(t, tasktest.MigrateAll("nothing "+uuid.NewString(), apply(""))) })
	require.Contains(t, said, migrations.ErrBehind.Error())
}

func TestHashFS(t *testing.T) {
	t.Parallel()
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	base := tasktest.HashFS(fstest.MapFS{"a/1.sql": file("x"), "a/2.sql": file("y")})
	require.Equal(t, base, tasktest.HashFS(fstest.MapFS{"a/2.sql": file("y"), "a/1.sql": file("x")}))
	for _, other := range []fstest.MapFS{
		{"a/1.sql": file("x")}, {"a/1.sql": file("x"), "a/2.sql": file("z")}, {"a/1.sql": file("x"), "a/3.sql": file("y")}, {},
	} {
		require.NotEqual(t, base, tasktest.HashFS(other))
	}
	require.Panics(t, func() { tasktest.HashFS(broken{}) })
}

// broken is a directory that cannot be opened.
type broken struct{}

func (broken) Open(string) (fs.File, error) { return nil, errors.New("broken") }

// It takes some tens of milliseconds on an idle machine, and a bound has to hold on
// any other.
func TestADatabaseIsCheap(t *testing.T) {
	tasktest.DB(t) // the server, and the template
	fastest := time.Hour
	for range 5 {
		began := time.Now()
		t.Run("", func(t *testing.T) {
			var one int
			require.NoError(t, tasktest.DB(t).QueryRow(t.Context(), `SELECT 1`).Scan(&one))
		})
		fastest = min(fastest, time.Since(began))
	}
	t.Logf("%v for a database, from its creation to its end", fastest)
	require.Less(t, fastest, 5*time.Second)
}
