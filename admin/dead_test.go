package admin_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/pawlgo/pawl/admin"
	"github.com/pawlgo/pawl/internal/testdb"
	"github.com/pawlgo/pawl/task"
	"github.com/pawlgo/pawl/task/taskimpl"
)

func TestFingerprints(t *testing.T) {
	t.Parallel()
	pool, _ := open(t)
	shape := func(summary string) string {
		return query[string](t, pool, `SELECT pawl.error_shape($1)`, summary)
	}
	for summary, want := range map[string]string{
		"the server answered 410 Gone":                         "the server answered # Gone",
		`row "7 of 9" of 0a1b2c3d-0000-1111-2222-333344445555`: `row "#" of #`,
		"dial tcp 10.0.0.7:5432: i/o timeout after 1.5s":       "dial tcp #: i/o timeout after #s",
		"can't open 'file one': it isn't there":                `can't open "#": it isn't there`,
		"at 0xDEADbeef, digest 5f0b2af0c1, word deadbeef":      "at #, digest #, word deadbeef",
		"12345678 and 1234567":                                 "# and #",
		"too\n\tmany   blanks":                                 "too many blanks",
		`cut "off`:                                             `cut "#"`,
		"`name` is taken":                                      `"#" is taken`,
		"":                                                     "",
		`back\slash \1`:                                        `back\slash \#`,
		"straße 4 kaputt":                                      "straße # kaputt",
		"duplicate key (id)=(7) already exists (SQLSTATE 23505)":  "duplicate key (id)=(#) already exists (SQLSTATE #)",
		"2026-11-29T10:00:00.5Z is over since 3h2m1s (attempt 2)": "#-#-#T#Z is over since #h#m#s (attempt #)",
	} {
		require.Equal(t, want, shape(summary), "%q", summary)
	}
	same := query[bool](t, pool, `SELECT pawl.error_fingerprint('a', 'x 1') = pawl.error_fingerprint('a', 'x 2')
		AND pawl.error_fingerprint('a', 'x 1') <> pawl.error_fingerprint('b', 'x 1')`)
	require.True(t, same)
}

