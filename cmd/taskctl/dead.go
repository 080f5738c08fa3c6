package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pawlgo/pawl/admin"
)

func (a *app) deadCommand() *cobra.Command {
	return group("dead", "Look through dead letters, redrive them, purge them",
		a.deadList(), a.deadJobs(), a.deadRedrive(), a.deadRedrives(), a.deadPurge())
}

// deadFilter are the flags of a filter for dead letters.
type deadFilter struct {
	admin.DeadFilter
	ids, args    []string
	since, until string
}

func (f *deadFilter) flags(cmd *cobra.Command, all string) {
	flags := cmd.Flags()
	if all != "" {
		flags.BoolVar(&f.All, "all", false, all)
	}
	flags.StringSliceVar(&f.ids, "id", nil, "the `ids` of jobs")
	flags.StringVar(&f.Kind, "kind", "", "those of a `kind`")
	flags.StringVar(&f.Queue, "queue", "", "those of a `queue`")
	flags.StringVar(&f.ErrorCode, "error-code", "", "those of an error's `code`, such as permanent or timeout")
	flags.StringVar(&f.Fingerprint, "fingerprint", "", "those of one sort of error, by the `fingerprint` that \"dead list\" shows")
	flags.StringVar(&f.Message, "message", "", "those with a `text` in the error's summary, such as \"410 Gone\"")
	flags.StringVar(&f.OrganizationID, "organization", "", "those of an organization, by its `id`")
	flags.StringVar(&f.since, "since", "", "those that died from a `time` on: 2026-11-29T10:00:00Z, or 6h ago")
	flags.StringVar(&f.until, "until", "", "those that died before a `time`")
	flags.StringArrayVar(&f.args, "arg", nil, argUsage)
}

// filter reads the flags. Durations are taken off the clock of the database.
func (f *deadFilter) filter(ctx context.Context, c *admin.Client) (_ admin.DeadFilter, err error) {
	now := func() (time.Time, error) { return c.Now(ctx) }
	if f.IDs, err = parseIDs(f.ids); err != nil {
		return f.DeadFilter, err
	}
	if f.Since, err = parseTime(f.since, now); err != nil {
		return f.DeadFilter, err
	}
	if f.Until, err = parseTime(f.until, now); err != nil {
		return f.DeadFilter, err
	}
	f.Args, err = argFlags(f.args)
	return f.DeadFilter, err
}

// parseTime reads a time, or how long before now it was.
func parseTime(text string, now func() (time.Time, error)) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if ago, err := time.ParseDuration(strings.TrimSuffix(strings.TrimSpace(text), " ago")); err == nil {
		if ago < 0 {
			return time.Time{}, usage(fmt.Errorf("%q is in the future: give how long ago it was, such as 6h", text))
		}
		t, err := now()
		if err != nil {
			return time.Time{}, err
		}
		return t.Add(-ago), nil
	}
	for _, layout := range []string{time.RFC3339Nano, time.DateTime, time.DateOnly} {
		if t, err := time.Parse(layout, text); err == nil {
			return t, nil
		}
	}
	return time.Time{}, usage(fmt.Errorf("%q is no time: give 2026-11-29T10:00:00Z, 2026-11-29, or how long ago it was, such as 6h", text))
}

func (a *app) deadList() *cobra.Command {
	var paging paging
	cmd := &cobra.Command{
		Use: "list", Short: "List dead letters by their errors", Args: args(cobra.NoArgs),
		Long: `List dead letters by their errors: letters of one code, and of a summary that is the
same but for numbers, hexadecimal words, UUIDs and quoted texts, are one line.`,
		RunE: a.with(func(ctx context.Context, c *admin.Client, _ []string) error {
			list, err := c.DeadGroups(ctx, paging.page)
			if err != nil {
				return err
			}
			t := &table{head: []string{"FINGERPRINT", "COUNT", "CODE", "ERROR", "KIND", "OLDEST", "NEWEST"}}
			for _, g := range list.Groups {
				t.add(g.Fingerprint, g.Count.String(), cell(g.ErrorCode), cell(g.Shape), cell(g.Kind), moment(g.Oldest), moment(g.Newest))
			}
			if err := show(a, list, list.Groups, t); err != nil {
				return err
			}
			a.more(0, list.Next)
			return nil
		}),
	}
	paging.flags(cmd)
	return cmd
}

