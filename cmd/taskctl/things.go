package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawlgo/pawl/admin"
)

func (a *app) queuesCommand() *cobra.Command {
	list := &cobra.Command{
		Use: "list", Short: "List queues with what waits in them", Args: args(cobra.NoArgs),
		RunE: a.with(func(ctx context.Context, c *admin.Client, _ []string) error {
			queues, err := c.Queues(ctx)
			if err != nil {
				return err
			}
			return show(a, queues, queues, queueTable(queues))
		}),
	}
	change := func(use, short, verb string, do func(context.Context, *admin.Client, string) (bool, error)) *cobra.Command {
		return a.changing(&cobra.Command{
			Use: use, Short: short, Args: args(cobra.ExactArgs(1)),
			RunE: a.with(func(ctx context.Context, c *admin.Client, args []string) error {
				if !a.announce("%s queue %s", verb, plain(args[0])) {
					return nil
				}
				changed, err := do(ctx, c, args[0])
				if err != nil {
					return err
				}
				return a.toggled("queue", args[0], verb, changed)
			}),
		})
	}
	return group("queues", "List, pause and resume queues", list,
		change("pause QUEUE", "Stop claims from a queue in every process", "pause", func(ctx context.Context, c *admin.Client, queue string) (bool, error) {
			return c.PauseQueue(ctx, queue, a.reason)
		}),
		change("resume QUEUE", "Let workers claim from a paused queue again", "resume", func(ctx context.Context, c *admin.Client, queue string) (bool, error) {
			return c.ResumeQueue(ctx, queue, a.reason)
		}))
}

// toggled shows that something was paused or resumed, or was so already.
func (a *app) toggled(what, name, verb string, changed bool) error {
	t := &table{}
	answer := verb + "d"
	if !changed {
		answer = "was so already"
	}
	t.add(what, plain(name), answer)
	return one(a, map[string]any{what: name, "changed": changed}, t)
}

func queueTable(queues []admin.Queue) *table {
	t := &table{head: []string{"QUEUE", "WORKERS", "DUE", "LATER", "LEASED", "BLOCKED", "OLDEST DUE", "PAUSED"}}
	for _, q := range queues {
		t.add(cell(q.Queue), fmt.Sprint(q.Workers), q.Due.String(), q.Later.String(), fmt.Sprint(q.Leased), q.Blocked.String(), moment(q.OldestDue), moment(q.PausedAt))
	}
	return t
}

func (a *app) statusCommand() *cobra.Command {
	return &cobra.Command{
		Use: "status", Short: "Show a database at a glance", Args: args(cobra.NoArgs),
		RunE: a.with(func(ctx context.Context, c *admin.Client, _ []string) error {
			s, err := c.Status(ctx)
			if err != nil {
				return err
			}
			t := &table{}
			t.add("database", fmt.Sprintf("%s, schema %s, PostgreSQL %s", plain(s.Database), plain(s.Schema), s.Server))
			t.add("migration", fmt.Sprintf("%d of %d", s.Migration, s.Binary))
			t.add("workers", fmt.Sprintf("%d live, %d expired", s.Workers, s.ExpiredWorkers))
			t.add("jobs", fmt.Sprintf("%v due, %v later, %d leased", s.Due, s.Later, s.Leased))
			t.add("oldest due", moment(s.OldestDue))
			t.add("dead letters", s.Dead.String())
			t.add("quarantined", fmt.Sprint(s.Quarantined))
			t.add("paused queues", fmt.Sprint(s.PausedQueues))
			t.add("schedules", fmt.Sprintf("%d, %d without a worker", s.Schedules, s.UnservedSchedules))
			t.add("events", fmt.Sprintf("%v pending, %v dead, %d aggregates held up", s.PendingEvents, s.DeadEvents, s.BlockedAggregates))
			if a.format == "table" && len(s.Queues) > 0 {
				if err := one(a, s, t); err != nil {
					return err
				}
				fmt.Fprintln(a.stdout)
				return one(a, s, queueTable(s.Queues))
			}
			return one(a, s, t)
		}),
	}
}

func (a *app) workersCommand() *cobra.Command {
	return &cobra.Command{
		Use: "workers", Short: "List worker processes", Args: args(cobra.NoArgs),
		RunE: a.with(func(ctx context.Context, c *admin.Client, _ []string) error {
			workers, err := c.Workers(ctx)
			if err != nil {
				return err
			}
			t := &table{head: []string{"ID", "NAME", "STATE", "QUEUES", "KINDS", "JOBS", "STARTED", "EXPIRES"}}
			for _, w := range workers {
				state := "live"
				if !w.Alive {
					state = "expired"
				}
				t.add(ident(w.ID), cell(w.Name), state, cell(or(strings.Join(w.Queues, ","))), cell(or(strings.Join(w.Kinds, ","))), fmt.Sprint(w.Leased), moment(w.StartedAt), moment(w.ExpiresAt))
			}
			return show(a, workers, workers, t)
		}),
	}
}

