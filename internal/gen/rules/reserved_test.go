package rules_test

import (
	"encoding/json"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawlgo/pawl/internal/gen/rules"
)

func TestReservedNames(t *testing.T) {
	t.Parallel()
	type lines struct {
		Price struct {
			Cents int64 `json:"cents"`
		} `json:"price"`
		Count int `json:"count"`
	}
	type v1 struct {
		Kept  int                 `json:"kept"`
		URL   string              `json:"url"`
		Lines []map[string]*lines `json:"lines"`
		Node  nodeV1              `json:"x.y"`
	}
	type v2 struct {
		Kept  int                    `json:"kept"`
		Lines []map[string]*struct{} `json:"lines"`
		Node  struct {
			Next *struct{} `json:"next"`
			Kids []nodeV1
		} `json:"x.y"`
	}
	reserved := rules.Removed(shapeOf(t, v1{}), shapeOf(t, v2{}))
	require.Equal(t, []string{"lines[]{}.count", "lines[]{}.price", "url", "x%2Ey.next.Kids", "x%2Ey.next.next", "x%2Ey.next.value", "x%2Ey.value"},
		slices.Sorted(maps.Keys(reserved)))
	require.Empty(t, rules.CompareReserved(reserved, shapeOf(t, v2{})))

	// They stand in the lock.
	raw, err := json.Marshal(reserved)
	require.NoError(t, err)
	var read map[string]rules.Reserved
	require.NoError(t, json.Unmarshal(raw, &read))
	require.Equal(t, reserved, read)

	// All of them again, as they were.
	findings := rules.CompareReserved(read, shapeOf(t, v1{}))
	require.Len(t, findings, len(reserved))
	require.Equal(t, rules.Compatible, rules.Worst(findings))

	type v3 struct {
		Kept  int                              `json:"kept"`
		URL   struct{ Host string }            `json:"url"`
		Lines []map[string]struct{ Price int } `json:"lines"`
		Node  int                              `json:"x.y"`
	}
	require.Equal(t, []string{
		`lines[]{}.price reserved-name-reused: "price" had the type lines/Price before it was removed, and "Price" has int`,
		`url reserved-name-reused: "url" had the type string before it was removed, and "url" has v3/URL`,
	}, found(rules.CompareReserved(reserved, shapeOf(t, v3{}))))
	require.Error(t, json.Unmarshal([]byte(`{"url":"text"}`), new(v3)), "a job of the first version")

	// In another letter case an old value would be found all the same.
	type v4 struct{ Url string }
	require.Equal(t, []string{`url reserved-name-reused: "url" had the type string before it was removed, and "Url" has string`},
		found(rules.CompareReserved(reserved, shapeOf(t, v4{}))))

	// The option string is a part of the wire form.
	require.Equal(t, []string{"a reserved-name-reused: \"a\" had the type int before it was removed, and \"a\" has int"},
		found(rules.CompareReserved(rules.Removed(shapeOf(t, of(1)), shapeOf(t, base{})), shapeOf(t, quoted[int]{}))))
}

func TestWhatIsReserved(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		old, new any
		want     []string
	}{
		"a field under another name": {of(1), struct {
			A int `json:"b"`
		}{}, []string{"a"}},
		"a field in another case": {of(1), struct{ A int }{}, nil},
		"fields that were nested": {struct{ base }{}, struct {
			Base base `json:"base"`
		}{}, []string{"id"}},
		"an object that was opened": {struct {
			Base base `json:"base"`
		}{}, struct{ base }{}, []string{"base"}},
		"the parts of what became something else": {of(base{}), of(1), nil},
	} {
		require.Equal(t, c.want, slices.Sorted(maps.Keys(rules.Removed(shapeOf(t, c.old), shapeOf(t, c.new)))), name)
	}
}
