package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawlgo/pawl/admin"
)

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