func (a *app) auditCommand() *cobra.Command {
	var paging paging
	cmd := &cobra.Command{
		Use: "audit", Short: "List what was changed, by whom and why", Args: args(cobra.NoArgs),
		RunE: a.with(func(ctx context.Context, c *admin.Client, _ []string) error {
			list, err := c.Audit(ctx, paging.page)
			if err != nil {
				return err
			}
			t := &table{head: []string{"AT", "BY", "ROLE", "WHAT", "TARGET", "THINGS", "WHY"}}
			for _, e := range list.Entries {
				t.add(moment(e.BeganAt), cell(e.By), cell(e.Role), e.Verb, cell(e.Target), fmt.Sprint(e.Things), cell(or(e.Reason)))
			}
			if err := show(a, list, list.Entries, t); err != nil {
				return err
			}
			a.more(0, list.Next)
			return nil
		}),
	}
	paging.flags(cmd)
	return cmd
}

func (a *app) doctorCommand() *cobra.Command {
	var opts admin.DoctorOptions
	cmd := &cobra.Command{
		Use: "doctor", Short: "Look for what keeps it from working well", Args: args(cobra.NoArgs),
		Long: `Look for what keeps Pawl from working well on this database: the schema and the
versions, rights, notifications, who holds back vacuum, clocks, indexes, workers, and
whether the books add up. It changes nothing. The exit code is 1 where a check fails.`,
		RunE: a.with(func(ctx context.Context, c *admin.Client, _ []string) error {
			checks, err := c.Doctor(ctx, opts)
			if err != nil {
				return err
			}
			t := &table{head: []string{"CHECK", "FINDING", ""}}
			colours := map[admin.Finding]string{admin.FindingOK: "32", admin.FindingWarn: "33", admin.FindingFail: "31", admin.FindingUnknown: "36"}
			for _, x := range checks {
				t.add(cell(x.Name), a.colour(string(x.Finding), colours[x.Finding]), plain(x.Text))
				if x.Do != "" {
					t.add("", "", "  "+plain(x.Do))
				}
			}
			if err := show(a, checks, checks, t); err != nil {
				return err
			}
			if admin.Worst(checks) == admin.FindingFail {
				return errBad
			}
			return nil
		}),
	}
	cmd.Flags().BoolVar(&opts.Full, "full", false, "hold all books against one another, however long that takes")
	return cmd
}

func (a *app) verifyCommand() *cobra.Command {
	return &cobra.Command{
		Use: "verify", Short: "Say which payload versions are stored, and whether anybody can decode them", Args: args(cobra.NoArgs),
		Long: `Say which payload versions are stored, how many live workers know each, and whether
those of the current versions fit the shape that workers have registered. To run the
decoders and upgraders themselves over what is stored, call runtime.Verify in a binary
that has them. The exit code is 1 where something is wrong.`,
		RunE: a.with(func(ctx context.Context, c *admin.Client, _ []string) error {
			v, err := c.Verify(ctx)
			if err != nil {
				return err
			}
			t := &table{head: []string{"KIND", "VERSION", "CAPABILITY", "CURRENT", "WORKERS", "UNFINISHED", "DEAD", "CHECKED", "MISFITS"}}
			for _, s := range v.Versions {
				t.add(cell(s.Kind), fmt.Sprint(s.Version), s.Capability.String(), fmt.Sprint(s.Current), fmt.Sprint(s.Workers), fmt.Sprint(s.Unfinished), fmt.Sprint(s.Dead), fmt.Sprint(s.Checked), fmt.Sprint(s.Misfits))
			}
			if err := show(a, v, v.Versions, t); err != nil {
				return err
			}
			if !v.Whole {
				a.hint("there is more than was counted")
			}
			if err := v.Err(); err != nil {
				a.hint("%s", plain(err.Error()))
				return errBad
			}
			return nil
		}),
	}
}

