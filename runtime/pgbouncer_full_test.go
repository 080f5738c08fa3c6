//go:build full && (linux || darwin)

package runtime_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	osexec "os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/pawlgo/pawl/internal/pgbouncer"
	"github.com/pawlgo/pawl/internal/store"
	"github.com/pawlgo/pawl/internal/testdb"
	pawlrt "github.com/pawlgo/pawl/runtime"
	"github.com/pawlgo/pawl/task"
	"github.com/pawlgo/pawl/task/taskimpl"
)

// pooled are the tests of this package that are run once more behind a pooler:
// what jobs, attempts, leases, shutdowns, transactions and turns promise. Left out
// are those that have a proxy or a server of their own, and those that hold more
// transactions open than the pooler has connections.
const pooled = "^Test(WakeUp|PollOnly|RetryIsOnTime|ScheduledSoon|LateCommit|ConcurrentCommits|QueuesAreIsolated|Sessions" +
	"|Attempts|Snooze|Timeout|Undecodable|OddRows|ForeignKind|UnknownVersionWaits|Middleware" +
	"|LongJobOverAShortLease|LostSession|SuspectsOfManyQueues|ExhaustedPool|Killed.*|ZombieProcess|PoisonAmongInnocents|RollingDeploy" +
	"|ShutdownSavesWhatEnds|SoftLimit|HardLimit" +
	"|Transaction|TransactionRolledBack|TransactionFenced|TransactionTimeout" +
	"|TurnsAreNeverLost|PlainSQLKeepsOrder|PlainSQLAndGoShareKeys|CancelReachesAHandler)$"

// A pooler refuses such parameters, or ignores them.
const unpooled = "^TestSessions$/^(no_search_path|repeatable_read|serializable)$"

// unheard are those that are about wake-ups, which a poller does without.
const unheard = "|^TestWakeUp$|^TestScheduledSoon$|^TestRetryIsOnTime$|^TestCancelReachesAHandler$/^listening$"

// Tests of this package once more, with all workers behind PgBouncer in
// transaction mode, which has two connections to the server for each database.
func TestPgBouncerSuite(t *testing.T) {
	again(t, pooled, unheard, 25)
}

// again runs tests of this package, more than least of them, behind a pooler. The
// unheard ones need a listener.
func again(t *testing.T, tests, unheard string, least int) {
	t.Helper()
	server, err := pgx.ParseConfig(testdb.Server(t).URL())
	require.NoError(t, err)
	p := pgbouncer.Start(t, server, nil)
	for name, c := range map[string]struct {
		behind behindPooler
		skip   string
	}{
		"direct listener": {behind: behindPooler{Mode: pgx.QueryExecModeCacheDescribe, Direct: true}, skip: unpooled},
		"poll only":       {behind: behindPooler{Mode: pgx.QueryExecModeExec}, skip: unpooled + unheard},
	} {
		t.Run(name, func(t *testing.T) {
			c.behind.Host, c.behind.Port = p.Host, p.Port
			value, err := json.Marshal(c.behind)
			require.NoError(t, err)
			cmd := osexec.CommandContext(t.Context(), os.Args[0], "-test.run="+tests, "-test.skip="+c.skip, "-test.timeout=8m", "-test.v", "-test.count=1")
			cmd.Env = append(os.Environ(), poolerEnv+"="+string(value))
			var out strings.Builder
			cmd.Stdout, cmd.Stderr = &out, &out
			err = cmd.Run()
			require.NoError(t, err, "%s", &out)
			passed := strings.Count(out.String(), "\n--- PASS")
			require.Greater(t, passed, least, "%s", &out)
			t.Logf("%d tests passed", passed)
		})
	}
}

// modes are the ways of the driver that need nothing of a session. Describing and
// executing in two steps does, outside of a transaction.
var modes = map[string]pgx.QueryExecMode{
	"cache describe":  pgx.QueryExecModeCacheDescribe,
	"exec":            pgx.QueryExecModeExec,
	"simple protocol": pgx.QueryExecModeSimpleProtocol,
}

// behind is a pool on the database of another one that goes through a pooler.
func behind(t *testing.T, pool *pgxpool.Pool, p *pgbouncer.Pooler, mode pgx.QueryExecMode) *pgxpool.Pool {
	t.Helper()
	return changed(t, pool, func(c *pgxpool.Config) {
		p.Through(c.ConnConfig)
		c.ConnConfig.RuntimeParams["application_name"] = pooledName
		c.ConnConfig.DefaultQueryExecMode = mode
		c.MaxConns = 4
	})
}

