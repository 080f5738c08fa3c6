package store

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
)

// Tables that are partitioned by day.
const (
	Jobs      = "jobs"
	Outcomes  = "outcomes"
	JobErrors = "job_errors"
	Archive   = "archive"
)

// LeafState says where a partition stands on its way out.
type LeafState string

// The states of a leaf.
const (
	Attached LeafState = "attached"
	Pending  LeafState = "pending"  // being detached, by somebody who may be gone
	Detached LeafState = "detached" // left over from that
)

// Leaf is the partition of one table and one day, the number of days since 1970.
type Leaf struct {
	Parent string
	Day    int
	State  LeafState
	Used   bool          // it takes up space; one without rows may as well
	Over   time.Duration // since the day ended, by the database's clock; below zero before
}

// Emptying is what came of a try to empty a leaf.
type Emptying string

// The answers of [Store.Empty].
const (
	Emptied Emptying = "emptied"
	Needed  Emptying = "needed" // by an unfinished job, or a job whose outcome is there
	Locked  Emptying = "locked" // by somebody's transaction, or a vacuum
)

// BeginRetention says whether it is this process's turn to make a pass: the
// last one, of any process, began at least every ago.
func (s *Store) BeginRetention(ctx context.Context, every time.Duration) (mine bool, err error) {
	err = s.callRow(ctx, `SELECT `+s.schema+`.begin_retention($1)`, []any{every.Microseconds()}, &mine)
	return mine, err
}

// Leaves lists the partitions, of each table the oldest first.
func (s *Store) Leaves(ctx context.Context) ([]Leaf, error) { return s.leaves(ctx, "leaves") }

// leaves asks a function of the schema that answers as leaves does.
func (s *Store) leaves(ctx context.Context, function string) (leaves []Leaf, err error) {
	err = s.call(ctx, `SELECT parent, day, state, used, over_us FROM `+s.schema+`.`+function+`()`, nil, func(rows pgx.Rows) error {
		leaves, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (l Leaf, err error) {
			var over int64
			err = row.Scan(&l.Parent, &l.Day, &l.State, &l.Used, &over)
			l.Over = time.Duration(over) * time.Microsecond
			return l, err
		})
		return err
	})
	return leaves, err
}

// Survivor is a waiting job that has to move to a later day.
type Survivor struct {
	Day     int
	Waiting pgtype.Text // where it is in ready; NULL for one whose turn has not come
	Blocked *uuid.UUID
}

// Survivors lists waiting jobs that have to move so that their days can be
// emptied at an age, at most limit of them. It reads through the table of
// waiting jobs.
func (s *Store) Survivors(ctx context.Context, age time.Duration, limit int) (all []Survivor, err error) {
	err = s.call(ctx, `SELECT day, waiting, blocked FROM `+s.schema+`.survivors($1, $2)`, []any{age.Microseconds(), limit}, func(rows pgx.Rows) error {
		all, err = pgx.CollectRows(rows, pgx.RowToStructByPos[Survivor])
		return err
	})
	return all, err
}

// Rekey moves survivors to today, and returns how many: it skips what is locked
// or has moved on.
func (s *Store) Rekey(ctx context.Context, survivors []Survivor) (moved int, err error) {
	waiting, blocked := make([]string, 0, len(survivors)), make([]uuid.UUID, 0, len(survivors))
	for _, x := range survivors {
		if x.Waiting.Valid {
			waiting = append(waiting, x.Waiting.String)
		} else {
			blocked = append(blocked, *x.Blocked)
		}
	}
	err = s.callRow(ctx, `SELECT `+s.schema+`.rekey($1, $2)`, []any{waiting, blocked}, &moved)
	return moved, err
}

// ArchiveJobs moves finished jobs of a day to the archive, of the limit jobs
// after one id. Next is the id to go on after, Nil at the end.
func (s *Store) ArchiveJobs(ctx context.Context, day int, after uuid.UUID, limit int) (moved int, next uuid.UUID, err error) {
	var last *uuid.UUID
	err = s.callRow(ctx, `SELECT moved, next FROM `+s.schema+`.archive_jobs($1, $2, $3)`, []any{day, after, limit}, &moved, &last)
	if last != nil {
		next = *last
	}
	return moved, next, err
}

// Empty empties a leaf, in a transaction that never waits for a lock. It tries
// for about ten milliseconds times tries.
func (s *Store) Empty(ctx context.Context, l Leaf, tries int) (answer Emptying, err error) {
	err = s.callRow(ctx, `SELECT `+s.schema+`.empty_leaf($1, $2, $3)`, []any{l.Parent, l.Day, tries}, &answer)
	return answer, err
}

