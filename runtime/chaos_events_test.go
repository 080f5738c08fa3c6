package runtime_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/pawlgo/pawl/task"
)

// event lets one thing happen.
func (s *storm) event(t *testing.T) {
	p := s.slots[s.r.IntN(len(s.slots))]
	switch x := s.r.IntN(100); {
	case x < 10:
		s.kill(t, p)
	case x < 18:
		s.halt(t, p)
	case x < 22:
		s.deploy(t, p)
	case x < 40:
		s.cut(t)
	case x < 48:
		s.pause(t)
	case x < 56:
		s.lock(t)
	default:
		s.write(t)
	}
}

// kill ends a process on the spot; another takes its place in a while.
func (s *storm) kill(t *testing.T, p *slot) {
	if p.dead() {
		return
	}
	t.Log("kill")
	_ = p.cmd.Process.Kill() // it may be just ending by itself
	<-p.exited
	if s.quiet {
		return
	}
	p.down = true
	s.after(time.Duration(s.r.IntN(500))*time.Millisecond, func(*testing.T) { p.down = false })
}

// halt stops a process for longer than its lease.
func (s *storm) halt(t *testing.T, p *slot) {
	if p.stopped || p.dead() {
		return
	}
	d := chaosLease + time.Duration(200+s.r.IntN(1000))*time.Millisecond
	t.Logf("stop for %v", d)
	_ = p.cmd.Process.Signal(syscall.SIGSTOP) // it may be just ending by itself
	p.stopped = true
	stopped := p.child
	s.after(d, func(*testing.T) {
		_ = stopped.cmd.Process.Signal(syscall.SIGCONT) // it may have been killed
		if p.child == stopped {
			p.stopped = false
		}
	})
}

// deploy shuts a process down in order; another generation may follow.
func (s *storm) deploy(t *testing.T, p *slot) {
	if p.stopped || p.dead() {
		return
	}
	t.Log("deploy")
	_, _ = p.stdin.Write([]byte("stop\n")) // it may be just ending by itself
}

// cut ends backends: of workers, their listeners and producers.
func (s *storm) cut(t *testing.T) {
	n := 1 + s.r.IntN(6)
	t.Logf("cut %d", n)
	s.byHand(t, `SELECT pg_terminate_backend(pid) FROM (SELECT pid FROM pg_stat_activity
		WHERE datname = current_database() AND application_name ~ '^(worker|producer)' ORDER BY random() LIMIT $1) b`, n)
}

// pause pauses a queue for a while.
func (s *storm) pause(t *testing.T) {
	queue := chaosQueues[s.r.IntN(len(chaosQueues))]
	changed, err := task.Pause(t.Context(), task.Autocommit(s.pool), queue)
	require.NoError(t, err)
	if !changed {
		return
	}
	t.Logf("pause %s", queue)
	exec(t, s.pool, `INSERT INTO pauses (queue, paused_at) VALUES ($1, clock_timestamp())`, queue)
	s.after(time.Duration(200+s.r.IntN(800))*time.Millisecond, func(t *testing.T) {
		exec(t, s.pool, `UPDATE pauses SET resumed_at = clock_timestamp() WHERE queue = $1 AND resumed_at IS NULL`, queue)
		changed, err := task.Resume(t.Context(), task.Autocommit(s.pool), queue)
		require.NoError(t, err)
		require.True(t, changed)
	})
}

// lock holds rows or a table locked in an open transaction.
func (s *storm) lock(t *testing.T) {
	tables := []string{"ready", "leases", "processes", "ordered", "jobs", "idempotency_keys", "order_turns", "outcomes"}
	table := tables[s.r.IntN(len(tables))]
	statement := fmt.Sprintf(`SELECT FROM pawl.%s ORDER BY random() LIMIT %d FOR UPDATE`, table, 1+s.r.IntN(50))
	held := time.Duration(100+s.r.IntN(1700)) * time.Millisecond
	if s.r.IntN(5) == 0 { // which stops nearly everybody
		held /= 3
		modes := []string{"SHARE", "EXCLUSIVE", "ACCESS EXCLUSIVE"}
		statement = fmt.Sprintf(`LOCK TABLE pawl.%s IN %s MODE`, table, modes[s.r.IntN(len(modes))])
	}
	t.Logf("for %v %s", held, statement)
	s.locks.Go(func() {
		ctx, cancel := context.WithTimeout(t.Context(), held)
		defer cancel()
		_ = pgx.BeginFunc(t.Context(), s.hand, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, `SET LOCAL lock_timeout = '300ms'`); err != nil {
				return err
			}
			if _, err := tx.Exec(ctx, statement); err != nil {
				return err
			}
			<-ctx.Done()
			return nil
		})
	})
}

