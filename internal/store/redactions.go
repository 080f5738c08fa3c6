package store

import (
	"context"
	"encoding/json"
	"fmt"
)

// Redaction is what is not to be shown of one stored payload version.
type Redaction struct {
	Event   bool            `json:"event"` // the kind is a type of event
	Kind    string          `json:"kind"`
	Version int             `json:"version"`
	Paths   json.RawMessage `json:"paths"` // an array of paths
}

// Hidden says of each of some paths whether a value there, of payloads of a kind, is
// one that is not to be shown. The kind is empty for any.
func (r *Reading) Hidden(ctx context.Context, kind string, paths [][]string) (hidden []bool, err error) {
	text, err := json.Marshal(paths)
	if err != nil {
		return nil, fmt.Errorf("encode the paths: %w", err)
	}
	err = r.tx.QueryRow(ctx, `SELECT array_agg(`+r.schema+`.hidden($1::text, p.path) ORDER BY p.n)
		FROM jsonb_array_elements($2::text::jsonb) WITH ORDINALITY p(path, n)`, kind, string(text)).Scan(&hidden)
	return hidden, err
}

// RegisterRedactions adds to what is not to be shown. A path that is known stays,
// and a start that has nothing to add changes nothing. The rows are written in the
// order of their keys, for the reason that those of [Store.RegisterKinds] are.
func (s *Store) RegisterRedactions(ctx context.Context, redactions []Redaction) error {
	mine, err := json.Marshal(redactions)
	if err != nil {
		return fmt.Errorf("encode the redactions: %w", err)
	}
	const lacks = `EXISTS (SELECT FROM jsonb_array_elements(%[1]s.paths) n WHERE NOT EXISTS (SELECT FROM jsonb_array_elements(%[2]s.paths) o WHERE o.value = n.value))`
	return s.call(ctx, fmt.Sprintf(`
		INSERT INTO %[1]s.redactions AS r (event, kind, version, paths, updated_at)
		SELECT m.event, m.kind, m.version, m.paths, clock_timestamp()
		FROM jsonb_to_recordset($1::jsonb) m(event boolean, kind text, version integer, paths jsonb)
		LEFT JOIN %[1]s.redactions known ON known.event = m.event AND known.kind = m.kind AND known.version = m.version
		WHERE known.kind IS NULL OR %[2]s
		ORDER BY m.event, m.kind, m.version
		ON CONFLICT (event, kind, version) DO UPDATE SET updated_at = excluded.updated_at, paths = (
			SELECT jsonb_agg(DISTINCT p.value) FROM jsonb_array_elements(r.paths || excluded.paths) p(value))
		WHERE %[3]s`, s.schema, fmt.Sprintf(lacks, "m", "known"), fmt.Sprintf(lacks, "excluded", "r")), []any{string(mine)}, drain)
}
