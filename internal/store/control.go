package store

import (
	"context"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
)

// Cancel cancels a job through the caller's transaction. It returns where the
// job stands, in the terms of job_status, or empty where there is no trace of it.
func Cancel(ctx context.Context, q Querier, schema string, id uuid.UUID) (state string, err error) {
	var answer pgtype.Text
	err = q.QueryRow(ctx, `SELECT `+quote(schema)+`.cancel($1::text::uuid)`, id.String()).Scan(&answer)
	return answer.String, err
}

// CancelOrganization cancels the jobs of an organization through the caller's
// transaction. It returns how many were waiting, and how many workers were
// asked to end.
func CancelOrganization(ctx context.Context, q Querier, schema, organization string) (cancelled, requested int, err error) {
	err = q.QueryRow(ctx, `SELECT cancelled, requested FROM `+quote(schema)+`.cancel_organization($1::text)`, organization).Scan(&cancelled, &requested)
	return cancelled, requested, err
}

// Pause stops claims from a queue, in the caller's transaction, and returns
// whether they were not stopped before.
func Pause(ctx context.Context, q Querier, schema, queue string) (changed bool, err error) {
	err = q.QueryRow(ctx, `SELECT `+quote(schema)+`.pause($1::text)`, queue).Scan(&changed)
	return changed, err
}

// Resume undoes [Pause], and returns whether there was something to undo.
func Resume(ctx context.Context, q Querier, schema, queue string) (changed bool, err error) {
	err = q.QueryRow(ctx, `SELECT `+quote(schema)+`.resume($1::text)`, queue).Scan(&changed)
	return changed, err
}

// Cancellations does what requests to cancel leave to workers, and returns the
// jobs among those that the process has leased.
func (s *Store) Cancellations(ctx context.Context, process uuid.UUID) (jobs []uuid.UUID, err error) {
	err = s.call(ctx, `SELECT c FROM `+s.schema+`.cancellations($1) c`, []any{process}, func(rows pgx.Rows) error {
		jobs, err = pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
		return err
	})
	return jobs, err
}
