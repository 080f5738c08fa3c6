// Package admin is what an operator can ask and change in a database of Pawl's:
// one Go call for each verb of the tool taskctl, for programs that do such things
// by themselves, and for pages that show them.
//
//	c := admin.New(pool, admin.Options{By: "the nightly cleaner"})
//	list, err := c.Dead(ctx, admin.DeadFilter{Message: "410 Gone"}, admin.Page{})
//	if err != nil {
//		return err
//	}
//	for _, job := range list.Jobs {
//		why, err := c.Why(ctx, job.ID)
//		...
//	}
//
// # What an answer costs
//
// Tables of jobs are large, and whoever looks at them is in a hurry. So no call
// reads a table through, whatever it is asked:
//
//   - A list has pages. A page looks at a bounded number of rows, along an index,
//     for a bounded time, [Page.Budget] and [Page.Within]; where no index has the
//     filter, it may be over before it is full. [Listed] says how far it looked,
//     and has the cursor of the next page, which goes on where this one ended: a
//     later page costs what the first one does.
//   - Counts are exact up to 10,000. Beyond, they are what the server's statistics
//     say, and are marked as estimates, [Count.Estimate].
//   - [Client.Doctor] gives up the one check that reads much after a second, unless
//     it is told that there is time, and says so.
//
// Every answer is of one snapshot, but for those of [Client.Status] and
// [Client.Doctor], which put several together. None holds a lock that work waits
// for.
//
// # What a change does
//
// A change and its row of the audit are one transaction: who asked, by
// [Options.By] and the role of the connection; what it was about; how many things
// it changed; and why, where a reason was given. What changed nothing leaves no
// row. The functions of the database that make a change write its row, so there is
// one for what is done by plain SQL as well, and nobody but the owner can write or
// change one otherwise. [Client.Audit] lists them; retention removes them after a
// year.
//
// Of a filter, values of arguments that are of redacted fields are not written down,
// neither in the audit nor with a redrive.
//
// Calls that change many things want a filter that says something, or All: an
// empty one is [ErrNoFilter]. [Client.TouchDead] says what a filter would touch, and
// when it looked: [DeadFilter.DiedBefore] that, the filter touches nothing else.
//
// # Redrives
//
// A dead letter that is redriven becomes the job again that it was: with its id,
// its payload, its order key and its idempotency key, and with all its attempts,
// from the first on. The letter is gone then, and how the job had died is among
// its [JobDetail.Lives]. Where another job has taken the key in the meantime, the
// letter stays, since the two would do the same work: [ErrKeyTaken]. All of that is
// so however old the letter is: it has what its job was enqueued with.
//
// [Client.Redrive] does that to many: some first, then the others at a rate, until
// too large a share of them fails. How far it is stands in the database, so its
// process may end at any moment: [Client.ContinueRedrive] goes on. A failure of the
// moment, such as a deadlock or a connection that is cut, it sits out.
//
// # Roles
//
// All of it works with the rights of an operator, and what changes nothing with those
// of a viewer, as [migrations.Grants] gives them. Neither reads payloads or digests of
// keys: Args is "[not granted]" then, the keys are empty, a filter on arguments is
// [ErrNoPayloads], and [Versions.Unread] is set. Where the role may read payloads,
// what is tagged is masked, and what nobody has declared is not shown: see
// [Options.Tables].
//
// # Errors
//
// They are sentinels for errors.Is: those of this package, and [task.ErrNoJob],
// [task.ErrNoSchedule], [task.ErrNoEvent] and [task.ErrNotMigrated].
//
// Payloads and errors in the answers are what applications have written: whoever
// shows them has to escape them.
//
// [migrations.Grants]: https://pkg.go.dev/github.com/pawlgo/pawl/migrations#Grants
package admin
