// Package fleetdb is the platform's own schema and every statement on it.
//
// What changes the platform also enqueues the work that follows from the
// change, or publishes the fact of it, in the same transaction: [Ingest] and [End]
// for positions, the handlers of package work for trips, crossings and silences.
package fleetdb

import (
	"context"
	_ "embed"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

//go:embed schema.sql
var schema string

// Querier is a pool, a connection or a transaction.
type Querier interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// Create makes the schema in a database that does not have it yet.
func Create(ctx context.Context, db Querier) error {
	if _, err := db.Exec(ctx, schema); err != nil {
		return fmt.Errorf("create the schema fleet: %w", err)
	}
	return nil
}

// Endpoint is where a subscriber wants to be told of some types of facts.
type Endpoint struct {
	ID    uuid.UUID
	Name  string
	Facts []string
	URL   string
}

// AddEndpoint registers a subscriber's endpoint.
func AddEndpoint(ctx context.Context, db Querier, e Endpoint) error {
	_, err := db.Exec(ctx, `INSERT INTO fleet.endpoints (id, name, facts, url) VALUES ($1, $2, $3, $4)`, e.ID, e.Name, e.Facts, e.URL)
	if err != nil {
		return fmt.Errorf("add the endpoint %s: %w", e.Name, err)
	}
	return nil
}

// Endpoints returns those that asked for a type of facts.
func Endpoints(ctx context.Context, db Querier, fact string) ([]Endpoint, error) {
	return collect[Endpoint](ctx, db, `SELECT id, name, facts, url FROM fleet.endpoints WHERE $1 = ANY (facts) ORDER BY name`, fact)
}

// EndpointByID returns one endpoint.
func EndpointByID(ctx context.Context, db Querier, id uuid.UUID) (Endpoint, error) {
	return one[Endpoint](ctx, db, `SELECT id, name, facts, url FROM fleet.endpoints WHERE id = $1`, id)
}

func collect[T any](ctx context.Context, db Querier, sql string, args ...any) ([]T, error) {
	rows, err := db.Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[T])
}

func one[T any](ctx context.Context, db Querier, sql string, args ...any) (T, error) {
	rows, err := db.Query(ctx, sql, args...)
	if err != nil {
		var zero T
		return zero, err
	}
	return pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[T])
}
