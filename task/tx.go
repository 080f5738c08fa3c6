package task

import (
	"context"
	"database/sql"

	"github.com/jackc/pgx/v5"
)

// Tx is the caller's transaction, as far as an enqueue needs it. A [pgx.Tx]
// fits as it is, [SQL] adapts a [*sql.Tx].
//
// Commit is in the interface so that a pool and a bare connection do not fit:
// to enqueue outside a transaction is a decision, spelled [Autocommit]. Pawl
// never calls it. The interface never grows.
type Tx interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
	Commit(ctx context.Context) error
}

// Querier is what [Autocommit] takes: a *pgxpool.Pool, a *pgx.Conn or the like.
type Querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// Autocommit lets an enqueue commit by itself, apart from any other change:
// the job exists as soon as the call returns. Use it where there is no change
// to tie the job to, such as in a tool or at the edge of a system; everywhere
// else hand over the transaction of the change.
func Autocommit(db Querier) Tx { return autocommit{db} }

type autocommit struct{ Querier }

func (autocommit) Commit(context.Context) error { return ErrTxOwned }

// SQL adapts a transaction of database/sql. The database handle must be of
// pgx's stdlib driver, since payloads and keys travel as arrays that other
// drivers cannot encode.
func SQL(tx *sql.Tx) Tx { return sqlTx{tx} }

type sqlTx struct{ tx *sql.Tx }

func (t sqlTx) QueryRow(ctx context.Context, query string, args ...any) pgx.Row {
	return t.tx.QueryRowContext(ctx, query, args...)
}

func (sqlTx) Commit(context.Context) error { return ErrTxOwned }

// InSchema says which schema Pawl's tables are in, where that is not "pawl".
// The name is taken as it is, without quotes of its own.
func InSchema(tx Tx, schema string) Tx { return schemaTx{tx, schema} }

type schemaTx struct {
	Tx
	schema string
}

// PawlSchema is how generated code learns the schema from a bound transaction.
func (t schemaTx) PawlSchema() string { return t.schema }
