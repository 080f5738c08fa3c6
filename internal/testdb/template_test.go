package testdb_test

import (
	"context"
	"crypto/rand"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pawlgo/pawl/internal/testdb"
)

func fill(ctx context.Context, url string) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, "CREATE TABLE numbers AS SELECT generate_series(1, 10) AS n")
	return errors.Join(err, conn.Close(ctx))
}

func TestTemplateIsPreparedOnce(t *testing.T) {
	t.Parallel()
	key := "prepared once " + rand.Text()
	var prepared atomic.Int32
	var wg sync.WaitGroup
	for range 6 {
		wg.Go(func() {
			pool := testdb.Template(t, key, func(ctx context.Context, url string) error {
				prepared.Add(1)
				return fill(ctx, url)
			})
			var n int
			if err := pool.QueryRow(t.Context(), "SELECT count(*) FROM numbers").Scan(&n); err != nil || n != 10 {
				t.Errorf("got %d numbers: %v", n, err)
			}
			if _, err := pool.Exec(t.Context(), "DROP TABLE numbers"); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	require.EqualValues(t, 1, prepared.Load())
}
