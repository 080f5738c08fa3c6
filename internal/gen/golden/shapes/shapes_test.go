package shapes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/pawlgo/pawl/internal/dispatch"
	"github.com/pawlgo/pawl/internal/gen/golden/shapes/library"
	"github.com/pawlgo/pawl/task"
	"github.com/stretchr/testify/require"
)

// recorder is a transaction that keeps what would be stored.
type recorder struct {
	payload, organization string
	key                   []byte
}

func (r *recorder) QueryRow(_ context.Context, _ string, args ...any) pgx.Row {
	var lists [][]string
	for _, a := range args {
		switch a := a.(type) {
		case []string:
			lists = append(lists, a) // the identities, the payloads, the organizations
		case [][]byte:
			if len(a) > 0 {
				r.key = a[0]
			}
		}
	}
	if lists == nil { // one job without keys comes as plain values
		r.payload, r.organization = args[9].(string), args[10].(string)
		return noRow{}
	}
	r.payload, r.organization = lists[1][0], lists[2][0]
	return noRow{}
}

func (*recorder) Commit(context.Context) error { return errors.New("never called") }

type noRow struct{}

func (noRow) Scan(...any) error { return errNoDatabase }

var errNoDatabase = errors.New("no database")

type handler struct {
	ShapesHandlers
	got Everyone
}

func (h *handler) HandleEverything(_ context.Context, job *task.Job[Everyone]) error {
	h.got = job.Args
	return nil
}

// What is accepted comes back as it went.
func TestRoundTrip(t *testing.T) {
	t.Parallel()
	half, second := 0.5, time.Second
	want := Everyone{
		Meta: library.Meta{Source: "s", Level: 3}, Trace: &library.Trace{Span: "t"}, inner: inner{Promoted: "p"},
		Names:    library.Names{Key: "k", Value: []string{"a", "b"}},
		Pair:     library.Pair[Level, *time.Duration]{Key: "l", Value: &second},
		Tree:     &Tree{Name: "root", Children: []*Tree{{Name: "leaf"}}},
		ByNumber: map[int]map[string][]Tree{-1: {"x": {{Name: "y"}}}},
		ByID:     map[uuid.UUID]bool{uuid.New(): true},
		Bytes:    []byte{0, 255}, Array: [3]int16{1, 2, 3}, Number: -1 << 63, Unsigned: 1<<64 - 1, Share: &half,
		At: time.Date(2026, 2, 3, 4, 5, 6, 7, time.UTC), Big: big.NewInt(7), Addr: netip.MustParseAddr("::1"),
		Raw: json.RawMessage(`{"a":1}`), Digits: "123456789012345678901234567890",
	}
	want.Inline.Yes = true
	want.Stamp.Time, want.Noted = want.At, Noted{want.At, "n"}

	tx := &recorder{}
	_, err := EnqueueEverything(t.Context(), tx, want)
	require.ErrorIs(t, err, errNoDatabase)
	require.Equal(t, "s", tx.organization)
	require.NotEmpty(t, tx.key)
	h := &handler{}
	row := dispatch.Rows(ShapesTable(h))[0]
	require.NoError(t, row.Run(t.Context(), &dispatch.Delivery{Version: 1, Args: []byte(tx.payload)}))
	require.Equal(t, want, h.got)
}

func TestOrganizations(t *testing.T) {
	t.Parallel()
	id := uuid.New()
	for name, tt := range map[string]struct {
		enqueue func(*recorder) error
		field   string // for plain SQL: none where JSON has another text
		want    string
	}{
		"named string": {func(r *recorder) error { return second(EnqueueByName(t.Context(), r, Of[Level]{"x"})) }, kindByName.OrganizationField, "x"},
		"integer":      {func(r *recorder) error { return second(EnqueueByInt(t.Context(), r, Of[int32]{-7})) }, kindByInt.OrganizationField, "-7"},
		"unsigned":     {func(r *recorder) error { return second(EnqueueByUint(t.Context(), r, Of[uint64]{1<<64 - 1})) }, kindByUint.OrganizationField, "18446744073709551615"},
		"uuid":         {func(r *recorder) error { return second(EnqueueByUUID(t.Context(), r, Of[uuid.UUID]{id})) }, kindByUUID.OrganizationField, id.String()},
		"zero uuid":    {func(r *recorder) error { return second(EnqueueByUUID(t.Context(), r, Of[uuid.UUID]{})) }, "", ""},
		"stringer":     {func(r *recorder) error { return second(EnqueueByStringer(t.Context(), r, Of[Numbered]{5})) }, kindByStringer.OrganizationField, "tenant-5"},
		"zero":         {func(r *recorder) error { return second(EnqueueByStringer(t.Context(), r, Of[Numbered]{})) }, "", ""},
		"text":         {func(r *recorder) error { return second(EnqueueByText(t.Context(), r, Of[Fussy]{Fussy{"ok"}})) }, kindByText.OrganizationField, "ok"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tx := &recorder{}
			require.ErrorIs(t, tt.enqueue(tx), errNoDatabase)
			require.Equal(t, tt.want, tx.organization)
			if tt.field != "" {
				var stored map[string]any
				d := json.NewDecoder(strings.NewReader(tx.payload))
				d.UseNumber()
				require.NoError(t, d.Decode(&stored))
				require.Equal(t, tt.want, fmt.Sprint(stored[tt.field]))
			}
		})
	}
	require.Empty(t, kindByStringer.OrganizationField)
	require.Equal(t, "tenant", kindByText.OrganizationField)
}

// An organization that cannot be read refuses the enqueue before any SQL.
func TestOrganizationFails(t *testing.T) {
	t.Parallel()
	_, err := EnqueueByText(t.Context(), &recorder{}, Of[Fussy]{Fussy{"bad"}})
	require.ErrorIs(t, err, ErrFussy)
	require.ErrorIs(t, err, task.ErrInvalidArgs)
}

func second(_ task.Receipt, err error) error { return err }
