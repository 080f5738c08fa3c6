package runtime_test

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawlgo/pawl/internal/store"
	"github.com/pawlgo/pawl/internal/testdb"
	pawlrt "github.com/pawlgo/pawl/runtime"
	"github.com/pawlgo/pawl/task"
	"github.com/pawlgo/pawl/task/taskimpl"
)

// Four workers, 400 jobs, every tenth fails once, and one other always.
func TestFourHundredJobs(t *testing.T) {
	t.Parallel()
	pool := testdb.Migrated(t)
	k := kind("work", "q")
	var mu sync.Mutex
	attempts := make(map[int]int) // by job
	handle := func(_ context.Context, job *task.Job[args]) error {
		mu.Lock()
		defer mu.Unlock()
		attempts[job.Args.N]++
		switch {
		case job.Args.Mode == "flaky" && job.Attempt == 1:
			return task.Transient(errors.New("upstream timeout"))
		case job.Args.Mode == "broken":
			return task.Transient(errors.New("bad payload"))
		}
		return nil
	}
	for range 4 {
		start(t, pool, pawlrt.Config{Tables: []task.Table{table(k, handle)}, Queues: map[string]pawlrt.Queue{"q": {Concurrency: 5}}})
	}
	all := make([]args, 400)
	for i := range all {
		all[i].N = i
		switch {
		case i%10 == 0:
			all[i].Mode = "flaky"
		case i == 7:
			all[i].Mode = "broken"
		}
	}
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	receipts, err := taskimpl.EnqueueMany(t.Context(), tx, k, all, nil)
	require.NoError(t, err)
	require.Len(t, receipts, 400)
	require.NoError(t, tx.Commit(t.Context()))

	require.Equal(t, store.Audit{Completed: 399, Dead: 1}, settled(t, pool, 400))
	mu.Lock()
	defer mu.Unlock()
	total := 0
	for _, n := range attempts {
		total += n
	}
	require.Equal(t, 442, total)

	var code, summary string
	var stored json.RawMessage
	require.NoError(t, pool.QueryRow(t.Context(), `SELECT code, summary, args FROM pawl.dead_letters WHERE job_id = $1`, receipts[7].ID).Scan(&code, &summary, &stored))
	require.Equal(t, "transient", code)
	require.Equal(t, "bad payload", summary)
	require.JSONEq(t, `{"n": 7, "mode": "broken"}`, string(stored))
}
