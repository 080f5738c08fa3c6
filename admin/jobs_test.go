package admin_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/pawlgo/pawl/admin"
	"github.com/pawlgo/pawl/internal/testdb"
	"github.com/pawlgo/pawl/task"
	"github.com/pawlgo/pawl/task/taskimpl"
)

// pages walks through a list, a few at a time.
func pages(t *testing.T, c *admin.Client, f admin.JobFilter, page admin.Page) (ids []uuid.UUID, n int) {
	t.Helper()
	for {
		list, err := c.Jobs(t.Context(), f, page)
		require.NoError(t, err)
		for _, j := range list.Jobs {
			require.NotContains(t, ids, j.ID, "%v: a job is on two pages", f)
			ids = append(ids, j.ID)
		}
		n++
		require.Less(t, n, 1000)
		if page.Cursor = list.Next; page.Cursor == "" {
			return ids, n
		}
	}
}

func TestJobsOfEachState(t *testing.T) {
	t.Parallel()
	pool, c := open(t)
	k := mailed(func(k *taskimpl.Kind[args]) { k.Policy.Base, k.Policy.Max = time.Hour, time.Hour })
	ordered := kind("post", "mail", func(k *taskimpl.Kind[args]) { k.Order = []string{"org"} })
	newer := mailed(func(k *taskimpl.Kind[args]) {
		k.Version = 2
		k.Capabilities = []taskimpl.Capability{{Version: 2, ID: 99}}
	})
	want := map[task.State][]uuid.UUID{}
	for range 5 {
		want[task.StateDead] = append(want[task.StateDead], put(t, pool, k, args{Mode: "gone"}))
		want[task.StateRetrying] = append(want[task.StateRetrying], put(t, pool, k, args{Mode: "retry"}))
		want[task.StateCompleted] = append(want[task.StateCompleted], put(t, pool, k, args{}))
		want[task.StateLeased] = append(want[task.StateLeased], put(t, pool, k, args{Mode: "hang"}))
	}
	work(t, pool, k, obey)
	for state, ids := range want {
		for _, id := range ids {
			reach(t, c, id, state)
		}
	}
	_, err := c.PauseQueue(t.Context(), "mail", "")
	require.NoError(t, err)
	for range 5 {
		want[task.StatePending] = append(want[task.StatePending], put(t, pool, k, args{}))
		want[task.StateScheduled] = append(want[task.StateScheduled], put(t, pool, k, args{}, task.In(time.Hour)))
		want[admin.StateStranded] = append(want[admin.StateStranded], put(t, pool, newer, args{}))
		cancelled := put(t, pool, k, args{})
		_, err := c.CancelJob(t.Context(), cancelled, "")
		require.NoError(t, err)
		want[task.StateCancelled] = append(want[task.StateCancelled], cancelled)
		quarantined := put(t, pool, k, args{})
		exec(t, pool, `DELETE FROM pawl.ready WHERE id = $1`, quarantined)
		exec(t, pool, `INSERT INTO pawl.quarantine VALUES ($1, 1, 'mail', 0, clock_timestamp(), 'a test')`, quarantined)
		want[admin.StateQuarantined] = append(want[admin.StateQuarantined], quarantined)
		lost := put(t, pool, k, args{})
		exec(t, pool, `DELETE FROM pawl.ready WHERE id = $1`, lost)
		want[admin.StateLost] = append(want[admin.StateLost], lost)
	}
	// It waits, and not for a time that its history knows.
	moved := put(t, pool, k, args{}, task.In(time.Hour))
	exec(t, pool, `UPDATE pawl.ready SET run_at = clock_timestamp() WHERE id = $1`, moved)
	want[task.StatePending] = append(want[task.StatePending], moved)
	put(t, pool, ordered, args{Org: "a"})
	for range 5 {
		want[task.StateBlocked] = append(want[task.StateBlocked], put(t, pool, ordered, args{Org: "a"}))
	}
	all := 1
	for _, state := range admin.States() {
		ids, n := pages(t, c, admin.JobFilter{State: state}, admin.Page{Limit: 2})
		if state == task.StateBlocked { // the first of its key has no turn yet
			ids = slices.DeleteFunc(ids, func(id uuid.UUID) bool { return !slices.Contains(want[state], id) })
		} else {
			require.GreaterOrEqual(t, n, 3)
		}
		require.ElementsMatch(t, want[state], ids, "%s", state)
		all += len(ids)
		list, err := c.Jobs(t.Context(), admin.JobFilter{State: state}, admin.Page{})
		require.NoError(t, err)
		for _, j := range list.Jobs {
			if slices.Contains(want[state], j.ID) {
				require.Equal(t, state, j.State)
			}
		}
		for _, id := range ids {
			job, err := c.Job(t.Context(), id)
			require.NoError(t, err)
			require.Equal(t, state, job.State)
		}
	}
	ids, _ := pages(t, c, admin.JobFilter{}, admin.Page{Limit: 7})
	require.Len(t, ids, all)
	for _, f := range []admin.JobFilter{{State: "weird"}, {Args: []admin.ArgFilter{{Path: []string{"a", ""}, Value: json.RawMessage("1")}}}} {
		_, err = c.Jobs(t.Context(), f, admin.Page{})
		require.ErrorIs(t, err, admin.ErrInvalid)
	}
	list, err := c.Jobs(t.Context(), admin.JobFilter{State: task.StateDead}, admin.Page{Limit: 2})
	require.NoError(t, err)
	for _, cursor := range []string{list.Next, "nonsense", "e30"} {
		_, err = c.Jobs(t.Context(), admin.JobFilter{State: task.StatePending}, admin.Page{Cursor: cursor})
		require.ErrorIs(t, err, admin.ErrCursor)
	}

	queues, err := c.Queues(t.Context())
	require.NoError(t, err)
	require.Len(t, queues, 1)
	require.EqualValues(t, 5, queues[0].Leased)
	require.EqualValues(t, 11, queues[0].Due.N) // stranded ones too
	require.EqualValues(t, 10, queues[0].Later.N)
	require.EqualValues(t, 6, queues[0].Blocked.N)
	require.False(t, queues[0].PausedAt.IsZero())
	require.Equal(t, 1, queues[0].Workers)
	status, err := c.Status(t.Context())
	require.NoError(t, err)
	require.Equal(t, admin.Count{N: 5}, status.Dead)
	require.Equal(t, 1, status.Workers)
	require.Equal(t, 5, status.Quarantined)
	require.Equal(t, status.Binary, status.Migration)
}

