package runtime_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawlgo/pawl/internal/testdb"
	pawlrt "github.com/pawlgo/pawl/runtime"
	"github.com/pawlgo/pawl/task"
	"github.com/pawlgo/pawl/task/taskimpl"
)

// versions makes a kind of several versions, the last of them current.
func versions(name string, numbers ...int) *taskimpl.Kind[args] {
	return kind(name, "q", func(k *taskimpl.Kind[args]) {
		k.Capabilities = nil
		for _, n := range numbers {
			k.Capabilities = append(k.Capabilities, taskimpl.Capability{Version: n, ID: uint64(len(name)*1000 + n)})
			k.Version = n
		}
		k.Decode = func(version int, raw []byte) (args, error) {
			a, err := taskimpl.As[args](raw)
			switch a.Mode {
			case "bad":
				err = errors.New("the upgrader refuses it")
			case "panic":
				panic("the upgrader panics")
			}
			return a, err
		}
	})
}

func TestVerify(t *testing.T) {
	t.Parallel()
	pool := testdb.Migrated(t)
	enqueue := func(k *taskimpl.Kind[args], all ...args) {
		t.Helper()
		_, err := taskimpl.EnqueueMany(t.Context(), task.Autocommit(pool), k, all, nil)
		require.NoError(t, err)
	}
	verify := func(opts pawlrt.VerifyOptions, kinds ...*taskimpl.Kind[args]) *pawlrt.Report {
		t.Helper()
		var tables []task.Table
		for _, k := range kinds {
			tables = append(tables, table(k, nil))
		}
		r, err := pawlrt.Verify(t.Context(), pool, tables, opts)
		require.NoError(t, err)
		return r
	}

	v1, v12 := versions("work", 1), versions("work", 1, 2)
	r := verify(pawlrt.VerifyOptions{}, v12)
	forward, _ := r.Forward()
	back, _ := r.Back()
	require.True(t, forward)
	require.True(t, back)
	require.Equal(t, []pawlrt.Finding{{Kind: "work", Version: 1, Known: true}}, r.Retirable())

	enqueue(v1, args{N: 1}, args{N: 2}, args{N: 3})
	r = verify(pawlrt.VerifyOptions{}, v12)
	forward, _ = r.Forward()
	require.True(t, forward, "version 1 is known")
	require.Empty(t, r.Retirable())
	require.Equal(t, 3, r.Findings[0].Unfinished)
	require.Equal(t, 1, verify(pawlrt.VerifyOptions{Sample: 1}, v12).Findings[0].Unfinished)

	enqueue(v12, args{N: 4})
	back, why := verify(pawlrt.VerifyOptions{}, v12).Back()
	require.False(t, back)
	require.Contains(t, why, "work version 2")
	forward, why = verify(pawlrt.VerifyOptions{}, v1).Forward()
	require.False(t, forward, "the old binary does not know version 2")
	require.Contains(t, why, "stranded")

	enqueue(v1, args{Mode: "bad"}, args{Mode: "panic"})
	r = verify(pawlrt.VerifyOptions{}, v12)
	forward, why = r.Forward()
	require.False(t, forward)
	require.Contains(t, why, "2 unfinished jobs of work version 1 do not decode")
	require.Len(t, r.Findings[0].Failures, 2)
}

// Pending and dead events are looked at where their tables are given.
func TestVerifyEvents(t *testing.T) {
	t.Parallel()
	pool := testdb.Migrated(t)
	e := event()
	publish(t, task.Autocommit(pool), e, "a", numbered(3, "")...)
	e.Decode = func(int, []byte) (args, error) { return args{}, errors.New("undecodable") }
	tables := []task.Table{table(kind("k", "q"), func(context.Context, *task.Job[args]) error { return nil })}
	report, err := pawlrt.Verify(t.Context(), pool, tables, pawlrt.VerifyOptions{})
	require.NoError(t, err)
	require.Len(t, report.Findings, 1)
	report, err = pawlrt.Verify(t.Context(), pool, nil, pawlrt.VerifyOptions{Events: projecting(e, record).Events})
	require.NoError(t, err)
	require.Len(t, report.Findings, 1)
	f := report.Findings[0]
	require.Equal(t, "trip.completed 1 true 3 3", fmt.Sprint(f.Kind, " ", f.Version, " ", f.Known, " ", f.Unfinished, " ", f.Failed))
	ok, why := report.Forward()
	require.False(t, ok)
	require.Contains(t, why, "trip.completed")
}
