package admin_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/pawlgo/pawl/admin"
	"github.com/pawlgo/pawl/internal/testdb"
	"github.com/pawlgo/pawl/task"
	"github.com/pawlgo/pawl/task/taskimpl"
)

// A viewer sees everything but payloads and changes nothing; an operator does what
// operators do, with a row of the audit each, and sees no more.
func TestViewersAndOperators(t *testing.T) {
	t.Parallel()
	pool, owner := openOwned(t)
	k := mailed()
	work(t, pool, k, obey)
	dead := put(t, pool, k, args{N: 1, Mode: "gone"})
	late := put(t, pool, k, args{N: 2}, task.In(time.Hour))
	keyed := put(t, pool, kind("bill", "bills", func(k *taskimpl.Kind[args]) {
		k.Order = []string{"org"}
		k.Key, k.Keep = func(a *args) []any { return []any{a.N} }, time.Hour
	}), args{N: 4})
	detail, err := owner.Job(t.Context(), keyed)
	require.NoError(t, err)
	require.NotEmpty(t, detail.OrderKey)
	later := put(t, pool, k, args{N: 3}, task.In(2*time.Hour))
	testdb.Eventually(t, soon, "the letter", func() bool {
		list, err := owner.Jobs(t.Context(), admin.JobFilter{State: task.StateDead}, admin.Page{})
		require.NoError(t, err)
		return len(list.Jobs) == 1
	})
	viewer := admin.New(testdb.As(t, pool, testdb.Viewer), admin.Options{By: "v"})
	operator := admin.New(testdb.As(t, pool, testdb.Operator), admin.Options{By: "o"})
	refused := func(err error) {
		t.Helper()
		pgErr, ok := errors.AsType[*pgconn.PgError](err)
		require.True(t, ok, "%v", err)
		require.Equal(t, "42501", pgErr.Code)
	}
	for _, c := range []*admin.Client{viewer, operator} {
		for _, state := range append(admin.States(), "") {
			list, err := c.Jobs(t.Context(), admin.JobFilter{State: state}, admin.Page{})
			require.NoError(t, err, state)
			for _, j := range list.Jobs {
				require.Equal(t, "[not granted]", j.Args)
			}
		}
		ofN := []admin.ArgFilter{{Path: []string{"n"}, Value: []byte("1")}}
		_, err := c.Jobs(t.Context(), admin.JobFilter{Args: ofN}, admin.Page{})
		require.ErrorIs(t, err, admin.ErrNoPayloads)
		_, err = c.Dead(t.Context(), admin.DeadFilter{Args: ofN}, admin.Page{})
		require.ErrorIs(t, err, admin.ErrNoPayloads)
		_, err = c.PurgeDead(t.Context(), admin.DeadFilter{Args: ofN}, "", nil)
		require.ErrorIs(t, err, admin.ErrNoPayloads)
		_, err = c.Redrive(t.Context(), admin.RedriveOptions{Filter: admin.DeadFilter{Args: ofN}})
		require.ErrorIs(t, err, admin.ErrNoPayloads)
		detail, err := c.Job(t.Context(), dead)
		require.NoError(t, err)
		require.NotEmpty(t, detail.Errors)
		detail, err = c.Job(t.Context(), keyed)
		require.NoError(t, err)
		require.Empty(t, detail.Key+detail.OrderKey)
		versions, err := c.Verify(t.Context())
		require.NoError(t, err)
		require.True(t, versions.Unread)
		require.NotEmpty(t, versions.Versions)
		require.Zero(t, versions.Versions[0].Checked)
		checks, err := c.Doctor(t.Context(), admin.DoctorOptions{Full: true})
		require.NoError(t, err)
		i := slices.IndexFunc(checks, func(x admin.Check) bool { return x.Name == "books" })
		require.Equal(t, admin.FindingOK, checks[i].Finding, checks[i].Text)
		for _, list := range []func() error{
			func() error { _, err := c.Workers(t.Context()); return err },
			func() error { _, err := c.Queues(t.Context()); return err },
			func() error { _, err := c.Schedules(t.Context()); return err },
			func() error { _, err := c.Events(t.Context(), admin.EventFilter{}, admin.Page{}); return err },
			func() error { _, err := c.DeadGroups(t.Context(), admin.Page{}); return err },
			func() error { _, err := c.Redrives(t.Context(), 10); return err },
			func() error {
				_, err := c.TouchDead(t.Context(), admin.DeadFilter{All: true}, admin.Page{})
				return err
			},
			func() error { _, err := c.Audit(t.Context(), admin.Page{}); return err },
			func() error { _, err := c.Migrations(t.Context()); return err },
		} {
			require.NoError(t, list())
		}
		_, err = c.Why(t.Context(), late)
		require.NoError(t, err)
		_, err = c.Status(t.Context())
		require.NoError(t, err)
	}
	_, err = viewer.CancelJob(t.Context(), late, "no")
	refused(err)
	state, err := operator.CancelJob(t.Context(), late, "it is wrong")
	require.NoError(t, err)
	require.Equal(t, task.StateCancelled, state)
	_, err = operator.RunJobNow(t.Context(), later, "it is urgent")
	require.NoError(t, err)
	require.Equal(t, 2, query[int](t, pool, `SELECT count(*) FROM `+`pawl.audit WHERE made_by = 'o' AND role = '`+testdb.Operator+`'`))
}

