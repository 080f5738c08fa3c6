package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"
)

// process is a worker process of this one. It ends when it is told to, when it
// is killed, and when this process dies, since its standard input ends then.
type process struct {
	name  string
	cmd   *exec.Cmd
	input io.WriteCloser
	done  chan struct{} // closed once the process has been reaped
	err   error         // how it ended, after done

	mu       sync.Mutex // guards expected
	expected bool       // its end is wanted
}

// startWorker starts a worker process and gives it its order.
func startWorker(order workerOrder, stderr io.Writer) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	line, err := json.Marshal(order)
	if err != nil {
		return nil, err
	}
	p := &process{name: order.Name, cmd: exec.Command(self, "worker"), done: make(chan struct{})}
	p.cmd.Stderr = stderr
	if p.input, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the worker %s: %w", order.Name, err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.done)
	}()
	if _, err := p.input.Write(append(line, '\n')); err != nil {
		return nil, errors.Join(fmt.Errorf("give the worker %s its order: %w", order.Name, err), p.kill())
	}
	return p, nil
}

func (p *process) expectEnd() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.expected = true
}

// unexpected returns an error if the process has ended though nobody wanted it
// to. Ask it after done.
func (p *process) unexpected() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.expected {
		return nil
	}
	return fmt.Errorf("the worker %s ended by itself: %v", p.name, p.cmd.ProcessState)
}

func (p *process) running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// kill ends the process at once, as SIGKILL does, and returns when it is dead.
func (p *process) kill() error {
	p.expectEnd()
	err := p.cmd.Process.Kill()
	<-p.done
	if errors.Is(err, os.ErrProcessDone) {
		err = nil
	}
	return err
}

// drain asks the process to finish what it has begun and to end, and returns
// when it has. Where that takes too long, or ctx ends, the process is killed.
func (p *process) drain(ctx context.Context) error {
	p.expectEnd()
	if !p.running() {
		return nil
	}
	_, writeErr := io.WriteString(p.input, lastWord+"\n")
	closeErr := p.input.Close()
	timer := time.NewTimer(8 * time.Second)
	defer timer.Stop()
	select {
	case <-p.done:
	case <-ctx.Done():
		return p.kill()
	case <-timer.C:
		return errors.Join(fmt.Errorf("the worker %s did not end within 8 s of being asked", p.name), p.kill())
	}
	if p.err != nil {
		return fmt.Errorf("the worker %s: %w", p.name, errors.Join(p.err, writeErr, closeErr))
	}
	return nil
}
