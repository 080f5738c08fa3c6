package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlgo/pawl/bench/internal/subject"
)

// childWord is the argument that makes this program a worker process.
const childWord = "bench-worker"

// blockForever is the kind of handler that starts and never ends.
const blockForever = "block"

func isChild(args []string) bool { return len(args) == 2 && args[1] == childWord }

// order is what a worker process is told on its standard input. It works until
// that ends.
type order struct {
	Subject  string
	URL      string
	Settings subject.Settings
	Handler  string // empty for one that does nothing
}

// report of a worker process, a line each on its standard output.
type progress struct {
	First int64 // when its first job started, in Unix nanoseconds
	Count int64 // jobs that it has started and, but for blockForever, done
}

// tell is how often a worker process says how far it is.
const tell = 2 * time.Millisecond

func childMain(stdin io.Reader, stdout, stderr io.Writer) int {
	if err := childWork(context.Background(), stdin, stdout); err != nil {
		fmt.Fprintf(stderr, "bench: worker process: %v\n", err)
		return exitFailed
	}
	return exitOK
}

func childWork(ctx context.Context, stdin io.Reader, stdout io.Writer) (err error) {
	debug.SetGCPercent(gcPercent)
	in := bufio.NewReader(stdin)
	line, err := in.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("read the order: %w", err)
	}
	var o order
	if err := json.Unmarshal(line, &o); err != nil {
		return fmt.Errorf("read the order: %w", err)
	}
	s, err := subject.ByName(o.Subject)
	if err != nil {
		return err
	}
	pool, err := pgxpool.New(ctx, o.URL)
	if err != nil {
		return err
	}
	defer pool.Close()
	client, err := s.Open(ctx, pool)
	if err != nil {
		return err
	}
	defer client.Close()

	m := &meter{}
	handler := m.handle
	if o.Handler == blockForever {
		handler = func(ctx context.Context, a subject.Attempt) error {
			if err := m.handle(ctx, a); err != nil {
				return err
			}
			<-ctx.Done()
			return ctx.Err()
		}
	}
	w, err := client.Start(ctx, o.Settings, handler)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Stop(ctx)) }()

	ended := make(chan struct{})
	go func() { // owned by the process, which ends when its input does
		defer close(ended)
		_, _ = io.Copy(io.Discard, in)
	}()
	out := json.NewEncoder(stdout)
	ticker := time.NewTicker(tell)
	defer ticker.Stop()
	told := int64(0)
	for {
		if n := m.count.Load(); n != told {
			if err := out.Encode(progress{m.first.Load(), n}); err != nil {
				return err
			}
			told = n
		}
		select {
		case <-ended:
			return nil
		case <-ticker.C:
		}
	}
}

// child is a worker process as this one sees it.
type child struct {
	cmd   *exec.Cmd
	input io.Closer
	first atomic.Int64
	count atomic.Int64
	read  chan struct{} // closed when its output has ended
	ended bool
}

// children are worker processes of one trial.
type children []*child

// startChildren starts processes with the settings of the trial.
func (t *trial) startChildren(ctx context.Context, n int, handler string) (children, error) {
	// A connection string of the driver keeps the database of its creation, so the
	// new one is spelled out.
	c := t.db.pool.Config().ConnConfig
	o := order{
		Subject: t.subject.Name(), Settings: t.settings, Handler: handler,
		URL: fmt.Sprintf("host=%s port=%d user=%s password='%s' dbname=%s pool_max_conns=%d", c.Host, c.Port, c.User, c.Password, t.db.name, poolConns),
	}
	var group children
	for range n {
		p, err := startChild(ctx, o)
		if err != nil {
			return nil, errors.Join(err, group.kill())
		}
		group = append(group, p)
	}
	return group, nil
}

func startChild(ctx context.Context, o order) (*child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	text, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	p := &child{cmd: exec.CommandContext(ctx, self, childWord), read: make(chan struct{})}
	p.cmd.Stderr = os.Stderr
	input, err := p.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	output, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start a worker process: %w", err)
	}
	p.input = input
	go func() { // ends with the process
		defer close(p.read)
		in := json.NewDecoder(output)
		for {
			var said progress
			if err := in.Decode(&said); err != nil {
				return
			}
			p.first.Store(said.First)
			p.count.Store(said.Count)
		}
	}()
	if _, err := input.Write(append(text, '\n')); err != nil {
		return nil, errors.Join(fmt.Errorf("give a worker process its order: %w", err), children{p}.kill())
	}
	return p, nil
}

func (g children) count() (n int64) {
	for _, p := range g {
		n += p.count.Load()
	}
	return n
}

// since is how long ago the first of all jobs started.
func (g children) since() time.Duration {
	first := time.Now().UnixNano()
	for _, p := range g {
		if at := p.first.Load(); at > 0 {
			first = min(first, at)
		}
	}
	return time.Since(time.Unix(0, first))
}

// stop lets the processes finish what they have begun.
func (g children) stop() error {
	var errs []error
	for _, p := range g {
		errs = append(errs, p.input.Close())
	}
	for _, p := range g {
		<-p.read
		errs = append(errs, p.cmd.Wait())
		p.ended = true
	}
	return errors.Join(errs...)
}

// kill ends the processes as SIGKILL does. Those that have ended stay so.
func (g children) kill() error {
	var errs []error
	for _, p := range g {
		if p.ended {
			continue
		}
		errs = append(errs, p.cmd.Process.Kill())
		<-p.read
		_ = p.cmd.Wait() // that it was killed is known
		p.ended = true
	}
	return errors.Join(errs...)
}
