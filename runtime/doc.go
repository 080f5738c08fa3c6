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
// slots, highest priority first, in one statement. The claim commits before any
// handler starts, and no transaction of the runtime is open while handlers run.
// How each attempt ended is written in batches that grow with the load.
//
// # Leases
//
// A claimed job belongs to the process for as long as the process renews its
// one row in the database, by default every 5 seconds for 15. When it stops,
// any other worker gives its jobs back, each with one more attempt counted; a
// job whose attempts are spent that way is a dead letter with the code
// lease_lost. Since the job may be what killed the process, it then runs as the
// only such one in its process, so that it takes few others with it.
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
// # Wake-ups
//
// An enqueue notifies, and a listener on a connection of its own wakes the
// queue. Nothing but latency depends on that: an idle queue looks for itself
// every [Config].Poll, and when it knows of a job that becomes due sooner, then.
// [Config].PollOnly does without, for a transaction pooler.
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
// connection for each queue and three more, mostly fewer, and one that listens.
package runtime
