package tasktest_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	pawlrt "github.com/pawlgo/pawl/runtime"
	"github.com/pawlgo/pawl/task"
	"github.com/pawlgo/pawl/tasktest"
)

var errBusy = errors.New("the mail server is busy")

// moody does what a payload's mode says.
func moody(_ context.Context, job *task.Job[mailArgs]) error {
	switch job.Args.Mode {
	case "fail":
		return task.Permanent(errBusy)
	case "busy":
		if job.Attempt == 1 {
			return fmt.Errorf("send: %w", task.Transient(errBusy))
		}
	case "snooze":
		if job.RunAt.Sub(job.EnqueuedAt) < time.Hour {
			return task.Snooze(2 * time.Hour)
		}
	}
	return nil
}

func noBill(context.Context, *task.Job[billArgs]) error { return nil }

func TestDrain(t *testing.T) {
	t.Parallel()
	pool := tasktest.DB(t)
	require.Empty(t, tasktest.Drain(t, pool, mailTable(moody)))
	put(t, task.Autocommit(pool), enqueueMail, mailArgs{To: "ada"})
	put(t, task.Autocommit(pool), enqueueBill, billArgs{Number: 1})
	put(t, task.Autocommit(pool), enqueueMail, mailArgs{Mode: "busy"})
	worked := tasktest.Drain(t, pool, mailTable(moody), billTable(func(ctx context.Context, _ *task.Job[billArgs]) error {
		_, err := enqueueMail(ctx, task.Autocommit(pool), mailArgs{Mode: "fail"})
		return err
	}))
	require.Len(t, worked, 4)
	require.Len(t, tasktest.Of(worked, bill{}), 1)
	require.NoError(t, tasktest.Of(worked, bill{}).Err())
	mails := tasktest.Of(worked, mail{})
	require.Len(t, mails, 3)
	err := mails.Err()
	require.ErrorIs(t, err, errBusy)
	require.Equal(t, fmt.Sprintf("mail %s, attempt 1 of 3: retried, due again in 1h0m0s: send: the mail server is busy\n"+
		"mail %s, attempt 1 of 3: dead: the mail server is busy", mails[1].ID, mails[2].ID), err.Error())
	require.Contains(t, worked.String(), "attempt 1 of 5: completed\n")
	require.Empty(t, tasktest.Drain(t, pool, mailTable(moody)), "the retry is due in an hour")
}

func TestWorkOne(t *testing.T) {
	t.Parallel()
	pool := tasktest.DB(t)
	said := failure(t, func(t testing.TB) { tasktest.WorkOne(t, pool, mailTable(moody)) })
	require.Contains(t, said, "no job is waiting: is the transaction that enqueued it committed?")
	for _, to := range []string{"a", "b"} {
		put(t, task.Autocommit(pool), enqueueMail, mailArgs{To: to})
	}
	jobs := tasktest.Enqueued(t, pool, mail{})
	for _, job := range jobs {
		done := tasktest.WorkOne(t, pool, mailTable(moody))
		require.Equal(t, job.ID, done.ID)
		require.Equal(t, pawlrt.OutcomeCompleted, done.Outcome)
		require.NoError(t, done.Err)
	}
	put(t, task.Autocommit(pool), enqueueMail, mailArgs{To: "later"}, task.In(time.Hour))
	put(t, task.Autocommit(pool), enqueueBill, billArgs{})
	said = failure(t, func(t testing.TB) { tasktest.WorkOne(t, pool, mailTable(moody)) })
	require.Contains(t, said, "use Advance for one that is later, and pass the table of its queue\nwaiting: 2 jobs:\n")
	require.Contains(t, said, "mail on post, due in 1h0m0s, scheduled")
	require.Contains(t, said, "bill on money, due at once, pending")
}

func TestDrainWithAWrongTable(t *testing.T) {
	t.Parallel()
	pool := tasktest.DB(t)
	said := failure(t, func(t testing.TB) { tasktest.Drain(t, pool, mailTable(moody), mailTable(moody)) })
	require.Contains(t, said, "kind mail stands in two tables")
	exec(t, pool, `DROP TABLE pawl.migrations`)
	said = failure(t, func(t testing.TB) { tasktest.Drain(t, pool, mailTable(moody)) })
	require.Contains(t, said, "call migrations.Up")
}

