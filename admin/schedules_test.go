package admin_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawlgo/pawl/admin"
	"github.com/pawlgo/pawl/internal/testdb"
	"github.com/pawlgo/pawl/task"
	"github.com/pawlgo/pawl/task/taskimpl"
)

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
