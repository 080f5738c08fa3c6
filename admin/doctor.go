package admin

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/pawlgo/pawl/internal/store"
	pawlrt "github.com/pawlgo/pawl/runtime"
)

// Finding is how a check of [Client.Doctor] ended.
type Finding string

// The findings.
const (
	FindingOK      Finding = "ok"
	FindingWarn    Finding = "warn"    // it works, and may not for long
	FindingFail    Finding = "fail"    // something does not work
	FindingUnknown Finding = "unknown" // it could not be found out
)

// Check is one thing that the doctor looked at.
type Check struct {
	Name    string  `json:"name"`
	Finding Finding `json:"finding"`
	Text    string  `json:"text"`
	// Do is what to do about it, where something is to be done.
	Do string `json:"do,omitempty"`
}

// DoctorOptions say how thorough the doctor is.
type DoctorOptions struct {
	// Full takes the time that the check of the invariants needs, and looks at all
	// days. Otherwise it has about a second, for the last two days.
	Full bool
}

// Limits of the doctor's.
const (
	horizonWarn = 10 * time.Minute
	horizonFail = 2 * time.Hour
	skewWarn    = 2 * time.Second
	queueWarn   = 0.1
	queueFail   = 0.5
	booksWithin = 600 * time.Millisecond
	listenLimit = 5 * time.Second
	deadFloor   = 100_000 // dead rows that no table is small enough to mind
	// A session that has held back vacuum for so many transactions has done it for
	// long at any rate.
	hiddenWarn = 1_000_000
)

// seeSessions is what to do where the role may not see since when the sessions of
// others are in a transaction.
const seeSessions = "GRANT pg_monitor to this role, which shows it the sessions of all"

// Doctor looks at what keeps a database of Pawl's from working well: the schema
// and the versions, connections, rights, notifications, who holds back vacuum,
// clocks, indexes, workers, and whether the books add up. It changes nothing. A
// check that cannot be made is a finding too; the error is for a database that
// does not answer.
func (c *Client) Doctor(ctx context.Context, opts DoctorOptions) ([]Check, error) {
	began := time.Now()
	var now time.Time
	if err := c.read(ctx, "reach the database", func(r *store.Reading) (err error) {
		began = time.Now()
		now, err = r.Now(ctx)
		return err
	}); err != nil {
		return nil, err
	}
	took := time.Since(began)
	all := []Check{clockCheck(now, began, took)}

	schema, usable := c.checkSchema(ctx)
	all = append(all, schema)
	if !usable {
		return all, nil
	}
	for _, check := range []func(context.Context) []Check{
		c.checkServer, c.checkGrants, c.checkListen, c.checkHolders, c.checkTables, c.checkWork,
	} {
		all = append(all, check(ctx)...)
	}
	return append(all, c.checkBooks(ctx, opts)), nil
}

// Worst is the worst finding of some checks: fail, warn, unknown or ok.
func Worst(checks []Check) Finding {
	worst := FindingOK
	for _, rank := range []Finding{FindingUnknown, FindingWarn, FindingFail} {
		for _, c := range checks {
			if c.Finding == rank {
				worst = rank
			}
		}
	}
	return worst
}

func clockCheck(now, began time.Time, took time.Duration) Check {
	skew := now.Sub(began.Add(took / 2)).Round(time.Millisecond)
	check := Check{Name: "clock", Finding: FindingOK, Text: fmt.Sprintf("the server's clock is %v off this machine's, as far as can be told within %v", skew, (took / 2).Round(time.Millisecond))}
	if skew.Abs() > skewWarn+took {
		check.Finding, check.Do = FindingWarn, "Pawl goes by the server's clock alone; what your own code compares with it may be off: run NTP on both"
	}
	return check
}

func (c *Client) checkSchema(ctx context.Context) (check Check, usable bool) {
	check = Check{Name: "schema", Finding: FindingOK}
	m, err := c.Migrations(ctx)
	switch {
	case err != nil:
		return broken("schema", err), false
	case m.Applied == 0:
		check.Finding, check.Do = FindingFail, "taskctl migrate up"
		check.Text = fmt.Sprintf("there is no schema %s of Pawl's", c.schema)
		return check, false
	case m.Applied < m.Known:
		check.Finding, check.Do = FindingFail, "taskctl migrate up"
		check.Text = fmt.Sprintf("it is at migration %d, and this binary has %d", m.Applied, m.Known)
		return check, false
	case m.Applied > m.Known:
		check.Finding, check.Do = FindingWarn, "use a taskctl that is as new as the workers"
		check.Text = fmt.Sprintf("it is at migration %d, and this binary knows %d: what is newer is not looked at", m.Applied, m.Known)
		return check, true
	}
	check.Text = fmt.Sprintf("it is at migration %d, as this binary is", m.Applied)
	return check, true
}

