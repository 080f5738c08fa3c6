package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlgo/pawl/example/fleetdb"
	"github.com/pawlgo/pawl/example/receiver"
	"github.com/pawlgo/pawl/example/tasks"
	"github.com/pawlgo/pawl/internal/localpg"
	"github.com/pawlgo/pawl/migrations"
)

var (
	// errChecks says that the run ended and a check does not hold.
	errChecks = errors.New("not every check holds")
	// errOutput says that the output directory cannot be used.
	errOutput = errors.New("the output directory cannot be used")
)

// cleanupTime is for taking things down, which goes on after an interrupt.
const cleanupTime = 15 * time.Second

// platform is a run while it runs. Its fields are set up in the order in which
// they stand here and taken down in the reverse one.
type platform struct {
	*options
	began    time.Time
	outDir   string
	outTemp  *tempOutput // nil where the user named a directory
	database string
	pool     *pgxpool.Pool
	receiver *receiver.Receiver
	workers  []*process
	taken    counters
}

// counters are what the ingest has counted so far.
type counters struct {
	mu        sync.Mutex // guards what follows
	positions int
	taken     fleetdb.Taken
}

// run is the whole example: set up, work, judge, take down.
func (o *options) run(ctx context.Context) (err error) {
	p := &platform{options: o, began: time.Now()}
	down := func(name string, f func(ctx context.Context) error) {
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTime)
		defer cancel()
		if downErr := f(end); downErr != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", name, downErr))
		}
	}

	if err := p.openOutput(); err != nil {
		return err
	}
	defer down("remove the output", func(context.Context) error { return p.closeOutput() })

	p.say("%s: %d positions of %d vehicles", o.traceName, len(o.trace), len(o.reference.Vehicles))
	p.say("reports and exports go to %s%s", p.outDir, map[bool]string{true: ", which is removed at the end"}[p.outTemp != nil])
	server, err := o.startServer(ctx)
	if err != nil {
		return err
	}
	defer down("stop the server", func(context.Context) error { return server.Close() })
	drop, err := p.createDatabase(ctx, server.URL())
	if err != nil {
		return err
	}
	defer down("drop the database", drop)

	if p.pool, err = pgxpool.New(ctx, p.database); err != nil {
		return err
	}
	defer p.pool.Close()
	if err := migrations.Up(ctx, p.pool, migrations.Options{}); err != nil {
		return err
	}
	if err := fleetdb.Create(ctx, p.pool); err != nil {
		return err
	}
	p.say("a database on PostgreSQL %d is migrated", server.Version())

	if p.receiver, err = receiver.Start(subscribers(), o.settings.Answer); err != nil {
		return err
	}
	defer down("stop the receiver", func(context.Context) error { return p.receiver.Close() })
	if err := p.addEndpoints(ctx); err != nil {
		return err
	}

	defer down("kill the workers", func(context.Context) error { return p.killWorkers() })
	for _, name := range []string{"a", "b"} {
		if _, err := p.startWorker(name); err != nil {
			return err
		}
	}
	p.say("two worker processes run: a is %d, b is %d", p.workers[0].cmd.Process.Pid, p.workers[1].cmd.Process.Pid)

	if err := p.work(ctx); err != nil {
		return err
	}
	for _, w := range p.workers {
		if err := w.drain(ctx); err != nil {
			return err
		}
	}
	return p.judge(ctx)
}

// say prints a line of progress.
func (p *platform) say(format string, args ...any) {
	fmt.Fprintf(p.stdout, "%5.1f s  %s\n", time.Since(p.began).Seconds(), fmt.Sprintf(format, args...))
}

// createDatabase makes a database for this run alone, whatever server it is on.
func (p *platform) createDatabase(ctx context.Context, server string) (drop func(context.Context) error, err error) {
	name := "fleet_" + strings.ToLower(rand.Text())
	on := func(ctx context.Context, sql string) error {
		conn, err := pgx.Connect(ctx, server)
		if err != nil {
			return err
		}
		_, err = conn.Exec(ctx, sql)
		return errors.Join(err, conn.Close(ctx))
	}
	u, err := url.Parse(server)
	if err != nil || u.Scheme == "" {
		return nil, fmt.Errorf("%s must be a URL such as postgres://user@host/database", localpg.URLVariable)
	}
	u.Path = "/" + name
	p.database = u.String()
	if err := on(ctx, "CREATE DATABASE "+name); err != nil {
		return nil, fmt.Errorf("create a database for the run: %w", err)
	}
	// A comment tells which run a database belongs to, should one be left.
	drop = func(ctx context.Context) error { return on(ctx, "DROP DATABASE IF EXISTS "+name+" WITH (FORCE)") }
	if err := on(ctx, "COMMENT ON DATABASE "+name+" IS '"+strings.ReplaceAll(p.outDir, "'", "''")+"'"); err != nil {
		return nil, errors.Join(err, drop(context.WithoutCancel(ctx)))
	}
	return drop, nil
}

// subscribers are those who want to hear of facts, and how they behave.
func subscribers() map[string]receiver.Behaviour {
	return map[string]receiver.Behaviour{
		"dispatch": receiver.Always(http.StatusOK),
		"billing":  receiver.FailsFirst(),
		"partner":  receiver.LimitsFirst(time.Second),
		"legacy":   receiver.Always(http.StatusGone),
	}
}

func (p *platform) addEndpoints(ctx context.Context) error {
	for name := range subscribers() {
		facts := []string{tasks.EventTripCompleted}
		if name == "partner" || name == "legacy" {
			facts = []string{tasks.EventGeofenceEntered, tasks.EventGeofenceLeft}
		}
		e := fleetdb.Endpoint{ID: uuid.New(), Name: name, Facts: facts, URL: p.receiver.URL(name)}
		if err := fleetdb.AddEndpoint(ctx, p.pool, e); err != nil {
			return err
		}
	}
	return nil
}

func (p *platform) startWorker(name string) (*process, error) {
	w, err := startWorker(workerOrder{
		Name: name, Database: p.database, Out: p.outDir, Orphaned: p.outTemp != nil,
		Slots: p.settings.Slots, Lease: p.settings.Lease, Pace: p.settings.Pace, Verbose: p.verbose,
	}, p.stderr)
	if err != nil {
		return nil, err
	}
	p.workers = append(p.workers, w)
	return w, nil
}

func (p *platform) killWorkers() error {
	var errs []error
	for _, w := range p.workers {
		if w.running() {
			errs = append(errs, w.kill())
		}
	}
	return errors.Join(errs...)
}
