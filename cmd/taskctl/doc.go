// Taskctl shows and changes what is in a database of Pawl's.
//
//	export DATABASE_URL=postgres://operator@db.example.com/app
//	taskctl status
//	taskctl why 01996f6a-7d0c-7a51-9a3c-3d1f2f3e4a5b
//	taskctl dead list
//	taskctl dead redrive --message 410 --canary 10 --stop-at 10% --reason "their server is back"
//
// Each command is one call of package admin, with the same meaning. The command
// line adds three things: it says what it is about to touch and asks, it prints
// tables for people and JSON for programs, and its exit code tells programs what
// happened.
//
//	0    done, or nothing to complain about
//	1    the answer is bad: doctor or verify have found something
//	2    the command line cannot be understood, or names nothing to do it to
//	3    it did not work: the database does not answer, or answers with an error
//	4    there is no such job, event, schedule or redrive
//	5    what there is does not allow it: the job is not dead, its key is taken
//	6    nobody has confirmed it: give --yes
//	7    a redrive has stopped, since too many of its jobs failed
//	8    the database has no schema of Pawl's, or one of another version
//	130  interrupted
//
// See docs/taskctl.md for a guide.
package main
