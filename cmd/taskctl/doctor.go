package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/pawlgo/pawl/admin"
)

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
			if v.Unread {
				a.hint("no payload was checked: this role may not read them")
			}
			if err := v.Err(); err != nil {
				a.hint("%s", plain(err.Error()))
				return errBad
			}
			return nil
		}),
	}
}