// broken is a check that could not be made.
func broken(name string, err error) Check {
	return Check{Name: name, Finding: FindingUnknown, Text: err.Error()}
}

func (c *Client) checkServer(ctx context.Context) []Check {
	var s store.ServerRow
	if err := c.read(ctx, "look at the server", func(r *store.Reading) (err error) {
		s, err = r.Server(ctx)
		return err
	}); err != nil {
		return []Check{broken("server", err)}
	}
	server := Check{Name: "server", Finding: FindingOK, Text: fmt.Sprintf("PostgreSQL %d, %d of %d connections are in use", s.Version/10000, s.Sessions, s.Most)}
	if s.Hidden { // a replica's session looks like that of a client
		server.Text = fmt.Sprintf("PostgreSQL %d, at most %d of %d connections are in use", s.Version/10000, s.Sessions, s.Most)
	}
	switch {
	case s.Version < 150000:
		server.Finding, server.Do = FindingFail, "Pawl needs PostgreSQL 15 or newer"
	case s.Recovery:
		server.Finding, server.Do = FindingFail, "this is a standby, where nothing can be written: connect to the primary"
	case s.Sessions*10 > s.Most*9 && s.Hidden:
		server.Finding, server.Do = FindingUnknown, seeSessions
	case s.Sessions*10 > s.Most*9:
		server.Finding, server.Do = FindingWarn, "raise max_connections, or put a pooler between"
	}
	notify := Check{Name: "notification queue", Finding: FindingOK, Text: fmt.Sprintf("%.2f %% of it is used", 100*s.QueueUsage)}
	if s.QueueUsage >= queueWarn {
		notify.Finding, notify.Do = FindingWarn, "some session listens and sits in a long transaction: when the queue is full, commits that notify fail; see vacuum horizon"
		if s.QueueUsage >= queueFail {
			notify.Finding = FindingFail
		}
	}
	indexes := Check{Name: "indexes", Finding: FindingOK, Text: "all are valid"}
	if len(s.Invalid) > 0 {
		indexes.Finding, indexes.Text, indexes.Do = FindingFail, "not valid: "+strings.Join(s.Invalid, ", "), "REINDEX INDEX CONCURRENTLY each of them"
	}
	days := Check{Name: "partitions", Finding: FindingOK, Text: fmt.Sprintf("those of today and of %d days ahead are there", s.Ahead)}
	switch {
	case !s.Today:
		days.Finding, days.Text, days.Do = FindingWarn, "there are none for today", "the next enqueue makes them, and so does any worker"
	case s.Ahead == 0:
		days.Finding, days.Text, days.Do = FindingWarn, "there are none for tomorrow", "workers make them ahead: is one running?"
	}
	return []Check{server, notify, indexes, days}
}

func (c *Client) checkListen(ctx context.Context) []Check {
	ctx, cancel := context.WithTimeout(ctx, listenLimit)
	defer cancel()
	check := Check{Name: "listen", Finding: FindingOK}
	st, err := store.Open(ctx, c.pool, c.schema, 1)
	if err != nil {
		return []Check{broken("listen", err)}
	}
	defer st.Close()
	began := time.Now()
	listener, err := st.Listen(ctx, nil)
	switch {
	case errors.Is(err, store.ErrDeaf):
		check.Finding, check.Text = FindingWarn, "a notification that is sent through this connection is not heard through another one"
		check.Do = "that is what a transaction pooler does: give workers Config.Listen with a direct connection, or PollOnly"
		return []Check{check}
	case err != nil:
		return []Check{broken("listen", err)}
	}
	defer listener.Close()
	check.Text = fmt.Sprintf("a notification came through %v after the connection was begun", time.Since(began).Round(time.Millisecond))
	return []Check{check}
}

