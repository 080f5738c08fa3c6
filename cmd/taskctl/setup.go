package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawlgo/pawl/admin"
	"github.com/pawlgo/pawl/admin/devdb"
	"github.com/pawlgo/pawl/migrations"
)

func (a *app) migrateCommand() *cobra.Command {
	read := func(ctx context.Context, c *admin.Client) (*admin.Migrations, error) { return c.Migrations(ctx) }
	show := func(m *admin.Migrations, rows []admin.Migration) error {
		t := &table{head: []string{"NUMBER", "NAME", "APPLIED"}}
		for _, x := range rows {
			name := x.Name
			if !x.Known {
				name += " (this binary does not know it)"
			}
			t.add(fmt.Sprint(x.Number), cell(name), moment(x.AppliedAt))
		}
		return show(a, m, rows, t)
	}
	newer := func(m *admin.Migrations) error {
		if m.Applied > m.Known {
			return fmt.Errorf("schema %s has migration %d, and this binary knows %d: %w", m.Schema, m.Applied, m.Known, migrations.ErrNewer)
		}
		return nil
	}
	status := &cobra.Command{
		Use: "status", Short: "Show which migrations the database has", Args: args(cobra.NoArgs),
		Long: "Show which migrations the database has. The exit code is 8 where it lacks some, or has some that this binary does not know.",
		RunE: a.with(func(ctx context.Context, c *admin.Client, _ []string) error {
			m, err := read(ctx, c)
			if err != nil {
				return err
			}
			if err := show(m, m.All); err != nil {
				return err
			}
			if missing := m.Missing(); len(missing) > 0 {
				return fmt.Errorf("schema %s lacks %d migrations: %w", m.Schema, len(missing), migrations.ErrBehind)
			}
			return newer(m)
		}),
	}
	plan := &cobra.Command{
		Use: "plan", Short: "Show which migrations would be applied", Args: args(cobra.NoArgs),
		RunE: a.with(func(ctx context.Context, c *admin.Client, _ []string) error {
			m, err := read(ctx, c)
			if err != nil {
				return err
			}
			return errors.Join(show(m, m.Missing()), newer(m))
		}),
	}
	up := &cobra.Command{
		Use: "up", Short: "Bring the schema up to date, in one transaction", Args: args(cobra.NoArgs),
		RunE: a.with(func(ctx context.Context, c *admin.Client, _ []string) error {
			before, err := read(ctx, c)
			if err != nil {
				return err
			}
			if !a.announce("apply %d migrations", len(before.Missing())) {
				return show(before, before.Missing())
			}
			if err := c.Migrate(ctx); err != nil {
				return err
			}
			after, err := read(ctx, c)
			if err != nil {
				return err
			}
			return show(after, after.All[min(before.Applied, len(after.All)):])
		}),
	}
	up.Flags().BoolVar(&a.dryRun, "dry-run", false, "say what it would apply, and change nothing")
	from := -1
	sql := &cobra.Command{
		Use: "sql", Short: "Print the statements, for another migration tool", Args: args(cobra.NoArgs),
		Long: `Print the statements that bring a schema from a version to this binary's. With --from
no database is needed; without, they are those that the database lacks.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, number := admin.New(nil, admin.Options{Schema: a.schema}), from
			if number < 0 {
				var err error
				if c, err = a.connect(cmd.Context()); err != nil {
					return err
				}
				m, err := read(cmd.Context(), c)
				if err != nil {
					return err
				}
				if err := newer(m); err != nil {
					return err
				}
				number = m.Applied
			}
			text, err := c.MigrationSQL(number)
			if err != nil {
				return usage(err)
			}
			_, err = fmt.Fprint(a.stdout, text)
			return err
		},
	}
	sql.Flags().IntVar(&from, "from", -1, "the `version` to start from; 0 includes the schema itself")
	return group("migrate", "Plan, apply and print migrations", plan, up, sql, status)
}

// graceful is how long dev waits for its command after it has passed on an
// interrupt.
const graceful = 30 * time.Second

func (a *app) devCommand() *cobra.Command {
	return &cobra.Command{
		Use: "dev [-- COMMAND [ARGUMENT...]]", Short: "Start a throw-away server, migrate it, and run a command with its URL",
		Long: `Start a PostgreSQL server that is gone with all its data in the end, bring Pawl's
schema onto it, and run a command with its URL in DATABASE_URL. The exit code is the
command's. Without a command, it prints the URL and waits for an interrupt.`,
		Example: `  taskctl dev -- go run ./cmd/worker`,
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			ctx := cmd.Context()
			var logger *slog.Logger
			if !a.quiet {
				logger = slog.New(slog.NewTextHandler(a.stderr, nil))
			}
			server, err := devdb.Start(ctx, devdb.Options{Schema: a.schema, Logger: logger})
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, server.Close()) }()
			if len(args) == 0 {
				if _, err := fmt.Fprintln(a.stdout, server.URL()); err != nil {
					return err
				}
				<-ctx.Done()
				return nil
			}
			a.hint("PostgreSQL %d is ready: %s", server.Version(), server.URL())
			command := exec.CommandContext(ctx, args[0], args[1:]...)
			command.Cancel = func() error { return command.Process.Signal(syscall.SIGTERM) }
			command.WaitDelay = graceful
			command.Env = append(os.Environ(), "DATABASE_URL="+server.URL())
			command.Stdin, command.Stdout, command.Stderr = a.stdin, a.stdout, a.stderr
			return command.Run()
		},
	}
}
