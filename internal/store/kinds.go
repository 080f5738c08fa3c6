package store

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// The codes (SQLSTATE) of what the functions enqueue and publish refuse.
const (
	CodeUnknownKind   = "PW010" // no worker has registered the kind, or the type of event
	CodeMisfit        = "PW011" // the arguments do not fit the payload
	CodeMissingKey    = "PW012" // the kind declares idempotency and no key is given
	CodeInvalidOption = "PW013" // an option, or another argument, has an impossible value
)

// Kind is what the database has to know of a kind to enqueue it by plain SQL.
type Kind struct {
	Name              string          `json:"kind"`
	Queue             string          `json:"queue"`
	Version           int             `json:"version"` // of the payload, the one to be written
	Capability        int64           `json:"capability"`
	Priority          int16           `json:"priority"`
	MaxAttempts       int             `json:"max_attempts"`
	Keyed             bool            `json:"keyed"`                        // it declares idempotency
	Keep              time.Duration   `json:"-"`                            // of keys; zero for none
	OrganizationField string          `json:"organization_field,omitempty"` // a member of the payload; empty for none
	Order             []string        `json:"order_fields,omitempty"`       // members of the payload; nil for none
	Shape             json.RawMessage `json:"shape,omitempty"`              // of the payload, as in a lock; empty takes anything
}

// kindColumns are the columns of table kinds that a registration sets, but for
// the key and the time of the last change.
var kindColumns = []string{
	"queue", "version", "capability", "priority", "max_attempts", "keyed", "keep", "organization_field", "order_fields", "shape",
}

// columnsOf lists the columns of a table by its name in a statement.
func columnsOf(table string) string {
	return table + "." + strings.Join(kindColumns, ", "+table+".")
}

// RegisterKinds writes down kinds for callers that know only SQL. A kind that is
// there with a newer payload version stays as it is, and one that is there
// already is not written again, so that a start changes nothing in most cases.
func (s *Store) RegisterKinds(ctx context.Context, kinds []Kind) error {
	type row struct {
		Kind
		KeepUS *int64 `json:"keep_us"`
	}
	rows := make([]row, len(kinds))
	for i, k := range kinds {
		rows[i].Kind = k
		if k.Keep > 0 {
			rows[i].KeepUS = new(k.Keep.Microseconds())
		}
	}
	mine, err := json.Marshal(rows)
	if err != nil {
		return fmt.Errorf("encode the kinds: %w", err)
	}
	// What is there is read first, since a conflict alone would lock its row and
	// so write to it. Rows are written in the order of their names: processes
	// that start together wait for one another and never in a circle.
	return s.call(ctx, `
		WITH mine AS (
			SELECT m.*, m.keep_us * interval '1 microsecond' AS keep FROM jsonb_to_recordset($1::jsonb) m(
				kind text, queue text, version integer, capability bigint, priority smallint, max_attempts smallint,
				keyed boolean, keep_us bigint, organization_field text, order_fields text[], shape jsonb)
		)
		INSERT INTO `+s.schema+`.kinds AS k (kind, `+strings.Join(kindColumns, ", ")+`, updated_at)
		SELECT m.kind, `+columnsOf("m")+`, clock_timestamp()
		FROM mine m LEFT JOIN `+s.schema+`.kinds known ON known.kind = m.kind
		WHERE known.kind IS NULL OR known.version <= m.version AND (`+columnsOf("known")+`) IS DISTINCT FROM (`+columnsOf("m")+`)
		ORDER BY m.kind
		ON CONFLICT (kind) DO UPDATE SET (`+strings.Join(kindColumns, ", ")+`, updated_at) = (`+columnsOf("excluded")+`, excluded.updated_at)
		WHERE k.version <= excluded.version AND (`+columnsOf("k")+`) IS DISTINCT FROM (`+columnsOf("excluded")+`)`,
		[]any{string(mine)}, func(rows pgx.Rows) error {
			rows.Close()
			return rows.Err()
		})
}