func TestDeadGroups(t *testing.T) {
	t.Parallel()
	pool, c := openOwned(t)
	k := mailed()
	gone, broken := bury(t, pool, c, k, "gone", 7), bury(t, pool, c, k, "broken", 3)
	groups, err := c.DeadGroups(t.Context(), admin.Page{})
	require.NoError(t, err)
	require.Len(t, groups.Groups, 2)
	require.Empty(t, groups.Next)
	first, second := groups.Groups[0], groups.Groups[1]
	require.Equal(t, admin.Count{N: 7}, first.Count)
	require.Equal(t, "POST https://example.com/#: the server answered # Gone", first.Shape)
	require.Equal(t, "permanent", first.ErrorCode)
	require.Equal(t, "send_mail", first.Kind)
	require.Contains(t, gone, first.NewestID)
	require.Equal(t, admin.Count{N: 3}, second.Count)
	require.Equal(t, `row "#" of batch # is broken`, second.Shape)

	var seen []string
	for page := (admin.Page{Limit: 1}); ; {
		one, err := c.DeadGroups(t.Context(), page)
		require.NoError(t, err)
		for _, g := range one.Groups {
			seen = append(seen, g.Fingerprint)
		}
		if page.Cursor = one.Next; page.Cursor == "" {
			break
		}
	}
	require.ElementsMatch(t, []string{first.Fingerprint, second.Fingerprint}, seen)

	for _, x := range []struct {
		filter admin.DeadFilter
		want   []uuid.UUID
	}{
		{admin.DeadFilter{}, slices.Concat(gone, broken)},
		{admin.DeadFilter{All: true}, slices.Concat(gone, broken)},
		{admin.DeadFilter{Fingerprint: second.Fingerprint}, broken},
		{admin.DeadFilter{ErrorCode: "permanent", Message: "410 GONE"}, gone},
		{admin.DeadFilter{Message: "is broken", Kind: "send_mail", Queue: "mail"}, broken},
		{admin.DeadFilter{IDs: gone[1:3]}, gone[1:3]},
		{admin.DeadFilter{Until: time.Now().Add(-time.Hour)}, nil},
		{admin.DeadFilter{Since: time.Now().Add(-time.Hour), OrganizationID: "acme"}, nil},
		{admin.DeadFilter{Args: []admin.ArgFilter{{Path: []string{"n"}, Value: []byte("2")}}}, []uuid.UUID{gone[2], broken[2]}},
	} {
		list, err := c.Dead(t.Context(), x.filter, admin.Page{})
		require.NoError(t, err)
		var ids []uuid.UUID
		for _, j := range list.Jobs {
			ids = append(ids, j.ID)
		}
		require.ElementsMatch(t, x.want, ids, "%v", x.filter)
	}
	touched, err := c.TouchDead(t.Context(), admin.DeadFilter{All: true}, admin.Page{})
	require.NoError(t, err)
	require.Equal(t, 10, touched.Letters)
	require.True(t, touched.Whole)
	require.Len(t, touched.Sorts, 2)
	_, err = c.TouchDead(t.Context(), admin.DeadFilter{}, admin.Page{})
	require.ErrorIs(t, err, admin.ErrNoFilter)
	_, err = c.TouchDead(t.Context(), admin.DeadFilter{All: true, Kind: "x"}, admin.Page{})
	require.ErrorIs(t, err, admin.ErrInvalid)

	// History may go before the letter does.
	exec(t, pool, `DELETE FROM pawl.jobs`)
	exec(t, pool, `DELETE FROM pawl.outcomes`)
	exec(t, pool, `DELETE FROM pawl.job_errors`)
	list, err := c.Dead(t.Context(), admin.DeadFilter{IDs: gone[:1]}, admin.Page{})
	require.NoError(t, err)
	require.Equal(t, task.StateDead, list.Jobs[0].State)
	require.JSONEq(t, `{"n": 0, "mode": "gone"}`, list.Jobs[0].Args)

	removed, err := c.PurgeDead(t.Context(), admin.DeadFilter{Message: "broken"}, "noise", nil)
	require.NoError(t, err)
	require.Equal(t, 3, removed)
	require.Equal(t, 7, query[int](t, pool, `SELECT count(*) FROM pawl.dead_letters`))
	audit, err := c.Audit(t.Context(), admin.Page{})
	require.NoError(t, err)
	require.EqualValues(t, 3, audit.Entries[0].Things)
	require.Equal(t, "noise", audit.Entries[0].Reason)
}

// What dies after somebody has looked is not touched.
func TestTouchedIsWhatWasSaid(t *testing.T) {
	t.Parallel()
	pool, c := open(t)
	k := mailed()
	for _, f := range []admin.DeadFilter{{All: true}, {Kind: "send_mail"}, {Kind: "send_mail", Until: time.Now().Add(time.Hour)}} {
		for name, change := range map[string]func(admin.DeadFilter) (int, error){
			"purge": func(f admin.DeadFilter) (int, error) { return c.PurgeDead(t.Context(), f, "", nil) },
			"redrive": func(f admin.DeadFilter) (int, error) {
				run, err := c.Redrive(t.Context(), admin.RedriveOptions{Filter: f})
				return int(run.Redriven), err
			},
		} {
			bury(t, pool, c, k, "gone", 2)
			touched, err := c.TouchDead(t.Context(), f, admin.Page{})
			require.NoError(t, err)
			require.Equal(t, 2, touched.Letters)
			later := bury(t, pool, c, k, "gone", 1)
			n, err := change(f.DiedBefore(touched.At))
			require.NoError(t, err, "%s %v", name, f)
			require.Equal(t, 2, n, "%s %v", name, f)
			require.Equal(t, later[0].String(), query[string](t, pool, `SELECT job_id::text FROM pawl.dead_letters`))
			exec(t, pool, `DELETE FROM pawl.dead_letters`)
			exec(t, pool, `DELETE FROM pawl.ready`)
		}
	}
	before := time.Now().Add(-time.Hour)
	require.Equal(t, before, admin.DeadFilter{Until: before}.DiedBefore(time.Now()).Until)
}

