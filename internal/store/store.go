// Package store holds every SQL statement of the runtime behind typed methods.
// It is the only Go code that knows a table or a column; the statements that
// need several steps are functions of the schema in package migrations.
//
// It imports neither task nor runtime. Enqueue goes through the caller's
// transaction; everything else goes through a [Store]'s own small pool, in
// transactions that say READ COMMITTED whatever the role's default is.
package store

import (
	"github.com/jackc/pgx/v5"
)

// DefaultSchema is where Pawl's tables are unless the user chooses otherwise.
const DefaultSchema = "pawl"

func quote(schema string) string { return pgx.Identifier{schema}.Sanitize() }
