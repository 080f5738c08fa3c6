package runtime_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlgo/pawl/task"
)

// producer enqueues in every way there is, and cancels, in transactions some of
// which it rolls back, or commits late. What commits is in the books.
type producer struct {
	name  string
	r     *rand.Rand
	pool  *pgxpool.Pool // its connections may be cut at any time
	kinds *chaosKinds
	n     int

	committed, failed atomic.Int64
}

// run goes on until ctx ends, and returns the first error that is none of those
// that a caller is told to expect.
func (p *producer) run(ctx context.Context) error {
	for {
		if err := p.transaction(ctx); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			if !toBeExpected(err) {
				return fmt.Errorf("%s, after %d enqueues: %w", p.name, p.n, err)
			}
			p.failed.Add(1)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(time.Duration(5+p.r.IntN(25)) * time.Millisecond):
		}
	}
}

// toBeExpected says that an error is of a lost connection, or one that tells the
// caller to begin anew.
func toBeExpected(err error) bool {
	pgErr, ok := errors.AsType[*pgconn.PgError](err)
	if !ok {
		return !errors.Is(err, task.ErrInvalidArgs) && !errors.Is(err, task.ErrInvalidOption)
	}
	switch pgErr.Code {
	case "57P01", // the backend was ended
		"53300", // and where all come back at once, there is no place for a while
		"55P03", // a lock was not to be had
		"PW010": // no worker has registered the kind yet
		return true
	}
	return errors.Is(err, task.ErrSerialization) || errors.Is(err, task.ErrDeadlock) ||
		task.ReasonOf(err) == task.ErrSerialization || task.ReasonOf(err) == task.ErrDeadlock // of a COMMIT
}

func (p *producer) transaction(ctx context.Context) error {
	level := pgx.ReadCommitted
	if p.r.IntN(3) == 0 {
		level = levels[1+p.r.IntN(2)]
	}
	steps, rollback, cancel, late := 1+p.r.IntN(3), p.r.IntN(8) == 0, p.r.IntN(10) == 0, p.r.IntN(30) == 0
	tx, err := p.pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: level})
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
	var cancelled uuid.UUID
	for range steps {
		if cancel {
			cancelled, err = p.cancel(ctx, tx)
			cancel = false
		} else {
			err = p.enqueue(ctx, tx, level)
		}
		if err != nil {
			return err
		}
	}
	if late {
		select {
		case <-ctx.Done():
		case <-time.After(time.Duration(p.r.IntN(1500)) * time.Millisecond):
		}
	}
	if rollback {
		return tx.Rollback(ctx)
	}
	if err := tx.Commit(ctx); err != nil {
		return err
	}
	p.committed.Add(1)
	if cancelled != uuid.Nil {
		// From here on nothing may begin.
		_, err = p.pool.Exec(ctx, `UPDATE cancels SET done_at = clock_timestamp() WHERE id = $1`, cancelled)
	}
	return err
}

// cancel cancels one of the jobs that the books know, or now and then those of an
// organization.
func (p *producer) cancel(ctx context.Context, tx pgx.Tx) (uuid.UUID, error) {
	if p.r.IntN(8) == 0 {
		_, _, err := task.CancelOrganization(ctx, tx, "c")
		return uuid.Nil, err
	}
	var id uuid.UUID
	err := tx.QueryRow(ctx, `SELECT id FROM (SELECT id FROM books WHERE NOT duplicate ORDER BY at DESC LIMIT 100) b ORDER BY md5(id::text || $1) LIMIT 1`,
		fmt.Sprint(p.r.Int())).Scan(&id)
	if errors.Is(err, pgx.ErrNoRows) {
		return uuid.Nil, nil
	} else if err != nil {
		return uuid.Nil, err
	}
	state, err := task.Cancel(ctx, tx, id)
	if errors.Is(err, task.ErrNoJob) { // its row was deleted
		return uuid.Nil, nil
	} else if err != nil {
		return uuid.Nil, err
	}
	_, err = tx.Exec(ctx, `INSERT INTO cancels (id, answer) VALUES ($1, $2)`, id, string(state))
	return id, err
}

// burden makes the payload of a job that behaves in any way.
func (p *producer) burden() burden {
	b := burden{N: p.r.IntN(1000), Org: []string{"", "a", "b", "c"}[p.r.IntN(4)], Mode: modeFine, Micros: 1 + p.r.IntN(30_000)}
	if p.r.IntN(4) == 0 {
		b.Micros = 50_000 + p.r.IntN(350_000)
	}
	switch x := p.r.IntN(200); {
	case x < 80:
	case x < 91:
		b.Mode, b.Micros = modeDeaf, 200_000+p.r.IntN(1_000_000)
	case x < 92:
		b.Mode, b.Micros = modeDeaf, 2_300_000 // longer than anybody waits for it
	case x < 94:
		b.Mode = modeHang
	case x < 96:
		b.Mode = modeExit
	default:
		modes := []string{modeTransient, modeLimited, modeUnknown, modePermanent, modeRevoked, modePanic, modeGoexit, modeSnooze, modeFollow, modeFollow}
		b.Mode = modes[p.r.IntN(len(modes))]
	}
	return b
}

