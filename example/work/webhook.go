package work

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/pawlgo/pawl/example/fleetdb"
	"github.com/pawlgo/pawl/example/tasks"
	"github.com/pawlgo/pawl/task"
)

// The headers of a delivery. The event's id lets a receiver recognise one that
// it has had already.
const (
	headerEvent   = "X-Fleet-Event"
	headerEventID = "X-Fleet-Event-Id"
)

// HandleSendWebhook delivers an event to an endpoint, and says of a failure
// whether trying again can help.
func (h *Handlers) HandleSendWebhook(ctx context.Context, job *task.Job[tasks.SendWebhookArgs]) error {
	return record(ctx, h, job, func(ctx context.Context) error {
		endpoint, err := fleetdb.EndpointByID(ctx, h.db, job.Args.EndpointID)
		if err != nil {
			return task.Transient(fmt.Errorf("read the endpoint: %w", err))
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, endpoint.URL, bytes.NewReader(job.Args.Body))
		if err != nil {
			return task.Permanent(fmt.Errorf("the endpoint %s cannot be called: %w", endpoint.Name, err))
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set(headerEvent, job.Args.Event)
		req.Header.Set(headerEventID, job.Args.EventID.String())
		resp, err := h.client.Do(req)
		if err != nil {
			return task.Transient(fmt.Errorf("call %s: %w", endpoint.Name, err))
		}
		// The rest of a short answer is read, so that the connection can be used
		// again; what comes after that is of no interest.
		_, readErr := io.CopyN(io.Discard, resp.Body, 64<<10)
		closeErr := resp.Body.Close()
		if err := errors.Join(readErr, closeErr); err != nil && !errors.Is(err, io.EOF) {
			return task.Transient(fmt.Errorf("read the answer of %s: %w", endpoint.Name, err))
		}
		// Among what is permanent is 410 Gone: the subscriber has left.
		if err := task.ResponseError(resp); err != nil {
			return fmt.Errorf("%s: %w", endpoint.Name, err)
		}
		return nil
	})
}

// HandleNotify tells the dispatcher on duty, which here is a row in a table.
func (h *Handlers) HandleNotify(ctx context.Context, job *task.Job[tasks.NotifyArgs]) error {
	return record(ctx, h, job, func(ctx context.Context) error {
		if err := wait(ctx, h.pace.Notify); err != nil {
			return err
		}
		return task.Transient(fleetdb.Notified(ctx, h.db, job.Args.EventID, job.Args.Text))
	})
}
