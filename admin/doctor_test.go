package admin_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawlgo/pawl/admin"
	"github.com/pawlgo/pawl/internal/testdb"
	"github.com/pawlgo/pawl/migrations"
	"github.com/pawlgo/pawl/task"
	"github.com/pawlgo/pawl/task/taskimpl"
)

func TestDoctor(t *testing.T) {
	t.Parallel()
	empty := admin.New(testdb.New(t), admin.Options{})
	checks, err := empty.Doctor(t.Context(), admin.DoctorOptions{})
	require.NoError(t, err)
	require.Equal(t, admin.FindingFail, admin.Worst(checks))
	require.Len(t, checks, 2)
	_, err = empty.Jobs(t.Context(), admin.JobFilter{}, admin.Page{})
	require.ErrorIs(t, err, task.ErrNotMigrated)

	pool := testdb.Migrated(t)
	c := admin.New(pool, admin.Options{})
	check := func(name string) (all []admin.Check) {
		checks, err := c.Doctor(t.Context(), admin.DoctorOptions{Full: true})
		require.NoError(t, err)
		for _, x := range checks {
			if x.Name == name {
				all = append(all, x)
			}
		}
		require.NotEmpty(t, all, name)
		return all
	}
	require.Equal(t, admin.FindingWarn, check("workers")[0].Finding)
	require.Equal(t, admin.FindingOK, check("books")[0].Finding)
	id := put(t, pool, mailed(), args{})
	require.Equal(t, admin.FindingFail, check("workers")[0].Finding)
	exec(t, pool, `DELETE FROM pawl.ready`)
	require.Equal(t, admin.FindingFail, check("books")[0].Finding)
	require.Contains(t, check("books")[0].Text, id.String())

	// Who holds back vacuum, if the clock says that it has for long.
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	defer tx.Rollback(context.WithoutCancel(t.Context()))
	_, err = tx.Exec(t.Context(), `SELECT pg_current_xact_id()`)
	require.NoError(t, err)
	require.Equal(t, admin.FindingOK, check("vacuum horizon")[0].Finding)
	require.Contains(t, check("vacuum horizon")[0].Text, "nobody holds back vacuum for")

	exec(t, pool, `ALTER TABLE pawl.ready SET (autovacuum_enabled = false)`)
	require.Contains(t, check("autovacuum")[0].Text, "table ready")
	exec(t, pool, `INSERT INTO pawl.migrations VALUES ($1, 'next')`, migrations.Version()+1)
	require.Equal(t, admin.FindingWarn, check("schema")[0].Finding)

}

// The check of rights is about what a role is for. What it advises takes none away.
func TestDoctorOfRights(t *testing.T) {
	t.Parallel()
	pool := testdb.Migrated(t)
	check := func(as string) admin.Check {
		t.Helper()
		from := pool
		if as != "" {
			from = testdb.As(t, pool, as)
		}
		checks, err := admin.New(from, admin.Options{}).Doctor(t.Context(), admin.DoctorOptions{})
		require.NoError(t, err)
		i := slices.IndexFunc(checks, func(x admin.Check) bool { return x.Name == "grants" })
		return checks[i]
	}
	for role, text := range map[string]string{
		"": "owns the schema", testdb.Worker: "may do all that a worker does", testdb.Producer: "may do all that a producer does",
		testdb.Viewer: "may do all that a viewer does", testdb.Operator: "may do all that an operator does",
	} {
		found := check(role)
		require.Equal(t, admin.FindingOK, found.Finding, "%s: %s", role, found.Text)
		require.Contains(t, found.Text, text)
		require.Empty(t, found.Do)
	}

	exec(t, pool, `REVOKE SELECT (kind) ON pawl.jobs FROM `+testdb.Viewer)
	exec(t, pool, `REVOKE EXECUTE ON FUNCTION pawl.redrive FROM `+testdb.Operator)
	viewer := check(testdb.Viewer)
	require.Equal(t, admin.FindingWarn, viewer.Finding)
	require.Contains(t, viewer.Text, "may do most that a viewer does, but lacks SELECT (kind) on jobs")
	require.Contains(t, viewer.Do, "taskctl grants")
	operator := check(testdb.Operator)
	require.Equal(t, admin.FindingOK, operator.Finding, operator.Text)
	require.Contains(t, operator.Text, "may do all that a viewer does; besides, it has EXECUTE on cancel()")
	require.Contains(t, operator.Text, "of what an operator does, it lacks EXECUTE on redrive()")

	// The statements would take from a role what is not of the part, so they are not
	// for the role itself.
	exec(t, pool, `GRANT UPDATE ON pawl.retention TO `+testdb.Viewer)
	viewer = check(testdb.Viewer)
	require.Contains(t, viewer.Do, "UPDATE on retention")
	require.Contains(t, viewer.Do, "this one a member of it")
}