func TestRetryJob(t *testing.T) {
	t.Parallel()
	pool, c := open(t)
	keyed := mailed(func(k *taskimpl.Kind[args]) {
		k.Key, k.Keep = func(a *args) []any { return []any{a.N} }, time.Hour
	})
	ids := bury(t, pool, c, keyed, "gone", 3)
	held, taken, gone := ids[0], ids[1], ids[2]
	live := put(t, pool, keyed, args{N: 9}, task.In(time.Hour))
	require.ErrorIs(t, c.RetryJob(t.Context(), live, ""), admin.ErrNotDead)
	require.ErrorIs(t, c.RetryJob(t.Context(), uuid.New(), ""), task.ErrNoJob)

	// Its key is its own again, however long that was to be held.
	require.NoError(t, c.RetryJob(t.Context(), held, "they are back"))
	receipt, err := taskimpl.Enqueue(t.Context(), task.Autocommit(pool), keyed, args{N: 0}, nil)
	require.NoError(t, err)
	require.True(t, receipt.Duplicate)
	require.Equal(t, held, receipt.ID)
	require.Equal(t, task.StatePending, receipt.State)
	exec(t, pool, `UPDATE pawl.idempotency_keys SET expires_at = clock_timestamp() - interval '1 hour'`)
	receipt, err = taskimpl.Enqueue(t.Context(), task.Autocommit(pool), keyed, args{N: 0}, nil)
	require.NoError(t, err)
	require.True(t, receipt.Duplicate)

	// Another job has taken it meanwhile, and then it is over.
	other := put(t, pool, keyed, args{N: 1}, task.In(time.Hour))
	require.ErrorIs(t, c.RetryJob(t.Context(), taken, ""), admin.ErrKeyTaken)
	_, err = c.CancelJob(t.Context(), other, "")
	require.NoError(t, err)
	exec(t, pool, `UPDATE pawl.idempotency_keys SET expires_at = clock_timestamp() - interval '1 hour'`)
	require.NoError(t, c.RetryJob(t.Context(), taken, ""))

	// Retention has taken its history, and a key has been purged.
	exec(t, pool, `DELETE FROM pawl.jobs WHERE id = $1`, gone)
	exec(t, pool, `DELETE FROM pawl.outcomes WHERE job_id = $1`, gone)
	require.NoError(t, c.RetryJob(t.Context(), gone, ""))
	booksAddUp(t, pool)

	job, err := c.Job(t.Context(), held)
	require.NoError(t, err)
	require.Empty(t, job.Errors)
	require.Len(t, job.Lives, 1)
	require.Equal(t, "permanent", job.Lives[0].Code)
	require.Equal(t, 1, job.Lives[0].Attempts)
	require.Len(t, job.Lives[0].Errors, 1)

	stop := work(t, pool, keyed, obey)
	for _, id := range ids { // dead for the second time, of the same
		job := reach(t, c, id, task.StateDead)
		require.Equal(t, 1, job.Attempts)
		require.Len(t, job.Errors, 1)
	}
	stop()
	work(t, pool, keyed, func(context.Context, *task.Job[args]) error { return nil })
	for _, id := range ids {
		require.NoError(t, c.RetryJob(t.Context(), id, ""))
		require.Len(t, reach(t, c, id, task.StateCompleted).Lives, 2)
	}
	booksAddUp(t, pool)
}

