package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawlgo/pawl/admin"
)

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