func (a *app) deadJobs() *cobra.Command {
	var (
		paging paging
		filter deadFilter
	)
	cmd := &cobra.Command{
		Use: "jobs", Short: "List dead letters one by one, the newest first", Args: args(cobra.NoArgs),
		RunE: a.with(func(ctx context.Context, c *admin.Client, _ []string) error {
			f, err := filter.filter(ctx, c)
			if err != nil {
				return err
			}
			list, err := c.Dead(ctx, f, paging.page)
			if err != nil {
				return err
			}
			return a.jobs(list)
		}),
	}
	filter.flags(cmd, "")
	paging.flags(cmd)
	paging.budget(cmd)
	return cmd
}

// touch shows what a filter would touch, and asks. It bounds the filter by the
// moment of its look: what dies while somebody thinks about the answer is left alone.
func (a *app) touch(ctx context.Context, c *admin.Client, f *admin.DeadFilter, verb string) (bool, error) {
	touched, err := c.TouchDead(ctx, *f, admin.Page{})
	if err != nil {
		return false, err
	}
	*f = f.DiedBefore(touched.At)
	many := fmt.Sprintf("%d dead letters", touched.Letters)
	if !touched.Whole {
		many = fmt.Sprintf("%d dead letters of the %d that were looked at, and those of the rest", touched.Letters, touched.Looked)
	}
	if a.dryRun {
		t := &table{head: []string{"LETTERS", "KIND", "QUEUE", "CODE", "ERROR"}}
		for _, s := range touched.Sorts {
			t.add(fmt.Sprint(s.Letters), cell(s.Kind), cell(s.Queue), cell(s.ErrorCode), cell(s.Shape))
		}
		if err := show(a, touched, touched.Sorts, t); err != nil {
			return false, err
		}
	}
	return a.confirm("%s %s", verb, many)
}

func (a *app) deadRedrive() *cobra.Command {
	var (
		opts   admin.RedriveOptions
		filter deadFilter
		stopAt string
		goOn   string
	)
	cmd := a.destructive(&cobra.Command{
		Use: "redrive", Short: "Make dead letters run again, some first and the rest at a rate", Args: args(cobra.NoArgs),
		Long: `Make the dead letters of a filter run again, with the ids that their jobs had. With
--canary, so many run first, and the rest waits until they have ended; with --stop-at
it stops at that share of failures. How far it is stands in the database: when it is
interrupted, or stopped, --continue goes on. Values of --arg that are redacted are not
written down: give those to --continue again.`,
		Example: `  taskctl dead redrive --message 410 --canary 10 --stop-at 10% --rate 50 --dry-run`,
		RunE: a.with(func(ctx context.Context, c *admin.Client, _ []string) (err error) {
			opts.Reason, opts.Progress = a.reason, a.progress()
			var run *admin.Redrive
			if goOn != "" {
				id, err := parseID(goOn)
				if err != nil {
					return err
				}
				if opts.Filter.Args, err = argFlags(filter.args); err != nil {
					return err
				}
				if ok, err := a.confirm("continue redrive %s", id); !ok || err != nil {
					return err
				}
				run, err = c.ContinueRedrive(ctx, id, opts)
				return a.redriven(run, err)
			}
			if opts.Filter, err = filter.filter(ctx, c); err != nil {
				return err
			}
			if opts.StopAt, err = parseShare(stopAt); err != nil {
				return err
			}
			how := "redrive"
			if opts.Canary > 0 {
				how = fmt.Sprintf("redrive, %d of them first,", opts.Canary)
			}
			if ok, err := a.touch(ctx, c, &opts.Filter, how); !ok || err != nil {
				return err
			}
			run, err = c.Redrive(ctx, opts)
			return a.redriven(run, err)
		}),
	})
	filter.flags(cmd, "all dead letters that there are")
	flags := cmd.Flags()
	flags.IntVar(&opts.Canary, "canary", 0, "how `many` run first, while the others wait for their ends")
	flags.Float64Var(&opts.Rate, "rate", 0, "how many to release a `second`; without a limit where zero")
	flags.StringVar(&stopAt, "stop-at", "0", "the `share` of failures that stops it, such as 10% or 0.1")
	flags.IntVar(&opts.Attempts, "attempts", 0, "how many `attempts` each has, else as many as it had")
	flags.BoolVar(&opts.Wait, "wait", false, "wait for the ends of all of them")
	flags.StringVar(&goOn, "continue", "", "go on with the redrive of that `id`, as it was started")
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) (err error) {
		if !cmd.Flags().Changed("continue") {
			return nil
		}
		cmd.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
			switch f.Name {
			case "continue", "wait", "yes", "dry-run", "arg":
				return
			}
			if f.Changed && err == nil {
				err = usage(fmt.Errorf("--%s beside --continue: a redrive goes on as it was started; leave it out, or start another redrive for the letters that are left", f.Name))
			}
		})
		return err
	}
	return cmd
}

