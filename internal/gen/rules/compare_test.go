package rules_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/pawlgo/pawl/internal/gen/rules"
	"github.com/pawlgo/pawl/internal/gen/shape"
)

type level string

type twoBases struct {
	A base `json:"a"`
	B base `json:"b"`
}

type splitBases struct {
	A base `json:"a"`
	B struct {
		Number int `json:"id"`
	} `json:"b"`
}

// unseenPairs has a pair of types for each change that is none.
var unseenPairs = map[string][2]any{
	"a Go field got another name and kept its JSON name": {of(1), struct {
		B int `json:"a"`
	}{}},
	"a type got another name, or was split in two of the same fields":     {twoBases{}, splitBases{}},
	"fields changed their order":                                          {struct{ A, B int }{}, struct{ B, A int }{}},
	"a string became a named string type without methods, or the reverse": {of(""), of(level(""))},
	"an int64 became a time.Duration, or the reverse":                     {of(int64(0)), of(time.Second)},
	"an embedded struct was replaced by the same fields, or the reverse":  {struct{ base }{}, base{}},
	"a struct became an instantiated generic one with the same fields": {struct{ X field[level] }{}, struct {
		X struct {
			B string `json:"a"`
		}
	}{}},
}

// found writes findings as lines of path, rule and detail.
func found(findings []rules.Finding) []string {
	all := []string{}
	for _, f := range findings {
		line := f.Path + " " + f.Rule.ID + ": " + f.Detail
		if f.Warning {
			line += " (!)"
		}
		all = append(all, line)
	}
	return all
}

func TestPaths(t *testing.T) {
	t.Parallel()
	type retryV1 struct {
		Max int32 `json:"max"`
	}
	type retryV2 struct {
		Max int64 `json:"max"`
	}
	type lineV1 struct {
		N int32 `json:"n"`
	}
	type lineV2 struct {
		N int64 `json:"n"`
	}
	type otherV1 struct {
		V *[]int32 `json:"v"`
	}
	type otherV2 struct {
		V *[]int64 `json:"v"`
	}
	type v1 struct {
		Retry  *retryV1             `json:"retry"`
		Items  []lineV1             `json:"items"`
		ByKey  map[int32]*otherV1   `json:"by_key"`
		Grid   [2][]map[string]int8 `json:"grid"`
		Strang int8                 `json:"a.b [c]{d}%=f"`
	}
	type v2 struct {
		Retry  *retryV2              `json:"retry"`
		Items  []lineV2              `json:"items"`
		ByKey  map[int64]*otherV2    `json:"by_key"`
		Grid   [2][]map[string]int16 `json:"grid"`
		Strang int16                 `json:"a.b [c]{d}%=f"`
	}
	require.Equal(t, []string{
		"a%2Eb%20%5Bc%5D%7Bd%7D%25%3Df integer-widened: int8 became int16",
		"by_key{key} integer-widened: int32 became int64",
		"by_key{}.v[] integer-widened: int32 became int64",
		"grid[][]{} integer-widened: int8 became int16",
		"items[].n integer-widened: int32 became int64",
		"retry.max integer-widened: int32 became int64",
	}, found(rules.Compare(shapeOf(t, v1{}), shapeOf(t, v2{}))))

	require.Equal(t, []string{". marshaler-added: base became github.com/pawlgo/pawl/internal/gen/rules_test.volume"},
		found(rules.Compare(shapeOf(t, base{}), shapeOf(t, volume{}))))
	require.Equal(t, []string{"[] integer-narrowed: int became int8"}, found(rules.Compare(shapeOf(t, []int{}), shapeOf(t, []int8{}))))
}

type nodeV1 struct {
	Next  *nodeV1 `json:"next"`
	Kids  []nodeV1
	Value int `json:"value"`
}

type nodeV2 struct {
	Next  *nodeV2 `json:"next"`
	Kids  []nodeV2
	Value string `json:"value"`
}

func TestRecursionEnds(t *testing.T) {
	t.Parallel()
	require.Empty(t, rules.Compare(shapeOf(t, nodeV1{}), shapeOf(t, nodeV1{})))
	require.Equal(t, []string{"value number-to-string: int became string"}, found(rules.Compare(shapeOf(t, nodeV1{}), shapeOf(t, nodeV2{}))))
	// Both ways lead to one struct: it is judged where the way is shorter.
	type oldPayload struct {
		A struct{ Deep nodeV1 }
		B nodeV1
	}
	type newPayload struct {
		A struct{ Deep nodeV2 }
		B nodeV2
	}
	require.Equal(t, []string{"B.value number-to-string: int became string"}, found(rules.Compare(shapeOf(t, oldPayload{}), shapeOf(t, newPayload{}))))
}

