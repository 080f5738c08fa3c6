package tasktest_test

import (
	"context"
	"database/sql"
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"

	"github.com/pawlgo/pawl/task"
	"github.com/pawlgo/pawl/task/taskimpl"
	"github.com/pawlgo/pawl/tasktest"
)

func TestEnqueuedIsTyped(t *testing.T) {
	t.Parallel()
	pool := tasktest.DB(t)
	tx := begin(t, pool)
	at := time.Date(2040, 5, 6, 7, 8, 9, 123456789, time.FixedZone("", 3600))
	one := mailArgs{To: "ada", Weight: 1e21, Tags: map[string]int{"b": 2, "a": 1}, Org: "acme"}
	first := put(t, tx, enqueueMail, one, task.In(90*time.Minute), task.Priority(task.Urgent), task.Attempts(7), task.Key("k", time.Hour))
	second := put(t, tx, enqueueMail, mailArgs{To: "bob"}, task.At(at))
	third := put(t, tx, enqueueBill, billArgs{Number: 1, Text: "x"})
	put(t, tx, enqueueBill, billArgs{Number: 2, Text: "x"})

	jobs := tasktest.Enqueued(t, tx, mail{})
	require.Len(t, jobs, 2)
	j := jobs[0]
	require.Equal(t, first.ID, j.ID)
	require.Equal(t, one, j.Args)
	require.Equal(t, 90*time.Minute, j.Delay())
	require.Equal(t, task.Urgent, j.Priority)
	require.Equal(t, 7, j.MaxAttempts)
	require.Equal(t, "mail", j.Kind)
	require.Equal(t, "post", j.Queue)
	require.Equal(t, "acme", j.OrganizationID)
	require.Equal(t, 1, j.Version)
	require.Equal(t, task.StateScheduled, j.State)
	require.Len(t, j.Key, 64)
	require.Equal(t, time.Hour, j.Keep)
	require.Empty(t, j.OrderKey)
	require.Equal(t, second.ID, jobs[1].ID)
	require.True(t, at.Truncate(time.Microsecond).Equal(jobs[1].RunAt))
	require.Empty(t, jobs[1].Key)
	require.Zero(t, jobs[1].Keep)

	bills := tasktest.Enqueued(t, tx, bill{})
	require.Len(t, bills, 2)
	require.Equal(t, third.ID, bills[0].ID)
	require.Zero(t, bills[0].Delay())
	require.Equal(t, 48*time.Hour, bills[0].Keep)
	require.NotEmpty(t, bills[0].OrderKey)
	require.Equal(t, bills[0].OrderKey, bills[1].OrderKey)
	require.Equal(t, task.StatePending, bills[0].State)
	require.Equal(t, task.StateBlocked, bills[1].State)
	tasktest.RequireNothingElse(t, tx, jobs, bills)
}