// The archive tells of a job's last end, not of one that it has been redriven from.
func TestRetryOfAnArchivedJob(t *testing.T) {
	t.Parallel()
	pool, c := open(t)
	k := mailed()
	archive := func() {
		exec(t, pool, `SELECT pawl.archive_jobs(d.day, '00000000-0000-0000-0000-000000000000', 100) FROM (SELECT DISTINCT day FROM pawl.jobs) d`)
	}
	ids := bury(t, pool, c, k, "gone", 2)
	archive()
	require.Equal(t, 2, query[int](t, pool, `SELECT count(*) FROM pawl.archive WHERE status = 'dead'`))
	exec(t, pool, `DELETE FROM pawl.outcomes`)
	for _, id := range ids {
		require.NoError(t, c.RetryJob(t.Context(), id, ""))
		reach(t, c, id, task.StatePending)
	}
	require.Zero(t, query[int](t, pool, `SELECT count(*) FROM pawl.archive`))
	stop := work(t, pool, k, func(context.Context, *task.Job[args]) error { return nil })
	for _, id := range ids {
		reach(t, c, id, task.StateCompleted)
	}
	stop()
	archive()
	exec(t, pool, `DELETE FROM pawl.outcomes`)
	require.Equal(t, 2, query[int](t, pool, `SELECT count(*) FROM pawl.archive`))
	for _, id := range ids {
		job, err := c.Job(t.Context(), id)
		require.NoError(t, err)
		require.Equal(t, task.StateCompleted, job.State)
		require.Len(t, job.Lives, 1)
	}
}

func TestRetryOfAnOrderKey(t *testing.T) {
	t.Parallel()
	pool, c := open(t)
	k := kind("post", "mail", func(k *taskimpl.Kind[args]) { k.Order = []string{"org"} })
	ids := bury(t, pool, c, k, "gone", 2)
	// Of one there is no history, so that its key is made from its payload again.
	exec(t, pool, `DELETE FROM pawl.jobs WHERE id = $1`, ids[1])
	exec(t, pool, `DELETE FROM pawl.outcomes WHERE job_id = $1`, ids[1])
	var order []uuid.UUID
	waiting := put(t, pool, k, args{N: 5})
	for _, id := range ids {
		require.NoError(t, c.RetryJob(t.Context(), id, ""))
	}
	booksAddUp(t, pool)
	ended := make(chan uuid.UUID, 3)
	work(t, pool, k, func(_ context.Context, job *task.Job[args]) error { ended <- job.ID; return nil })
	for range 3 {
		order = append(order, <-ended)
	}
	require.Equal(t, []uuid.UUID{waiting, ids[0], ids[1]}, order)
	for _, id := range ids {
		reach(t, c, id, task.StateCompleted)
	}
	booksAddUp(t, pool)
}

// Ten first; those fail, and nothing else is touched.
func TestRedriveStopsAtTheCanary(t *testing.T) {
	t.Parallel()
	pool, c := open(t)
	k := mailed()
	ids := bury(t, pool, c, k, "gone", 25)
	var ran atomic.Int64
	work(t, pool, k, func(ctx context.Context, job *task.Job[args]) error {
		ran.Add(1)
		if job.Args.N == 3 {
			return obey(ctx, job)
		}
		return nil
	})
	var states []admin.RedriveState
	run, err := c.Redrive(t.Context(), admin.RedriveOptions{
		Filter: admin.DeadFilter{Message: "410"}, Canary: 10, StopAt: 0.1, Reason: "the receiver is back",
		Progress: func(r admin.Redrive) { states = append(states, r.State) },
	})
	require.ErrorIs(t, err, admin.ErrStopped)
	require.Equal(t, admin.RedriveStopped, run.State)
	require.EqualValues(t, 10, run.Redriven)
	require.EqualValues(t, 1, run.Failed)
	require.GreaterOrEqual(t, run.FailureShare(), 0.1) // it does not wait for the others of the ten
	testdb.Eventually(t, soon, "those to run", func() bool { return ran.Load() == 10 })
	require.Equal(t, admin.RedriveCanary, states[0])
	require.Equal(t, 16, query[int](t, pool, `SELECT count(*) FROM pawl.dead_letters`))
	for i, id := range ids[:10] { // the oldest
		want := task.StateCompleted
		if i == 3 {
			want = task.StateDead
		}
		reach(t, c, id, want)
	}
	booksAddUp(t, pool)

	// Whoever looked into it goes on; what died again is not tried again.
	run, err = c.ContinueRedrive(t.Context(), run.ID, admin.RedriveOptions{Wait: true})
	require.NoError(t, err)
	require.Equal(t, admin.RedriveDone, run.State)
	require.EqualValues(t, 25, run.Redriven)
	require.EqualValues(t, 24, run.Completed)
	require.EqualValues(t, 25, ran.Load())
	require.Equal(t, 1, query[int](t, pool, `SELECT count(*) FROM pawl.dead_letters`))
	_, err = c.ContinueRedrive(t.Context(), run.ID, admin.RedriveOptions{})
	require.ErrorIs(t, err, admin.ErrNoRedrive)
	_, err = c.ContinueRedrive(t.Context(), uuid.New(), admin.RedriveOptions{})
	require.ErrorIs(t, err, admin.ErrNoRedrive)
	audit, err := c.Audit(t.Context(), admin.Page{})
	require.NoError(t, err)
	require.Len(t, audit.Entries, 1)
	require.EqualValues(t, 25, audit.Entries[0].Things)
	require.Equal(t, "the receiver is back", audit.Entries[0].Reason)
	all, err := c.Redrives(t.Context(), 10)
	require.NoError(t, err)
	require.Equal(t, []admin.Redrive{*run}, all)
}