func TestAdvance(t *testing.T) {
	t.Parallel()
	pool := tasktest.DB(t)
	tables := []task.Table{mailTable(moody), billTable(noBill)}
	put(t, task.Autocommit(pool), enqueueMail, mailArgs{To: "scheduled"}, task.In(2*time.Hour))
	put(t, task.Autocommit(pool), enqueueMail, mailArgs{Mode: "busy"})
	put(t, task.Autocommit(pool), enqueueMail, mailArgs{Mode: "snooze"})
	// A turn in the order that comes when the job is due.
	put(t, task.Autocommit(pool), enqueueBill, billArgs{Number: 1, Text: "x"}, task.In(2*time.Hour))
	put(t, task.Autocommit(pool), enqueueBill, billArgs{Number: 2, Text: "x"})
	worked := tasktest.Drain(t, pool, tables...)
	require.Len(t, worked, 2, "%v", worked)

	before := tasktest.Enqueued(t, pool, mail{})
	tasktest.Advance(t, pool, time.Hour)
	after := tasktest.Enqueued(t, pool, mail{})
	require.Equal(t, before[0].RunAt.Add(-time.Hour), after[0].RunAt)
	require.Equal(t, before[0].Delay(), after[0].Delay())
	require.Equal(t, task.StateScheduled, after[0].State)
	require.Equal(t, task.StateRetrying, after[1].State)
	tasktest.RequireEnqueued(t, pool, mail{}, mailArgs{To: "scheduled"}, task.In(2*time.Hour))
	worked = tasktest.Drain(t, pool, tables...)
	require.Len(t, worked, 1, "the retry")
	require.NoError(t, worked.Err())
	require.Equal(t, 2, worked[0].Attempt)

	tasktest.Advance(t, pool, time.Hour)
	worked = tasktest.Drain(t, pool, tables...)
	require.Len(t, worked, 4, "%v", worked)
	require.NoError(t, worked.Err())
	var lost int
	require.NoError(t, pool.QueryRow(t.Context(), `SELECT count(*) FROM pawl.job_status WHERE status <> 'completed'`).Scan(&lost))
	require.Zero(t, lost)
}

func TestAdvanceExpiresKeys(t *testing.T) {
	t.Parallel()
	pool := tasktest.DB(t)
	put(t, task.Autocommit(pool), enqueueBill, billArgs{Number: 1})
	tasktest.WorkOne(t, pool, billTable(noBill))
	for _, d := range []time.Duration{47 * time.Hour, 59 * time.Minute} {
		tasktest.Advance(t, pool, d)
		require.True(t, put(t, task.Autocommit(pool), enqueueBill, billArgs{Number: 1}).Duplicate)
	}
	tasktest.Advance(t, pool, time.Minute)
	require.False(t, put(t, task.Autocommit(pool), enqueueBill, billArgs{Number: 1}).Duplicate)
	// The first job's key is another's now; what is known of it still fits.
	require.Len(t, tasktest.Enqueued(t, pool, bill{}), 2)
	require.Zero(t, tasktest.Enqueued(t, pool, bill{})[0].Keep)
}

// A job that was moved is still found where the functions of the schema look.
func TestAdvanceKeepsTheBooks(t *testing.T) {
	t.Parallel()
	pool := tasktest.DB(t)
	retried := put(t, task.Autocommit(pool), enqueueMail, mailArgs{Mode: "busy"})
	later := put(t, task.Autocommit(pool), enqueueMail, mailArgs{To: "later"}, task.In(48*time.Hour))
	require.Len(t, tasktest.Drain(t, pool, mailTable(moody)), 1)
	tasktest.Advance(t, pool, 30*time.Minute)
	for _, r := range []task.Receipt{retried, later} {
		state, err := task.Cancel(t.Context(), task.Autocommit(pool), r.ID)
		require.NoError(t, err)
		require.Equal(t, task.StateCancelled, state)
	}
	tasktest.Advance(t, pool, 72*time.Hour)
	require.Empty(t, tasktest.Drain(t, pool, mailTable(moody)))
}

// A worker that runs meanwhile finds what has become due.
func TestAdvanceWakesWorkers(t *testing.T) {
	t.Parallel()
	pool := tasktest.DB(t)
	done := make(chan struct{}, 2)
	worker, err := pawlrt.New(pool, pawlrt.Config{Poll: time.Minute, Tables: []task.Table{
		mailTable(func(context.Context, *task.Job[mailArgs]) error { done <- struct{}{}; return nil })}})
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	stopped := make(chan error, 1)
	go func() { stopped <- worker.Run(ctx) }()
	put(t, task.Autocommit(pool), enqueueMail, mailArgs{})
	put(t, task.Autocommit(pool), enqueueMail, mailArgs{}, task.In(time.Hour))
	<-done
	tasktest.Advance(t, pool, time.Hour)
	<-done
	stop()
	require.NoError(t, <-stopped)
}

func TestAdvanceIsRefused(t *testing.T) {
	t.Parallel()
	pool := tasktest.DB(t)
	require.Contains(t, failure(t, func(t testing.TB) { tasktest.Advance(t, pool, -time.Hour) }), "time goes forward")
	tx := begin(t, pool)
	require.Contains(t, failure(t, func(t testing.TB) { tasktest.Advance(t, tx, time.Hour) }), "commit it first, and pass the pool")
	exec(t, pool, `ALTER TABLE pawl.ready RENAME TO away`)
	require.Contains(t, failure(t, func(t testing.TB) { tasktest.Advance(t, pool, time.Hour) }), "Pawl's tables are not there")
}