// What an enqueue with the same arguments would store is what is found, and
// nothing that differs in one of them.
func TestRequireEnqueuedMirrorsTheEnqueue(t *testing.T) {
	t.Parallel()
	pool := tasktest.DB(t)
	tx := begin(t, pool)
	at := time.Date(2040, 5, 6, 7, 8, 9, 123456789, time.FixedZone("", 3600))
	args := mailArgs{To: "ada", At: at, Org: "acme", Weight: 0.1}
	calls := map[string][]task.EnqueueOption{
		"plain":        nil,
		"in":           {task.In(time.Hour)},
		"in a bit":     {task.In(time.Hour + time.Microsecond)},
		"at":           {task.At(at)},
		"at a bit":     {task.At(at.Add(time.Microsecond))},
		"priority":     {task.Priority(task.Low)},
		"attempts":     {task.Attempts(4)},
		"key":          {task.Key("a", time.Hour)},
		"another key":  {task.Key("b", time.Hour)},
		"another keep": {task.Key("c", 2*time.Hour)},
	}
	receipts := make(map[string]task.Receipt)
	for name, opts := range calls {
		receipts[name] = put(t, tx, enqueueMail, args, opts...)
	}
	var known []tasktest.Known
	for name, opts := range calls {
		job := tasktest.RequireEnqueued(t, tx, mail{}, args, opts...)
		require.Equal(t, receipts[name].ID, job.ID, name)
		known = append(known, job)
	}
	tasktest.RequireNothingElse(t, tx, known...)
	for name, change := range map[string]func(*mailArgs){
		"To":   func(a *mailArgs) { a.To = "bob" },
		"At":   func(a *mailArgs) { a.At = a.At.Add(1) },
		"Org":  func(a *mailArgs) { a.Org = "" },
		"Tags": func(a *mailArgs) { a.Tags = map[string]int{"": 0} },
	} {
		other := args
		change(&other)
		failure(t, func(t testing.TB) { tasktest.RequireEnqueued(t, tx, mail{}, other) })
		_ = name
	}
	for _, opts := range [][]task.EnqueueOption{
		{task.In(2 * time.Hour)}, {task.At(at.Add(time.Second))}, {task.Priority(task.High)}, {task.Attempts(5)}, {task.Key("c", time.Hour)}, {task.Key("d", time.Hour)},
	} {
		failure(t, func(t testing.TB) { tasktest.RequireEnqueued(t, tx, mail{}, args, opts...) })
	}

	// A time in the past is now, and so is a delay below zero.
	tx = begin(t, pool)
	put(t, tx, enqueueMail, args, task.At(time.Now().Add(-time.Hour)))
	tasktest.RequireEnqueued(t, tx, mail{}, args)
	tasktest.RequireEnqueued(t, tx, mail{}, args, task.At(time.Unix(5, 0)))
	tasktest.RequireEnqueued(t, tx, mail{}, args, task.In(-1), nil, task.NoWake())
}

func TestOnlyTheTransactionsOwn(t *testing.T) {
	t.Parallel()
	pool := tasktest.DB(t)
	before := begin(t, pool)
	put(t, before, enqueueMail, mailArgs{To: "before"})
	require.NoError(t, before.Commit(t.Context()))

	tx, other := begin(t, pool), begin(t, pool)
	require.Empty(t, tasktest.Enqueued(t, tx, mail{}), "nothing is written yet")
	tasktest.RequireNothingElse(t, tx)
	own := put(t, tx, enqueueMail, mailArgs{To: "own"})
	// These have younger transactions, of which the first is seen once committed.
	put(t, task.Autocommit(pool), enqueueMail, mailArgs{To: "autocommit"})
	put(t, other, enqueueMail, mailArgs{To: "in progress"})
	savepoint := begin(t, tx)
	inner := put(t, savepoint, enqueueMail, mailArgs{To: "savepoint"})
	put(t, task.Autocommit(pool), enqueueMail, mailArgs{To: "autocommit again"})

	jobs := tasktest.Enqueued(t, tx, mail{})
	require.Len(t, jobs, 2)
	require.Equal(t, own.ID, jobs[0].ID)
	require.Equal(t, inner.ID, jobs[1].ID)
	tasktest.RequireNothingElse(t, savepoint, jobs)
	tasktest.RequireNothingElse(t, tx.Conn(), jobs)

	all := tasktest.Enqueued(t, pool, mail{})
	require.Len(t, all, 3, "a pool sees what is committed")
	require.Len(t, tasktest.Enqueued(t, task.Autocommit(pool), mail{}), 3)
	require.NoError(t, tx.Commit(t.Context()))
	require.Len(t, tasktest.Enqueued(t, tx.Conn(), mail{}), 5, "and so does a connection after its transaction")
}

