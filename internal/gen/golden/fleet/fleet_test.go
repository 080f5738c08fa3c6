package fleet_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/pawlgo/pawl/internal/dispatch"
	"github.com/pawlgo/pawl/internal/gen/golden/fleet"
	"github.com/pawlgo/pawl/task"
	"github.com/pawlgo/pawl/task/taskimpl"
	"github.com/stretchr/testify/require"
)

// handlers remembers what it was called with.
type handlers struct {
	webhooks []*task.Job[fleet.SendWebhookArgs]
	reports  []*task.Job[fleet.Batch[fleet.Trip]]
	invoices map[uuid.UUID]pgx.Tx
}

var _ fleet.Handlers = (*handlers)(nil)

func (h *handlers) HandleSendWebhook(_ context.Context, job *task.Job[fleet.SendWebhookArgs]) error {
	h.webhooks = append(h.webhooks, job)
	return nil
}

func (h *handlers) HandleRevokeWebhook(context.Context, *task.Job[fleet.RevokeWebhookArgs]) error {
	return errRevoked
}

func (h *handlers) HandleBuildReport(_ context.Context, job *task.Job[fleet.Batch[fleet.Trip]]) error {
	h.reports = append(h.reports, job)
	return nil
}

func (h *handlers) HandleTrackVehicle(context.Context, *task.Job[fleet.TrackVehicleArgs]) error {
	return nil
}

func (h *handlers) HandleBillTrip(_ context.Context, tx pgx.Tx, job *task.Job[fleet.BillTripArgs]) error {
	h.invoices[job.Args.Trip] = tx
	return nil
}

func (h *handlers) HandleCloseMonth(context.Context, pgx.Tx, *task.Job[fleet.CloseMonthArgs]) error {
	return errRevoked
}

var errRevoked = errors.New("revoked")

func TestTableCarriesThePolicy(t *testing.T) {
	t.Parallel()
	rows := dispatch.Rows(fleet.WebhooksTable(&handlers{}))
	require.Len(t, rows, 2)
	require.Equal(t, fleet.KindRevokeWebhook, rows[0].Kind)
	require.Equal(t, fleet.KindSendWebhook, rows[1].Kind)
	require.Equal(t, fleet.QueueWebhooks, rows[1].Queue)
	require.Equal(t, dispatch.Policy{
		Attempts: 12, Base: 2 * time.Second, Max: 10 * time.Minute, Jitter: 0.25, Unknown: 3, Timeout: 30 * time.Second,
	}, rows[1].Policy)
	require.Equal(t, dispatch.Policy{
		Attempts: 1, Base: time.Second, Max: 10 * time.Minute, Jitter: 0.2, Unknown: 1, Timeout: time.Minute,
	}, rows[0].Policy, "the defaults, and unknown within attempts")

	tables := fleet.Tables(&handlers{})
	require.Len(t, tables, 4)
	require.Equal(t, fleet.QueueFleetReports, dispatch.Rows(tables[1])[0].Queue)
}

func TestOrderKey(t *testing.T) {
	t.Parallel()
	row := dispatch.Rows(fleet.PositionsTable(&handlers{}))[0]
	require.True(t, row.Ordered)
	require.Equal(t, []string{"fleet", "vehicle"}, row.Registration.Order, "in the order of the directive, promoted fields included")
	raw, err := json.Marshal(fleet.TrackVehicleArgs{})
	require.NoError(t, err)
	var members map[string]any
	require.NoError(t, json.Unmarshal(raw, &members))
	for _, member := range row.Registration.Order {
		require.Contains(t, members, member)
	}
	require.False(t, dispatch.Rows(fleet.WebhooksTable(&handlers{}))[0].Ordered)
}

// fakeTx is told from others by its address.
type fakeTx struct {
	pgx.Tx
	_ int
}

func TestTransactionalHandlers(t *testing.T) {
	t.Parallel()
	h := &handlers{invoices: map[uuid.UUID]pgx.Tx{}}
	rows := dispatch.Rows(fleet.BillingTable(h))
	require.Equal(t, fleet.KindBillTrip, rows[0].Kind)
	require.Empty(t, rows[0].Isolation, "read committed")
	require.False(t, rows[0].Ordered)
	require.Nil(t, rows[0].Run, "it cannot run without a transaction")
	tx, trip := &fakeTx{}, uuid.New()
	raw, err := json.Marshal(fleet.BillTripArgs{Trip: trip})
	require.NoError(t, err)
	require.NoError(t, rows[0].RunTx(t.Context(), tx, &dispatch.Delivery{Kind: rows[0].Kind, Version: 1, Args: raw}))
	require.Same(t, tx, h.invoices[trip])
	_, ok := errors.AsType[*dispatch.DecodeError](rows[0].RunTx(t.Context(), tx, &dispatch.Delivery{Version: 1, Args: []byte(`{"trip":1}`)}))
	require.True(t, ok)

	require.Equal(t, fleet.KindCloseMonth, rows[1].Kind)
	require.Equal(t, pgx.Serializable, rows[1].Isolation)
	require.True(t, rows[1].Ordered)
	require.Equal(t, []string{"organization_id"}, rows[1].Registration.Order)
	require.ErrorIs(t, rows[1].RunTx(t.Context(), tx, &dispatch.Delivery{Version: 1, Args: []byte(`{}`)}), errRevoked)
	require.Nil(t, dispatch.Rows(fleet.WebhooksTable(h))[0].RunTx)
}

// kindOf is how a test names a task by its declaration.
func kindOf[A any](declaration interface{ TaskKind() *taskimpl.Kind[A] }) *taskimpl.Kind[A] {
	return declaration.TaskKind()
}

