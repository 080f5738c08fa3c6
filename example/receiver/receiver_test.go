package receiver_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawlgo/pawl/example/receiver"
)

func start(t *testing.T, delay time.Duration) *receiver.Receiver {
	t.Helper()
	r, err := receiver.Start(map[string]receiver.Behaviour{
		"fine": receiver.Always(http.StatusOK), "gone": receiver.Always(http.StatusGone),
		"flaky": receiver.FailsFirst(), "busy": receiver.LimitsFirst(2 * time.Second),
	}, delay)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, r.Close()) })
	return r
}

func post(t *testing.T, url, event string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader("{}"))
	require.NoError(t, err)
	req.Header.Set("X-Fleet-Event-Id", event)
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	return resp
}

func TestSubscribersBehave(t *testing.T) {
	t.Parallel()
	r := start(t, 0)
	for range 2 {
		require.Equal(t, 200, post(t, r.URL("fine"), "e1").StatusCode)
		require.Equal(t, 410, post(t, r.URL("gone"), "e1").StatusCode)
	}
	require.Equal(t, 500, post(t, r.URL("flaky"), "e1").StatusCode)
	require.Equal(t, 500, post(t, r.URL("flaky"), "e2").StatusCode, "another event has a first time of its own")
	require.Equal(t, 200, post(t, r.URL("flaky"), "e1").StatusCode)

	limited := post(t, r.URL("busy"), "e1")
	require.Equal(t, 429, limited.StatusCode)
	require.Equal(t, "2", limited.Header.Get("Retry-After"))
	require.Equal(t, 200, post(t, r.URL("busy"), "e1").StatusCode)

	require.Equal(t, []receiver.Request{
		{Subscriber: "busy", EventID: "e1", Status: 429}, {Subscriber: "busy", EventID: "e1", Status: 200},
		{Subscriber: "fine", EventID: "e1", Status: 200}, {Subscriber: "fine", EventID: "e1", Status: 200},
		{Subscriber: "flaky", EventID: "e1", Status: 500}, {Subscriber: "flaky", EventID: "e1", Status: 200},
		{Subscriber: "flaky", EventID: "e2", Status: 500},
		{Subscriber: "gone", EventID: "e1", Status: 410}, {Subscriber: "gone", EventID: "e1", Status: 410},
	}, r.Requests())
}

func TestStrangersAreRefusedAndNotRecorded(t *testing.T) {
	t.Parallel()
	r := start(t, 0)
	require.Equal(t, 404, post(t, r.URL("nobody"), "e1").StatusCode)
	require.Equal(t, 404, post(t, r.URL("fine"), "").StatusCode)
	resp, err := http.Get(r.URL("fine"))
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, 405, resp.StatusCode)
	require.Empty(t, r.Requests())
}

func TestAnswersTakeTheirTime(t *testing.T) {
	t.Parallel()
	r := start(t, 50*time.Millisecond)
	began := time.Now()
	var calls sync.WaitGroup
	for range 10 {
		calls.Go(func() { post(t, r.URL("fine"), "e1") })
	}
	calls.Wait()
	require.GreaterOrEqual(t, time.Since(began), 50*time.Millisecond)
	require.Len(t, r.Requests(), 10)
}