// What somebody has gone on in spite of stays forgiven, whoever follows.
func TestContinueAgain(t *testing.T) {
	t.Parallel()
	pool, c := open(t)
	k := mailed()
	bury(t, pool, c, k, "gone", 30)
	stop := work(t, pool, k, obey)
	run, err := c.Redrive(t.Context(), admin.RedriveOptions{Filter: admin.DeadFilter{Message: "410"}, Canary: 10, StopAt: 0.1})
	require.ErrorIs(t, err, admin.ErrStopped)
	testdb.Eventually(t, soon, "the canary to be dead again", func() bool {
		return query[int](t, pool, `SELECT count(*) FROM pawl.dead_letters`) == 30
	})
	stop()

	// The one who goes on is interrupted, and the next one has not seen it stopped.
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	run, err = c.ContinueRedrive(ctx, run.ID, admin.RedriveOptions{Progress: func(admin.Redrive) { cancel() }})
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, admin.RedriveRunning, run.State)
	require.True(t, run.EndedAt.IsZero())
	work(t, pool, k, func(context.Context, *task.Job[args]) error { return nil })
	run, err = c.ContinueRedrive(t.Context(), run.ID, admin.RedriveOptions{Wait: true})
	require.NoError(t, err)
	require.Equal(t, admin.RedriveDone, run.State)
	require.EqualValues(t, 30, run.Redriven)
	require.EqualValues(t, 20, run.Completed)
	booksAddUp(t, pool)
}

// A canary that does well lets the others go, at their rate, and too many failures
// stop those.
func TestRedriveStopsLater(t *testing.T) {
	t.Parallel()
	pool, c := open(t)
	k := mailed()
	const letters = 120 // five seconds, of which the database needs one to tell of the failures
	bury(t, pool, c, k, "gone", letters)
	var started atomic.Int64
	work(t, pool, k, func(ctx context.Context, job *task.Job[args]) error {
		if started.Add(1) > 5 { // letters of one moment are in no order
			return obey(ctx, job)
		}
		return nil
	})
	began := time.Now()
	run, err := c.Redrive(t.Context(), admin.RedriveOptions{Filter: admin.DeadFilter{All: true}, Canary: 5, StopAt: 0.5, Rate: 20})
	require.ErrorIs(t, err, admin.ErrStopped)
	require.Less(t, run.Redriven, int64(letters))
	require.GreaterOrEqual(t, run.Redriven, int64(10))
	require.GreaterOrEqual(t, time.Since(began), 200*time.Millisecond)
	require.EqualValues(t, 5, run.Completed)
	booksAddUp(t, pool)
}