func TestSavepoints(t *testing.T) {
	t.Parallel()
	for _, level := range []pgx.TxIsoLevel{pgx.ReadCommitted, pgx.RepeatableRead, pgx.Serializable} {
		t.Run(string(level), func(t *testing.T) {
			t.Parallel()
			pool := tasktest.DB(t)
			tx, err := pool.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: level})
			require.NoError(t, err)
			defer tx.Rollback(context.WithoutCancel(t.Context()))
			// The first write of all is in a savepoint.
			first := begin(t, tx)
			put(t, first, enqueueMail, mailArgs{To: "released"})
			require.NoError(t, first.Commit(t.Context()))
			put(t, tx, enqueueMail, mailArgs{To: "plain"})
			err = pgx.BeginFunc(t.Context(), tx, func(tx pgx.Tx) error {
				put(t, tx, enqueueMail, mailArgs{To: "rolled back"})
				require.Len(t, tasktest.Enqueued(t, tx, mail{}), 3)
				return errors.New("no")
			})
			require.Error(t, err)
			outer := begin(t, tx)
			inner := begin(t, outer)
			put(t, inner, enqueueMail, mailArgs{To: "nested"})
			require.NoError(t, inner.Commit(t.Context()))
			jobs := tasktest.Enqueued(t, tx, mail{})
			require.Len(t, jobs, 3)
			require.Equal(t, "released", jobs[0].Args.To)
			require.Equal(t, "nested", jobs[2].Args.To)
			require.NoError(t, outer.Rollback(t.Context()))
			require.Len(t, tasktest.Enqueued(t, tx, mail{}), 2)
			// A mark that a rollback takes away is set anew each time.
			tasktest.RequireNothingElse(t, tx, tasktest.Enqueued(t, tx, mail{}))
		})
	}
}

func TestAfterARollback(t *testing.T) {
	t.Parallel()
	pool := tasktest.DB(t)
	tx := begin(t, pool)
	put(t, tx, enqueueMail, mailArgs{})
	require.NoError(t, tx.Rollback(t.Context()))
	tasktest.RequireNothingElse(t, pool)
	said := failure(t, func(t testing.TB) { tasktest.Enqueued(t, tx, mail{}) })
	require.Contains(t, said, "tx is closed")

	tx = begin(t, pool)
	_, err := tx.Exec(t.Context(), "SELECT 1/0")
	require.Error(t, err)
	said = failure(t, func(t testing.TB) { tasktest.Enqueued(t, tx, mail{}) })
	require.Contains(t, said, "an earlier statement of the transaction has failed")
}

func TestOtherWaysToTheDatabase(t *testing.T) {
	t.Parallel()
	pool := tasktest.DB(t)
	db := stdlib.OpenDBFromPool(pool)
	defer db.Close()
	std, err := db.BeginTx(t.Context(), &sql.TxOptions{})
	require.NoError(t, err)
	defer std.Rollback()
	put(t, task.SQL(std), enqueueMail, mailArgs{To: "sql"}, task.In(time.Hour))
	tasktest.RequireNothingElse(t, task.SQL(std), tasktest.RequireEnqueued(t, task.SQL(std), mail{}, mailArgs{To: "sql"}, task.In(time.Hour)))
	tasktest.RequireNothingElse(t, pool)

	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol, pgx.QueryExecModeCacheDescribe} {
		config := pool.Config().ConnConfig
		config.DefaultQueryExecMode = mode
		conn, err := pgx.ConnectConfig(t.Context(), config)
		require.NoError(t, err)
		tx, err := conn.Begin(t.Context())
		require.NoError(t, err)
		put(t, tx, enqueueBill, billArgs{Number: int(mode)})
		tasktest.RequireNothingElse(t, tx, tasktest.RequireEnqueued(t, tx, bill{}, billArgs{Number: int(mode)}))
		require.NoError(t, tx.Rollback(t.Context()))
		tasktest.RequireNothingElse(t, conn)
		require.NoError(t, conn.Close(t.Context()))
	}
}