// Suspects come first, whatever their queues are called, and a page that ends with
// one of them is followed by all of the others.
func TestJobsAfterSuspects(t *testing.T) {
	t.Parallel()
	pool, c := open(t)
	var suspects, others []uuid.UUID
	for _, queue := range []string{"a", "m", "z"} {
		for _, priority := range []task.PriorityLevel{task.Low, task.High} {
			k := kind("visit_"+queue, queue, func(k *taskimpl.Kind[args]) { k.Priority = priority })
			for i := range 2 {
				others = append(others, put(t, pool, k, args{N: i}))
				if queue != "a" {
					suspects = append(suspects, put(t, pool, k, args{N: i}))
				}
			}
		}
	}
	exec(t, pool, `UPDATE pawl.ready SET suspect = true WHERE id = ANY ($1)`, suspects)
	for limit := 1; limit <= 8; limit++ {
		for _, page := range []admin.Page{{Limit: limit}, {Budget: limit}} {
			ids, _ := pages(t, c, admin.JobFilter{State: task.StatePending}, page)
			require.Len(t, ids, len(suspects)+len(others), "%+v", page)
			require.ElementsMatch(t, suspects, ids[:len(suspects)], "%+v", page)
			require.ElementsMatch(t, others, ids[len(suspects):], "%+v", page)
		}
	}
	ids, _ := pages(t, c, admin.JobFilter{State: task.StatePending, Queue: "z"}, admin.Page{Limit: 1})
	require.ElementsMatch(t, slices.Concat(suspects[4:], others[8:]), ids)
}