func TestRedriveOfFewer(t *testing.T) {
	t.Parallel()
	pool, c := open(t)
	k := mailed()
	bury(t, pool, c, k, "gone", 4)
	work(t, pool, k, func(context.Context, *task.Job[args]) error { return nil })
	run, err := c.Redrive(t.Context(), admin.RedriveOptions{Filter: admin.DeadFilter{All: true}, Canary: 10, StopAt: 0.1, Attempts: 7})
	require.NoError(t, err)
	require.EqualValues(t, 4, run.Completed)
	require.Equal(t, admin.RedriveDone, run.State)
	require.Equal(t, 4, query[int](t, pool, `SELECT count(*) FROM pawl.jobs WHERE max_attempts = 7`))
	none, err := c.Redrive(t.Context(), admin.RedriveOptions{Filter: admin.DeadFilter{All: true}, Canary: 10})
	require.NoError(t, err)
	require.Zero(t, none.Redriven)

	for name, opts := range map[string]admin.RedriveOptions{
		"canary": {Canary: -1}, "rate": {Rate: -1}, "a huge rate": {Rate: 1e19}, "no rate": {Rate: math.NaN()}, "no end": {Rate: math.Inf(1)}, "share": {StopAt: 1.1}, "attempts": {Attempts: 40_000},
	} {
		opts.Filter.All = true
		_, err := c.Redrive(t.Context(), opts)
		require.ErrorIs(t, err, admin.ErrInvalid, name)
	}
	_, err = c.Redrive(t.Context(), admin.RedriveOptions{})
	require.ErrorIs(t, err, admin.ErrNoFilter)
}

// Two that go on with the same redrive, and one of its own over the same letters,
// redrive each once.
func TestRedrivesTogether(t *testing.T) {
	t.Parallel()
	pool, c := open(t, testdb.MaxConns(16))
	k := mailed()
	bury(t, pool, c, k, "gone", 3)
	exec(t, pool, `INSERT INTO pawl.dead_letters (job_id, kind, queue, version, capability, priority, organization_id, attempts, max_attempts, code, summary, enqueued_at, died_at, args)
		SELECT gen_random_uuid(), d.kind, d.queue, d.version, d.capability, d.priority, d.organization_id, 1, 3, d.code, d.summary, d.enqueued_at, d.died_at, jsonb_build_object('n', n)
		FROM (SELECT * FROM pawl.dead_letters LIMIT 1) d, generate_series(1, 997) n`)
	ctx, cancel := context.WithCancel(t.Context())
	run, err := c.Redrive(ctx, admin.RedriveOptions{Filter: admin.DeadFilter{Kind: "send_mail"}, Progress: func(r admin.Redrive) {
		if r.Redriven > 0 {
			cancel()
		}
	}})
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, admin.RedriveRunning, run.State)
	done := make(chan error, 3)
	for range 2 {
		go func() {
			_, err := c.ContinueRedrive(t.Context(), run.ID, admin.RedriveOptions{})
			if errors.Is(err, admin.ErrNoRedrive) { // the other one was faster
				err = nil
			}
			done <- err
		}()
	}
	go func() {
		_, err := c.Redrive(t.Context(), admin.RedriveOptions{Filter: admin.DeadFilter{All: true}})
		done <- err
	}()
	for range 3 {
		require.NoError(t, <-done)
	}
	require.Zero(t, query[int](t, pool, `SELECT count(*) FROM pawl.dead_letters`))
	require.Equal(t, 1000, query[int](t, pool, `SELECT count(*) FROM pawl.ready`))
	require.Equal(t, 1000, query[int](t, pool, `SELECT count(DISTINCT job_id) FROM pawl.redriven`))
	require.Equal(t, 1000, query[int](t, pool, `SELECT sum(redriven) FROM pawl.redrives`))
	require.Equal(t, 1000, query[int](t, pool, `SELECT sum(things) FROM pawl.audit`))
	booksAddUp(t, pool)
}