func TestAnotherSchema(t *testing.T) {
	t.Parallel()
	const name = `My "jobs"`
	pool := tasktest.DB(t, tasktest.Schema(name))
	tx := begin(t, pool)
	bound := task.InSchema(tx, name)
	put(t, bound, enqueueBill, billArgs{Number: 1})
	tasktest.RequireNothingElse(t, bound, tasktest.RequireEnqueued(t, bound, bill{}, billArgs{Number: 1}))
	require.NoError(t, tx.Commit(t.Context()))
	whole := task.InSchema(task.Autocommit(pool), name)
	require.Len(t, tasktest.Enqueued(t, whole, bill{}), 1)
	tasktest.Advance(t, whole, 49*time.Hour)

	said := failure(t, func(t testing.TB) { tasktest.RequireNothingElse(t, pool) })
	require.Contains(t, said, "use tasktest.DB, and task.InSchema")
	said = failure(t, func(t testing.TB) { tasktest.RequireNothingElse(t, task.InSchema(tx, "")) })
	require.Contains(t, said, "InSchema")
}

func TestADuplicateIsNotEnqueued(t *testing.T) {
	t.Parallel()
	pool := tasktest.DB(t)
	holder := put(t, task.Autocommit(pool), enqueueBill, billArgs{Number: 7, Text: "first"})
	tx := begin(t, pool)
	require.True(t, put(t, tx, enqueueBill, billArgs{Number: 7, Text: "second"}).Duplicate)
	tasktest.RequireNothingElse(t, tx)
	require.Empty(t, tasktest.Enqueued(t, tx, bill{}))
	said := failure(t, func(t testing.TB) { tasktest.RequireEnqueued(t, tx, bill{}, billArgs{Number: 7, Text: "second"}) })
	require.Contains(t, said, "no such job of bill was enqueued in this transaction")
	require.Contains(t, said, "its idempotency key is held by job "+holder.ID.String()+" (pending), so such an enqueue is a duplicate and stores nothing")
	require.Contains(t, said, "nothing was enqueued")

	// In one transaction the first one counts.
	put(t, tx, enqueueBill, billArgs{Number: 8})
	put(t, tx, enqueueBill, billArgs{Number: 8})
	tasktest.RequireNothingElse(t, tx, tasktest.RequireEnqueued(t, tx, bill{}, billArgs{Number: 8}))
}

var ids = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f-]{27}`)

func TestTheFailureShowsTheDifference(t *testing.T) {
	t.Parallel()
	pool := tasktest.DB(t)
	tx := begin(t, pool)
	at := time.Date(2040, 1, 2, 3, 4, 5, 0, time.UTC)
	put(t, tx, enqueueMail, mailArgs{To: "far", At: at, Org: "b", Mode: "x", Weight: 1}, task.Priority(task.Low))
	put(t, tx, enqueueMail, mailArgs{To: "<ada>", At: at, Tags: map[string]int{"n": 2}}, task.In(time.Hour), task.Key("k", time.Hour))
	put(t, tx, enqueueBill, billArgs{Number: 1, Text: strings.Repeat("é", 200)})
	said := failure(t, func(t testing.TB) {
		tasktest.RequireEnqueued(t, tx, mail{}, mailArgs{To: "<ada>", At: at, Tags: map[string]int{"n": 1}}, task.In(2*time.Hour))
	})
	require.Equal(t, `tasktest: no such job of mail was enqueued in this transaction
--- expected
+++ job ID
@@ -1,13 +1,13 @@
 queue post
 payload version 1
-due in 2h0m0s
+due in 1h0m0s
 priority normal
 3 attempts
-no idempotency key
+idempotency key 01b307acba4f, held for 1h0m0s
 {
   "at": "2040-01-02T03:04:05Z",
   "tags": {
-    "n": 1
+    "n": 2
   },
   "to": "<ada>"
 }
