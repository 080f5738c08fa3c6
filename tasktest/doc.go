// Package tasktest helps an application to test its tasks: a database of their
// own for tests that run in parallel, assertions about what a transaction has
// enqueued, and work that is done when the test says so.
//
//	func TestOrderIsConfirmed(t *testing.T) {
//		t.Parallel()
//		pool := tasktest.DB(t, tasktest.Migrate(tasktest.HashFS(schema.Files), schema.Up))
//		tx, err := pool.Begin(t.Context())
//		...
//		order, err := shop.PlaceOrder(t.Context(), tx, cart)
//		...
//		// Exactly this job, due at once, as declared and with these arguments.
//		receipt := tasktest.RequireEnqueued(t, tx, tasks.SendReceipt{}, tasks.SendReceiptArgs{OrderID: order.ID})
//		// One more, due in two days, and that is all.
//		reminder := tasktest.RequireEnqueued(t, tx, tasks.RemindOfOrder{}, tasks.RemindOfOrderArgs{OrderID: order.ID}, task.In(48*time.Hour))
//		tasktest.RequireNothingElse(t, tx, receipt, reminder)
//		...
//		worked := tasktest.Drain(t, pool, tasks.Tables(handlers)...)
//		require.NoError(t, worked.Err())
//
//		tasktest.Advance(t, pool, 48*time.Hour)
//		require.NoError(t, tasktest.WorkOne(t, pool, tasks.Tables(handlers)...).Err)
//	}
//
// # What was enqueued
//
// An assertion is made with the arguments of the enqueue that it is about: the
// payload, and the same options, such as task.In and task.Priority. So there is
// no second vocabulary to learn, and nothing is left open by being left out: a job
// that should be due at once and is due in an hour fails the test. What cannot be
// told that exactly, such as a due time that the application made from its own
// clock, is looked at by hand: [Enqueued] returns the jobs with their payloads
// decoded.
//
// A declaration such as tasks.SendReceipt{} stands for its kind, and gives the
// compiler the type of its payload. [RequireNothingElse] is told which jobs are
// known, instead of remembering them behind the test's back; [RequireEnqueued]
// and [Enqueued] return them.
//
// Given a transaction, these functions see what that transaction has enqueued
// itself and not yet committed, also in savepoints, unless those were rolled
// back. Jobs of before and of others are not seen. Given a pool, or a connection
// outside a transaction, they see all jobs that are committed, finished ones too.
// They take whatever an enqueue takes, so a transaction of database/sql is
// task.SQL(tx) here as well, and another schema is task.InSchema(tx, name).
//
// Payloads are equal when PostgreSQL finds their JSON values equal: the order of
// members and the spelling of numbers do not count. Where the declared
// idempotency key of a job is held already, an enqueue stores nothing, and there
// is nothing to be found.
//
// # Work
//
// [Drain] and [WorkOne] do in the course of the test what a worker does, by the
// same code: see [pawlrt.Worker.Drain]. A handler that fails does not fail the
// test, since that may be what is tested; its error is in the result, as the
// handler returned it, and in the test's log.
//
// # The clock
//
// Pawl goes by the database's clock, which no test can set. [Advance] moves what
// is stored into the past instead: a job that was due in an hour is due now, a
// backoff is over, a key expires. The clocks themselves stay, and so does what
// depends on them: now() in the application's own SQL and time.Now in its code;
// the leases of workers that live; and the days that Pawl files its rows under,
// by which it removes old ones.
//
// # What it costs
//
// A database is a copy of a template that is made once, and takes some tens of
// milliseconds, nearly all of them for the files of the copy: more on a slow disk,
// and about twenty with the server's data in memory, as TMPDIR=/dev/shm has it. The
// server is the one of PAWL_DATABASE_URL, whose role must be allowed to create
// databases; or else one that is started on the machine, or downloaded, and goes
// away by itself some seconds after the last test has. Databases of tests that were
// killed go with it. On the server of PAWL_DATABASE_URL they stay, and so do
// templates that are no longer used: there, drop the databases whose names start
// with testdb_ from time to time.
//
// Import this package in tests only. It imports testing, and what it takes to
// start a server.
package tasktest
