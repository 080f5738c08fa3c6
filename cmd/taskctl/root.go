package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"os/user"
	"runtime/debug"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/pawlgo/pawl/admin"
	"github.com/pawlgo/pawl/migrations"
)

// app is one run of taskctl.
type app struct {
	stdin          io.Reader
	stdout, stderr io.Writer

	url, schema, format string
	by, reason          string
	yes, dryRun, quiet  bool

	pool   *pgxpool.Pool
	client *admin.Client
	where  string // which database, without a password
}

const connectTimeout = 5 * time.Second

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:           "taskctl",
		Short:         "Show and change what is in a database of Pawl's",
		Version:       version(),
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          args(cobra.NoArgs),
		PersistentPreRunE: func(*cobra.Command, []string) error {
			switch a.format {
			case "table", "json", "jsonl":
				return nil
			}
			return usage(fmt.Errorf("there is no output format %q: use table, json or jsonl", a.format))
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usage(err) })
	flags := root.PersistentFlags()
	flags.StringVar(&a.url, "database-url", "", "the `URL` of the database; else DATABASE_URL, else the variables PGHOST, PGDATABASE and so on")
	flags.StringVar(&a.schema, "schema", "pawl", "the `name` of the schema with Pawl's tables")
	flags.StringVarP(&a.format, "output", "o", "table", "the `format` of the output: table, json, or jsonl for one object a line")
	flags.StringVar(&a.by, "by", "", "`who` makes a change, for the audit; else the user of this machine")
	flags.BoolVarP(&a.quiet, "quiet", "q", false, "no progress and no hints")
	complete(root, "output", "table", "json", "jsonl")
	root.AddGroup(&cobra.Group{ID: "look", Title: "To look:"}, &cobra.Group{ID: "do", Title: "To look and to change:"}, &cobra.Group{ID: "set", Title: "To set up:"})
	add := func(group string, commands ...*cobra.Command) {
		for _, c := range commands {
			c.GroupID = group
			root.AddCommand(c)
		}
	}
	add("look", a.statusCommand(), a.whyCommand(), a.workersCommand(), a.doctorCommand(), a.verifyCommand(), a.auditCommand())
	add("do", a.jobsCommand(), a.deadCommand(), a.queuesCommand(), a.schedulesCommand(), a.eventsCommand())
	add("set", a.migrateCommand(), a.grantsCommand(), a.devCommand())
	return root
}

// version is that of this binary, and of the schema that it knows.
func version() string {
	number := "(devel)"
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		number = info.Main.Version
	}
	return fmt.Sprintf("%s, schema %d", number, migrations.Version())
}

// complete completes a flag by some words.
func complete(cmd *cobra.Command, flag string, words ...string) {
	if err := cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err) // there is no such flag
	}
}

// changing adds the flags of a command that changes something.
func (a *app) changing(cmd *cobra.Command) *cobra.Command {
	cmd.Flags().BoolVar(&a.dryRun, "dry-run", false, "say what it would touch, and change nothing")
	cmd.Flags().StringVar(&a.reason, "reason", "", "`why`, for the audit")
	return cmd
}

// destructive adds the flags of a command that cannot be taken back.
func (a *app) destructive(cmd *cobra.Command) *cobra.Command {
	cmd.Flags().BoolVar(&a.yes, "yes", false, "do not ask")
	return a.changing(cmd)
}

// connect makes the client. It does not connect yet.
func (a *app) connect(ctx context.Context) (*admin.Client, error) {
	if a.client != nil {
		return a.client, nil
	}
	url := cmp.Or(a.url, os.Getenv("DATABASE_URL"))
	if url == "" && os.Getenv("PGHOST")+os.Getenv("PGDATABASE")+os.Getenv("PGSERVICE") == "" {
		return nil, fmt.Errorf("no database is named: give --database-url, or set DATABASE_URL, or PGHOST and PGDATABASE: %w", errUsage)
	}
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("read the connection string: %w: %w", err, errUsage)
	}
	config.MaxConns, config.MinConns = 2, 0
	if config.ConnConfig.ConnectTimeout <= 0 {
		config.ConnConfig.ConnectTimeout = connectTimeout
	}
	if config.ConnConfig.RuntimeParams["application_name"] == "" {
		config.ConnConfig.RuntimeParams["application_name"] = "taskctl"
	}
	a.where = fmt.Sprintf("database %s on %s:%d, schema %s", config.ConnConfig.Database, config.ConnConfig.Host, config.ConnConfig.Port, a.schema)
	if a.pool, err = pgxpool.NewWithConfig(ctx, config); err != nil {
		return nil, err
	}
	a.client = admin.New(a.pool, admin.Options{Schema: a.schema, By: cmp.Or(a.by, os.Getenv("TASKCTL_BY"), whoami())})
	return a.client, nil
}

func (a *app) close() {
	if a.pool != nil {
		a.pool.Close()
	}
}

// whoami names the user of this machine.
func whoami() string {
	name := "unknown"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	if host, err := os.Hostname(); err == nil {
		name += "@" + host
	}
	return name
}

// with runs a command that needs a database.
func (a *app) with(do func(ctx context.Context, c *admin.Client, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		c, err := a.connect(cmd.Context())
		if err != nil {
			return err
		}
		return do(cmd.Context(), c, args)
	}
}

// paging are the flags of a list.
type paging struct{ page admin.Page }

func (p *paging) flags(cmd *cobra.Command) {
	cmd.Flags().IntVar(&p.page.Limit, "limit", 50, "rows on a page, up to 1000")
	cmd.Flags().StringVar(&p.page.Cursor, "cursor", "", "the `cursor` that the page before has ended with")
}

// budget is the flag of a list whose filters may have no index.
func (p *paging) budget(cmd *cobra.Command) {
	cmd.Flags().IntVar(&p.page.Budget, "budget", 0, "how many `rows` to look at for a page, 50000 by default")
	cmd.Flags().DurationVar(&p.page.Within, "within", 0, "for how `long` to look for a page, 600ms by default")
}

// group is a command of commands.
func group(use, short string, commands ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use: use, Short: short, Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			var names []string
			for _, c := range commands {
				names = append(names, c.Name())
			}
			return usage(fmt.Errorf("%s what? one of %s", cmd.CommandPath(), strings.Join(names, ", ")))
		},
	}
	cmd.AddCommand(commands...)
	return cmd
}
