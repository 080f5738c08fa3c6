// Package receiver is the other side of the webhooks: a small HTTP server that
// plays the platform's subscribers, the good and the bad, and keeps a record of
// what reached it.
package receiver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"
)

// headerEventID names the event of a request.
const headerEventID = "X-Fleet-Event-Id"

// Behaviour is how a subscriber answers the nth request, from 1, that brings it
// the same event.
type Behaviour func(try int) (status int, retryAfter time.Duration)

// Always answers every request alike.
func Always(status int) Behaviour {
	return func(int) (int, time.Duration) { return status, 0 }
}

// FailsFirst answers the first request of each event with 500.
func FailsFirst() Behaviour {
	return func(try int) (int, time.Duration) {
		if try == 1 {
			return http.StatusInternalServerError, 0
		}
		return http.StatusOK, 0
	}
}

// LimitsFirst answers the first request of each event with 429, and asks to
// come back after a while, in whole seconds.
func LimitsFirst(after time.Duration) Behaviour {
	return func(try int) (int, time.Duration) {
		if try == 1 {
			return http.StatusTooManyRequests, after
		}
		return http.StatusOK, 0
	}
}

// Request is one request that was answered.
type Request struct {
	Subscriber string
	EventID    string
	Status     int
}

// Receiver is a running server.
type Receiver struct {
	behaviours map[string]Behaviour
	delay      time.Duration
	server     *http.Server
	url        string
	served     chan error

	mu       sync.Mutex     // guards what follows
	tries    map[string]int // by subscriber and event
	requests []Request
}

// Start serves subscribers on a free port of the loopback interface, each at
// the URL that [Receiver.URL] gives. A request is answered after the delay.
func Start(subscribers map[string]Behaviour, delay time.Duration) (*Receiver, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("start the receiver of webhooks: %w", err)
	}
	r := &Receiver{
		behaviours: subscribers, delay: delay,
		url: "http://" + listener.Addr().String(), served: make(chan error, 1), tries: map[string]int{},
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /hooks/{subscriber}", r.receive)
	r.server = &http.Server{Handler: mux, ReadTimeout: 10 * time.Second}
	go func() { r.served <- r.server.Serve(listener) }()
	return r, nil
}

// URL is where a subscriber is called.
func (r *Receiver) URL(subscriber string) string { return r.url + "/hooks/" + subscriber }

// Requests returns what was answered so far, by subscriber and event.
func (r *Receiver) Requests() []Request {
	r.mu.Lock()
	defer r.mu.Unlock()
	requests := slices.Clone(r.requests)
	slices.SortStableFunc(requests, func(a, b Request) int {
		return cmp.Or(cmp.Compare(a.Subscriber, b.Subscriber), cmp.Compare(a.EventID, b.EventID))
	})
	return requests
}

// Close stops the server and waits until it has.
func (r *Receiver) Close() error {
	err := r.server.Close()
	if served := <-r.served; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}

func (r *Receiver) receive(w http.ResponseWriter, req *http.Request) {
	subscriber, event := req.PathValue("subscriber"), req.Header.Get(headerEventID)
	behave, ok := r.behaviours[subscriber]
	if !ok || event == "" {
		http.Error(w, "no such subscriber, or no "+headerEventID, http.StatusNotFound)
		return
	}
	if _, err := io.Copy(io.Discard, http.MaxBytesReader(w, req.Body, 1<<20)); err != nil {
		http.Error(w, "the body cannot be read", http.StatusBadRequest)
		return
	}
	if !r.linger(req.Context()) {
		return // the caller has gone
	}
	status, after := r.answer(behave, subscriber, event)
	if after > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(after.Seconds())))
	}
	w.WriteHeader(status)
}

func (r *Receiver) linger(ctx context.Context) bool {
	timer := time.NewTimer(r.delay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func (r *Receiver) answer(behave Behaviour, subscriber, event string) (status int, after time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := subscriber + " " + event
	r.tries[key]++
	status, after = behave(r.tries[key])
	r.requests = append(r.requests, Request{Subscriber: subscriber, EventID: event, Status: status})
	return status, after
}