// v1 is the payload as the first generation writes it.
func (b burden) v1() burdenV1 {
	return burdenV1{N: b.N, Org: b.Org, Mode: b.Mode, Ms: 1 + b.Micros/1000}
}

// options are those that change nothing that the books have to know, and how
// many attempts the job has.
func (p *producer) options() (opts []task.EnqueueOption, attempts int) {
	attempts = 5
	if p.r.IntN(4) == 0 {
		attempts = 1 + p.r.IntN(8)
		opts = append(opts, task.Attempts(attempts))
	}
	switch p.r.IntN(8) {
	case 0:
		opts = append(opts, task.In(time.Duration(p.r.IntN(1500))*time.Millisecond))
	case 1:
		opts = append(opts, task.At(time.Now().Add(time.Duration(p.r.IntN(2000)-1000)*time.Millisecond)))
	}
	if p.r.IntN(4) == 0 {
		opts = append(opts, task.Priority(task.Low+task.PriorityLevel(p.r.IntN(4))))
	}
	if p.r.IntN(8) == 0 {
		opts = append(opts, task.NoWake())
	}
	return opts, attempts
}

// enqueue enqueues in one of the ways.
func (p *producer) enqueue(ctx context.Context, tx pgx.Tx, level pgx.TxIsoLevel) error {
	opts, attempts := p.options()
	b := p.burden()
	next := func() entry {
		p.n++
		return entry{producer: p.name, n: p.n, isolation: string(level), attempts: attempts}
	}
	switch p.r.IntN(16) {
	case 0, 1:
		return chaosEnqueue(ctx, tx, p.kinds.work, next(), b, opts...)
	case 2:
		return chaosEnqueue(ctx, tx, p.kinds.oldWork, next(), b.v1(), opts...)
	case 3: // many
		entries, all := make([]entry, 2+p.r.IntN(5)), []burden(nil)
		for i := range entries {
			entries[i], all = next(), append(all, p.burden())
		}
		return chaosEnqueueMany(ctx, tx, p.kinds.work, entries, all, opts...)
	case 4: // a declared key
		b.N = p.r.IntN(25)
		return chaosEnqueue(ctx, tx, p.kinds.once, next(), b, opts...)
	case 5: // many of them
		entries, all := make([]entry, 2+p.r.IntN(4)), []burden(nil)
		for i := range entries {
			b := p.burden()
			b.N = p.r.IntN(25)
			entries[i], all = next(), append(all, b)
		}
		return chaosEnqueueMany(ctx, tx, p.kinds.once, entries, all, opts...)
	case 6: // a key of the call's own
		e := next()
		e.key, e.keep = fmt.Sprintf("call %s %d", b.Org, p.r.IntN(10)), 500*time.Millisecond
		return chaosEnqueue(ctx, tx, p.kinds.work, e, b, append(opts, task.Key(e.key, e.keep))...)
	case 7: // plain SQL
		return p.plain(ctx, tx, next(), b)
	case 8: // what a savepoint takes back
		savepoint, err := tx.Begin(ctx)
		if err != nil {
			return err
		}
		if err := chaosEnqueue(ctx, savepoint, p.kinds.work, next(), b, opts...); err != nil {
			return err
		}
		return savepoint.Rollback(ctx)
	case 9, 10:
		b.N = p.r.IntN(6)
		return chaosEnqueue(ctx, tx, p.kinds.line, next(), b, opts...)
	case 11:
		b.N = p.r.IntN(6)
		if p.r.IntN(2) == 0 {
			return chaosEnqueue(ctx, tx, p.kinds.oldLine, next(), b.v1(), opts...)
		}
		return chaosEnqueue(ctx, tx, p.kinds.txLine, next(), b, opts...)
	default:
		return chaosEnqueue(ctx, tx, p.kinds.tx[p.r.IntN(len(p.kinds.tx))], next(), b, opts...)
	}
}

// plain enqueues by plain SQL, as the newest registered version of the kind; so
// its payload is one that both read alike.
func (p *producer) plain(ctx context.Context, tx pgx.Tx, e entry, b burden) error {
	began, err := chaosClock(ctx, tx)
	if err != nil {
		return err
	}
	v1 := b.v1()
	args, err := json.Marshal(struct {
		burden
		Ms int `json:"ms"`
	}{b, v1.Ms})
	if err != nil {
		return err
	}
	e.mode, e.key, e.keep = b.Mode, fmt.Sprintf("call %s %d", b.Org, p.r.IntN(10)), 500*time.Millisecond
	r, err := plain(ctx, tx, `'work', $1, key => $2, keep => $3::bigint * interval '1 microsecond', attempts => $4`,
		string(args), e.key, e.keep.Microseconds(), e.attempts)
	if err != nil {
		return err
	}
	return e.enter(ctx, tx, "work", began, r)
}
