package evolved

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/pawlgo/pawl/internal/dispatch"
	"github.com/pawlgo/pawl/internal/gen/golden/shapes/library"
	"github.com/pawlgo/pawl/internal/gen/render/golden/evolved/opt"
	"github.com/pawlgo/pawl/internal/gen/render/golden/evolved/past"
	"github.com/pawlgo/pawl/internal/gen/shape"
	"github.com/pawlgo/pawl/task"
	"github.com/stretchr/testify/require"
)

// handlers keeps the payload of the last job.
type handlers struct {
	EvolvedHandlers
	got any
	job *task.Job[opt.Of[RetiredArgs]]
}

func keep[A any](h *handlers, job *task.Job[A]) error { h.got = job.Args; return nil }

func (h *handlers) HandleDeliver(_ context.Context, job *task.Job[DeliverArgs]) error {
	return keep(h, job)
}
func (h *handlers) HandleShrink(_ context.Context, job *task.Job[ShrinkArgs]) error {
	return keep(h, job)
}
func (h *handlers) HandleList(_ context.Context, job *task.Job[Items]) error { return keep(h, job) }
func (h *handlers) HandleText(_ context.Context, job *task.Job[Batch[string]]) error {
	return keep(h, job)
}
func (h *handlers) HandleCode(_ context.Context, job *task.Job[Batch[int]]) error {
	return keep(h, job)
}
func (h *handlers) HandleLost(_ context.Context, job *task.Job[LostArgs]) error { return keep(h, job) }
func (h *handlers) HandleArchive(_ context.Context, job *task.Job[Batch[uuid.UUID]]) error {
	return keep(h, job)
}
func (h *handlers) HandleRetired(_ context.Context, job *task.Job[opt.Of[RetiredArgs]]) error {
	h.job = job
	return keep(h, job)
}

func rowOf(t *testing.T, h *handlers, kind string) dispatch.Row {
	t.Helper()
	for _, row := range dispatch.Rows(EvolvedTable(h)) {
		if row.Kind == kind {
			return row
		}
	}
	t.Fatal("no row of kind " + kind)
	panic("not reached")
}

// What earlier revisions stored arrives as the current type.
func TestOldPayloadsRun(t *testing.T) {
	t.Parallel()
	id := uuid.New()
	delivered := DeliverArgs{Names: []string{"Ada", "Lovelace"}, Count: 2}
	for _, tt := range []struct {
		kind    string
		version int
		stored  any
		want    any
	}{
		{KindDeliver, 1, past.DeliverV1{Name: "Ada Lovelace"}, delivered},
		{KindDeliver, 2, past.DeliverV2{First: "Ada", Last: "Lovelace", Spare: "x"}, delivered},
		{KindDeliver, 3, past.DeliverV3{First: "Ada", Last: "Lovelace"}, delivered},
		{KindDeliver, 4, past.DeliverV4{Names: []string{"a"}, Count: 7}, DeliverArgs{Names: []string{"a"}, Count: 7}},
		{KindDeliver, 5, DeliverArgs{Count: 1 << 40, Tries: &Tries{1}}, DeliverArgs{Count: 1 << 40, Tries: &Tries{1}}},
		{KindShrink, 1, past.ShrinkV1{A: 1, B: 2, C: 3}, ShrinkArgs{1}},
		{KindShrink, 2, past.ShrinkV2{A: 1, B: 2}, ShrinkArgs{1}},
		{KindShrink, 3, ShrinkArgs{1}, ShrinkArgs{1}},
		{KindList, 1, past.ListV1{{Max: 3}}, Items{{Key: "old", Value: []Tries{{3}}}}},
		{KindText, 1, past.TextV1("a b"), Batch[string]{Items: []string{"a", "b"}}},
		{KindCode, 1, past.CodeV1{'a', 'b'}, Batch[int]{Items: []int{'a', 'b'}}},
		{KindArchive, 1, past.ArchiveV1{ID: id, Digits: "1"}, Batch[uuid.UUID]{Items: []uuid.UUID{id}}},
		{KindRetired, 2, past.RetiredV2{Seconds: 3}, opt.Some(RetiredArgs{3 * time.Second})},
		{KindRetired, 5, opt.Of[RetiredArgs]{}, opt.Of[RetiredArgs]{}},
		{"pensioned", 2, past.RetiredV2{Seconds: 3}, opt.Some(RetiredArgs{3 * time.Second})},
		{"pensioned", 5, opt.Some(RetiredArgs{1}), opt.Some(RetiredArgs{1})},
		{"merged", 1, opt.Some(RetiredArgs{1}), opt.Some(RetiredArgs{1})},
		{KindLost, 1, json.RawMessage(`{"gone":{},"plain":1,"by_key":{"k":[1, 2]},"addr":"::1"}`),
			LostArgs{map[string]int{"gone": 2, "plain": 1, "hidden": 0, "internal": 0, "literal": 0, "key": 6}}},
	} {
		t.Run(fmt.Sprintf("%s/%d", tt.kind, tt.version), func(t *testing.T) {
			t.Parallel()
			h := &handlers{}
			row := rowOf(t, h, tt.kind)
			raw, err := json.Marshal(tt.stored)
			require.NoError(t, err)
			if message, ok := tt.stored.(json.RawMessage); ok {
				raw = message // not compacted
			}
			require.NoError(t, row.Run(t.Context(), &dispatch.Delivery{Kind: tt.kind, Version: tt.version, Args: raw}))
			require.Equal(t, tt.want, h.got)
			require.NoError(t, row.Decode(tt.version, raw))
		})
	}
}