3 jobs:
	ID mail on post, due at once, pending, {"at": "2040-01-02T03:04:05Z", "to": "far", "org": "b", "mode": "x", "weight": 1}
	ID mail on post, due in 1h0m0s, scheduled, {"at": "2040-01-02T03:04:05Z", "to": "<ada>", "tags": {"n": 2}}
	ID bill on money, due at once, pending, {"text": "`+strings.Repeat("é", 95)+` …`, digest.ReplaceAllString(ids.ReplaceAllString(said, "ID"), "key 01b307acba4f"))

	said = failure(t, func(t testing.TB) {
		tasktest.RequireEnqueued(t, tx, mail{}, mailArgs{To: "<ada>", At: at, Tags: map[string]int{"n": 2}}, task.At(at), task.Key("k", time.Hour))
	})
	require.Contains(t, said, "-due at 2040-01-02T03:04:05Z\n+due at 20")

	said = failure(t, func(t testing.TB) { tasktest.RequireNothingElse(t, tx, tasktest.Enqueued(t, tx, mail{})) })
	require.Contains(t, ids.ReplaceAllString(said, "ID"), "tasktest: 1 job was not expected\n1 job:\n\tID bill on money, due at once, pending")

	empty := begin(t, pool)
	said = failure(t, func(t testing.TB) {
		tasktest.RequireEnqueued(t, empty, mail{}, mailArgs{To: "ada", At: at, Org: "acme"}, task.Attempts(1))
	})
	require.Equal(t, `tasktest: no such job of mail was enqueued in this transaction
expected:
	queue post
	payload version 1
	due at once
	priority normal
	1 attempts
	organization "acme"
	no idempotency key
	{
	  "at": "2040-01-02T03:04:05Z",
	  "org": "acme",
	  "to": "ada"
	}
nothing was enqueued`, said)

	said = failure(t, func(t testing.TB) { tasktest.RequireEnqueued(t, pool, mail{}, mailArgs{}) })
	require.Contains(t, said, "no such job of mail was enqueued\n")
}

var digest = regexp.MustCompile(`key [0-9a-f]{12}`)

func TestOtherFailures(t *testing.T) {
	t.Parallel()
	pool := tasktest.DB(t)
	tx := begin(t, pool)
	for range 2 {
		put(t, tx, enqueueMail, mailArgs{To: "twice"})
	}
	said := failure(t, func(t testing.TB) { tasktest.RequireEnqueued(t, tx, mail{}, mailArgs{To: "twice"}) })
	require.Contains(t, said, "2 jobs are equal where one is expected; use Enqueued where several are meant\n2 jobs:\n")
	for _, wrong := range []struct {
		args mailArgs
		opts []task.EnqueueOption
		says string
	}{
		{mailArgs{To: "\x00"}, nil, "U+0000"},
		{mailArgs{}, []task.EnqueueOption{task.Attempts(0)}, "Attempts(0)"},
		{mailArgs{}, []task.EnqueueOption{task.At(time.Time{})}, "At("},
	} {
		said = failure(t, func(t testing.TB) { tasktest.RequireEnqueued(t, tx, mail{}, wrong.args, wrong.opts...) })
		require.Contains(t, said, "no enqueue could store what is expected")
		require.Contains(t, said, wrong.says)
	}

	many := make([]mailArgs, 30)
	_, err := taskimpl.EnqueueMany(t.Context(), tx, &mailKind, many, nil)
	require.NoError(t, err)
	said = failure(t, func(t testing.TB) { tasktest.RequireNothingElse(t, tx) })
	require.Contains(t, said, "32 jobs were not expected")
	require.Contains(t, said, "\n\tand 12 more")

	tx = begin(t, pool)
	put(t, tx, enqueueMail, mailArgs{To: "x"})
	_, err = tx.Exec(t.Context(), `UPDATE pawl.jobs SET args = '{"to": 5}'`)
	require.NoError(t, err)
	said = failure(t, func(t testing.TB) { tasktest.Enqueued(t, tx, mail{}) })
	require.Contains(t, said, "decode the payload of mail")
}
