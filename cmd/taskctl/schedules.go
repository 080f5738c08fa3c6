package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawlgo/pawl/admin"
)

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
			after, err := parseTime(from, func() (time.Time, error) { return time.Now(), nil })
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
