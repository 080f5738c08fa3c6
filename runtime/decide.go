package runtime

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/pawlgo/pawl/internal/dispatch"
	"github.com/pawlgo/pawl/internal/store"
	"github.com/pawlgo/pawl/task"
)

// Codes that are stored with a failure, beside those of the classes in package
// task, whose code is the class.
const (
	codePanic       = "panic"       // the handler panicked
	codeGoexit      = "goexit"      // the handler ended its goroutine
	codeUndecodable = "undecodable" // the stored payload does not decode
	codeExhausted   = "attempts_exhausted"
	codeLeaseLost   = "lease_lost"
	codeProcessLost = "process_lost" // the attempt at an event ended its process
	codeCancelled   = "cancelled"    // somebody cancelled the job
)

// panicError is what a handler's panic becomes.
type panicError struct {
	value any
	stack []byte
}

func (e *panicError) Error() string { return fmt.Sprintf("panic: %v", e.value) }

func (e *panicError) Unwrap() error {
	err, _ := e.value.(error)
	return err
}

// errGoexit is what runtime.Goexit in a handler becomes.
var errGoexit = errors.New("the handler ended its goroutine with runtime.Goexit instead of returning")

// verdict is what an attempt's end means for its job.
type verdict struct {
	outcome store.Outcome
	delay   time.Duration
	code    string
	summary string // what is stored
	quiet   string // what is said of it elsewhere, where that is not the same
}

// said is what logs and traces say of an end.
func (v *verdict) said() string { return cmp.Or(v.quiet, v.summary) }

// decide turns the end of an attempt into a verdict. The cause is that of the
// handler's context, nil while that had not ended. It never fails, whatever the
// handler returned.
func decide(p dispatch.Policy, attempt, maxAttempts int, err, cause error, random float64) (v verdict) {
	if err == nil {
		return verdict{outcome: store.Completed}
	}
	// Asking an error what it wraps runs the application's code.
	defer func() {
		if r := recover(); r != nil {
			v = decide(p, attempt, maxAttempts, fmt.Errorf("an error of type %T that panics when it is asked what it wraps: %v", err, r), cause, random)
		}
	}()
	retry := func(code string, delay time.Duration) verdict {
		v := verdict{outcome: store.Retry, delay: delay, code: code, summary: summarize(err)}
		if attempt >= maxAttempts {
			v.outcome, v.delay = store.Dead, 0
		}
		return v
	}
	wait := backoff(p, attempt, random)
	code := string(task.ClassUnknown)
	switch {
	case is[*dispatch.DecodeError](err):
		undecodable, _ := errors.AsType[*dispatch.DecodeError](err)
		return verdict{outcome: store.Dead, code: codeUndecodable, summary: summarize(err), quiet: summarize(undecodable.WithoutValues())}
	case errors.Is(cause, task.ErrCancelled):
		return verdict{outcome: store.Cancelled, code: codeCancelled, summary: summarize(err)}
	case is[*panicError](err):
		code = codePanic
	case errors.Is(err, errGoexit):
		code = codeGoexit
	}
	if code == string(task.ClassUnknown) {
		f := task.Classify(err)
		if errors.Is(cause, task.ErrShutdown) && (errors.Is(err, context.Canceled) || errors.Is(err, cause)) {
			switch f.Class {
			case task.ClassTransient, task.ClassRateLimited, task.ClassTimeout:
				// A handler that calls every failure transient means this one too.
				return verdict{outcome: store.GiveBack}
			}
		}
		switch f.Class {
		case task.ClassTransient, task.ClassTimeout:
			return retry(string(f.Class), wait)
		case task.ClassRateLimited:
			if f.After > 0 {
				wait = min(f.After, p.Max)
			}
			return retry(string(f.Class), wait)
		case task.ClassPermanent:
			return verdict{outcome: store.Dead, code: string(f.Class), summary: summarize(err)}
		case task.ClassRevoked:
			return verdict{outcome: store.Cancelled, code: string(f.Class), summary: summarize(err)}
		case task.ClassSnooze:
			return verdict{outcome: store.GiveBack, delay: f.After}
		}
		// Nobody classified it. When the context had ended, that is the reason.
		switch {
		case errors.Is(cause, task.ErrShutdown):
			return verdict{outcome: store.GiveBack}
		case errors.Is(cause, task.ErrTimeout):
			return retry(string(task.ClassTimeout), wait)
		case errors.Is(cause, task.ErrLeaseLost), errors.Is(err, task.ErrLeaseLost): // the fence may know it first
			return retry(codeLeaseLost, 0)
		}
	}
	v = retry(code, wait)
	if v.outcome == store.Retry && attempt >= p.Unknown {
		v.outcome, v.delay = store.Dead, 0
		v.summary = clip(fmt.Sprintf("unclassified failure at attempt %d; return task.Transient(err) to have it retried, or task.Permanent(err): %s", attempt, v.summary))
	}
	return v
}

func is[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

// maxSummary bounds the stored text of a failure, in bytes.
const maxSummary = 2000

const clipped = " … (cut)"

// summarize is the stored text of an error: valid UTF-8 without NUL, bounded,
// even where the error's own method panics.
func summarize(err error) (text string) {
	defer func() {
		if r := recover(); r != nil {
			text = fmt.Sprintf("an error of type %T whose Error method panics", err)
		}
	}()
	return clip(err.Error())
}

func clip(text string) string {
	cut := len(text) > maxSummary
	if cut { // of what may be megabytes
		text = text[:maxSummary]
	}
	// A replacement may be longer than what it replaces.
	text = strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "\uFFFD")
	if !cut && len(text) <= maxSummary {
		return text
	}
	end := min(len(text), maxSummary-len(clipped))
	for end > 0 && end < len(text) && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + clipped
}