// Twenty clients, ten workers and ten writers, share two connections to the
// server. Each job runs as often as it has to and no more: those that are retried
// twice, those of one key once, those that a transaction rolled back never.
func TestPgBouncer(t *testing.T) {
	t.Parallel()
	direct, err := pgx.ParseConfig(testdb.Server(t).URL())
	require.NoError(t, err)
	p := pgbouncer.Start(t, direct, nil)
	for name, mode := range modes {
		for _, listen := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, listener %t", name, listen), func(t *testing.T) {
				t.Parallel()
				pool := testdb.Migrated(t)
				g := newGate()
				keyed := kind("keyed", "q", func(k *taskimpl.Kind[args]) {
					k.Key, k.Keep = func(a *args) []any { return []any{a.N} }, time.Hour
				})
				plain := kind("plain", "q")
				config := pawlrt.Config{
					Lease: time.Minute, Poll: 200 * time.Millisecond, PollOnly: !listen, Logger: slog.New(slog.DiscardHandler),
					Tables: []task.Table{table(keyed, func(_ context.Context, job *task.Job[args]) error {
						g.arrive(job)
						return nil
					}), table(plain, func(_ context.Context, job *task.Job[args]) error {
						g.arrive(job)
						if job.Args.Mode == "retry" && job.Attempt == 1 {
							return task.Transient(errors.New("x"))
						}
						return nil
					})},
				}
				if listen {
					config.Listen = pool.Config().ConnConfig
				}
				var workers []*running
				for range 10 {
					workers = append(workers, start(t, behind(t, pool, p, mode), config))
				}
				const each = 30
				var writers sync.WaitGroup
				for writer := range 10 {
					db := behind(t, pool, p, mode)
					writers.Go(func() {
						for i := range each {
							n := 1000*(writer+1) + i
							undo := errors.New("undo")
							for _, result := range []error{nil, undo} {
								err := pgx.BeginFunc(t.Context(), db, func(tx pgx.Tx) error {
									if result != nil {
										n = 100_000
									}
									_, err := taskimpl.Enqueue(t.Context(), tx, plain, args{N: n, Mode: []string{"", "retry"}[i%2]}, nil)
									return errors.Join(err, result)
								})
								if !errors.Is(err, result) || result == nil && err != nil {
									t.Error(err)
								}
							}
							if _, err := taskimpl.Enqueue(t.Context(), task.Autocommit(db), keyed, args{N: i}, nil); err != nil {
								t.Error(err)
							}
						}
					})
				}
				writers.Wait()
				require.Equal(t, store.Audit{Completed: 10*each + each}, settled(t, pool, 10*each+each))
				g.mu.Lock()
				starts := g.starts
				g.mu.Unlock()
				require.Len(t, starts, 10*each+each)
				for n, times := range starts {
					want := 1
					if n >= 1000 && n%1000%2 == 1 {
						want = 2
					}
					require.Equal(t, want, times, n)
				}
				for _, w := range workers {
					require.NoError(t, w.shutdown(t))
					require.Zero(t, w.Stats().LeasesLost+w.Stats().Refused+w.Stats().SettleErrors)
					require.Equal(t, listen, w.Stats().Wakeups > 0)
				}
			})
		}
	}
}

// The driver's default mode prepares statements by name, which PgBouncer knows
// from 1.21 on where max_prepared_statements is set. Where it does not, the
// worker's log says what to change.
func TestPgBouncerAndNamedStatements(t *testing.T) {
	t.Parallel()
	direct, err := pgx.ParseConfig(testdb.Server(t).URL())
	require.NoError(t, err)
	settings := map[string]string{}
	p := pgbouncer.Start(t, direct, settings)
	knows := p.Major > 1 || p.Minor >= 21
	if knows {
		settings["max_prepared_statements"] = "200"
		p = pgbouncer.Start(t, direct, settings)
	}
	pool := testdb.Migrated(t)
	log := &records{}
	k := kind("k", "q")
	for range 4 {
		w, err := pawlrt.New(behind(t, pool, p, pgx.QueryExecModeCacheStatement), pawlrt.Config{PollOnly: true, Poll: 10 * time.Millisecond,
			Logger: slog.New(log), Tables: []task.Table{table(k, fine)}})
		require.NoError(t, err)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			if err := w.Run(ctx); err != nil { // one that fails at its start says so here
				_ = log.Handle(context.Background(), slog.NewRecord(time.Now(), slog.LevelError, err.Error(), 0))
			}
		}()
		defer func() {
			stop()
			<-done
		}()
	}
	if knows {
		put(t, pool, k, numbered(200, "")...)
		require.Equal(t, store.Audit{Completed: 200}, settled(t, pool, 200))
		require.Empty(t, log.with("default_query_exec_mode"))
		return
	}
	// Whose statement meets a server connection that does not know it is chance.
	testdb.Eventually(t, 6*slow, "the log to say it", func() bool {
		put(t, pool, k, args{})
		return len(log.with("default_query_exec_mode=cache_describe")) > 0
	})
}

// Without a direct connection there is no listener behind a transaction pooler,
// and the worker finds out at once instead of waiting for wake-ups.
func TestPgBouncerWithoutDirectListener(t *testing.T) {
	t.Parallel()
	direct, err := pgx.ParseConfig(testdb.Server(t).URL())
	require.NoError(t, err)
	p := pgbouncer.Start(t, direct, nil)
	pool := testdb.Migrated(t)
	log := &records{}
	k := kind("k", "q")
	w := start(t, behind(t, pool, p, pgx.QueryExecModeCacheDescribe), pawlrt.Config{Poll: 50 * time.Millisecond, Logger: slog.New(log), Tables: []task.Table{table(k, fine)}})
	testdb.Eventually(t, 2*slow, "the log to say it", func() bool { return len(log.with("set Config.Listen to a direct connection, or PollOnly")) > 0 })
	put(t, pool, k, numbered(20, "")...)
	require.Equal(t, store.Audit{Completed: 20}, settled(t, pool, 20))
	require.NoError(t, w.shutdown(t))
}

// The same with jobs of a second.
func TestRestartAtFullSize(t *testing.T) {
	t.Parallel()
	restart(t, time.Second)
}
