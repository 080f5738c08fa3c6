package main

import (
	"context"
	"fmt"

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