// write changes rows as hands do that know no better.
func (s *storm) write(t *testing.T) {
	const some = `SELECT r.ctid FROM pawl.ready r WHERE NOT EXISTS (SELECT FROM by_hand h WHERE h.id = r.id) ORDER BY random() LIMIT 2 FOR UPDATE SKIP LOCKED`
	writes := []struct{ what, sql string }{
		{"spend", `WITH picked AS (` + some + `), done AS (
				UPDATE pawl.ready r SET attempts = (SELECT max_attempts FROM pawl.jobs j WHERE j.id = r.id) FROM picked WHERE r.ctid = picked.ctid
					AND EXISTS (SELECT FROM pawl.jobs j WHERE j.id = r.id) RETURNING r.id)
			INSERT INTO by_hand (id, what) SELECT id, 'spend' FROM done`},
		{"row", `WITH picked AS (
				SELECT id FROM (SELECT id FROM pawl.ready UNION ALL SELECT unnest(job_ids) FROM pawl.leases UNION ALL SELECT job_id FROM pawl.ordered) x
				WHERE NOT EXISTS (SELECT FROM by_hand h WHERE h.id = x.id) ORDER BY random() LIMIT 1), done AS (
				DELETE FROM pawl.jobs j USING picked WHERE j.id = picked.id RETURNING j.id)
			INSERT INTO by_hand (id, what) SELECT id, 'row' FROM done`},
		{"lease", `WITH picked AS (SELECT token FROM pawl.leases WHERE queue <> 'lines' ORDER BY random() LIMIT 1), done AS (
				DELETE FROM pawl.leases l USING picked WHERE l.token = picked.token RETURNING l.job_ids, l.open)
			INSERT INTO by_hand (id, what) SELECT u.id, 'lease' FROM done CROSS JOIN LATERAL unnest(done.job_ids) WITH ORDINALITY u(id, pos)
			WHERE get_bit(done.open, u.pos::integer - 1) = 1`},
		{"process", `DELETE FROM pawl.processes p USING (SELECT id FROM pawl.processes ORDER BY random() LIMIT 1) picked WHERE p.id = picked.id`},
		{"past", `UPDATE pawl.ready r SET run_at = clock_timestamp() - interval '1 hour' FROM (` + some + `) picked WHERE r.ctid = picked.ctid`},
		{"future", `UPDATE pawl.ready r SET run_at = clock_timestamp() + interval '2 seconds' FROM (` + some + `) picked WHERE r.ctid = picked.ctid`},
		{"strand", `WITH picked AS (` + some + `), done AS (
				UPDATE pawl.ready r SET capability = -1 FROM picked WHERE r.ctid = picked.ctid
					AND EXISTS (SELECT FROM pawl.jobs j WHERE j.id = r.id) RETURNING r.id, r.attempts)
			INSERT INTO by_hand (id, what, attempts) SELECT id, 'strand', attempts FROM done`},
	}
	w := writes[s.r.IntN(len(writes))]
	t.Logf("by hand: %s", w.what)
	s.byHand(t, w.sql)
}

// byHand runs a statement, unless it would have to wait for long, for locks or
// for a connection.
func (s *storm) byHand(t *testing.T, sql string, args ...any) {
	t.Helper()
	err := pgx.BeginFunc(t.Context(), s.hand, func(tx pgx.Tx) error {
		if _, err := tx.Exec(t.Context(), `SET LOCAL lock_timeout = '300ms'`); err != nil {
			return err
		}
		_, err := tx.Exec(t.Context(), sql, args...)
		return err
	})
	if pgErr, ok := errors.AsType[*pgconn.PgError](err); ok && slices.Contains([]string{"55P03", "40P01", "53300"}, pgErr.Code) {
		return
	}
	require.NoError(t, err)
}