func TestWhatCannotBeDecoded(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		kind    string
		version int
		raw     string
		want    string
		is      error
	}{
		"retired version":     {KindRetired, 1, `{}`, "does not know version 1 of retired", nil},
		"between versions":    {KindRetired, 4, `{}`, "does not know version 4 of retired", nil},
		"future version":      {KindDeliver, 6, `{}`, "does not know version 6 of deliver", nil},
		"version of an alias": {"merged", 5, `{}`, "does not know version 5 of merged", nil},
		"upgrader fails":      {KindDeliver, 1, `{"name":"Ada"}`, "upgrade it from version 1: without a name", ErrNameless},
		"upgrader panics":     {KindDeliver, 1, `{"name":"a b","retry":{"max":-1}}`, "upgrade it from version 1: panic: negative (evolved.go:", nil},
		"old type":            {KindDeliver, 2, `{"first":1}`, "cannot unmarshal number", nil},
		"current type":        {KindDeliver, 4, `{"count":"1"}`, "cannot unmarshal string", nil},
		"no JSON":             {KindDeliver, 5, `{`, "unexpected end of JSON input", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := &handlers{}
			raw := []byte(tt.raw)
			err := rowOf(t, h, tt.kind).Run(t.Context(), &dispatch.Delivery{Kind: tt.kind, Version: tt.version, Args: raw})
			failed, ok := errors.AsType[*dispatch.DecodeError](err)
			require.True(t, ok, "%v", err)
			require.Equal(t, tt.kind, failed.Kind)
			require.Equal(t, tt.version, failed.Version)
			require.ErrorContains(t, err, tt.want)
			if tt.is != nil {
				require.ErrorIs(t, err, tt.is)
			}
			require.Nil(t, h.got)
			require.Equal(t, tt.raw, string(raw))
		})
	}
}

// A worker claims every version that it decodes, of old kinds as well, and says
// which one is current.
func TestRowsClaimEveryVersion(t *testing.T) {
	t.Parallel()
	version := func(kind string, n int) dispatch.Version {
		sum := sha256.Sum256(fmt.Appendf(nil, "%s %d", kind, n))
		return dispatch.Version{Number: n, Capability: int64(binary.BigEndian.Uint64(sum[:8]))}
	}
	for kind, want := range map[string]struct{ current, versions []int }{
		KindDeliver: {[]int{5}, []int{1, 2, 3, 4, 5}},
		KindRetired: {[]int{5}, []int{2, 5}},
		"pensioned": {[]int{0}, []int{2, 5}},
		"merged":    {[]int{0}, []int{1}},
	} {
		row := rowOf(t, &handlers{}, kind)
		var versions []dispatch.Version
		for _, n := range want.versions {
			versions = append(versions, version(kind, n))
		}
		require.Equal(t, versions, row.Versions, kind)
		require.Equal(t, want.current, []int{row.Current}, kind)
		require.Equal(t, QueueEvolved, row.Queue)
	}
}

