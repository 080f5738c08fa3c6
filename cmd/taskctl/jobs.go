package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/pawlgo/pawl/admin"
	"github.com/pawlgo/pawl/task"
)

func (a *app) jobsCommand() *cobra.Command {
	return group("jobs", "List, show, retry, cancel and hurry jobs",
		a.jobsList(), a.jobsShow(), a.jobsRetry(), a.jobsCancel(), a.jobsRunNow())
}

// argFlag reads --arg.
func argFlags(texts []string) (all []admin.ArgFilter, err error) {
	for _, text := range texts {
		f, err := admin.ParseArg(text)
		if err != nil {
			return nil, err
		}
		all = append(all, f)
	}
	return all, nil
}

const argUsage = "`path=value` in the arguments, such as customer.id=7; the value is JSON, or a text where it is none; repeatable"

func (a *app) jobsList() *cobra.Command {
	var (
		filter admin.JobFilter
		state  string
		texts  []string
		paging paging
	)
	cmd := &cobra.Command{
		Use: "list", Short: "List jobs", Args: args(cobra.NoArgs),
		Long: `List jobs, a page at a time. With --state, they are looked for where jobs of that
state are; without, from the newest to the oldest of all. A filter that has no index
looks at a bounded number of rows, says how far it came, and how to go on.`,
		Example: `  taskctl jobs list --state retrying --queue webhooks
  taskctl jobs list --kind send_webhook --arg endpoint_id=e1 -o jsonl`,
		RunE: a.with(func(ctx context.Context, c *admin.Client, _ []string) (err error) {
			filter.State = task.State(state)
			if filter.Args, err = argFlags(texts); err != nil {
				return err
			}
			list, err := c.Jobs(ctx, filter, paging.page)
			if err != nil {
				return err
			}
			return a.jobs(list)
		}),
	}
	flags := cmd.Flags()
	flags.StringVar(&filter.Kind, "kind", "", "jobs of a `kind`")
	flags.StringVar(&filter.Queue, "queue", "", "jobs of a `queue`")
	flags.StringVar(&state, "state", "", "jobs in a `state`: "+words(admin.States()))
	flags.StringVar(&filter.ErrorCode, "error-code", "", "jobs whose last failure has that `code`, such as permanent")
	flags.StringVar(&filter.OrganizationID, "organization", "", "jobs of an organization, by its `id`")
	flags.StringArrayVar(&texts, "arg", nil, argUsage)
	paging.flags(cmd)
	paging.budget(cmd)
	complete(cmd, "state", strings.Split(words(admin.States()), ", ")...)
	return cmd
}

func words[T ~string](all []T) string {
	texts := make([]string, len(all))
	for i, w := range all {
		texts[i] = string(w)
	}
	return strings.Join(texts, ", ")
}

// jobs shows a page of jobs.
func (a *app) jobs(list *admin.JobList) error {
	t := &table{head: []string{"ID", "KIND", "QUEUE", "STATE", "ATTEMPTS", "RUN AT", "ERROR"}}
	for _, j := range list.Jobs {
		failure := "-"
		if j.ErrorCode != "" {
			failure = cell(j.ErrorCode + ": " + j.ErrorSummary)
		}
		t.add(ident(j.ID), cell(or(j.Kind)), cell(or(j.Queue)), string(j.State), fmt.Sprintf("%d/%d", j.Attempts, j.MaxAttempts), moment(j.RunAt), failure)
	}
	if err := show(a, list, list.Jobs, t); err != nil {
		return err
	}
	a.more(list.Looked, list.Next)
	return nil
}

