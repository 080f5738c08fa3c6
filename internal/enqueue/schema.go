package enqueue

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/pawlgo/pawl/internal/store"
)

// maxIdentifier is how long PostgreSQL lets a name be, in bytes.
const maxIdentifier = 63

// Bound is a transaction that says which schema Pawl's tables are in.
type Bound interface{ PawlSchema() string }

// SchemaOf returns the schema that a transaction is bound to, the default where
// it is not bound.
func SchemaOf(tx any) (string, error) {
	bound, ok := tx.(Bound)
	if !ok {
		return store.DefaultSchema, nil
	}
	schema := bound.PawlSchema()
	if schema == "" || len(schema) > maxIdentifier || !utf8.ValidString(schema) || strings.Contains(schema, "\x00") {
		return "", fmt.Errorf("InSchema(%q): use the name that the migrations were given", schema)
	}
	return schema, nil
}