// Remove takes an empty leaf away: it detaches it, or where a process that did
// so was killed goes on from there. It waits for the transactions that are
// using the table, without keeping others from it, for as long as ctx allows;
// then the next call goes on. Gone is false for a leaf that turned out to be in
// use.
//
// A role that does not own the table cannot do that. Then a function detaches the
// leaf, which waits for nobody: gone is false too where somebody had the table
// locked all the time.
func (s *Store) Remove(ctx context.Context, l Leaf) (gone bool, err error) {
	if l.State == Attached || l.State == Pending {
		detached, err := s.detach(ctx, l)
		if err != nil || !detached {
			return false, err
		}
	}
	err = s.callRow(ctx, `SELECT `+s.schema+`.drop_leaf($1, $2)`, []any{l.Parent, l.Day}, &gone)
	return gone, err
}

// detachTries is how often a role that does not own the tables tries to detach a
// leaf, some ten milliseconds apart.
const detachTries = 100

func (s *Store) detach(ctx context.Context, l Leaf) (detached bool, err error) {
	parent := s.schema + `.` + pgx.Identifier{l.Parent}.Sanitize()
	var owner bool
	err = s.callRow(ctx, `SELECT pg_has_role(c.relowner, 'USAGE') FROM pg_catalog.pg_class c WHERE c.oid = to_regclass($1::text)`, []any{parent}, &owner)
	if err != nil {
		return false, err
	}
	if !owner {
		err = s.callRow(ctx, `SELECT `+s.schema+`.detach_leaf($1, $2, $3)`, []any{l.Parent, l.Day, detachTries}, &detached)
		return detached, err
	}
	alter := `ALTER TABLE ` + parent + ` DETACH PARTITION ` + s.schema + `.` + pgx.Identifier{fmt.Sprintf("%s_d%d", l.Parent, l.Day)}.Sanitize()
	if l.State == Pending {
		return true, s.alone(ctx, alter+" FINALIZE")
	}
	return true, s.alone(ctx, alter+" CONCURRENTLY")
}

// alone runs a statement that has to be outside of any transaction.
func (s *Store) alone(ctx context.Context, sql string) error {
	_, err := s.pool.Exec(ctx, sql, pgx.QueryExecModeSimpleProtocol)
	return explain(err)
}

// PurgeDeadLetters removes dead letters that died at least age ago, at most
// limit of them, and returns how many.
func (s *Store) PurgeDeadLetters(ctx context.Context, age time.Duration, limit int) (removed int, err error) {
	err = s.callRow(ctx, `SELECT `+s.schema+`.purge_dead_letters($1, $2)`, []any{age.Microseconds(), limit}, &removed)
	return removed, err
}

// PurgeRedrives removes redrives in which nothing has changed for an age, at most
// limit of them, and returns how many.
func (s *Store) PurgeRedrives(ctx context.Context, age time.Duration, limit int) (removed int, err error) {
	err = s.callRow(ctx, `SELECT `+s.schema+`.purge_redrives($1, $2)`, []any{age.Microseconds(), limit}, &removed)
	return removed, err
}

// PurgeLives removes what is known of the former lives of jobs that were redriven
// at least age ago, at most limit of them, and returns how many.
func (s *Store) PurgeLives(ctx context.Context, age time.Duration, limit int) (removed int, err error) {
	err = s.callRow(ctx, `SELECT `+s.schema+`.purge_lives($1, $2)`, []any{age.Microseconds(), limit}, &removed)
	return removed, err
}

// MinAudit is what the audit is kept for in any case.
const MinAudit = 30 * 24 * time.Hour

// PurgeAudit removes rows of the audit to which nothing was added for an age, but
// not for less than [MinAudit], at most limit of them, and returns how many.
func (s *Store) PurgeAudit(ctx context.Context, age time.Duration, limit int) (removed int, err error) {
	err = s.callRow(ctx, `SELECT `+s.schema+`.purge_audit($1, $2)`, []any{age.Microseconds(), limit}, &removed)
	return removed, err
}

// PurgeKeys removes idempotency keys that have expired and whose jobs are
// finished, of so many blocks of the table from one on. It returns how many it
// removed, and how many blocks there are.
func (s *Store) PurgeKeys(ctx context.Context, block, blocks int) (removed, total int, err error) {
	err = s.callRow(ctx, `SELECT removed, blocks FROM `+s.schema+`.purge_keys($1, $2)`, []any{block, blocks}, &removed, &total)
	return removed, total, err
}
