package admin_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/pawlgo/pawl/admin"
	"github.com/pawlgo/pawl/internal/testdb"
	"github.com/pawlgo/pawl/migrations"
	pawlrt "github.com/pawlgo/pawl/runtime"
	"github.com/pawlgo/pawl/task"
	"github.com/pawlgo/pawl/task/taskimpl"
)

func TestEvents(t *testing.T) {
	t.Parallel()
	pool, c := open(t)
	event := &taskimpl.Event[args]{
		Name: "trip.completed", Aggregate: "trip", Version: 1,
		Policy:       taskimpl.Policy{Attempts: 1, Base: time.Second, Max: time.Second, Unknown: 1, Timeout: time.Minute},
		Capabilities: []taskimpl.Capability{{Version: 1, ID: 5}},
		Decode:       func(_ int, raw []byte) (args, error) { return taskimpl.As[args](raw) },
	}
	publish := func(aggregate, mode string) uuid.UUID {
		r, err := taskimpl.Publish(t.Context(), task.Autocommit(pool), event, aggregate, args{Mode: mode}, nil)
		require.NoError(t, err)
		return r.ID
	}
	is := func(f admin.EventFilter, limit int) (ids []uuid.UUID) {
		for page := (admin.Page{Limit: limit}); ; {
			list, err := c.Events(t.Context(), f, page)
			require.NoError(t, err)
			for _, e := range list.Events {
				require.NotContains(t, ids, e.ID)
				ids = append(ids, e.ID)
			}
			if page.Cursor = list.Next; page.Cursor == "" {
				return ids
			}
		}
	}
	first, poison := publish("7", ""), publish("7", "poison")
	behind := []uuid.UUID{publish("7", ""), publish("7", ""), publish("7", "")}
	other := publish("8", "")
	require.Len(t, is(admin.EventFilter{Status: admin.EventPending}, 2), 6)
	require.Equal(t, []uuid.UUID{other}, is(admin.EventFilter{Status: admin.EventPending, AggregateType: "trip", AggregateID: "8"}, 2))

	work(t, pool, mailed(), obey, func(config *pawlrt.Config) {
		config.Events = []task.EventTable{taskimpl.EventTable(taskimpl.EventRow(event, func(_ context.Context, _ pgx.Tx, fact *task.Fact[args]) error {
			if fact.Payload.Mode == "poison" {
				return task.Permanent(errors.New("no driver"))
			}
			return nil
		}))}
	})
	testdb.Eventually(t, soon, "the poison to be dead", func() bool { return len(is(admin.EventFilter{Status: admin.EventDead}, 2)) == 1 })
	require.ElementsMatch(t, behind, is(admin.EventFilter{Status: admin.EventBlocked}, 2))
	testdb.Eventually(t, soon, "two to be projected", func() bool { return len(is(admin.EventFilter{Status: admin.EventProjected}, 1)) == 2 })
	require.ElementsMatch(t, []uuid.UUID{first, other}, is(admin.EventFilter{Status: admin.EventProjected}, 1))
	require.Len(t, is(admin.EventFilter{Type: "trip.completed"}, 4), 6)
	require.Empty(t, is(admin.EventFilter{Type: "nothing"}, 4))
	require.Empty(t, is(admin.EventFilter{OrganizationID: "acme"}, 4))
	_, err := c.Events(t.Context(), admin.EventFilter{Status: admin.EventRetrying}, admin.Page{})
	require.ErrorIs(t, err, admin.ErrInvalid)

	e, err := c.Event(t.Context(), poison)
	require.NoError(t, err)
	require.Equal(t, admin.EventDead, e.Status)
	require.True(t, e.Blocks)
	require.Equal(t, "no driver", e.ErrorSummary)
	require.Len(t, e.Errors, 1)
	e, err = c.Event(t.Context(), behind[1])
	require.NoError(t, err)
	require.Equal(t, admin.EventBlocked, e.Status)
	_, err = c.Event(t.Context(), uuid.New())
	require.ErrorIs(t, err, task.ErrNoEvent)
	require.ErrorIs(t, c.RetryEvent(t.Context(), behind[0], ""), task.ErrNoEvent)

	exec(t, pool, `DELETE FROM pawl.events WHERE id = $1`, poison)
	exec(t, pool, `DELETE FROM pawl.event_outcomes WHERE event_id = $1`, poison)
	require.Equal(t, []uuid.UUID{poison}, is(admin.EventFilter{Status: admin.EventDead, Type: "trip.completed"}, 2))
	require.NoError(t, c.SkipEvent(t.Context(), poison, "nobody drove"))
	testdb.Eventually(t, soon, "the others to be projected", func() bool { return len(is(admin.EventFilter{Status: admin.EventProjected}, 2)) == 5 })
	audit, err := c.Audit(t.Context(), admin.Page{})
	require.NoError(t, err)
	require.Len(t, audit.Entries, 1)
	require.Equal(t, "skip event", audit.Entries[0].Verb)
}