func TestCombinations(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		old, new any
		want     []string
	}{
		"a pointer to another type": {of(int32(1)), of(new("")), []string{"a number-to-string: int32 became string", "a pointer-added: int32 became *string"}},
		"two pointers at once":      {of(1), of(new(new(1))), []string{"a pointer-added: int became **int"}},
		"renamed and retyped": {of(1), struct {
			A string `json:"b"`
		}{}, []string{`a json-name-changed: "a" became "b"`, "a number-to-string: int became string"}},
		"both names changed": {of("x"), struct {
			B string `json:"b"`
		}{}, []string{
			`a field-removed: "a", of the type string, is gone, and "b" of the same type is new: if that is the same value under another name, an old job loses it (!)`,
			`b field-added: "b", of the type string, is new`,
		}},
		"names that are swapped are types that are swapped": {
			struct{ A, B int }{}, struct {
				A int `json:"B"`
				B int `json:"A"`
			}{}, []string{}},
		"a struct that is embedded no more and shadowed in part": {
			struct {
				base
				field[int]
			}{}, struct {
				Base struct {
					base
					field[int]
				} `json:"base"`
				A int `json:"a"`
			}{}, []string{"id fields-nested: it is now at base.id"}},
		"omitempty where nil and empty differ": {of([]int{}), omitempty[[]int]{}, []string{"a omitempty-changed: omitempty was added (!)"}},
		"omitempty on a pointer":               {omitempty[*int]{}, of(new(1)), []string{"a omitempty-changed: omitempty was removed (!)"}},
		"omitzero and a zero of its own":       {of(time.Time{}), omitzero[time.Time]{}, []string{"a omitzero-changed: omitzero was added (!)"}},
		"a pointer to a number that was quoted": {quoted[*int]{}, of(""), []string{
			"a pointer-removed: *string became string", "a quoted-to-string: *int became string"}},
		"a number that was quoted and is any JSON": {quoted[int]{}, of(json.RawMessage{}), []string{"a to-raw: int became json.RawMessage"}},
		"any JSON behind a pointer":                {of(json.RawMessage{}), of(new(json.RawMessage{})), []string{"a pointer-added: json.RawMessage became *json.RawMessage"}},
		"bytes that were an array":                 {of([2]byte{}), of([]byte{}), []string{"a array-to-slice: [2]uint8 became []byte"}},
		"an array of other elements":               {of([2]int8{}), of([]byte{}), []string{"a array-to-slice: [2]int8 became []byte", "a[] sign-changed: int8 became uint8"}},
		"integers without a size are of either":    {of(int64(1)), of(1), []string{"a integer-narrowed: int64 became int"}},
		"uint and uintptr are alike":               {of(uint(1)), of(uintptr(1)), []string{}},
		"a UUID that was a key":                    {of(map[uuid.UUID]int{}), of(map[string]int{}), []string{"a{key} map-key-to-string: github.com/google/uuid.UUID became string"}},
		"bytes that became an array":               {of([]byte{}), of([2]int{}), []string{"a bytes-to-list: []byte became [2]int"}},
		"a key that is checked":                    {of(map[string]int{}), of(map[checked]int{}), []string{"a{key} map-key-from-string: string became github.com/pawlgo/pawl/internal/gen/rules_test.checked"}},
		"another key that is checked":              {of(map[volume]int{}), of(map[weight]int{}), []string{"a{key} marshaler-swapped: github.com/pawlgo/pawl/internal/gen/rules_test.volume became github.com/pawlgo/pawl/internal/gen/rules_test.weight"}},
	} {
		require.Equal(t, c.want, found(rules.Compare(shapeOf(t, c.old), shapeOf(t, c.new))), name)
	}
}

func TestModuleChanged(t *testing.T) {
	t.Parallel()
	at := func(module string) *shape.Shape {
		return &shape.Shape{Root: shape.Node{Kind: shape.Opaque, Ref: "github.com/google/uuid.UUID", Module: module}}
	}
	findings := rules.Compare(at("github.com/google/uuid@v1.5.0"), at("github.com/google/uuid@v1.6.0"))
	require.Equal(t, []string{". module-changed: github.com/google/uuid.UUID of github.com/google/uuid@v1.5.0 is now of github.com/google/uuid@v1.6.0 (!)"}, found(findings))
	require.Equal(t, rules.Compatible, rules.Worst(findings))
	require.Empty(t, rules.Compare(at("github.com/google/uuid@v1.6.0"), at("github.com/google/uuid@v1.6.0")))
}

func TestFindingsAreMessages(t *testing.T) {
	t.Parallel()
	findings := rules.Compare(shapeOf(t, of(int64(1))), shapeOf(t, of(1.0)))
	require.Equal(t, "a: int64 became float64 (integer-to-float, breaking): an old job's 9007199254740993 would read as 9007199254740992 without an error; "+
		"write the upgrader for the frozen old type, or add a field under a new JSON name and keep this one", findings[0].String())
	require.Equal(t, "Verdict(9)", rules.Verdict(9).String())
}
