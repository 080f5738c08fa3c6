package runtime

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlgo/pawl/internal/dispatch"
	"github.com/pawlgo/pawl/internal/store"
	"github.com/pawlgo/pawl/migrations"
	"github.com/pawlgo/pawl/task"
)

// maxFailures bounds how many failures a [Finding] names.
const maxFailures = 5

// VerifyOptions say what [Verify] looks at.
type VerifyOptions struct {
	// Schema is where Pawl's tables are; "pawl" where empty.
	Schema string
	// Events are the tables of the events. Without any, events are not looked at.
	Events []task.EventTable
	// Sample is how many payloads of each kind and version are decoded, the
	// newest ones; zero decodes all of them.
	Sample int
}

// Report is the answer of [Verify].
type Report struct {
	// Findings has a row for each kind and version that is stored, or that the
	// tables know, sorted by both.
	Findings []Finding
}

// Finding is what was found of one payload version.
type Finding struct {
	Kind    string // the type of an event
	Version int
	// Known says that the tables can decode the version. What is stored of an
	// unknown one waits untouched for a worker that can: it is stranded as long
	// as there is none.
	Known bool
	// Current says that it is the version that the tables' enqueues write.
	Current bool

	Unfinished int // payloads of jobs that wait or run
	Failed     int // of those, the ones that do not decode although the version is known
	Dead       int // payloads of dead letters
	DeadFailed int // of those, the ones that do not decode although the version is known
	// Failures are the first few of Failed and DeadFailed.
	Failures []Failure
}

// Failure is a payload that does not decode.
type Failure struct {
	ID  uuid.UUID
	Err error
}

// Forward says whether workers with these tables may replace all others: they
// can decode everything that waits or runs. The text says what stands in the
// way. Dead letters are not counted; they are decoded again only when somebody
// redrives them.
func (r *Report) Forward() (bool, string) {
	var reasons []string
	for _, f := range r.Findings {
		switch {
		case f.Unfinished == 0:
		case !f.Known:
			reasons = append(reasons, fmt.Sprintf("%d unfinished jobs of %s version %d would be stranded: these tables do not know it", f.Unfinished, f.Kind, f.Version))
		case f.Failed > 0:
			reasons = append(reasons, fmt.Sprintf("%d unfinished jobs of %s version %d do not decode and would be dead letters", f.Failed, f.Kind, f.Version))
		}
	}
	return len(reasons) == 0, strings.Join(reasons, "; ")
}

// Back says whether workers that know the versions up to the one before the
// current of each kind may take over again: nothing of a current version waits
// or runs, where there was one before it. The text says what stands in the way.
func (r *Report) Back() (bool, string) {
	var reasons []string
	for _, f := range r.Findings {
		if f.Current && f.Version > 1 && f.Unfinished > 0 {
			reasons = append(reasons, fmt.Sprintf("%d unfinished jobs of %s version %d would be stranded: workers of before do not know it", f.Unfinished, f.Kind, f.Version))
		}
	}
	return len(reasons) == 0, strings.Join(reasons, "; ")
}

// Retirable lists the versions that nothing stored needs any more: those that
// the tables know beside the current one, of which there is neither an
// unfinished job nor a dead letter. A sampled run answers it as well, since a
// sample has at least one of each that there is.
func (r *Report) Retirable() []Finding {
	var all []Finding
	for _, f := range r.Findings {
		if f.Known && !f.Current && f.Unfinished+f.Dead == 0 {
			all = append(all, f)
		}
	}
	return all
}

// Verify runs the decoders and upgraders of the tables over what the database
// really has: the payloads of all jobs that wait or run, and of dead letters; with
// [VerifyOptions].Events, also of events that are pending, and of dead ones.
// Run it with the tables of a new binary before that goes out, and with those
// of the present one before a version is retired. It changes nothing.
func Verify(ctx context.Context, pool *pgxpool.Pool, tables []task.Table, opts VerifyOptions) (*Report, error) {
	config := Config{Tables: tables, Events: opts.Events}
	served, err := config.queues()
	if err != nil {
		return nil, err
	}
	events, err := config.events()
	if err != nil {
		return nil, err
	}
	schema := cmp.Or(opts.Schema, store.DefaultSchema)
	st, err := store.Open(ctx, pool, schema, 1)
	if err != nil {
		return nil, err
	}
	defer st.Close()
	if err := migrations.Check(ctx, st.DB(), migrations.Options{Schema: schema}); err != nil {
		return nil, err
	}

	v := verifier{rows: make(map[string]dispatch.Row), findings: make(map[versionKey]*Finding)}
	for _, q := range served {
		maps.Copy(v.rows, q.rows)
	}
	for name, row := range events { // their names have a dot, which kinds have not
		v.rows[name] = dispatch.Row{Kind: name, Versions: row.Versions, Current: row.Current, Decode: row.Decode}
	}
	for kind, row := range v.rows {
		for _, version := range row.Versions {
			v.finding(kind, version.Number)
		}
	}
	if err := st.EachStored(ctx, opts.Sample, len(events) > 0, v.look); err != nil {
		return nil, fmt.Errorf("read what is stored: %w", err)
	}
	report := &Report{}
	for _, f := range v.findings {
		report.Findings = append(report.Findings, *f)
	}
	slices.SortFunc(report.Findings, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Version, b.Version), boolCompare(a.Known, b.Known))
	})
	return report, nil
}

func boolCompare(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

type versionKey struct {
	kind    string
	version int
	known   bool // the same number can have been another shape, before it was frozen
}

type verifier struct {
	rows     map[string]dispatch.Row
	findings map[versionKey]*Finding
}

// finding returns the row of a version that the tables know.
func (v *verifier) finding(kind string, version int) *Finding {
	return v.at(versionKey{kind, version, true})
}

func (v *verifier) at(key versionKey) *Finding {
	f, ok := v.findings[key]
	if !ok {
		f = &Finding{Kind: key.kind, Version: key.version, Known: key.known}
		if row, ok := v.rows[key.kind]; ok && key.known {
			f.Current = row.Current == key.version
		}
		v.findings[key] = f
	}
	return f
}

func (v *verifier) look(x *store.Stored) error {
	row := v.rows[x.Kind]
	known := slices.Contains(row.Versions, dispatch.Version{Number: x.Version, Capability: x.Capability})
	f := v.at(versionKey{x.Kind, x.Version, known})
	all, failed := &f.Unfinished, &f.Failed
	if x.Dead {
		all, failed = &f.Dead, &f.DeadFailed
	}
	*all++
	if !known {
		return nil
	}
	if err := row.Decode(x.Version, x.Args); err != nil {
		*failed++
		if len(f.Failures) < maxFailures {
			f.Failures = append(f.Failures, Failure{ID: x.ID, Err: err})
		}
	}
	return nil
}
