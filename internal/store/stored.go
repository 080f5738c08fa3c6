package store

import (
	"context"
	"fmt"
	"strconv"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// Stored is a payload that some worker may still have to decode.
type Stored struct {
	ID         uuid.UUID
	Kind       string
	Version    int
	Capability int64
	Dead       bool // a dead letter or event; otherwise its job is unfinished, or it is pending
	Args       []byte
}

// storedPage is how many payloads are fetched at a time.
const storedPage = 500

// EachStored calls f with every payload of an unfinished job or a dead letter,
// and where events is set of a pending or dead event, whose kind is its type.
// Most above zero limits that to so many of each kind and version, the newest.
// It reads in one snapshot and locks nothing; f's error ends it.
func (s *Store) EachStored(ctx context.Context, most int, events bool, f func(*Stored) error) error {
	query := `
		WITH unfinished AS (
			SELECT r.day, r.id FROM ` + s.schema + `.ready r
			UNION ALL
			SELECT o.day, o.job_id FROM ` + s.schema + `.ordered o WHERE NOT o.head
			UNION ALL
			SELECT u.day, u.id FROM ` + s.schema + `.leases l
			CROSS JOIN LATERAL unnest(l.days, l.job_ids) WITH ORDINALITY u(day, id, pos) WHERE get_bit(l.open, u.pos::integer - 1) = 1
		), stored AS (
			SELECT j.id, j.kind, j.version, j.capability, false AS dead, j.args FROM unfinished u JOIN ` + s.schema + `.jobs j ON j.day = u.day AND j.id = u.id
			UNION ALL
			SELECT d.job_id, d.kind, d.version, d.capability, true, d.args FROM ` + s.schema + `.dead_letters d
			UNION ALL
			SELECT e.id, e.type, e.version, e.capability, false, e.payload FROM ` + s.schema + `.pending_events p
			JOIN ` + s.schema + `.events e ON e.day = p.day AND e.id = p.id WHERE ` + strconv.FormatBool(events) + `
			UNION ALL
			SELECT d.event_id, d.type, d.version, d.capability, true, d.payload FROM ` + s.schema + `.dead_events d WHERE ` + strconv.FormatBool(events) + `
		)
		SELECT id, kind, version, capability, dead, args::text FROM stored`
	if most > 0 {
		query = `SELECT id, kind, version, capability, dead, args FROM (
			SELECT *, row_number() OVER (PARTITION BY kind, version, capability, dead ORDER BY id DESC) AS nth FROM (` + query + `) s) n
			WHERE nth <= ` + fmt.Sprint(most)
	}
	return pgx.BeginTxFunc(ctx, s.pool, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "DECLARE stored NO SCROLL CURSOR FOR "+query); err != nil {
			return err
		}
		for {
			rows, err := tx.Query(ctx, fmt.Sprintf("FETCH %d FROM stored", storedPage))
			if err != nil {
				return err
			}
			n := 0
			var x Stored
			_, err = pgx.ForEachRow(rows, []any{&x.ID, &x.Kind, &x.Version, &x.Capability, &x.Dead, &x.Args}, func() error {
				n++
				return f(&x)
			})
			if err != nil || n < storedPage {
				return err
			}
		}
	})
}
