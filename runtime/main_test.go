package runtime_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"os"
	osexec "os/exec"
	goruntime "runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/pawlgo/pawl/internal/testdb"
	pawlrt "github.com/pawlgo/pawl/runtime"
	"github.com/pawlgo/pawl/task"
	"github.com/pawlgo/pawl/task/taskimpl"
)

// childEnv makes the test binary a worker process; its value is a childConfig.
const childEnv = "PAWL_TEST_WORKER"

func TestMain(m *testing.M) {
	if text := os.Getenv(childEnv); text != "" {
		if err := runChild(text); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	// Most of what these tests do is wait: for leases to end, for silence to be
	// noticed, for processes to start.
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		if err := flag.Set("test.parallel", strconv.Itoa(3*goruntime.GOMAXPROCS(0))); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

type childConfig struct {
	URL         string
	Lease       time.Duration
	Concurrency int
	// DieOnClaim kills the process when a claim has taken jobs, before the
	// first handler is called.
	DieOnClaim bool
	// Steps makes it handle the steps of stepTables too.
	Steps bool
	// Ticks makes it handle a kind that is scheduled for every second.
	Ticks bool
	// Events makes it project events too; Skip, that a dead one holds up none.
	Events, Skip bool
	Retention    pawlrt.Retention
	// Chaos makes it a worker of a chaos run instead.
	Chaos *chaosWorker
}

// childKind is the kind that child processes handle.
func childKind() *taskimpl.Kind[args] { return kind("child", "children") }

// runChild works until its input says stop or ends. It writes a line for each
// thing that happens.
func runChild(text string) error {
	var c childConfig
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		return err
	}
	config, err := pgxpool.ParseConfig(c.URL)
	if err != nil {
		return err
	}
	if c.DieOnClaim {
		config.ConnConfig.Tracer = assassin{}
	}
	var pooled pawlrt.Config
	throughPooler(config, &pooled)
	if c.Chaos != nil {
		config.ConnConfig.RuntimeParams["application_name"] = c.Chaos.Name
		config.MaxConns = 6
	}
	before := goruntime.NumGoroutine()
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return err
	}
	var mu sync.Mutex // of the output
	say := func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Printf(format+"\n", args...)
	}
	opened, listened := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(listened)
		defer stop()
		for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
			switch lines.Text() {
			case "open":
				close(opened)
			case "stop":
				return
			}
		}
	}()
	var steps []task.Table
	if c.Steps {
		steps = stepTables(pool)
	}
	if c.Ticks {
		steps = append(steps, table(everySecond(), fine))
	}
	settings := pawlrt.Config{
		Listen: pooled.Listen, PollOnly: pooled.PollOnly,
		Lease: c.Lease, Poll: 100 * time.Millisecond, Retention: c.Retention, Logger: slog.New(slog.NewTextHandler(os.Stderr, nil)),
		Queues: map[string]pawlrt.Queue{"children": {Concurrency: c.Concurrency}},
		Tables: append(steps, table(childKind(), func(ctx context.Context, job *task.Job[args]) error {
			say("start %d %d", job.Args.N, job.Attempt)
			switch mode := job.Args.Mode; {
			case mode == "exit":
				os.Exit(3)
			case mode == "hold" && job.Attempt == 1: // then complete, though the lease may be lost
				select {
				case <-opened:
				case <-ctx.Done():
					say("cause %d %t", job.Args.N, errors.Is(context.Cause(ctx), task.ErrLeaseLost))
				}
			case mode == "deaf" && job.Attempt == 1:
				<-opened
			}
			say("end %d %d", job.Args.N, job.Attempt)
			return nil
		})),
	}
	if c.Chaos != nil {
		c.Chaos.configure(pool, &settings)
	}
	if c.Events {
		e := event(func(e *taskimpl.Event[args]) { e.Policy.Timeout, e.Skip = time.Second, c.Skip })
		settings.Events = projecting(e, func(ctx context.Context, tx pgx.Tx, f *task.Fact[args]) error {
			switch f.Payload.Mode {
			case "hold":
				say("holding %d", f.Payload.N)
				<-opened
			case "exit":
				os.Exit(3)
			}
			return record(ctx, tx, f)
		}).Events
	}
	worker, err := pawlrt.New(pool, settings)
	if err != nil {
		return err
	}
	if err := worker.Run(ctx); err != nil {
		return err
	}
	stats, err := json.Marshal(worker.Stats())
	if err != nil {
		return err
	}
	say("stats %s", stats)
	pool.Close()
	<-listened
	left := goruntime.NumGoroutine()
	for deadline := time.Now().Add(slow); left > before && time.Now().Before(deadline); left = goruntime.NumGoroutine() {
		goruntime.Gosched() // what has ended may not be gone yet
	}
	say("leaked %d", left-before)
	return nil
}