func TestSchedules(t *testing.T) {
	t.Parallel()
	pool, c := open(t)
	k := mailed(func(k *taskimpl.Kind[args]) {
		k.Schedule = &taskimpl.Schedule[args]{Spec: "@yearly", Zone: "Europe/Berlin", Missed: "one", Args: func(time.Time) args { return args{Mode: "tick"} }}
	})
	work(t, pool, k, obey)
	var schedules []admin.Schedule
	testdb.Eventually(t, soon, "the schedule", func() bool {
		var err error
		schedules, err = c.Schedules(t.Context())
		require.NoError(t, err)
		return len(schedules) == 1
	})
	require.Equal(t, "active", schedules[0].Status)
	ticks, err := c.PreviewSchedule(t.Context(), "send_mail", time.Time{}, 2)
	require.NoError(t, err)
	require.True(t, schedules[0].NextTick.Equal(ticks[0].At))
	_, err = c.PreviewSchedule(t.Context(), "nothing", time.Time{}, 2)
	require.ErrorIs(t, err, task.ErrNoSchedule)

	changed, err := c.PauseSchedule(t.Context(), "send_mail", "a freeze")
	require.NoError(t, err)
	require.True(t, changed)
	changed, err = c.PauseSchedule(t.Context(), "send_mail", "")
	require.NoError(t, err)
	require.False(t, changed)
	require.NoError(t, c.RunScheduleNow(t.Context(), "send_mail", ""))
	testdb.Eventually(t, soon, "its job", func() bool {
		list, err := c.Jobs(t.Context(), admin.JobFilter{Kind: "send_mail", State: task.StateCompleted}, admin.Page{})
		require.NoError(t, err)
		return len(list.Jobs) == 1
	})
	changed, err = c.ResumeSchedule(t.Context(), "send_mail", "")
	require.NoError(t, err)
	require.True(t, changed)
	require.ErrorIs(t, c.RunScheduleNow(t.Context(), "nothing", ""), task.ErrNoSchedule)
	require.Equal(t, 3, query[int](t, pool, `SELECT count(*) FROM pawl.audit`))
}

func TestPreview(t *testing.T) {
	t.Parallel()
	at := time.Date(2027, 3, 27, 12, 0, 0, 0, time.UTC)
	ticks, err := admin.Preview("30 2 * * *", "Europe/Berlin", at, 2)
	require.NoError(t, err)
	require.Equal(t, "2027-03-28T03:00:00+02:00", ticks[0].At.Format(time.RFC3339))
	require.Equal(t, time.Hour, ticks[0].Change.By)
	require.Equal(t, "clocks go forward by 1h0m0s: 2027-03-28 01:59:59 CET, then 2027-03-28 03:00:00 CEST", ticks[0].Change.String())
	require.Nil(t, ticks[1].Change)
	for _, x := range []struct {
		spec, zone string
		ticks      int
	}{{"61 * * * *", "UTC", 1}, {"* * * * *", "Mars/Olympus", 1}, {"* * * * *", "UTC", 0}, {"* * * * *", "UTC", 1 << 20}} {
		_, err := admin.Preview(x.spec, x.zone, at, x.ticks)
		require.ErrorIs(t, err, admin.ErrInvalid)
	}
}

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
	const role = "pg_monitor" // every server has it, and who may read some of its views
	exec(t, pool, `GRANT USAGE ON SCHEMA pawl TO `+role)
	exec(t, pool, `GRANT SELECT ON ALL TABLES IN SCHEMA pawl TO `+role)
	config := pool.Config()
	config.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, `SET ROLE `+role)
		return err
	}
	limited, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(limited.Close)
	c = admin.New(limited, admin.Options{})
	require.Contains(t, check("grants")[0].Text, "this role lacks ")
	_, err = c.Status(t.Context())
	require.NoError(t, err)
	_, err = c.Jobs(t.Context(), admin.JobFilter{}, admin.Page{})
	require.NoError(t, err)
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

func TestMigrations(t *testing.T) {
	t.Parallel()
	pool := testdb.New(t)
	c := admin.New(pool, admin.Options{Schema: "App Jobs"})
	m, err := c.Migrations(t.Context())
	require.NoError(t, err)
	require.Zero(t, m.Applied)
	require.Len(t, m.Missing(), migrations.Version())
	require.NoError(t, c.Migrate(t.Context()))
	m, err = c.Migrations(t.Context())
	require.NoError(t, err)
	require.Empty(t, m.Missing())
	require.Equal(t, m.Known, m.Applied)
	require.False(t, m.All[0].AppliedAt.IsZero())
	text, err := c.MigrationSQL(0)
	require.NoError(t, err)
	require.Contains(t, text, `"App Jobs".audit`)
}
