package runtime

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/pawlgo/pawl/internal/dispatch"
	"github.com/pawlgo/pawl/internal/store"
	"github.com/pawlgo/pawl/task"
)

func TestDecide(t *testing.T) {
	t.Parallel()
	p := dispatch.Policy{Attempts: 10, Base: time.Second, Max: time.Minute, Unknown: 3, Timeout: time.Minute}
	boom := errors.New("boom")
	wrap := func(err error) error { return fmt.Errorf("outer: %w", err) }
	for name, c := range map[string]struct {
		attempt, most int
		err, cause    error
		want          verdict
	}{
		"done":                              {1, 10, nil, nil, verdict{outcome: store.Completed}},
		"done although it ended":            {1, 10, nil, task.ErrLeaseLost, verdict{outcome: store.Completed}},
		"transient":                         {2, 10, task.Transient(boom), nil, verdict{store.Retry, 2 * time.Second, "transient", "boom", ""}},
		"transient, wrapped":                {2, 10, wrap(task.Transient(boom)), nil, verdict{store.Retry, 2 * time.Second, "transient", "outer: boom", ""}},
		"transient, the last":               {10, 10, task.Transient(boom), nil, verdict{store.Dead, 0, "transient", "boom", ""}},
		"transient, beyond":                 {11, 10, task.Transient(boom), nil, verdict{store.Dead, 0, "transient", "boom", ""}},
		"the only attempt":                  {1, 1, task.Transient(boom), nil, verdict{store.Dead, 0, "transient", "boom", ""}},
		"the job's maximum, not the kind's": {10, 20, task.Transient(boom), nil, verdict{store.Retry, time.Minute, "transient", "boom", ""}},
		"timeout by class":                  {1, 10, &task.Failure{Class: task.ClassTimeout, Err: boom}, nil, verdict{store.Retry, time.Second, "timeout", "boom", ""}},
		"rate limited":                      {1, 10, task.RateLimited(boom, 7*time.Second), nil, verdict{store.Retry, 7 * time.Second, "rate_limited", "boom", ""}},
		"rate limited for long":             {1, 10, task.RateLimited(boom, time.Hour), nil, verdict{store.Retry, time.Minute, "rate_limited", "boom", ""}},
		"rate limited for no time":          {1, 10, task.RateLimited(boom, -1), nil, verdict{store.Retry, time.Second, "rate_limited", "boom", ""}},
		"rate limited, the last":            {10, 10, task.RateLimited(boom, time.Second), nil, verdict{store.Dead, 0, "rate_limited", "boom", ""}},
		"permanent":                         {1, 10, task.Permanent(boom), nil, verdict{store.Dead, 0, "permanent", "boom", ""}},
		"revoked":                           {1, 10, task.Revoked(boom), nil, verdict{store.Cancelled, 0, "revoked", "boom", ""}},
		"revoked, the last":                 {10, 10, task.Revoked(boom), nil, verdict{store.Cancelled, 0, "revoked", "boom", ""}},
		"snooze":                            {10, 10, task.Snooze(time.Hour), nil, verdict{outcome: store.GiveBack, delay: time.Hour}},
		"the outermost class":               {1, 10, task.Permanent(task.Transient(boom)), nil, verdict{store.Dead, 0, "permanent", "boom", ""}},
		"a class beats the cause":           {1, 10, task.Permanent(boom), task.ErrShutdown, verdict{store.Dead, 0, "permanent", "boom", ""}},
		"shutdown":                          {10, 10, context.Canceled, task.ErrShutdown, verdict{outcome: store.GiveBack}},
		"shutdown, called transient":        {10, 10, task.Transient(context.Canceled), task.ErrShutdown, verdict{outcome: store.GiveBack}},
		"shutdown, by its cause":            {10, 10, task.RateLimited(task.ErrShutdown, 0), task.ErrShutdown, verdict{outcome: store.GiveBack}},
		"transient for a reason of its own": {10, 10, task.Transient(boom), task.ErrShutdown, verdict{store.Dead, 0, "transient", "boom", ""}},
		"timeout":                           {1, 10, wrap(context.DeadlineExceeded), task.ErrTimeout, verdict{store.Retry, time.Second, "timeout", "outer: context deadline exceeded", ""}},
		"timeout, past unknown":             {5, 10, boom, task.ErrTimeout, verdict{store.Retry, 16 * time.Second, "timeout", "boom", ""}},
		"timeout, the last":                 {10, 10, boom, task.ErrTimeout, verdict{store.Dead, 0, "timeout", "boom", ""}},
		"lease lost by the fence":           {2, 10, fmt.Errorf("rolled back: %w", task.ErrLeaseLost), nil, verdict{store.Retry, 0, "lease_lost", "rolled back: the lease on the job is lost", ""}},
		"lease lost":                        {1, 10, boom, task.ErrLeaseLost, verdict{store.Retry, 0, "lease_lost", "boom", ""}},
		"unknown":                           {1, 10, boom, nil, verdict{store.Retry, time.Second, "unknown", "boom", ""}},
		"unknown, its last":                 {3, 10, boom, nil, verdict{store.Dead, 0, "unknown", "unclassified failure at attempt 3; return task.Transient(err) to have it retried, or task.Permanent(err): boom", ""}},
		"unknown, the last":                 {2, 2, boom, nil, verdict{store.Dead, 0, "unknown", "boom", ""}},
		"an unknown class":                  {1, 10, &task.Failure{Class: "a\x00b", Err: boom}, nil, verdict{store.Retry, time.Second, "unknown", "boom", ""}},
		"panic":                             {1, 10, &panicError{value: "x"}, nil, verdict{store.Retry, time.Second, "panic", "panic: x", ""}},
		"panic of a class":                  {1, 10, &panicError{value: task.Permanent(boom)}, nil, verdict{store.Retry, time.Second, "panic", "panic: boom", ""}},
		"panic after its context":           {1, 10, &panicError{value: "x"}, task.ErrShutdown, verdict{store.Retry, time.Second, "panic", "panic: x", ""}},
		"Goexit":                            {1, 10, errGoexit, nil, verdict{store.Retry, time.Second, "goexit", errGoexit.Error(), ""}},
		"undecodable":                       {1, 10, &dispatch.DecodeError{Kind: "k", Err: boom}, nil, verdict{store.Dead, 0, "undecodable", "the stored payload of k cannot be decoded: boom", "the stored payload of k cannot be decoded: boom"}},
		"undecodable, with values":          {1, 10, wrap(&dispatch.DecodeError{Kind: "k", Err: boom, Quiet: errors.New("hush")}), nil, verdict{store.Dead, 0, "undecodable", "outer: the stored payload of k cannot be decoded: boom", "the stored payload of k cannot be decoded: hush"}},
	} {
		got := decide(p, c.attempt, c.most, c.err, c.cause, 0.5)
		require.Equal(t, c.want, got, name)
	}
}

