package store_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawlgo/pawl/internal/store"
)

func TestLifeOfABatch(t *testing.T) {
	t.Parallel()
	s, pool := open(t)
	owner := register(t, s, time.Minute)
	ids := enqueue(t, pool, 5)

	jobs := claim(t, s, owner, 10)
	require.Len(t, jobs, 5)
	for i, j := range jobs {
		require.Equal(t, ids[i], j.ID, "claimed in the order of enqueue")
		require.Equal(t, i+1, j.Position)
		require.Equal(t, 1, j.Attempt)
		require.JSONEq(t, fmt.Sprintf(`{"n": %d}`, i), string(j.Args))
	}
	require.Equal(t, store.Audit{Leased: 5}, audit(t, s))

	dead := settlement(jobs[1], store.Dead)
	dead.Code, dead.Summary = "broken", "no way"
	retry := settlement(jobs[2], store.Retry)
	retry.Code, retry.Summary, retry.Delay = "transient", "later", time.Hour
	recorded, err := s.Settle(t.Context(), owner, []store.Settlement{settlement(jobs[0], store.Completed), dead, retry})
	require.NoError(t, err)
	require.Equal(t, []store.Outcome{store.Completed, store.Dead, store.Retry}, recorded)
	require.Equal(t, store.Audit{Leased: 2, Completed: 1, Dead: 1, Ready: 1}, audit(t, s))

	// The first is fenced off by now; the others end the lease.
	recorded, err = s.Settle(t.Context(), owner, []store.Settlement{
		settlement(jobs[0], store.Completed), settlement(jobs[3], store.Cancelled), settlement(jobs[4], store.GiveBack)})
	require.NoError(t, err)
	require.Equal(t, []store.Outcome{store.Refused, store.Cancelled, store.GiveBack}, recorded)
	require.Equal(t, store.Audit{Completed: 1, Dead: 1, Cancelled: 1, Ready: 2}, audit(t, s))

	again := claim(t, s, owner, 10)
	require.Len(t, again, 1, "the retry is due in an hour")
	require.Equal(t, jobs[4].ID, again[0].ID)
	require.Equal(t, 1, again[0].Attempt, "an attempt that was given back does not count")
}