func (a *app) jobsShow() *cobra.Command {
	return &cobra.Command{
		Use: "show JOB", Short: "Show all that is known of a job", Args: args(cobra.ExactArgs(1)),
		RunE: a.with(func(ctx context.Context, c *admin.Client, args []string) error {
			id, err := parseID(args[0])
			if err != nil {
				return err
			}
			j, err := c.Job(ctx, id)
			if err != nil {
				return err
			}
			t := &table{}
			t.add("id", ident(j.ID))
			t.add("kind", fmt.Sprintf("%s version %d (%s)", plain(or(j.Kind)), j.Version, j.Capability))
			t.add("queue", fmt.Sprintf("%s, priority %s", plain(or(j.Queue)), priority(j.Priority)))
			t.add("state", string(j.State))
			if j.OrganizationID != "" {
				t.add("organization", plain(j.OrganizationID))
			}
			t.add("enqueued", moment(j.EnqueuedAt))
			t.add("run at", moment(j.RunAt))
			t.add("attempts", fmt.Sprintf("%d of %d", j.Attempts, j.MaxAttempts))
			if j.Worker != "" {
				t.add("worker", fmt.Sprintf("%s since %s, lease until %s", plain(j.Worker), moment(j.ClaimedAt), moment(j.LeasedUntil)))
			}
			if !j.FinishedAt.IsZero() {
				t.add("finished", moment(j.FinishedAt))
			}
			if j.Key != "" {
				t.add("key", j.Key)
			}
			if j.OrderKey != "" {
				t.add("order key", j.OrderKey)
			}
			failures := func(name string, all []admin.Attempt) {
				for _, e := range all {
					t.add(name, fmt.Sprintf("%s attempt %d: %s: %s", moment(e.At), e.Attempt, plain(e.Code), plain(e.Summary)))
				}
			}
			for _, l := range j.Lives {
				t.add("was dead", fmt.Sprintf("%s to %s after %d attempts: %s: %s", moment(l.DiedAt), moment(l.RedrivenAt), l.Attempts, plain(l.Code), plain(l.Summary)))
				failures("failed before", l.Errors)
			}
			failures("failed", j.Errors)
			t.add("arguments", pretty(j.Args))
			return one(a, j, t)
		}),
	}
}

func priority(p task.PriorityLevel) string {
	switch p {
	case task.Low:
		return "low"
	case task.Normal:
		return "normal"
	case task.High:
		return "high"
	case task.Urgent:
		return "urgent"
	}
	return fmt.Sprint(int(p))
}

// pretty is a payload on one line, or as it is where it is no whole JSON.
func pretty(payload string) string {
	var value any
	decoder := json.NewDecoder(strings.NewReader(payload))
	decoder.UseNumber()
	if decoder.Decode(&value) == nil {
		var b strings.Builder
		encoder := json.NewEncoder(&b)
		encoder.SetEscapeHTML(false)
		if encoder.Encode(value) == nil {
			return plain(strings.TrimSpace(b.String()))
		}
	}
	return plain(payload)
}

// changed is the answer of a change of some jobs.
type changed struct {
	ID    uuid.UUID  `json:"id"`
	State task.State `json:"state,omitempty"`
	Error string     `json:"error,omitempty"`
}

// each does something to each of the jobs that are named, and shows what became
// of it. One that cannot be changed keeps none of the others from it.
func (a *app) each(ids []string, do func(uuid.UUID) (task.State, error)) error {
	parsed, err := parseIDs(ids)
	if err != nil {
		return err
	}
	var (
		all  []changed
		errs []error
		t    = &table{head: []string{"ID", "STATE"}}
	)
	for _, id := range parsed {
		state, err := do(id)
		x := changed{ID: id, State: state}
		if err != nil {
			x.Error = err.Error()
			errs = append(errs, err)
		} else {
			t.add(ident(id), string(state))
		}
		all = append(all, x)
	}
	if err := show(a, all, all, t); err != nil {
		return err
	}
	return errors.Join(errs...)
}

func parseIDs(texts []string) ([]uuid.UUID, error) {
	ids := make([]uuid.UUID, len(texts))
	for i, text := range texts {
		id, err := parseID(text)
		if err != nil {
			return nil, err
		}
		ids[i] = id
	}
	return ids, nil
}

