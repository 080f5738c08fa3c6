package admin_test

import (
	"context"
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

	pool, c := open(t)
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

	// A role that may only look.
	c = admin.New(testdb.As(t, pool, testdb.Viewer), admin.Options{})
	require.Contains(t, check("grants")[0].Text, "this role lacks ")
	_, err = c.Status(t.Context())
	require.NoError(t, err)
	_, err = c.Jobs(t.Context(), admin.JobFilter{}, admin.Page{})
	require.NoError(t, err)
	c = admin.New(testdb.As(t, pool, testdb.Worker), admin.Options{})
	require.Equal(t, admin.FindingOK, check("grants")[0].Finding)
}

func TestVerify(t *testing.T) {
	t.Parallel()
	pool, c := open(t)
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
