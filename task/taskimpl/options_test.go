package taskimpl_test

import (
	"math"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pawlgo/pawl/task"
	"github.com/pawlgo/pawl/task/taskimpl"
)

func TestInvalidOptions(t *testing.T) {
	t.Parallel()
	pool := migrated(t)
	tx := &counted{Tx: begin(t, pool, pgx.ReadCommitted)}
	for name, opt := range map[string]task.EnqueueOption{
		"At zero": task.At(time.Time{}), "At zero elsewhere": task.At(time.Time{}.In(time.FixedZone("x", 3600))), "At 10000": task.At(time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)),
		"At 0": task.At(time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC)), "At far": task.At(time.Unix(math.MaxInt64/4, 0)),
		"Attempts 0": task.Attempts(0), "Attempts -1": task.Attempts(-1), "Attempts 32767": task.Attempts(32767), "Attempts 40000": task.Attempts(40000), "Attempts huge": task.Attempts(math.MaxInt),
		"Priority 0": task.Priority(0), "Priority 5": task.Priority(5), "Priority -1": task.Priority(-1), "Priority huge": task.Priority(math.MaxInt16),
		"Key empty": task.Key("", time.Hour), "Key for no time": task.Key("k", 0), "Key for less": task.Key("k", -time.Hour), "Key NUL": task.Key("\x00", time.Hour), "Key UTF-8": task.Key("\xff", time.Hour),
	} {
		_, err := taskimpl.Enqueue(t.Context(), tx, kind[args](), args{}, []task.EnqueueOption{opt})
		require.ErrorIs(t, err, task.ErrInvalidOption, name)
		require.ErrorContains(t, err, "enqueue k: ", name)
	}
	_, err := taskimpl.EnqueueMany(t.Context(), tx, kind[args](), make([]args, 2), []task.EnqueueOption{task.Key("k", time.Hour)})
	require.ErrorIs(t, err, task.ErrInvalidOption)
	require.Zero(t, tx.n, "before any SQL")
	enqueue(t, tx, kind[args](), args{}, nil, task.Key("k", time.Hour))
	commit(t, tx)
}

func TestOptions(t *testing.T) {
	t.Parallel()
	pool := migrated(t)
	future := time.Now().Add(time.Hour).Truncate(time.Microsecond)
	last := time.Date(9999, 12, 31, 23, 59, 59, 999999000, time.FixedZone("west", -12*3600))
	type row struct {
		priority, attempts int
		delay              time.Duration // after enqueued_at; 0 for at once
	}
	for name, c := range map[string]struct {
		opts  []task.EnqueueOption
		state task.State
		want  row
	}{
		"none":             {state: task.StatePending, want: row{2, 3, 0}},
		"urgent":           {opts: []task.EnqueueOption{task.Priority(task.Urgent)}, state: task.StatePending, want: row{4, 3, 0}},
		"low":              {opts: []task.EnqueueOption{task.Priority(task.Low)}, state: task.StatePending, want: row{1, 3, 0}},
		"the last counts":  {opts: []task.EnqueueOption{task.Priority(task.Low), task.Attempts(1), task.Priority(task.High), task.Attempts(32766)}, state: task.StatePending, want: row{3, 32766, 0}},
		"At past":          {opts: []task.EnqueueOption{task.At(time.Unix(0, 0))}, state: task.StatePending, want: row{2, 3, 0}},
		"At year 1":        {opts: []task.EnqueueOption{task.At(time.Date(1, 1, 2, 0, 0, 0, 0, time.UTC))}, state: task.StatePending, want: row{2, 3, 0}},
		"In less than 0":   {opts: []task.EnqueueOption{task.In(-time.Hour)}, state: task.StatePending, want: row{2, 3, 0}},
		"In least":         {opts: []task.EnqueueOption{task.In(math.MinInt64)}, state: task.StatePending, want: row{2, 3, 0}},
		"In 0":             {opts: []task.EnqueueOption{task.In(0)}, state: task.StatePending, want: row{2, 3, 0}},
		"In an hour":       {opts: []task.EnqueueOption{task.In(time.Hour)}, state: task.StateScheduled, want: row{2, 3, time.Hour}},
		"In a century":     {opts: []task.EnqueueOption{task.In(100 * 365 * 24 * time.Hour)}, state: task.StateScheduled, want: row{2, 3, 100 * 365 * 24 * time.Hour}},
		"In after At":      {opts: []task.EnqueueOption{task.At(last), task.In(time.Hour)}, state: task.StateScheduled, want: row{2, 3, time.Hour}},
		"In 0 after At":    {opts: []task.EnqueueOption{task.At(last), task.In(0)}, state: task.StatePending, want: row{2, 3, 0}},
		"In again":         {opts: []task.EnqueueOption{task.In(time.Minute), task.In(time.Hour)}, state: task.StateScheduled, want: row{2, 3, time.Hour}},
		"At past after In": {opts: []task.EnqueueOption{task.In(time.Hour), task.At(time.Unix(0, 0))}, state: task.StatePending, want: row{2, 3, 0}},
	} {
		r := enqueue(t, task.Autocommit(pool), kind[args](), args{}, c.opts...)
		require.Equal(t, c.state, r.State, name)
		require.False(t, r.Duplicate)
		require.True(t, r.SameArgs)
		var got row
		var micros int64
		require.NoError(t, pool.QueryRow(t.Context(), `SELECT j.priority, j.max_attempts, (extract(epoch FROM j.run_at - j.enqueued_at) * 1000000)::bigint
			FROM pawl.jobs j JOIN pawl.ready r ON r.id = j.id AND r.run_at = j.run_at AND r.priority = j.priority AND r.attempts = 0
			WHERE j.id = $1`, r.ID).Scan(&got.priority, &got.attempts, &micros), name)
		got.delay = time.Duration(micros) * time.Microsecond
		require.Equal(t, c.want, got, name)
	}
	require.Equal(t, task.StateScheduled, enqueue(t, task.Autocommit(pool), kind[args](), args{}, task.In(math.MaxInt64)).State)
	for _, at := range []time.Time{future, last} {
		r := enqueue(t, task.Autocommit(pool), kind[args](), args{}, task.In(time.Second), task.At(at))
		require.Equal(t, task.StateScheduled, r.State)
		var stored time.Time
		require.NoError(t, pool.QueryRow(t.Context(), `SELECT run_at FROM pawl.ready WHERE id = $1`, r.ID).Scan(&stored))
		require.True(t, at.Equal(stored), "%v as %v", at, stored)
	}
}

// A call's options do not stay in the kind.
func TestOptionsOfOneCall(t *testing.T) {
	t.Parallel()
	pool := migrated(t)
	k := keyed()
	enqueue(t, task.Autocommit(pool), k, args{N: 1}, task.Priority(task.Urgent), task.Attempts(9), task.Key("mine", time.Minute))
	require.Equal(t, task.Normal, k.Priority)
	require.Equal(t, 3, k.Policy.Attempts)
	require.False(t, enqueue(t, task.Autocommit(pool), k, args{N: 1}).Duplicate, "the fields, where there is no Key")
	require.True(t, enqueue(t, task.Autocommit(pool), k, args{N: 2}, task.Key("mine", time.Minute)).Duplicate)
}
