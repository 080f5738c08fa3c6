package runtime_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pawlgo/pawl/internal/store"
	"github.com/pawlgo/pawl/internal/testdb"
	pawlrt "github.com/pawlgo/pawl/runtime"
	"github.com/pawlgo/pawl/task"
	"github.com/pawlgo/pawl/task/taskimpl"
)

// Middleware runs around the handler in the order of the configuration, sees the
// attempt, and hands on its context.
func TestMiddleware(t *testing.T) {
	t.Parallel()
	pool := testdb.Migrated(t)
	type key struct{}
	var (
		mu    sync.Mutex
		steps []string
		infos []pawlrt.JobInfo
	)
	step := func(s string) {
		mu.Lock()
		defer mu.Unlock()
		steps = append(steps, s)
	}
	around := func(name string) pawlrt.Middleware {
		return func(ctx context.Context, job pawlrt.JobInfo, next func(context.Context) error) error {
			step(name)
			defer step("after " + name)
			if name == "outer" {
				mu.Lock()
				infos = append(infos, job)
				mu.Unlock()
			}
			outer, _ := ctx.Value(key{}).(string)
			return next(context.WithValue(ctx, key{}, outer+name))
		}
	}
	k := kind("k", "q")
	ids := put(t, pool, k, args{N: 1})
	start(t, pool, pawlrt.Config{
		Middleware: []pawlrt.Middleware{around("outer"), around("inner")},
		Tables: []task.Table{table(k, func(ctx context.Context, job *task.Job[args]) error {
			step(ctx.Value(key{}).(string))
			return nil
		})},
	})
	require.Equal(t, store.Audit{Completed: 1}, settled(t, pool, 1))
	require.Equal(t, []string{"outer", "inner", "outerinner", "after inner", "after outer"}, steps)
	require.Len(t, infos, 1)
	require.Equal(t, ids[0], infos[0].ID)
	require.Equal(t, []any{"k", "q", 1, 1, 3}, []any{infos[0].Kind, infos[0].Queue, infos[0].Version, infos[0].Attempt, infos[0].MaxAttempts})
	require.False(t, infos[0].EnqueuedAt.IsZero())
	require.False(t, infos[0].RunAt.IsZero())
}

// What middleware does decides about the job just as a handler's end would, in
// a transaction too, and takes nothing else down.
func TestMiddlewareFails(t *testing.T) {
	t.Parallel()
	pool := effects(t)
	plain, transactional := kind("plain", "q"), kind("transactional", "q", isolated(pgx.Serializable))
	w := start(t, pool, pawlrt.Config{
		Middleware: []pawlrt.Middleware{func(ctx context.Context, job pawlrt.JobInfo, next func(context.Context) error) error {
			err := next(ctx)
			if job.Attempt > 1 {
				return err
			}
			switch job.OrganizationID {
			case "panics":
				panic("middleware")
			case "nil":
				var m pawlrt.Middleware
				return m(ctx, job, next)
			case "goexit":
				runtime.Goexit()
			case "error":
				return task.Transient(errors.New("middleware"))
			case "swallows":
				return nil
			}
			return err
		}},
		Tables: []task.Table{
			table(plain, func(context.Context, *task.Job[args]) error { return nil }),
			txTable(transactional, effect),
		},
	})
	organizations := []string{"panics", "nil", "goexit", "error", "swallows", "none"}
	for _, k := range []*taskimpl.Kind[args]{plain, transactional} {
		for i, organization := range organizations {
			k.Organization = func(*args) (string, error) { return organization, nil }
			put(t, pool, k, args{N: i})
		}
	}
	require.Equal(t, store.Audit{Completed: 12}, settled(t, pool, 12))
	require.EqualValues(t, 8, w.Stats().Retried)
	require.Equal(t, 6, query[int](t, pool, `SELECT count(DISTINCT n) FROM effects`))
	require.Equal(t, 6, query[int](t, pool, `SELECT count(*) FROM effects`))
	require.Equal(t, 4, query[int](t, pool, `SELECT count(*) FROM effects WHERE attempt = 2`))
}