func TestJobsOfFilters(t *testing.T) {
	t.Parallel()
	pool, c := openOwned(t)
	mail, fax := mailed(), kind("send_fax", "fax")
	var mails, faxes []uuid.UUID
	for i := range 30 {
		mails = append(mails, put(t, pool, mail, args{N: i, Org: fmt.Sprintf("o%d", i%3)}))
		faxes = append(faxes, put(t, pool, fax, args{N: i, Mode: `it's "so"\`}))
	}
	ofMode, err := admin.ParseArg(`mode=it's "so"\`)
	require.NoError(t, err)
	seven, err := admin.ParseArg("n=7")
	require.NoError(t, err)
	nested, err := admin.ParseArg("a.0.b=true")
	require.NoError(t, err)
	require.Equal(t, admin.ArgFilter{Path: []string{"a", "0", "b"}, Value: json.RawMessage("true")}, nested)
	for _, wrong := range []string{"", "n", "=1", "a..b=1", "a=\x00"} {
		_, err := admin.ParseArg(wrong)
		require.ErrorIs(t, err, admin.ErrInvalid, "%q", wrong)
	}
	for _, x := range []struct {
		filter admin.JobFilter
		want   []uuid.UUID
	}{
		{admin.JobFilter{Kind: "send_mail"}, mails},
		{admin.JobFilter{Queue: "fax"}, faxes},
		{admin.JobFilter{Queue: "fax", State: task.StatePending}, faxes},
		{admin.JobFilter{Queue: "mail", State: task.StatePending, Args: []admin.ArgFilter{seven}}, mails[7:8]},
		{admin.JobFilter{Args: []admin.ArgFilter{ofMode}}, faxes},
		{admin.JobFilter{Args: []admin.ArgFilter{seven, ofMode}}, faxes[7:8]},
		{admin.JobFilter{OrganizationID: "o1", Args: []admin.ArgFilter{seven}}, mails[7:8]},
		{admin.JobFilter{OrganizationID: "o2", Args: []admin.ArgFilter{seven}}, nil},
		{admin.JobFilter{Kind: `x' OR true; --\`}, nil},
		{admin.JobFilter{ErrorCode: "permanent"}, nil},
	} {
		for _, page := range []admin.Page{{}, {Limit: 3}, {Limit: 5, Budget: 4}, {Budget: 7}} {
			ids, _ := pages(t, c, x.filter, page)
			require.ElementsMatch(t, x.want, ids, "%+v %+v", x.filter, page)
		}
	}
	list, err := c.Jobs(t.Context(), admin.JobFilter{Kind: "nothing"}, admin.Page{Budget: 20})
	require.NoError(t, err)
	require.Empty(t, list.Jobs)
	require.Equal(t, 20, list.Looked)
	require.NotEmpty(t, list.Next)

	// Failures have a code, of the last attempt.
	dead := bury(t, pool, c, mail, "gone", 3)
	for _, f := range []admin.JobFilter{{ErrorCode: "permanent"}, {ErrorCode: "permanent", State: task.StateDead}} {
		ids, _ := pages(t, c, f, admin.Page{Limit: 2})
		require.ElementsMatch(t, dead, ids)
	}
	ids, _ := pages(t, c, admin.JobFilter{ErrorCode: "transient"}, admin.Page{})
	require.Empty(t, ids)
}

func TestJobDetail(t *testing.T) {
	t.Parallel()
	k := mailed()
	pool, c := openOwned(t, k)
	_, err := c.Job(t.Context(), uuid.New())
	require.ErrorIs(t, err, task.ErrNoJob)
	long := put(t, pool, k, args{Mode: strings.Repeat("x", 5000), Org: "acme"})
	job, err := c.Job(t.Context(), long)
	require.NoError(t, err)
	require.Greater(t, len(job.Args), 5000)
	require.Len(t, job.Args, job.ArgsSize)
	require.Equal(t, "acme", job.OrganizationID)
	list, err := c.Jobs(t.Context(), admin.JobFilter{}, admin.Page{})
	require.NoError(t, err)
	require.Less(t, len(list.Jobs[0].Args), 1000)
	require.Equal(t, job.ArgsSize, list.Jobs[0].ArgsSize)

	id := put(t, pool, k, args{Mode: "retry"})
	work(t, pool, k, obey)
	dead := reach(t, c, id, task.StateDead)
	require.Len(t, dead.Errors, 3)
	require.Equal(t, []int{1, 2, 3}, []int{dead.Errors[0].Attempt, dead.Errors[1].Attempt, dead.Errors[2].Attempt})
	require.Equal(t, "transient", dead.ErrorCode)
	require.False(t, dead.Errors[0].RetryAt.IsZero())
	require.True(t, dead.Errors[2].RetryAt.IsZero())
	text, err := json.Marshal(dead)
	require.NoError(t, err)
	require.Regexp(t, `"capability":"[0-9a-f]{16}"`, string(text))
}

func TestRunJobNow(t *testing.T) {
	t.Parallel()
	pool, c := open(t)
	k := mailed(func(k *taskimpl.Kind[args]) { k.Policy.Base, k.Policy.Max = time.Hour, time.Hour })
	ordered := kind("post", "mail", func(k *taskimpl.Kind[args]) { k.Order = []string{"org"} })
	future := put(t, pool, k, args{}, task.In(time.Hour))
	retried := put(t, pool, k, args{Mode: "retry"})
	snoozed := put(t, pool, k, args{N: 1}, task.In(time.Minute))
	exec(t, pool, `UPDATE pawl.ready SET run_at = run_at + interval '1 hour' WHERE id = $1`, snoozed)
	work(t, pool, k, obey)
	work(t, pool, ordered, obey)
	reach(t, c, retried, task.StateRetrying)

	state, err := c.RunJobNow(t.Context(), future, "impatience")
	require.NoError(t, err)
	require.Equal(t, task.StatePending, state)
	reach(t, c, future, task.StateCompleted)
	_, err = c.RunJobNow(t.Context(), snoozed, "")
	require.NoError(t, err)
	reach(t, c, snoozed, task.StateCompleted)
	before, err := c.Job(t.Context(), retried)
	require.NoError(t, err)
	require.Len(t, before.Errors, 1)
	_, err = c.RunJobNow(t.Context(), retried, "")
	require.NoError(t, err)
	testdb.Eventually(t, soon, "a second attempt", func() bool {
		job, err := c.Job(t.Context(), retried)
		require.NoError(t, err)
		return len(job.Errors) == 2
	})

	// One that is in front of its order key, and one behind it.
	first := put(t, pool, ordered, args{Org: "a"}, task.In(time.Hour))
	second := put(t, pool, ordered, args{Org: "a"}, task.In(2*time.Hour))
	reach(t, c, first, task.StateScheduled)
	testdb.Eventually(t, soon, "its turn", func() bool { return query[bool](t, pool, `SELECT head FROM pawl.ordered WHERE job_id = $1`, first) })
	state, err = c.RunJobNow(t.Context(), second, "")
	require.NoError(t, err)
	require.Equal(t, task.StateBlocked, state)
	_, err = c.RunJobNow(t.Context(), first, "")
	require.NoError(t, err)
	reach(t, c, second, task.StateCompleted)

	_, err = c.RunJobNow(t.Context(), first, "")
	require.ErrorIs(t, err, admin.ErrNoWait)
	_, err = c.RunJobNow(t.Context(), uuid.New(), "")
	require.ErrorIs(t, err, task.ErrNoJob)
	booksAddUp(t, pool)

	audit, err := c.Audit(t.Context(), admin.Page{Limit: 3})
	require.NoError(t, err)
	require.Len(t, audit.Entries, 3)
	rest, err := c.Audit(t.Context(), admin.Page{Cursor: audit.Next})
	require.NoError(t, err)
	require.Len(t, rest.Entries, 2) // what was refused changed nothing
	first0 := rest.Entries[len(rest.Entries)-1]
	require.Equal(t, "run job now", first0.Verb)
	require.Equal(t, "alice", first0.By)
	require.Equal(t, "impatience", first0.Reason)
	require.EqualValues(t, 1, first0.Things)
	require.JSONEq(t, fmt.Sprintf(`{"job": %q}`, future), first0.Target)
}

// A job in the backoff after a failure is shown with its new time, and as what it is,
// wherever one looks.
func TestRunJobNowInLists(t *testing.T) {
	t.Parallel()
	pool, c := open(t)
	k := mailed(func(k *taskimpl.Kind[args]) { k.Policy.Base, k.Policy.Max = time.Hour, time.Hour })
	id := put(t, pool, k, args{Mode: "retry"})
	stop := work(t, pool, k, obey)
	before := reach(t, c, id, task.StateRetrying)
	stop()
	_, err := c.RunJobNow(t.Context(), id, "")
	require.NoError(t, err)
	job, err := c.Job(t.Context(), id)
	require.NoError(t, err)
	require.Equal(t, job.RunAt, job.Errors[0].RetryAt)
	require.True(t, job.RunAt.Before(before.RunAt))
	for _, f := range []admin.JobFilter{{}, {State: task.StateRetrying}, {ErrorCode: "transient"}} {
		list, err := c.Jobs(t.Context(), f, admin.Page{})
		require.NoError(t, err)
		require.Len(t, list.Jobs, 1, "%+v", f)
		require.Equal(t, task.StateRetrying, list.Jobs[0].State, "%+v", f)
		require.Equal(t, job.RunAt, list.Jobs[0].RunAt, "%+v", f)
	}
	require.Equal(t, "retrying", query[string](t, pool, `SELECT status FROM pawl.job_status`))
}

// A job that is due already is not changed, which leaves no row in the audit.
func TestRunJobNowOfADueJob(t *testing.T) {
	t.Parallel()
	pool, c := open(t)
	later := put(t, pool, mailed(), args{}, task.In(time.Hour))
	due := put(t, pool, mailed(), args{})
	for range 2 {
		for _, id := range []uuid.UUID{later, due} {
			state, err := c.RunJobNow(t.Context(), id, "")
			require.NoError(t, err)
			require.Equal(t, task.StatePending, state)
		}
	}
	audit, err := c.Audit(t.Context(), admin.Page{})
	require.NoError(t, err)
	require.Len(t, audit.Entries, 1)
	require.JSONEq(t, fmt.Sprintf(`{"job": %q}`, later), audit.Entries[0].Target)
}

// A change and its entry in the audit are one transaction.
func TestNoChangeWithoutAudit(t *testing.T) {
	t.Parallel()
	pool, c := open(t)
	k := mailed()
	dead := bury(t, pool, c, k, "gone", 1)[0]
	id := put(t, pool, k, args{}, task.In(time.Hour))
	exec(t, pool, `ALTER TABLE pawl.audit ADD CONSTRAINT nobody CHECK (made_by <> 'alice')`)
	for name, change := range map[string]func() error{
		"cancel": func() error { _, err := c.CancelJob(t.Context(), id, ""); return err },
		"run":    func() error { _, err := c.RunJobNow(t.Context(), id, ""); return err },
		"retry":  func() error { return c.RetryJob(t.Context(), dead, "") },
		"pause":  func() error { _, err := c.PauseQueue(t.Context(), "mail", ""); return err },
		"redrive": func() error {
			_, err := c.Redrive(t.Context(), admin.RedriveOptions{Filter: admin.DeadFilter{All: true}})
			return err
		},
		"purge": func() error {
			_, err := c.PurgeDead(t.Context(), admin.DeadFilter{All: true}, "", nil)
			return err
		},
	} {
		require.ErrorContains(t, change(), "nobody", name)
	}
	for id, want := range map[uuid.UUID]task.State{id: task.StateScheduled, dead: task.StateDead} {
		job, err := c.Job(t.Context(), id)
		require.NoError(t, err)
		require.Equal(t, want, job.State)
	}
	require.Zero(t, query[int](t, pool, `SELECT count(*) FROM pawl.paused_queues`))
	require.Equal(t, 1, query[int](t, pool, `SELECT count(*) FROM pawl.dead_letters`))
	booksAddUp(t, pool)
}
