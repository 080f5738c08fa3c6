package store

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// The ways in which a transactional attempt does not commit, beside the
// database's own errors. Nothing of it is stored then, but for ErrUnanswered
// and what a handler that ended the transaction has committed by itself.
var (
	// ErrFenced says that the lease is lost.
	ErrFenced = errors.New("the lease is lost")
	// ErrTransactionEnded says that the transaction is not the one that was begun.
	ErrTransactionEnded = errors.New("the transaction was ended by somebody else")
	// ErrUnanswered says that the connection broke after COMMIT was sent: it may
	// have been carried out.
	ErrUnanswered = errors.New("the answer to COMMIT did not come")
	// ErrUnusable says that the transaction was left in a state in which it
	// cannot be committed.
	ErrUnusable = errors.New("the transaction cannot be committed")
)

// SQLSTATEs of the function complete.
const (
	stateFenced           = "PW002"
	stateTransactionEnded = "PW003"
)

// Ending names the attempt that a transaction completes.
type Ending struct {
	Owner, Token, ID uuid.UUID
}

// Attempt is the transaction of one attempt.
type Attempt struct {
	Tx pgx.Tx

	store *Store
	conn  *pgx.Conn
	end   Ending
	xid   string // tells the transaction from another that is begun in its place
	role  string // that it was begun under
}

// BeginAttempt begins the transaction of an attempt. The server ends it when it
// is idle for longer than idle.
func (s *Store) BeginAttempt(ctx context.Context, conn *pgx.Conn, e Ending, isolation pgx.TxIsoLevel, idle time.Duration) (*Attempt, error) {
	if isolation == "" {
		isolation = pgx.ReadCommitted
	}
	tx, err := conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: isolation, AccessMode: pgx.ReadWrite})
	if err != nil {
		return nil, err
	}
	a := &Attempt{Tx: tx, store: s, conn: conn, end: e}
	err = tx.QueryRow(ctx, `SELECT pg_current_xact_id()::text, current_setting('role'), set_config('idle_in_transaction_session_timeout', $1::text, true)`,
		milliseconds(idle)).Scan(&a.xid, &a.role, nil)
	if err != nil {
		_ = tx.Rollback(ctx)
		return nil, err
	}
	return a, nil
}

// Commit completes the attempt and commits. In between nobody waits for a
// process that was stopped: the server ends what takes longer than limit.
func (a *Attempt) Commit(ctx context.Context, limit time.Duration) error {
	switch conn := a.conn.PgConn(); {
	case conn.IsClosed():
		return fmt.Errorf("%w: the end of a context in the middle of a query does that, for one: %w", ErrUnusable, pgconn.ErrConnClosed)
	case conn.IsBusy():
		return fmt.Errorf("%w: rows or a batch of it are still open; close them", ErrUnusable)
	case conn.TxStatus() == 'E':
		return fmt.Errorf("%w: a statement of it has failed; return that error, or undo the statement with a savepoint", ErrUnusable)
	case conn.TxStatus() == 'I':
		return ErrTransactionEnded
	}
	// What the handler has set for itself must not be in the way: a statement of
	// its own, since the next one is prepared under the role that is set.
	if _, err := a.Tx.Exec(ctx, `SELECT set_config('role', $1::text, true), set_config('idle_in_transaction_session_timeout', $2::text, true),
		set_config('statement_timeout', $2::text, true)`, a.role, milliseconds(limit)); err != nil {
		return err
	}
	_, err := a.Tx.Exec(ctx, `SELECT `+a.store.schema+`.complete($1::text::uuid, $2::text::uuid, $3::text::uuid, $4::text)`,
		a.end.Owner.String(), a.end.Token.String(), a.end.ID.String(), a.xid)
	if pgErr, ok := errors.AsType[*pgconn.PgError](err); ok && pgErr.Code == stateFenced {
		return ErrFenced
	} else if ok && pgErr.Code == stateTransactionEnded {
		return ErrTransactionEnded
	} else if err != nil {
		return err
	}
	err = a.Tx.Commit(ctx)
	if _, answered := errors.AsType[*pgconn.PgError](err); err != nil && !answered && !errors.Is(err, pgx.ErrTxCommitRollback) {
		return fmt.Errorf("%w: %w", ErrUnanswered, err)
	}
	return err
}

func milliseconds(d time.Duration) string { return strconv.FormatInt(max(d.Milliseconds(), 1), 10) }
