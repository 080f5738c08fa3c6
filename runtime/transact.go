package runtime

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/pawlgo/pawl/internal/enqueue"
	"github.com/pawlgo/pawl/internal/store"
	"github.com/pawlgo/pawl/task"
)

// rollbackTimeout bounds the end of a transaction that is not committed; what
// cannot be rolled back by then is closed.
const rollbackTimeout = time.Second

// commit is what became of a transactional handler's transaction.
type commit struct {
	mine   bool // its attempt can no longer be given up: what follows is its end
	done   bool // committed, and with it the end of the attempt
	unsure bool // the answer to COMMIT did not come
}

// connect waits for a connection of the user's pool. The time that takes is not
// the handler's.
func (a *attempt) connect(ctx context.Context) (*pgxpool.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, a.row.Policy.Timeout)
	defer cancel()
	return a.w.user.Acquire(ctx)
}

// transact runs a handler in a transaction of the user's pool, and commits
// what it did together with the end of the attempt. The fence is the last
// statement before COMMIT, so that nothing waits for the lease but others that
// want this one.
func (a *attempt) transact(ctx context.Context, c *commit, handle func(pgx.Tx) error) error {
	end := store.Ending{Owner: a.owner, Token: a.job.Token, ID: a.job.ID}
	// A process that is stopped in the middle would hold its locks, and with them
	// the next attempt, for as long as it stays stopped.
	trying, err := a.w.store.BeginAttempt(ctx, a.conn.Conn(), end, a.row.Isolation, a.row.Policy.Timeout+stuckGrace+a.w.config.Lease)
	if err != nil {
		return fmt.Errorf("begin the transaction: %w", err)
	}
	defer func() { // also when the handler panics
		if c.done {
			return
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTimeout)
		defer cancel()
		_ = trying.Tx.Rollback(ctx)
	}()
	if err := handle(&lentTx{boundTx{Tx: trying.Tx, schema: a.w.schema}}); err != nil {
		return err
	}
	if !a.ended.CompareAndSwap(false, true) {
		return fmt.Errorf("what the handler did is rolled back: %w", task.ErrTimeout) // its end is settled already
	}
	c.mine = true
	// The handler has succeeded: a timeout that passes now must not undo it. A
	// lease that is lost does.
	committing, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTimeout)
	defer cancel()
	began := time.Now()
	err = trying.Commit(committing, a.w.config.Lease)
	a.w.metrics.completed(time.Since(began), err)
	switch {
	case err == nil:
		c.done = true
	case errors.Is(err, store.ErrFenced):
		return fmt.Errorf("what the handler did is rolled back: %w", task.ErrLeaseLost)
	case errors.Is(err, store.ErrTransactionEnded):
		// Another attempt would store once more what this one has stored.
		return task.Permanent(fmt.Errorf("%w: the handler ended its transaction by itself, and what it wrote may be committed; it has to return nil to commit, or an error to roll back", task.ErrTxOwned))
	case errors.Is(err, store.ErrUnanswered):
		c.unsure = true
	}
	return err
}

// boundTx is a transaction that knows the schema of Pawl's tables, so that an
// enqueue in it needs no [task.InSchema].
type boundTx struct {
	pgx.Tx
	schema string
}

var _ enqueue.Bound = boundTx{}

// PawlSchema is how an enqueue learns the schema.
func (tx boundTx) PawlSchema() string { return tx.schema }

// Begin makes a savepoint, which is the handler's own to end.
func (tx boundTx) Begin(ctx context.Context) (pgx.Tx, error) {
	savepoint, err := tx.Tx.Begin(ctx)
	if err != nil {
		return nil, err
	}
	return boundTx{Tx: savepoint, schema: tx.schema}, nil
}

// lentTx is the transaction that a handler gets: the runtime's to end.
type lentTx struct{ boundTx }

func (*lentTx) Commit(context.Context) error   { return task.ErrTxOwned }
func (*lentTx) Rollback(context.Context) error { return task.ErrTxOwned }