// assassin kills its process when a claim that took jobs has committed.
type assassin struct{}

type doomed struct{ claimed bool }

func (assassin) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	return ctx
}
func (assassin) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func (assassin) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	return context.WithValue(ctx, doomed{}, &doomed{})
}

func (assassin) TraceBatchQuery(ctx context.Context, _ *pgx.Conn, data pgx.TraceBatchQueryData) {
	if isClaim(data.SQL) && data.CommandTag.RowsAffected() > 1 {
		ctx.Value(doomed{}).(*doomed).claimed = true
	}
}

func (assassin) TraceBatchEnd(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchEndData) {
	if ctx.Value(doomed{}).(*doomed).claimed {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	}
}

// child is a worker process.
type child struct {
	cmd    *osexec.Cmd
	stdin  io.WriteCloser
	exited chan struct{} // closed when it has ended and its output is read
	err    error         // how it ended; valid after exited

	mu    sync.Mutex
	lines []string // guarded by mu
}

// spawn starts a worker process, which is gone at the end of the test.
func spawn(t *testing.T, pool *pgxpool.Pool, c childConfig) *child {
	t.Helper()
	db := pool.Config().ConnConfig
	c.URL = (&url.URL{Scheme: "postgres", User: url.UserPassword(db.User, db.Password),
		Host: net.JoinHostPort(db.Host, strconv.Itoa(int(db.Port))), Path: "/" + db.Database}).String()
	text, err := json.Marshal(c)
	require.NoError(t, err)
	p := &child{cmd: osexec.Command(os.Args[0]), exited: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), childEnv+"="+string(text))
	p.cmd.Stderr = t.Output()
	p.stdin, err = p.cmd.StdinPipe()
	require.NoError(t, err)
	stdout, err := p.cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, p.cmd.Start())
	go func() {
		defer close(p.exited)
		for lines := bufio.NewScanner(stdout); lines.Scan(); {
			p.mu.Lock()
			p.lines = append(p.lines, lines.Text())
			p.mu.Unlock()
		}
		p.err = p.cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.exited
	})
	return p
}

func (p *child) signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	require.NoError(t, p.cmd.Process.Signal(s))
}

func (p *child) tell(t *testing.T, word string) {
	t.Helper()
	_, err := io.WriteString(p.stdin, word+"\n")
	require.NoError(t, err)
}

// said are the lines that begin with a word, without it.
func (p *child) said(word string) (rest []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, line := range p.lines {
		if after, ok := strings.CutPrefix(line, word+" "); ok {
			rest = append(rest, after)
		}
	}
	return rest
}

// waitFor waits until n lines begin with a word.
func (p *child) waitFor(t *testing.T, word string, n int) {
	t.Helper()
	testdb.Eventually(t, 3*slow, fmt.Sprintf("%d lines of %q", n, word), func() bool { return len(p.said(word)) >= n })
}

// stop shuts the process down in order and returns its last statistics.
func (p *child) stop(t *testing.T) (stats pawlrt.Stats) {
	t.Helper()
	p.tell(t, "stop")
	receive(t, p.exited, "the process to end")
	require.NoError(t, p.err)
	require.Len(t, p.said("stats"), 1)
	require.NoError(t, json.Unmarshal([]byte(p.said("stats")[0]), &stats))
	require.Equal(t, []string{"0"}, p.said("leaked"), "goroutines")
	return stats
}