type (
	nilError      struct{ text string }
	panicky       struct{ value any }
	badUnwrap     struct{ error }
	badIs         struct{ error }
	badAs         struct{ error }
	stringPanics  struct{}
	recursiveText struct{ error }
)

func (e *nilError) Error() string     { return e.text }
func (e panicky) Error() string       { panic(e.value) }
func (e *badUnwrap) Unwrap() error    { return e.error.(*badUnwrap).error } // panics
func (e badIs) Is(error) bool         { panic("Is") }
func (e badAs) As(any) bool           { panic("As") }
func (e stringPanics) String() string { panic("String") }
func (e recursiveText) Unwrap() error { return nil }
func (e recursiveText) Error() string { return strings.Repeat("\xf0\x9f", 3000) }

// Whatever a handler returns, there is a verdict, and its text can be stored.
func TestHostileErrors(t *testing.T) {
	t.Parallel()
	p := dispatch.Policy{Base: time.Second, Max: time.Minute, Unknown: 3}
	boom := errors.New("boom")
	many := make([]error, 10_000)
	for i := range many {
		many[i] = fmt.Errorf("error %d", i)
	}
	deep := boom
	for range 10_000 {
		deep = fmt.Errorf("%w", deep)
	}
	for name, err := range map[string]error{
		"NUL": errors.New("a\x00b"), "UTF-8": errors.New("\xff\xfe"), "empty": errors.New(""), "long": errors.New(strings.Repeat("x", 64<<20)),
		"long runes": errors.New(strings.Repeat("☃", 1<<20)), "long and bad": errors.New(strings.Repeat("\xff", 1<<20)), "long and NUL": errors.New(strings.Repeat("\x00", 1<<20)),
		"no start of a rune": errors.New(strings.Repeat("\x80", 1<<16)), "cut runes": recursiveText{boom},
		"typed nil": (*nilError)(nil), "nil Failure": (*task.Failure)(nil), "wrapped nil Failure": fmt.Errorf("x: %w", (*task.Failure)(nil)), "empty Failure": &task.Failure{},
		"Failure of nil": &task.Failure{Class: task.ClassTransient, Err: (*nilError)(nil)}, "Failure around a panic": task.Permanent(panicky{"x"}),
		"Error panics": panicky{"x"}, "Error panics with nil": panicky{nil}, "Error panics with itself": panicky{panicky{1}}, "Error panics at run time": panicky{boom},
		"Unwrap panics": &badUnwrap{boom}, "Is panics": badIs{boom}, "As panics": badAs{boom}, "joined": errors.Join(many...), "joined with bad ones": errors.Join(boom, panicky{1}, &badUnwrap{boom}),
		"deep": deep, "panic of a bad value": &panicError{value: stringPanics{}}, "panic of a bad error": &panicError{value: &badUnwrap{boom}},
		"panic of a nil Failure": &panicError{value: (*task.Failure)(nil)}, "nil DecodeError": &dispatch.DecodeError{Err: panicky{1}}, "typed nil DecodeError": (*dispatch.DecodeError)(nil),
	} {
		for _, cause := range []error{nil, task.ErrTimeout, task.ErrLeaseLost, task.ErrShutdown} {
			for attempt := 1; attempt <= 4; attempt++ {
				v := decide(p, attempt, 4, err, cause, 0.5)
				if v.outcome != store.GiveBack {
					require.NotEmpty(t, v.code, name)
				}
				require.LessOrEqual(t, len(v.summary), maxSummary, name)
				require.True(t, utf8.ValidString(v.summary), name)
				require.NotContains(t, v.summary, "\x00", name)
				if attempt == 4 && v.outcome != store.Dead {
					require.Equal(t, store.GiveBack, v.outcome, name)
					require.Equal(t, task.ErrShutdown, cause, name)
				}
			}
		}
	}
	long := summarize(errors.New(strings.Repeat("☃", 1000)))
	require.True(t, strings.HasSuffix(long, "☃"+clipped), "cut between runes, with a mark")
	require.Greater(t, len(long), maxSummary-10)
}
