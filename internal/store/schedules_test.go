package store_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/pawlgo/pawl/internal/store"
)

// registered makes a schedule whose cursor is an hour old.
func registered(t *testing.T, s *store.Store, kind string) time.Time {
	t.Helper()
	var cursor time.Time
	require.NoError(t, s.Schedule(t.Context(), kind, func(x *store.Scheduling) error {
		require.Nil(t, x.State)
		cursor = x.Now.Add(-time.Hour)
		return x.Register(t.Context(), store.Schedule{Kind: kind, Spec: "@daily", Zone: "UTC", Missed: "one"}, "me", cursor, x.Now)
	}))
	return cursor
}

func scheduleRow(t *testing.T, pool *pgxpool.Pool, kind string) (cursor time.Time, missed, skipped int) {
	t.Helper()
	require.NoError(t, pool.QueryRow(t.Context(), `SELECT cursor, missed_ticks, skipped_ticks FROM pawl.schedules WHERE kind = $1`, kind).
		Scan(&cursor, &missed, &skipped))
	return cursor, missed, skipped
}

func TestScheduleStates(t *testing.T) {
	t.Parallel()
	s, pool := open(t)
	all, now, err := s.Schedules(t.Context(), []string{"a", "b"})
	require.NoError(t, err)
	require.Empty(t, all)
	require.WithinDuration(t, query[time.Time](t, pool, `SELECT clock_timestamp()`), now, time.Minute)

	a := registered(t, s, "a")
	registered(t, s, "c")
	exec(t, pool, `SELECT pawl.run_schedule('a'), pawl.run_schedule('a'), pawl.pause_schedule('a')`)
	all, _, err = s.Schedules(t.Context(), []string{"a", "b"})
	require.NoError(t, err)
	require.Len(t, all, 1)
	require.True(t, a.Equal(all[0].Cursor))
	all[0].Cursor = time.Time{}
	require.Equal(t, store.ScheduleState{
		Schedule: store.Schedule{Kind: "a", Spec: "@daily", Zone: "UTC", Missed: "one"}, Paused: true, Requests: 2,
	}, all[0])

	removed, err := s.RemoveSchedules(t.Context(), []string{"a", "b"})
	require.NoError(t, err)
	require.Equal(t, []string{"a"}, removed)
	removed, err = s.RemoveSchedules(t.Context(), []string{"a", "b"})
	require.NoError(t, err)
	require.Empty(t, removed, "already")
	all, _, err = s.Schedules(t.Context(), []string{"a", "c"})
	require.NoError(t, err)
	require.Len(t, all, 2)
	require.Equal(t, []bool{all[0].Kind == "a", all[1].Kind == "a"}, []bool{all[0].Removed, all[1].Removed})
	require.Zero(t, query[int](t, pool, `SELECT count(*) FROM pawl.schedule_requests`), "nobody will take them")
}

var errUndo = errors.New("undo")

func TestScheduleTransaction(t *testing.T) {
	t.Parallel()
	s, pool := open(t)
	cursor := registered(t, s, "a")
	registered(t, s, "b")
	step := store.Step{Cursor: cursor.Add(time.Minute), Next: cursor.Add(time.Hour), Missed: 5, Skipped: 4}

	// Nothing of what fails.
	require.ErrorIs(t, s.Schedule(t.Context(), "a", func(x *store.Scheduling) error {
		require.NoError(t, x.Advance(t.Context(), step))
		return errUndo
	}), errUndo)
	at, missed, skipped := scheduleRow(t, pool, "a")
	require.True(t, cursor.Equal(at))
	require.Zero(t, missed+skipped)

	require.NoError(t, s.Schedule(t.Context(), "a", func(x *store.Scheduling) error {
		require.ErrorIs(t, s.Schedule(t.Context(), "a", nil), store.ErrScheduleBusy)
		require.NoError(t, s.Schedule(t.Context(), "b", func(*store.Scheduling) error { return nil }), "another kind")
		require.NoError(t, x.Advance(t.Context(), step))
		require.ErrorIs(t, x.Advance(t.Context(), step), store.ErrScheduleMoved, "not from there again")
		return x.Ticked(t.Context(), step.Cursor, uuid.New(), 1)
	}))
	at, missed, skipped = scheduleRow(t, pool, "a")
	require.True(t, step.Cursor.Equal(at))
	require.Equal(t, []int{5, 4}, []int{missed, skipped})

	// What was declared or removed meanwhile is not moved on by what was read.
	for _, change := range []string{`SET zone = 'Asia/Tokyo'`, `SET removed_at = now()`} {
		require.ErrorIs(t, s.Schedule(t.Context(), "b", func(x *store.Scheduling) error {
			exec(t, pool, `UPDATE pawl.schedules `+change+` WHERE kind = 'b'`)
			return x.Advance(t.Context(), step)
		}), store.ErrScheduleMoved)
	}
}

func TestScheduleRequests(t *testing.T) {
	t.Parallel()
	s, pool := open(t)
	registered(t, s, "a")
	exec(t, pool, `SELECT pawl.run_schedule('a') FROM generate_series(1, 5)`)
	other, err := pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { require.NoError(t, other.Rollback(t.Context())) }()
	_, err = other.Exec(t.Context(), `DELETE FROM pawl.schedule_requests WHERE requested_at = (SELECT min(requested_at) FROM pawl.schedule_requests)`)
	require.NoError(t, err)
	require.NoError(t, s.Schedule(t.Context(), "a", func(x *store.Scheduling) error {
		require.Equal(t, 5, x.State.Requests)
		taken, err := x.TakeRequests(t.Context(), 3)
		require.Len(t, taken, 3, "without waiting for the one that somebody else holds")
		return err
	}))
	require.Equal(t, 2, query[int](t, pool, `SELECT count(*) FROM pawl.schedule_requests`))
}
