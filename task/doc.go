// Package task is what an application declares and calls.
//
// A task is background work that belongs to a change in the database: the mail
// after an order, the report after a trip. It is declared as a struct with
// annotations, and the generator writes the functions that enqueue it and the
// interface that handles it:
//
//	// SendReceipt mails the receipt of one order.
//	//
//	//task:queue mail
//	//task:retry attempts=5 base=2s max=10m
//	//task:idempotency fields=OrderID keep=72h
//	type SendReceipt struct{ task.Task[SendReceiptArgs] }
//
//	type SendReceiptArgs struct {
//		OrderID int64 `json:"order_id"`
//	}
//
// The generated EnqueueSendReceipt takes the transaction of the change:
//
//	err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
//		if err := insertOrder(ctx, tx, order); err != nil {
//			return err
//		}
//		_, err := tasks.EnqueueSendReceipt(ctx, tx, tasks.SendReceiptArgs{OrderID: order.ID})
//		return err
//	})
//
// Rolled back, the job never was. Committed, it will run, be cancelled, or end
// as a dead letter, but not vanish.
//
// # Transactions
//
// [Tx] is what an enqueue needs of a transaction. A pgx.Tx fits as it is; [SQL]
// adapts database/sql. A pool does not fit, because an enqueue outside the
// transaction of its change loses the guarantee; where there is no change,
// [Autocommit] says so. [InSchema] names a schema other than "pawl".
//
// # Idempotency
//
// A key says that two enqueues mean the same work. It is made from the declared
// fields, or given with [Key], and it belongs to an organization and a kind.
// While the job that holds it is unfinished, and for its keep at least, another
// enqueue stores nothing: its [Receipt] says Duplicate, and of which job. That
// does not abort the caller's transaction. At READ COMMITTED an enqueue waits
// for the uncommitted holder of its key; at stricter levels a concurrent twin
// is [ErrSerialization], to be tried again as any serialization failure.
//
// # Failures
//
// A handler's error has a [Class], which [Transient], [RateLimited],
// [Permanent], [Revoked] and [Snooze] give it, and [ResponseError] for the answer
// of an HTTP server. Errors of the network and of PostgreSQL have one by
// themselves, see [Classify]. Any other is retried a few times and then becomes a
// dead letter whose reason says how to classify it. [errors.Is] and [errors.As]
// see through the classes.
//
// A handler runs at least once: its process can die after a side effect and
// before the completion is recorded. It has to be safe to repeat. Its context
// ends when the attempt takes too long ([ErrTimeout]), when this process lost
// the job ([ErrLeaseLost]), when somebody cancelled it ([ErrCancelled]), and when
// the worker stops ([ErrShutdown]); see [context.Cause].
//
// # Transactional and ordered tasks
//
// With //task:transactional the handler gets a transaction as well: what it
// writes and enqueues there and the completion of its job commit together, so
// its effects on this database happen exactly once. With //task:order jobs of
// equal fields run one at a time, in the order of their enqueue.
//
// # Schedules
//
// With //task:schedule a task runs by the clock, at the ticks of a cron
// expression, without anybody's enqueue: one job for each tick, however many
// workers there are. Where the payload has fields, the declaration has a method
// that makes them:
//
//	// Report sums up a day, in the night after it.
//	//
//	//task:queue reports
//	//task:schedule "30 2 * * *" zone=America/Los_Angeles missed=all
//	type Report struct{ task.Task[ReportArgs] }
//
//	func (Report) ScheduledArgs(at time.Time) ReportArgs {
//		return ReportArgs{Day: at.AddDate(0, 0, -1).Format(time.DateOnly)}
//	}
//
// # Events
//
// An [Event] is a fact, published in the transaction of the change that it is
// about. A worker projects it: the generated interface Projections has a method
// for each event, which gets a [Fact] and a transaction that commits together
// with the mark that this is done. The events of an aggregate are projected one at
// a time, in the order of their commits. One whose attempts are spent is dead, and
// holds up its aggregate until [RetryEvent] or [SkipEvent], or lets it go on, as
// it is declared.
//
// # Control
//
// [Cancel] and [CancelOrganization] end jobs, [Pause] and [Resume] stop and
// start a queue in every process. [RunNow] asks for a job of a schedule,
// [PauseSchedule] and [ResumeSchedule] stop and start its ticks. Each takes a
// transaction, as an enqueue does.
//
// The package starts no goroutine and holds no state; package runtime runs the
// handlers.
package task