func (a *app) schedulesCommand() *cobra.Command {
	list := &cobra.Command{
		Use: "list", Short: "List schedules", Args: args(cobra.NoArgs),
		RunE: a.with(func(ctx context.Context, c *admin.Client, _ []string) error {
			all, err := c.Schedules(ctx)
			if err != nil {
				return err
			}
			t := &table{head: []string{"KIND", "SPEC", "ZONE", "MISSED", "STATUS", "NEXT TICK", "LAST TICK", "TICKS", "MISSED", "SKIPPED"}}
			for _, s := range all {
				t.add(cell(s.Kind), cell(s.Spec), cell(s.Zone), s.Missed, s.Status, moment(s.NextTick), moment(s.LastTick), fmt.Sprint(s.Ticks), fmt.Sprint(s.MissedTicks), fmt.Sprint(s.SkippedTicks))
			}
			return show(a, all, all, t)
		}),
	}
	change := func(use, short, verb string, do func(context.Context, *admin.Client, string) (bool, error)) *cobra.Command {
		return a.changing(&cobra.Command{
			Use: use, Short: short, Args: args(cobra.ExactArgs(1)),
			RunE: a.with(func(ctx context.Context, c *admin.Client, args []string) error {
				if !a.announce("%s the schedule of %s", verb, plain(args[0])) {
					return nil
				}
				changed, err := do(ctx, c, args[0])
				if err != nil {
					return err
				}
				return a.toggled("schedule", args[0], verb, changed)
			}),
		})
	}
	run := a.changing(&cobra.Command{
		Use: "run-now KIND", Short: "Ask for one job of a schedule besides its ticks", Args: args(cobra.ExactArgs(1)),
		RunE: a.with(func(ctx context.Context, c *admin.Client, args []string) error {
			if !a.announce("ask for one job of the schedule of %s", plain(args[0])) {
				return nil
			}
			if err := c.RunScheduleNow(ctx, args[0], a.reason); err != nil {
				return err
			}
			t := &table{}
			t.add("schedule", plain(args[0]), "a worker makes its job within two seconds")
			return one(a, map[string]any{"schedule": args[0], "changed": true}, t)
		}),
	})
	return group("schedules", "List, preview, run, pause and resume schedules", list, a.previewCommand(), run,
		change("pause KIND", "Stop the ticks of a schedule in every process", "pause", func(ctx context.Context, c *admin.Client, kind string) (bool, error) {
			return c.PauseSchedule(ctx, kind, a.reason)
		}),
		change("resume KIND", "Let a paused schedule tick again", "resume", func(ctx context.Context, c *admin.Client, kind string) (bool, error) {
			return c.ResumeSchedule(ctx, kind, a.reason)
		}))
}

