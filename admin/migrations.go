package admin

import (
	"context"
	"fmt"
	"time"

	"github.com/pawlgo/pawl/internal/store"
	"github.com/pawlgo/pawl/migrations"
)

// Migration is one step of the schema.
type Migration struct {
	Number int    `json:"number"`
	Name   string `json:"name"`
	// AppliedAt is when the database got it; zero where it has not.
	AppliedAt time.Time `json:"applied_at,omitzero"`
	// Known says that this binary has it. One that it does not know was applied by
	// a newer one.
	Known bool `json:"known"`
}

// Migrations is how far a database is.
type Migrations struct {
	Schema string `json:"schema"`
	// Applied is the newest that the database has, and Known the newest that this
	// binary has; zero for none.
	Applied int         `json:"applied"`
	Known   int         `json:"known"`
	All     []Migration `json:"migrations"`
}

// Missing are the migrations that the database lacks.
func (m *Migrations) Missing() []Migration {
	if m.Applied >= len(m.All) {
		return nil
	}
	return m.All[m.Applied:]
}

// Migrations returns which migrations the database has, and which it lacks. A
// database without Pawl's schema lacks all of them, and that is no error.
func (c *Client) Migrations(ctx context.Context) (*Migrations, error) {
	m := &Migrations{Schema: c.schema}
	for _, x := range migrations.All() {
		m.All = append(m.All, Migration{Number: x.Number, Name: x.Name, Known: true})
	}
	m.Known = len(m.All)
	err := c.read(ctx, "read the migrations", func(r *store.Reading) error {
		rows, err := r.Migrations(ctx)
		for _, x := range rows {
			if x.Number < 1 {
				return fmt.Errorf("the database has a migration %d", x.Number)
			}
			for x.Number > len(m.All) {
				m.All = append(m.All, Migration{Number: len(m.All) + 1})
			}
			m.All[x.Number-1].Name, m.All[x.Number-1].AppliedAt = x.Name, x.AppliedAt.UTC()
			m.Applied = max(m.Applied, x.Number)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return m, nil
}

// Migrate brings the schema up to date as [migrations.Up] does.
func (c *Client) Migrate(ctx context.Context) error {
	return migrations.Up(ctx, c.pool, migrations.Options{Schema: c.schema})
}

// MigrationSQL returns the statements from a migration on as [migrations.SQL]
// does; from zero includes the schema itself.
func (c *Client) MigrationSQL(from int) (string, error) {
	return migrations.SQL(from, migrations.Options{Schema: c.schema})
}
