// Package subject holds what the benchmark compares: Pawl, River, and the floor
// under both, the same rows moved by plain SQL. They do the same work behind one
// interface, so that a scenario is written once and measures all of them by the
// same clock.
package subject

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Kind is a kind of job, in a queue of its own but for Unknown.
type Kind string

const (
	Work    Kind = "work"    // a plain job
	Aside   Kind = "aside"   // a plain job of another queue
	Unknown Kind = "unknown" // in the queue of Work, and no worker knows it
	Once    Kind = "once"    // with a key made of its number
	Ordered Kind = "ordered" // one at a time for each account
	Flaky   Kind = "flaky"   // tried again a second after it failed
)

// Spread is a plain job of the nth of the queues that package many declares.
func Spread(n int) Kind { return Kind(fmt.Sprintf("many_%02d", n)) }

// Batch says which jobs to store together.
type Batch struct {
	Kind     Kind
	First    int64 // number of the first job
	Count    int
	Accounts int           // how many accounts share the jobs; 0 for one each
	In       time.Duration // due after
	Silent   bool          // wakes no worker
}

// Note pads a payload to about a hundred bytes.
const Note = "a note of some length, as payloads have"

func (b *Batch) account(i int) string {
	n := b.First + int64(i)
	if b.Accounts > 0 {
		n %= int64(b.Accounts)
	}
	return fmt.Sprintf("account-%08d", n)
}

// Attempt is one attempt at a job, as a handler sees it.
type Attempt struct {
	Number int64
	Nth    int       // from 1
	DueAt  time.Time // by the database's clock, which is this machine's
}

// Handler does the work of a job.
type Handler func(ctx context.Context, a Attempt) error

// Settings are those of a worker.
type Settings struct {
	Kinds []Kind
	Slots int // of each queue; 0 for the subject's own default
	// Fetchers is how many workers share a queue in one process. Each has Slots
	// of its own. 0 means 1.
	Fetchers int
	// Tuned takes the settings that are best for throughput.
	Tuned bool
	// Lease is how long the jobs of a dead worker are left alone, where the
	// subject has such a setting; 0 for its default.
	Lease time.Duration
}

// Worker is a running worker.
type Worker interface {
	// Stop ends it when what it has begun is done and recorded.
	Stop(ctx context.Context) error
}

// Subject is one of those that are compared.
type Subject interface {
	Name() string
	// Migrate makes its tables in an empty database.
	Migrate(ctx context.Context, pool *pgxpool.Pool) error
	// Open returns it at work on a database that has been migrated.
	Open(ctx context.Context, pool *pgxpool.Pool) (Client, error)
}

// Client is a subject on one database.
type Client interface {
	// InsertMany stores jobs in one call and one transaction, on the fastest path
	// that there is for it.
	InsertMany(ctx context.Context, b Batch) error
	// InsertTx stores the one job of b in the caller's transaction, and Insert in
	// one of its own.
	InsertTx(ctx context.Context, tx pgx.Tx, b Batch) error
	Insert(ctx context.Context, b Batch) error
	// Start starts a worker on the pool of the client.
	Start(ctx context.Context, s Settings, h Handler) (Worker, error)
	// Pause keeps a queue from being worked.
	Pause(ctx context.Context, k Kind) error
	// Busy says whether some jobs are claimed and not finished.
	Busy(ctx context.Context) (bool, error)
	// Finished counts the jobs that are done. It reads them all.
	Finished(ctx context.Context) (int, error)
	// Claim claims up to n jobs of Work, as a worker does, and returns how many
	// there were.
	Claim(ctx context.Context, n int) (int, error)
	// Close ends what the client itself has open.
	Close()
}

// ByName returns the subject of a name.
func ByName(name string) (Subject, error) {
	for _, s := range []Subject{Pawl{}, River{}, Floor{}} {
		if s.Name() == name {
			return s, nil
		}
	}
	return nil, fmt.Errorf("there is no subject %q", name)
}

// silence is the logger of all workers: what is measured is not their prose.
func silence() *slog.Logger { return slog.New(slog.DiscardHandler) }
