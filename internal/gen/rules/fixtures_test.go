package rules_test

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/pawlgo/pawl/internal/gen/rules"
)

// fixture shows one rule. Its values are the worst that the rule speaks of: old
// meets new code, and new meets old code.
type fixture struct {
	old, new any
	// back and forward are the JSON of what ought to arrive, where that is not what
	// was sent.
	back, forward string
	path          string
	detail        string
	// almost is a pair of the same look that the rule does not fit.
	almost [2]any
}

// Types that encode themselves.
type (
	volume  struct{ liters int } // as the text "5l"
	weight  struct{ grams int }  // as the text "5g"
	checked string               // any string to write, but no unknown one to read
)

func (v volume) MarshalText() ([]byte, error) { return fmt.Appendf(nil, "%dl", v.liters), nil }
func (v *volume) UnmarshalText(text []byte) error {
	_, err := fmt.Sscanf(string(text), "%dl", &v.liters)
	return err
}
func (w weight) MarshalText() ([]byte, error) { return fmt.Appendf(nil, "%dg", w.grams), nil }
func (w *weight) UnmarshalText(text []byte) error {
	_, err := fmt.Sscanf(string(text), "%dg", &w.grams)
	return err
}
func (c *checked) UnmarshalText(text []byte) error {
	if *c = checked(text); *c != "on" && *c != "off" {
		return fmt.Errorf("unknown state %q", text)
	}
	return nil
}

type base struct {
	ID int `json:"id"`
}

// field is a struct of one field.
type field[T any] struct {
	A T `json:"a"`
}

type quoted[T any] struct {
	A T `json:"a,string"`
}

type omitempty[T any] struct {
	A T `json:"a,omitempty"`
}

type omitzero[T any] struct {
	A T `json:"a,omitzero"`
}

func of[T any](v T) field[T] { return field[T]{v} }

var id = uuid.MustParse("018f4e2a-7c3b-7d60-9a41-5a0e5b1c2d3f")

