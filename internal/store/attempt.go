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
// database's own errors. Nothing of it is stored then, but for ErrUnanswered.
var (
	// ErrFenced says that the lease is lost.
	ErrFenced = errors.New("the lease is lost")
	// ErrTransactionEnded says that the transaction is not the one that was begun.
	ErrTransactionEnded = errors.New("the transaction was ended by somebody else")
	// ErrUnanswered says that the connection broke after COMMIT was sent: it may
	// have been carried out.
	ErrUnanswered = errors.New("the answer to COMMIT did not come")
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

// mark tells the transaction from another that a handler may have begun in its
// place.
func (e Ending) mark() string { return e.Token.String() }

// BeginAttempt begins the transaction of an attempt. The server ends it when it
// is idle for longer than idle.
func (s *Store) BeginAttempt(ctx context.Context, conn *pgx.Conn, e Ending, isolation pgx.TxIsoLevel, idle time.Duration) (pgx.Tx, error) {
	if isolation == "" {
		isolation = pgx.ReadCommitted
	}
	tx, err := conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: isolation, AccessMode: pgx.ReadWrite})
	if err != nil {
		return nil, err
	}
	if _, err := tx.Exec(ctx, `SELECT set_config('pawl.attempt', $1::text, true), set_config('idle_in_transaction_session_timeout', $2::text, true)`,
		e.mark(), milliseconds(idle)); err != nil {
		_ = tx.Rollback(ctx)
		return nil, err
	}
	return tx, nil
}

// CommitAttempt completes the attempt and commits, in one round trip. Between
// the two nobody waits for a process that was stopped: the server ends what
// takes longer than limit.
func (s *Store) CommitAttempt(ctx context.Context, conn *pgx.Conn, e Ending, limit time.Duration) error {
	if conn.PgConn().TxStatus() == 'I' {
		return ErrTransactionEnded
	}
	batch := &pgx.Batch{}
	batch.Queue(`SELECT set_config('idle_in_transaction_session_timeout', $1::text, true), set_config('statement_timeout', $1::text, true)`, milliseconds(limit))
	batch.Queue(`SELECT `+s.schema+`.complete($1::text::uuid, $2::text::uuid, $3::text::uuid, $4::text)`, e.Owner.String(), e.Token.String(), e.ID.String(), e.mark())
	batch.Queue(`COMMIT`)
	results := conn.SendBatch(ctx, batch)
	for range 2 {
		if _, err := results.Exec(); err != nil {
			_ = results.Close()
			return completeError(err)
		}
	}
	tag, err := results.Exec()
	if closeErr := results.Close(); err == nil {
		err = closeErr
	}
	if _, answered := errors.AsType[*pgconn.PgError](err); err != nil && !answered {
		return fmt.Errorf("%w: %w", ErrUnanswered, err)
	}
	if err == nil && tag.String() != "COMMIT" {
		return ErrTransactionEnded
	}
	return err
}

func completeError(err error) error {
	pgErr, ok := errors.AsType[*pgconn.PgError](err)
	switch {
	case !ok:
		return fmt.Errorf("%w: %w", ErrUnanswered, err) // the whole batch may have been sent
	case ok && pgErr.Code == stateFenced:
		return ErrFenced
	case ok && pgErr.Code == stateTransactionEnded:
		return ErrTransactionEnded
	}
	return err
}

func milliseconds(d time.Duration) string { return strconv.FormatInt(max(d.Milliseconds(), 1), 10) }
