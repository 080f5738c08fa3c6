package task

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// maxRetryAfter bounds what a server can ask for. The kind's longest backoff
// bounds it further.
const maxRetryAfter = 24 * time.Hour

// ResponseError turns the answer to an HTTP request into a classified error, or
// nil for a status below 300:
//
//   - 429, and 503 with a Retry-After, are [ClassRateLimited], to come again after
//     that time: seconds, or a date, which is counted from the answer's own Date
//     where it has one, so that the two clocks need not agree. It is at least zero
//     and at most a day;
//   - 408 and the other 5xx are [ClassTransient];
//   - 401 and 403 are [ClassRevoked];
//   - everything else, 410 among it, is [ClassPermanent]. So is a redirect that the
//     client did not follow.
//
// It reads the status and the headers only: the body is the caller's to close.
func ResponseError(resp *http.Response) error {
	status := resp.StatusCode
	if status < 300 {
		return nil
	}
	err := fmt.Errorf("the server answered %s", strings.TrimSpace(fmt.Sprintf("%d %s", status, http.StatusText(status))))
	after, named := retryAfter(resp.Header)
	switch {
	case status == http.StatusTooManyRequests, status == http.StatusServiceUnavailable && named:
		return RateLimited(err, after)
	case status >= 500, status == http.StatusRequestTimeout:
		return Transient(err)
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return Revoked(err)
	}
	return Permanent(err)
}

// retryAfter reads the header of that name; false where there is none that can
// be read.
func retryAfter(header http.Header) (time.Duration, bool) {
	value := strings.TrimSpace(header.Get("Retry-After"))
	if value != "" && strings.Trim(value, "0123456789") == "" {
		seconds, err := strconv.ParseInt(value, 10, 64)
		if err != nil || seconds > int64(maxRetryAfter/time.Second) {
			return maxRetryAfter, true // more than fits
		}
		return time.Duration(seconds) * time.Second, true
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0, false
	}
	now, err := http.ParseTime(header.Get("Date"))
	if err != nil {
		now = time.Now()
	}
	return min(max(at.Sub(now), 0), maxRetryAfter), true
}