var fixtures = map[string]fixture{
	"field-added": {
		old: struct{}{}, back: `{"a":0}`,
		new: of(5), forward: `{}`,
		path: "a", detail: `"a", of the type int, is new`,
		almost: [2]any{of(5), of(5)}},
	"field-removed": {
		old: of(5), back: `{}`,
		new: struct{}{}, forward: `{"a":5}`,
		path: "a", detail: `"a", of the type int, is gone`,
		almost: [2]any{of(5), struct {
			B int `json:"a"`
		}{}}},
	"json-name-changed": {
		old: of("x"), back: `{"b":"x"}`,
		new: struct {
			A string `json:"b"`
		}{"x"}, forward: `{"a":"x"}`,
		path: "a", detail: `"a" became "b"`,
		almost: [2]any{of("x"), struct {
			B string `json:"b"`
		}{}}},
	"json-case-changed": {
		old: of("x"), back: `{"A":"x"}`,
		new: struct{ A string }{"x"}, forward: `{"a":"x"}`,
		path: "a", detail: `"a" became "A"`,
		almost: [2]any{of("x"), struct{ B string }{}}},
	"fields-nested": {
		old: struct{ base }{base{7}}, back: `{"base":{"id":7}}`,
		new: struct {
			Base base `json:"base"`
		}{base{7}}, forward: `{"id":7}`,
		path: "id", detail: "it is now at base.id",
		almost: [2]any{struct{ base }{}, struct {
			Base struct {
				ID int `json:"another_id"`
			} `json:"base"`
		}{}}},
	"fields-unnested": {
		old: struct {
			Base *base `json:"base"`
		}{&base{7}}, back: `{"id":7}`,
		new: struct{ base }{base{7}}, forward: `{"base":{"id":7}}`,
		path: "base.id", detail: "it is now at id",
		almost: [2]any{struct {
			Base field[int] `json:"base"`
		}{}, struct{ base }{}}},
	"omitempty-changed": {
		old: of(0), back: `{}`,
		new: omitempty[int]{}, forward: `{"a":0}`,
		path: "a", detail: "omitempty was added",
		almost: [2]any{of(0), omitzero[int]{}}},
	"omitzero-changed": {
		old: omitzero[int]{}, back: `{"a":0}`,
		new: of(0), forward: `{}`,
		path: "a", detail: "omitzero was removed",
		almost: [2]any{omitempty[int]{}, of(0)}},
	"quoted-changed": {
		old: of(5), new: quoted[int]{5},
		path: "a", detail: "int without the option string became int with it",
		almost: [2]any{quoted[int]{}, quoted[int64]{}}},
	"quoted-to-string": {
		old: quoted[int]{5}, new: of("five"),
		path: "a", detail: "int became string",
		almost: [2]any{quoted[int]{}, quoted[string]{}}},

	"integer-widened": {
		old: of(int32(-1 << 31)), new: of(int64(1 << 40)),
		path: "a", detail: "int32 became int64",
		almost: [2]any{of(int64(0)), of(int32(0))}},
	"integer-narrowed": {
		old: of(int64(3000000000)), new: of(int32(-5)),
		path: "a", detail: "int64 became int32",
		almost: [2]any{of(int(0)), of(int64(0))}},
	"unsigned-to-signed": {
		old: of(uint32(1<<32 - 1)), new: of(int64(-1)),
		path: "a", detail: "uint32 became int64",
		almost: [2]any{of(uint32(0)), of(int32(0))}},
	"sign-changed": {
		old: of(-1), new: of(uint(1<<64 - 1)),
		path: "a", detail: "int became uint",
		almost: [2]any{of(uint16(0)), of(int32(0))}},
	"integer-to-float": {
		old: of(int64(9007199254740993)), new: of(1.5),
		path: "a", detail: "int64 became float64",
		almost: [2]any{of(int32(0)), of(float64(0))}},
	"integer-to-wider-float": {
		old: of(uint16(1<<16 - 1)), new: of(float32(1.5)),
		path: "a", detail: "uint16 became float32",
		almost: [2]any{of(int32(0)), of(float32(0))}},
	"float-to-integer": {
		old: of(1.5), new: of(int64(9007199254740993)),
		path: "a", detail: "float64 became int64",
		almost: [2]any{of(0), of(1.5)}},
	"float-widened": {
		old: of(float32(0.1)), new: of(16777217.0),
		path: "a", detail: "float32 became float64",
		almost: [2]any{of(0.1), of(float32(0.1))}},
	"float-narrowed": {
		old: of(16777217.0), new: of(float32(0.1)),
		path: "a", detail: "float64 became float32",
		almost: [2]any{of(float32(0.1)), of(0.1)}},
	"number-to-string": {
		old: of(5 * time.Second), new: of("5s"),
		path: "a", detail: "int64 became string",
		almost: [2]any{of("5"), of(5)}},
	"string-to-number": {
		old: of("5"), new: of(5.5),
		path: "a", detail: "string became float64",
		almost: [2]any{of(5), of("5")}},
	"bool-changed": {
		old: of(true), new: of("true"),
		path: "a", detail: "bool became string",
		almost: [2]any{of(true), of(new(true))}},

	"pointer-added": {
		old: of(0), new: of[*int](nil),
		path: "a", detail: "int became *int",
		almost: [2]any{of[*int](nil), of(0)}},
	"pointer-removed": {
		old: of[*int](nil), new: of(0),
		path: "a", detail: "*int became int",
		almost: [2]any{of(0), of[*int](nil)}},

	"array-length-changed": {
		old: of([2]int{1, 2}), new: of([3]int{1, 2, 3}),
		path: "a", detail: "[2]int became [3]int",
		almost: [2]any{of([2]int{}), of([2]int64{})}},
	"array-to-slice": {
		old: of([2]int{1, 2}), new: of([]int{1, 2, 3}),
		path: "a", detail: "[2]int became []int",
		almost: [2]any{of([]int{}), of([2]int{})}},
	"slice-to-array": {
		old: of([]int{1, 2, 3}), new: of([2]int{1, 2}),
		path: "a", detail: "[]int became [2]int",
		almost: [2]any{of([2]int{}), of([]int{})}},
	"map-key-to-string": {
		old: of(map[int]bool{7: true}), new: of(map[string]bool{"seven": true}),
		path: "a{key}", detail: "int became string",
		almost: [2]any{of(map[string]int{}), of(map[string]string{})}},
	"map-key-from-string": {
		old: of(map[string]bool{"seven": true}), new: of(map[int]bool{7: true}),
		path: "a{key}", detail: "string became int",
		almost: [2]any{of(map[int]bool{}), of(map[string]bool{})}},
	"map-to-struct": {
		old: of(map[string]int{"b": 1}), new: of(of("text")),
		path: "a", detail: "map[string]int became field[string]",
		almost: [2]any{of(map[string]int{}), of(map[string]field[int]{})}},
	"struct-to-map": {
		old: of(of("text")), new: of(map[string]int{"b": 1}),
		path: "a", detail: "field[string] became map[string]int",
		almost: [2]any{of(map[string]int{}), of(of("text"))}},
	"structure-changed": {
		old: of([]int{1}), new: of(map[string]int{"b": 1}),
		path: "a", detail: "[]int became map[string]int",
		almost: [2]any{of([]int{}), of([]string{})}},

	"bytes-to-string": {
		old: of([]byte("hi")), back: `{"a":"hi"}`, new: of("hi"),
		path: "a", detail: "[]byte became string",
		almost: [2]any{of("hi"), of([]byte{})}},
	"string-to-bytes": {
		old: of("hi"), new: of([]byte("hi")), forward: `{"a":"hi"}`,
		path: "a", detail: "string became []byte",
		almost: [2]any{of([]byte{}), of("hi")}},
	"bytes-to-list": {
		old: of([]byte("hi")), new: of([]uint16{256}),
		path: "a", detail: "[]byte became []uint16",
		almost: [2]any{of([]byte{}), of("")}},
	"list-to-bytes": {
		old: of([]uint16{256}), new: of([]byte("hi")),
		path: "a", detail: "[]uint16 became []byte",
		almost: [2]any{of([2]byte{}), of([]byte{})}},
	"to-raw": {
		old: of(5), new: of(json.RawMessage(`{}`)),
		path: "a", detail: "int became json.RawMessage",
		almost: [2]any{of(json.RawMessage(`1`)), of(5)}},
	"from-raw": {
		old: of(json.RawMessage(`{}`)), new: of(5),
		path: "a", detail: "json.RawMessage became int",
		almost: [2]any{of(json.RawMessage(`1`)), of(new(json.RawMessage(`1`)))}},

	"marshaler-added": {
		old: of(5), new: of(volume{5}),
		path: "a", detail: "int became github.com/pawlgo/pawl/internal/gen/rules_test.volume",
		almost: [2]any{of("5"), of(volume{5})}},
	"marshaler-removed": {
		old: of(volume{5}), new: of(5),
		path: "a", detail: "github.com/pawlgo/pawl/internal/gen/rules_test.volume became int",
		almost: [2]any{of(id), of("text")}},
	"marshaler-swapped": {
		old: of(volume{5}), new: of(weight{5}),
		path: "a", detail: "github.com/pawlgo/pawl/internal/gen/rules_test.volume became github.com/pawlgo/pawl/internal/gen/rules_test.weight",
		almost: [2]any{of(volume{5}), of(volume{5})}},
	"string-to-checked": {
		old: of("unknown"), new: of(checked("on")),
		path: "a", detail: "string became github.com/pawlgo/pawl/internal/gen/rules_test.checked",
		almost: [2]any{of(""), of(json.RawMessage{})}},
	"checked-to-string": {
		old: of(time.Date(2026, 11, 29, 0, 0, 0, 5, time.UTC)), new: of("tomorrow"),
		path: "a", detail: "time.Time became string",
		almost: [2]any{of(checked("on")), of("on")}},
}

// withoutFixture are the rules that two Go types cannot show.
var withoutFixture = []string{
	"reserved-name-restored", "reserved-name-reused", // TestReservedNames
	"module-changed",                                                                                            // TestModuleChanged
	rules.IdempotencyChanged, rules.OrderChanged, rules.AggregateChanged, rules.KindChanged, rules.CodecChanged, // the lock's
}