// A handler sees a job of an old kind as it is stored.
func TestJobOfAnOldKind(t *testing.T) {
	t.Parallel()
	h := &handlers{}
	require.NoError(t, rowOf(t, h, "pensioned").Run(t.Context(), &dispatch.Delivery{Kind: "pensioned", Version: 2, Args: []byte(`{}`)}))
	require.Equal(t, "pensioned", h.job.Kind)
	require.Equal(t, 2, h.job.Version)
}

// A frozen type has the wire form that was recorded.
func TestFrozenTypesKeepTheWireForm(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ frozen, past reflect.Type }{
		{reflect.TypeFor[DeliverArgsV1](), reflect.TypeFor[past.DeliverV1]()},
		{reflect.TypeFor[DeliverArgsV2](), reflect.TypeFor[past.DeliverV2]()},
		{reflect.TypeFor[DeliverArgsV3](), reflect.TypeFor[past.DeliverV3]()},
		{reflect.TypeFor[DeliverArgsV4](), reflect.TypeFor[past.DeliverV4]()},
		{reflect.TypeFor[ListArgsV1](), reflect.TypeFor[past.ListV1]()},
		{reflect.TypeFor[TextArgsV1](), reflect.TypeFor[past.TextV1]()},
		{reflect.TypeFor[CodeArgsV1](), reflect.TypeFor[past.CodeV1]()},
		{reflect.TypeFor[ArchiveArgsV1](), reflect.TypeFor[past.ArchiveV1]()},
	} {
		frozen, err := shape.FromReflect(tt.frozen)
		require.NoError(t, err)
		recorded, err := shape.FromReflect(tt.past)
		require.NoError(t, err)
		require.Equal(t, string(recorded.Canonical()), string(frozen.Canonical()), tt.past.Name())
	}
}

// And takes values over as they were.
func TestFrozenTypesKeepValues(t *testing.T) {
	t.Parallel()
	n := uint16(5)
	p := &n
	old := past.ArchiveV1{
		Trace: &library.Trace{Span: "s"}, Level: "l", Retry: &past.Retry{Max: 1},
		Tree:  &past.Node{Name: "n", Next: &past.Node{}, ByName: map[string]past.Node{"x": {Name: "y"}}},
		Boxes: past.Box[past.Box[past.Retry]]{Items: []past.Box[past.Retry]{{Items: []past.Retry{{Max: 2}}}}},
		Text:  past.Box[string]{Items: []string{"t"}}, Texts: past.Box[[]string]{Items: [][]string{{"u"}}},
		Count: 1<<62 + 1, At: time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC), ID: uuid.New(),
		Code: past.Code{'a', 'b'}, Codes: map[past.Code]past.Retry{{'c', 'd'}: {Max: 3}},
		Maybe: opt.Some(time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)),
		Body:  []byte{0, 1}, Raw: json.RawMessage(`[1]`), Digits: "12345678901234567890", Duration: time.Hour,
		Pointers: &p, Untagged: 1<<64 - 1, Odd: "o", Following: 1,
	}
	old.Inline.Deep.A = 4
	before, err := json.Marshal(old)
	require.NoError(t, err)
	var frozen ArchiveArgsV1
	require.NoError(t, json.Unmarshal(before, &frozen))
	after, err := json.Marshal(frozen)
	require.NoError(t, err)
	require.JSONEq(t, string(before), string(after))
	require.Equal(t, old.ID, frozen.ID, "a type that encodes itself stays what it is")
}
