package admin_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/pawlgo/pawl/admin"
	"github.com/pawlgo/pawl/internal/testdb"
	"github.com/pawlgo/pawl/task"
	"github.com/pawlgo/pawl/task/taskimpl"
)

// causes are those of an explanation.
func causes(t *testing.T, c *admin.Client, id uuid.UUID) (all []admin.Cause) {
	t.Helper()
	x, err := c.Why(t.Context(), id)
	require.NoError(t, err)
	for _, r := range x.Reasons {
		require.NotEmpty(t, r.Text)
		all = append(all, r.Cause)
	}
	return all
}

// becomes waits until these are the causes.
func becomes(t *testing.T, c *admin.Client, id uuid.UUID, want ...admin.Cause) {
	t.Helper()
	var got []admin.Cause
	testdb.Eventually(t, soon, "other causes", func() bool {
		got = causes(t, c, id)
		return slices.Equal(got, want)
	})
}

func TestWhy(t *testing.T) {
	t.Parallel()
	pool, c := open(t)
	k := mailed(func(k *taskimpl.Kind[args]) { k.Policy.Base, k.Policy.Max = time.Hour, time.Hour })

	unknown, err := c.Why(t.Context(), uuid.New())
	require.NoError(t, err)
	require.Equal(t, admin.CauseUnknown, unknown.Reasons[0].Cause)
	require.ErrorIs(t, unknown.Err(), task.ErrNoJob)

	id := put(t, pool, k, args{})
	require.Equal(t, []admin.Cause{admin.CauseNoWorker}, causes(t, c, id))
	future := put(t, pool, k, args{}, task.In(time.Hour))
	require.Equal(t, []admin.Cause{admin.CauseFuture, admin.CauseNoWorker}, causes(t, c, future))
	_, err = c.PauseQueue(t.Context(), "mail", "a test")
	require.NoError(t, err)
	require.Equal(t, []admin.Cause{admin.CauseFuture, admin.CausePaused, admin.CauseNoWorker}, causes(t, c, future))

	newer := mailed(func(k *taskimpl.Kind[args]) {
		k.Version = 2
		k.Capabilities = []taskimpl.Capability{{Version: 2, ID: 99}}
	})
	stranded := put(t, pool, newer, args{})
	stop := work(t, pool, k, obey)
	becomes(t, c, stranded, admin.CausePaused, admin.CauseStranded)
	_, err = c.ResumeQueue(t.Context(), "mail", "")
	require.NoError(t, err)
	require.Equal(t, []admin.Cause{admin.CauseStranded}, causes(t, c, stranded))
	becomes(t, c, id, admin.CauseFinished)

	hung := put(t, pool, k, args{Mode: "hang"})
	becomes(t, c, hung, admin.CauseLeased)
	x, err := c.Why(t.Context(), hung)
	require.NoError(t, err)
	require.True(t, x.Running())
	require.Contains(t, x.Reasons[0].Text, "worker bob has it since")
	require.False(t, x.Reasons[0].Until.IsZero())

	retried := put(t, pool, k, args{Mode: "retry"})
	becomes(t, c, retried, admin.CauseBackoff)
	dead := put(t, pool, k, args{Mode: "gone", N: 7})
	becomes(t, c, dead, admin.CauseDead)

	exec(t, pool, `UPDATE pawl.processes SET expires_at = clock_timestamp() - interval '1 hour', lease = '-1 hour'`)
	require.Equal(t, []admin.Cause{admin.CauseAbandoned}, causes(t, c, hung))
	exec(t, pool, `UPDATE pawl.processes SET expires_at = clock_timestamp() + interval '1 hour', lease = '15 seconds'`)
	state, err := c.CancelJob(t.Context(), hung, "")
	require.NoError(t, err)
	require.Equal(t, task.StateLeased, state)
	becomes(t, c, hung, admin.CauseFinished)
	stop()

	exec(t, pool, `DELETE FROM pawl.ready WHERE id = $1`, future)
	require.Equal(t, []admin.Cause{admin.CauseLost}, causes(t, c, future))
	exec(t, pool, `INSERT INTO pawl.quarantine VALUES ($1, 1, 'mail', 0, clock_timestamp(), 'a test')`, future)
	require.Equal(t, []admin.Cause{admin.CauseQuarantined}, causes(t, c, future))
}

// A snoozed or retried job waits for a time that its row does not have.
func TestWhyFindsJobsByAWalk(t *testing.T) {
	t.Parallel()
	pool, c := open(t)
	id := put(t, pool, mailed(), args{})
	exec(t, pool, `UPDATE pawl.ready SET run_at = clock_timestamp() + interval '1 day'`)
	require.Equal(t, []admin.Cause{admin.CauseFuture, admin.CauseNoWorker}, causes(t, c, id))
	exec(t, pool, `UPDATE pawl.ready SET suspect = true, attempts = 2, run_at = clock_timestamp()`)
	require.Equal(t, []admin.Cause{admin.CauseNoWorker, admin.CauseSuspect}, causes(t, c, id))
}

func TestWhyOfAnOrderKey(t *testing.T) {
	t.Parallel()
	pool, c := open(t)
	k := mailed(func(k *taskimpl.Kind[args]) { k.Order = []string{"org"} })
	first := put(t, pool, k, args{Org: "a", Mode: "hang"})
	second := put(t, pool, k, args{Org: "a"})
	third := put(t, pool, k, args{Org: "a"})
	other := put(t, pool, k, args{Org: "b"})
	work(t, pool, k, obey)
	becomes(t, c, first, admin.CauseLeased)
	x, err := c.Why(t.Context(), third)
	require.NoError(t, err)
	require.Equal(t, admin.CauseBlocked, x.Reasons[0].Cause)
	require.Equal(t, first, x.Reasons[0].Job)
	require.Contains(t, x.Reasons[0].Text, "2 in all are before it")
	becomes(t, c, other, admin.CauseFinished)
	_, err = c.CancelJob(t.Context(), first, "")
	require.NoError(t, err)
	becomes(t, c, third, admin.CauseFinished)
	reach(t, c, second, task.StateCompleted)
}

// What is due and has nothing in its way says what is before it.
func TestWhyOfABusyQueue(t *testing.T) {
	t.Parallel()
	pool, c := open(t)
	k := mailed()
	work(t, pool, k, obey)
	testdb.Eventually(t, soon, "a worker", func() bool {
		workers, err := c.Workers(t.Context())
		require.NoError(t, err)
		return len(workers) == 1
	})
	_, err := c.PauseQueue(t.Context(), "mail", "")
	require.NoError(t, err)
	urgent, low := put(t, pool, k, args{}, task.Priority(task.Urgent)), put(t, pool, k, args{}, task.Priority(task.Low))
	exec(t, pool, `DELETE FROM pawl.paused_queues`) // without a word to the worker
	x, err := c.Why(t.Context(), low)
	require.NoError(t, err)
	if x.Reasons[0].Cause == admin.CauseBusy { // else the worker was faster
		require.Contains(t, x.Reasons[0].Text, "due jobs of queue mail are claimed before it")
	}
	reach(t, c, urgent, task.StateCompleted)
	reach(t, c, low, task.StateCompleted)
}
