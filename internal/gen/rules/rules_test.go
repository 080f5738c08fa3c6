package rules_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawlgo/pawl/internal/gen/rules"
	"github.com/pawlgo/pawl/internal/gen/shape"
)

var update = flag.Bool("update", false, "write the reference page anew")

const page = "../../../docs/payload-rules.md"

func TestPage(t *testing.T) {
	t.Parallel()
	if *update {
		require.NoError(t, os.WriteFile(page, []byte(rules.Page()), 0o644))
	}
	written, err := os.ReadFile(page)
	require.NoError(t, err)
	require.Equal(t, rules.Page(), string(written), "record it anew with -update")
}

func TestTable(t *testing.T) {
	t.Parallel()
	kebab := regexp.MustCompile(`^[a-z]+(-[a-z]+)+$`)
	seen := map[string]bool{}
	for _, r := range rules.All() {
		require.Regexp(t, kebab, r.ID)
		require.False(t, seen[r.ID], r.ID)
		seen[r.ID] = true
		found, ok := rules.Lookup(r.ID)
		require.True(t, ok)
		require.Equal(t, r, *found)
		for _, text := range []string{r.Change, r.Reason, r.Remedy} {
			require.NotEmpty(t, text, r.ID)
			require.False(t, strings.HasSuffix(text, "."), "%s: a text is a fragment: %s", r.ID, text)
		}
		// A silent loss is never judged milder than an error.
		switch {
		case r.Back != rules.Kept:
			require.Equal(t, rules.Breaking, r.Verdict, r.ID)
		case r.Forward != rules.Kept:
			require.Equal(t, rules.BackwardOnly, r.Verdict, r.ID)
		case r.ID != "json-case-changed":
			require.Equal(t, rules.Compatible, r.Verdict, r.ID)
		}
	}
	_, ok := rules.Lookup("field-moved")
	require.False(t, ok)
	all := rules.All()
	all[0].ID = "changed"
	require.NotEqual(t, "changed", rules.All()[0].ID)
}

func shapeOf(t testing.TB, v any) *shape.Shape {
	t.Helper()
	s, err := shape.FromReflect(reflect.TypeOf(v))
	require.NoError(t, err)
	return s
}

func ids(findings []rules.Finding) []string {
	all := []string{}
	for _, f := range findings {
		all = append(all, f.Rule.ID)
	}
	return all
}

// TestEveryRule finds each rule where it belongs and not where it does not, and
// measures with encoding/json that its effects are as the table says.
func TestEveryRule(t *testing.T) {
	t.Parallel()
	for _, r := range rules.All() {
		t.Run(r.ID, func(t *testing.T) {
			t.Parallel()
			f, ok := fixtures[r.ID]
			if !ok {
				require.Contains(t, withoutFixture, r.ID)
				return
			}
			findings := rules.Compare(shapeOf(t, f.old), shapeOf(t, f.new))
			require.Equal(t, []string{r.ID}, ids(findings))
			require.Equal(t, f.path, findings[0].Path)
			require.Equal(t, f.detail, findings[0].Detail)
			require.Equal(t, r.Verdict, rules.Worst(findings))

			almost := rules.Compare(shapeOf(t, f.almost[0]), shapeOf(t, f.almost[1]))
			require.NotContains(t, ids(almost), r.ID)

			require.Equal(t, r.Back, effect(t, f.old, f.new, f.back), "an old payload that meets new code")
			require.Equal(t, r.Forward, effect(t, f.new, f.old, f.forward), "a new payload that meets old code")
		})
	}
	for id := range fixtures {
		_, ok := rules.Lookup(id)
		require.True(t, ok, id)
	}
}

// effect says what becomes of a value that code with another type reads. What
// that code has then is looked at as it would write it.
func effect(t *testing.T, sent, receiver any, want string) rules.Effect {
	t.Helper()
	wire, err := json.Marshal(&sent)
	require.NoError(t, err)
	got := reflect.New(reflect.TypeOf(receiver))
	if json.Unmarshal(wire, got.Interface()) != nil {
		return rules.Fails
	}
	again, err := json.Marshal(got.Interface())
	require.NoError(t, err)
	if want == "" {
		want = string(wire)
	}
	if reflect.DeepEqual(decode(t, []byte(want)), decode(t, again)) {
		return rules.Kept
	}
	return rules.Lost
}

// decode decodes any JSON without a loss.
func decode(t testing.TB, raw []byte) any {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	require.NoError(t, d.Decode(&v))
	return v
}

// TestUnseen shows that what the page calls no change is none.
func TestUnseen(t *testing.T) {
	t.Parallel()
	for change, pair := range unseenPairs {
		require.True(t, slices.ContainsFunc(rules.Unseen(), func(n rules.Note) bool { return n.Change == change }), change)
		require.Empty(t, rules.Compare(shapeOf(t, pair[0]), shapeOf(t, pair[1])), change)
		require.Empty(t, rules.Compare(shapeOf(t, pair[1]), shapeOf(t, pair[0])), change)
	}
	require.Len(t, unseenPairs, len(rules.Unseen()))
}
