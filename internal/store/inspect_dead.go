package store

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
)

// LetterFilter says which dead letters are meant; what is empty is not asked for.
type LetterFilter struct {
	IDs                                          []uuid.UUID
	Kind, Queue, Code, Fingerprint, Organization string
	Message                                      string // in the summary, whatever the case of letters
	Since, Until                                 time.Time
	Args                                         []ArgFilter
}

// letters are the letters of a filter in the order of their deaths: the rows, in
// a range of an index, and what more to ask of a row s and its letter j.
func (f *LetterFilter) letters(schema string, newestFirst bool) source {
	s := source{
		name: "letters",
		job:  `SELECT d.kind, d.queue, d.code, d.fingerprint, d.summary, d.organization_id` + column("d.args", len(f.Args) > 0) + ` FROM ` + schema + `.dead_letters d WHERE d.job_id = s.id`,
	}
	direction, after := ``, `>`
	if newestFirst {
		direction, after = ` DESC`, `<`
	}
	// One of them is by an index. That the others are narrower is not known.
	narrow := `true`
	switch {
	case len(f.IDs) > 0:
		ids := make([]string, len(f.IDs))
		for i, id := range f.IDs {
			ids[i] = id.String()
		}
		narrow = `d.job_id = ANY (string_to_array(` + literal(strings.Join(ids, ",")) + `, ',')::uuid[])`
	case f.Fingerprint != "":
		narrow = `d.fingerprint = ` + literal(f.Fingerprint)
	case f.Code != "":
		narrow = `d.code = ` + literal(f.Code)
	}
	if !f.Since.IsZero() {
		narrow += ` AND d.died_at >= ` + literal(f.Since.Format(time.RFC3339Nano)) + `::timestamptz`
	}
	if !f.Until.IsZero() {
		narrow += ` AND d.died_at < ` + literal(f.Until.Format(time.RFC3339Nano)) + `::timestamptz`
	}
	s.rows = `SELECT d.job_id AS id, NULL::integer AS day, '' AS text, 0::bigint AS n, d.died_at AS at FROM ` + schema + `.dead_letters d
		WHERE ` + narrow + ` AND (NOT $1::boolean OR (d.died_at, d.job_id) ` + after + ` ($4::timestamptz, $5::text::uuid))
		AND $2::text IS NOT NULL AND $3::bigint IS NOT NULL ORDER BY d.died_at` + direction + `, d.job_id` + direction
	for _, c := range []struct{ column, value string }{
		{"kind", f.Kind}, {"queue", f.Queue}, {"code", f.Code}, {"fingerprint", f.Fingerprint}, {"organization_id", f.Organization},
	} {
		if c.value != "" {
			s.where = append(s.where, `j.`+c.column+` = `+literal(c.value))
		}
	}
	if f.Message != "" {
		s.where = append(s.where, `position(lower(`+literal(f.Message)+`) IN lower(j.summary)) > 0`)
	}
	s.args(f.Args)
	return s
}

// ScanLetters looks at some dead letters, in the order of their deaths.
func (r *Reading) ScanLetters(ctx context.Context, f *LetterFilter, newestFirst bool, scan Scan) (*Scanned, error) {
	if err := r.MayFilter(ctx, len(f.Args)); err != nil {
		return nil, err
	}
	return r.scan(ctx, f.letters(r.schema, newestFirst), scan)
}

// CountLetters counts the letters among which those of a filter are looked for.
func (r *Reading) CountLetters(ctx context.Context, bound int, f *LetterFilter) (Count, error) {
	switch {
	case f.Fingerprint != "":
		return r.count(ctx, bound, `SELECT 1 FROM `+r.schema+`.dead_letters d WHERE d.fingerprint = `+literal(f.Fingerprint))
	case f.Code != "":
		return r.count(ctx, bound, `SELECT 1 FROM `+r.schema+`.dead_letters d WHERE d.code = `+literal(f.Code))
	}
	return r.count(ctx, bound, `SELECT 1 FROM `+r.schema+`.dead_letters d`)
}

