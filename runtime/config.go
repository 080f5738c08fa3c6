package runtime

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"os"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/pawlgo/pawl/internal/dispatch"
	"github.com/pawlgo/pawl/task"
)

// The defaults of [Config].
const (
	DefaultConcurrency = 10
	DefaultLease       = 15 * time.Second
	DefaultHeartbeat   = 5 * time.Second
	DefaultPoll        = time.Second
	DefaultSoftLimit   = 20 * time.Second
	DefaultHardLimit   = 30 * time.Second
)

// maxConcurrency is more than one process has use for; it bounds what a slip
// of the pen can cost.
const maxConcurrency = 1 << 20

// ErrConfig is in the chain of every error of [New].
var ErrConfig = errors.New("the worker's configuration is wrong")

// Config says what a worker runs and how. Only Tables or Events is required.
type Config struct {
	// Tables are the handlers, from generated code. A worker serves the queues
	// that its tables name and no others, so a role-specific worker is one with
	// fewer tables. A kind may stand in one table only.
	Tables []task.Table
	// Events are the projections, from generated code. An event may stand in one
	// table only. Those that no table of this worker has wait for another worker.
	Events []task.EventTable
	// Queues sets the queues that differ from the default. Naming one that no
	// table serves is an error.
	Queues map[string]Queue
	// Relay is how events are projected.
	Relay Relay
	// Schema is where Pawl's tables are; "pawl" where empty.
	Schema string
	// Name tells the process apart from others in tools and logs; host and
	// process id where empty.
	Name string
	// Logger gets what an operator should know; slog.Default() where nil.
	Logger *slog.Logger

	// MeterProvider gets the worker's metrics, by the OpenTelemetry API; there are
	// none where nil. Give it that of your SDK, or what otel.GetMeterProvider()
	// returns for the process's global one. What handlers, projections and schedules
	// enqueue and publish is measured with it too; for the rest of the application
	// there is [task.Metrics]. docs/metrics.md lists the metrics.
	MeterProvider metric.MeterProvider

	// TracerProvider gets a span of each attempt at a job or an event, by the
	// OpenTelemetry API; there are none where nil. Give it that of your SDK, or what
	// otel.GetTracerProvider() returns for the process's global one. The context
	// of a trace travels with the job, and with the event: a first attempt that starts
	// within a minute of the enqueue or the publishing is a child of the span that it
	// comes from, any other attempt the root of a trace of its own with a link to that
	// span. The context of the handler or projection carries the span.
	// docs/tracing.md has an example.
	TracerProvider trace.TracerProvider

	// Middleware runs around every handler and projection, the first one outermost.
	Middleware []Middleware

	// Lease is how long the jobs of a process that stopped are left alone
	// before others take them; 15 s where zero.
	Lease time.Duration
	// Heartbeat is how often the lease is renewed; 5 s where zero. At most half
	// of Lease.
	Heartbeat time.Duration
	// Poll is how often an idle queue looks for work without being woken; 1 s
	// where zero. Wake-ups only shorten the wait, so it bounds the latency when
	// they fail; a job whose transaction stayed open while later ones were claimed
	// can take up to 5 s more where looking for such jobs has become expensive.
	Poll time.Duration
	// PollOnly does without LISTEN, for a database behind a transaction pooler.
	PollOnly bool
	// Listen is how the listener connects where the pool's connections go through
	// a transaction pooler, which cannot listen: a direct connection to the same
	// database, from [pgx.ParseConfig]. It connects as the pool does where nil.
	// The pool's BeforeConnect is called for it too.
	Listen *pgx.ConnConfig

	// Retention says for how long what is over is kept: finished jobs for 7 days
	// where it is empty.
	Retention Retention

	// SoftLimit is how long a shutdown waits for running handlers before it
	// ends their contexts; 20 s where zero.
	SoftLimit time.Duration
	// HardLimit is when a shutdown returns in any case, counted from its
	// beginning; 30 s where zero. At least SoftLimit.
	HardLimit time.Duration
}

// Queue is the configuration of one queue in one worker.
type Queue struct {
	// Concurrency is how many handlers run at once; 10 where zero.
	Concurrency int
}

