package runtime

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

type logger = *slog.Logger

// guard wraps a logger so that its handler cannot take the worker down: a panic
// of it is swallowed and counted, with the record that it was about.
func guard(l logger, panics *atomic.Int64) logger {
	return slog.New(guarded{handler: l.Handler(), panics: panics})
}

// guarded is a handler whose panics end in it.
type guarded struct {
	handler slog.Handler
	panics  *atomic.Int64
}

func (g guarded) recover() {
	if recover() != nil {
		g.panics.Add(1)
	}
}

func (g guarded) Enabled(ctx context.Context, level slog.Level) bool {
	defer g.recover()
	return g.handler.Enabled(ctx, level)
}

func (g guarded) Handle(ctx context.Context, record slog.Record) error {
	defer g.recover()
	return g.handler.Handle(ctx, record)
}

func (g guarded) WithAttrs(attrs []slog.Attr) (with slog.Handler) {
	with = g // rather without the attributes than without the record
	defer g.recover()
	return guarded{g.handler.WithAttrs(attrs), g.panics}
}

func (g guarded) WithGroup(name string) (with slog.Handler) {
	with = g
	defer g.recover()
	return guarded{g.handler.WithGroup(name), g.panics}
}

const (
	// repeatFirst is how long a failure that was logged is left out after that,
	// doubling up to repeatMost for as long as it goes on.
	repeatFirst = 5 * time.Second
	repeatMost  = 5 * time.Minute
)

// repeats keeps the log from filling up with what goes on failing, where a loop
// tries again every second: each failure is logged when it first occurs, and
// then at growing intervals.
type repeats struct {
	mu  sync.Mutex
	all map[repeatKey]*repeat // guarded by mu; as many as loops can fail in ways
}

// repeatKey is what makes two failures the same. Texts are not part of it, since
// they tell addresses, ports and times.
type repeatKey struct {
	loop, message string
	code          string // the SQLSTATE, empty where the database did not answer
}

type repeat struct {
	next  time.Time // when it is logged again
	pause time.Duration
	left  int // out since it was last logged
}

// due says whether a failure is to be logged now, and how many were left out.
func (r *repeats) due(key repeatKey) (left int, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	e := r.all[key]
	switch {
	case e == nil:
		if r.all == nil {
			r.all = make(map[repeatKey]*repeat)
		}
		e = &repeat{pause: repeatFirst}
		r.all[key] = e
	case now.Before(e.next):
		e.left++
		return 0, false
	case now.Sub(e.next) > e.pause: // it had passed
		e.pause = repeatFirst
	default:
		e.pause = min(2*e.pause, repeatMost)
	}
	left, e.left = e.left, 0
	e.next = now.Add(e.pause)
	return left, true
}

// warn logs a failure of a loop that goes on, unless it was logged a short while
// ago. The name of the loop tells failures apart and does not stand in the log.
func (w *Worker) warn(loop, message string, err error, args ...any) {
	w.repeating(slog.LevelWarn, loop, message, err, args...)
}

// error is warn for what somebody has to look into.
func (w *Worker) error(loop, message string, err error, args ...any) {
	w.repeating(slog.LevelError, loop, message, err, args...)
}

func (w *Worker) repeating(level slog.Level, loop, message string, err error, args ...any) {
	key := repeatKey{loop: loop, message: message}
	if pgErr, ok := errors.AsType[*pgconn.PgError](err); ok {
		key.code = pgErr.Code
	}
	left, ok := w.repeats.due(key)
	if !ok {
		return
	}
	if err != nil {
		args = append([]any{"error", err}, args...)
	}
	if left > 0 {
		args = append(args, "left_out", left)
	}
	w.log.Log(context.Background(), level, message, args...)
}
