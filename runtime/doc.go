// Package runtime is what a worker process runs. Import it as pawlrt, since
// its name shadows the standard library's:
//
//	worker, err := pawlrt.New(pool, pawlrt.Config{
//		Tables: tasks.Tables(handlers),
//		Queues: map[string]pawlrt.Queue{"webhooks": {Concurrency: 50}},
//	})
//	if err != nil {
//		return err
//	}
//	return worker.Run(ctx)
//
// # How a job runs
//
// Every queue has a loop of its own that claims as many due jobs as it has free
// slots, highest priority first, in one statement. A few such statements are under
// way at once; what many queues ask for meanwhile goes together in the next one. The
// claim commits before any handler starts, and no transaction of the runtime is open while handlers run.
// How each attempt ended is written in batches that grow with the load.
//
// # Leases
//
// A claimed job belongs to the process for as long as the process renews its
// one row in the database, by default every 5 seconds for 15. When it stops,
// any other worker gives its jobs back, each with one more attempt counted; a
// job whose attempts are spent that way is a dead letter with the code
// lease_lost. A job that has lost its lease twice in a row, or has one attempt
// left, may be what kills its processes: it runs as the only such one in its
// process, so that it takes few others with it.
//
// A process that cannot reach the database ends its handlers' contexts, with
// [task.ErrLeaseLost], a little before its lease does. If a handler goes on
// regardless, or the process was merely frozen, its result comes too late:
// every settlement names the lease it belongs to, and one whose lease is gone is
// refused and counted in [Stats].Refused.
//
// Expiry is judged by the database's clock alone. After an outage of the server
// every process looks dead; none takes another's jobs before it has itself been
// in unbroken contact for one lease.
//
// # Transactions
//
// The handler of a transactional task gets a transaction of the user's pool, at
// the declared isolation. When it returns nil, what it wrote and enqueued there
// and the completion of its job are committed together, and the last statement
// before the commit checks the lease: a zombie commits nothing. When it returns
// an error or panics, all of that is rolled back. It can make savepoints with
// Begin, but Commit and Rollback of the transaction itself return
// [task.ErrTxOwned]. Each such handler holds a connection of the user's pool
// while it runs, so a queue's concurrency should not be above the pool's size.
//
// # Order
//
// Jobs with equal order keys run one at a time, in the order of their enqueue,
// whatever process runs them; a retry holds up the ones behind it, and the end
// of a job, as a dead letter too, lets the next one start. Of each key one job
// at most stands where claims look, so that the rest cost nothing. An enqueue
// waits for no other caller: of two whose transactions are open at once, either
// may come first, and within a transaction the order is that of the calls.
//
// # Cancel, pause
//
// [task.Cancel] ends a waiting job in the caller's transaction. A running
// handler's context ends with [task.ErrCancelled], and its job gets no other
// attempt. [task.Pause] stops all claims from a queue.
//
// # Schedules
//
// A task with //task:schedule has jobs that nobody enqueues. Each worker that has
// it in its tables looks after its ticks, by the database's clock; a tick's job is
// stored in the transaction that moves the schedule's cursor, so that there is one
// for each tick, whoever dies. A tick that is found more than 30 seconds late was
// missed, and the declared policy decides about it. Workers declare their
// schedules when they start; of those that disagree, the one that started last is
// right. [task.RunNow], [task.PauseSchedule] and [task.ResumeSchedule] control
// them; the view schedule_status shows them. [Worker.Drain] makes no such jobs.
//
// # Events
//
// A worker with [Config].Events projects what was published: a relay picks
// aggregates whose first event is due, locks them for a transaction of the user's
// pool, and calls the projection of each event in a savepoint of that, together
// with the mark that the event is done. So there is no lease: a transaction that
// does not commit has projected nothing. Aggregates are projected beside each
// other, in as many transactions as [Relay].Concurrency; the events of one come in
// the order of their commits, whatever process has it. A failure has the classes
// that a handler's has; when the attempts are spent the event is dead, and blocks
// its aggregate or is skipped, as it is declared. An event that ends its process is
// projected alone from then on, and dead after its attempts too. [EventStats] has
// the lag.
//
// # Wake-ups
//
// A queue that has become idle looks for work by itself for some milliseconds
// more. Then it asks to be woken: from there on an enqueue notifies, and a
// listener on a connection of its own wakes the queue. Nothing but latency
// depends on that: a sleeping queue looks every [Config].Poll, and when it knows
// of a job that becomes due sooner, then. [Config].PollOnly does without, for a
// transaction pooler; [Config].Listen is a direct connection beside one.
//
// # Shutdown
//
// When the context of [Worker.Run] ends, the worker stops claiming and waits
// for its handlers. At the soft limit their contexts end with
// [task.ErrShutdown]: a handler that returns because of that costs its job no
// attempt. At the hard limit Run returns a [*StillRunning].
//
// # What a handler cannot do
//
// A panic, runtime.Goexit, an error whose Error method panics: each is a
// recorded failure of its job. A handler that ignores the end of its context
// cannot be stopped; its job is settled as timed out, its slot is freed, and it
// is counted in [Stats].Stuck until it returns. Its next attempt may run beside
// it, here or elsewhere, so a handler should obey its context.
//
// # Connections
//
// A worker opens a pool of its own, configured as the user's is, so that
// handlers that use up the user's cannot cost it its leases. It holds at most one
// connection for each queue and a few more, mostly fewer, and one that listens.
package runtime
