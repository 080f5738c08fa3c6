package docs_test

import (
	"context"
	"log/slog"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/pawlgo/pawl/internal/demo"
	"github.com/pawlgo/pawl/internal/testdb"
	pawlrt "github.com/pawlgo/pawl/runtime"
	"github.com/pawlgo/pawl/task"
)

// The Go of the page, which is compared with it.
func retentionWorker(pool *pgxpool.Pool, handlers noMail) (*pawlrt.Worker, error) {
	worker, err := pawlrt.New(pool, pawlrt.Config{
		Tables: demo.Tables(handlers),
		Retention: pawlrt.Retention{
			History:         14 * 24 * time.Hour,
			DeadLetters:     90 * 24 * time.Hour,
			ArchiveFinished: true,
			Archive:         365 * 24 * time.Hour,
		},
	})
	return worker, err
}

func booksAddUp(ctx context.Context, pool *pgxpool.Pool) error {
	found, err := pawlrt.CheckInvariants(ctx, pool, pawlrt.InvariantOptions{})
	if err != nil {
		return err
	}
	return found.Err() // names what is lost, doubled, without a row, or stuck
}

// TestRetention runs the page against a database in which one job has grown old.
func TestRetention(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("retention_test.go")
	require.NoError(t, err)
	outdented := regexp.MustCompile(`(?m)^\t`).ReplaceAllString(string(source), "")
	pool := testdb.Migrated(t)
	_, err = retentionWorker(pool, noMail{})
	require.NoError(t, err)

	_, err = demo.EnqueueSendReceipt(t.Context(), task.Autocommit(pool), demo.SendReceiptArgs{OrderID: 7, To: "ada@example.com"})
	require.NoError(t, err)
	work := func(done func(pawlrt.Stats) bool) {
		ctx, stop := context.WithCancel(t.Context())
		worker, err := pawlrt.New(pool, pawlrt.Config{Tables: demo.Tables(noMail{}), Logger: slog.New(slog.NewTextHandler(t.Output(), nil)),
			Retention: pawlrt.Retention{ArchiveFinished: true, Outcomes: 30 * 24 * time.Hour, Every: 50 * time.Millisecond}})
		require.NoError(t, err)
		stopped := make(chan error, 1)
		go func() { stopped <- worker.Run(ctx) }()
		testdb.Eventually(t, 30*time.Second, "the worker", func() bool { return done(worker.Stats()) })
		stop()
		require.NoError(t, <-stopped)
	}
	work(func(s pawlrt.Stats) bool { return s.Completed == 1 })
	_, err = pool.Exec(t.Context(), `DO $$ BEGIN
		PERFORM pawl.ensure_day(pawl.day_of(now()) - 9);
		UPDATE pawl.jobs SET day = day - 9;
		UPDATE pawl.outcomes SET day = day - 9, job_day = job_day - 9;
	END $$`)
	require.NoError(t, err)
	work(func(s pawlrt.Stats) bool { return s.Retention.Archived == 1 && s.Retention.Emptied == 1 })
	require.NoError(t, booksAddUp(t.Context(), pool))

	conn, err := pool.Acquire(t.Context())
	require.NoError(t, err)
	defer conn.Release()
	all := blocks(t, "retention.md")
	ran, compared := 0, 0
	for i, b := range all {
		switch b.lang {
		case "go":
			require.Contains(t, outdented, b.text)
			compared++
		case "sql":
			results, err := conn.Conn().PgConn().Exec(t.Context(), b.text).ReadAll()
			require.NoError(t, err, b.text)
			ran++
			if i+1 < len(all) && all[i+1].lang == "text" {
				require.Equal(t, all[i+1].text, shown(t, results, nil), b.text)
				compared++
			}
		}
	}
	require.Equal(t, []int{4, 3}, []int{ran, compared})

	raw, err := os.ReadFile("retention.md")
	require.NoError(t, err)
	fields := reflect.TypeFor[pawlrt.Retention]()
	for i := range fields.NumField() {
		name := fields.Field(i).Name
		require.True(t, strings.Contains(string(raw), "`"+name+"`"), "the page says nothing of %s", name)
	}
}