func (c *Client) checkHolders(ctx context.Context) []Check {
	var holders []store.HolderRow
	if err := c.read(ctx, "look for who holds back vacuum", func(r *store.Reading) (err error) {
		holders, err = r.Holders(ctx)
		return err
	}); err != nil {
		return []Check{broken("vacuum horizon", err)}
	}
	checks := []Check{}
	if hidden, ok := hiddenCheck(holders); ok {
		checks = append(checks, hidden)
	}
	for _, h := range holders {
		if h.Hidden {
			continue
		}
		since := time.Duration(h.Since * float64(time.Second)).Round(time.Second)
		check := Check{Name: "vacuum horizon", Finding: FindingWarn}
		switch h.What {
		case "session":
			if since < horizonWarn {
				continue
			}
			check.Text = fmt.Sprintf("session %s of %s (%s, %s) is in a transaction since %v", h.Name, h.Role, h.App, h.State, since)
			check.Do = fmt.Sprintf("SELECT pg_terminate_backend(%s)", h.Name)
		case "prepared":
			if since < horizonWarn {
				continue
			}
			check.Text = fmt.Sprintf("the prepared transaction %s of %s is open since %v", h.Name, h.Role, since)
			check.Do = "COMMIT PREPARED it, or ROLLBACK PREPARED"
		case "slot":
			if h.State == "active" && h.Age < deadFloor {
				continue
			}
			check.Text = fmt.Sprintf("the replication slot %s (%s, %s) keeps what %d transactions have left", h.Name, h.App, h.State, h.Age)
			check.Do = "start its consumer, or drop it"
		case "standby":
			if h.Age < deadFloor {
				continue
			}
			check.Text = fmt.Sprintf("the standby %s (%s) keeps what %d transactions have left, by hot_standby_feedback", h.Name, h.App, h.Age)
			check.Do = "end the long query there"
		}
		if since >= horizonFail {
			check.Finding = FindingFail
		}
		checks = append(checks, check)
	}
	if len(checks) == 0 {
		text := "nobody holds back vacuum"
		if len(holders) > 0 {
			text = fmt.Sprintf("nobody holds back vacuum for %v", horizonWarn)
		}
		checks = append(checks, Check{Name: "vacuum horizon", Finding: FindingOK, Text: text})
	}
	return checks
}

// hiddenCheck is about the sessions of others, of which the role may not see since
// when they are in a transaction; ok is false where there is none.
func hiddenCheck(holders []store.HolderRow) (check Check, ok bool) {
	var (
		n     int
		worst store.HolderRow
	)
	for _, h := range holders {
		if h.Hidden {
			if n++; h.Age >= worst.Age {
				worst = h
			}
		}
	}
	if n == 0 {
		return check, false
	}
	check = Check{Name: "vacuum horizon", Finding: FindingUnknown, Do: seeSessions}
	check.Text = fmt.Sprintf("%d sessions of others are in a transaction, and since when this role may not see; the one that holds back most, %s of %s (%s), keeps what %d transactions have left",
		n, worst.Name, worst.Role, worst.App, worst.Age)
	if worst.Age >= hiddenWarn {
		check.Finding = FindingWarn
	}
	return check, true
}

func (c *Client) checkTables(ctx context.Context) []Check {
	var (
		server store.ServerRow
		tables []store.TableRow
	)
	if err := c.read(ctx, "look at the tables", func(r *store.Reading) (err error) {
		if server, err = r.Server(ctx); err != nil {
			return err
		}
		tables, err = r.HotTables(ctx)
		return err
	}); err != nil {
		return []Check{broken("autovacuum", err)}
	}
	check := Check{Name: "autovacuum", Finding: FindingOK, Text: "it is on, and keeps up with the tables that change all the time"}
	if !server.Autovacuum || !server.Tracking {
		check.Finding, check.Text, check.Do = FindingFail, "it is off", "set autovacuum and track_counts to on"
		return []Check{check}
	}
	checks := []Check{}
	for _, t := range tables {
		switch {
		case t.Off:
			checks = append(checks, Check{Name: "autovacuum", Finding: FindingFail, Text: "it is off for table " + t.Table, Do: fmt.Sprintf("ALTER TABLE %s RESET (autovacuum_enabled)", t.Table)})
		case t.Dead > deadFloor && t.Dead > 2*t.Live:
			checks = append(checks, Check{Name: "autovacuum", Finding: FindingWarn,
				Text: fmt.Sprintf("table %s has %d dead rows beside %d, vacuumed last %s", t.Table, t.Dead, t.Live, since(at(t.VacuumedAt), server.Now)),
				Do:   "see vacuum horizon; or autovacuum has too few workers"})
		}
	}
	if len(checks) == 0 {
		checks = append(checks, check)
	}
	return checks
}

func since(t, now time.Time) string {
	if t.IsZero() {
		return "never"
	}
	return now.Sub(t).Round(time.Second).String() + " ago"
}

