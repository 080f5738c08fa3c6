package taskimpl_test

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawlgo/pawl/internal/dispatch"
	"github.com/pawlgo/pawl/task"
	"github.com/pawlgo/pawl/task/taskimpl"
)

type (
	argsV1 struct{ Name string }
	argsV2 struct{ First, Last string }
	argsV3 struct{ First string }
)

var errUpgrade = errors.New("no last name")

// fussy panics where it cannot decode.
type fussy struct{}

func (*fussy) UnmarshalJSON([]byte) error { panic("fussy") }

// versioned is a kind of three versions, the second of which decodes as the
// third as it is.
func versioned(upgrade func(argsV1) (argsV2, error)) *taskimpl.Kind[argsV3] {
	return kind(func(k *taskimpl.Kind[argsV3]) {
		k.Version = 3
		k.Capabilities = []taskimpl.Capability{{Version: 1, ID: 1 << 63}, {Version: 2, ID: 2}, {Version: 3, ID: 3}}
		k.Decode = func(version int, raw []byte) (argsV3, error) {
			switch version {
			case 1:
				args1, err := taskimpl.As[argsV1](raw)
				args2, err := taskimpl.Upgrade(1, args1, err, upgrade)
				return taskimpl.Convert[argsV3](args2, err)
			case 2, 3:
				return taskimpl.As[argsV3](raw)
			}
			return argsV3{}, taskimpl.UnknownVersion("k", version)
		}
	})
}

func toV2(a argsV1) (argsV2, error) { return argsV2{First: a.Name + "!", Last: "lost"}, nil }

// jobs is a handler that keeps what it was called with.
type jobs[A any] []*task.Job[A]

func (j *jobs[A]) handle(_ context.Context, job *task.Job[A]) error {
	*j = append(*j, job)
	return nil
}

func TestRowOfSeveralVersions(t *testing.T) {
	t.Parallel()
	var got jobs[argsV3]
	row := taskimpl.Row(versioned(toV2), got.handle)
	require.Equal(t, []dispatch.Version{{Number: 1, Capability: math.MinInt64}, {Number: 2, Capability: 2}, {Number: 3, Capability: 3}}, row.Versions)
	require.Equal(t, 3, row.Current)
	for version, raw := range map[int]string{1: `{"Name":"a"}`, 2: `{"First":"a!","Last":"x"}`, 3: `{"First":"a!","New":1}`} {
		require.NoError(t, row.Decode(version, []byte(raw)))
		require.NoError(t, row.Run(t.Context(), &dispatch.Delivery{Kind: "k", Version: version, Args: []byte(raw)}))
		job := got[len(got)-1]
		require.Equal(t, argsV3{"a!"}, job.Args)
		require.Equal(t, version, job.Version)
	}
}

// What cannot be decoded never reaches the handler, and is told from what a
// handler returns.
func TestUndecodable(t *testing.T) {
	t.Parallel()
	upgrade := func(f func(argsV1) (argsV2, error)) dispatch.Row {
		return taskimpl.Row(versioned(f), func(context.Context, *task.Job[argsV3]) error { panic("called") })
	}
	for name, tt := range map[string]struct {
		row     dispatch.Row
		version int
		raw     string
		want    string
		is      error
	}{
		"unknown version":  {upgrade(toV2), 4, `{}`, `this binary does not know version 4 of k`, nil},
		"old payload":      {upgrade(toV2), 1, `{"Name":1}`, `json: cannot unmarshal number into Go struct field argsV1.Name of type string`, nil},
		"current payload":  {upgrade(toV2), 3, `{"First":1}`, `json: cannot unmarshal number into Go struct field argsV3.First of type string`, nil},
		"upgrader fails":   {upgrade(func(argsV1) (argsV2, error) { return argsV2{}, errUpgrade }), 1, `{}`, `upgrade it from version 1: no last name`, errUpgrade},
		"upgrader panics":  {upgrade(func(argsV1) (argsV2, error) { panic("boom") }), 1, `{}`, `upgrade it from version 1: panic: boom (versions_test.go:`, nil},
		"runtime panic":    {upgrade(func(a argsV1) (argsV2, error) { return argsV2{First: a.Name[:1]}, nil }), 1, `{}`, `upgrade it from version 1: panic: runtime error: slice bounds out of range [:1] with length 0 (versions_test.go:`, nil},
		"an error panics":  {upgrade(func(argsV1) (argsV2, error) { panic(badError{}) }), 1, `{}`, `upgrade it from version 1: panic: %!v(PANIC=Error method: bad) (versions_test.go:`, nil},
		"transient":        {upgrade(func(argsV1) (argsV2, error) { return argsV2{}, task.Transient(errUpgrade) }), 1, `{}`, `upgrade it from version 1: `, errUpgrade},
		"unmarshal panics": {taskimpl.Row(kind[fussy](), nil), 1, `{}`, `panic: fussy (versions_test.go:`, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			raw := []byte(tt.raw)
			err := tt.row.Run(t.Context(), &dispatch.Delivery{Kind: "k", Version: tt.version, Args: raw})
			failed, ok := errors.AsType[*dispatch.DecodeError](err)
			require.True(t, ok, "%v", err)
			require.Equal(t, "k", failed.Kind)
			require.Equal(t, tt.version, failed.Version)
			require.ErrorContains(t, failed.Err, tt.want)
			if tt.is != nil {
				require.ErrorIs(t, err, tt.is)
			}
			require.ErrorContains(t, tt.row.Decode(tt.version, raw), tt.want)
			require.Equal(t, tt.raw, string(raw))
		})
	}
}