// What is tagged is not shown, and what nobody has declared is not either.
func TestRedaction(t *testing.T) {
	t.Parallel()
	pool, c := openOwned(t)
	shows := func(k *taskimpl.Kind[args], a args, want string) {
		t.Helper()
		job, err := c.Job(t.Context(), put(t, pool, k, a, task.In(time.Hour)))
		require.NoError(t, err)
		require.Equal(t, want, job.Args)
	}
	version := func(n int) func(*taskimpl.Kind[args]) {
		return func(k *taskimpl.Kind[args]) {
			k.Version, k.Capabilities = n, []taskimpl.Capability{{Version: n, ID: 98 + uint64(n)}}
		}
	}
	open := mailed(version(2))
	secret := kind("secret", "secrets", func(k *taskimpl.Kind[args]) { k.Redact = `[["mode"]]` })
	shows(open, args{N: 1}, `"[not declared]"`)
	shows(secret, args{N: 1, Mode: "pin"}, `"[not declared]"`)
	work(t, pool, secret, obey)
	testdb.Eventually(t, soon, "the worker to say so", func() bool { return query[int](t, pool, `SELECT count(*) FROM pawl.kinds`) == 1 })
	shows(secret, args{N: 1, Mode: "pin"}, `{"n": 1, "mode": "[redacted]"}`)
	shows(secret, args{N: 1}, `{"n": 1}`)
	shows(open, args{N: 1}, `"[not declared]"`)
	work(t, pool, open, obey)
	testdb.Eventually(t, soon, "the worker to register", func() bool { return query[int](t, pool, `SELECT count(*) FROM pawl.kinds`) == 2 })
	shows(open, args{N: 1}, `{"n": 1}`)
	shows(mailed(), args{N: 1}, `{"n": 1}`) // an earlier version of what hides nothing
	shows(mailed(version(3)), args{N: 1}, `"[not declared]"`)
	shows(kind("secret", "secrets", version(2)), args{N: 1, Mode: "pin"}, `"[not declared]"`)

	// A program that has the declarations itself.
	next := mailed(version(3))
	next.Redact = `[["mode"]]`
	c = admin.New(pool, admin.Options{Tables: []task.Table{taskimpl.Table(taskimpl.Row(next, obey))}})
	shows(next, args{N: 1, Mode: "pin"}, `{"n": 1, "mode": "[redacted]"}`)
}

// The paths lead through arrays, objects and what is not made as they say.
func TestMasked(t *testing.T) {
	t.Parallel()
	pool, _ := open(t)
	for _, x := range []struct{ value, path, want string }{
		{`{"a": 1, "b": 2}`, `["a"]`, `{"a": "[redacted]", "b": 2}`},
		{`{"A": 1}`, `["a"]`, `{"A": "[redacted]"}`},
		{`{"a": null}`, `["a"]`, `{"a": "[redacted]"}`},
		{`{"a": null}`, `["a", "b"]`, `{"a": null}`},
		{`{"a": {"b": 1, "c": 2}}`, `["a", "b"]`, `{"a": {"b": "[redacted]", "c": 2}}`},
		{`{"a": [{"b": 1}, {"c": 2}, 3, null]}`, `["a", "", "b"]`, `{"a": [{"b": "[redacted]"}, {"c": 2}, "[redacted]", null]}`},
		{`{"a": {"x": {"b": 1}}}`, `["a", "", "b"]`, `{"a": {"x": {"b": "[redacted]"}}}`},
		{`{"a": "4111"}`, `["a", "b"]`, `{"a": "[redacted]"}`},
		{`{"a": [], "b": {}}`, `["a", ""]`, `{"a": [], "b": {}}`},
		{`[1, 2]`, `["a"]`, `"[redacted]"`},
		{`{}`, `["a"]`, `{}`},
	} {
		var got string
		require.NoError(t, pool.QueryRow(t.Context(), `SELECT pawl.masked($1::text::jsonb, $2::text::jsonb, 0)::text`, x.value, x.path).Scan(&got))
		require.Equal(t, x.want, got, "%s in %s", x.path, x.value)
	}
}