// checkWork looks at who works, and what waits for whom.
func (c *Client) checkWork(ctx context.Context) []Check {
	status, err := c.Status(ctx)
	if err != nil {
		return []Check{broken("workers", err)}
	}
	workers := Check{Name: "workers", Finding: FindingOK, Text: fmt.Sprintf("%d live", status.Workers)}
	switch {
	case status.Workers == 0 && status.Due.N+status.PendingEvents.N > 0:
		workers.Finding, workers.Text, workers.Do = FindingFail, fmt.Sprintf("none lives, and %v jobs are due", status.Due), "start one"
	case status.Workers == 0:
		workers.Finding, workers.Text = FindingWarn, "none lives"
	case status.ExpiredWorkers > 0:
		workers.Finding, workers.Text = FindingWarn, fmt.Sprintf("%d live; %d have not renewed their lease", status.Workers, status.ExpiredWorkers)
		workers.Do = "another worker takes their jobs within a lease; where that does not happen, see its log"
	}
	checks := []Check{workers}
	for _, q := range status.Queues {
		if q.Workers == 0 && q.Due.N > 0 && q.PausedAt.IsZero() && status.Workers > 0 {
			checks = append(checks, Check{Name: "queue " + q.Queue, Finding: FindingFail, Text: fmt.Sprintf("%v jobs are due, and no live worker serves it", q.Due), Do: "taskctl workers"})
		}
	}
	if status.PausedQueues > 0 {
		checks = append(checks, Check{Name: "paused", Finding: FindingWarn, Text: fmt.Sprintf("%d queues are paused", status.PausedQueues), Do: "taskctl queues list"})
	}
	if status.Workers > 0 {
		stranded, err := c.Jobs(ctx, JobFilter{State: StateStranded}, Page{Limit: 1, Within: 100 * time.Millisecond})
		switch {
		case err != nil:
			checks = append(checks, broken("stranded", err))
		case len(stranded.Jobs) > 0:
			j := stranded.Jobs[0]
			checks = append(checks, Check{Name: "stranded", Finding: FindingFail, Text: fmt.Sprintf("no live worker can decode some jobs, such as %s (%s version %d)", j.ID, j.Kind, j.Version), Do: "taskctl jobs list --state stranded"})
		}
	}
	if status.UnservedSchedules > 0 {
		checks = append(checks, Check{Name: "schedules", Finding: FindingWarn, Text: fmt.Sprintf("no live worker has the kinds of %d schedules", status.UnservedSchedules), Do: "taskctl schedules list"})
	}
	if status.Dead.N > 0 {
		checks = append(checks, Check{Name: "dead letters", Finding: FindingWarn, Text: fmt.Sprintf("there are %v", status.Dead), Do: "taskctl dead list"})
	}
	if status.BlockedAggregates > 0 {
		checks = append(checks, Check{Name: "events", Finding: FindingFail, Text: fmt.Sprintf("dead events hold up %d aggregates", status.BlockedAggregates), Do: "taskctl events list --status dead"})
	}
	if status.Quarantined > 0 {
		checks = append(checks, Check{Name: "quarantine", Finding: FindingFail, Text: fmt.Sprintf("%d jobs or events had lost their row, and were set aside", status.Quarantined), Do: "taskctl jobs list --state quarantined"})
	}
	return checks
}

func (c *Client) checkBooks(ctx context.Context, opts DoctorOptions) Check {
	check := Check{Name: "books", Finding: FindingOK}
	options := pawlrt.InvariantOptions{Schema: c.schema}
	within := ctx
	if opts.Full {
		options.Days = -1
	} else {
		var cancel context.CancelFunc
		within, cancel = context.WithTimeout(ctx, booksWithin)
		defer cancel()
	}
	found, err := pawlrt.CheckInvariants(within, c.pool, options)
	switch {
	case err != nil && ctx.Err() == nil && within.Err() != nil:
		check.Finding, check.Text, check.Do = FindingUnknown, fmt.Sprintf("not looked through within %v", booksWithin), "taskctl doctor --full"
	case err != nil:
		return broken("books", err)
	case found.Err() != nil:
		check.Finding, check.Text, check.Do = FindingFail, found.Err().Error(), "rows were changed by hand or lost, or it is a bug: keep a copy of the database"
	default:
		check.Text = fmt.Sprintf("they add up: %d jobs wait, %d run, %d are blocked", found.Ready, found.Leased, found.Blocked)
	}
	return check
}