func (a *app) previewCommand() *cobra.Command {
	var (
		spec, zone, from string
		ticks            int
	)
	cmd := &cobra.Command{
		Use: "preview [KIND]", Short: "Show the next ticks, and the changes of clocks between them", Args: args(cobra.MaximumNArgs(1)),
		Long: `Show the next ticks of a schedule in its zone, and between them the changes of that
zone's clocks. With --spec, those of an expression, for which no database is needed.`,
		Example: `  taskctl schedules preview nightly_report
  taskctl schedules preview --spec "30 2 * * *" --zone America/Los_Angeles --from 2027-03-12`,
		RunE: func(cmd *cobra.Command, args []string) error {
			after, err := parseTime(from)
			if err != nil {
				return err
			}
			var all []admin.Tick
			switch {
			case spec != "" && len(args) == 0:
				if after.IsZero() {
					after = time.Now()
				}
				all, err = admin.Preview(spec, zone, after, ticks)
			case spec == "" && len(args) == 1:
				err = a.with(func(ctx context.Context, c *admin.Client, args []string) error {
					all, err = c.PreviewSchedule(ctx, args[0], after, ticks)
					return err
				})(cmd, args)
			default:
				err = usage(errors.New("give either a kind or --spec"))
			}
			if err != nil {
				return err
			}
			t := &table{head: []string{"LOCAL", "UTC", ""}}
			for _, x := range all {
				note := ""
				if x.Change != nil {
					note = "before: " + x.Change.String()
				}
				t.add(x.At.Format("Mon 2006-01-02 15:04:05 MST"), moment(x.At), note)
			}
			return show(a, all, all, t)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&spec, "spec", "", "a cron `expression`, in place of a kind")
	flags.StringVar(&zone, "zone", "UTC", "the `zone` of --spec, such as Europe/Berlin")
	flags.StringVar(&from, "from", "", "a `time` to begin after; now where it is left out")
	flags.IntVarP(&ticks, "number", "n", 10, "how `many` ticks")
	return cmd
}

func (a *app) eventsCommand() *cobra.Command {
	var (
		filter admin.EventFilter
		status string
		paging paging
	)
	list := &cobra.Command{
		Use: "list", Short: "List events", Args: args(cobra.NoArgs),
		RunE: a.with(func(ctx context.Context, c *admin.Client, _ []string) error {
			filter.Status = admin.EventStatus(status)
			list, err := c.Events(ctx, filter, paging.page)
			if err != nil {
				return err
			}
			t := &table{head: []string{"ID", "TYPE", "AGGREGATE", "STATUS", "ATTEMPTS", "PUBLISHED", "ERROR"}}
			for _, e := range list.Events {
				failure := "-"
				if e.ErrorCode != "" {
					failure = cell(e.ErrorCode + ": " + e.ErrorSummary)
				}
				held := ""
				if e.Blocks {
					held = ", holds up its aggregate"
				}
				t.add(ident(e.ID), cell(e.Type), cell(e.AggregateType+"/"+e.AggregateID), string(e.Status)+held, fmt.Sprint(e.Attempts), moment(e.PublishedAt), failure)
			}
			if err := show(a, list, list.Events, t); err != nil {
				return err
			}
			a.more(list.Looked, list.Next)
			return nil
		}),
	}
	flags := list.Flags()
	flags.StringVar(&filter.Type, "type", "", "events of a `type`, such as trip.completed")
	flags.StringVar(&filter.AggregateType, "aggregate", "", "events of a `type` of aggregates")
	flags.StringVar(&filter.AggregateID, "aggregate-id", "", "events of the aggregate with that `id`")
	flags.StringVar(&filter.OrganizationID, "organization", "", "events of an organization, by its `id`")
	flags.StringVar(&status, "status", "", "events in a `status`: "+words(admin.EventStatuses()))
	complete(list, "status", strings.Split(words(admin.EventStatuses()), ", ")...)
	paging.flags(list)
	paging.budget(list)

	show := &cobra.Command{
		Use: "show EVENT", Short: "Show all that is known of an event", Args: args(cobra.ExactArgs(1)),
		RunE: a.with(func(ctx context.Context, c *admin.Client, args []string) error {
			id, err := parseID(args[0])
			if err != nil {
				return err
			}
			e, err := c.Event(ctx, id)
			if err != nil {
				return err
			}
			t := &table{}
			t.add("id", ident(e.ID))
			t.add("type", fmt.Sprintf("%s version %d (%s)", plain(e.Type), e.Version, e.Capability))
			t.add("aggregate", plain(e.AggregateType+"/"+e.AggregateID))
			t.add("sequence", fmt.Sprint(e.Sequence))
			t.add("status", string(e.Status))
			if e.Blocks {
				t.add("", "it holds up its aggregate: retry it, or skip it")
			}
			t.add("occurred", moment(e.OccurredAt))
			t.add("published", moment(e.PublishedAt))
			t.add("ended", moment(e.EndedAt))
			t.add("attempts", fmt.Sprint(e.Attempts))
			for _, x := range e.Errors {
				t.add("failed", fmt.Sprintf("%s attempt %d: %s: %s", moment(x.At), x.Attempt, plain(x.Code), plain(x.Summary)))
			}
			t.add("payload", pretty(e.Payload))
			return one(a, e, t)
		}),
	}
	retry := a.changing(&cobra.Command{
		Use: "retry EVENT", Short: "Have a dead event projected after all", Args: args(cobra.ExactArgs(1)),
		RunE: a.with(func(ctx context.Context, c *admin.Client, args []string) error {
			id, err := parseID(args[0])
			if err != nil || !a.announce("retry event %s", id) {
				return err
			}
			if err := c.RetryEvent(ctx, id, a.reason); err != nil {
				return err
			}
			t := &table{}
			t.add("event", ident(id), "pending")
			return one(a, map[string]any{"event": id, "status": "pending"}, t)
		}),
	})
	skip := a.destructive(&cobra.Command{
		Use: "skip EVENT", Short: "Let the aggregate that a dead event holds up go on without it", Args: args(cobra.ExactArgs(1)),
		RunE: a.with(func(ctx context.Context, c *admin.Client, args []string) error {
			id, err := parseID(args[0])
			if err != nil {
				return err
			}
			if ok, err := a.confirm("let the aggregate of event %s go on without it", id); !ok || err != nil {
				return err
			}
			if err := c.SkipEvent(ctx, id, a.reason); err != nil {
				return err
			}
			t := &table{}
			t.add("event", ident(id), "skipped")
			return one(a, map[string]any{"event": id, "status": "skipped"}, t)
		}),
	})
	return group("events", "List, show, retry and skip events", list, show, retry, skip)
}