// parseShare reads 10% or 0.1.
func parseShare(text string) (float64, error) {
	number, percent := strings.CutSuffix(strings.TrimSpace(text), "%")
	share, err := strconv.ParseFloat(number, 64)
	if percent {
		share /= 100
	}
	if err != nil || !(share >= 0 && share <= 1) {
		return 0, usage(fmt.Errorf("%q is no share: give 10%% or 0.1", text))
	}
	return share, nil
}

// progressEvery is how often numbers are shown that only grow.
const progressEvery = 2 * time.Second

// progress shows how far a redrive is: when its state changes, and now and then.
func (a *app) progress() func(admin.Redrive) {
	var (
		state admin.RedriveState
		last  time.Time
	)
	return func(r admin.Redrive) {
		if r.Trouble != "" {
			a.hint("it is tried again: %s", r.Trouble)
			return
		}
		if r.State == state && time.Since(last) < progressEvery {
			return
		}
		if state == "" {
			a.hint("redrive %s", r.ID)
		}
		state, last = r.State, time.Now()
		a.hint("%-8s released %d, completed %d, failed %d, cancelled %d, refused %d, skipped %d",
			r.State, r.Redriven, r.Completed, r.Failed, r.Cancelled, r.Refused, r.Skipped)
	}
}

// redriven shows how a redrive ended.
func (a *app) redriven(run *admin.Redrive, err error) error {
	if run == nil {
		return err
	}
	t := redriveTable(*run)
	if showErr := one(a, run, t); showErr != nil {
		return errors.Join(err, showErr)
	}
	if err != nil {
		again := ""
		for _, f := range run.Filter.Args {
			if f.Redacted {
				again += fmt.Sprintf(" --arg %s=VALUE", strings.Join(f.Path, "."))
			}
		}
		a.hint("to go on: taskctl dead redrive --continue %s%s", run.ID, again)
	} else if run.Skipped > 0 {
		a.hint("%d dead letters were locked by somebody else, or removed: redrive them again to be sure", run.Skipped)
	}
	return err
}

func redriveTable(all ...admin.Redrive) *table {
	t := &table{head: []string{"REDRIVE", "STATE", "RELEASED", "COMPLETED", "FAILED", "CANCELLED", "REFUSED", "SKIPPED", "STARTED", "BY", "REASON"}}
	for _, r := range all {
		t.add(ident(r.ID), string(r.State), fmt.Sprint(r.Redriven), fmt.Sprint(r.Completed), fmt.Sprint(r.Failed), fmt.Sprint(r.Cancelled), fmt.Sprint(r.Refused), fmt.Sprint(r.Skipped),
			moment(r.StartedAt), cell(r.By), cell(or(r.Reason)))
	}
	return t
}

func (a *app) deadRedrives() *cobra.Command {
	most := 0
	cmd := &cobra.Command{
		Use: "redrives", Short: "List redrives, the newest first", Args: args(cobra.NoArgs),
		RunE: a.with(func(ctx context.Context, c *admin.Client, _ []string) error {
			all, err := c.Redrives(ctx, most)
			if err != nil {
				return err
			}
			return show(a, all, all, redriveTable(all...))
		}),
	}
	cmd.Flags().IntVar(&most, "limit", 20, "at most so `many`")
	return cmd
}

func (a *app) deadPurge() *cobra.Command {
	var filter deadFilter
	cmd := a.destructive(&cobra.Command{
		Use: "purge", Short: "Remove dead letters for good", Args: args(cobra.NoArgs),
		RunE: a.with(func(ctx context.Context, c *admin.Client, _ []string) error {
			f, err := filter.filter(ctx, c)
			if err != nil {
				return err
			}
			if ok, err := a.touch(ctx, c, &f, "remove for good"); !ok || err != nil {
				return err
			}
			var last time.Time
			removed, err := c.PurgeDead(ctx, f, a.reason, func(removed int) {
				if time.Since(last) >= progressEvery {
					if !last.IsZero() {
						a.hint("removed %d", removed)
					}
					last = time.Now()
				}
			})
			t := &table{}
			t.add("removed", fmt.Sprint(removed))
			return errors.Join(err, one(a, map[string]int{"removed": removed}, t))
		}),
	})
	filter.flags(cmd, "all dead letters that there are")
	return cmd
}
