package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/pawlgo/pawl/migrations"
)

func (a *app) grantsCommand() *cobra.Command {
	var roles migrations.Roles
	cmd := &cobra.Command{
		Use: "grants", Short: "Print the statements that give roles of the database their rights", Args: args(cobra.NoArgs),
		Long: `Print the statements that give roles of the database their rights in the schema, and
take any others in it away from them. No database is needed. Run them as the owner of
the schema, in one transaction, and again after each migration.

A part without a role is left as it is. A migrator becomes the owner of the schema and
of all that is in it; name it alone where there is no schema yet.`,
		Example: `  taskctl grants --worker app_worker --producer app_web --create | psql -1 -v ON_ERROR_STOP=1`,
		RunE: func(*cobra.Command, []string) error {
			text, err := migrations.Grants(roles, migrations.Options{Schema: a.schema})
			if err != nil {
				return usage(err)
			}
			_, err = fmt.Fprint(a.stdout, text)
			return err
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&roles.Migrator, "migrator", "", "the `role` that owns the schema and migrates it")
	flags.StringVar(&roles.Worker, "worker", "", "the `role` of workers")
	flags.StringVar(&roles.Producer, "producer", "", "the `role` that enqueues and publishes, and reads no job")
	flags.StringVar(&roles.Viewer, "viewer", "", "the `role` that reads everything but payloads")
	flags.StringVar(&roles.Operator, "operator", "", "the `role` that cancels, retries and pauses, and reads as a viewer")
	flags.BoolVar(&roles.Create, "create", false, "make the roles that do not exist")
	return cmd
}