type badError struct{}

func (badError) Error() string { panic("bad") }

func TestStepsStopAtTheFirstFailure(t *testing.T) {
	t.Parallel()
	_, err := taskimpl.Upgrade(1, argsV1{}, errUpgrade, func(argsV1) (argsV2, error) { panic("called") })
	require.Equal(t, errUpgrade, err)
	_, err = taskimpl.Convert[argsV3](argsV2{}, errUpgrade)
	require.Equal(t, errUpgrade, err)
	_, err = taskimpl.Convert[argsV3](math.NaN(), nil)
	require.ErrorContains(t, err, "encode what the upgrader returned: json: unsupported value: NaN")
	_, err = taskimpl.Convert[argsV3](struct{ First int }{1}, nil)
	require.ErrorContains(t, err, "cannot unmarshal number")
}

// A marshaler of a pointer receiver is called on the way, too.
func TestConvertEncodesAsAnEnqueueDoes(t *testing.T) {
	t.Parallel()
	got, err := taskimpl.Convert[struct{ N json.Number }](struct{ N quoted }{7}, nil)
	require.NoError(t, err)
	require.Equal(t, json.Number("7"), got.N)
}

type quoted int

func (*quoted) MarshalText() ([]byte, error) { return []byte("7"), nil }

func TestAliasRow(t *testing.T) {
	t.Parallel()
	var got jobs[argsV3]
	k := versioned(toV2)
	row := taskimpl.AliasRow(taskimpl.Alias{Kind: "old", Versions: []taskimpl.AliasVersion{{Version: 4, ID: 1 << 63, As: 1}, {Version: 5, ID: 9, As: 3}}}, k, got.handle)
	require.Equal(t, "old", row.Kind)
	require.Equal(t, k.Queue, row.Queue)
	require.Equal(t, k.Policy, row.Policy)
	require.Equal(t, []dispatch.Version{{Number: 4, Capability: math.MinInt64}, {Number: 5, Capability: 9}}, row.Versions)
	require.Zero(t, row.Current, "nothing enqueues it any more")

	for version, raw := range map[int]string{4: `{"Name":"a"}`, 5: `{"First":"a!"}`} {
		require.NoError(t, row.Decode(version, []byte(raw)))
		require.NoError(t, row.Run(t.Context(), &dispatch.Delivery{Kind: "old", Version: version, Args: []byte(raw)}))
		job := got[len(got)-1]
		require.Equal(t, argsV3{"a!"}, job.Args)
		require.Equal(t, "old", job.Kind)
		require.Equal(t, version, job.Version)
	}
	err := row.Run(t.Context(), &dispatch.Delivery{Kind: "old", Version: 1, Args: []byte(`{}`)})
	failed, ok := errors.AsType[*dispatch.DecodeError](err)
	require.True(t, ok)
	require.EqualError(t, failed.Err, "this binary does not know version 1 of old")
}