// withDefaults returns a copy of c with the defaults filled in, or what is
// wrong with it.
func (c Config) withDefaults() (Config, error) {
	c.Lease = cmp.Or(c.Lease, DefaultLease)
	c.Heartbeat = cmp.Or(c.Heartbeat, min(DefaultHeartbeat, c.Lease/3))
	c.Poll = cmp.Or(c.Poll, DefaultPoll)
	c.SoftLimit = cmp.Or(c.SoftLimit, DefaultSoftLimit)
	c.HardLimit = cmp.Or(c.HardLimit, max(DefaultHardLimit, c.SoftLimit))
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if c.Name == "" {
		host, err := os.Hostname()
		if err != nil {
			host = "unknown"
		}
		c.Name = fmt.Sprintf("%s:%d", host, os.Getpid())
	}
	for _, d := range []struct {
		name  string
		value time.Duration
	}{{"Lease", c.Lease}, {"Heartbeat", c.Heartbeat}, {"Poll", c.Poll}, {"SoftLimit", c.SoftLimit}, {"HardLimit", c.HardLimit}} {
		if d.value < time.Millisecond {
			return c, wrong("%s is %v: use a millisecond or more", d.name, d.value)
		}
	}
	if c.Listen != nil {
		if c.PollOnly {
			return c, wrong("Listen is set, and PollOnly too: PollOnly does without a listener")
		}
		if !parsed(c.Listen) {
			return c, wrong("Listen was not made by pgx.ParseConfig, which it has to be")
		}
		c.Listen = c.Listen.Copy()
	}
	if c.Heartbeat > c.Lease/2 {
		return c, wrong("Heartbeat is %v, more than half of the lease of %v: one late heartbeat would lose every lease", c.Heartbeat, c.Lease)
	}
	if !utf8.ValidString(c.Name) || strings.Contains(c.Name, "\x00") {
		return c, wrong("Name is not valid UTF-8 without U+0000")
	}
	if i := slices.IndexFunc(c.Middleware, func(m Middleware) bool { return m == nil }); i >= 0 {
		return c, wrong("Middleware[%d] is nil", i)
	}
	if c.HardLimit < c.SoftLimit {
		return c, wrong("HardLimit %v is before SoftLimit %v", c.HardLimit, c.SoftLimit)
	}
	var err error
	if c.Relay, err = c.Relay.withDefaults(); err != nil {
		return c, err
	}
	c.Retention, err = c.Retention.withDefaults()
	return c, err
}

// parsed says whether a configuration comes from its parser. The driver panics
// where it does not, which must not happen in a goroutine of the worker.
func parsed(c *pgx.ConnConfig) (ok bool) {
	defer func() { ok = recover() == nil }()
	c = c.Copy()
	c.Tracer = nil
	c.LookupFunc = func(context.Context, string) ([]string, error) { return nil, context.Canceled }
	c.DialFunc = func(context.Context, string, string) (net.Conn, error) { return nil, context.Canceled }
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, _ = pgx.ConnectConfig(ctx, c) // gets no further than to that check
	return true
}

func wrong(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrConfig, fmt.Sprintf(format, args...))
}

// served is one queue of a worker: its rows by kind.
type served struct {
	name        string
	concurrency int
	rows        map[string]dispatch.Row
}

// queues sorts the rows of the tables by queue.
func (c Config) queues() ([]served, error) {
	byName := make(map[string]served)
	seen := make(map[string]bool)
	for _, table := range c.Tables {
		for _, row := range dispatch.Rows(table) {
			if seen[row.Kind] {
				return nil, wrong("kind %s stands in two tables: a kind has one handler", row.Kind)
			}
			seen[row.Kind] = true
			q, ok := byName[row.Queue]
			if !ok {
				q = served{name: row.Queue, concurrency: DefaultConcurrency, rows: make(map[string]dispatch.Row)}
				byName[row.Queue] = q
			}
			q.rows[row.Kind] = row
		}
	}
	if events, err := c.events(); err == nil && len(byName)+len(events) == 0 {
		return nil, wrong("no table has a handler: pass what the generated functions Tables and Events return")
	}
	for name, config := range c.Queues {
		q, ok := byName[name]
		if !ok {
			return nil, wrong("Queues names %q, which no table serves: the tables serve %s", name, strings.Join(slices.Sorted(maps.Keys(byName)), ", "))
		}
		if config.Concurrency > maxConcurrency {
			return nil, wrong("queue %s has concurrency %d: use at most %d", name, config.Concurrency, maxConcurrency)
		}
		if config.Concurrency < 0 {
			return nil, wrong("queue %s has concurrency %d: use 1 or more, or 0 for the default of %d", name, config.Concurrency, DefaultConcurrency)
		}
		q.concurrency = cmp.Or(config.Concurrency, DefaultConcurrency)
		byName[name] = q
	}
	all := slices.Collect(maps.Values(byName))
	slices.SortFunc(all, func(a, b served) int { return cmp.Compare(a.name, b.name) })
	return all, nil
}