// Since when others' sessions are in a transaction is not for everybody to see, and
// what cannot be seen is not said to be well.
func TestDoctorOfSessionsThatItMayNotSee(t *testing.T) {
	t.Parallel()
	pool, c := open(t)
	horizon := func() []admin.Check {
		t.Helper()
		checks, err := c.Doctor(t.Context(), admin.DoctorOptions{})
		require.NoError(t, err)
		i := slices.IndexFunc(checks, func(x admin.Check) bool { return x.Name == "server" })
		require.Contains(t, checks[i].Text, ", at most ") // the test's own connections are among them
		return slices.DeleteFunc(checks, func(x admin.Check) bool { return x.Name != "vacuum horizon" })
	}
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	_, err = tx.Exec(t.Context(), `SELECT pg_current_xact_id()`)
	require.NoError(t, err)
	checks := horizon()
	require.Len(t, checks, 1)
	require.Equal(t, admin.FindingUnknown, checks[0].Finding)
	require.Contains(t, checks[0].Text, "in a transaction")
	require.Contains(t, checks[0].Do, "GRANT pg_monitor")

	// Its own sessions it may see, as would a member of pg_monitor those of others.
	require.NoError(t, tx.Rollback(t.Context()))
	own, err := testdb.As(t, pool, testdb.Operator).Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = own.Rollback(context.WithoutCancel(t.Context())) }()
	_, err = own.Exec(t.Context(), `SELECT pg_current_xact_id()`)
	require.NoError(t, err)
	testdb.Eventually(t, soon, "no other session to be in a transaction", func() bool {
		checks = horizon()
		return checks[0].Finding == admin.FindingOK
	})
	require.Contains(t, checks[0].Text, "nobody holds back vacuum for")
}

func TestVerify(t *testing.T) {
	t.Parallel()
	pool, c := openOwned(t)
	k := mailed(func(k *taskimpl.Kind[args]) {
		k.Shape = `{"root":{"kind":"struct","ref":"args"},"structs":{"args":[{"json":"n","go":"N","type":{"kind":"int"}}]}}`
	})
	v, err := c.Verify(t.Context())
	require.NoError(t, err)
	require.Empty(t, v.Versions)
	id := put(t, pool, k, args{}, task.In(time.Hour))
	v, err = c.Verify(t.Context())
	require.NoError(t, err)
	require.True(t, v.Whole)
	require.Len(t, v.Versions, 1)
	require.ErrorContains(t, v.Err(), "no live worker knows it")
	work(t, pool, k, obey)
	testdb.Eventually(t, soon, "a worker that knows it", func() bool {
		v, err = c.Verify(t.Context())
		require.NoError(t, err)
		return v.Err() == nil && v.Versions[0].Current
	})
	require.Equal(t, 1, v.Versions[0].Checked)
	exec(t, pool, `UPDATE pawl.jobs SET args = '{"n": "one"}' WHERE id = $1`, id)
	v, err = c.Verify(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, v.Versions[0].Misfits)
	require.ErrorContains(t, v.Err(), id.String())
}
