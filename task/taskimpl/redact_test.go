package taskimpl_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawlgo/pawl/internal/dispatch"
	"github.com/pawlgo/pawl/task/taskimpl"
)

// What is said of a payload that cannot be decoded has none of its values, where
// some are not to be shown.
func TestDecodeErrorsWithoutValues(t *testing.T) {
	t.Parallel()
	type secret struct {
		Card int8 `json:"card"`
	}
	k := kind(func(k *taskimpl.Kind[secret]) {
		k.Decode = func(version int, raw []byte) (secret, error) {
			switch version {
			case 2:
				return secret{}, errors.New("4111 is no card")
			case 3:
				panic("4111")
			case 4:
				return secret{}, taskimpl.UnknownVersion("k", 4)
			}
			return taskimpl.As[secret](raw)
		}
	})
	payload := []byte(`{"card": 4111}`)
	require.ErrorContains(t, taskimpl.Row(k, nil).Decode(1, payload), "4111")
	k.Redact = `[["card"]]`
	alias := taskimpl.Alias{Kind: "old", Versions: []taskimpl.AliasVersion{{Version: 1, As: 1}, {Version: 2, As: 2}}}
	for _, row := range []dispatch.Row{taskimpl.Row(k, nil), taskimpl.AliasRow(alias, k, nil), taskimpl.TxRow(k, nil)} {
		for version, want := range map[int]string{1: "a JSON number does not fit card, which is of the type int8", 2: "*errors.errorString, is left out"} {
			err := row.Decode(version, payload)
			require.ErrorContains(t, err, want)
			require.NotContains(t, err.Error(), "4111")
		}
		require.Equal(t, []dispatch.Redaction{{Version: 1, Paths: `[["card"]]`}}, row.Redactions)
	}
	err := taskimpl.Row(k, nil).Decode(3, payload)
	require.ErrorContains(t, err, "is left out")
	require.NotContains(t, err.Error(), "4111")
	require.ErrorContains(t, taskimpl.Row(k, nil).Decode(4, payload), "does not know version 4 of k")
}