// preview shows the named jobs as they are, for a dry run.
func (a *app) preview(ctx context.Context, c *admin.Client, ids []string) error {
	return a.each(ids, func(id uuid.UUID) (task.State, error) {
		job, err := c.Job(ctx, id)
		if err != nil {
			return "", err
		}
		return job.State, nil
	})
}

func (a *app) jobsRetry() *cobra.Command {
	return a.changing(&cobra.Command{
		Use: "retry JOB...", Short: "Make dead jobs run again", Args: args(cobra.MinimumNArgs(1)),
		Long: `Make dead jobs run again, now, with their ids and with all their attempts. For many
at once there is "taskctl dead redrive".`,
		RunE: a.with(func(ctx context.Context, c *admin.Client, args []string) error {
			if !a.announce("retry %d jobs", len(args)) {
				return a.preview(ctx, c, args)
			}
			return a.each(args, func(id uuid.UUID) (task.State, error) { return task.StatePending, c.RetryJob(ctx, id, a.reason) })
		}),
	})
}

func (a *app) jobsCancel() *cobra.Command {
	var organization string
	cmd := a.destructive(&cobra.Command{
		Use: "cancel JOB...", Short: "Cancel jobs",
		Long: `Cancel jobs: those that wait end at once, and of those that run the worker is asked
to end them. With --organization, all jobs of an organization.`,
		RunE: a.with(func(ctx context.Context, c *admin.Client, args []string) error {
			switch {
			case organization != "" && len(args) > 0:
				return usage(errors.New("give either jobs or --organization"))
			case organization == "" && len(args) == 0:
				return usage(errors.New("name the jobs, or give --organization"))
			case organization != "":
				ok, err := a.confirm("cancel every job of organization %s that waits or runs", plain(organization))
				if !ok || err != nil {
					return err
				}
				waiting, running, err := c.CancelOrganization(ctx, organization, a.reason)
				if err != nil {
					return err
				}
				t := &table{}
				t.add("cancelled", fmt.Sprint(waiting))
				t.add("asked to end", fmt.Sprint(running))
				return one(a, map[string]int{"cancelled": waiting, "asked": running}, t)
			}
			if _, err := parseIDs(args); err != nil {
				return err
			}
			ok, err := a.confirm("cancel %d jobs: %s", len(args), strings.Join(args, ", "))
			switch {
			case err != nil:
				return err
			case !ok:
				return a.preview(ctx, c, args)
			}
			return a.each(args, func(id uuid.UUID) (task.State, error) { return c.CancelJob(ctx, id, a.reason) })
		}),
	})
	cmd.Flags().StringVar(&organization, "organization", "", "cancel all jobs of an organization, by its `id`")
	return cmd
}

func (a *app) jobsRunNow() *cobra.Command {
	return a.changing(&cobra.Command{
		Use: "run-now JOB...", Short: "Make jobs due that wait for their time", Args: args(cobra.MinimumNArgs(1)),
		RunE: a.with(func(ctx context.Context, c *admin.Client, args []string) error {
			if !a.announce("make %d jobs due", len(args)) {
				return a.preview(ctx, c, args)
			}
			return a.each(args, func(id uuid.UUID) (task.State, error) { return c.RunJobNow(ctx, id, a.reason) })
		}),
	})
}

func (a *app) whyCommand() *cobra.Command {
	return &cobra.Command{
		Use: "why JOB", Short: "Say what exactly keeps a job from running", Args: args(cobra.ExactArgs(1)),
		RunE: a.with(func(ctx context.Context, c *admin.Client, args []string) error {
			id, err := parseID(args[0])
			if err != nil {
				return err
			}
			x, err := c.Why(ctx, id)
			if err != nil {
				return err
			}
			t := &table{}
			for _, r := range x.Reasons {
				t.add(string(r.Cause), plain(r.Text))
				if r.Do != "" {
					t.add("", "  "+plain(r.Do))
				}
			}
			if err := one(a, x, t); err != nil {
				return err
			}
			return x.Err()
		}),
	}
}