// LetterGroupRow is the dead letters of one sort of error.
type LetterGroupRow struct {
	Fingerprint string    `json:"fingerprint"`
	Code        string    `json:"code"`
	Shape       string    `json:"shape"` // the summary without what differs
	Kind        string    `json:"kind"`  // of the newest
	Newest      time.Time `json:"newest"`
	NewestID    uuid.UUID `json:"newest_id"`
	Oldest      time.Time `json:"oldest"`
	Count       Count     `json:"-"`
}

// LetterGroups returns the groups after a fingerprint, in the order of
// fingerprints, at most limit: one step through the index each, and the count.
func (r *Reading) LetterGroups(ctx context.Context, after string, limit, bound int) ([]LetterGroupRow, error) {
	s := r.schema
	groups, err := documents[LetterGroupRow](ctx, r.tx, `
		WITH RECURSIVE sort (fingerprint, n) AS (
			SELECT (SELECT d.fingerprint FROM `+s+`.dead_letters d WHERE d.fingerprint > $1::text ORDER BY d.fingerprint LIMIT 1), 1
			UNION ALL
			SELECT (SELECT d.fingerprint FROM `+s+`.dead_letters d WHERE d.fingerprint > x.fingerprint ORDER BY d.fingerprint LIMIT 1), x.n + 1
			FROM sort x WHERE x.fingerprint IS NOT NULL AND x.n < $2::integer
		)
		SELECT jsonb_build_object('fingerprint', x.fingerprint, 'code', d.code, 'shape', `+s+`.error_shape(d.summary), 'kind', d.kind,
			'newest', d.died_at, 'newest_id', d.job_id, 'oldest', o.died_at)::text
		FROM sort x
		CROSS JOIN LATERAL (SELECT d.code, d.summary, d.kind, d.died_at, d.job_id FROM `+s+`.dead_letters d WHERE d.fingerprint = x.fingerprint ORDER BY d.died_at DESC, d.job_id DESC LIMIT 1) d
		CROSS JOIN LATERAL (SELECT d.died_at FROM `+s+`.dead_letters d WHERE d.fingerprint = x.fingerprint ORDER BY d.died_at, d.job_id LIMIT 1) o
		ORDER BY x.n`, after, limit)
	if err != nil {
		return nil, err
	}
	for i := range groups {
		if groups[i].Count, err = r.CountLetters(ctx, bound, &LetterFilter{Fingerprint: groups[i].Fingerprint}); err != nil {
			return nil, err
		}
	}
	return groups, nil
}

// SortRow is how many of some letters are of one kind and one sort of error.
type SortRow struct {
	Kind        string `json:"kind"`
	Queue       string `json:"queue"`
	Fingerprint string `json:"fingerprint"`
	Code        string `json:"code"`
	Shape       string `json:"shape"`
	Letters     int    `json:"letters"`
}

// SortLetters groups letters by kind, queue and error.
func (r *Reading) SortLetters(ctx context.Context, ids []uuid.UUID) ([]SortRow, error) {
	texts := make([]string, len(ids))
	for i, id := range ids {
		texts[i] = id.String()
	}
	return documents[SortRow](ctx, r.tx, fmt.Sprintf(`
		SELECT jsonb_build_object('kind', d.kind, 'queue', d.queue, 'fingerprint', d.fingerprint, 'code', d.code,
			'shape', %[1]s.error_shape(min(d.summary)), 'letters', count(*))::text
		FROM unnest($1::text[]::uuid[]) u(id) JOIN %[1]s.dead_letters d ON d.job_id = u.id
		GROUP BY d.kind, d.queue, d.fingerprint, d.code ORDER BY count(*) DESC, d.kind, d.fingerprint`, r.schema), texts)
}
