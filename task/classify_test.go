package task_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/pawlgo/pawl/task"
)

func TestClassify(t *testing.T) {
	t.Parallel()
	state := func(code string) error { return fmt.Errorf("query: %w", &pgconn.PgError{Code: code}) }
	plain := errors.New("x")
	for _, tt := range []struct {
		err   error
		class task.Class
	}{
		{plain, task.ClassUnknown},
		{task.Transient(plain), task.ClassTransient},
		{fmt.Errorf("more: %w", task.Permanent(plain)), task.ClassPermanent},
		{task.Permanent(task.Transient(plain)), task.ClassPermanent}, // the outermost
		{task.Revoked(context.Canceled), task.ClassRevoked},
		{errors.Join(plain, task.Snooze(time.Second)), task.ClassSnooze},

		{context.Canceled, task.ClassUnknown},
		{&url.Error{Op: "Get", Err: context.Canceled}, task.ClassUnknown},
		{fmt.Errorf("call: %w", context.DeadlineExceeded), task.ClassTimeout},
		{&url.Error{Op: "Get", Err: &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}}, task.ClassTransient},
		{&net.DNSError{Err: "no such host", IsNotFound: true}, task.ClassTransient},
		{os.ErrDeadlineExceeded, task.ClassTransient},
		{fmt.Errorf("read: %w", io.ErrUnexpectedEOF), task.ClassTransient},
		{net.ErrClosed, task.ClassTransient},
		{syscall.ECONNRESET, task.ClassTransient},
		{fmt.Errorf("begin: %w", pgconn.ErrConnClosed), task.ClassTransient},
		{&url.Error{Op: "Get", Err: errors.New("unsupported protocol scheme")}, task.ClassUnknown},

		{state("40001"), task.ClassTransient}, {state("40P01"), task.ClassTransient}, {state("08006"), task.ClassTransient},
		{state("53300"), task.ClassTransient}, {state("57P01"), task.ClassTransient}, {state("55P03"), task.ClassTransient}, {state("25006"), task.ClassTransient},
		{state("25P03"), task.ClassTransient}, {state("25P04"), task.ClassTransient}, {state("25P02"), task.ClassUnknown},
		{state("55000"), task.ClassUnknown}, {state("25001"), task.ClassUnknown}, {state("23505"), task.ClassUnknown}, {state("42P01"), task.ClassUnknown}, {state(""), task.ClassUnknown},
	} {
		f := task.Classify(tt.err)
		require.Equal(t, tt.class, f.Class, "%v", tt.err)
	}
	require.Nil(t, task.Classify(nil))
	require.ErrorIs(t, task.Classify(plain), plain)
}

func TestResponseError(t *testing.T) {
	t.Parallel()
	date := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	const day = 24 * time.Hour
	for _, tt := range []struct {
		status     int
		retryAfter string
		noDate     bool
		class      task.Class
		after      time.Duration
	}{
		{status: 200}, {status: 204}, {status: 299},
		{status: 301, class: task.ClassPermanent}, {status: 304, class: task.ClassPermanent},
		{status: 400, class: task.ClassPermanent}, {status: 404, class: task.ClassPermanent}, {status: 410, class: task.ClassPermanent},
		{status: 401, class: task.ClassRevoked}, {status: 403, class: task.ClassRevoked},
		{status: 408, class: task.ClassTransient}, {status: 500, class: task.ClassTransient}, {status: 502, class: task.ClassTransient}, {status: 599, class: task.ClassTransient},
		{status: 503, class: task.ClassTransient}, {status: 503, retryAfter: "soon", class: task.ClassTransient},
		{status: 503, retryAfter: "7", class: task.ClassRateLimited, after: 7 * time.Second},
		{status: 500, retryAfter: "7", class: task.ClassTransient},

		{status: 429, class: task.ClassRateLimited},
		{status: 429, retryAfter: "0", class: task.ClassRateLimited},
		{status: 429, retryAfter: " 120 ", class: task.ClassRateLimited, after: 2 * time.Minute},
		{status: 429, retryAfter: "-5", class: task.ClassRateLimited}, {status: 429, retryAfter: "+5", class: task.ClassRateLimited}, {status: 429, retryAfter: "1.5", class: task.ClassRateLimited},
		{status: 429, retryAfter: "86401", class: task.ClassRateLimited, after: day},
		{status: 429, retryAfter: "99999999999999999999999", class: task.ClassRateLimited, after: day},
		{status: 429, retryAfter: date.Add(90 * time.Second).Format(http.TimeFormat), class: task.ClassRateLimited, after: 90 * time.Second},
		{status: 429, retryAfter: date.Add(90 * time.Second).Format(time.RFC850), class: task.ClassRateLimited, after: 90 * time.Second},
		{status: 429, retryAfter: date.Add(90 * time.Second).Format(time.ANSIC), class: task.ClassRateLimited, after: 90 * time.Second},
		{status: 429, retryAfter: date.Add(-time.Hour).Format(http.TimeFormat), class: task.ClassRateLimited},
		{status: 429, retryAfter: date.AddDate(1, 0, 0).Format(http.TimeFormat), class: task.ClassRateLimited, after: day},
		{status: 429, retryAfter: time.Now().AddDate(1, 0, 0).UTC().Format(http.TimeFormat), noDate: true, class: task.ClassRateLimited, after: day},
	} {
		resp := &http.Response{StatusCode: tt.status, Header: http.Header{}}
		if !tt.noDate {
			resp.Header.Set("Date", date.Format(http.TimeFormat))
		}
		if tt.retryAfter != "" {
			resp.Header.Set("Retry-After", tt.retryAfter)
		}
		err := task.ResponseError(resp)
		if tt.class == "" {
			require.NoError(t, err)
			continue
		}
		f := task.Classify(err)
		require.Equal(t, tt.class, f.Class, "%d %q", tt.status, tt.retryAfter)
		require.Equal(t, tt.after, f.After, "%d %q", tt.status, tt.retryAfter)
		require.ErrorContains(t, err, fmt.Sprint(tt.status))
	}
}