func TestDeclarationsNameTheirKinds(t *testing.T) {
	t.Parallel()
	kind := kindOf(fleet.SendWebhook{})
	require.Equal(t, fleet.KindSendWebhook, kind.Name)
	require.Equal(t, "organization_id", kind.OrganizationField)
	require.Equal(t, []any{new(uuid.UUID), new(fleet.Event)}, kind.Key(new(fleet.SendWebhookArgs)))
	args, err := kindOf(fleet.BuildReport{}).Decode(1, []byte(`{"items":[{"vehicle":"a"}]}`))
	require.NoError(t, err)
	require.Equal(t, fleet.Batch[fleet.Trip]{Items: []fleet.Trip{{Vehicle: "a"}}}, args)
}

// The shape of the generated code is that of the lock.
func TestShapeIsTheLocks(t *testing.T) {
	t.Parallel()
	src, err := os.ReadFile("task.lock.json")
	require.NoError(t, err)
	var file struct {
		Kinds map[string]struct {
			Versions map[string]map[string]json.RawMessage
		}
	}
	require.NoError(t, json.Unmarshal(src, &file))
	rows := 0
	for _, table := range fleet.Tables(&handlers{}) {
		for _, row := range dispatch.Rows(table) {
			want := file.Kinds[row.Kind].Versions["1"]
			delete(want, "base")
			text, err := json.Marshal(want)
			require.NoError(t, err)
			require.Equal(t, string(text), row.Registration.Shape)
			rows++
		}
	}
	require.Len(t, file.Kinds, rows)
}

func TestRunDecodesAndCallsTheHandler(t *testing.T) {
	t.Parallel()
	h := &handlers{}
	row := dispatch.Rows(fleet.FleetReportsTable(h))[0]
	want := fleet.Batch[fleet.Trip]{Items: []fleet.Trip{{Vehicle: "a", Duration: time.Second, Next: &fleet.Trip{Vehicle: "b"}}}}
	raw, err := json.Marshal(want)
	require.NoError(t, err)
	require.NoError(t, row.Run(t.Context(), &dispatch.Delivery{Kind: row.Kind, Version: 1, Attempt: 2, Args: raw}))
	require.Equal(t, want, h.reports[0].Args)
	require.Equal(t, 2, h.reports[0].Attempt)

	rows := dispatch.Rows(fleet.WebhooksTable(h))
	require.ErrorIs(t, rows[0].Run(t.Context(), &dispatch.Delivery{Version: 1, Args: []byte(`{}`)}), errRevoked)
}

func TestRunRefusesWhatItCannotDecode(t *testing.T) {
	t.Parallel()
	h := &handlers{}
	row := dispatch.Rows(fleet.FleetReportsTable(h))[0]
	for name, d := range map[string]dispatch.Delivery{
		"version": {Version: 2, Args: []byte(`{}`)},
		"payload": {Version: 1, Args: []byte(`{"items":1}`)},
	} {
		_, ok := errors.AsType[*dispatch.DecodeError](row.Run(t.Context(), &d))
		require.True(t, ok, name)
	}
	require.Empty(t, h.reports)
}

// recorder is a transaction that keeps the arguments of the enqueue.
type recorder struct{ args []any }

func (r *recorder) QueryRow(_ context.Context, _ string, args ...any) pgx.Row {
	r.args = args
	return noDuplicates{}
}

func (*recorder) Commit(context.Context) error { return errors.New("never called") }

type noDuplicates struct{}

func (noDuplicates) Scan(dest ...any) error { return errNoDatabase }

var errNoDatabase = errors.New("no database")

// keys returns the idempotency keys and the organizations of the last enqueue.
func (r *recorder) keys(t *testing.T) (keys [][]byte, organizations []string) {
	var lists [][]string // the identities, the payloads, the organizations
	for _, a := range r.args {
		switch a := a.(type) {
		case [][]byte:
			keys = a
		case []string:
			lists = append(lists, a)
		}
	}
	if lists == nil { // one job without keys comes as plain values
		return nil, []string{r.args[10].(string)}
	}
	require.GreaterOrEqual(t, len(lists), 3)
	return keys, lists[2]
}

func TestEnqueueMakesKeyAndOrganization(t *testing.T) {
	t.Parallel()
	tx := &recorder{}
	endpoint, organization := uuid.New(), uuid.New()
	args := []fleet.SendWebhookArgs{
		{EndpointID: endpoint, EventID: fleet.NewEvent(1), OrganizationID: organization, Body: json.RawMessage(`1`)},
		{EndpointID: endpoint, EventID: fleet.NewEvent(2), Body: json.RawMessage(`1`)},
		{EndpointID: endpoint, EventID: fleet.NewEvent(1), Body: json.RawMessage(`2`)},
	}
	_, err := fleet.EnqueueManySendWebhook(t.Context(), tx, args)
	require.ErrorIs(t, err, errNoDatabase)
	keys, organizations := tx.keys(t)
	require.Equal(t, []string{organization.String(), "", ""}, organizations, "the zero uuid is no organization")
	require.NotEqual(t, keys[0], keys[1], "an event encodes itself through a pointer receiver")
	require.Equal(t, keys[0], keys[2], "only the named fields count")
	require.Contains(t, tx.args, fleet.KindSendWebhook)
	require.Contains(t, tx.args, fleet.QueueWebhooks)
	require.Contains(t, tx.args, int16(task.High))
}

func TestEnqueueWithoutKey(t *testing.T) {
	t.Parallel()
	tx := &recorder{}
	_, err := fleet.EnqueueRevokeWebhook(t.Context(), tx, fleet.RevokeWebhookArgs{EndpointID: uuid.New()})
	require.ErrorIs(t, err, errNoDatabase)
	keys, organizations := tx.keys(t)
	require.Nil(t, keys)
	require.Equal(t, []string{""}, organizations)
}
